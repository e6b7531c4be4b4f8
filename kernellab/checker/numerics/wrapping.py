"""Integer operations that may not fit their type."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.numerics.exact_functions import integer_function_for
from kernellab.checker.numerics.signs import Values
from kernellab.checker.shadow.values import Array, lifted
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.ir import arith, tt
from kernellab.ir.types import dtype, shape

SIGNS: dict[type[Operation], str] = {
    arith.AddIOp: "+",
    arith.SubIOp: "-",
    arith.MulIOp: "*",
    arith.ShLIOp: "<<",
}
"""What may wrap, and how Python writes it."""

_LARGE = 4096
"""Tiles of so many elements are first looked at by their extremes."""


def may_wrap(op: Operation) -> bool:
    """True for integer arithmetic of fewer than 64 bits."""
    if type(op) in SIGNS or adds_up(op):
        kind = dtype(op.results[0].type)
        return kind.kind == "i" and kind.itemsize < 8
    return _cuts(op)


def adds_up(op: Operation) -> bool:
    """True for `tl.sum` and `tl.cumsum` of integers."""
    if not isinstance(op, tt.ReduceOp | tt.ScanOp) or len(op.operands) != 1:
        return False
    combiner, *rest = op.combine.block.ops
    return isinstance(combiner, arith.AddIOp) and len(rest) == 1


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
    takes_so = without_sign and not isinstance(op, arith.TruncIOp)
    kind = dtype(op.results[0].type)
    limits = numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)
    if max(map(numpy.size, (*computed.operands, result))) >= _LARGE:
        low, high = _ends(op, [_extremes(_read(value, takes_so)) for value in computed.operands])
        if limits.min <= low and high <= limits.max:
            return False
    operands = (
        integers(value, len(shape(operand.type)), takes_so)
        for value, operand in zip(computed.operands, op.operands)
    )
    actual = integers(result, len(shape(op.results[0].type)), without_sign)
    return bool(numpy.any(_exact(op, *operands) != actual))


def _exact(op: Operation, *operands: Array) -> Array:
    function = integer_function_for(op)
    assert function is not None, "what may wrap can be computed"
    exact: Array = function(*operands)
    return exact


def _ends(op: Operation, extremes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The limits of the exact results for operands with these extremes."""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        count = shape(op.operands[0].type)[op.axis.value.data]
        ((low, high),) = extremes
        return low * count, high * count
    corners = _exact(op, *numpy.array([*itertools.product(*extremes)]).T)
    return int(corners.min()), int(corners.max())


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


def below_zero(exact: Array, actual: Array) -> Array:
    """Numbers without a sign that went below zero, as what they wrapped to:
    `x - low < size` is one comparison for two.
    """
    negative = (exact < 0) & (exact > -(1 << 31)) & (actual >= 0)
    if not negative.any():
        return exact
    return numpy.where(negative & numpy.isin(actual - exact, _SPANS), actual, exact)


_SPANS = [1 << 8, 1 << 16, 1 << 32]
"""How many numbers uint8, uint16 and uint32 have."""
