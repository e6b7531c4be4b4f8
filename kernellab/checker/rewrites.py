"""The changes of a kernel that are tried: each family yields sources with one thing changed, and
says in a sentence what was wrong if that change makes the results right.

Most families are tables of rewrites.toml: what the kernel has, and what is tried in its place. To
try another kind of mistake, add a row there; what no pattern describes is a function here.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import operator
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernellab import triton_api
from kernellab.checker.kernel_source import Source, in_brackets, is_condition, keyword_of
from kernellab.common.data_files import Prose, read_data_file
from kernellab.common.text import called, counted


@dataclass(frozen=True)
class Rewrite:
    """A changed source.

    Attributes:
        reason: what was wrong, if this source is right.
    """

    text: str
    reason: str


Family = Callable[[Source], Iterator[Rewrite]]

_Any = TypeVar("_Any")

_Change = tuple[Sequence[tuple[ast.AST, str]], str]
"""Nodes with what takes their places, and the reason."""


def _family(changes: Callable[[Source], Iterator[_Change]]) -> Family:

    def rewrites(source: Source) -> Iterator[Rewrite]:
        for pairs, reason in changes(source):
            yield Rewrite(source.replaced(*pairs), reason)

    return rewrites


# What variables hold

_AXES = (ast.Slice, ast.Tuple)
_INDICES = ("arange", "program_id", "num_programs", "cdiv", "argmax", "argmin")


class _Kinds(dict[str, str]):
    """The kind of each name: "pointer", "mask", "index" or "value"."""

    def __init__(self, source: Source) -> None:
        self.source = source
        super().__init__(dict.fromkeys(source.tensors, "pointer"))
        self |= dict.fromkeys(source.floats, "value")
        self |= dict.fromkeys((*source.numbers, *_positions(source)), "index")
        self.ranks: dict[str, int] = {}
        for name, value in source.assigned.items():
            self.setdefault(name, self.of(value))
            self.ranks[name] = self.rank(value)

    def are_alike(self, mine: str, other: str) -> bool:
        """Return whether one variable can stand for another."""
        return self[mine] == self[other] and self.ranks.get(mine, 0) == self.ranks.get(other, 0)

    def rank(self, node: ast.AST) -> int:
        """Return how many axes an expression has."""
        if isinstance(node, ast.Name):
            return self.ranks.get(node.id, 0)
        if isinstance(node, ast.Subscript):
            return len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
        if not isinstance(node, ast.Call):
            return max(map(self.rank, ast.iter_child_nodes(node)), default=0)
        inner = [self.rank(part) for part in (*node.args, *ast.iter_child_nodes(node.func))]
        if called(node) in ("zeros", "full") and node.args:
            return len(node.args[0].elts) if isinstance(node.args[0], ast.Tuple) else 1
        is_reduced = called(node) in ("sum", "max", "min", "argmax", "argmin")
        fixed = {"arange": 1, "dot": 2}
        return fixed.get(called(node), max(inner, default=0) - is_reduced)

    def of(self, node: ast.AST) -> str:
        """Return what an expression holds; "" for what no operation takes, as in `x[:, None]`."""
        if isinstance(node, ast.Name):
            return self.get(node.id, "index")
        if isinstance(node, ast.Constant):
            return {int: "index", float: "value"}.get(type(node.value), "")
        if isinstance(node, _AXES):
            return ""
        if isinstance(node, ast.expr) and is_condition(node):
            return "mask"
        if isinstance(node, ast.Call):
            return self._of_call(node)
        inner = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        parts = {self.of(part) for part in inner if not isinstance(part, _AXES)}
        is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        kinds = [kind for kind in ("pointer", "value", "mask") if kind in parts]
        return "value" if is_quotient else kinds[0] if kinds else "index"

    def _of_call(self, call: ast.Call) -> str:
        if called(call) == "load":
            names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
            tensors = [self.source.values[name] for name in names if name in self.source.tensors]
            return "value" if not tensors or tensors[0].is_floating_point() else "index"
        if called(call) in _INDICES:
            return "index"
        if called(call) in _ACCESSES[1:]:
            return ""
        if called(call) in ("where", "minimum", "maximum") and call.args:
            return self.of(call.args[-1])
        return "value"


def _variables(kind: str) -> Callable[[Source], list[str]]:

    def listed(source: Source) -> list[str]:
        kinds = _Kinds(source)
        return [name for name in source.assigned if kinds[name] == kind]

    return listed


def _positions(source: Source) -> list[str]:
    loops = [loop.target for loop in source.loops() if isinstance(loop, ast.For)]
    return [target.id for target in loops if isinstance(target, ast.Name)]


def _programs(source: Source) -> list[str]:
    program = re.compile(r"tl\.program_id\([^()]*\)(\.to\([^()]*\))?")
    return [name for name, value in source.assigned.items() if program.fullmatch(source.of(value))]


def _plain(source: Source) -> list[str]:
    """Return the parameters that are integers, without the constexprs."""
    return [name for name in source.numbers if name not in source.constants]


_NEUTRAL = ("0.0", '-float("inf")', 'float("inf")', "1.0")

_CHOICES: Mapping[str, Callable[[Source], Sequence[str]]] = {
    "size": lambda source: source.numbers,
    "area": lambda source: list(map(" * ".join, itertools.combinations(_plain(source), 2))),
    "number": _plain,
    "block": lambda source: source.constants,
    "wide": lambda source: _wide(source),
    "other": lambda _: _NEUTRAL,
    "start": _positions,
    "id": lambda source: _programs(source),
    "value": _variables("value"),
    "index": _variables("index"),
    "row": lambda source: _rows(source),
    "spread": lambda _: ("", "[None, :]", "[:, None]"),
    "unused": lambda source: _unread(source, [*source.numbers, *source.floats, *source.assigned]),
    "unused_tile": lambda source: _unread(source, [*source.assigned]),
    "unread": lambda source: _loads(source),
    "shrunk": lambda source: _shrunk(source),
    "factor": lambda source: [*source.floats, *_plain(source), "2"],
    "term": lambda source: [*source.floats, *_plain(source), "1", "2"],
}
"""The expressions that rules try, one after the other, for a placeholder."""


def _wide(source: Source) -> Sequence[str]:
    """Return the types that hold what may not fit: for integers alone, one of integers first."""
    is_float = any(source.values[name].is_floating_point() for name in source.tensors)
    return ("tl.float32",) if is_float else ("tl.int64", "tl.float32")


def _unread(source: Source, names: Sequence[str]) -> list[str]:
    """Return the names that the kernel never reads, without constexprs."""
    read = {node.id for node in source.names()}
    return [name for name in names if name not in read and name not in source.constants]


def _rows(source: Source) -> list[str]:
    """Return what an address may be without: a program's or an iteration's first element."""
    ids = [*_programs(source), *_positions(source)]
    sizes = [*source.numbers, *_CHOICES["area"](source)]
    products = [f"{index} * {size}" for index, size in itertools.product(ids, sizes)]
    return [*products, *ids, *source.numbers]


def _loads(source: Source) -> list[str]:
    """Return loads of the tensors that the kernel never reads, along each of its axes."""
    places = [(f" + {i}", f", mask={i} < {size}") for i, size in _bounds_of(source).items()]
    spreads = ("", "[None, :]", "[:, None]")
    places += [(f" + {name}", "") for name in _CHOICES["index"](source)]
    return [
        f"tl.load({name}{place}{mask}){spread}"
        for name in _unread(source, source.tensors)
        for (place, mask), spread in itertools.product(places, spreads)
    ]


def _shrunk(source: Source) -> list[str]:
    """Return what a sum is multiplied by when the maximum in its exponents changes."""
    maxima = [name for name, value in source.assigned.items()
              if any(isinstance(part, ast.Call) and called(part) in ("max", "maximum", "float")
                     for part in ast.walk(value))]  # fmt: skip
    return [f"tl.exp({old} - {new})" for old, new in itertools.permutations(maxima, 2)]


def _bounds_of(source: Source) -> dict[str, str]:
    """Return what each index is compared with: {"r": "rows"}."""
    bounds: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Compare):
            index = node.left.value if isinstance(node.left, ast.Subscript) else node.left
            if isinstance(index, ast.Name):
                bounds.setdefault(index.id, source.of(node.comparators[0]))
    return bounds


# Tables of changes


@dataclass(frozen=True)
class Rules:
    """A table of rewrites.toml: some expressions in place of others.

    Attributes:
        rows: what the kernel has, then what is tried in its place.
        kind: only expressions with one of these, "pointer", "mask", "index", "value"; "": all.
        is_stored: only expressions that are stored.
        everywhere: whether to try it also in all places at once.
    """

    family: str
    reason: Prose
    rows: tuple[tuple[str, ...], ...]
    kind: str = ""
    is_stored: bool = False
    everywhere: bool = False

    def rewrites(self, source: Source) -> Iterator[Rewrite]:
        """Yield the changed sources."""
        choices = {name: choose(source) for name, choose in _CHOICES.items()}
        tried: list[tuple[ast.AST, tuple[object, ...], str, str]] = [
            (node, (alike, *key), new, reason)
            for node, parts, texts in self._places(source)
            for key, new, reason in self._tried(choices, parts, texts)
            for alike in self._alike(source, node, parts)
        ]
        together: dict[tuple[object, ...], list[tuple[ast.AST, str]]] = {}
        for node, key, new, _ in tried if self.everywhere else ():
            together.setdefault(key, []).append((node, new))
        reasons = {key: reason for _, key, _, reason in tried}
        for key, pairs in together.items():
            if len(pairs) > 1 and _are_apart(source, [node for node, _ in pairs]):
                yield Rewrite(source.replaced(*pairs), reasons[key])
        for (node, new), reason in {(node, new): reason for node, _, new, reason in tried}.items():
            yield Rewrite(source.replaced((node, new)), reason)

    def _alike(
        self, source: Source, node: ast.AST, parts: Mapping[str, str]
    ) -> Iterator[tuple[object, ...]]:
        """Yield what the places of a change that is tried in all of them have in common."""
        yield parts["pattern"], parts.get("B", ""), parts.get("A", "") in source.tensors
        if self.everywhere:
            yield parts["pattern"], source.statement_of(node)

    def _places(self, source: Source) -> Iterator[tuple[ast.AST, dict[str, str], Sequence[str]]]:
        """Yield the nodes that fit a pattern, and what is tried; those that begin `kind` first."""
        order, kinds = self.kind.split(), _Kinds(source)
        ranked: list[tuple[int, ast.AST, dict[str, str], Sequence[str]]] = []
        table = [(_pattern(row[0]), row) for row in self.rows]
        for node, (pattern, row) in itertools.product(reversed(source.nodes), table):
            slots: dict[str, ast.AST] = {}
            is_read = isinstance(getattr(node, "ctx", None), ast.Load | None)
            if not is_read or not _matches(source, pattern, node, slots, is_whole=True):
                continue
            if self.is_stored and not _is_stored(source, node):
                continue
            if not order or kinds.of(node) in order:
                rank = order.index(kinds.of(node)) if order else 0
                parts = {letter: source.of(part) for letter, part in slots.items()}
                parts |= {letter.lower(): _operand(source, part) for letter, part in slots.items()}
                parts |= {"it": source.of(node), "rest": _rest(source, pattern, node)}
                ranked.append((rank, node, parts | {"pattern": row[0]}, row[1:]))
        for _, node, parts, texts in sorted(ranked, key=operator.itemgetter(0)):
            yield node, parts, texts

    def _tried(
        self, choices: Mapping[str, Sequence[str]], parts: Mapping[str, str], texts: Sequence[str]
    ) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Yield a text with what was chosen for its names, the new text, and the reason."""
        for text in texts:
            fields = {field for _, field, _, _ in string.Formatter().parse(text) if field}
            chosen = sorted(fields & {*choices})
            for values in itertools.product(*(choices[name] for name in chosen)):
                given = {**parts, **dict(zip(chosen, values))}
                new = text.format_map(given)
                if new != parts["it"]:
                    short = {name: _shortened(part) for name, part in given.items()}
                    reason = self.reason.format_map({**short, "new": _shortened(new)})
                    yield (text, *values), new, reason


