"""The changes of a kernel that are tried: each function yields sources with one thing changed, and
says in a sentence what was wrong if that change makes the results right.

To try another kind of mistake, add a function to the tables below. Their order is the order of
the tries: changes that undo frequent mistakes come first.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kernellab.checker.kernel_source import Source, called, in_brackets, is_condition, keyword_of


@dataclass(frozen=True)
class Rewrite:
    """A changed source.

    Attributes:
        text: the source.
        reason: what was wrong, if this source is right.
    """

    text: str
    reason: str


Family = Callable[[Source], Iterator[Rewrite]]


# Comparisons and masks

_OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">=", ">"),
    ast.LtE: ("<", ">=", ">"),
    ast.Gt: (">=", "<", "<="),
    ast.GtE: (">", "<=", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
}


def comparisons(source: Source) -> Iterator[Rewrite]:
    """`<` for `<=`, or the other direction."""
    for node in source.nodes:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, right = source.of(node.left), source.of(node.comparators[0])
        for sign in _OTHER_COMPARISONS.get(type(node.ops[0]), ()):
            new = f"{left} {sign} {right}"
            yield Rewrite(
                source.replaced((node, new)),
                f"The condition {source.of(node)} is true for the wrong elements.",
            )


def _masks_for(source: Source, call: ast.Call) -> list[str]:
    """Return conditions that may keep an access inside: those of the kernel first, then those made
    of the variables in its address and the numbers of the launch.
    """
    names = [node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)]
    own = [name for name in dict.fromkeys(names) if name not in source.values]
    numbers = [name for name in source.numbers if name not in source.constants]
    made = [f"{name} < {size}" for name in own for size in numbers]
    spread = [
        source.of(node)
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    ]
    spread = list(dict.fromkeys(spread))
    for mine, other in itertools.combinations(spread, 2):
        for first, second in itertools.permutations(numbers, 2):
            made.append(f"({mine} < {first}) & ({other} < {second})")
    whole = source.of(call.args[0])
    pointer, _, offset = whole.partition(" + ")
    if pointer in source.tensors and offset and offset not in own:
        made += [f"{offset} < {size}" for size in numbers]
        made += [f"({offset} >= 0) & ({offset} < {size})" for size in numbers]
    return list(dict.fromkeys((*source.conditions, *made)))[:24]


_ACCESSES = ("load", "store", "atomic_add")


def masks(source: Source) -> Iterator[Rewrite]:
    """A mask for accesses that have none: for all of them, or for one."""
    calls = [call for call in source.calls(*_ACCESSES) if call.args]
    bare = [call for call in calls if keyword_of(call, "mask") is None]
    common = _masks_for(source, bare[0]) if bare else []
    for mask in common if len(bare) > 1 else ():
        for other in ("", ", other=0.0", ', other=-float("inf")'):
            pairs = [(c, _with_mask(source, c, mask, other)) for c in bare]
            if _are_apart(source, bare):
                yield Rewrite(source.replaced(*pairs), f"No access has a mask: {mask} is needed.")
    for call in bare:
        for mask in _masks_for(source, call):
            others = (
                ("", ", other=0.0", ', other=-float("inf")') if called(call) == "load" else ("",)
            )
            for other in others:
                yield Rewrite(
                    source.replaced((call, _with_mask(source, call, mask, other))),
                    f"This {_action(call)} has no mask.",
                )


def _are_apart(source: Source, calls: list[ast.Call]) -> bool:
    return not any(
        mine is not other and source.is_inside(mine, other) for mine in calls for other in calls
    )


def _with_mask(source: Source, call: ast.Call, mask: str, other: str) -> str:
    more = other if called(call) == "load" else ""
    return f"{source.of(call)[:-1].rstrip(', ')}, mask={mask}{more})"


def _action(call: ast.Call) -> str:
    return "load" if called(call) == "load" else "store" if called(call) == "store" else "atomic"


def other_masks(source: Source) -> Iterator[Rewrite]:
    """Another mask of the kernel in place of one."""
    for call in source.calls(*_ACCESSES):
        given = keyword_of(call, "mask")
        for mask in _masks_for(source, call) if given is not None and call.args else ():
            if given is not None and mask != source.of(given.value):
                yield Rewrite(
                    source.replaced((given.value, mask)),
                    f"The mask {source.of(given.value)} of this {_action(call)} is true for the "
                    "wrong elements.",
                )
                yield Rewrite(
                    source.replaced(
                        (given.value, f"{in_brackets(source.of(given.value))} & ({mask})")
                    ),
                    f"The mask {source.of(given.value)} of this {_action(call)} does not exclude "
                    f"elements for which {mask} does not hold.",
                )


_NEUTRAL = ("0.0", '-float("inf")', 'float("inf")', "1.0")


def others(source: Source) -> Iterator[Rewrite]:
    """The value of masked elements: of one load, or of all."""
    loads = [call for call in source.calls("load") if keyword_of(call, "mask") is not None]
    for other in _NEUTRAL:
        changes = [change for call in loads for change in _other(source, call, other)]
        if len(changes) > 1:
            yield Rewrite(
                source.replaced(*changes),
                f"The elements that the masks of the loads switch off take part in the result: "
                f"they must be {other}.",
            )
        for call in loads:
            for change in _other(source, call, other):
                given = keyword_of(call, "other")
                was = "are not set" if given is None else f"are {source.of(given.value)}"
                yield Rewrite(
                    source.replaced(change),
                    f"The elements that the mask of this load switches off {was} and take part in "
                    f"the result: they must be {other}.",
                )


def _other(source: Source, call: ast.Call, other: str) -> Iterator[tuple[ast.AST, str]]:
    given = keyword_of(call, "other")
    if given is None:
        yield call, f"{source.of(call)[:-1].rstrip(', ')}, other={other})"
    elif source.of(given.value) != other:
        yield given.value, other


def excluded(source: Source) -> Iterator[Rewrite]:
    """`tl.where` around what is reduced, or around a variable, for masked elements."""
    reductions = source.calls("sum", "max", "min", "exp", "cumsum", "argmax", "argmin", "dot")
    masks = source.conditions[:4]
    for call in reductions:
        for mask, other in itertools.product(masks, _NEUTRAL[:3]):
            if call.args and not is_condition(call.args[0]):
                value = call.args[0]
                yield Rewrite(
                    source.replaced((value, f"tl.where({mask}, {source.of(value)}, {other})")),
                    f"Elements for which {mask} does not hold take part in tl.{called(call)}: "
                    f"they must be {other} there.",
                )
    for node in source.nodes:
        if isinstance(node, ast.Assign) and not is_condition(node.value):
            for mask, other in itertools.product(masks, _NEUTRAL[:2]):
                yield Rewrite(
                    source.replaced(
                        (node.value, f"tl.where({mask}, {source.of(node.value)}, {other})")
                    ),
                    f"Elements of {source.of(node.targets[0])} for which {mask} does not hold take "
                    f"part in the result: they must be {other}.",
                )


# Axes, and which names are where


def axes(source: Source) -> Iterator[Rewrite]:
    """Program ids, the axis of a reduction, and [:, None] for [None, :]."""
    ids = source.calls("program_id", "num_programs")
    zero_one = {"0": "1", "1": "0"}
    swapped = [
        (call.args[0], zero_one[source.of(call.args[0])])
        for call in ids
        if call.args and source.of(call.args[0]) in zero_one
    ]
    if len(swapped) > 1:
        yield Rewrite(
            source.replaced(*swapped), "The program ids of axis 0 and axis 1 are swapped."
        )
    for call in ids:
        for axis in "012":
            if call.args and source.of(call.args[0]) != axis:
                yield Rewrite(
                    source.replaced((call.args[0], axis)),
                    f"This program id is along axis {source.of(call.args[0])}, and axis {axis} is "
                    "needed.",
                )
    for node in source.nodes:
        if isinstance(node, ast.keyword) and node.arg == "axis":
            for axis in "012":
                if source.of(node.value) != axis:
                    yield Rewrite(
                        source.replaced((node.value, axis)),
                        f"The reduction is along axis {source.of(node.value)}, and axis {axis} is "
                        "needed.",
                    )
    for call in source.calls("sum", "max", "min", "argmax", "argmin", "cumsum"):
        if len(call.args) > 1 and source.of(call.args[1]) in zero_one:
            axis = source.of(call.args[1])
            yield Rewrite(
                source.replaced((call.args[1], zero_one[axis])),
                f"The reduction is along axis {axis}, and axis {zero_one[axis]} is needed.",
            )
    yield from _spread(source)


_SPREAD = {":, None": "None, :", "None, :": ":, None"}


def _spread(source: Source) -> Iterator[Rewrite]:
    spread = [
        node.slice
        for node in source.nodes
        if isinstance(node, ast.Subscript) and source.of(node.slice) in _SPREAD
    ]
    reason = "The tile is transposed: rows and columns are swapped here."
    for statement in dict.fromkeys(source.statement_of(node) for node in spread):
        inside = [node for node in spread if source.is_inside(node, statement)]
        pairs = [(node, _SPREAD[source.of(node)]) for node in inside]
        yield Rewrite(source.replaced(*pairs), reason)
        for call in source.calls(*_ACCESSES):
            own = [pair for pair in pairs if call.args and source.is_inside(pair[0], call.args[0])]
            if len(own) > 1 and source.is_inside(call, statement):
                yield Rewrite(source.replaced(*own), reason)
    for node in spread:
        yield Rewrite(source.replaced((node, _SPREAD[source.of(node)])), reason)


def names(source: Source) -> Iterator[Rewrite]:
    """Another parameter in place of one, or two that are swapped."""
    plain = [name for name in source.numbers if name not in source.constants]
    groups = (plain, source.constants, source.tensors, source.floats)
    for group in groups:
        for mine, other in itertools.combinations(group, 2):
            swap = {mine: other, other: mine}
            for statement in source.kernel.body:
                pairs = [
                    (node, swap[node.id])
                    for node in source.names(of=(mine, other))
                    if source.is_inside(node, statement)
                ]
                if len({node.id for node, _ in pairs}) > 1:
                    yield Rewrite(
                        source.replaced(*pairs), f"{mine} and {other} are swapped in this line."
                    )
    together = [*plain, *source.constants, *source.floats]
    for group in (plain, source.tensors, source.constants, source.floats, together):
        for node in reversed(source.names(of=group)):
            for other in group:
                if other != node.id:
                    yield Rewrite(
                        source.replaced((node, other)),
                        f"{node.id} is used where {other} is needed.",
                    )


def variables(source: Source) -> Iterator[Rewrite]:
    """Another variable in place of one."""
    known = list(source.assigned)
    for loop in source.loops():
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
            known.append(loop.target.id)
    for node in source.names(of=known):
        for other in known:
            if other != node.id:
                yield Rewrite(
                    source.replaced((node, other)), f"{node.id} is used where {other} is needed."
                )


# Expressions

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|",
}  # fmt: skip
_INSTEAD = {
    "+": "-*", "-": "+", "*": "/+", "/": "*", "//": ("%",), "%": ("//",), "&": "|", "|": "&",
}  # fmt: skip


def operators(source: Source) -> Iterator[Rewrite]:
    """An operator, its operands in the other order, or an operand that is too much."""
    for node in source.nodes:
        if not isinstance(node, ast.BinOp) or type(node.op) not in _SIGNS:
            continue
        sign, whole = _SIGNS[type(node.op)], source.of(node)
        left, right = source.of(node.left), source.of(node.right)
        for other in _INSTEAD[sign] if right not in ("0", "1") else ():
            yield Rewrite(
                source.replaced((node, f"{left} {other} {right}")),
                f"{whole} has {sign} where {other} is needed.",
            )
        if sign in ("-", "/", "//"):
            yield Rewrite(
                source.replaced((node, f"{in_brackets(right)} {sign} {in_brackets(left)}")),
                f"The operands of {sign} are swapped in {whole}.",
            )
        for kept, dropped in ((left, right), (right, left)):
            if kept is right and (sign in ("-", "/") or left in source.tensors):
                continue
            if left not in source.tensors:
                yield Rewrite(
                    source.replaced((node, f"({kept})" if " " in kept else kept)),
                    f"{whole} should be {kept}: {sign} {dropped} is too much.",
                )
    for node in source.nodes:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = source.of(node.operand)
            yield Rewrite(source.replaced((node, operand)), f"-{operand} has the wrong sign.")
    for call in source.calls("where", "dot", "minimum", "maximum"):
        if len(call.args) >= 2:
            first, second = call.args[-2:] if called(call) == "where" else call.args[:2]
            yield Rewrite(
                source.replaced((first, source.of(second)), (second, source.of(first))),
                f"Two arguments of tl.{called(call)} are swapped.",
            )


_FUNCTIONS = (
    ("sum", "max", "min"),
    ("exp", "exp2"),
    ("log", "log2"),
    ("sqrt", "rsqrt"),
    ("maximum", "minimum"),
    ("argmax", "argmin"),
    ("store", "atomic_add"),
    ("sigmoid", "exp"),
    ("cumsum", "cumprod"),
    ("atomic_add", "atomic_max"),
    ("atomic_xchg", "atomic_add"),
    ("ceil", "floor"),
)


def functions(source: Source) -> Iterator[Rewrite]:
    """Another function of Triton's, or its argument without it."""
    for group in _FUNCTIONS:
        for call in source.calls(*group):
            for other in group:
                if other != called(call) and isinstance(call.func, ast.Attribute):
                    yield Rewrite(
                        source.replaced((call.func, f"{source.of(call.func.value)}.{other}")),
                        f"tl.{called(call)} is used where tl.{other} is needed.",
                    )
    for call in source.calls("abs", "trans", "exp", "log", "sqrt", "where", "maximum"):
        for argument in call.args[-2:]:
            yield Rewrite(
                source.replaced((call, source.of(argument))), f"tl.{called(call)} is too much here."
            )


