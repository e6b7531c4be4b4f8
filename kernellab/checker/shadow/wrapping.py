"""Integer operations that may not fit their type, and what they give in int64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.shadow.values import Array, Shadow, lifted
from kernellab.checker.signs import Values, takes_for_signed
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.numerics import accumulate
from kernellab.ir import arith, math, tt
from kernellab.ir.traits import KeepsSign, RegionsOfElements, has
from kernellab.ir.types import dtype, shape

Exact = Callable[[Array, Array], Array]
"""What an operation computes, on int64."""


def _quotient(a: Array, b: Array) -> Array:
    """C's, toward zero; by zero, 0."""
    divisor = numpy.where(b == 0, 1, b)
    quotient = numpy.abs(a) // numpy.abs(divisor) * numpy.sign(a) * numpy.sign(divisor)
    return numpy.where(b == 0, 0, quotient)


WRAPPING: dict[type[Operation], tuple[Exact, str]] = {
    arith.AddIOp: (numpy.add, "+"),
    arith.SubIOp: (numpy.subtract, "-"),
    arith.MulIOp: (numpy.multiply, "*"),
    arith.ShLIOp: (lambda a, b: a << numpy.clip(b, 0, 62), "<<"),
}
"""What may wrap, and how Python writes it."""

_FOLLOWED: dict[type[Operation], Exact] = {
    **{kind: exact for kind, (exact, _) in WRAPPING.items()},
    arith.DivSIOp: _quotient,
    arith.RemSIOp: lambda a, b: a - _quotient(a, b) * b,
    arith.ShRSIOp: lambda a, b: a >> numpy.clip(b, 0, 63),
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
    arith.MaxUIOp: numpy.maximum,
    arith.MinUIOp: numpy.minimum,
}
"""What carries an inexact operand on. Bits do not: who takes those of a product wants it
modulo 2**32. Nor do divisions and shifts of uint32, which hashes end with."""

_OF_NARROW: dict[type[Operation], Exact] = {
    arith.DivUIOp: _quotient,
    arith.RemUIOp: lambda a, b: a - _quotient(a, b) * b,
    arith.ShRUIOp: lambda a, b: a >> numpy.clip(b, 0, 63),
}
"""What does in uint8 and uint16, in which nobody hashes."""

_CASTS = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp)

_COMPARISONS: dict[str, numpy.ufunc] = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
}

_LOGIC: dict[type[Operation], Exact] = {
    arith.AndIOp: numpy.bitwise_and,
    arith.OrIOp: numpy.bitwise_or,
    arith.XOrIOp: numpy.bitwise_xor,
}

_LARGE = 4096
"""Tiles of so many elements are first looked at by their extremes."""


def may_wrap(op: Operation) -> bool:
    """True for integer arithmetic of fewer than 64 bits."""
    if type(op) in WRAPPING or adds_up(op):
        kind = dtype(op.results[0].type)
        return kind.kind == "i" and kind.itemsize < 8
    return _cuts(op)


def adds_up(op: Operation) -> bool:
    """True for `tl.sum` and `tl.cumsum` of integers."""
    if not isinstance(op, tt.ReduceOp | tt.ScanOp) or len(op.operands) != 1:
        return False
    combiner, *rest = op.combine.block.ops
    return isinstance(combiner, arith.AddIOp) and len(rest) == 1


def _combined(op: tt.ReduceOp | tt.ScanOp, numbers: Array) -> Array | None:
    """What a sum, a maximum or a minimum gives in int64, running ones too; else None."""
    if adds_up(op):
        return _added_up(op, numbers)
    combiner, *rest = op.combine.block.ops
    extreme = _FOLLOWED.get(type(combiner))
    if len(rest) != 1 or not isinstance(extreme, numpy.ufunc) or type(combiner) in WRAPPING:
        return None
    source = shape(op.operands[0].type)
    whole, axis = numpy.broadcast_to(numbers, (len(numbers), *source)), op.axis.value.data
    if isinstance(op, tt.ReduceOp):
        found: Array = extreme.reduce(whole, axis=axis - len(source))
        return found
    backwards = bool(op.reverse.value.data)
    running: Array = accumulate(extreme, whole, axis - len(source), backwards)
    return running