def _operand(source: Source, node: ast.AST) -> str:
    is_plain = isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Subscript | ast.Attribute)
    return source.of(node) if is_plain else f"({source.of(node)})"


def _is_function(source: Source, node: ast.expr) -> bool:
    call = source.parents[node]
    return isinstance(call, ast.Call) and call.func is node


def _is_stored(source: Source, node: ast.AST) -> bool:
    call = source.parents[node]
    return isinstance(call, ast.Call) and called(call) in _ACCESSES[1:] and node in call.args[1:2]


def _pattern(text: str) -> ast.AST:
    statement = ast.parse(text).body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def _matches(
    source: Source, pattern: Any, node: Any, slots: dict[str, ast.AST], *, is_whole: bool = False
) -> bool:
    """Return whether a node, or what a variable was assigned, fits a pattern; fill letters."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.isupper():
        if not isinstance(node, ast.expr) or _is_function(source, node):
            return False
        known = slots.setdefault(pattern.id, node)
        return known is node or ast.unparse(known) == ast.unparse(node)
    if isinstance(node, ast.Name) and not is_whole and not isinstance(pattern, ast.Name):
        node = source.assigned.get(node.id, node)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        return len(pattern) == len(node) and all(
            _matches(source, mine, other, slots) for mine, other in zip(pattern, node)
        )
    if isinstance(pattern, ast.Call):
        mine, theirs = _arguments(pattern), _arguments(node)
        if mine and isinstance(mine[-1], ast.Constant) and mine[-1].value is ...:
            mine, theirs = mine[:-1], theirs[: len(mine) - 1]
        return _matches(source, pattern.func, node.func, slots) and _matches(
            source, mine, theirs, slots
        )
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    fields = [field for field in pattern._fields if field not in ("ctx", "type_comment", "kind")]
    return all(_matches(source, getattr(pattern, f), getattr(node, f), slots) for f in fields)


def _arguments(call: ast.Call) -> list[ast.expr]:
    """Return the arguments, whether they have names or not."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _rest(source: Source, pattern: ast.AST, node: ast.AST) -> str:
    """Return the arguments that the `...` at the end of a pattern stands for, after a comma."""
    if not isinstance(pattern, ast.Call) or not isinstance(node, ast.Call):
        return ""
    more = [*node.args, *node.keywords][len(_arguments(pattern)) - 1 :]
    return "".join(f", {source.of(argument)}" for argument in more)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# Masks


def _masks_for(source: Source, call: ast.Call) -> list[str]:
    """Return conditions that may keep an access inside, the kernel's own first."""
    names = [node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)]
    own = [name for name in dict.fromkeys(names) if name not in source.values]
    numbers = _plain(source)
    spread = {
        source.of(node): node.value.id
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    }
    flat = [name for name in own if name not in spread.values()]
    made = [f"{name} < {size}" for name in flat for size in numbers]
    pairs = list(itertools.combinations(spread, 2))
    for sign in ("<", "<="):
        for (mine, other), (first, second) in itertools.product(
            pairs, itertools.permutations(numbers, 2)
        ):
            made.append(f"({mine} {sign} {first}) & ({other} {sign} {second})")
        if sign == "<":
            made += [f"{name} < {size}" for name in spread.values() for size in numbers]
    pointer, *terms = source.of(call.args[0]).split(" + ")
    for skipped in range(len(terms)) if pointer in source.tensors else ():
        offset = " + ".join(terms[skipped:])
        if offset not in own:
            made += [f"{offset} < {size}" for size in numbers]
            made += [f"({offset} >= 0) & ({offset} < {size})" for size in numbers]
    return list(dict.fromkeys((*source.conditions, *made)))[:24]


