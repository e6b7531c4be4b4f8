"""What operations give in float64, as if no type ended and nothing were rounded.

NaN among what an operation is given is a number that nobody knows (`exact_values`): what does not
depend on it is known all the same, false and anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.shadow.values import Array
from kernellab.interpreter.numerics import numerics
from kernellab.interpreter.numerics.numerics import accumulate
from kernellab.ir import arith, math, tt
from kernellab.ir.traits import KeepsElements, has
from kernellab.ir.types import dtype, shape

Function = Callable[..., Any]
"""Of arrays in float64, programs first."""


def _both(a: Array, b: Array) -> Array:
    return numpy.where((a == 0) | (b == 0), 0.0, numpy.minimum(a, b))


def _either(a: Array, b: Array) -> Array:
    return numpy.where((a == 1) | (b == 1), 1.0, numpy.maximum(a, b))


def _product(a: Array, b: Array) -> Array:
    """Of integers: 0 times whatever is 0."""
    found: Array = numpy.where((a == 0) | (b == 0), 0.0, a * b)
    return found


def _quotient(a: Array, b: Array) -> Array:
    """C's, toward zero; by zero, nobody knows."""
    found: Array = numpy.where(b == 0, numpy.nan, numpy.trunc(a / numpy.where(b == 0, 1.0, b)))
    return found


def _remainder(a: Array, b: Array) -> Array:
    found: Array = a - _quotient(a, b) * b
    return found


def _same(a: Array) -> Array:
    return a


_FUNCTIONS: dict[type[Operation], Function] = {
    arith.AddFOp: numpy.add,
    arith.SubFOp: numpy.subtract,
    arith.MulFOp: numpy.multiply,
    arith.DivFOp: numpy.divide,
    tt.PreciseDivFOp: numpy.divide,
    tt.ApproxDivFOp: numpy.divide,
    arith.RemFOp: numpy.fmod,
    arith.NegFOp: numpy.negative,
    arith.MaximumFOp: numpy.maximum,
    arith.MinimumFOp: numpy.minimum,
    arith.MaxNumFOp: numpy.fmax,
    arith.MinNumFOp: numpy.fmin,
    math.FmaOp: lambda a, b, c: a * b + c,
    math.AbsFOp: numpy.abs,
    math.CeilOp: numpy.ceil,
    math.FloorOp: numpy.floor,
    math.TruncOp: numpy.trunc,
    math.RoundEvenOp: numpy.rint,
    math.CosOp: numpy.cos,
    math.SinOp: numpy.sin,
    math.TanOp: numpy.tan,
    math.TanhOp: numpy.tanh,
    math.ExpOp: numpy.exp,
    math.Exp2Op: numpy.exp2,
    math.ExpM1Op: numpy.expm1,
    math.LogOp: numpy.log,
    math.Log2Op: numpy.log2,
    math.Log10Op: numpy.log10,
    math.Log1pOp: numpy.log1p,
    math.SqrtOp: numpy.sqrt,
    tt.PreciseSqrtOp: numpy.sqrt,
    math.RsqrtOp: lambda a: 1 / numpy.sqrt(a),
    math.ErfOp: numerics.erf,
    math.PowFOp: numpy.power,
    math.Atan2Op: numpy.arctan2,
    tt.ClampFOp: numpy.clip,
    arith.AddIOp: numpy.add,
    arith.SubIOp: numpy.subtract,
    arith.MulIOp: _product,
    arith.DivSIOp: _quotient,
    arith.DivUIOp: _quotient,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _remainder,
    arith.FloorDivSIOp: lambda a, b: numpy.floor(a / numpy.where(b == 0, numpy.nan, b)),
    arith.CeilDivSIOp: lambda a, b: numpy.ceil(a / numpy.where(b == 0, numpy.nan, b)),
    arith.ShRSIOp: lambda a, b: numpy.floor(a / 2.0**b),
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
    arith.MaxUIOp: numpy.maximum,
    arith.MinUIOp: numpy.minimum,
    math.AbsIOp: numpy.abs,
    tt.AddPtrOp: numpy.add,
    arith.ExtFOp: _same,
    arith.TruncFOp: _same,
    tt.FpToFpOp: _same,
    arith.ExtSIOp: _same,
    arith.ExtUIOp: _same,
    arith.TruncIOp: _same,
    arith.IndexCastOp: _same,
    arith.SIToFPOp: _same,
    arith.UIToFPOp: _same,
    arith.FPToSIOp: numpy.trunc,
    arith.FPToUIOp: numpy.trunc,
}