def dtypes(source: Source) -> Iterator[Rewrite]:
    """float32 in place of a narrower type, and casts that are too much or missing."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in (
            "float16",
            "bfloat16",
            "int8",
            "int32",
        ):
            for other in ("float32", "int64"):
                yield Rewrite(
                    source.replaced((node, f"tl.{other}")),
                    f"{source.of(node)} is too narrow here: the value needs tl.{other}.",
                )
    for call in source.calls("to"):
        if isinstance(call.func, ast.Attribute):
            value = source.of(call.func.value)
            yield Rewrite(
                source.replaced((call, value)), f"The conversion of {value} loses its digits."
            )
    for call in source.calls("dot"):
        for argument in call.args[:2]:
            for kind in ("tl.float16", "tl.float32"):
                value = in_brackets(source.of(argument))
                yield Rewrite(
                    source.replaced((argument, f"{value}.to({kind})")),
                    f"tl.dot needs {source.of(argument)} in {kind}.",
                )
        if keyword_of(call, "input_precision") is None:
            yield Rewrite(
                source.replaced((call, f'{source.of(call)[:-1]}, input_precision="ieee")')),
                "tl.dot rounds its float32 operands to tf32.",
            )


# Loops and sums


def loops(source: Source) -> Iterator[Rewrite]:
    """What a loop carries from an iteration to the next, and where it begins and ends."""
    for loop in source.loops():
        inside = [node for node in source.nodes if source.is_inside(node, loop)]
        for node in inside:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield from _carried(source, node, node.targets[0].id)
            if isinstance(node, ast.AugAssign):
                yield from _updates(source, node)
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call):
            yield from _bounds(source, loop.iter)


def _carried(source: Source, node: ast.Assign, name: str) -> Iterator[Rewrite]:
    value = source.of(node.value)
    if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node.value)):
        return
    only_last = f"Only the last iteration of the loop counts: {name} is overwritten in each."
    for sign in "+-*":
        yield Rewrite(source.replaced((node, f"{name} {sign}= {value}")), only_last)
    for function in ("maximum", "minimum"):
        yield Rewrite(
            source.replaced((node, f"{name} = tl.{function}({name}, {value})")), only_last
        )
    if isinstance(node.value, ast.Call) and called(node.value) == "dot":
        yield Rewrite(source.replaced((node, f"{name} = {value[:-1]}, {name})")), only_last)


def _updates(source: Source, node: ast.AugAssign) -> Iterator[Rewrite]:
    name, value = source.of(node.target), source.of(node.value)
    written = source.of(node)
    for sign in ("+=", "-=", "*=", "="):
        new = f"{name} {sign} {value}"
        if new != written:
            yield Rewrite(source.replaced((node, new)), f"{written} should be {new}.")


def _bounds(source: Source, call: ast.Call) -> Iterator[Rewrite]:
    arguments = [source.of(argument) for argument in call.args]
    numbers = [*source.numbers, *arguments]
    if len(arguments) in (1, 2):
        first, last = ("0", arguments[0]) if len(arguments) == 1 else arguments
        for step in source.constants:
            for steps in (f"{first}, {last}, {step}", f"{first}, tl.cdiv({last}, {step})"):
                yield Rewrite(
                    source.replaced((call, f"{called(call)}({steps})")),
                    f"The loop counts elements, not blocks of {step}.",
                )
    for place, old in enumerate(arguments):
        for new in dict.fromkeys(("0", *numbers, f"{old} + 1", f"{old} - 1")):
            if new != old:
                yield Rewrite(
                    source.replaced((call.args[place], new)),
                    f"The loop runs over {source.of(call)}, which leaves out iterations or has too "
                    "many.",
                )


def order(source: Source) -> Iterator[Rewrite]:
    """Neighboring statements in the other order, one that is too much, and one that has to come
    after its loop.
    """
    bodies = [source.kernel.body, *(loop.body for loop in source.loops())]
    for body in bodies:
        for mine, other in itertools.pairwise(body):
            if not isinstance(mine, ast.For | ast.While) and not isinstance(
                other, ast.For | ast.While
            ):
                yield Rewrite(
                    source.replaced((mine, source.of(other)), (other, source.of(mine))),
                    f"{_short(source, mine)} has to come after {_short(source, other)}.",
                )
    for loop in source.loops():
        last = loop.body[-1]
        if len(loop.body) > 1:
            before = loop.body[-2]
            start, end = source.span(before)[1], source.span(last)[1]
            content = source.text.encode()
            indent = " " * loop.col_offset
            moved = content[:start] + f"\n{indent}{source.of(last)}".encode() + content[end:]
            yield Rewrite(
                moved.decode(), f"{_short(source, last)} has to come after the loop, not in it."
            )
    for body in bodies:
        for statement in body:
            if not isinstance(statement, ast.For | ast.While):
                yield Rewrite(
                    source.without(statement), f"{_short(source, statement)} is too much."
                )


def _short(source: Source, node: ast.AST) -> str:
    text = " ".join(source.of(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# Numbers, factors and addresses


def numbers(source: Source) -> Iterator[Rewrite]:
    """Another number in place of a constant."""
    held = [*source.numbers, *source.floats]
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool | str | None):
            continue
        was = source.of(node)
        equal = [name for name in held if source.values[name] == node.value]
        near: list[str] = []
        if isinstance(node.value, int):
            near = [str(node.value + 1), str(node.value - 1), "0", "1", "2"]
        else:
            near = ["0.0", "1.0", '-float("inf")', 'float("inf")', "0.5", "2.0"]
        for new in dict.fromkeys((*equal, *near, *held)):
            if new != was and not new.startswith("-1"):
                yield Rewrite(source.replaced((node, new)), f"{was} is used where {new} is needed.")
    for call in source.calls("float"):
        for new in ("0.0", '-float("inf")', 'float("inf")'):
            outer = source.parents.get(call)
            target = outer if isinstance(outer, ast.UnaryOp) else call
            if new != source.of(target):
                yield Rewrite(
                    source.replaced((target, new)),
                    f"{source.of(target)} is used where {new} is needed.",
                )


def factors(source: Source) -> Iterator[Rewrite]:
    """A factor, a term or a function that is missing from what is stored, summed or rooted."""
    plain = [name for name in source.numbers if name not in source.constants]
    held = [*plain, *source.floats, "1", "2"]
    places: list[tuple[ast.AST, str]] = []
    for call in source.calls("store", "atomic_add", "atomic_max"):
        if len(call.args) > 1:
            places.append((call.args[1], "What is stored"))
    places += [(call, f"tl.{called(call)}") for call in source.calls("sum", "dot", "load", "exp")]
    places += [(call.args[0], f"The argument of tl.{called(call)}")
               for call in source.calls("sqrt", "rsqrt", "log", "exp") if call.args]  # fmt: skip
    for node, what in places:
        text = source.of(node)
        operand = in_brackets(text) if not isinstance(node, ast.Call | ast.Name) else text
        for name in held:
            for sign, words in _MISSING.items():
                yield Rewrite(
                    source.replaced((node, f"({operand} {sign} {name})")),
                    f"{what} is not {words} {name}.",
                )
        yield Rewrite(source.replaced((node, f"-{operand}")), f"The sign of {text} is wrong.")
    for node, _ in places[: len(source.calls("store"))]:
        for function in ("trans", "exp", "log", "sqrt", "rsqrt", "abs"):
            yield Rewrite(
                source.replaced((node, f"tl.{function}({source.of(node)})")),
                f"tl.{function} is missing from what is stored.",
            )
        for function in ("maximum", "minimum"):
            yield Rewrite(
                source.replaced((node, f"tl.{function}({source.of(node)}, 0.0)")),
                f"tl.{function} with 0 is missing from what is stored.",
            )


_MISSING = {
    "/": "divided by", "*": "multiplied by", "+": "increased by", "-": "reduced by",
}  # fmt: skip


def softmaxes(source: Source) -> Iterator[Rewrite]:
    """What is not divided by its sum, and a logarithm of a quotient or of an exponential."""
    for call in source.calls("store"):
        stored = call.args[1:2]
        for axis in ("axis=0)", "axis=1)[:, None]"):
            for node in stored:
                value = source.of(node)
                yield Rewrite(
                    source.replaced((node, f"{in_brackets(value)} / tl.sum({value}, {axis}")),
                    f"{value} is not divided by its sum.",
                )
    for call in source.calls("log"):
        quotient = call.args[0] if call.args else None
        if isinstance(quotient, ast.BinOp) and isinstance(quotient.op, ast.Div):
            for whole in _exponents(source, quotient.left):
                yield Rewrite(
                    source.replaced((call, f"({whole} - tl.log({source.of(quotient.right)}))")),
                    "A quotient that is rounded to 0 has no logarithm: log(a / b) is "
                    "log(a) - log(b), and log(exp(x)) is x.",
                )


def _exponents(source: Source, node: ast.expr) -> Iterator[str]:
    """Yield the logarithm of an expression: x of tl.exp(x), also under a variable's name."""
    if isinstance(node, ast.Name):
        node = source.assigned.get(node.id, node)
    if isinstance(node, ast.Call) and called(node) == "exp" and node.args:
        yield in_brackets(source.of(node.args[0]))
    yield f"tl.log({source.of(node)})"


