"""The texts that torch's compiler writes, parsed: the entries of a log and their events, printed
graphs, and generated code. Nothing of them is executed.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from kernellab.common.saved_files import BadFile, json_in
from kernellab.errors.sources import SourcePosition, frames_in
from kernellab.records.graphs import (
    GraphBreak,
    GraphLaunch,
    GraphNode,
    KernelCode,
    Level,
    kernel_names,
)

# Read the entries of a log that torch wrote with `TORCH_TRACE`.
#
# Each entry is a line of JSON, followed by its payload in lines that start with a tab.


MOST_KEPT = 128 * 1024 * 1024
"""Limit for the bytes of all kept entries."""

MOST_ENTRIES = 100_000
"""Limit for the number of kept entries."""

_HEADER = re.compile(
    rb"(?:\[rank\d+\]:)?[VIWEC]\d{4} (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d{6}) +\d+ "
    rb"[^\s:]{1,4096}:\d+\] (?P<json>\{.*)"
)
_KEY = re.compile(rb'\{"(?P<key>[^"\\]{1,100})"')

_NEWLINE = b"\n"

_BEGINNING = 1 << 16
"""Bytes at the start of a file that are searched for its first entry."""


@dataclass(frozen=True)
class Entry:
    """One entry of a log.

    Attributes:
        line: its line number in the log, from 1.
        seconds: its time, in seconds since midnight.
        metadata: its JSON.
        payload: its text, or None if it has none.
    """

    line: int
    seconds: float
    metadata: dict[str, Any]
    payload: str | None

    def of(self, kind: str) -> dict[str, Any]:
        """Return the object under a key of the metadata, or {} if the value is not an object."""
        value = self.metadata.get(kind)
        return value if isinstance(value, dict) else {}


@dataclass
class Entries:
    """The requested entries of a log, and the places that could not be read.

    Attributes:
        kept: the requested entries, in order.
        strings: number -> string, for strings that the log writes once and refers to by number.
        count: the number of all entries.
        damages: line number and problem, for the first three problems.
        damaged: the number of all problems.
        stopped: why the log was not read to its end, or "".
    """

    kept: list[Entry] = field(default_factory=list)
    strings: dict[int, str] = field(default_factory=dict)
    count: int = 0
    damages: list[tuple[int, str]] = field(default_factory=list)
    damaged: int = 0
    stopped: str = ""

    def note(self, line: int, what: str) -> None:
        """Record a problem with the entry on a line."""
        self.damaged += 1
        if len(self.damages) < 3:
            self.damages.append((line, what))

    @property
    def fault(self) -> str:
        """Why the log could not be read completely, or ""."""
        parts = [self.stopped] if self.stopped else []
        if self.damages:
            line, what = self.damages[0]
            parts.append(
                f"{self.damaged:,} of its {self.count:,} entries cannot be read completely; the "
                f"first is on line {line:,}: {what}"
            )
        return "; ".join(parts)


def is_trace_log(content: bytes) -> bool:
    """Return whether a file begins like a log of `TORCH_TRACE`."""
    lines = content[:_BEGINNING].splitlines()
    return any(_HEADER.match(line) is not None for line in lines[:50])


def entries_in(content: bytes, wanted: Callable[[str, dict[str, Any]], bool]) -> Entries:
    """Return the requested entries of a log.

    Args:
        content: the bytes of the file.
        wanted: takes the kind of an entry and its object, and returns whether to keep the entry.
    """
    entries = Entries()
    kept = 0
    for line, header, payload in _parts(content):
        entries.count += 1
        key = _KEY.match(header["json"])
        kind = key["key"].decode("utf-8", "replace") if key else ""
        if kind != "str" and kind != "artifact" and not wanted(kind, {}):
            continue
        try:
            metadata = json_in(header["json"].decode("utf-8", "replace"))
        except BadFile as error:
            entries.note(line, f"it {error}")
            continue
        if not isinstance(metadata, dict):
            continue
        if kind == "str":
            _intern(entries, metadata["str"])
            continue
        said = metadata.get(kind)
        if not wanted(kind, said if isinstance(said, dict) else {}):
            continue
        kept += len(payload or b"") + len(header["json"])
        if kept > MOST_KEPT or len(entries.kept) == MOST_ENTRIES:
            entries.stopped = (
                f"it was read up to line {line:,}, the limit of {MOST_KEPT:,} bytes or "
                f"{MOST_ENTRIES:,} entries"
            )
            break
        text = _text(entries, line, metadata, payload)
        entries.kept.append(Entry(line, _seconds(header), metadata, text))
    else:
        if not content.endswith(b"\n"):
            entries.stopped = f"it ends in the middle of line {content.count(_NEWLINE) + 1:,}"
    return entries


def _parts(content: bytes) -> Iterator[tuple[int, re.Match[bytes], bytes | None]]:
    """Yield the line number, the header and the payload of each entry."""
    header: re.Match[bytes] | None = None
    place, texts = 0, list[bytes]()
    for number, line in enumerate(io.BytesIO(content), 1):
        if line.startswith(b"\t"):
            texts.append(line[1:])
            continue
        following = _HEADER.match(line.rstrip(b"\r\n"))
        if following is None:
            continue  # another program wrote to the same file
        if header is not None:
            yield place, header, _joined(texts)
        header, place, texts = following, number, []
    if header is not None:
        yield place, header, _joined(texts)


def _joined(texts: list[bytes]) -> bytes | None:
    return b"".join(texts).removesuffix(b"\n") if texts else None


def _seconds(header: re.Match[bytes]) -> float:
    hour, minute = int(header["hour"]), int(header["minute"])
    return 3600.0 * hour + 60.0 * minute + float(header["second"])


def _intern(entries: Entries, pair: Any) -> None:
    match pair:
        case [str(text), int(number)] if len(entries.strings) < MOST_ENTRIES:
            entries.strings[number] = text


def _text(
    entries: Entries, line: int, metadata: dict[str, Any], payload: bytes | None
) -> str | None:
    """Return an entry's payload as text, after comparing it with the entry's checksum."""
    checksum = metadata.get("has_payload")
    if checksum is None:
        return None
    content = payload or b""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != checksum:
        entries.note(line, "its text does not match its checksum")
    return content.decode("utf-8", "replace")


# Torch's structured trace, read: guards, graph breaks, recompilations. The events are those that
# a process heard, or those of a log that `TORCH_TRACE` wrote.


Event = tuple[dict[str, Any], Any]

_BREAK_PLACE = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_REASON = re.compile(r"^(?P<reason>.+?)(?:\n\n|\n {2}\w|\Z)", re.S | re.M)
_HEADLINE = re.compile(
    r"^(?:Graph break in user code at .*\n)?(?:Graph Break Reason: )?"
    r"(?:(?:Encountered graph break (?:when|that)|Failed to handle graph break)[^\n]*:\s*\n+)*"
)
"""What comes before the actual cause: where, and on which instruction, Dynamo stopped."""
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
"""What torch says of symbolic sizes."""
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


_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]torch[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages[/\\])"
)
"""In the name of a file of torch's or of Python's standard library."""


def users_position(stack: Iterable[SourcePosition]) -> SourcePosition | None:
    """Return the innermost place of a stack that is not in torch or the standard library; the
    innermost of all if there is no other; None of an empty stack. `stack`: places, the outermost
    first.
    """
    places = list(stack)
    return next((p for p in reversed(places) if not _LIBRARY.search(p.file)), [*places, None][-1])


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
    if place is not None and (position is None or _LIBRARY.search(position.file)):
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
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    functions = [node for node in _around(tree, line) if isinstance(node, ast.FunctionDef)]
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


# Parse FX graphs that torch printed with `print_readable`: nodes, shapes, lines of the model.
#
# Python's own parser reads them, one line at a time, so that a text that is cut off or edited
# loses only the lines that are not Python. Nothing is executed.


MOST_NODES = 200_000
"""Nodes read from one graph; the rest is only in its text."""

_MOST_ARGUMENT = 400
"""Characters kept of a node's arguments, as for a captured graph."""

