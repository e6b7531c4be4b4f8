"""FX graphs as torch prints them (`print_readable`), read back: nodes, shapes, lines of the model.

Line by line, and by patterns that take one line's time: a log may come from anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kernellab.errors.positions import SourcePosition
from kernellab.records.graphs import GraphNode, Level

MOST_NODES = 200_000
"""Of one graph; what follows is in its text only."""

_MOST_ARGUMENT = 400
"""Characters that are kept of a node's arguments, as of a captured one."""

_MOST_LINE = 200_000
"""Characters of a line that is read as a node."""

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
"""torch's short names of types."""

_OPERATORS = {
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    ">": "gt",
    "<=": "le",
    ">=": "ge",
    "+": "add",
    "-": "sub",
    "*": "mul",
    "//": "floordiv",
    "/": "truediv",
    "%": "mod",
    "**": "pow",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and_",
    "|": "or_",
    "^": "xor",
    "@": "matmul",
}
_UNARY = {"+": "pos", "-": "neg", "~": "invert"}

_PLACE = re.compile(r":(?P<line>\d{1,9}) in ")
_PARAMETER = re.compile(r"(?P<name>\w+)(?:\s*:\s*\"(?P<kind>[^\"]*)\")?")
_DECLARED = re.compile(r"(?P<name>\w+): \"(?P<kind>[^\"]*)\"(?:  #.*)?$")
_FLATTENED = re.compile(r"(?P<names>[\w, ]+), = fx_pytree\.tree_flatten_spec\(")
_TENSOR = re.compile(r"^(?:\w+\()?(?P<dtype>[a-z]+\d\w*)\[(?P<shape>[^\]]*)\]")
_NODE = re.compile(r"(?P<name>\w+)(?: ?: ?(?:\"(?P<kind>[^\"]*)\"|[\w.\[\], ]+))? = (?P<value>.+)$")
_IN_PLACE = re.compile(r"(?P<left>\w+) (?P<sign>\*\*|//|<<|>>|[-+*/%&|^@])= (?P<right>.+)$")
_SET_ITEM = re.compile(r"(?P<left>\w+)\[(?P<index>.*)\] = (?P<right>.+)$")
_CALLED = re.compile(r"(?P<target>[A-Za-z_][\w.]*)\((?P<arguments>.*)\)$")
_ATTRIBUTE = re.compile(r"(?P<path>[A-Za-z_]\w*(?:\.\w+)+)$")
_ITEM = re.compile(r"(?P<value>\w+)\[(?P<index>.*)\]$")
_INFIX = re.compile(
    r"(?P<left>\S+) (?P<sign>\*\*|//|<<|>>|==|!=|<=|>=|[-+*/%&|^@<>]) (?P<right>.+)$"
)
_PREFIX = re.compile(r"(?P<sign>[-+~])(?P<value>[A-Za-z_]\w*)$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*) = (?P<value>.*)$", re.S)


@dataclass(frozen=True)
class _Value:
    """What stands right of a node's name."""

    opcode: str
    target: str
    args: str
    kwargs: str = "{}"


def level_in(name: str, text: str) -> Level:
    """The level that a graph's text shows: its own nodes, none of the graphs within it."""
    found: list[GraphNode] = []
    for node in _nodes(text.splitlines()):
        if len(found) == MOST_NODES:
            break
        found.append(node)
    return Level(name, text, tuple(found))


def with_origins(level: Level, origins: dict[str, tuple[str, ...]]) -> Level:
    """The level, its nodes with the names of those that they come from."""
    nodes = (replace(one, origins=origins.get(one.name, one.origins)) for one in level.nodes)
    return replace(level, nodes=tuple(nodes))