def terms(source: Source) -> Iterator[Rewrite]:
    """A variable of the kernel that is missing from an expression."""
    known = list(source.assigned)
    for call in source.calls("exp", "exp2"):
        argument = call.args[0] if call.args else None
        if isinstance(argument, ast.Name):
            x = argument.id
            for maximum in (f"tl.max({x}, axis=0)", f"tl.max({x}, axis=1)[:, None]"):
                yield Rewrite(
                    source.replaced((argument, f"{x} - {maximum}")),
                    "The maximum is not subtracted before tl.exp, which overflows.",
                )
    for call in source.calls("store", "atomic_add", "exp"):
        places = call.args[-1:] if called(call) == "exp" else call.args[1:2]
        for node, name, sign in itertools.product(places, known, "*/+-"):
            yield Rewrite(
                source.replaced((node, f"({source.of(node)}) {sign} {name}")),
                f"{name} is missing from {_short(source, node)}.",
            )
    for statement in source.nodes:
        if isinstance(statement, ast.AugAssign) and _is_in_loop(source, statement):
            for name in known:
                target, value = source.of(statement.target), source.of(statement.value)
                yield Rewrite(
                    source.replaced((statement, f"{target} = {target} * {name} + {value}")),
                    f"{target} is not multiplied by {name} before the sum goes on.",
                )
                yield Rewrite(
                    source.replaced(
                        (statement, f"{target} = {target} * {name}[:, None] + {value}")
                    ),
                    f"{target} is not multiplied by {name} before the sum goes on.",
                )