_LOGIC: dict[type[Operation], Function] = {
    arith.AndIOp: _both,
    arith.OrIOp: _either,
    arith.XOrIOp: lambda a, b: numpy.abs(a - b),
}
"""Of truth values: the bits of a number are no arithmetic, and nothing is carried through them."""

_COMPARISONS: dict[str, Function] = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
}

_ACCUMULATED: dict[type[Operation], numpy.ufunc] = {
    arith.AddFOp: numpy.add,
    arith.AddIOp: numpy.add,
    arith.MulFOp: numpy.multiply,
    arith.MulIOp: numpy.multiply,
    arith.MaximumFOp: numpy.maximum,
    arith.MinimumFOp: numpy.minimum,
    arith.MaxNumFOp: numpy.fmax,
    arith.MinNumFOp: numpy.fmin,
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
    arith.MaxUIOp: numpy.maximum,
    arith.MinUIOp: numpy.minimum,
}


def function_for(op: Operation) -> Function | None:
    """What gives the results of an operation for operands in float64, programs first, one array
    for one result and a sequence for several; None for an operation that numbers are not followed
    through.
    """
    match op:
        case arith.CmpIOp():
            return _comparison(arith.INTEGER_PREDICATES[op.predicate.value.data])
        case arith.CmpFOp():
            return _comparison(arith.FLOAT_PREDICATES[op.predicate.value.data])
        case arith.SelectOp():
            return lambda condition, *chosen: _selected(op, condition, *chosen)
        case tt.DotOp():
            return lambda a, b, c: numpy.matmul(_whole(a, op.a), _whole(b, op.b)) + c
        case tt.ReduceOp() | tt.ScanOp():
            return _accumulation(op)
        case arith.ShRUIOp():
            return (lambda a, b: numpy.floor(a / 2.0**b)) if _is_of_sums(op.operands[0]) else None
    if type(op) in _LOGIC:
        return _LOGIC[type(op)] if dtype(op.results[0].type).kind == "b" else None
    return _FUNCTIONS.get(type(op))


def _is_of_sums(value: SSAValue) -> bool:
    """Whether numbers are sums of what was loaded, so that a shift to the right is a mean,
    `(a + b) >> 1`; bits that are mixed, by products say, are shifted on purpose.
    """
    op = value.owner
    if isinstance(op, arith.AddIOp | arith.SubIOp):
        return all(map(_is_of_sums, op.operands))
    if isinstance(op, Operation) and has(op, KeepsElements):
        return _is_of_sums(op.operands[0])
    return isinstance(op, tt.LoadOp | arith.ExtUIOp | arith.ExtSIOp | arith.ConstantOp)


def _comparison(predicate: str) -> Function | None:
    compare = _COMPARISONS.get(predicate[-2:])
    if compare is None:
        return None

    def compared(a: Array, b: Array) -> Array:
        return numpy.where(numpy.isnan(a) | numpy.isnan(b), numpy.nan, compare(a, b))

    return compared


def _selected(op: arith.SelectOp, condition: Array, chosen: Array, otherwise: Array) -> Array:
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
        if isinstance(inner, arith.CmpFOp | arith.CmpIOp):
            names = (
                arith.FLOAT_PREDICATES
                if isinstance(inner, arith.CmpFOp)
                else arith.INTEGER_PREDICATES
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
    both = [numpy.broadcast_to(one, (programs, *extents)) for one in (values, places)]
    at = numpy.expand_dims(choose(both[0], axis=axis), axis)
    return [numpy.take_along_axis(one, at, axis).squeeze(axis) for one in both]