_ACCESSES = ("load", "store", "atomic_add")


def masks(source: Source) -> Iterator[Rewrite]:
    """A mask for accesses that have none: for all of them, or for one."""
    bare = [
        call for call in source.calls(*_ACCESSES)
        if call.args and keyword_of(call, "mask") is None
    ]  # fmt: skip
    for mask in _masks_for(source, bare[0]) if len(bare) > 1 else ():
        for other in ("", *_NEUTRAL[:2]):
            text = _with_masks(source, bare, mask, other)
            yield Rewrite(text, f"No access has a mask: `{mask}` is needed.")
    for call in bare:
        for mask in _masks_for(source, call):
            for other in ("", *_NEUTRAL[:2]) if called(call) == "load" else ("",):
                text = _with_masks(source, [call], mask, other)
                yield Rewrite(text, f"This {_action(call)} has no mask.")


def blocks(source: Source) -> Iterator[Rewrite]:
    """A block in place of a size that is not known at compile time, and a mask."""
    for call, block in itertools.product(source.calls("arange"), source.constants):
        size = source.of(call.args[-1]) if call.args else ""
        if size in _plain(source):
            changed = Source(source.replaced((call.args[-1], block)), source.values, source.grid)
            reason = (
                f"The range must be a constexpr, as `{block}` is, and `{size}` the bound of a mask."
            )
            yield from (Rewrite(each.text, reason) for each in masks(changed))


def _with_masks(source: Source, calls: Sequence[ast.Call], mask: str, other: str) -> str:
    content = source.text.encode()
    for call in sorted(calls, key=lambda call: -source.span(call)[1]):
        end = source.span(call)[1] - 1
        value = f", other={other}" if other and called(call) == "load" else ""
        before = content[:end].rstrip(b", \n")
        content = before + f", mask={mask}{value}".encode() + content[end:]
    return content.decode()


def _are_apart(source: Source, nodes: Sequence[ast.AST]) -> bool:
    return not any(
        mine is not other and source.is_inside(mine, other) for mine in nodes for other in nodes
    )


def _action(call: ast.Call) -> str:
    return {"load": "load", "store": "store"}.get(called(call), "atomic")


@_family
def other_masks(source: Source) -> Iterator[_Change]:
    """Another mask of the kernel in place of one, or beside it, new variables first."""
    changes: list[tuple[bool, _Change]] = []
    for call in reversed(source.calls(*_ACCESSES)):
        given = keyword_of(call, "mask")
        if given is None or not call.args:
            continue
        was = source.of(given.value)
        left_out = _meant_by(call.args[0], source) - _meant_by(given.value, source)
        reason = f"The mask `{was}` of this {_action(call)} is true for the wrong elements."
        for mask in _masks_for(source, call):
            if mask != was:
                is_unlikely = left_out.isdisjoint(_WORD.findall(mask))
                for new in (mask, f"{in_brackets(was)} & ({mask})"):
                    changes.append((is_unlikely, ([(given.value, new)], reason)))
    for _, change in sorted(changes, key=operator.itemgetter(0)):
        yield change


@_family
def unbounded(source: Source) -> Iterator[_Change]:
    """A bound for an index of several tiles, in all masks that leave it out."""
    places: dict[str, list[tuple[ast.AST, str, str]]] = {}
    for call in source.calls(*_ACCESSES):
        given = keyword_of(call, "mask")
        if given is None or not call.args:
            continue
        for node in ast.walk(call.args[0]):
            if isinstance(node, ast.Subscript) and source.of(node.slice) in _SPREAD:
                if names_in(node.value).isdisjoint(_meant_by(given.value, source)):
                    mask, spread = in_brackets(source.of(given.value)), source.of(node)
                    places.setdefault(source.of(node.value), []).append((given.value, mask, spread))
    for (index, without), size in itertools.product(places.items(), _plain(source)):
        pairs = [(node, f"{mask} & ({spread} < {size})") for node, mask, spread in without]
        yield pairs, f"No mask limits `{in_brackets(index)}`."


_WORD = re.compile(r"[A-Za-z_]\w*")


