"""Integer operations that may not fit their type, and what they give in int64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.shadow.values import Array, Shadow, lifted
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.numerics import accumulate
from kernellab.ir import arith, tt
from kernellab.ir.types import dtype, is_pointer, shape

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
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
}
"""What carries an inexact operand on. Bits and unsigned numbers do not:
who takes those of a product wants it modulo 2**32."""

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


def wrapped(computed: Computed) -> bool:
    """Whether a result is not what the operation should give."""
    result = computed.results[0]
    if isinstance(result, AffineTile):
        return False  # an affine tile never wraps: see affine._fitting
    op = computed.operation
    if isinstance(op, arith.TruncIOp):
        return not numpy.array_equal(result, computed.operands[0])
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _sum_wrapped(op, computed.operands[0], result)
    exact, _ = WRAPPING[type(op)]
    if numpy.size(result) >= _LARGE and _fits(op, exact, computed.operands):
        return False
    a, b = (numpy.asarray(operand, numpy.int64) for operand in computed.operands)
    return bool(numpy.any(exact(a, b) != result))


def _sum_wrapped(op: tt.ReduceOp | tt.ScanOp, numbers: Any, result: Any) -> bool:
    source, limits = shape(op.operands[0].type), numpy.iinfo(dtype(op.results[0].type))
    low, high = (end * source[op.axis.value.data] for end in _extremes(numbers))
    if limits.min <= low and high <= limits.max:
        return False
    exact = _added_up(op, integers(numbers, len(source)))
    return bool(numpy.any(exact != integers(result, len(shape(op.results[0].type)))))


def _fits(op: Operation, exact: Exact, operands: Sequence[Any]) -> bool:
    """True where the extremes of the operands already say that nothing wraps."""
    (a_low, a_high), (b_low, b_high) = (_extremes(operand) for operand in operands)
    corners = exact(
        numpy.array([a_low, a_low, a_high, a_high]), numpy.array([b_low, b_high, b_low, b_high])
    )
    limits = numpy.iinfo(dtype(op.results[0].type))
    return bool(corners.min() >= limits.min and corners.max() <= limits.max)


def _extremes(value: Any) -> tuple[int, int]:
    if isinstance(value, AffineTile):
        return value.low, value.high
    array = numpy.asarray(value)
    return int(array.min()), int(array.max())


def integers(value: Any, rank: int) -> Array:
    """The value of a tile of integers as int64, programs first."""
    return lifted(value, rank).astype(numpy.int64)


def exact_result(computed: Computed, distances: Sequence[Shadow]) -> Array | None:
    """What an operation gives for exact operands, in int64, programs first;
    None for one that nothing is carried through.

    Args:
        distances: of the operands from the exact ones.
    """
    op = computed.operation
    values = [
        integers(value, len(shape(source.type))) + (0 if shadow is None else shadow)
        for value, source, shadow in zip(computed.operands, op.operands, distances)
        if is_pointer(source.type) or dtype(source.type).kind in "ib"
    ]
    if isinstance(op, _CASTS) and dtype(op.operands[0].type).kind == "i":
        is_index = dtype(op.results[0].type).itemsize >= 4
        return values[0] if is_index else None
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _added_up(op, values[0]) if adds_up(op) else None
    if len(values) != 2:
        return None
    if isinstance(op, tt.AddPtrOp):
        return _of_pointer(computed, distances)
    if isinstance(op, arith.CmpIOp):
        predicate = arith.INTEGER_PREDICATES[op.predicate.value.data]
        holds: Array = _COMPARISONS[predicate[-2:]](*values)
        return holds.astype(numpy.int64)
    if type(op) in _LOGIC and dtype(op.results[0].type).kind == "b":
        return _LOGIC[type(op)](*values)
    follow = _FOLLOWED.get(type(op))
    return None if follow is None or dtype(op.results[0].type).kind != "i" else follow(*values)


def _of_pointer(computed: Computed, distances: Sequence[Shadow]) -> Array:
    """The result, moved by what its operands are away from exact ones."""
    rank = len(shape(computed.operation.results[0].type))
    exact = integers(computed.results[0], rank)
    for source, shadow in zip(computed.operation.operands, distances):
        if shadow is not None:
            missing = rank - len(shape(source.type))
            exact = exact + shadow.reshape(shadow.shape + (1,) * missing)
    return exact