_MOST_LINE = 200_000
"""Longest line, in characters, that is read as a node."""

_DTYPES = {
    "b8": "bool", "bf16": "bfloat16", "c128": "complex128", "c32": "complex32",
    "c64": "complex64", "f16": "float16", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "i16": "int16",
    "i32": "int32", "i64": "int64", "i8": "int8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "u8": "uint8",
}  # fmt: skip
"""torch's short names of dtypes."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.Gt: "gt", ast.LtE: "le", ast.GtE: "ge",
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Div: "truediv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.MatMult: "matmul",
    ast.UAdd: "pos", ast.USub: "neg", ast.Invert: "invert",
}  # fmt: skip
"""Syntax -> the function of the module `operator` that torch prints so."""

_PLACE = re.compile(r":(?P<line>\d{1,9}) in ")
_TENSOR = re.compile(
    r"^(?:\w+\()?(?P<dtype>[a-z]+\d\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<strides>[^\]]*)\])?"
)


class _Line:
    """A line of a graph, as Python reads it; without statements where it is not Python."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode("utf-8", "replace")
        try:
            self.statements = ast.parse(self._bytes).body if len(text) <= _MOST_LINE else []
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.statements = []

    def text(self, part: ast.expr) -> str:
        """Return the source of an expression."""
        return self._bytes[part.col_offset : part.end_col_offset].decode()