def names_in(node: ast.AST) -> set[str]:
    """Return the names in a piece of source."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _meant_by(node: ast.AST, source: Source) -> set[str]:
    """Return the names in an expression, and those in what is assigned to these."""
    names = names_in(node)
    values = (source.assigned[name] for name in names if name in source.assigned)
    return names.union(*map(names_in, values))


@_family
def others(source: Source) -> Iterator[_Change]:
    """The value of masked elements: of one load, or of all."""
    loads = [call for call in source.calls("load") if keyword_of(call, "mask") is not None]
    for other in _NEUTRAL:
        changes = [change for call in loads for change in _other(source, call, other)]
        if len(changes) > 1:
            yield changes, f"Masked elements take part in the result: they must be `{other}`."
        for call in loads:
            given = keyword_of(call, "other")
            was = "are not set" if given is None else f"are `{source.of(given.value)}`"
            reason = (
                f"The elements that the mask of this load disables {was} and take part in the "
                f"result: they must be `{other}`."
            )
            for change in _other(source, call, other):
                yield [change], reason


def _other(source: Source, call: ast.Call, other: str) -> Iterator[tuple[ast.AST, str]]:
    given = keyword_of(call, "other")
    if given is None:
        yield call, source.with_argument(call, f"other={other}")
    elif source.of(given.value) != other:
        yield given.value, other


@_family
def excluded(source: Source) -> Iterator[_Change]:
    """`tl.where` around what is reduced, or around a variable, for masked elements."""
    own, kinds = source.conditions[:4], _Kinds(source)
    masks = dict.fromkeys((*own, *(mask.replace("[:, None]", "[None, :]") for mask in own)))
    calls = [call for call in source.calls(*_NEUTRAL_OF) if call.args]
    reduced = [(call.args[0], f"tl.{called(call)}", _NEUTRAL_OF[called(call)]) for call in calls]
    # A variable that several calls use, as a softmax uses scores, is excluded from all of them.
    used: dict[str, list[str]] = {}
    for node, _, neutral in reduced:
        for name in names_in(node):
            used.setdefault(name, []).append(neutral)
    values = [(node.value, source.of(node.targets[0])) for node in source.nodes
              if isinstance(node, ast.Assign)]  # fmt: skip
    shared = [(node, name, used[name][0]) for node, name in values if len(used.get(name, ())) > 1]
    others = [(node, name, other) for node, name in values for other in _NEUTRAL[:3]]
    for (node, where, other), mask in itertools.product([*shared, *reduced, *others], masks):
        if kinds.of(node) == "value":
            reason = (
                f"Elements where `{mask}` is False take part in `{where}`: they must be `{other}`."
            )
            yield [(node, f"tl.where({mask}, {source.of(node)}, {other})")], reason


_NEUTRAL_OF = dict.fromkeys(("exp", "exp2", "max", "argmax"), _NEUTRAL[1])
_NEUTRAL_OF |= dict.fromkeys(("sum", "cumsum", "dot"), _NEUTRAL[0])
_NEUTRAL_OF |= dict.fromkeys(("min", "argmin"), _NEUTRAL[2])


# Axes, and which names are where


@_family
def axes(source: Source) -> Iterator[_Change]:
    """Program ids, the axis of a reduction, and [:, None] for [None, :]."""
    ids = [(call.args[0], source.of(call.args[0])) for call in source.calls(
        "program_id", "num_programs") if call.args]  # fmt: skip
    swapped = [(node, _OTHER[axis]) for node, axis in ids if axis in _OTHER]
    # Along an axis with one program, the id is always 0: that no program needs it is another fault.
    used = [str(axis) for axis, size in enumerate(source.grid or (2, 2, 2)) if size > 1]
    if len(swapped) > 1 and {*_OTHER} <= {*used}:
        yield swapped, "The program ids of axis 0 and axis 1 are swapped."
    for (node, was), axis in itertools.product(ids, used):
        # A kernel with one program id needs that of axis 0: without, all programs do the same.
        if was != axis and (len(ids) > 1 or axis == "0"):
            yield [(node, axis)], f"This program id is along axis {was}, and axis {axis} is needed."
    for value, axis in itertools.product(_reduced(source), "01"):
        was = source.of(value)
        if was != axis:
            reason = f"The reduction is along axis {was}, and axis {axis} is needed."
            yield [(value, axis)], reason
            spread = source.parents[_call_of(source, value)]
            if isinstance(spread, ast.Subscript) and source.of(spread.slice) in _SPREAD:
                yield [(value, axis), (spread.slice, _SPREAD[source.of(spread.slice)])], reason
    yield from _spread(source)


def _call_of(source: Source, node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.Call):
        node = source.parents[node]
    return node


_OTHER = {"0": "1", "1": "0"}
_SPREAD = {":, None": "None, :", "None, :": ":, None"}


def _spread(source: Source) -> Iterator[_Change]:
    spread = [
        node.slice
        for node in source.nodes
        if isinstance(node, ast.Subscript) and source.of(node.slice) in _SPREAD
    ]
    reason = "The tile is transposed: rows and columns are swapped here."
    for statement in dict.fromkeys(source.statement_of(node) for node in spread):
        inside = [node for node in spread if source.is_inside(node, statement)]
        pairs = [(node, _SPREAD[source.of(node)]) for node in inside]
        yield pairs, reason
        for call in source.calls(*_ACCESSES):
            own = [pair for pair in pairs if call.args and source.is_inside(pair[0], call.args[0])]
            if len(own) > 1 and source.is_inside(call, statement):
                yield own, reason
    for node in spread:
        yield [(node, _SPREAD[source.of(node)])], reason


@_family
def other_axis(source: Source) -> Iterator[_Change]:
    """An access along the rows in place of the columns, with its mask and the axis of its tile."""
    bounds = _bounds_of(source)
    for call, (mine, other) in itertools.product(
        source.calls(*_ACCESSES), itertools.permutations(bounds, 2)
    ):
        inside = [name for name in source.names() if source.is_inside(name, call)]
        used = {name.id for name in inside}
        if mine not in used or other in used:
            continue
        swap = {mine: other, bounds[mine]: bounds[other]}
        pairs: list[tuple[ast.AST, str]] = [
            (name, swap[name.id]) for name in inside if name.id in swap
        ]
        if called(call) == "load":
            pairs += [(node, _SPREAD[source.of(node)]) for node in _spread_of(source, call)]
        else:
            pairs += [(axis, _OTHER[source.of(axis)]) for axis in _axes_of(source, call)]
        yield pairs, f"This {_action(call)} is along `{mine}`, and `{other}` is needed."


def _axes_of(source: Source, call: ast.Call) -> Iterator[ast.AST]:
    """Yield the axes of the reductions in the value that a call stores, even if it has a name."""
    values = [call, *(source.assigned[name] for name in names_in(call) if name in source.assigned)]
    for node in _reduced(source):
        if source.of(node) in _OTHER and any(source.is_inside(node, each) for each in values):
            yield node


def _reduced(source: Source) -> list[ast.expr]:
    """Return the axes of all reductions."""
    along = [node.value for node in source.nodes
             if isinstance(node, ast.keyword) and node.arg == "axis"]  # fmt: skip
    for call in source.calls("sum", "max", "min", "argmax", "argmin", "cumsum"):
        along += call.args[1:2]
    return along


def _spread_of(source: Source, call: ast.Call) -> Iterator[ast.AST]:
    """Yield the [:, None] of loaded values, even if they have a name."""
    statement = source.statement_of(call)
    target = source.of(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    for node in source.nodes:
        if isinstance(node, ast.Subscript) and source.of(node.slice) in _SPREAD:
            if node.value is call or source.of(node.value) == target:
                yield node.slice


@_family
def halves(source: Source) -> Iterator[_Change]:
    """Elements `2 * j` and `2 * j + 1`, where the two are in two halves."""
    kinds, pairs, twice = _Kinds(source), list[tuple[ast.AST, str]](), set[str]()
    for node in source.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for factor, index in ((node.left, node.right), (node.right, node.left)):
                if source.of(factor) == "2" and kinds.rank(index) and kinds.of(index) == "index":
                    pairs.append((node, source.of(index)))
                    twice |= {name for name, value in source.assigned.items() if value is node}
    nodes = [node for node, _ in pairs]
    second = [
        node.right for node in source.nodes
        if isinstance(node, ast.BinOp) and source.of(node.right) == "1"
        and (not twice.isdisjoint(names_in(node.left)) or {*ast.walk(node.left)} & {*nodes})
    ]  # fmt: skip
    for size in _plain(source) if second else ():
        reason = f"Two elements that belong together are `{size}` apart, and not neighbors."
        yield [*pairs, *((node, size) for node in second)], reason


@_family
def positions_in_the_tile(source: Source) -> Iterator[_Change]:
    """The position in the tile in place of the position in the tensor, in a whole line."""
    calls = source.calls("arange")
    ranges = {source.of(call) for call in calls}
    ranges |= {
        name
        for name, value in source.assigned.items()
        if (value.value if isinstance(value, ast.Subscript) else value) in calls
    }
    whole = {
        source.of(part): name
        for name, value in source.assigned.items()
        for part in ast.walk(value)
        if isinstance(value, ast.BinOp) and part in (*calls, *source.names())
        and source.of(part) in ranges
    }  # fmt: skip
    nodes = [node for node in (*source.names(), *calls) if source.of(node) in whole]
    for statement in dict.fromkeys(source.statement_of(node) for node in nodes):
        pairs = [
            (node, whole[source.of(node)])
            for node in nodes
            if source.is_inside(node, statement)
            and source.assigned.get(whole[source.of(node)]) != getattr(statement, "value", None)
        ]
        if pairs:
            first = source.of(pairs[0][0])
            reason = f"`{first}` is an index within the tile, but `{whole[first]}` is needed."
            yield pairs, reason


@_family
def names(source: Source) -> Iterator[_Change]:
    """Another parameter in place of one, or two that are swapped."""
    plain, constants, floats = _plain(source), source.constants, source.floats
    for group in (plain, source.tensors, floats):
        yield from _swaps(source, group)
    stores = [call.args[0] for call in source.calls("store") if call.args]
    results = {node.id for node in source.names(of=source.tensors)
               if any(source.is_inside(node, place) for place in stores)}  # fmt: skip
    pairs = (itertools.combinations(group, 2) for group in (sorted(results), floats))
    for mine, other in itertools.chain.from_iterable(pairs):
        swap = {mine: other, other: mine}
        nodes = source.names(of=(mine, other))
        yield [(node, swap[node.id]) for node in nodes], f"`{mine}` and `{other}` are swapped."
    together = [*plain, *constants, *floats]
    for group in (plain, source.tensors, constants, floats, together):
        for node in reversed(source.names(of=group)):
            for other in group:
                if other != node.id:
                    yield [(node, other)], f"`{node.id}` is used where `{other}` is needed."
    yield from _swaps(source, constants)


def _swaps(source: Source, group: Sequence[str]) -> Iterator[_Change]:
    """Yield two names that are swapped in a line."""
    for mine, other in itertools.combinations(group, 2):
        swap = {mine: other, other: mine}
        named = source.names(of=(mine, other))
        for statement in dict.fromkeys(map(source.statement_of, named)):
            pairs = [(node, swap[node.id]) for node in named if source.is_inside(node, statement)]
            if len({source.of(node) for node, _ in pairs}) > 1:
                yield pairs, f"`{mine}` and `{other}` are swapped in this line."


@_family
def variables(source: Source) -> Iterator[_Change]:
    """Another variable of the same kind in place of one, or two that are swapped."""
    kinds = _Kinds(source)
    known = [*source.assigned, *_positions(source)]
    for node in reversed(source.names(of=known)):
        for other in known:
            if other != node.id and kinds.are_alike(other, node.id):
                yield [(node, other)], f"`{node.id}` is used where `{other}` is needed."
    yield from _swaps(source, _CHOICES["value"](source))


_PER_LINE = ("operators", "ranges", "addresses", "names")


def alike_lines(source: Source) -> Iterator[Rewrite]:
    """A change of a line, made also in the lines that differ from it only in their names."""
    lines = source.text.split("\n")
    for rewrite in _in_turn(*(family(source) for family in _families(*_PER_LINE))):
        new = rewrite.text.split("\n")
        changed = [at for at, (mine, other) in enumerate(zip(lines, new)) if mine != other]
        if len(new) == len(lines) and len(changed) == 1:
            own = changed[0]
            lines_as = {at: _renamed(lines[own], line, new[own]) for at, line in enumerate(lines)}
            alike = {at: line for at, line in lines_as.items() if line}
            nearest = {at: alike[at] for at in sorted(alike, key=lambda at: abs(at - own))[:1]}
            for some in (nearest, alike)[: min(len(alike), 2)]:
                text = "\n".join(some.get(at, line) for at, line in enumerate(new))
                yield Rewrite(text, rewrite.reason)


def _in_turn(*changes: Iterable[_Any]) -> Iterator[_Any]:
    """Yield the first of each, then the second of each, ..."""
    return filter(None, itertools.chain.from_iterable(itertools.zip_longest(*changes)))


def _renamed(mine: str, other: str, new: str) -> str:
    """Return a new line with another line's names; "" if the two differ in more than names."""
    tokens, others = _TOKEN.findall(mine), _TOKEN.findall(other)
    names = dict(zip(tokens, others))
    if mine == other or [names.get(token) for token in tokens] != others:
        return ""
    if any(mine != other and not (mine + other).isidentifier() for mine, other in names.items()):
        return ""
    return _WORD.sub(lambda word: names.get(word[0], word[0]), new)


