"""The `arith` dialect, and `ub`."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Expression,
    numerics,
    numpy,
    tiles,
)
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.ir import arith, tt, ub
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
    if _is_boolean(op.result):
        return value[op.lhs] ^ value[op.rhs]
    return value[op.lhs] + value[op.rhs]


@lowers(arith.SubIOp)
def subtract_integers(op: arith.SubIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return value[op.lhs] ^ value[op.rhs]
    return value[op.lhs] - value[op.rhs]


@lowers(arith.MulIOp)
def multiply_integers(op: arith.MulIOp, value: Emitter) -> Expression:
    return value[op.lhs] * value[op.rhs]


@lowers(arith.DivSIOp)
def divide_signed(op: arith.DivSIOp, value: Emitter) -> Expression:
    return numerics.divide_toward_zero(value[op.lhs], value[op.rhs])


@lowers(arith.CeilDivSIOp)
def divide_rounding_up(op: arith.CeilDivSIOp, value: Emitter) -> Expression:
    return -(-value[op.lhs] // value[op.rhs])


@lowers(arith.FloorDivSIOp)
def divide_rounding_down(op: arith.FloorDivSIOp, value: Emitter) -> Expression:
    return value[op.lhs] // value[op.rhs]


@lowers(arith.RemSIOp)
def remainder_signed(op: arith.RemSIOp, value: Emitter) -> Expression:
    return numerics.remainder(value[op.lhs], value[op.rhs])


@lowers(arith.DivUIOp)
def divide_unsigned(op: arith.DivUIOp, value: Emitter) -> Expression:
    operands = numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs])
    return numerics.signed(numerics.divide_toward_zero(*operands), value.dtype(op.result))


@lowers(arith.RemUIOp)
def remainder_unsigned(op: arith.RemUIOp, value: Emitter) -> Expression:
    operands = numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs])
    return numerics.signed(numerics.remainder(*operands), value.dtype(op.result))


@lowers(arith.AndIOp)
def bitwise_and(op: arith.AndIOp, value: Emitter) -> Expression:
    return value[op.lhs] & value[op.rhs]


@lowers(arith.OrIOp)
def bitwise_or(op: arith.OrIOp, value: Emitter) -> Expression:
    return value[op.lhs] | value[op.rhs]


@lowers(arith.XOrIOp)
def bitwise_xor(op: arith.XOrIOp, value: Emitter) -> Expression:
    return value[op.lhs] ^ value[op.rhs]


@lowers(arith.ShLIOp)
def shift_left(op: arith.ShLIOp, value: Emitter) -> Expression:
    return value[op.lhs] << value[op.rhs]


@lowers(arith.ShRSIOp)
def shift_right_signed(op: arith.ShRSIOp, value: Emitter) -> Expression:
    return value[op.lhs] >> value[op.rhs]


@lowers(arith.ShRUIOp)
def shift_right_unsigned(op: arith.ShRUIOp, value: Emitter) -> Expression:
    shifted = numerics.unsigned(value[op.lhs]) >> numerics.unsigned(value[op.rhs])
    return numerics.signed(shifted, value.dtype(op.result))


@lowers(arith.MaxSIOp)
def maximum_signed(op: arith.MaxSIOp, value: Emitter) -> Expression:
    return numpy.maximum(value[op.lhs], value[op.rhs])


@lowers(arith.MinSIOp)
def minimum_signed(op: arith.MinSIOp, value: Emitter) -> Expression:
    return numpy.minimum(value[op.lhs], value[op.rhs])


@lowers(arith.MaxUIOp)
def maximum_unsigned(op: arith.MaxUIOp, value: Emitter) -> Expression:
    larger = numpy.maximum(numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs]))
    return numerics.signed(larger, value.dtype(op.result))


@lowers(arith.MinUIOp)
def minimum_unsigned(op: arith.MinUIOp, value: Emitter) -> Expression:
    smaller = numpy.minimum(numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs]))
    return numerics.signed(smaller, value.dtype(op.result))


@lowers(arith.CmpIOp)
def compare_integers(op: arith.CmpIOp, value: Emitter) -> Expression:
    predicate = arith.INTEGER_PREDICATES[op.predicate.value.data]
    lhs, rhs = value[op.lhs], value[op.rhs]
    if predicate[0] == "u":
        lhs, rhs = numerics.unsigned(lhs), numerics.unsigned(rhs)
    elif predicate[0] == "s" and _is_boolean(op.lhs):
        lhs, rhs = rhs, lhs  # true is -1
    return _compared(predicate if predicate in ("eq", "ne") else predicate[1:], lhs, rhs)


def _compared(relation: str, lhs: Expression, rhs: Expression) -> Expression:
    match relation:
        case "eq":
            return lhs.equals(rhs)
        case "ne":
            return lhs.differs(rhs)
        case "lt":
            return lhs < rhs
        case "le":
            return lhs <= rhs
        case "gt":
            return lhs > rhs
        case _:
            return lhs >= rhs


# Floating point


@lowers(arith.AddFOp, rounds=True)
def add(op: arith.AddFOp, value: Emitter) -> Expression:
    return value[op.lhs] + value[op.rhs]


@lowers(arith.SubFOp, rounds=True)
def subtract(op: arith.SubFOp, value: Emitter) -> Expression:
    return value[op.lhs] - value[op.rhs]


@lowers(arith.MulFOp, rounds=True)
def multiply(op: arith.MulFOp, value: Emitter) -> Expression:
    return value[op.lhs] * value[op.rhs]


@lowers(arith.DivFOp, tt.PreciseDivFOp, tt.ApproxDivFOp, rounds=True)
def divide(op: arith.DivFOp, value: Emitter) -> Expression:
    return value[op.lhs] / value[op.rhs]


@lowers(arith.RemFOp, rounds=True)
def remainder(op: arith.RemFOp, value: Emitter) -> Expression:
    return numpy.fmod(value[op.lhs], value[op.rhs])


@lowers(arith.NegFOp, rounds=True)
def negate(op: arith.NegFOp, value: Emitter) -> Expression:
    return -value[op.operand]


@lowers(arith.MaximumFOp, rounds=True)
def maximum(op: arith.MaximumFOp, value: Emitter) -> Expression:
    return numerics.extreme(numpy.maximum, value[op.lhs], value[op.rhs])


@lowers(arith.MinimumFOp, rounds=True)
def minimum(op: arith.MinimumFOp, value: Emitter) -> Expression:
    return numerics.extreme(numpy.minimum, value[op.lhs], value[op.rhs])


@lowers(arith.MaxNumFOp, rounds=True)
def maximum_ignoring_nan(op: arith.MaxNumFOp, value: Emitter) -> Expression:
    return numerics.extreme(numpy.fmax, value[op.lhs], value[op.rhs])


@lowers(arith.MinNumFOp, rounds=True)
def minimum_ignoring_nan(op: arith.MinNumFOp, value: Emitter) -> Expression:
    return numerics.extreme(numpy.fmin, value[op.lhs], value[op.rhs])


@lowers(arith.CmpFOp, rounds=True)
def compare_floats(op: arith.CmpFOp, value: Emitter) -> Expression:
    """Ordered predicates are false where an operand is NaN, unordered ones true."""
    predicate = arith.FLOAT_PREDICATES[op.predicate.value.data]
    lhs, rhs = value[op.lhs], value[op.rhs]
    match predicate:
        case "oeq" | "olt" | "ole" | "ogt" | "oge":
            return _compared(predicate[1:], lhs, rhs)
        case "une":
            return lhs.differs(rhs)
        case "one":
            return (lhs < rhs) | (lhs > rhs)
        case "ueq":
            return ~((lhs < rhs) | (lhs > rhs))
        case "ult" | "ule" | "ugt" | "uge":
            opposite = {"ult": "ge", "ule": "gt", "ugt": "le", "uge": "lt"}[predicate]
            return ~_compared(opposite, lhs, rhs)
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


@lowers(arith.ExtSIOp)
def extend_signed(op: arith.ExtSIOp, value: Emitter) -> Expression:
    extended = value[op.operand].astype(value.dtype(op.result))
    return -extended if _is_boolean(op.operand) else extended


@lowers(arith.ExtUIOp)
def extend_unsigned(op: arith.ExtUIOp, value: Emitter) -> Expression:
    return numerics.unsigned(value[op.operand]).astype(value.dtype(op.result))


@lowers(arith.TruncIOp)
def truncate_integer(op: arith.TruncIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return numerics.reinterpret(value[op.operand], value.dtype(op.result))
    return value[op.operand].astype(value.dtype(op.result))


@lowers(arith.SIToFPOp)
def signed_to_float(op: arith.SIToFPOp, value: Emitter) -> Expression:
    number = value[op.operand].astype(value.dtype(op.result))
    return -number if _is_boolean(op.operand) else number


@lowers(arith.UIToFPOp)
def unsigned_to_float(op: arith.UIToFPOp, value: Emitter) -> Expression:
    return numerics.unsigned(value[op.operand]).astype(value.dtype(op.result))


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