def exact_extremes(
    computed: Computed, distances: Sequence[Shadow], unsigned: Values
) -> list[Array] | None:
    """What `tl.argmax` and its like give in int64, programs first: the largest or the smallest, and
    where it is; None for another reduction.
    """
    op = computed.operation
    if not isinstance(op, tt.ReduceOp) or len(op.operands) != 2:
        return None
    largest = _is_largest(op)
    if largest is None or dtype(op.operands[1].type).kind != "i":
        return None
    source, axis = shape(op.operands[0].type), op.axis.value.data
    values, places = (
        numpy.broadcast_to(one, (len(one), *source))
        for one in _exact_operands(computed, distances, unsigned)
    )
    chosen = (numpy.argmax if largest else numpy.argmin)(values, axis=axis + 1)
    at = numpy.expand_dims(chosen, axis + 1)
    both = numpy.broadcast_arrays(values, places)
    return [numpy.take_along_axis(one, at, axis + 1).squeeze(axis + 1) for one in both]


def _is_largest(op: tt.ReduceOp) -> bool | None:
    """Whether a reduction of values and places chooses the largest value; None where it does
    neither that nor choose the smallest.
    """
    block = op.combine.block
    for inner in block.ops:
        if isinstance(inner, arith.CmpIOp) and inner.operands[:] == (block.args[0], block.args[2]):
            predicate = arith.INTEGER_PREDICATES[inner.predicate.value.data]
            if predicate != "eq":
                return predicate[1:].startswith("g")
    return None


def _added_up(op: tt.ReduceOp | tt.ScanOp, numbers: Array) -> Array:
    """What a sum, or a running sum, gives in int64; programs first."""
    source = shape(op.operands[0].type)
    whole = numpy.broadcast_to(numbers, (len(numbers), *source))
    axis = op.axis.value.data - len(source)
    if isinstance(op, tt.ReduceOp):
        total: Array = whole.sum(axis=axis, dtype=numpy.int64)
        return total
    backwards = bool(op.reverse.value.data)
    running: Array = accumulate(numpy.add, whole, axis, backwards)
    return running


def _cuts(op: Operation) -> bool:
    """True for int64 cut to int32; what is cut further is taken for bits."""
    return (
        isinstance(op, arith.TruncIOp)
        and dtype(op.operand.type).itemsize == 8
        and dtype(op.result.type).itemsize == 4
    )


def wrapped(computed: Computed, unsigned: Values) -> bool:
    """Whether a result is not what the operation should give; `unsigned` as `unsigned_values`."""
    op, result = computed.operation, computed.results[0]
    without_sign = op.results[0] in unsigned
    if isinstance(result, AffineTile) and (result.low >= 0 or not without_sign):
        return False  # an affine tile never wraps: see affine._fitting
    if isinstance(op, arith.TruncIOp):
        cut = _read(result, without_sign)
        return not numpy.array_equal(cut, computed.operands[0])
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _sum_wrapped(op, computed.operands[0], result, without_sign)
    exact, _ = WRAPPING[type(op)]
    operands = [_read(operand, without_sign) for operand in computed.operands]
    if numpy.size(result) >= _LARGE and _fits(op, exact, operands, without_sign):
        return False
    a, b = (numpy.asarray(operand, numpy.int64) for operand in operands)
    return bool(numpy.any(exact(a, b) != _read(result, without_sign)))


def _sum_wrapped(
    op: tt.ReduceOp | tt.ScanOp, numbers: Any, result: Any, without_sign: bool
) -> bool:
    source, limits = shape(op.operands[0].type), _limits(op, without_sign)
    ends = _extremes(_read(numbers, without_sign))
    low, high = (end * source[op.axis.value.data] for end in ends)
    if limits.min <= low and high <= limits.max:
        return False
    exact = _added_up(op, integers(numbers, len(source), without_sign))
    found = integers(result, len(shape(op.results[0].type)), without_sign)
    return bool(numpy.any(exact != found))


def _fits(op: Operation, exact: Exact, operands: Sequence[Any], without_sign: bool) -> bool:
    """True where the extremes of the operands already say that nothing wraps."""
    (a_low, a_high), (b_low, b_high) = (_extremes(operand) for operand in operands)
    corners = exact(
        numpy.array([a_low, a_low, a_high, a_high]), numpy.array([b_low, b_high, b_low, b_high])
    )
    limits = _limits(op, without_sign)
    return bool(corners.min() >= limits.min and corners.max() <= limits.max)


def _limits(op: Operation, without_sign: bool) -> numpy.iinfo:
    kind = dtype(op.results[0].type)
    return numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)