@dataclass(frozen=True)
class _Value:
    """The right side of a node's definition; `literals` follow the arguments."""

    opcode: str
    target: str
    args: Sequence[ast.expr] = ()
    keywords: Sequence[ast.keyword] = ()
    literals: Sequence[str] = ()


def level_in(name: str, text: str) -> Level:
    """Return the level with the nodes of a printed graph, without those of nested graphs."""
    nodes = islice(_nodes(iter(text.splitlines())), MOST_NODES)
    return Level(name, text, tuple(nodes))


def with_origins(level: Level, origins: dict[str, tuple[str, ...]]) -> Level:
    """Return the level with the given origins of its nodes: name -> names of nodes."""
    nodes = (replace(node, origins=origins.get(node.name, node.origins)) for node in level.nodes)
    return replace(level, nodes=tuple(nodes))


def _nodes(lines: Iterator[str]) -> Iterator[GraphNode]:
    """Yield the nodes of the first `forward` in a text."""
    given = {parameter.name: parameter for parameter in _parameters(lines)}
    named = set(given)
    position: SourcePosition | None = None
    begun = False
    for text in map(str.strip, lines):
        if text.startswith("#"):
            position = _position(text)
            continue
        if re.match(r"return\b", text):
            yield from given.values() if not begun else ()
            yield _output(text, lines, named)
            return
        line = _Line(text)
        match line.statements:
            case [ast.AnnAssign(ast.Name(name), ast.Constant(str(kind)), None)] if not begun:
                given[name] = _placeholder(name, kind)  # an input in a list of inputs
                named.add(name)
            case [ast.Assign([ast.Tuple(inputs)], ast.Call(ast.Attribute(_, "tree_flatten_spec")))]:
                names = [each.id for each in inputs if isinstance(each, ast.Name)]
                given = {name: given.get(name) or _placeholder(name, "") for name in names}
                named.update(given)
            case [ast.Assign([ast.Name(name)], ast.Name(old)), *_] if not begun and old in given:
                given[old] = replace(given[old], name=name)
                named.add(name)
            case statements if (node := _node(statements, line, position, named)) is not None:
                yield from given.values() if not begun else ()
                begun = True
                named.add(node.name)
                yield node
    if not begun:
        yield from given.values()


def _parameters(lines: Iterator[str]) -> Iterator[GraphNode]:
    """Yield the parameters of the first `forward` and leave the lines after it in `lines`."""
    header = next((line for line in lines if "def forward(" in line), "")
    parts = [header.strip()]
    while header and not parts[-1].rstrip().endswith(":") and len(parts) < MOST_NODES:
        following = next(lines, None)
        if following is None:
            break
        parts.append(following.partition("  #")[0])
    match _Line(f"{' '.join(parts)} ...").statements:
        case [ast.FunctionDef(args=ast.arguments(args=parameters))]:
            yield from (_placeholder(each.arg, _kind(each.annotation)) for each in parameters[1:])