_TOKEN = re.compile(r"\w+|\S")


# Loops and sums


def earlier_maxima(source: Source) -> Iterator[Rewrite]:
    """Sums that are not multiplied as the maximum in their exponents grows."""
    ranks = _Kinds(source).ranks
    for loop in source.loops():
        inside = [*ast.walk(loop)]
        carried = {
            source.of(target): node
            for node in inside
            if isinstance(node, ast.Assign | ast.AugAssign)
            for target in (node.target if isinstance(node, ast.AugAssign) else node.targets[0],)
            if isinstance(node, ast.AugAssign) or names_in(target) <= names_in(node.value)
        }
        for old, node in carried.items():
            if not isinstance(node.value, ast.Call) or called(node.value) != "maximum":
                continue
            lines = {
                name: f"{name} *= tl.exp({old} - {source.of(node.value)})"
                + "[:, None]" * (ranks.get(name, 0) > 1)
                for name in carried
                if name != old
            }
            for names in (*lines, tuple(lines))[len(lines) == 1 :]:
                several = [names] if isinstance(names, str) else names
                reason = f"`{old}` changes, but the sums of exponentials used its earlier value."
                line = f"\n{' ' * node.col_offset}".join(lines[name] for name in several)
                yield Rewrite(source.with_line(node, line), reason)


@_family
def loops(source: Source) -> Iterator[_Change]:
    """The variables that a loop carries, and where it begins and ends."""
    for loop in source.loops():
        carried = (
            change for node in source.nodes
            if source.is_inside(node, loop) and isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            for change in _carried(source, node, node.targets[0].id)
        )  # fmt: skip
        range_ = loop.iter if isinstance(loop, ast.For) else None
        bounds = _bounds(source, range_) if isinstance(range_, ast.Call) else ()
        yield from _in_turn(bounds, carried, _kept(source, loop))


def _carried(source: Source, node: ast.Assign, name: str) -> Iterator[_Change]:
    value = source.of(node.value)
    if _Kinds(source).of(node.value) != "value" or name in names_in(node.value):
        return
    only_last = f"Every iteration overwrites `{name}`, so only the last iteration counts."
    copies = [source.of(each.targets[0]) for each in source.nodes
              if isinstance(each, ast.Assign) and source.of(each.value) == name]  # fmt: skip
    for each in (*copies, name):
        news = [f"{each} + {value}", f"tl.maximum({each}, {value})", f"{each} * {value}",
                f"tl.minimum({each}, {value})"]  # fmt: skip
        for new in news[1:2] if value.startswith("tl.max(") else news:
            yield [(node.value, new)], only_last
    if isinstance(node.value, ast.Call) and called(node.value) == "dot":
        yield [(node.value, f"{value[:-1]}, {name})")], only_last


def _kept(source: Source, loop: ast.For | ast.While) -> Iterator[_Change]:
    """Yield values that the loop reads and replaces at its end by a value that it computes."""
    last = loop.body[-1]
    values, made = _CHOICES["value"](source), written(loop)
    for name, other in itertools.product(values, values):
        if name in names_in(loop) - made and other in made:
            new = f"{source.of(last)}\n{' ' * last.col_offset}{name} = {other}"
            yield [(last, new)], f"`{name}` must be set to `{other}` in the loop."


