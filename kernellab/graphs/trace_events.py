"""Torch's structured trace, read: guards, graph breaks, recompilations. The events are those that a
process heard, or those of a log that `TORCH_TRACE` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kernellab.errors.positions import SourcePosition, frames_in
from kernellab.records.graphs import GraphBreak, Guard, Recompilation

Event = tuple[dict[str, Any], Any]

_BREAK_PLACE = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"^Graph Break Reason: (?P<reason>.+?)(?:\n\n|\n {2}\w|\Z)", re.S | re.M)
_HINT = re.compile(r"^\s*Hint: (?P<hint>.+?)(?=\n\s*Hint:|\n\n|\Z)", re.S | re.M)
_EXPLANATION = re.compile(
    r"^\s*Explanation: (?P<text>.+?)(?=\n\s*Hint:|\n\n\s*Developer|\Z)", re.S | re.M
)
_GUARD = re.compile(r"^(?:\| )*\+- (?P<kind>[A-Z][A-Z0-9_]+): (?P<condition>.*)$")
_MANAGER = re.compile(r"source=(?P<source>[^,\n]+)")


def frame_of(metadata: dict[str, Any]) -> str:
    """Dynamo's name of a frame's compilation: "0/1"."""
    if "frame_id" not in metadata:
        return ""
    return f"{metadata['frame_id']}/{metadata.get('frame_compile_id', 0)}"


def _artifacts(events: Iterable[Event], name: str) -> Iterator[tuple[str, Any]]:
    for metadata, payload in events:
        artifact = metadata.get("artifact")
        if isinstance(artifact, dict) and artifact.get("name") == name:
            yield frame_of(metadata), payload


def breaks_in(events: Iterable[Event]) -> tuple[GraphBreak, ...]:
    """Every graph break, once, in order."""
    found = [_break(str(text)) for _, text in _artifacts(events, "dynamo_graph_break_reason")]
    return tuple(dict.fromkeys(found))


def _break(text: str) -> GraphBreak:
    place = _BREAK_PLACE.search(text)
    position = next(reversed([*frames_in(text)]), None)
    if place is not None:
        position = SourcePosition(place["file"], int(place["line"]))
    reason = _REASON.search(text)
    explanation = _EXPLANATION.search(text)
    return GraphBreak(
        reason=_joined(reason["reason"] if reason else text.strip().partition("\n")[0]),
        explanation=_joined(explanation["text"]) if explanation else text.strip(),
        hints=tuple(_joined(hint["hint"]) for hint in _HINT.finditer(text)),
        position=position,
    )


def _joined(text: str) -> str:
    return " ".join(text.split())


def recompilations_in(events: Iterable[Event], names: dict[str, str]) -> tuple[Recompilation, ...]:
    """What was compiled again, and why.

    Args:
        events: those that were heard.
        names: frame -> name of its function.
    """
    found = []
    for frame, payload in _artifacts(events, "recompile_reasons"):
        reasons = [payload] if isinstance(payload, str) else list(payload or ())
        number = frame.partition("/")[0]
        function = names.get(frame) or names.get(f"{number}/0", "")
        found += [Recompilation(frame, function, _joined(str(one))) for one in reasons]
    return tuple(dict.fromkeys(found))


def guards_in(
    events: Iterable[Event], recompilations: Iterable[Recompilation]
) -> tuple[Guard, ...]:
    """The guards of each frame's code; those that failed later say how."""
    failures = _failures(recompilations)
    found: list[Guard] = []
    for metadata, payload in events:
        if "dynamo_cpp_guards_str" in metadata and isinstance(payload, str):
            frame = frame_of(metadata)
            found += _guards(frame, payload, failures.get(frame, ()))
    return tuple(found)


def _failures(recompilations: Iterable[Recompilation]) -> dict[str, list[str]]:
    """Frame -> how its guards failed: "0/0: tensor 'x' size mismatch at index 0 ..."."""
    failures: dict[str, list[str]] = {}
    for one in recompilations:
        frame, colon, how = one.reason.partition(": ")
        if colon:
            failures.setdefault(frame, []).append(how)
    return failures


def _guards(frame: str, text: str, failures: Iterable[str]) -> Iterator[Guard]:
    source = ""
    for line in text.splitlines():
        manager = _MANAGER.search(line)
        if "GuardManager" in line and manager:
            source = manager["source"].strip()
        guard = _GUARD.match(line)
        if guard is None or guard["kind"].endswith("MANAGER"):
            continue
        condition = guard["condition"].partition("  # ")[0].strip()
        failed = next((how for how in failures if _is_of(how, condition, source)), "")
        yield Guard(frame, guard["kind"], condition, source, failed)


def _is_of(failure: str, condition: str, source: str) -> bool:
    """Whether a guard's failure, in Dynamo's words, is of this guard."""
    if condition.startswith("check_tensor("):
        named = re.search(r"tensor '([^']+)'", failure)
        return named is not None and source in (named[1], f"L['{named[1]}']")
    return condition != "" and condition.partition(",")[0] in failure