def _nodes(lines: Iterable[str]) -> Iterator[GraphNode]:
    """The nodes of the first `forward` in a text."""
    remaining = iter(lines)
    given = {one.name: one for one in _given(remaining)}
    position: SourcePosition | None = None
    begun = False
    named = set(given)
    for line in remaining:
        text = line.strip()
        if not text or len(text) > _MOST_LINE:
            continue
        if text.startswith("#"):
            position = _position(text)
            continue
        declared = _DECLARED.match(text)
        if declared is not None and not begun:  # an input, where they come as lists
            given[declared["name"]] = _placeholder(declared["name"], declared["kind"])
            named.add(declared["name"])
            continue
        if (flattened := _FLATTENED.match(text)) is not None:  # the lists, taken apart
            names = [name for name in flattened["names"].split(", ") if name.isidentifier()]
            given = {name: given.get(name) or _placeholder(name, "") for name in names}
            named.update(given)
            continue
        node = _node(text, position, named)
        if node is not None and not begun and node.args == "" and node.target in given:
            given[node.target] = replace(given[node.target], name=node.name)
            named.add(node.name)
            continue
        if node is not None and not begun:
            begun = True
            yield from given.values()
        if text.startswith("return"):
            yield from given.values() if not begun else ()
            yield _output(text, remaining, named)
            return
        if node is not None:
            named.add(node.name)
            yield node
    if not begun:
        yield from given.values()


def _given(lines: Iterator[str]) -> Iterator[GraphNode]:
    """The parameters of the first `forward`; the lines after it remain."""
    for line in lines:
        _, found, rest = line.partition("def forward(")
        if not found:
            continue
        parts = [rest]
        while not parts[-1].rstrip().endswith(":") and len(parts) < MOST_NODES:
            following = next(lines, None)
            if following is None:
                break
            parts.append(following)
        for part in parts:
            yield from _parameters(part)
        return


def _parameters(text: str) -> Iterator[GraphNode]:
    text = text.partition("  #")[0]
    for end in (") ->", "):"):
        text = text.rpartition(end)[0] if end in text else text
    for found in _PARAMETER.finditer(text):
        if found["name"] != "self" and not found["name"].isdecimal():
            yield _placeholder(found["name"], found["kind"] or "")


def _placeholder(name: str, kind: str) -> GraphNode:
    shape, dtype = _tensor(kind)
    return GraphNode(name, "placeholder", name, "()", "{}", shape, dtype, None, ())


def _tensor(kind: str) -> tuple[tuple[int | str, ...] | None, str | None]:
    """Shape and type of an annotation: "f32[64, s0][s0, 1]cpu"; None and None of no tensor."""
    found = _TENSOR.match(kind)
    if found is None or found["dtype"] not in _DTYPES:
        return None, None
    sizes = [one.strip() for one in found["shape"].split(",") if one.strip()]
    shape = tuple(int(one) if one.isdecimal() and len(one) < 19 else one for one in sizes)
    return shape, _DTYPES[found["dtype"]]


def _position(comment: str) -> SourcePosition | None:
    _, _, rest = comment.partition("File: ")
    found = _PLACE.search(rest)
    return SourcePosition(rest[: found.start()], int(found["line"])) if found else None


def _output(text: str, remaining: Iterator[str], named: set[str]) -> GraphNode:
    """The end of a graph, whose results may stand in lines of their own."""
    value = text.removeprefix("return").strip().removeprefix("pytree.tree_unflatten(")
    value = value.removesuffix(", self._out_spec)")
    if value.endswith(("(", "[")):
        parts = []
        for line in remaining:
            if line.strip().startswith((")", "]")):
                break
            parts.append(line.partition("  #")[0].strip())
            if len(parts) > MOST_NODES:
                break
        value = f"({' '.join(parts).rstrip(',')})"
    args, inputs = _short(f"({value},)"), _inputs_in(value, named)
    return GraphNode("output", "output", "output", args, "{}", None, None, None, (), inputs)


