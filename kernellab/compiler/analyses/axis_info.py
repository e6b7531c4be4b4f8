"""Facts about the addresses of each access to global memory: an estimate, compared with the
finished code.

Triton decides the width of an access by its AxisInfo analysis, which its Python bindings do not
show. The rules here are those of lib/Analysis/AxisInfo.cpp for the operations that addresses are
made of; for any other operation nothing is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from kernellab.compiler import modules
from kernellab.compiler.analyses.records import AxisInfo, PointerFacts
from kernellab.errors import SourcePosition
from kernellab.ir import flow, mlir, tt, ttg
from kernellab.ir.operations import Atomic, PointerAccess, RegionsOfElements, has, trait_of
from kernellab.ir.types import BlockedEncoding, SliceEncoding, element_type, shape

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation

_LARGEST = 1 << 62
"""The divisibility of zero."""

_VECTOR_BITS = 128
"""The widest access of one thread, on every GPU here."""


@dataclass(frozen=True)
class _Facts:
    """The facts about a tile's values, per dimension; a scalar has one dimension of size 1."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    value: int | None = None
    """The value, where all elements have one that is known."""

    def join(self, other: _Facts) -> _Facts:
        return _Facts(
            _gcds(self.contiguity, other.contiguity),
            _gcds(self.divisibility, other.divisibility),
            _gcds(self.constancy, other.constancy),
            self.value if self.value == other.value else None,
        )


def _gcds(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    return tuple(gcd(a, b) for a, b in zip(left, right))


def _sizes(value: SSAValue) -> tuple[int, ...]:
    return shape(value.type) or (1,)


def _nothing(value: SSAValue) -> _Facts:
    ones = (1,) * len(_sizes(value))
    return _Facts(ones, ones, ones)


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number if number else _LARGEST


# One rule per operation

_Rule = Callable[[Operation, list[_Facts]], _Facts]
"""From an operation and the facts about its operands to the facts about its result."""
_RULES: dict[type[Operation], _Rule] = {}


def _rule(*operations: type[Operation]) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(operations, rule))
        return rule

    return register


@_rule(mlir.ConstantOp)
def _of_constant(op: Operation, _: list[_Facts]) -> _Facts:
    assert isinstance(op, mlir.ConstantOp)
    number, result = op.integer, op.results[0]
    if number is None:
        return _nothing(result)
    rank = len(_sizes(result))
    return _Facts((1,) * rank, (power_of_two_in(number),) * rank, _sizes(result), number)


@_rule(tt.MakeRangeOp)
def _of_range(op: Operation, _: list[_Facts]) -> _Facts:
    assert isinstance(op, tt.MakeRangeOp)
    start, end = op.start.value.data, op.end.value.data
    return _Facts((end - start,), (power_of_two_in(start),), (1,))


@_rule(tt.SplatOp)
def _of_splat(op: Operation, given: list[_Facts]) -> _Facts:
    result, (scalar,) = op.results[0], given
    rank = len(_sizes(result))
    return _Facts((1,) * rank, scalar.divisibility * rank, _sizes(result), scalar.value)


@_rule(tt.ExpandDimsOp)
def _of_expand(op: Operation, given: list[_Facts]) -> _Facts:
    (tile,), axis = given, modules.integer(op, "axis") or 0
    along = zip(tile.contiguity, tile.divisibility)
    # A run of neighbors stops being one along the new dimension:
    # its later elements are divisible by nothing.
    new = gcd(*(1 if contiguous > 1 else divisible for contiguous, divisible in along))

    def widened(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*numbers[:axis], number, *numbers[axis:])

    return _Facts(
        widened(tile.contiguity, 1),
        widened(tile.divisibility, new),
        widened(tile.constancy, 1),
        tile.value,
    )


@_rule(tt.BroadcastOp)
def _of_broadcast(op: Operation, given: list[_Facts]) -> _Facts:
    (tile,), before, after = given, _sizes(op.operands[0]), _sizes(op.results[0])
    return replace(
        tile,
        contiguity=tuple(1 if size == 1 else c for size, c in zip(before, tile.contiguity)),
        constancy=tuple(n if size == 1 else c for size, n, c in zip(before, after, tile.constancy)),
    )


