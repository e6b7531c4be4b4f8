"""The `math` dialect: elementary functions, computed in float32 or float64 and rounded once."""

from __future__ import annotations

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, numerics, numpy
from kernellab.interpreter.codegen.registry import lowers
from kernellab.ir import math, tt
from kernellab.ir.operation import ElementwiseUnary, FloatBinaryOperation

_NUMPY_NAMES = {
    math.AbsFOp: "abs",
    math.CeilOp: "ceil",
    math.FloorOp: "floor",
    math.TruncOp: "trunc",
    math.RoundEvenOp: "rint",
    math.CosOp: "cos",
    math.SinOp: "sin",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
    math.ExpOp: "exp",
    math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1",
    math.LogOp: "log",
    math.Log2Op: "log2",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.SqrtOp: "sqrt",
    tt.PreciseSqrtOp: "sqrt",
    math.IsNaNOp: "isnan",
    math.IsInfOp: "isinf",
}


@lowers(*_NUMPY_NAMES, rounds=True)
def elementary(op: ElementwiseUnary, value: Emitter) -> Expression:
    return numpy.member(_NUMPY_NAMES[type(op)])(value[op.operand])


_NUMPY_NAMES_OF_TWO = {
    math.PowFOp: "power",
    math.Atan2Op: "arctan2",
    math.CopySignOp: "copysign",
}


@lowers(*_NUMPY_NAMES_OF_TWO, rounds=True)
def elementary_of_two(op: FloatBinaryOperation, value: Emitter) -> Expression:
    return numpy.member(_NUMPY_NAMES_OF_TWO[type(op)])(value[op.lhs], value[op.rhs])


@lowers(math.RsqrtOp, rounds=True)
def reciprocal_square_root(op: math.RsqrtOp, value: Emitter) -> Expression:
    return 1 / numpy.sqrt(value[op.operand])


@lowers(math.ErfOp, rounds=True)
def error_function(op: math.ErfOp, value: Emitter) -> Expression:
    return numerics.erf(value[op.operand])


@lowers(math.AbsIOp)
def absolute_integer(op: math.AbsIOp, value: Emitter) -> Expression:
    return numpy.abs(value[op.operand])


@lowers(math.FmaOp)
def fused_multiply_add(op: math.FmaOp, value: Emitter) -> Expression:
    return numerics.fma(value[op.a], value[op.b], value[op.c], value.dtype(op.result))
