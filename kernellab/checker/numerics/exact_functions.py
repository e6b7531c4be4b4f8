"""What operations give in float64, as if no type ended and nothing were rounded.

NaN among what an operation is given is a number that no one knows (`reference_run`): what does not
depend on it is known all the same, false and anything else.
"""

from __future__ import annotations

from functools import lru_cache

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.shadow_values import Array
from kernellab.interpreter.unrounded import Function, unrounded
from kernellab.ir import mlir, tt
from kernellab.ir.operations import KeepsElements, has
from kernellab.ir.types import dtype, is_pointer, shape


def _both(a: Array, b: Array) -> Array:
    return numpy.where((a == 0) | (b == 0), 0.0, numpy.minimum(a, b))


def _either(a: Array, b: Array) -> Array:
    return numpy.where((a == 1) | (b == 1), 1.0, numpy.maximum(a, b))


def _product(a: Array, b: Array) -> Array:
    """Of integers: 0 times whatever is 0."""
    result: Array = numpy.where((a == 0) | (b == 0), 0.0, a * b)
    return result


def _quotient(a: Array, b: Array) -> Array:
    """C's, toward zero; by zero, no one knows."""
    result: Array = numpy.where(b == 0, numpy.nan, numpy.trunc(a / numpy.where(b == 0, 1.0, b)))
    return result


def _remainder(a: Array, b: Array) -> Array:
    result: Array = a - _quotient(a, b) * b
    return result


def _shifted_right(a: Array, b: Array) -> Array:
    shifted: Array = numpy.floor(a / 2.0**b)
    return shifted


def _same(a: Array) -> Array:
    return a


_BITS = (mlir.BitcastOp, tt.BitcastOp)

_CONVERSIONS = (
    mlir.ExtFOp,
    mlir.TruncFOp,
    tt.FpToFpOp,
    mlir.ExtSIOp,
    mlir.ExtUIOp,
    mlir.TruncIOp,
    mlir.IndexCastOp,
    mlir.SIToFPOp,
    mlir.UIToFPOp,
)

