"""The texts of torch's structured trace, parsed: guards, graph breaks, recompilations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kernellab.common.text import parsed
from kernellab.errors.sources import SourcePosition, frames_in
from kernellab.records.graphs import LIBRARY, GraphBreak, users_position

Event = tuple[dict[str, Any], Any]

_BREAK_PLACE = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"^(?P<reason>.+?)(?:\n\n|\n {2}\w|\Z)", re.S | re.M)
_HEADLINE = re.compile(
    r"^(?:Graph break in user code at .*\n)?(?:Graph Break Reason: )?"
    r"(?:(?:Encountered graph break (?:when|that)|Failed to handle graph break)[^\n]*:\s*\n+)*"
)
"""The text before the actual cause: where, and on which instruction, Dynamo stopped."""
_SKIPS = re.compile(r"skipping the (?:rest of the )?function", re.I)
"""In what comes before the cause, where Dynamo does not go on in another graph."""
_HINT = re.compile(r"^[ \t]*Hint: (?P<hint>.+?)(?=\n\s*Hint:|\n\n|\Z)", re.S | re.M)
_EXPLANATION = re.compile(
    r"^[ \t]*Explanation: (?P<text>.+?)(?=\n\s*Hint:|\n\n\s*Developer|\Z)", re.S | re.M
)
_RAISED = re.compile(
    r"^\s*(?:Developer debug context: raised exception"
    r"|Explanation: Backend compiler .+ failed with) (?P<exception>.+)$",
    re.M,
)
_SUBJECT = re.compile(
    r"^\s*Developer debug context: "
    r"(?:module: (?P<module>[\w.]+), qualname: |qualname: |builtin (?=\w+ \[)|(?=aten\.))"
    r"(?P<name>[\w.]+)",
    re.M,
)
"""The function or operation that a headline such as "Dynamic shape operator" does not name."""


def frame_of(metadata: dict[str, Any]) -> str:
    """Dynamo's name of a frame's compilation: "0/1"."""
    if "frame_id" not in metadata:
        return ""
    return f"{metadata['frame_id']}/{metadata.get('frame_compile_id', 0)}"


def artifacts(events: Iterable[Event], name: str) -> Iterator[tuple[str, Any]]:
    """Yield frame and payload of the artifacts of a name."""
    for metadata, payload in events:
        artifact = metadata.get("artifact")
        if isinstance(artifact, dict) and artifact.get("name") == name:
            yield frame_of(metadata), payload


POINTER = "kernellab_pointer"
"""Name of the artifact for an operation on the address of a tensor: the user's line as payload."""
GUARD_VALUES = "kernellab_guard_values"
"""Name of the artifact for a guard that failed: torch's reason, the old and the new value."""
SIZES = (
    "create_symbol",
    "create_unbacked_symbol",
    "guard_added_fast",
    "symbolic_shape_specialization",
)
"""What torch says about symbolic sizes."""
_ARTIFACTS = ("dynamo_graph_break_reason", "recompile_reasons", GUARD_VALUES)
_KINDS = ("dynamo_cpp_guards_str", "compilation_metrics", *SIZES)


def is_reported(event: Event) -> bool:
    """Whether guards, graph breaks or recompilations are read from an event."""
    metadata, _ = event
    artifact = metadata.get("artifact")
    name = artifact.get("name") if isinstance(artifact, dict) else None
    return name in _ARTIFACTS or not metadata.keys().isdisjoint(_KINDS)


def functions_in(events: Iterable[Event]) -> dict[str, tuple[str, SourcePosition]]:
    """Return frame -> name and place of its function, of frames whose compilation ended."""
    functions = {}
    for metadata, _ in events:
        match metadata.get("compilation_metrics"):
            case {"co_name": str(name), "co_filename": str(file), "co_firstlineno": int(line)}:
                functions[frame_of(metadata)] = name, SourcePosition(file, line)
    return functions