def _node(text: str, position: SourcePosition | None, named: set[str]) -> GraphNode | None:
    """The node that a line defines; None of a line that defines none."""
    first, _, rest = text.partition(";  ")
    value = _in_place(first)
    found = _NODE.match(first if value is None else rest.partition(";  ")[0])
    if found is None:
        return None
    if value is None:
        value = _value(found["value"], named)
    shape, dtype = _tensor(found["kind"] or "")
    return GraphNode(
        name=found["name"],
        opcode=value.opcode,
        target=value.target,
        args=_short(value.args),
        kwargs=_short(value.kwargs),
        shape=shape,
        dtype=dtype,
        position=position,
        origins=(),
        inputs=_inputs_in(f"{value.args} {value.kwargs}", named),
    )


def _inputs_in(text: str, named: set[str]) -> tuple[str, ...]:
    """The nodes that arguments name."""
    words = _WORD.findall(_QUOTED.sub("", text))
    return tuple(dict.fromkeys(word for word in words if word in named))


def _in_place(text: str) -> _Value | None:
    """What a statement before a node's name does: `x += 1`, `x[0] = y`."""
    if (found := _IN_PLACE.match(text)) is not None:
        name = _OPERATORS[found["sign"]].rstrip("_")
        return _Value("call_function", f"operator.i{name}", f"({found['left']}, {found['right']})")
    if (found := _SET_ITEM.match(text)) is not None:
        args = f"({found['left']}, {found['index']}, {found['right']})"
        return _Value("call_function", "operator.setitem", args)
    return None


def _value(text: str, named: set[str]) -> _Value:
    if text.isidentifier():
        return _Value("placeholder", text, "")
    if (found := _CALLED.match(text)) is not None:
        return _call(found["target"], found["arguments"], named)
    if (found := _ITEM.match(text)) is not None:
        return _Value("call_function", "operator.getitem", f"({found['value']}, {found['index']})")
    if (found := _INFIX.match(text)) is not None:
        name = _OPERATORS[found["sign"]]
        return _Value("call_function", f"operator.{name}", f"({found['left']}, {found['right']})")
    if (found := _PREFIX.match(text)) is not None:
        return _Value("call_function", f"operator.{_UNARY[found['sign']]}", f"({found['value']},)")
    if (found := _ATTRIBUTE.match(text)) is not None:
        owner, _, rest = found["path"].partition(".")
        if owner == "self":
            return _Value("get_attr", rest, "()")
        return _Value("call_function", "getattr", f"({owner}, '{rest}')")
    return _Value("call_function", _short(text), "()")  # printed in a way that is not known here


def _call(target: str, arguments: str, named: set[str]) -> _Value:
    owner, _, rest = target.partition(".")
    args, kwargs = _arguments(arguments)
    if owner in named and rest:
        return _Value("call_method", rest, _tuple([owner, *args]), kwargs)
    if owner == "self" and rest:
        return _Value("call_module", rest, _tuple(args), kwargs)
    return _Value("call_function", target.removeprefix("torch.ops."), _tuple(args), kwargs)


def _arguments(text: str) -> tuple[list[str], str]:
    """The positional arguments of a call, and its keywords as Python writes a dictionary."""
    args, keywords = [], []
    for part in _parted(text):
        keyword = _KEYWORD.match(part)
        if keyword is None:
            args.append(part)
        else:
            keywords.append(f"'{keyword['name']}': {keyword['value']}")
    return args, f"{{{', '.join(keywords)}}}"


def _tuple(values: list[str]) -> str:
    return f"({values[0]},)" if len(values) == 1 else f"({', '.join(values)})"


_MARKS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({\])},]")


def _parted(text: str) -> Iterator[str]:
    """The arguments of a call, parted at commas that stand within no brackets and no text."""
    depth = start = 0
    for mark in _MARKS.finditer(text):
        if mark[0] in "[({":
            depth += 1
        elif mark[0] in "])}":
            depth -= 1
        elif mark[0] == "," and depth == 0:
            yield text[start : mark.start()].strip()
            start = mark.end()
    if text[start:].strip():
        yield text[start:].strip()


def _short(text: str) -> str:
    return text if len(text) <= _MOST_ARGUMENT else text[: _MOST_ARGUMENT - 1] + "…"