def _kind(annotation: ast.expr | None) -> str:
    """Return the text of an annotation; "" where it is not a string."""
    value = annotation.value if isinstance(annotation, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _placeholder(name: str, kind: str) -> GraphNode:
    node = GraphNode(name, "placeholder", name, "()", "{}", None, None, None, ())
    return replace(node, **_tensor(kind))


def _tensor(kind: str) -> dict[str, Any]:
    """Return the shape, strides and dtype of an annotation such as "f32[64, s0][s0, 1]cpu"."""
    match = _TENSOR.match(kind)
    if match is None or match["dtype"] not in _DTYPES:
        return {}
    strides = None if match["strides"] is None else _sizes(match["strides"])
    return {"shape": _sizes(match["shape"]), "dtype": _DTYPES[match["dtype"]], "strides": strides}


def _sizes(text: str) -> tuple[int | str, ...]:
    sizes = [size.strip() for size in text.split(",") if size.strip()]
    return tuple(int(size) if size.isdecimal() and len(size) < 19 else size for size in sizes)


def _position(comment: str) -> SourcePosition | None:
    _, _, rest = comment.partition("File: ")
    match = _PLACE.search(rest)
    return SourcePosition(rest[: match.start()], int(match["line"])) if match else None


def _output(text: str, remaining: Iterator[str], named: set[str]) -> GraphNode:
    """Return the output node of a graph; its results may be on the following lines."""
    value = text.removeprefix("return").strip().removeprefix("pytree.tree_unflatten(")
    value = value.removesuffix(", self._out_spec)")
    if value.endswith(("(", "[")):
        parts = []
        for line in islice(remaining, MOST_NODES):
            if line.strip().startswith((")", "]")):
                break
            parts.append(line.partition("  #")[0].strip())
        value = f"({' '.join(parts).rstrip(',')})"
    inputs = _names_in(_Line(value).statements, named)
    args = _short(f"({value},)")
    return GraphNode("output", "output", "output", args, "{}", None, None, None, (), inputs)


def _node(
    statements: Sequence[ast.stmt], line: _Line, position: SourcePosition | None, named: set[str]
) -> GraphNode | None:
    """Return the node that a line defines, or None if the line does not define a node."""
    match statements:
        case [ast.AugAssign(target, op, right), naming, *_]:
            function = f"operator.i{_OPERATORS[type(op)].rstrip('_')}"
            value = _Value("call_function", function, [target, right])
        case [ast.Assign([ast.Subscript(owner, index)], right), naming, *_]:
            value = _Value("call_function", "operator.setitem", [owner, index, right])
        case [ast.Assign(_, right) | ast.AnnAssign(_, _, ast.expr() as right) as naming, *_]:
            value = _value(right, line, named)
        case _:
            return None
    name = naming.targets[0] if isinstance(naming, ast.Assign) else getattr(naming, "target", None)
    if not isinstance(name, ast.Name):
        return None
    keywords = (f"{keyword.arg!r}: {line.text(keyword.value)}" for keyword in value.keywords)
    node = GraphNode(
        name=name.id,
        opcode=value.opcode,
        target=value.target,
        args=_short(_tuple([*map(line.text, value.args), *value.literals])),
        kwargs=_short(f"{{{', '.join(keywords)}}}"),
        shape=None,
        dtype=None,
        position=position,
        origins=(),
        inputs=_names_in([*value.args, *value.keywords], named),
    )
    return replace(node, **_tensor(_kind(getattr(naming, "annotation", None))))


def _value(value: ast.expr, line: _Line, named: set[str]) -> _Value:
    match value:
        case ast.Name(name):
            return _Value("placeholder", name)
        case ast.Call(ast.Attribute(ast.Name(name) as owner, method), args, keywords) if (
            name in named
        ):
            return _Value("call_method", method, [owner, *args], keywords)
        case ast.Call(called, args, keywords):
            target = line.text(called)
            if target.startswith("self."):
                return _Value("call_module", target.removeprefix("self."), args, keywords)
            return _Value("call_function", target.removeprefix("torch.ops."), args, keywords)
        case ast.Subscript(owner, index):
            return _Value("call_function", "operator.getitem", [owner, index])
        case ast.Compare(left, [op], [right]) | ast.BinOp(left, op, right) if (
            type(op) in _OPERATORS
        ):
            return _Value("call_function", f"operator.{_OPERATORS[type(op)]}", [left, right])
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return _Value("call_function", f"operator.{_OPERATORS[type(op)]}", [operand])
        case ast.Attribute(owner, name):
            path = line.text(value)
            if path.startswith("self."):
                return _Value("get_attr", path.removeprefix("self."))
            return _Value("call_function", "getattr", [owner], literals=[repr(name)])
    return _Value("call_function", _short(line.text(value)))  # an unknown syntax


def _names_in(parts: Sequence[ast.AST], named: set[str]) -> tuple[str, ...]:
    """Return the names of nodes that occur in arguments, in their order."""
    names = [each for part in parts for each in ast.walk(part) if isinstance(each, ast.Name)]
    names.sort(key=lambda name: name.col_offset)
    return tuple(dict.fromkeys(name.id for name in names if name.id in named))


def _tuple(values: Sequence[str]) -> str:
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(values)})"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_ARGUMENT else text[: _MOST_ARGUMENT - 1] + "…"


# Read the kernels, the launches and the target GPU from code that Inductor generated.


MOST_KERNELS = 10_000
"""Kernels read from one graph."""

