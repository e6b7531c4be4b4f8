"""MLIR's own dialects, arithmetic and control flow; and calls of functions."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.codegen.expressions import (
    Combined,
    Expression,
    numerics,
    numpy,
    tiles,
    variable,
)
from kernellab.ir import mlir, tt
from kernellab.ir.flow import yielded
from kernellab.ir.operations import BinaryOperation, ElementwiseUnary
from kernellab.ir.types import dtype, is_pointer, shape

# The `arith` dialect, and `ub`.

# Constants


@lowers(mlir.ConstantOp)
def constant(op: mlir.ConstantOp, value: Emitter) -> Expression:
    literal = _literal(op.value, dtype(op.result.type), len(shape(op.result.type)))
    return value.constant(literal, hint=f"c{literal}" if np.ndim(literal) == 0 else "constant")


def _literal(attribute: Attribute, kind: np.dtype, rank: int) -> Any:
    """A scalar of `kind`, or a tile: with one element if they are all equal."""
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


@lowers(mlir.PoisonOp)
def poison(op: mlir.PoisonOp, value: Emitter) -> Expression:
    """Any value will do: zero is one."""
    kind = dtype(op.result.type)
    ones = (1,) * len(shape(op.result.type))
    return value.constant(np.zeros(ones, kind) if ones else kind.type(0), hint="poison")


# Integers. On i1, which is bool here, addition is exclusive or.


@lowers(mlir.AddIOp)
def add_integers(op: mlir.AddIOp, value: Emitter) -> Expression:
    combine: Combined = operator.xor if _is_boolean(op.result) else operator.add
    return combine(value[op.lhs], value[op.rhs])


@lowers(mlir.SubIOp)
def subtract_integers(op: mlir.SubIOp, value: Emitter) -> Expression:
    combine: Combined = operator.xor if _is_boolean(op.result) else operator.sub
    return combine(value[op.lhs], value[op.rhs])


def _fresh(function: Any) -> Any:
    """The function in new nodes: a node has the place of one statement."""
    is_syntax = isinstance(function, Expression)
    return Expression(copy.deepcopy(function.node)) if is_syntax else function


def _by(table: Mapping[type[Operation], Callable[..., Any]], rounds: bool = False) -> None:
    """Register functions that give an operation's result for its operands."""

    @lowers(*table, rounds=rounds)
    def of_operands(op: Operation, value: Emitter) -> Expression:
        operands = (value[operand] for operand in op.operands)
        result: Expression = _fresh(table[type(op)])(*operands)
        return result


