"""Profiles in speedscope's form, sampled and evented, as many tools write them."""

from __future__ import annotations

from collections.abc import Mapping

from kernellab.common.saved_files import BadFile, json_in, text_in
from kernellab.common.saved_json import SavedData
from kernellab.profiling.profiles.growing import GrowingScope
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import TIME
from kernellab.profiling.profiles.trees import MOST_LEVELS

_NANOSECONDS: Mapping[str, float] = {
    "nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9,
}  # fmt: skip


def is_speedscope(content: bytes) -> bool:
    """Whether the bytes of a file are a profile in speedscope's form."""
    return content[:64].lstrip().startswith(b"{") and b"speedscope.app/file-format" in content


def speedscope_in(content: bytes) -> Profile:
    """The profile in the bytes of a file. Its profiles of one metric (threads) add up.

    Raises:
        BadFile: they are no JSON, or more than any profile.
        Misfit: they are no profile.
    """
    data = SavedData(json_in(text_in(content), len(content)))
    frames = [one["name"].text() for one in data["shared"]["frames"].items()]
    root = GrowingScope("ROOT", "root")
    for one in data["profiles"].items():
        unit = one["unit"].text()
        name = one["name"].text() if one.has("name") else "samples"
        metric, scale = (TIME, _NANOSECONDS[unit]) if unit in _NANOSECONDS else (name, 1.0)
        if one["type"].one_of("sampled", "evented") == "sampled":
            _sampled(one, frames, root, metric, scale)
        else:
            _evented(one, frames, root, metric, scale)
    exporter = data["exporter"].text() if data.has("exporter") else "speedscope"
    title = data["name"].text() if data.has("name") and not data["name"].is_null() else ""
    return Profile(exporter, root.grown(), name=title)


def _sampled(
    data: SavedData, frames: list[str], root: GrowingScope, metric: str, scale: float
) -> None:
    stacks, weights = data["samples"].items(), data["weights"].items()
    if len(stacks) != len(weights):
        raise data.misfit("as many weights as samples")
    for stack, weight in zip(stacks, weights):
        scope = root
        inner = stack.items()
        _check_depth(len(inner))
        for one in inner:
            scope = scope.child(one.place_in(frames), "scope")
        scope.add({metric: weight.number() * scale})


def _evented(
    data: SavedData, frames: list[str], root: GrowingScope, metric: str, scale: float
) -> None:
    stack, last = [root], data["startValue"].number()
    for one in data["events"].items():
        at = one["at"].number(last)
        stack[-1].add({metric: (at - last) * scale} if len(stack) > 1 and at > last else {})
        last = at
        name = one["frame"].place_in(frames)
        if one["type"].one_of("O", "C") == "O":
            stack.append(stack[-1].child(name, "scope"))
            _check_depth(len(stack))
        elif len(stack) > 1:
            stack.pop()


def _check_depth(levels: int) -> None:
    if levels > MOST_LEVELS:
        raise BadFile(f"is no sane file: its scopes are nested deeper than {MOST_LEVELS} levels")