_KERNEL = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?:triton|cpp_pybinding|cpp)\([^\n]{0,10000}?(?P<raw>r?)'''",
    re.M,
)
_DEVICE = re.compile(
    r"DeviceProperties\(type='(?P<type>cuda|hip)'[^)]{0,2000}?\bcc='?(?P<arch>\w{1,20})'?"
)
_LAUNCH = re.compile(
    r"^\s+(?:[\w, ]+ = )?(?P<called>extern_kernels\.\w+|(?:torch\.ops\.)?aten\.[\w.]+|"
    r"torch\.ops\.(?!inductor\.)[\w.]+|\w+\.run|\w+)\("
)
_FRAGMENT = re.compile(r"^#   %(?P<name>\w+) : (?!.*= PlaceHolder\[)")
_DIRECTION = re.compile(r"^# AOT ID: \['\d+_(?P<direction>forward|backward|inference)'\]", re.M)


def direction_of(code: str) -> str | None:
    """Return "forward", "backward" or "inference" from the code's header, or None."""
    match = _DIRECTION.search(code, 0, 1000)
    return match["direction"] if match else None


def kernels_in(code: str, origins: Mapping[str, tuple[str, ...]]) -> tuple[KernelCode, ...]:
    """Return the kernels of a graph's code: Triton kernels, or C++ kernels on a CPU.

    Args:
        code: the source of the module.
        origins: kernel -> the nodes of the post-grad graph that it computes, where known.
    """
    kernels: list[KernelCode] = []
    fragments = _fragments(code)
    for kernel in _KERNEL.finditer(code):
        source = _text_at(code, kernel.end(), kernel["raw"])
        if source is None or len(kernels) == MOST_KERNELS:
            break
        name = kernel["name"]
        nodes = origins.get(name) or fragments.get(name, ())
        kernels.append(KernelCode(name, source, (), (), nodes))
    names = kernel_names({kernel.name: kernel.function for kernel in kernels})
    return tuple(replace(kernel, name=names[kernel.name]) for kernel in kernels)


def _text_at(code: str, start: int, raw: str) -> str | None:
    """Return the value of the string literal that starts at `start`, after its three quotes.

    Return None if it has no end.
    """
    end = code.find("'''", start)
    while end > 0 and _is_escaped(code, end):
        end = code.find("'''", end + 1)
    if end < 0:
        return None
    with warnings.catch_warnings():  # about invalid escape sequences
        warnings.simplefilter("ignore")
        try:
            return str(ast.literal_eval(f"{raw}'''{code[start:end]}'''"))
        except (SyntaxError, ValueError):
            return None


def _is_escaped(code: str, place: int) -> bool:
    before = code[max(0, place - 100) : place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _fragments(code: str) -> dict[str, tuple[str, ...]]:
    """Return kernel -> nodes from the comment above each Triton kernel."""
    nodes_of: dict[str, tuple[str, ...]] = {}
    nodes: list[str] = []
    for line in code.splitlines():
        fragment = _FRAGMENT.match(line)
        if fragment is not None:
            nodes.append(fragment["name"])
        elif line and not line.startswith("#"):
            name, made, _ = line.partition(" = async_compile.")
            if made and name.isidentifier():
                nodes_of[name] = tuple(dict.fromkeys(nodes))
            nodes = []
    return nodes_of


def target_in(code: str) -> str:
    """Return the target of the kernels, as "sm_90" or "gfx942", or "" for a CPU."""
    match = _DEVICE.search(code)
    if match is None:
        return ""
    return f"sm_{match['arch']}" if match["type"] == "cuda" else match["arch"]


def launches_in(code: str, kernels: tuple[KernelCode, ...]) -> tuple[GraphLaunch, ...]:
    """Return the calls of the code, in order. It does not say how many bytes each moves."""
    variables = [kernel["name"] for kernel in islice(_KERNEL.finditer(code), len(kernels))]
    known = {name: kernel.name for name, kernel in zip(variables, kernels, strict=True)}
    return tuple(
        GraphLaunch(known.get(name, name), name in known, (), None, None)
        for name in _called(code, known)
    )


def _called(code: str, known: Collection[str]) -> Iterator[str]:
    is_call = False
    for line in code.splitlines():
        if line.lstrip().startswith("def "):
            is_call = line.lstrip().startswith(("def call(", "def partition_"))
        elif is_call and (match := _LAUNCH.match(line)) is not None:
            name = match["called"].removesuffix(".run")
            if name in known or "." in name:
                yield name