def written(loop: ast.AST) -> set[str]:
    """Return the variables that a loop or a statement writes."""
    names = (node for node in ast.walk(loop) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def unmoved(source: Source) -> Iterator[Rewrite]:
    """A pointer that a loop reads from and does not advance, as it advances another one."""
    kinds = _Kinds(source)
    for loop in source.loops():
        read = names_in(loop) - written(loop)
        still = [name for name in source.assigned if kinds[name] == "pointer" and name in read]
        for node in loop.body:
            target = source.of(node.target) if isinstance(node, ast.AugAssign) else ""
            for name in still if kinds.get(target) == "pointer" else ():
                reason = f"`{name}` must advance in each iteration, as `{target}` does."
                for factor in ("", *(f" * {size}" for size in _plain(source))):
                    line = f"{source.of(node).replace(target, name, 1)}{factor}"
                    yield Rewrite(source.with_line(node, line, after=True), reason)


def _bounds(source: Source, call: ast.Call) -> Iterator[_Change]:
    arguments = [source.of(argument) for argument in call.args]
    range_, numbers = called(call), _plain(source)
    if len(arguments) in (1, 2):
        first, last = ("0", arguments[0]) if len(arguments) == 1 else arguments
        for step in source.constants:
            for end in dict.fromkeys((last, *numbers)):
                blocks = f"{first}, tl.cdiv({end}, {step})"
                for steps in (f"{first}, {end}, {step}", blocks):
                    reason = f"The loop must cover `{end}` elements in blocks of `{step}`."
                    yield [(call, f"{range_}({steps})")], reason
                if first in _programs(source):
                    reason = "Each program must take every num_programs-th block."
                    yield [(call, f"{range_}({blocks}, tl.num_programs(0))")], reason
    else:
        if arguments[:1] == ["tl.program_id(0)"] or arguments[0] in _programs(source):
            reason = f"The step must be the number of programs, not `{arguments[2]}`."
            yield [(call.args[2], "tl.num_programs(0)")], reason
        strided = source.constants if _is_by_program(source, call.args[0]) else ()
        for size, step in itertools.product(numbers, strided):
            for first, reason in {
                arguments[0]: "The loop leaves out the blocks after the first of each program.",
                f"tl.program_id(0) * {step}": "Each program must take every num_programs-th block.",
            }.items():
                yield [(call, f"{range_}({first}, {size}, tl.num_programs(0) * {step})")], reason
    for place, old in enumerate(arguments):
        near = (f"{old} + {more}" for more in ("1", *source.constants))
        for new in dict.fromkeys((*source.numbers, *arguments, "0", f"{old} - 1", *near)):
            if new != old:
                reason = f"`{source.of(call)}` has too few or too many iterations."
                yield [(call.args[place], new)], reason


def _is_by_program(source: Source, node: ast.AST) -> bool:
    values = (source.assigned.get(name, node) for name in _meant_by(node, source))
    return any("program_id(" in source.of(value) for value in (node, *values))


def carries(source: Source) -> Iterator[Rewrite]:
    """The sum of the blocks before, added to a scan of one block."""
    for loop in source.loops():
        for call in source.calls("cumsum"):
            if not source.is_inside(call, loop) or not call.args or "carry" in source.text:
                continue
            statement = source.statement_of(call)
            lines = source.replaced((call, f"carry + {source.of(call)}")).splitlines()
            sum_ = f"carry += tl.sum({source.of(call.args[0])}, axis=0)"
            lines.insert(statement.end_lineno or 0, f"{' ' * statement.col_offset}{sum_}")
            lines.insert(loop.lineno - 1, f"{' ' * loop.col_offset}carry = 0.0")
            reason = f"`{_shortened(source.of(call))}` omits the sum of the blocks before."
            yield Rewrite("\n".join((*lines, "")), reason)


def order(source: Source) -> Iterator[Rewrite]:
    """Statements that update a variable and neighboring ones swapped, one removed, and one moved
    before or after its loop.
    """
    bodies = [source.kernel.body, *(loop.body for loop in source.loops())]
    plain = [
        [each for each in body if not isinstance(each, ast.For | ast.While)] for body in bodies
    ]
    for loop in source.loops():
        if len(loop.body) > 1:
            last = loop.body[-1]
            start, end = source.span(loop.body[-2])[1], source.span(last)[1]
            line = f"\n{' ' * loop.col_offset}{source.of(last)}".encode()
            content = source.text.encode()
            text = (content[:start] + line + content[end:]).decode()
            reason = f"`{_shortened(source.of(last))}` must come after the loop, not in it."
            yield Rewrite(text, reason)
            first = source.of(loop.body[0])
            start, end = source.span(loop)[0], source.span(loop.body[0])[0]
            rest = source.span(loop.body[1])[0]
            line = f"{first}\n{' ' * loop.col_offset}".encode()
            text = (content[:start] + line + content[start:end] + content[rest:]).decode()
            yield Rewrite(text, f"`{_shortened(first)}` must come before the loop, not in it.")
    for body in plain:
        numbers = range(len(body))
        updates = [(i, j) for i, j in itertools.combinations(numbers, 2)
                   if written(body[i]) & written(body[j])]  # fmt: skip
        for i, j in dict.fromkeys((*updates, *itertools.pairwise(numbers))):
            moved = body[i : j + 1]
            texts = [source.of(each) for each in (*moved[1:], moved[0])]
            text = source.replaced(*zip(moved, texts, strict=True))
            mine, other = _shortened(texts[-1]), _shortened(source.of(moved[-1]))
            yield Rewrite(text, f"`{mine}` must come after `{other}`.")
    for statement in itertools.chain.from_iterable(plain):
        what = _shortened(source.of(statement))
        yield Rewrite(source.without(statement), f"`{what}` should be removed.")


# Waits for asynchronous operations


@_family
def waits(source: Source) -> Iterator[_Change]:
    """Waits that leave fewer operations in flight, or are for another phase."""
    for call in source.calls("wait_group", "store_wait", "warpgroup_mma_wait"):
        for count, pending in _whole(call, 0, "pendings", "num_outstanding"):
            for fewer in reversed(range(pending)):
                reason = f"`{source.of(call)}` leaves too many operations in flight."
                yield [(count, str(fewer))], reason
    for call in source.calls("wait"):
        if len(call.args) == 2:
            other = _turned(source.of(call.args[1]))
            for phase in (other, *_phases(source, call, source.of(call.args[0]))):
                reason = f"`{source.of(call)}` waits for the wrong phase."
                yield [(call.args[1], phase)], reason


@_family
def stages(source: Source) -> Iterator[_Change]:
    """The stage of another buffer in the same statement or one beside it."""
    statements = (node for node in source.nodes if isinstance(node, ast.stmt))
    places = {statement: number for number, statement in enumerate(statements)}
    uses = [(places[source.statement_of(each)], each) for each in source.calls("index")]
    for (here, mine), (there, other) in itertools.permutations(uses, 2):
        if abs(here - there) <= 1 and source.of(mine.func) != source.of(other.func):
            for stage, its in zip(mine.args, other.args, strict=False):
                reason = f"`{source.of(mine)}` and `{source.of(other)}` must use the same stage."
                yield [(stage, source.of(its))], reason


def early_arrivals(source: Source) -> Iterator[Rewrite]:
    """An arrival after the use of memory that follows it, whose end it is for."""
    for call in source.calls("arrive"):
        arrival = source.statement_of(call)
        for first, use in itertools.pairwise(getattr(source.parents[arrival], "body", ())):
            if first is arrival and _uses(use, "load|store|mma$"):
                mine, other = source.of(arrival), source.of(use)
                text = source.replaced((arrival, other), (use, mine))
                yield Rewrite(text, f"`{mine}` must come after `{_shortened(other)}`.")


def waits_before(source: Source, line: int) -> bool:
    """Return whether a wait comes before a statement, by its line from 0, in the same block, and no
    other use of memory between.
    """
    statements = (node for node in source.nodes if isinstance(node, ast.stmt))
    for node in (each for each in statements if each.lineno == line + 1):
        body = getattr(source.parents[node], "body", [node])
        for each in reversed(body[: body.index(node)] if node in body else []):
            if _uses(each, "wait") or _uses(each, _USES):
                return _uses(each, "wait") and not isinstance(each, ast.For | ast.While)
    return False


def _turned(phase: str) -> str:
    if phase in ("0", "1"):
        return str(1 - int(phase))
    base = re.sub(r" \^ [01]$", "", phase)
    return base if phase == f"{base} ^ 1" else f"{base} ^ 1"


@_family
def counts(source: Source) -> Iterator[_Change]:
    """Other numbers of arrivals and bytes that complete a phase."""
    for call in source.calls("expect"):
        statement = source.statement_of(call)
        brought = _brought(source, source.of(call.args[0]), statement) if call.args[1:] else ""
        if brought and brought != source.of(call.args[1]):
            reason = f"`{source.of(call)}` must expect `{brought}` bytes."
            yield [(call.args[1], brought)], reason
    inits = [(call, *each) for call in source.calls("init") for each in _whole(call, 1, "count")]
    for call, count, old in inits:
        for other in (old + 1, old - 1):
            barrier, arrivals = source.of(call.args[0]), counted(other, "arrival")
            reason = f"A phase of `{barrier}` gets {arrivals}, not {old}."
            yield [(count, str(other))], reason
            yield [(same, str(other)) for _, same, its in inits if its == old], reason


def _whole(call: ast.Call, position: int, *keywords: str) -> Iterator[tuple[ast.AST, int]]:
    """Yield an argument that is an integer, with its value."""
    named = (each.value for each in call.keywords if each.arg in keywords)
    for node in (*call.args[position : position + 1], *named):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield node, node.value


def _brought(source: Source, barrier: str, near: ast.stmt) -> str:
    """Return the bytes that TMA loads near a statement bring to a barrier, as an expression."""
    loads = [
        call for call in source.calls(*_LOADS)
        if call.args[3:] and source.parents[source.statement_of(call)] is source.parents[near]
    ]  # fmt: skip
    sizes = [source.of(call.args[0]) for call in loads if source.of(call.args[2]) == barrier]
    return " + ".join(f"{descriptor}.block_type.nbytes" for descriptor in sizes)


_Line = tuple[str, bool]
"""A line that may be missing, and whether it comes after the statement."""


def _missing(lines: Callable[[Source, ast.stmt], Iterator[_Line]]) -> Family:
    """Return the family of the lines that a function says may be missing at a statement."""

    def rewrites(source: Source) -> Iterator[Rewrite]:
        for statement in source.nodes:
            if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign):
                for line, after in lines(source, statement):
                    where = f"{'after' if after else 'before'} `{_shortened(source.of(statement))}`"
                    text = source.with_line(statement, line, after=after)
                    yield Rewrite(text, f"`{line}` is missing {where}.")

    return rewrites


