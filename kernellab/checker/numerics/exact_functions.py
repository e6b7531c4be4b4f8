"""What operations give in float64, as if no type ended and nothing were rounded; and integer
operations in int64.

NaN among what an operation is given is a number that no one knows (`reference_run`): what does not
depend on it is known all the same, false and anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.shadow_values import Array
from kernellab.interpreter import numerics
from kernellab.interpreter.numerics import accumulate
from kernellab.ir import mlir, tt
from kernellab.ir.operations import KeepsElements, has
from kernellab.ir.types import dtype, is_pointer, shape

Function = Callable[..., Any]
"""Of arrays in float64, programs first."""


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


def _same(a: Array) -> Array:
    return a


_FUNCTIONS: dict[type[Operation], Function] = {
    mlir.AddFOp: numpy.add,
    mlir.SubFOp: numpy.subtract,
    mlir.MulFOp: numpy.multiply,
    mlir.DivFOp: numpy.divide,
    tt.PreciseDivFOp: numpy.divide,
    tt.ApproxDivFOp: numpy.divide,
    mlir.RemFOp: numpy.fmod,
    mlir.NegFOp: numpy.negative,
    mlir.MaximumFOp: numpy.maximum,
    mlir.MinimumFOp: numpy.minimum,
    mlir.MaxNumFOp: numpy.fmax,
    mlir.MinNumFOp: numpy.fmin,
    mlir.FmaOp: lambda a, b, c: a * b + c,
    mlir.AbsFOp: numpy.abs,
    mlir.CeilOp: numpy.ceil,
    mlir.FloorOp: numpy.floor,
    mlir.TruncOp: numpy.trunc,
    mlir.RoundEvenOp: numpy.rint,
    mlir.CosOp: numpy.cos,
    mlir.SinOp: numpy.sin,
    mlir.TanOp: numpy.tan,
    mlir.TanhOp: numpy.tanh,
    mlir.ExpOp: numpy.exp,
    mlir.Exp2Op: numpy.exp2,
    mlir.ExpM1Op: numpy.expm1,
    mlir.LogOp: numpy.log,
    mlir.Log2Op: numpy.log2,
    mlir.Log10Op: numpy.log10,
    mlir.Log1pOp: numpy.log1p,
    mlir.SqrtOp: numpy.sqrt,
    tt.PreciseSqrtOp: numpy.sqrt,
    mlir.RsqrtOp: lambda a: 1 / numpy.sqrt(a),
    mlir.ErfOp: numerics.erf,
    mlir.PowFOp: numpy.power,
    mlir.Atan2Op: numpy.arctan2,
    tt.ClampFOp: numpy.clip,
    mlir.AddIOp: numpy.add,
    mlir.SubIOp: numpy.subtract,
    mlir.MulIOp: _product,
    mlir.DivSIOp: _quotient,
    mlir.DivUIOp: _quotient,
    mlir.RemSIOp: _remainder,
    mlir.RemUIOp: _remainder,
    mlir.FloorDivSIOp: lambda a, b: numpy.floor(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.CeilDivSIOp: lambda a, b: numpy.ceil(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.ShRSIOp: lambda a, b: numpy.floor(a / 2.0**b),
    mlir.MaxSIOp: numpy.maximum,
    mlir.MinSIOp: numpy.minimum,
    mlir.MaxUIOp: numpy.maximum,
    mlir.MinUIOp: numpy.minimum,
    mlir.AbsIOp: numpy.abs,
    tt.AddPtrOp: numpy.add,
    mlir.ExtFOp: _same,
    mlir.TruncFOp: _same,
    tt.FpToFpOp: _same,
    mlir.ExtSIOp: _same,
    mlir.ExtUIOp: _same,
    mlir.TruncIOp: _same,
    mlir.IndexCastOp: _same,
    mlir.SIToFPOp: _same,
    mlir.UIToFPOp: _same,
    mlir.FPToSIOp: numpy.trunc,
    mlir.FPToUIOp: numpy.trunc,
}

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

_ACCUMULATED: dict[type[Operation], numpy.ufunc] = {
    mlir.AddFOp: numpy.add,
    mlir.AddIOp: numpy.add,
    mlir.MulFOp: numpy.multiply,
    mlir.MulIOp: numpy.multiply,
    mlir.MaximumFOp: numpy.maximum,
    mlir.MinimumFOp: numpy.minimum,
    mlir.MaxNumFOp: numpy.fmax,
    mlir.MinNumFOp: numpy.fmin,
    mlir.MaxSIOp: numpy.maximum,
    mlir.MinSIOp: numpy.minimum,
    mlir.MaxUIOp: numpy.maximum,
    mlir.MinUIOp: numpy.minimum,
}


def function_for(op: Operation) -> Function | None:
    """What gives the results of an operation for operands in float64, programs first, one array
    for one result and a sequence for several; None for an operation that numbers are not followed
    through.
    """
    match op:
        case mlir.CmpIOp():
            return _comparison(mlir.INTEGER_PREDICATES[op.predicate.value.data])
        case mlir.CmpFOp():
            return _comparison(mlir.FLOAT_PREDICATES[op.predicate.value.data])
        case mlir.SelectOp():
            return lambda condition, *chosen: _selected(op, condition, *chosen)
        case tt.DotOp():
            return lambda a, b, c: numpy.matmul(_whole(a, op.a), _whole(b, op.b)) + c
        case tt.ReduceOp() | tt.ScanOp():
            return _accumulation(op)
        case mlir.ShRUIOp():
            return (lambda a, b: numpy.floor(a / 2.0**b)) if _is_of_sums(op.operands[0]) else None
    if type(op) in _LOGIC:
        return _LOGIC[type(op)] if dtype(op.results[0].type).kind == "b" else None
    return _FUNCTIONS.get(type(op))


def integer_function_for(op: Operation) -> Function | None:
    """As `function_for`, for operations on integers in int64."""
    operand, result = op.operands[0].type, op.results[0].type
    if is_pointer(result):
        return numpy.add if isinstance(op, tt.AddPtrOp) else None
    kind = dtype(result)
    match op:
        case mlir.CmpIOp():
            # uint32 may be a hash, whose comparisons are meant as they are.
            predicate = mlir.INTEGER_PREDICATES[op.predicate.value.data]
            is_hash = predicate[0] == "u" and dtype(operand).itemsize >= 4
            return None if is_hash and dtype(operand).kind == "i" else _comparison(predicate)
        case tt.ReduceOp() | tt.ScanOp():
            return _accumulation(op)
        case mlir.TruncIOp() if kind.itemsize < 4:
            return None  # what is cut to fewer bits is taken for bits
        case mlir.BitcastOp() | tt.BitcastOp():
            return _same if kind.kind == "i" else None
        case mlir.ExtSIOp() | mlir.ExtUIOp() | mlir.TruncIOp() | mlir.IndexCastOp():
            return None if dtype(operand).kind == "b" else _same
    if kind.kind == "b":
        return _LOGIC.get(type(op))
    if type(op) in _OF_INTEGERS or kind.itemsize >= 4:
        return _OF_INTEGERS.get(type(op))
    return _OF_NARROW_INTEGERS.get(type(op))


def _whole_quotient(a: Array, b: Array) -> Array:
    """C's, toward zero; by zero, 0."""
    divisor = numpy.where(b == 0, 1, b)
    quotient = numpy.abs(a) // numpy.abs(divisor) * numpy.sign(a) * numpy.sign(divisor)
    return numpy.where(b == 0, 0, quotient)