def _extremes(value: Any) -> tuple[int, int]:
    if isinstance(value, AffineTile):
        return value.low, value.high
    array = numpy.asarray(value)
    return int(array.min()), int(array.max())


def _read(value: Any, without_sign: bool) -> Any:
    """A tile of integers, which are all stored with a sign, as the kernel takes them."""
    if not without_sign or (isinstance(value, AffineTile) and value.low >= 0):
        return value
    array = numpy.asarray(value)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "i" else array


def integers(value: Any, rank: int, without_sign: bool = False) -> Array:
    """The value of a tile of integers as int64, programs first."""
    return lifted(_read(value, without_sign), rank).astype(numpy.int64)


def exact_result(computed: Computed, distances: Sequence[Shadow], unsigned: Values) -> Array | None:
    """What an operation gives for exact operands, in int64, programs first;
    None for one that nothing is carried through.

    Args:
        distances: of the operands from the exact ones.
        unsigned: see `unsigned_values`.
    """
    op = computed.operation
    if isinstance(op, tt.AddPtrOp):
        return _of_pointer(computed, distances)
    values = _exact_operands(computed, distances, unsigned)
    result = dtype(op.results[0].type)
    if isinstance(op, _CASTS) and dtype(op.operands[0].type).kind == "i":
        is_cut_to_bits = isinstance(op, arith.TruncIOp) and result.itemsize < 4
        return None if is_cut_to_bits else values[0]
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _combined(op, values[0]) if len(values) == 1 else None
    if isinstance(op, math.AbsIOp):
        return numpy.abs(values[0])
    if len(values) != 2:
        return None
    if isinstance(op, arith.CmpIOp):
        return _compared(op, computed, values)
    if type(op) in _LOGIC and result.kind == "b":
        return _LOGIC[type(op)](*values)
    follow = _FOLLOWED.get(type(op))
    if follow is None and result.itemsize < 4:
        follow = _OF_NARROW.get(type(op))
    return None if follow is None or result.kind != "i" else follow(*values)


def _exact_operands(
    computed: Computed, distances: Sequence[Shadow], unsigned: Values
) -> list[Array]:
    """Integers and truth values among the operands, as they should be. One that is as it should be
    is read as the operation reads it.
    """
    op, found = computed.operation, []
    signed = takes_for_signed(op)
    if signed is None and has(op, KeepsSign, RegionsOfElements):
        signed = op.results[0] not in unsigned
    for value, source, shadow in zip(computed.operands, op.operands, distances):
        if dtype(source.type).kind not in "ib":
            continue
        rank, own = len(shape(source.type)), source in unsigned
        numbers = integers(value, rank, own if signed is None else not signed)
        if shadow is not None:
            should = integers(value, rank, own) + shadow
            numbers = should if own is (not signed) else numpy.where(shadow != 0, should, numbers)
        found.append(numbers)
    return found


def _compared(op: arith.CmpIOp, computed: Computed, exact: Sequence[Array]) -> Array | None:
    """What a comparison gives. uint32 is compared as the hash that it may be."""
    kind = dtype(op.lhs.type)
    predicate = arith.INTEGER_PREDICATES[op.predicate.value.data]
    if predicate[0] == "u" and kind.kind == "i" and kind.itemsize >= 4:
        return None
    rank = len(shape(op.lhs.type))
    a, b = (
        below_zero(one, integers(value, rank, predicate[0] == "u"))
        for one, value in zip(exact, computed.operands)
    )
    holds: Array = _COMPARISONS[predicate[-2:]](a, b)
    return holds.astype(numpy.int64)


def below_zero(exact: Array, found: Array) -> Array:
    """Numbers without a sign that went below zero, as what they wrapped to:
    `x - low < size` is one comparison for two.
    """
    negative = (exact < 0) & (exact > -(1 << 31)) & (found >= 0)
    if not negative.any():
        return exact
    return numpy.where(negative & numpy.isin(found - exact, _SPANS), found, exact)


_SPANS = [1 << 8, 1 << 16, 1 << 32]
"""How many numbers uint8, uint16 and uint32 have."""


def _of_pointer(computed: Computed, distances: Sequence[Shadow]) -> Array:
    """The result, moved by what its operands are away from exact ones."""
    rank = len(shape(computed.operation.results[0].type))
    exact = integers(computed.results[0], rank)
    for source, shadow in zip(computed.operation.operands, distances):
        if shadow is not None:
            missing = rank - len(shape(source.type))
            exact = exact + shadow.reshape(shadow.shape + (1,) * missing)
    return exact