_by({
    mlir.MulIOp: operator.mul, mlir.DivSIOp: numerics.divide_toward_zero,
    mlir.CeilDivSIOp: lambda lhs, rhs: -(-lhs // rhs), mlir.FloorDivSIOp: operator.floordiv,
    mlir.RemSIOp: numerics.remainder, mlir.AndIOp: operator.and_, mlir.OrIOp: operator.or_,
    mlir.XOrIOp: operator.xor, mlir.ShLIOp: operator.lshift, mlir.ShRSIOp: operator.rshift,
    mlir.MaxSIOp: numpy.maximum, mlir.MinSIOp: numpy.minimum, mlir.AbsIOp: numpy.abs,
})  # fmt: skip

_OF_UNSIGNED: dict[type[Operation], Combined] = {
    mlir.DivUIOp: numerics.divide_toward_zero, mlir.RemUIOp: numerics.remainder,
    mlir.ShRUIOp: operator.rshift, mlir.MaxUIOp: numpy.maximum, mlir.MinUIOp: numpy.minimum,
}  # fmt: skip


@lowers(*_OF_UNSIGNED)
def of_two_unsigned(op: BinaryOperation, value: Emitter) -> Expression:
    operands = numerics.unsigned(value[op.lhs]), numerics.unsigned(value[op.rhs])
    return numerics.signed(_fresh(_OF_UNSIGNED[type(op)])(*operands), value.dtype(op.result))


@lowers(mlir.CmpIOp)
def compare_integers(op: mlir.CmpIOp, value: Emitter) -> Expression:
    predicate = mlir.INTEGER_PREDICATES[op.predicate.value.data]
    lhs, rhs = value[op.lhs], value[op.rhs]
    if predicate[0] == "u":
        lhs, rhs = numerics.unsigned(lhs), numerics.unsigned(rhs)
    elif predicate[0] == "s" and _is_boolean(op.lhs):
        lhs, rhs = rhs, lhs  # true is -1
    return _RELATIONS[predicate[-2:]](lhs, rhs)


_RELATIONS: dict[str, Combined] = {
    **mlir.RELATIONS,
    "eq": Expression.equals,
    "ne": Expression.differs,
}


# Floating point


_by({
    mlir.AddFOp: operator.add, mlir.SubFOp: operator.sub, mlir.MulFOp: operator.mul,
    mlir.DivFOp: operator.truediv, tt.PreciseDivFOp: operator.truediv,
    tt.ApproxDivFOp: operator.truediv, mlir.RemFOp: numpy.fmod, mlir.NegFOp: operator.neg,
    mlir.MaximumFOp: lambda lhs, rhs: numerics.extreme(numpy.maximum, lhs, rhs),
    mlir.MinimumFOp: lambda lhs, rhs: numerics.extreme(numpy.minimum, lhs, rhs),
    mlir.MaxNumFOp: lambda lhs, rhs: numerics.extreme(numpy.fmax, lhs, rhs),
    mlir.MinNumFOp: lambda lhs, rhs: numerics.extreme(numpy.fmin, lhs, rhs),
}, rounds=True)  # fmt: skip


@lowers(mlir.CmpFOp, rounds=True)
def compare_floats(op: mlir.CmpFOp, value: Emitter) -> Expression:
    """Ordered predicates are false where an operand is NaN, unordered ones true."""
    predicate = mlir.FLOAT_PREDICATES[op.predicate.value.data]
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


@lowers(mlir.SelectOp)
def select(op: mlir.SelectOp, value: Emitter) -> Expression:
    rank = 0 if value.rank(op.condition) else value.rank(op.result)
    chosen, otherwise = (value.passed(v, op.result) for v in (op.true_value, op.false_value))
    return tiles.select(value[op.condition], chosen, otherwise, rank)


@lowers(mlir.ExtSIOp, mlir.SIToFPOp)
def from_signed(op: ElementwiseUnary, value: Emitter) -> Expression:
    number = value[op.operand].astype(value.dtype(op.result))
    return -number if _is_boolean(op.operand) else number


@lowers(mlir.TruncIOp)
def truncate_integer(op: mlir.TruncIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return numerics.reinterpret(value[op.operand], value.dtype(op.result))
    return value[op.operand].astype(value.dtype(op.result))


@lowers(mlir.FPToSIOp)
def float_to_signed(op: mlir.FPToSIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return value[op.operand].differs(0)
    return numerics.to_integer(value[op.operand], value.dtype(op.result))


@lowers(mlir.FPToUIOp)
def float_to_unsigned(op: mlir.FPToUIOp, value: Emitter) -> Expression:
    if _is_boolean(op.result):
        return value[op.operand].differs(0)
    return numerics.to_unsigned_integer(value[op.operand], value.dtype(op.result))


_CONVERSIONS: dict[type[Operation], Callable[[Any, Any], Any]] = {
    mlir.ExtUIOp: lambda number, kind: numerics.unsigned(number).astype(kind),
    mlir.UIToFPOp: lambda number, kind: numerics.unsigned(number).astype(kind),
    mlir.ExtFOp: numerics.convert, mlir.TruncFOp: numerics.convert,
    mlir.BitcastOp: numerics.reinterpret,
    mlir.IndexCastOp: lambda number, kind: number.astype(kind),
}  # fmt: skip


@lowers(*_CONVERSIONS)
def converted(op: ElementwiseUnary, value: Emitter) -> Expression:
    result: Expression = _fresh(_CONVERSIONS[type(op)])(value[op.operand], value.dtype(op.result))
    return result


def _is_boolean(value: Any) -> bool:
    return not is_pointer(value.type) and dtype(value.type).kind == "b"


# The `math` dialect: elementary functions, computed in float32 or float64 and rounded once.


_by({
    mlir.AbsFOp: numpy.abs, mlir.CeilOp: numpy.ceil, mlir.FloorOp: numpy.floor,
    mlir.TruncOp: numpy.trunc, mlir.RoundEvenOp: numpy.rint, mlir.CosOp: numpy.cos,
    mlir.SinOp: numpy.sin, mlir.TanOp: numpy.tan, mlir.TanhOp: numpy.tanh, mlir.ExpOp: numpy.exp,
    mlir.Exp2Op: numpy.exp2, mlir.ExpM1Op: numpy.expm1, mlir.LogOp: numpy.log,
    mlir.Log2Op: numpy.log2, mlir.Log10Op: numpy.log10, mlir.Log1pOp: numpy.log1p,
    mlir.SqrtOp: numpy.sqrt, tt.PreciseSqrtOp: numpy.sqrt, mlir.IsNaNOp: numpy.isnan,
    mlir.IsInfOp: numpy.isinf, mlir.PowFOp: numpy.power, mlir.Atan2Op: numpy.arctan2,
    mlir.CopySignOp: numpy.copysign, mlir.ErfOp: numerics.erf,
    mlir.RsqrtOp: lambda x: 1 / numpy.sqrt(x),
}, rounds=True)  # fmt: skip


@lowers(mlir.FmaOp)
def fused_multiply_add(op: mlir.FmaOp, value: Emitter) -> Expression:
    return numerics.fma(value[op.a], value[op.b], value[op.c], value.dtype(op.result))


# The `scf` dialect: loops and branches.
#
# Where every program goes the same way they become Python's own. Where programs part, both ways
# are taken, with only their own programs active, and the results are merged.


@contextmanager
def where(condition: SSAValue | None, emit: Emitter) -> Iterator[None]:
    """Inside, only programs for which the scalar condition holds take part;
    None, or true, is for all.

    Nothing is done if there are none.
    """
    if condition is None or _is_true(condition):
        yield
    elif not emit.varies(condition):
        with emit.when(emit[condition]):
            yield
    else:
        with taken_by_some(emit[condition], emit):
            yield


@contextmanager
def taken_by_some(condition: Expression, emit: Emitter) -> Iterator[None]:
    """Inside, only programs for which the condition holds take part; nothing is done if there
    are none.
    """
    taken, active = emit.fresh("taken"), emit.fresh("active")
    emit.assign(taken, tiles.narrowed(emit.active_programs(), condition, emit.programs.count))
    with emit.when(variable(taken).any()):
        emit.assign(active, tiles.some(variable(taken)))
        with emit.only(active):
            yield


def _is_true(condition: SSAValue) -> bool:
    match condition:
        case OpResult(op=mlir.ConstantOp(value=builtin.IntegerAttr() as number)):
            return bool(number.value.data)
        case _:
            return False


# Variables that outlive an iteration or a branch. A carried value stands for one: a loop's
# argument, a branch's result.


Results = tuple[Expression, ...]


def bind(carried: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each carried value."""
    for value in carried:
        emit.bind(value)


def declare(carried: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each carried value, in which no program has a value yet."""
    for value in carried:
        emit.assign(emit.bind(value), None)


def carry(initial: Sequence[SSAValue], arguments: Sequence[SSAValue], emit: Emitter) -> None:
    """Variables for a loop's arguments, set to their initial values."""
    values = [emit.passed(value, argument) for value, argument in zip(initial, arguments)]
    for argument, value in zip(arguments, values):
        emit.assign(emit.bind(argument), value)


def update(carried: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once: one may be computed from another."""
    if carried:
        passed = tuple(emit.passed(value, variable) for value, variable in zip(values, carried))
        with emit.without_line():
            emit.assign([emit.variable_of(variable) for variable in carried], passed)


def merge(carried: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once, for the active programs only."""
    if carried:
        active = emit.active_programs()
        merged = tuple(
            tiles.merge(active, emit.passed(value, variable), emit[variable], emit.rank(value))
            for value, variable in zip(values, carried)
        )
        emit.assign([emit.variable_of(variable) for variable in carried], merged)


def variables(carried: Sequence[SSAValue], emit: Emitter) -> Results:
    """The variables of carried values."""
    return tuple(emit[variable] for variable in carried)


@lowers(
    mlir.YieldOp,
    mlir.ConditionOp,
    tt.ReduceReturnOp,
    tt.ScanReturnOp,
    tt.MapElementwiseReturnOp,
    pure=False,
)
def end_of_block(op: mlir.YieldOp, emit: Emitter) -> None:
    """Whoever owns the block reads what it hands on."""


# for


@lowers(mlir.ForOp, pure=False)
def for_loop(op: mlir.ForOp, emit: Emitter) -> Results:
    if emit.varies(op.lower, op.upper, op.step):
        return _divergent_for(op, emit)
    carried = op.block.args[1:]
    carry(op.initial, carried, emit)
    numbers = tiles.count(emit[op.lower], emit[op.upper], emit[op.step])
    with emit.loop(emit.bind(op.block.args[0]), numbers):
        emit.operations(op.block)
        update(carried, yielded(op.block), emit)
    return variables(carried, emit)


def _divergent_for(op: mlir.ForOp, emit: Emitter) -> Results:
    """Every program counts its own iterations; those that are done are not changed."""
    carried = op.block.args[1:]
    carry(op.initial, carried, emit)
    trip_counts, iteration, active = emit.fresh("turns"), emit.fresh("turn"), emit.fresh("active")
    bounds = emit[op.lower], emit[op.upper], emit[op.step]
    emit.assign(
        trip_counts, tiles.trip_counts(*bounds, emit.programs.count, emit.active_programs())
    )
    index = emit.bind(op.block.args[0])
    emit.assign(index, emit[op.lower])
    with emit.loop(iteration, variable("range")(variable(trip_counts).max())):
        emit.assign(active, tiles.some(variable(trip_counts) > variable(iteration)))
        with emit.only(active):
            emit.operations(op.block)
            merge(carried, yielded(op.block), emit)
        emit.assign(index, variable(index) + emit[op.step])
    return variables(carried, emit)


# if


@lowers(mlir.IfOp, pure=False)
def branch(op: mlir.IfOp, emit: Emitter) -> Results:
    if emit.varies(op.condition):
        return _divergent_if(op, emit)
    bind(op.results, emit)
    with emit.when(emit[op.condition]):
        emit.operations(op.then_region.block)
        update(op.results, yielded(op.then_region.block), emit)
    if op.else_region.blocks:
        with emit.otherwise():
            emit.operations(op.else_region.block)
            update(op.results, yielded(op.else_region.block), emit)
    return variables(op.results, emit)


def _divergent_if(op: mlir.IfOp, emit: Emitter) -> Results:
    declare(op.results, emit)
    _side(op.then_region.block, emit[op.condition], op.results, emit)
    if op.else_region.blocks:
        _side(op.else_region.block, ~emit[op.condition], op.results, emit)
    return variables(op.results, emit)


def _side(block: Block, condition: Expression, results: Sequence[SSAValue], emit: Emitter) -> None:
    with taken_by_some(condition, emit):
        emit.operations(block)
        merge(results, yielded(block), emit)


# while


@lowers(mlir.WhileOp, pure=False)
def while_loop(op: mlir.WhileOp, emit: Emitter) -> Results:
    before, after = op.before.block, op.after.block
    condition, *passed = yielded(before)
    if emit.varies(condition):
        return _divergent_while(op, emit)
    carry(op.initial, before.args, emit)
    bind(after.args, emit)
    with emit.forever():
        emit.operations(before)
        update(after.args, passed, emit)
        emit.leave_loop(~emit[condition])
        emit.operations(after)
        update(before.args, yielded(after), emit)
        if emit.ends_turn(op):
            emit.end_turn()
    return variables(after.args, emit)


def _divergent_while(op: mlir.WhileOp, emit: Emitter) -> Results:
    """Continues until no program's condition holds; a program that is done is not changed."""
    before, after = op.before.block, op.after.block
    condition, *passed = yielded(before)
    carry(op.initial, before.args, emit)
    declare(after.args, emit)
    active = emit.fresh("active")
    everyone = tiles.narrowed(emit.active_programs(), True, emit.programs.count)
    emit.assign(active, everyone)
    with emit.forever(), emit.only(active):
        emit.operations(before)
        merge(after.args, passed, emit)
        emit.assign(active, tiles.narrowed(variable(active), emit[condition], emit.programs.count))
        emit.leave_loop(~variable(active).any())
        emit.operations(after)
        merge(before.args, yielded(after), emit)
        if emit.ends_turn(op):
            emit.end_turn()
    return variables(after.args, emit)


# The `cf` dialect: jumps, which Triton's front end makes of a return in the middle of a kernel.
#
# They only lead forward (a loop is scf's), so every block runs once, with the programs that were
# sent to it.


@lowers(mlir.BranchOp, pure=False)
def jump(op: mlir.BranchOp, emit: Emitter) -> None:
    emit.send(op.successor, op.arguments)


@lowers(mlir.ConditionalBranchOp, pure=False)
def conditional_jump(op: mlir.ConditionalBranchOp, emit: Emitter) -> None:
    condition = emit.evaluate("condition", emit[op.condition])
    emit.send(op.true_successor, op.true_arguments, condition)
    emit.send(op.false_successor, op.false_arguments, ~condition)


# Calls: the called function's body runs in place of the call.


@lowers(tt.InlinedCallOp, pure=False)
def call(op: tt.InlinedCallOp, emit: Emitter) -> Results:
    first = op.body.blocks[0]
    for argument, value in zip(first.args, op.arguments):
        emit.define(argument, emit.passed(value, argument))
    declare(op.results, emit)
    emit.blocks(op.body)
    return variables(op.results, emit)


@lowers(tt.CallOp, pure=False)
def call_of_function(op: tt.CallOp, emit: Emitter) -> Results:
    return emit.call(op)


@lowers(tt.ReturnOp, pure=False)
def end_of_function(op: tt.ReturnOp, emit: Emitter) -> None:
    """A call's results, in the programs that return here; a kernel has none."""
    parent = op.parent_op()
    if isinstance(parent, tt.InlinedCallOp):
        merge(parent.results, op.values, emit)
    else:
        emit.leave(op.values)