def unused(source: Source) -> Iterator[Rewrite]:
    """A parameter or a variable that the kernel never uses, in each expression that may need it."""
    read = {node.id for node in source.names()}
    names = [*source.numbers, *source.floats, *source.assigned]
    for name in (name for name in names if name not in read and name not in source.constants):
        reason = f"{name} is never used."
        for node, text in _values(source):
            written = [f"{text} {sign} {name}" for sign in "*+-/"]
            written += [f"tl.{f}({text}, {name})" for f in ("minimum", "maximum")]
            written += [f"{text} * {name}[:, None]", f"{text} + {name}[None, :]"]
            for new in written:
                yield Rewrite(source.replaced((node, f"({new})")), reason)
        for node in source.names(of=list(source.assigned)):
            yield Rewrite(source.replaced((node, name)), reason)


def _values(source: Source) -> list[tuple[ast.expr, str]]:
    """Return the expressions in which something may be missing, with their texts as operands: what
    is stored, what is reduced, what functions are given, and variables in sums and products.
    """
    nodes: list[ast.expr] = []
    for call in source.calls("store", "atomic_add"):
        nodes += call.args[1:2]
    for call in source.calls("sum", "exp", "sqrt", "rsqrt", "log", "dot", "max", "maximum"):
        nodes += [*call.args[:1], call]
    for node in source.nodes:
        if isinstance(node, ast.Assign):
            nodes.append(node.value)
        if isinstance(node, ast.BinOp):
            nodes += [side for side in (node.left, node.right) if isinstance(side, ast.Name)]
    kept = {source.span(node): node for node in nodes if not _is_address(source, node)}
    return [(node, in_brackets(source.of(node))) for node in kept.values()]