_FUNCTIONS: dict[type[Operation], Function] = {
    mlir.AddIOp: numpy.add,
    mlir.SubIOp: numpy.subtract,
    mlir.MulIOp: _product,
    mlir.ShLIOp: lambda a, b: a * 2.0**b,
    mlir.DivSIOp: _quotient,
    mlir.DivUIOp: _quotient,
    mlir.RemSIOp: _remainder,
    mlir.RemUIOp: _remainder,
    mlir.FloorDivSIOp: lambda a, b: numpy.floor(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.CeilDivSIOp: lambda a, b: numpy.ceil(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.ShRSIOp: _shifted_right,
    mlir.ShRUIOp: _shifted_right,
    mlir.MaxSIOp: numpy.maximum,
    mlir.MinSIOp: numpy.minimum,
    mlir.MaxUIOp: numpy.maximum,
    mlir.MinUIOp: numpy.minimum,
    mlir.AbsIOp: numpy.abs,
    tt.AddPtrOp: numpy.add,
    mlir.FPToSIOp: numpy.trunc,
    mlir.FPToUIOp: numpy.trunc,
    **dict.fromkeys(_CONVERSIONS, _same),
}
"""What operations on integers give if no type ended; operations on floats are lowered as ever, and
their results not rounded."""

_LOGIC: dict[type[Operation], Function] = {
    mlir.AndIOp: _both,
    mlir.OrIOp: _either,
    mlir.XOrIOp: lambda a, b: numpy.abs(a - b),
}
"""Operations on truth values. Bitwise operations on numbers are not arithmetic and not followed."""

_COMPARISONS: dict[str, Function] = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
}


@lru_cache(maxsize=1024)
def carries(op: Operation) -> bool:
    """Return whether exact values are followed through an operation. They are not followed through
    bits: of shifts to the right, only through means such as `(a + b) >> 1`.
    """
    if isinstance(op, mlir.ShRUIOp):
        return _is_of_sums(op.operands[0])
    return (
        not isinstance(op, mlir.ShLIOp | mlir.BitcastOp | tt.BitcastOp)
        and function_of(op) is not None
    )


@lru_cache(maxsize=1024)
def carries_indices(op: Operation) -> bool:
    """Return whether exact integers are followed through an operation on the way to an address or a
    mask.

    Bits are not: who takes those of a product wants it modulo 2**32. Nor are divisions, shifts and
    comparisons of uint32, which hashes end with; in uint8 and uint16 no one hashes.
    """
    if not op.operands or not op.results or function_of(op) is None:
        return False
    operand, result = op.operands[0].type, op.results[0].type
    if is_pointer(result):
        return isinstance(op, tt.AddPtrOp)
    kind, of = dtype(result), dtype(operand)
    match op:
        case mlir.CmpIOp():
            is_unsigned = mlir.INTEGER_PREDICATES[op.predicate.value.data][0] == "u"
            return not (is_unsigned and of.kind == "i" and of.itemsize >= 4)
        case mlir.TruncIOp() if kind.itemsize < 4:
            return False  # what is cut to fewer bits is taken for bits
        case mlir.ExtSIOp() | mlir.ExtUIOp() | mlir.TruncIOp() | mlir.IndexCastOp():
            return of.kind != "b"
        case mlir.DivUIOp() | mlir.RemUIOp() | mlir.ShRUIOp():
            return kind.itemsize < 4
    return isinstance(op, _OF_INDICES) or type(op) in _LOGIC


_OF_INDICES = (
    mlir.AddIOp,
    mlir.SubIOp,
    mlir.MulIOp,
    mlir.ShLIOp,
    mlir.DivSIOp,
    mlir.RemSIOp,
    mlir.ShRSIOp,
    mlir.MaxSIOp,
    mlir.MinSIOp,
    mlir.MaxUIOp,
    mlir.MinUIOp,
    mlir.AbsIOp,
    tt.ReduceOp,
    tt.ScanOp,
    *_BITS,
)


@lru_cache(maxsize=1024)
def function_of(op: Operation) -> Function | None:
    """Return what gives the results of an operation for operands in float64, programs first: one
    array for one result, and a sequence for several; None if that is not known.
    """
    match op:
        case mlir.BitcastOp() | tt.BitcastOp():
            kinds = {_kind(op.operands[0]), _kind(op.results[0])}
            return _same if kinds == {"i"} else None
        case mlir.CmpIOp():
            return _comparison(mlir.INTEGER_PREDICATES[op.predicate.value.data])
        case mlir.CmpFOp():
            return _comparison(mlir.FLOAT_PREDICATES[op.predicate.value.data])
        case mlir.SelectOp():
            return lambda condition, *chosen: _selected(op, condition, *chosen)
    if type(op) in _LOGIC:
        return _LOGIC[type(op)] if dtype(op.results[0].type).kind == "b" else None
    if type(op) in _FUNCTIONS:
        return _FUNCTIONS[type(op)]
    function = unrounded(op, function_of)
    return None if function is None or _kind(op.results[0]) == "b" else function


def _kind(value: SSAValue) -> str:
    return "p" if is_pointer(value.type) else dtype(value.type).kind


def _is_of_sums(value: SSAValue) -> bool:
    """Whether numbers are sums of what was loaded, so that a shift to the right is a mean,
    `(a + b) >> 1`; bits that are mixed, by products say, are shifted on purpose.
    """
    op = value.owner
    if isinstance(op, mlir.AddIOp | mlir.SubIOp):
        return all(map(_is_of_sums, op.operands))
    if isinstance(op, Operation) and has(op, KeepsElements):
        return _is_of_sums(op.operands[0])
    return isinstance(op, tt.LoadOp | mlir.ExtUIOp | mlir.ExtSIOp | mlir.ConstantOp)


def _comparison(predicate: str) -> Function | None:
    compare = _COMPARISONS.get(predicate[-2:])
    if compare is None:
        return None

    def compared(a: Array, b: Array) -> Array:
        return numpy.where(numpy.isnan(a) | numpy.isnan(b), numpy.nan, compare(a, b))

    return compared


def _selected(op: mlir.SelectOp, condition: Array, chosen: Array, otherwise: Array) -> Array:
    rank = len(shape(op.result.type))
    if condition.ndim <= rank:
        condition = condition.reshape((-1,) + (1,) * rank)
    known = numpy.where(condition == 1, chosen, otherwise)
    return numpy.where(numpy.isnan(condition) & (chosen != otherwise), numpy.nan, known)