def breaks_in(events: Iterable[Event]) -> tuple[GraphBreak, ...]:
    """Return the distinct graph breaks, in order."""
    events = list(events)
    pointers = {(frame, place): words for frame, (place, words) in artifacts(events, POINTER)}
    breaks: dict[tuple[Any, ...], GraphBreak] = {}
    texts = [(frame, str(text)) for frame, text in artifacts(events, "dynamo_graph_break_reason")]
    explained = {frame for frame, text in texts if not text.startswith(_GIVEN_UP)}
    for frame, text in texts:
        if text.startswith(_GIVEN_UP) and frame in explained:
            continue
        graph_break = replace(_break(text), frame=frame)
        words = pointers.get((frame, graph_break.position))
        if words is not None and "unsupported operand type(s)" in graph_break.reason:
            graph_break = replace(
                graph_break, reason=words, explanation=_OF_POINTERS, hints=(_NO_POINTERS,)
            )
        key = graph_break.reason, graph_break.explanation, graph_break.hints, graph_break.position
        if key not in breaks or not graph_break.resumes:  # Dynamo may give a function up later
            breaks[key] = graph_break
    return tuple(breaks.values())


_GIVEN_UP = "WON'T CONVERT"
"""How the text begins that Dynamo adds after the reason why it leaves a function to Python."""
_OF_POINTERS = (
    "Dynamo traces with tensors that have no memory, so that it has no number for the address of a "
    "tensor, and reports the operation on it as one on operands of unsupported types."
)
_NO_POINTERS = (
    "Compute with addresses outside of the compiled function, or in a function under "
    "@torch.compiler.disable."
)


def _break(text: str) -> GraphBreak:
    place = _BREAK_PLACE.search(text)
    # A traceback through Dynamo follows, which says everything again.
    text = text.partition("\nTraceback (most recent call last):")[0].strip()
    said, heading, traceback = text.partition("\nUser code traceback:\n")
    stack = _without_machinery(traceback)
    position = users_position(frames_in(stack or said))
    if place is not None and (position is None or LIBRARY.search(position.file)):
        position = SourcePosition(place["file"], int(place["line"]))
    said = said.strip()
    headlines = cast(re.Match[str], _HEADLINE.match(said))
    cause = said[headlines.end() :]
    reason, explanation = _REASON.search(cause), _EXPLANATION.search(cause)
    hints = [on_one_line(hint["hint"]) for hint in _HINT.finditer(cause)]
    headline = reason["reason"] if reason else cause.partition("\n")[0]
    raised = _RAISED.search(cause)  # which headlines such as "Observed exception" leave out
    about = raised["exception"] if raised else _subject(cause)
    return GraphBreak(
        reason=on_one_line(f"{headline}: {about}" if about else headline),
        explanation=on_one_line(explanation["text"]) if explanation else text.strip(),
        hints=tuple(sorted(dict.fromkeys(hints), key=lambda hint: "issue" in hint)),
        position=position,
        text=f"{said}{heading}{stack}".strip(),
        resumes=_SKIPS.search(headlines[0]) is None,
        stack=tuple(frames_in(stack)),
    )


def _subject(cause: str) -> str:
    """Return the name of the function or operation that stopped Dynamo; "" if there is none."""
    match = _SUBJECT.search(cause)
    if match is None:
        return ""
    module = match["module"]
    return match["name"] if module in (None, "None", "builtins") else f"{module}.{match['name']}"


def _without_machinery(traceback: str) -> str:
    """Return a traceback without what called the captured function, and without the functions of
    torch that only call another one.
    """
    places = re.split(r'(?m)^(?=  File ")', traceback)
    own = [number for number, place in enumerate(places) if _OWN in place]
    return "".join(
        place for place in places[max(own, default=-1) + 1 :] if not _MACHINERY.search(place)
    ).rstrip()


_OWN = str(Path(__file__).parents[1])
_MACHINERY = re.compile(
    r"[/\\]torch[/\\](?:_dynamo[/\\]|nn[/\\]modules[/\\]module\.py.+_call_impl$)", re.M
)


def on_one_line(text: str) -> str:
    """Return a text with single spaces in place of line breaks."""
    return " ".join(text.split())


def statements_from(source: str, line: int, start: int) -> list[int]:
    """Return the lines of the statements, from `start` on, of the innermost function that has
    `line`; all those of a loop that has `start`. [] if the source is not Python.
    """
    functions = [
        node for node in _around(parsed(source), line) if isinstance(node, ast.FunctionDef)
    ]
    if not functions:
        return []
    body = functions[-1].body
    loops = [
        node.lineno
        for part in body
        for node in _around(part, start)
        if isinstance(node, ast.For | ast.While)
    ]
    start = min([start, *loops])
    inside = (node for part in body for node in ast.walk(part) if isinstance(node, ast.stmt))
    return sorted({node.lineno for node in inside if node.lineno >= start})


def _around(tree: ast.AST, line: int) -> list[ast.stmt]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
