"""Torch's structured trace, read: guards, graph breaks, recompilations. The events are those that a
process heard, or those of a log that `TORCH_TRACE` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from kernellab.errors.positions import SourcePosition, frames_in
from kernellab.records.graphs import GraphBreak, Guard, Recompilation

Event = tuple[dict[str, Any], Any]

_BREAK_PLACE = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"^(?P<reason>.+?)(?:\n\n|\n {2}\w|\Z)", re.S | re.M)
_HEADLINE = re.compile(
    r"^(?:Graph break in user code at .*\n)?(?:Graph Break Reason: )?"
    r"(?:(?:Encountered graph break when|Failed to handle graph break)[^\n]*:\s*\n+)*"
)
"""What comes before the actual cause: where, and on which instruction, Dynamo stopped."""
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


_ARTIFACTS = ("dynamo_graph_break_reason", "recompile_reasons")


def is_reported(event: Event) -> bool:
    """Whether guards, graph breaks or recompilations are read from an event."""
    metadata, _ = event
    artifact = metadata.get("artifact")
    name = artifact.get("name") if isinstance(artifact, dict) else None
    return name in _ARTIFACTS or "dynamo_cpp_guards_str" in metadata


def breaks_in(events: Iterable[Event]) -> tuple[GraphBreak, ...]:
    """Return the distinct graph breaks, in order."""
    reasons = [_break(str(text)) for _, text in _artifacts(events, "dynamo_graph_break_reason")]
    return tuple(dict.fromkeys(reasons))


def _break(text: str) -> GraphBreak:
    place = _BREAK_PLACE.search(text)
    position = next(reversed([*frames_in(text)]), None)
    if place is not None:
        position = SourcePosition(place["file"], int(place["line"]))
    # A traceback through Dynamo follows, which says everything again.
    said = text.partition("\nUser code traceback:")[0].strip()
    cause = said[cast(re.Match[str], _HEADLINE.match(said)).end() :]
    reason, explanation = _REASON.search(cause), _EXPLANATION.search(cause)
    hints = (_joined(hint["hint"]) for hint in _HINT.finditer(cause))
    return GraphBreak(
        reason=_joined(reason["reason"] if reason else cause.partition("\n")[0]),
        explanation=_joined(explanation["text"]) if explanation else text.strip(),
        hints=tuple(dict.fromkeys(hints)),
        position=position,
    )


def _joined(text: str) -> str:
    return " ".join(text.split())


def recompilations_in(events: Iterable[Event], names: dict[str, str]) -> tuple[Recompilation, ...]:
    """Return the recompilations with their reasons.

    Args:
        events: the entries of the structured trace.
        names: frame -> name of its function.
    """
    recompilations = []
    for frame, payload in _artifacts(events, "recompile_reasons"):
        reasons = [payload] if isinstance(payload, str) else list(payload or ())
        number = frame.partition("/")[0]
        function = names.get(frame) or names.get(f"{number}/0", "")
        recompilations += [
            Recompilation(frame, function, _joined(str(reason))) for reason in reasons
        ]
    return tuple(dict.fromkeys(recompilations))


def guards_in(
    events: Iterable[Event], recompilations: Iterable[Recompilation]
) -> tuple[Guard, ...]:
    """Return the guards of each frame's code, with the failure of those that failed later."""
    failures = _failures(recompilations)
    guards: list[Guard] = []
    for metadata, payload in events:
        if "dynamo_cpp_guards_str" in metadata and isinstance(payload, str):
            frame = frame_of(metadata)
            guards += _guards(frame, payload, failures.get(frame, ()))
    return tuple(guards)


def _failures(recompilations: Iterable[Recompilation]) -> dict[str, list[str]]:
    """Return frame -> failures of its guards, as "0/0: tensor 'x' size mismatch at index 0"."""
    failures: dict[str, list[str]] = {}
    for recompilation in recompilations:
        frame, colon, how = recompilation.reason.partition(": ")
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