def _is_address(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is an address or a part of one."""
    return any(
        call.args and source.is_inside(node, call.args[0]) for call in source.calls(*_ACCESSES)
    )


def moved(source: Source) -> Iterator[Rewrite]:
    """A number that is added to an address in place of what is loaded."""
    for call in source.calls("load"):
        address = call.args[0] if call.args else None
        if isinstance(address, ast.BinOp) and isinstance(address.right, ast.Constant):
            sign, number = _SIGNS.get(type(address.op)), source.of(address.right)
            load = source.replaced_in(call, address, source.of(address.left))
            yield Rewrite(
                source.replaced((call, f"{load} {sign} {number}")),
                f"{sign} {number} moves the address: it belongs to the value that is loaded.",
            )


def _is_in_loop(source: Source, statement: ast.stmt) -> bool:
    return any(source.is_inside(statement, loop) for loop in source.loops())


def addresses(source: Source) -> Iterator[Rewrite]:
    """A stride, the program's first element or a loop's position that an index does not have."""
    numbers = source.numbers
    ids = [name for name, value in source.assigned.items() if _is_id(value)]
    for call in source.calls("program_id"):
        for size in numbers:
            yield Rewrite(
                source.replaced((call, f"{source.of(call)} * {size}")),
                f"The program id counts programs: it is not multiplied by {size}.",
            )
    starts = [loop.target.id for loop in source.loops() if isinstance(loop, ast.For)
              if isinstance(loop.target, ast.Name)]  # fmt: skip
    for call in source.calls("arange"):
        whole = source.of(call)
        size = source.of(call.args[-1]) if call.args else ""
        programs = [f"tl.program_id({axis}) * {size}" for axis in range(3)]
        for first in (*programs, *starts, *(f"{name} * {size}" for name in (*ids, *starts))):
            yield Rewrite(
                source.replaced((call, f"{first} + {whole}")),
                f"{whole} is the same in every program and iteration: {first} is missing.",
            )
    for node in _indices(source):
        text = source.of(node)
        for size in (name for name in numbers if name not in source.constants):
            yield Rewrite(
                source.replaced((node, f"({size} - 1 - {text})")),
                f"{text} counts from the beginning, and has to count from the end.",
            )
        for size in (*numbers, "2"):
            yield Rewrite(
                source.replaced((node, f"{text} * {size}")),
                f"{text} is not multiplied by {size}, which is the distance of two of them.",
            )
    for call in source.calls(*_ACCESSES):
        for sign in ("- 1", "+ 1") if call.args else ():
            yield Rewrite(
                source.replaced((call.args[0], f"{source.of(call.args[0])} {sign}")),
                f"The address of this {_action(call)} is one element off.",
            )
        for more in (*starts, *ids, *numbers):
            if call.args:
                yield Rewrite(
                    source.replaced((call.args[0], f"{source.of(call.args[0])} + {more}")),
                    f"{more} is missing from the address of this {_action(call)}.",
                )
        for more, size in itertools.product((*ids, *starts), numbers):
            if call.args:
                yield Rewrite(
                    source.replaced((call.args[0], f"{source.of(call.args[0])} + {more} * {size}")),
                    f"{more} * {size} is missing from the address of this {_action(call)}.",
                )


def _is_id(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and called(value) == "program_id"


def _indices(source: Source) -> Iterator[ast.expr]:
    """Yield the terms of addresses that are names or names spread over an axis."""
    for node in source.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for side in (node.left, node.right):
                plain = side.value if isinstance(side, ast.Subscript) else side
                if isinstance(plain, ast.Name) and plain.id not in source.values:
                    yield side


# What does not compile


def unloaded(source: Source) -> Iterator[Rewrite]:
    """`x_ptr[lanes]`, and a pointer that is used as a value."""
    addresses = {id(node) for call in source.calls(*_ACCESSES) for argument in call.args[:1]
                 for node in ast.walk(argument)}  # fmt: skip
    for statement in source.nodes:
        if isinstance(statement, ast.Assign | ast.AugAssign):
            yield from _stored(source, statement)
    for masked in ("", *(f", mask={mask}" for mask in source.conditions)):
        for node in source.nodes:
            if isinstance(node, ast.Subscript) and source.of(node.value) in source.tensors:
                place = f"{source.of(node.value)} + {source.of(node.slice)}"
                yield Rewrite(
                    source.replaced((node, f"tl.load({place}{masked})")),
                    f"{source.of(node)} does not load.",
                )
            is_pointer = isinstance(node, ast.Name) and node.id in source.tensors
            if is_pointer and isinstance(node, ast.Name) and id(node) not in addresses:
                for place in (node.id, *(f"{node.id} + {name}" for name in source.assigned)):
                    yield Rewrite(
                        source.replaced((node, f"tl.load({place}{masked})")),
                        f"{node.id} is a pointer, and its elements were not loaded.",
                    )
        for name, value in source.assigned.items():
            pointers = [
                n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in source.tensors
            ]
            if pointers and not (isinstance(value, ast.Call) and called(value) == "load"):
                yield Rewrite(
                    source.replaced((value, f"tl.load({source.of(value)}{masked})")),
                    f"{name} is a pointer, and its elements were not loaded.",
                )
    for node in source.nodes:
        if isinstance(node, ast.BoolOp):
            sign = " & " if isinstance(node.op, ast.And) else " | "
            yield Rewrite(
                source.replaced((node, sign.join(f"({source.of(v)})" for v in node.values))),
                "and and or do not work element by element.",
            )


def _stored(source: Source, statement: ast.Assign | ast.AugAssign) -> Iterator[Rewrite]:
    """`z_ptr[lanes] = x_ptr[lanes] + 1` as a store of what is loaded."""
    target: Any = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
    if not isinstance(target, ast.Subscript) or source.of(target.value) not in source.tensors:
        return
    for mask in ("", *(f", mask={mask}" for mask in source.conditions)):
        value = source.of(statement.value)
        start = source.span(statement.value)[0]
        parts = [node for node in ast.walk(statement.value) if isinstance(node, ast.Subscript)
                 and source.of(node.value) in source.tensors]  # fmt: skip
        content = value.encode()
        for node in sorted(parts, key=lambda node: -source.span(node)[0]):
            first, last = (place - start for place in source.span(node))
            load = f"tl.load({source.of(node.value)} + {source.of(node.slice)}{mask})"
            content = content[:first] + load.encode() + content[last:]
        place = f"{source.of(target.value)} + {source.of(target.slice)}"
        value = content.decode()
        if isinstance(statement, ast.AugAssign):
            sign = _SIGNS.get(type(statement.op), "+")
            value = f"tl.load({place}{mask}) {sign} {value}"
        yield Rewrite(
            source.replaced((statement, f"tl.store({place}, {value}{mask})")),
            f"{source.of(target)} does not store: a pointer and an index are not an element.",
        )


UNCOMPILED: tuple[Family, ...] = (unloaded, names, variables, axes, dtypes, numbers, operators)
"""What is tried where the kernel does not compile."""

UNSAFE: tuple[Family, ...] = (
    comparisons, moved, masks, addresses, names, axes, loops, operators, numbers, order,
    other_masks, variables, functions, others, terms, softmaxes, excluded, factors,
)  # fmt: skip
"""What is tried where an access is not safe."""

WRONG: tuple[Family, ...] = (
    unused, comparisons, axes, others, loops, names, operators, addresses, softmaxes, functions,
    dtypes, order, terms, factors, numbers, excluded, variables, other_masks, masks, moved,
)  # fmt: skip
"""What is tried where results are wrong."""