@_rule(tt.TransOp)
def _of_transposition(op: Operation, given: list[_Facts]) -> _Facts:
    order = modules.attribute(op, "order")
    assert isinstance(order, builtin.DenseArrayBase)
    (tile,), places = given, [int(place) for place in order.get_values()]

    contiguity, divisibility, constancy = (
        tuple(numbers[place] for place in places)
        for numbers in (tile.contiguity, tile.divisibility, tile.constancy)
    )
    return _Facts(contiguity, divisibility, constancy, tile.value)


@_rule(
    mlir.ExtSIOp,
    mlir.ExtUIOp,
    mlir.TruncIOp,
    mlir.IndexCastOp,
    mlir.BitcastOp,
    ttg.ConvertLayoutOp,
    tt.UnsplatOp,
)
def _of_same_values(_: Operation, given: list[_Facts]) -> _Facts:
    return given[0]


@_rule(mlir.AddIOp, tt.AddPtrOp, mlir.SubIOp)
def _of_sum(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    step = 1
    if isinstance(op, tt.AddPtrOp):
        step = modules.element_bytes(op.operands[0])
    contiguity = [gcd(a, b) for a, b in zip(left.contiguity, right.constancy)]
    if not isinstance(op, mlir.SubIOp):
        other = [gcd(a, b) for a, b in zip(left.constancy, right.contiguity)]
        contiguity = [max(a, b) for a, b in zip(contiguity, other)]
    value = None
    if left.value is not None and right.value is not None and not isinstance(op, tt.AddPtrOp):
        value = left.value + (-right.value if isinstance(op, mlir.SubIOp) else right.value)
    return _Facts(
        tuple(contiguity),
        tuple(
            gcd(a, min(b * step, _LARGEST)) for a, b in zip(left.divisibility, right.divisibility)
        ),
        _gcds(left.constancy, right.constancy),
        value,
    )


@_rule(mlir.MulIOp)
def _of_product(_: Operation, given: list[_Facts]) -> _Facts:
    left, right = given

    def divisible(factor: _Facts, other: _Facts) -> list[int]:
        # Multiplied by more than 1, elements are not contiguous any more: each starts a run.
        return [
            1 if contiguous > 1 and other.value != 1 else divisor
            for contiguous, divisor in zip(factor.contiguity, factor.divisibility)
        ]

    ones = (1,) * len(left.contiguity)
    kept_left = left.contiguity if right.value == 1 else ones
    kept_right = right.contiguity if left.value == 1 else ones
    both = zip(divisible(left, right), divisible(right, left))
    return _Facts(
        tuple(max(a, b) for a, b in zip(kept_left, kept_right)),
        tuple(min(a * b, _LARGEST) for a, b in both),
        _gcds(left.constancy, right.constancy),
        None if left.value is None or right.value is None else left.value * right.value,
    )


@_rule(mlir.ShLIOp)
def _of_shift(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    if right.value is None or not 0 <= right.value < 32:
        return replace(_nothing(op.results[0]), constancy=_gcds(left.constancy, right.constancy))
    times = replace(
        right, value=1 << right.value, divisibility=(1 << right.value,) * len(right.divisibility)
    )
    return _of_product(op, [left, times])


@_rule(mlir.DivSIOp, mlir.DivUIOp)
def _of_quotient(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    if right.value == 1:
        return left
    constancy = list(_gcds(left.constancy, right.constancy))
    for d, same in enumerate(right.constancy):
        if same == _sizes(op.results[0])[d]:
            run = gcd(left.contiguity[d], left.divisibility[d], right.divisibility[d])
            constancy[d] = max(constancy[d], run)
    divisibility = [1] * len(constancy)
    if right.value is not None and right.value == power_of_two_in(right.value):
        for d, contiguous in enumerate(left.contiguity):
            if contiguous == 1:
                divisibility[d] = max(left.divisibility[d] // right.value, 1)
    return replace(
        _nothing(op.results[0]), constancy=tuple(constancy), divisibility=tuple(divisibility)
    )


@_rule(mlir.RemSIOp, mlir.RemUIOp)
def _of_remainder(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    contiguity, divisibility = [1] * len(left.contiguity), [1] * len(left.contiguity)
    for d, same in enumerate(right.constancy):
        if left.contiguity[d] > 1 and same == _sizes(op.results[0])[d]:
            contiguity[d] = gcd(left.contiguity[d], left.divisibility[d], right.divisibility[d])
        if same > 1:  # so that Triton 3.6 and 3.7 know nothing of the remainder of scalars
            divisibility[d] = gcd(left.divisibility[d], right.divisibility[d])
    return _Facts(tuple(contiguity), tuple(divisibility), _gcds(left.constancy, right.constancy))


@_rule(mlir.CmpIOp)
def _of_comparison(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    constancy = list(_gcds(left.constancy, right.constancy))
    predicate = modules.integer(op, "predicate")
    for d in range(len(constancy)):
        # x < n with x contiguous: elements up to the next multiple of what divides
        # both compare alike.
        if predicate in _LESS:
            run = gcd(left.contiguity[d], left.divisibility[d], right.divisibility[d])
            constancy[d] = max(constancy[d], gcd(run, right.constancy[d]))
        if predicate in _GREATER:
            run = gcd(right.contiguity[d], left.divisibility[d], right.divisibility[d])
            constancy[d] = max(constancy[d], gcd(run, left.constancy[d]))
    return replace(_nothing(op.results[0]), constancy=tuple(constancy))


_LESS = (2, 5, 6, 9)
"""slt, sge, ult, uge: all of a run below or above its bound."""
_GREATER = (3, 4, 7, 8)
"""sle, sgt, ule, ugt: the same with the sides changed."""


@_rule(mlir.AndIOp, mlir.OrIOp, mlir.XOrIOp)
def _of_bits(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    return replace(_nothing(op.results[0]), constancy=_gcds(left.constancy, right.constancy))


@_rule(mlir.MinSIOp, mlir.MaxSIOp, mlir.MinUIOp, mlir.MaxUIOp)
def _of_extremum(op: Operation, given: list[_Facts]) -> _Facts:
    left, right = given
    return replace(
        _nothing(op.results[0]),
        constancy=_gcds(left.constancy, right.constancy),
        divisibility=_gcds(left.divisibility, right.divisibility),
    )


@_rule(mlir.SelectOp)
def _of_selection(op: Operation, given: list[_Facts]) -> _Facts:
    condition, left, right = given
    is_tile = len(condition.constancy) == len(left.constancy)
    same = condition.constancy if is_tile else _sizes(op.results[0])
    joined = left.join(right)
    return replace(
        joined,
        contiguity=_gcds(joined.contiguity, same),
        constancy=_gcds(joined.constancy, same),
        value=None,
    )


# A whole module


def _solve(module: Operation) -> dict[SSAValue, _Facts]:
    facts: dict[SSAValue, _Facts] = {}
    for op in module.walk():
        if isinstance(op, tt.FuncOp) or has(op, RegionsOfElements):
            facts |= {argument: _nothing(argument) for argument in flow.arguments_inside(op)}
        if isinstance(op, tt.FuncOp) and isinstance(op.arg_attrs, builtin.ArrayAttr):
            for argument, promises in zip(op.body.blocks[0].args, op.arg_attrs):
                facts[argument] = _Facts((1,), (_promised_divisor(promises),), (1,))
    return flow.analyze(module.walk(), _AxisDomain(facts))


@dataclass(frozen=True)
class _AxisDomain:
    """Facts of values, by the rules of the operations that compute them."""

    entry: Mapping[SSAValue, _Facts]

    def transfer(
        self, op: Operation, states: Mapping[SSAValue, _Facts]
    ) -> Iterator[tuple[SSAValue, _Facts]]:
        if isinstance(op, mlir.ForOp):
            if op.lower in states and op.step in states:
                start, step = states[op.lower].divisibility[0], states[op.step].divisibility[0]
                yield op.block.args[0], _Facts((1,), (gcd(start, step),), (1,))
        elif (rule := _RULES.get(type(op))) is not None:
            if all(operand in states for operand in op.operands):
                facts = rule(op, [states[operand] for operand in op.operands])
                yield op.results[0], _with_hints(op, facts)
        elif flow.computes(op):
            yield from ((result, _with_hints(op, _nothing(result))) for result in op.results)

    def join(self, left: _Facts, right: _Facts) -> _Facts:
        return left.join(right)


_HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")


def _promised_divisor(promises: Attribute) -> int:
    divisor = (
        promises.data.get("tt.divisibility")
        if isinstance(promises, builtin.DictionaryAttr)
        else None
    )
    return divisor.value.data if isinstance(divisor, builtin.IntegerAttr) else 1


def _with_hints(op: Operation, facts: _Facts) -> _Facts:
    """`tl.multiple_of` and its like leave attributes; the larger claim counts."""
    numbers = []
    for name, known in zip(_HINTS, (facts.contiguity, facts.divisibility, facts.constancy)):
        hint = op.attributes.get(name)
        if isinstance(hint, builtin.DenseIntOrFPElementsAttr):
            known = tuple(max(a, int(b)) for a, b in zip(known, hint.get_values()))
        numbers.append(known)
    return _Facts(numbers[0], numbers[1], numbers[2], facts.value)


WidthsOf = Callable[[SourcePosition | None], tuple[int, ...]]
"""The widths, in bytes, of the finished code's accesses to global memory for a line."""


RunOf = Callable[[SSAValue], tuple[int, int] | None]
"""Elements of a tile that a thread holds side by side, and their dimension; None if unknown."""


def vector_widths(module: Operation, run_of: RunOf) -> Mapping[Operation, int]:
    """For each access, the elements that addresses, layout and mask let a thread take at once."""
    facts = _solve(module)
    return {
        op: _vector_width(
            op, pointers, pointers, facts.get(pointers, _nothing(pointers)), facts, run_of
        )
        or 1
        for op in module.walk()
        if (access := trait_of(op, PointerAccess)) is not None and not access.has_offsets
        for pointers in [modules.pointers_of(op)]
    }


def _facts_of(op: Operation, facts: Mapping[SSAValue, _Facts], widths_of: WidthsOf) -> PointerFacts:
    pointers = modules.pointers_of(op)
    tile, known = pointers, facts.get(pointers, _nothing(pointers))
    access = trait_of(op, PointerAccess)
    if access is not None and access.has_offsets:
        tile = access.indices_of(op)[-1]
        base, offsets = facts.get(pointers, _nothing(pointers)), facts.get(tile, _nothing(tile))
        step = modules.element_bytes(pointers)
        known = replace(
            offsets,
            divisibility=tuple(
                gcd(base.divisibility[0], min(d * step, _LARGEST)) for d in offsets.divisibility
            ),
        )
    position = modules.position_of(op)
    return PointerFacts(
        operation=modules.kind(op),
        pointer=modules.underlying_argument(pointers),
        element=str(modules.pointee(pointers)),
        shape=shape(tile.type),
        contiguity=known.contiguity,
        divisibility=tuple(min(d, 1 << 30) for d in known.divisibility),
        constancy=known.constancy,
        # How many elements go into one atomic of a tile depends on the type and the GPU as well.
        vector_width=None
        if has(op, Atomic) and shape(tile.type)
        else _vector_width(op, tile, pointers, known, facts, blocked_run),
        compiled_bytes=widths_of(position),
        position=position,
    )


def _vector_width(
    op: Operation,
    tile: SSAValue,
    pointers: SSAValue,
    known: _Facts,
    facts: Mapping[SSAValue, _Facts],
    run_of: RunOf,
) -> int | None:
    """min(contiguity, divisibility, neighbors in a thread, 128 bits), then the mask's runs."""
    if not shape(tile.type):
        return 1
    layout = run_of(tile)
    if layout is None:
        return None
    per_thread, dimension = layout
    size = modules.element_bytes(pointers)
    width = min(
        known.contiguity[dimension],
        max(known.divisibility[dimension] // size, 1),
        per_thread,
        max(_VECTOR_BITS // (8 * size), 1),
    )
    for operand in op.operands:
        if shape(operand.type) == shape(tile.type) and element_type(operand.type) == builtin.i1:
            width = min(width, facts.get(operand, _nothing(operand)).constancy[dimension])
    return power_of_two_up_to(width)


def power_of_two_up_to(number: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (number.bit_length() - 1) if number > 0 else 1


def blocked_run(tile: SSAValue) -> tuple[int, int] | None:
    """Elements of a blocked tile that a thread holds side by side, and their dimension."""
    type = tile.type
    if not isinstance(type, builtin.TensorType):
        return None
    encoding, dropped = type.encoding, list[int]()
    while isinstance(encoding, SliceEncoding):
        dropped.append(encoding.dim)
        encoding = encoding.parent
    if not isinstance(encoding, BlockedEncoding):
        return None
    dimensions = list(range(len(encoding.order)))
    for dim in reversed(dropped):
        del dimensions[dim]
    fastest = next(d for d in encoding.order if d in dimensions)
    held = encoding.size_per_thread[fastest]
    at = dimensions.index(fastest)
    return min(held, shape(type)[at]), at


_PTX_ACCESS = re.compile(
    r"\b(?:ld|st|atom|red)\.(?:\w+\.){0,8}?global(?:\.[\w:]+){0,8}?(?:\.v(?P<vector>\d))?\.[busf]"
    r"(?P<bits>\d+)\b"
)
_PTX_COPY = re.compile(
    r"\bcp\.async\.c[ag]\.shared\.global\b[^,]*,[^,]*,\s*(?P<bytes>0x[0-9a-f]+|\d+)"
)
_AMD_ACCESS = re.compile(
    r"^\s*(?:global|buffer|flat)_(?:load|store|atomic)_(?:lds_)?(?:\w+_)?"
    r"(?P<kind>[a-z]+\d*)(?:_d16(?:_hi)?)?\b"
)
_AMD_BYTES = {
    "ubyte": 1, "sbyte": 1, "byte": 1, "u8": 1, "i8": 1, "b8": 1, "ushort": 2, "sshort": 2,
    "short": 2, "u16": 2, "i16": 2, "b16": 2, "f16": 2, "dword": 4, "b32": 4, "u32": 4, "i32": 4,
    "f32": 4, "dwordx2": 8, "b64": 8, "f64": 8, "u64": 8, "dwordx3": 12, "b96": 12,
    "dwordx4": 16, "b128": 16,
}  # fmt: skip


def access_width(line: str) -> int | None:
    """Bytes per thread of a global access in PTX or AMD assembly; None if it has none."""
    if copy := _PTX_COPY.search(line):
        return int(copy["bytes"], 0)
    if access := _PTX_ACCESS.search(line):
        return int(access["bits"]) // 8 * int(access["vector"] or 1)
    if access := _AMD_ACCESS.match(line):
        return _AMD_BYTES.get(access["kind"])
    return None


def axis_info_of(opened: modules.OpenedModules) -> AxisInfo:
    """The accesses to global memory of the finished TTGIR, those of single elements included."""
    module, widths_of = opened.snapshot("ttgir"), _widths_by_line(opened.compilation)
    facts = _solve(module)
    accesses = [op for op in module.walk() if has(op, PointerAccess)]
    return AxisInfo(tuple(_facts_of(op, facts, widths_of) for op in accesses), "ttgir")


def _widths_by_line(compilation: Compilation) -> WidthsOf:
    """The widths of accesses in PTX or AMD assembly, through the source map."""
    stage = next((name for name in ("ptx", "amdgcn") if name in compilation.stages), None)
    if stage is None or not compilation.can_answer("source_map"):
        return lambda _: ()
    lines = compilation.stages[stage].text.splitlines()
    widths = {n: width for n, line in enumerate(lines, 1) if (width := access_width(line))}

    def widths_of(position: SourcePosition | None) -> tuple[int, ...]:
        if position is None:
            return ()
        related = compilation.source_map.lines("source", stage, position)
        return tuple(sorted({widths[line] for line in related if line in widths}))

    return widths_of
