"""Parse FX graphs that torch printed with `print_readable`: nodes, shapes, lines of the model.

Python's own parser reads them, one line at a time, so that a text that is cut off or edited loses
only the lines that are not Python. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kernellab.errors.positions import SourcePosition
from kernellab.records.graphs import GraphNode, Level

MOST_NODES = 200_000
"""Nodes read from one graph; the rest is only in its text."""

_MOST_ARGUMENT = 400
"""Characters kept of a node's arguments, as for a captured graph."""

_MOST_LINE = 200_000
"""Longest line, in characters, that is read as a node."""

_DTYPES = {
    "b8": "bool",
    "bf16": "bfloat16",
    "c128": "complex128",
    "c32": "complex32",
    "c64": "complex64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "i8": "int8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "u8": "uint8",
}
"""torch's short names of dtypes."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.Gt: "gt",
    ast.LtE: "le",
    ast.GtE: "ge",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Div: "truediv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.MatMult: "matmul",
    ast.UAdd: "pos",
    ast.USub: "neg",
    ast.Invert: "invert",
}
"""Syntax -> the function of the module `operator` that torch prints so."""

_PLACE = re.compile(r":(?P<line>\d{1,9}) in ")
_TENSOR = re.compile(r"^(?:\w+\()?(?P<dtype>[a-z]+\d\w*)\[(?P<shape>[^\]]*)\]")


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
    shape, dtype = _tensor(kind)
    return GraphNode(name, "placeholder", name, "()", "{}", shape, dtype, None, ())


def _tensor(kind: str) -> tuple[tuple[int | str, ...] | None, str | None]:
    """Return shape and dtype of an annotation such as "f32[64, s0][s0, 1]cpu", or None, None."""
    match = _TENSOR.match(kind)
    if match is None or match["dtype"] not in _DTYPES:
        return None, None
    sizes = [size.strip() for size in match["shape"].split(",") if size.strip()]
    shape = tuple(int(size) if size.isdecimal() and len(size) < 19 else size for size in sizes)
    return shape, _DTYPES[match["dtype"]]


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
    shape, dtype = _tensor(_kind(getattr(naming, "annotation", None)))
    keywords = (f"{keyword.arg!r}: {line.text(keyword.value)}" for keyword in value.keywords)
    return GraphNode(
        name=name.id,
        opcode=value.opcode,
        target=value.target,
        args=_short(_tuple([*map(line.text, value.args), *value.literals])),
        kwargs=_short(f"{{{', '.join(keywords)}}}"),
        shape=shape,
        dtype=dtype,
        position=position,
        origins=(),
        inputs=_names_in([*value.args, *value.keywords], named),
    )


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