def _whole_remainder(a: Array, b: Array) -> Array:
    rest: Array = a - _whole_quotient(a, b) * b
    return rest


def _shifted_right(a: Array, b: Array) -> Array:
    shifted: Array = a >> numpy.clip(b, 0, 63)
    return shifted


_OF_INTEGERS: dict[type[Operation], Function] = {
    mlir.AddIOp: numpy.add,
    mlir.SubIOp: numpy.subtract,
    mlir.MulIOp: numpy.multiply,
    mlir.ShLIOp: lambda a, b: a << numpy.clip(b, 0, 62),
    mlir.DivSIOp: _whole_quotient,
    mlir.RemSIOp: _whole_remainder,
    mlir.ShRSIOp: _shifted_right,
    mlir.MaxSIOp: numpy.maximum,
    mlir.MinSIOp: numpy.minimum,
    mlir.MaxUIOp: numpy.maximum,
    mlir.MinUIOp: numpy.minimum,
    mlir.AbsIOp: numpy.abs,
}
"""What carries an inexact operand on. Bits do not: who takes those of a product wants it
modulo 2**32. Nor do divisions and shifts of uint32, which hashes end with."""

_OF_NARROW_INTEGERS: dict[type[Operation], Function] = {
    mlir.DivUIOp: _whole_quotient,
    mlir.RemUIOp: _whole_remainder,
    mlir.ShRUIOp: _shifted_right,
}
"""What does in uint8 and uint16, in which no one hashes."""


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


def _whole(array: Array, operand: object) -> Array:
    extents = shape(operand.type)  # type: ignore[attr-defined]
    return numpy.broadcast_to(array, (len(array), *extents))


def _accumulation(op: tt.ReduceOp | tt.ScanOp) -> Function | None:
    """Of one tile by a single operation, and the largest or smallest of one with its place."""
    extents, axis = shape(op.operands[0].type), op.axis.value.data
    if len(op.operands) == 2 and isinstance(op, tt.ReduceOp):
        choose = _choice(op)
        return None if choose is None else lambda *both: _chosen(op, choose, *both)
    combiner, *rest = op.combine.block.ops
    ufunc = _ACCUMULATED.get(type(combiner))
    if ufunc is None or len(rest) != 1 or len(op.operands) != 1:
        return None

    def accumulated(array: Array) -> Array:
        whole = numpy.broadcast_to(array, (len(array), *extents))
        if isinstance(op, tt.ReduceOp):
            reduced: Array = ufunc.reduce(whole, axis=axis + 1)
            return reduced
        backwards = bool(op.reverse.value.data)
        running: Array = accumulate(ufunc, whole, axis - len(extents), backwards)
        return running

    return accumulated


def _choice(op: tt.ReduceOp) -> Callable[..., Array] | None:
    """How a reduction of values and places chooses among values."""
    value, other = op.combine.block.args[0], op.combine.block.args[2]
    for inner in op.combine.block.ops:
        if isinstance(inner, mlir.CmpFOp | mlir.CmpIOp):
            names = (
                mlir.FLOAT_PREDICATES if isinstance(inner, mlir.CmpFOp) else mlir.INTEGER_PREDICATES
            )
            relation = names[inner.predicate.value.data][-2]
            if tuple(inner.operands) == (value, other) and relation in "lg":
                return numpy.argmax if relation == "g" else numpy.argmin
    return None


def _chosen(
    op: tt.ReduceOp, choose: Callable[..., Array], values: Array, places: Array
) -> Sequence[Array]:
    axis = op.axis.value.data + 1
    extents = shape(op.operands[0].type)
    programs = max(len(values), len(places))
    both = [numpy.broadcast_to(tile, (programs, *extents)) for tile in (values, places)]
    at = numpy.expand_dims(choose(both[0], axis=axis), axis)
    return [numpy.take_along_axis(tile, at, axis).squeeze(axis) for tile in both]