def _uses(statement: ast.stmt, pattern: str) -> bool:
    """Return whether a statement calls a function whose last name has a pattern."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(re.search(pattern, called(call)) for call in calls)


@_missing
def missing_waits(source: Source, statement: ast.stmt) -> Iterator[_Line]:
    """A wait before a statement that uses memory or a product."""
    text = source.of(statement)
    for name, value in source.assigned_by("warpgroup_mma", "warpgroup_mma_wait"):
        if name in names_in(statement) and source.statement_of(value) is not statement:
            yield f"{name} = warpgroup_mma_wait(num_outstanding=0, deps=({name},))", False
    if "multicast=True" in text:
        yield "gl.barrier(cluster=True)", False
    if _uses(statement, _USES):
        for barrier in _barriers(source, text):
            yield from ((f"mbarrier.wait({barrier}, {phase})", False)
                        for phase in _phases(source, statement, barrier))  # fmt: skip
        yield from (
            (f"{_module(source)}.wait_group({count})", False)
            for count in (2, 1, 0) if source.calls("commit_group")
        )  # fmt: skip
        if source.calls(*_STORES):
            yield from ((f"tma.store_wait({count})", False) for count in (1, 0))
            if triton_api.STORE_WAITS_FOR_WRITES:
                yield "tma.store_wait(0, read_only=False)", False


def missing_last_waits(source: Source) -> Iterator[Rewrite]:
    """A wait for stores at the end."""
    for call in source.calls(*_STORES)[:1]:
        text = source.with_line(source.kernel.body[-1], "tma.store_wait(0)", after=True)
        stored = _shortened(source.of(source.statement_of(call)))
        yield Rewrite(text, f"`tma.store_wait(0)` is missing at the end, after `{stored}`.")


def _module(source: Source) -> str:
    """Return the module of asynchronous copies as a function names it."""
    named = re.search(r"(\w+)\.(?:wait|commit)_group\(", source.text)
    return named[1] if named else "async_copy"


@_missing
def missing_commits(source: Source, statement: ast.stmt) -> Iterator[_Line]:
    """A commit after copies or products, or before a wait for copies."""
    if _uses(statement, f"{_COPIES}|wait_group"):
        yield f"{_module(source)}.commit_group()", not _uses(statement, "wait_group")
    if _uses(statement, _TENSOR_PRODUCTS):
        barriers = _barriers(source, source.of(statement))
        yield from ((f"blackwell.tcgen05_commit({each})", True) for each in barriers)


@_missing
def missing_arrivals(source: Source, statement: ast.stmt) -> Iterator[_Line]:
    """Bytes that are expected before loads, an arrival after a statement that uses memory."""
    for barrier in _barriers(source, source.of(statement)):
        brought = _brought(source, barrier, statement)
        if brought and f"{barrier}," in source.of(statement):
            yield f"mbarrier.expect({barrier}, {brought})", False
        elif _uses(statement, "^(load|store)$"):
            yield f"mbarrier.arrive({barrier}, count=1)", True


@_missing
def missing_fences(_: Source, statement: ast.stmt) -> Iterator[_Line]:
    """A fence after a store to shared memory that TMA or a tensor core reads."""
    if _uses(statement, "^store$"):
        yield "fence_async_shared()", True


@_missing
def missing_barriers(source: Source, statement: ast.stmt) -> Iterator[_Line]:
    """Barriers that are not initialized, or not invalidated before they are initialized again."""
    for call in source.calls("wait", "init", "expect"):
        if source.statement_of(call) is statement:
            barrier = source.of(call.args[0])
            if called(call) == "wait":
                yield f"mbarrier.invalidate({barrier})", True
                continue
            opposite = "invalidate({})" if called(call) == "init" else "init({}, count=1)"
            yield f"mbarrier.{opposite.format(barrier)}", False
            for number in (0, 1) if "index" in barrier else ():
                other = re.sub(r"index\(\d+\)", f"index({number})", barrier)
                yield f"mbarrier.init({other}, count=1)", True


_AT_BARRIERS = ("expect", "wait", "arrive", "tcgen05_commit", "init")
_LOADS = ("tma_load", "async_load", "async_copy_global_to_shared")
_STORES = ("tma_store", "async_store", "async_copy_shared_to_global")
_USES = r"load|store|copy|mma$|expect|invalidate"
_COPIES = r"copy_to_shared|global_to_shared|load_to_shared"
_TENSOR_PRODUCTS = r"tcgen05_(?:mma|copy)"
"""The functions that use shared memory, that send it, and that fill it, by name."""


def _barriers(source: Source, text: str) -> list[str]:
    """Return the mbarriers that a statement may need, and unread parameters; of its stage."""
    places = [
        call.args[position]
        for position, names in ((0, _AT_BARRIERS), (2, _LOADS))
        for call in source.calls(*names) if call.args[position:]
    ]  # fmt: skip
    used = dict.fromkeys(map(source.of, places))
    read = {node.id for node in source.names()}
    unread = [each.arg for each in source.kernel.args.args if each.arg not in read]
    staged = dict.fromkeys([each.partition(".index(")[0] for each in used if ".index(" in each])
    stages = re.findall(r"\.index\(([^()]*)\)", text) or re.findall(
        r"\.index\(([^()]*)\)", " ".join(used)
    )
    at = [
        f"{base}.index({stage})" for stage in dict.fromkeys(stages) for base in (*unread, *staged)
    ]
    return list(dict.fromkeys((*at, *unread, *(each for each in used if ".index(" not in each))))


def _phases(source: Source, node: ast.AST, barrier: str) -> Iterator[str]:
    """Yield phases of a barrier by its stage, or by the counter of the loop around a node."""
    stage = barrier.partition(".index(")[2].removesuffix(")")
    value = source.assigned.get(stage)
    turn = re.fullmatch(r"(\w+) % (\w+)", stage if value is None else source.of(value))
    if turn:
        yield from (f"{turn[1]} // {turn[2]} & 1", f"{turn[1]} // {turn[2]} & 1 ^ 1")
        return
    while node in source.parents and not isinstance(node, ast.For):
        node = source.parents[node]
    if isinstance(node, ast.For):
        counter = source.of(node.target)
        yield from (f"{counter} & 1", f"{counter} & 1 ^ 1")
    yield from ("0", "1")


# Numbers, factors and reductions


@_family
def moved_factors(source: Source) -> Iterator[_Change]:
    """A float argument as a factor of a product of matrices, and not of another value; a factor
    that is the same in each iteration of a loop as one of the result.
    """
    for node, factor, rest in _products(source):
        for call in source.calls("dot") if factor in source.floats else ():
            if _are_apart(source, [node, call]):
                reason = f"`{factor}` belongs to `{_shortened(source.of(call))}`."
                yield [(node, rest), (call, f"{source.of(call)} * {factor}")], reason
    kinds = _Kinds(source)
    for loop, (node, factor, rest) in itertools.product(source.loops(), _products(source)):
        is_same = written(loop).isdisjoint(_WORD.findall(factor)) and source.is_inside(node, loop)
        for call in source.calls("store") if is_same else ():
            if kinds.of(_pattern(factor)) == "value" and not source.is_inside(call, loop):
                value = in_brackets(source.of(call.args[1]))
                reason = f"`{factor}` must be a factor of the result, after the loop."
                yield [(node, rest), (call.args[1], f"{value} * {factor}")], reason


def _products(source: Source) -> Iterator[tuple[ast.BinOp, str, str]]:
    """Yield products with each of their factors, and what is left without it."""
    for node in source.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            mine, other = source.of(node.left), source.of(node.right)
            yield from ((node, mine, other), (node, other, mine))


@_family
def numbers(source: Source) -> Iterator[_Change]:
    """Another number in place of a constant."""
    held = [*source.numbers, *source.floats]
    axes_of_grid = {part for call in source.calls("program_id", "num_programs")
                    for part in call.args}  # fmt: skip
    places: list[list[tuple[ast.AST, str]]] = []
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
            continue
        if node in axes_of_grid:
            continue
        value: Any = node.value
        equal = [name for name in held if source.values[name] == value]
        near = ["0.0", '-float("inf")', "1.0", 'float("inf")', "0.5", "2.0"]
        if isinstance(value, int):
            near = [str(value + 1), str(value - 1), "0", "1", "2"]
        elif value not in (0.0, 1.0, 0.5, 2.0):  # a digit too many or too few
            near = [f"{value / 10:.12g}", f"{value * 10:.12g}", *near]
        news = [new for new in dict.fromkeys((*equal, *near, *held)) if new != source.of(node)]
        places.append([(node, new) for new in news if not new.startswith("-1")])
    places.sort(key=lambda pairs: isinstance(getattr(pairs[0][0], "value", 0), int))
    for turn in itertools.zip_longest(*places):  # the likely ones of every constant first
        for node, new in filter(None, turn):
            yield [(node, new)], f"`{source.of(node)}` is used where `{new}` is needed."
    for call, new in itertools.product(source.calls("float"), _NEUTRAL[:3]):
        outer = source.parents.get(call)
        target = outer if isinstance(outer, ast.UnaryOp) else call
        if new != source.of(target):
            yield [(target, new)], f"`{source.of(target)}` is used where `{new}` is needed."


# What does not compile


@_family
def wide_scalars(source: Source) -> Iterator[_Change]:
    """Arguments whose annotation makes them narrower, or that Triton passes as float32, beside
    tensors of float64.
    """
    is_wide = any("float64" in str(source.values[name].dtype) for name in source.tensors)
    for parameter in source.kernel.args.args:
        name = parameter.arg
        if parameter.annotation is not None and name in {*source.floats, *source.numbers}:
            if name not in source.constants:
                reason = f"The annotation in `{source.of(parameter)}` changes the number."
                yield [(parameter, name)], reason
        elif is_wide and name in source.floats:
            reason = f"A Python float is passed as float32, but `{parameter.arg}` needs float64."
            yield [(parameter, f'{parameter.arg}: "fp64"')], reason


def _is_address(source: Source, node: ast.Name) -> bool:
    tensors = source.names(of=source.tensors)
    for call in source.calls(*_ACCESSES):
        inside = [name for name in tensors if call.args and source.is_inside(name, call.args[0])]
        if inside[:1] == [node]:
            return True
    return False


@_family
def unloaded(source: Source) -> Iterator[_Change]:
    """`x_ptr[lanes]`, and a pointer that is used as a value."""
    kinds = _Kinds(source)
    for statement in source.nodes:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            yield from _indexed_store(source, statement)
    for masked in ("", *(f", mask={mask}" for mask in source.conditions)):
        for node in source.nodes:
            if isinstance(node, ast.Subscript) and source.of(node.value) in source.tensors:
                place = f"{source.of(node.value)} + {source.of(node.slice)}"
                yield [(node, f"tl.load({place}{masked})")], f"`{source.of(node)}` does not load."
            if isinstance(node, ast.Name) and node.id in source.tensors:
                reason = f"`{node.id}` is a pointer, and its elements were not loaded."
                for place in (node.id, *(f"{node.id} + {name}" for name in source.assigned)):
                    if not _is_address(source, node):
                        yield [(node, f"tl.load({place}{masked})")], reason
        for name, value in source.assigned.items():
            reason = f"`{name}` is a pointer, and its elements were not loaded."
            if kinds[name] == "pointer":
                yield [(value, f"tl.load({source.of(value)}{masked})")], reason


def _indexed_store(source: Source, statement: ast.Assign | ast.AugAssign) -> Iterator[_Change]:
    """`z_ptr[lanes] = x_ptr[lanes] + 1` as a store of what is loaded."""
    target: Any = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
    if not isinstance(target, ast.Subscript) or source.of(target.value) not in source.tensors:
        return
    place = f"{source.of(target.value)} + {source.of(target.slice)}"
    reason = f"`{source.of(target)}` does not store: use tl.store with the pointer plus the index."
    for mask in ("", *(f", mask={mask}" for mask in source.conditions)):
        value = source.of(statement.value)
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Subscript) and source.of(node.value) in source.tensors:
                load = f"tl.load({source.of(node.value)} + {source.of(node.slice)}{mask})"
                value = value.replace(source.of(node), load)
        if isinstance(statement, ast.AugAssign):
            sign = _SIGNS.get(type(statement.op), "+")
            value = f"tl.load({place}{mask}) {sign} {value}"
        yield [(statement, f"tl.store({place}, {value}{mask})")], reason


_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
}  # fmt: skip


# The order of the tries


def on_lines_of(family: Family, name: str) -> Family:
    """Return those changes of a family that are on lines with a name."""

    def rewrites(source: Source) -> Iterator[Rewrite]:
        lines = {*source.text.splitlines()}
        for rewrite in family(source):
            if any(name in line for line in {*rewrite.text.splitlines()} - lines):
                yield rewrite

    return rewrites


@dataclass(frozen=True)
class _File:
    """The contents of rewrites.toml.

    Attributes:
        tried: the families that are tried, by what is wrong, the most promising first.
        likely: those that are tried before, by what a wrong result says.
        waiting: those for asynchronous operations by kind: in the kernel and helpers first.
    """

    tried: Mapping[str, tuple[str, ...]]
    likely: Mapping[str, tuple[str, ...]]
    waiting: Mapping[str, tuple[tuple[str, ...], ...]]
    rules: tuple[Rules, ...]


def _family_named(name: str, tables: Sequence[Rules]) -> Family:
    """Return the function of that name, or what the tables of that name try in turn."""
    own = [table.rewrites for table in tables if table.family == name] or [globals()[name]]

    def family(source: Source) -> Iterator[Rewrite]:
        with contextlib.suppress(RecursionError):  # of an expression with thousands of terms
            for each in own:
                yield from each(source)

    return family


_FILE: _File = read_data_file(Path(__file__).with_suffix(".toml"), _File)


def _families(*names: str) -> tuple[Family, ...]:
    return tuple(_family_named(name, _FILE.rules) for name in names)


UNCOMPILED = _families(*_FILE.tried["uncompiled"])
"""The rewrites for kernels that do not compile."""

WAITS = {kind: [_families(*each) for each in names] for kind, names in _FILE.waiting.items()}
"""The rewrites for a missing wait, arrival or fence, by the kind of the finding."""

UNSAFE = _families(*_FILE.tried["unsafe"])
"""The rewrites for unsafe accesses."""

WRONG = _families(*_FILE.tried["wrong"])
"""The rewrites for wrong results."""

WRONG_IN_FEW = _families(*_FILE.tried["wrong_in_few"])
"""The rewrites for few and small wrong integers, which arithmetic may give by chance."""

LIKELY = {sign: _families(*names) for sign, names in _FILE.likely.items()}
"""The rewrites to try first, by the symptom of a wrong result."""

(dtypes,) = _families("dtypes")
"""The rewrites for results that only rounding makes wrong."""
