"""The `arith` dialect, and `ub`."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Combined,
    Expression,
    numerics,
    numpy,
    tiles,
)
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.ir import arith, tt, ub
from kernellab.ir.operation import BinaryOperation, ElementwiseUnary
from kernellab.ir.types import dtype, is_pointer, shape

# Constants


@lowers(arith.ConstantOp)
def constant(op: arith.ConstantOp, value: Emitter) -> Expression:
    literal = _literal(op.value, dtype(op.result.type), len(shape(op.result.type)))
    return value.constant(literal, hint=f"c{literal}" if np.ndim(literal) == 0 else "constant")


def _literal(attribute: Attribute, kind: np.dtype, rank: int) -> Any:
    """A scalar of `kind`, or a tile: with one element where they are all alike."""
    match attribute:
        case builtin.IntegerAttr() | builtin.FloatAttr():
            return _scalar(attribute.value.data, kind)
        case builtin.DenseIntOrFPElementsAttr():
            values = np.frombuffer(attribute.data.data, "i1" if kind.kind == "b" else kind)
            values = values.astype(kind)
            if not (values == values[0]).all() and not np.isnan(values).all():
                return values.reshape(attribute.get_shape())
            if kind.kind == "i":
                return AffineTile(int(values[0]), (0,) * rank, (1,) * rank, kind)
            return values[:1].reshape((1,) * rank)
        case _:
            raise NotImplementedError(f"a constant written as {attribute}")


def _scalar(number: Any, kind: np.dtype) -> Any:
    if kind.kind in "ib":
        bits = int(number) & ((1 << (8 * kind.itemsize)) - 1)
        return np.bool_(bits & 1) if kind.kind == "b" else np.uint64(bits).astype(kind)
    return np.asarray(number, np.float64).astype(kind)[()]


@lowers(ub.PoisonOp)
def poison(op: ub.PoisonOp, value: Emitter) -> Expression:
    """Any value will do: zero is one."""
    kind = dtype(op.result.type)
    ones = (1,) * len(shape(op.result.type))
    return value.constant(np.zeros(ones, kind) if ones else kind.type(0), hint="poison")


# Integers. On i1, which is bool here, addition is exclusive or.


@lowers(arith.AddIOp)
def add_integers(op: arith.AddIOp, value: Emitter) -> Expression:
    combine: Combined = operator.xor if _is_boolean(op.result) else operator.add
    return combine(value[op.lhs], value[op.rhs])


@lowers(arith.SubIOp)
def subtract_integers(op: arith.SubIOp, value: Emitter) -> Expression:
    combine: Combined = operator.xor if _is_boolean(op.result) else operator.sub
    return combine(value[op.lhs], value[op.rhs])


_OF_TWO: dict[type[Operation], Combined] = {
    arith.MulIOp: operator.mul,
    arith.DivSIOp: numerics.divide_toward_zero,
    arith.CeilDivSIOp: lambda lhs, rhs: -(-lhs // rhs),
    arith.FloorDivSIOp: operator.floordiv,
    arith.RemSIOp: numerics.remainder,
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
    arith.ShLIOp: operator.lshift,
    arith.ShRSIOp: operator.rshift,
    arith.MaxSIOp: numpy.maximum,
    arith.MinSIOp: numpy.minimum,
}

_OF_UNSIGNED: dict[type[Operation], Combined] = {
    arith.DivUIOp: numerics.divide_toward_zero,
    arith.RemUIOp: numerics.remainder,
    arith.ShRUIOp: operator.rshift,
    arith.MaxUIOp: numpy.maximum,
    arith.MinUIOp: numpy.minimum,
}


@lowers(*_OF_TWO)
def of_two_integers(op: BinaryOperation, value: Emitter) -> Expression:
    return _OF_TWO[type(op)](value[op.lhs], value[op.rhs])


@lowers(*_OF_UNSIGNED)
def of_two_unsigned(op: BinaryOperation, value: Emitter) -> Expression:
    operands = numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs])
    return numerics.signed(_OF_UNSIGNED[type(op)](*operands), value.dtype(op.result))


@lowers(arith.CmpIOp)
def compare_integers(op: arith.CmpIOp, value: Emitter) -> Expression:
    predicate = arith.INTEGER_PREDICATES[op.predicate.value.data]
    lhs, rhs = value[op.lhs], value[op.rhs]
    if predicate[0] == "u":
        lhs, rhs = numerics.unsigned(lhs), numerics.unsigned(rhs)
    elif predicate[0] == "s" and _is_boolean(op.lhs):
        lhs, rhs = rhs, lhs  # true is -1
    return _RELATIONS[predicate[-2:]](lhs, rhs)


_RELATIONS: dict[str, Combined] = {
    "eq": Expression.equals,
    "ne": Expression.differs,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


# Floating point


_OF_FLOATS: dict[type[Operation], Combined] = {
    arith.AddFOp: operator.add,
    arith.SubFOp: operator.sub,
    arith.MulFOp: operator.mul,
    arith.DivFOp: operator.truediv,
    tt.PreciseDivFOp: operator.truediv,
    tt.ApproxDivFOp: operator.truediv,
    arith.RemFOp: numpy.fmod,
    arith.MaximumFOp: partial(numerics.extreme, numpy.maximum),
    arith.MinimumFOp: partial(numerics.extreme, numpy.minimum),
    arith.MaxNumFOp: partial(numerics.extreme, numpy.fmax),
    arith.MinNumFOp: partial(numerics.extreme, numpy.fmin),
}


@lowers(*_OF_FLOATS, rounds=True)
def of_two_floats(op: BinaryOperation, value: Emitter) -> Expression:
    return _OF_FLOATS[type(op)](value[op.lhs], value[op.rhs])


@lowers(arith.NegFOp, rounds=True)
def negate(op: arith.NegFOp, value: Emitter) -> Expression:
    return -value[op.operand]


@lowers(arith.CmpFOp, rounds=True)
def compare_floats(op: arith.CmpFOp, value: Emitter) -> Expression:
    """Ordered predicates are false where an operand is NaN, unordered ones true."""
    predicate = arith.FLOAT_PREDICATES[op.predicate.value.data]
    lhs, rhs = value[op.lhs], value[op.rhs]
    match predicate:
        case "oeq" | "olt" | "ole" | "ogt" | "oge" | "une":
            return _RELATIONS[predicate[1:]](lhs, rhs)
        case "one":
            return (lhs < rhs) | (lhs > rhs)
        case "ueq":
            return ~((lhs < rhs) | (lhs > rhs))
        case "ult" | "ule" | "ugt" | "uge":
            opposite = {"ult": "ge", "ule": "gt", "ugt": "le", "uge": "lt"}[predicate]
            return ~_RELATIONS[opposite](lhs, rhs)
        case "ord":
            return ~(numpy.isnan(lhs) | numpy.isnan(rhs))
        case "uno":
            return numpy.isnan(lhs) | numpy.isnan(rhs)
        case _:
            return value.constant(np.bool_(predicate == "true"))


# Choosing and converting


@lowers(arith.SelectOp)
def select(op: arith.SelectOp, value: Emitter) -> Expression:
    rank = 0 if value.rank(op.condition) else value.rank(op.result)
    chosen, otherwise = (value.passed(v, op.result) for v in (op.true_value, op.false_value))
    return tiles.select(value[op.condition], chosen, otherwise, rank)


@lowers(arith.ExtSIOp, arith.SIToFPOp)
def from_signed(op: ElementwiseUnary, value: Emitter) -> Expression:
    number = value[op.operand].astype(value.dtype(op.result))
    return -number if _is_boolean(op.operand) else number


@lowers(arith.ExtUIOp, arith.UIToFPOp)
def from_unsigned(op: ElementwiseUnary, value: Emitter) -> Expression:
    return numerics.unsigned(value[op.operand]).astype(value.dtype(op.result))


@lowers(arith.TruncIOp)
def truncate_integer(op: arith.TruncIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return numerics.reinterpret(value[op.operand], value.dtype(op.result))
    return value[op.operand].astype(value.dtype(op.result))


@lowers(arith.FPToSIOp)
def float_to_signed(op: arith.FPToSIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return value[op.operand].differs(0)
    return numerics.to_integer(value[op.operand], value.dtype(op.result))


@lowers(arith.FPToUIOp)
def float_to_unsigned(op: arith.FPToUIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return value[op.operand].differs(0)
    return numerics.to_unsigned_integer(value[op.operand], value.dtype(op.result))


@lowers(arith.ExtFOp, arith.TruncFOp)
def convert_float(op: arith.ExtFOp, value: Emitter) -> Expression:
    return numerics.convert(value[op.operand], value.dtype(op.result))


@lowers(arith.BitcastOp)
def bitcast(op: arith.BitcastOp, value: Emitter) -> Expression:
    return numerics.reinterpret(value[op.operand], value.dtype(op.result))


@lowers(arith.IndexCastOp)
def index_cast(op: arith.IndexCastOp, value: Emitter) -> Expression:
    return value[op.operand].astype(value.dtype(op.result))


def _is_boolean(value: Any) -> bool:
    return not is_pointer(value.type) and dtype(value.type).kind == "b"
