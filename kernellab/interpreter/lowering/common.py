"""What the lowerings of several dialects share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects import builtin
from xdsl.ir import OpResult, SSAValue

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Expression,
    given,
    literal,
    shared_memory,
    tiles,
)
from kernellab.interpreter.codegen.expressions import variable as variable_of_name
from kernellab.ir import mlir

TOKEN = literal(0)
"""An asynchronous token: there is nothing under way that it could stand for."""


def allocated(result: SSAValue, source: SSAValue | None, emit: Emitter) -> Expression:
    """Memory for the tile `result`, filled with `source` where there is one."""
    shape = emit.shape(result)
    if source is None:
        return shared_memory.allocate(emit.programs.count, shape, emit.dtype(result))
    return shared_memory.allocate_with(emit.programs.count, shape, emit[source])


def store_shared(memory: SSAValue, tile: Expression, emit: Emitter) -> None:
    """Write a tile to memory on the chip, for the active programs."""
    active = given(active=emit.active_programs())
    emit.evaluate(None, shared_memory.store(emit[memory], tile, **active))


@contextmanager
def where(condition: SSAValue | None, emit: Emitter) -> Iterator[None]:
    """Inside, only programs for which the scalar condition holds take part;
    None, or true, is for all.

    Nothing is done where there are none.
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
    """Inside, only programs for which the condition holds take part; nothing is done where there
    are none.
    """
    taken, active = emit.fresh("taken"), emit.fresh("active")
    emit.assign(taken, tiles.narrowed(emit.active_programs(), condition, emit.programs.count))
    with emit.when(variable_of_name(taken).any()):
        emit.assign(active, tiles.some(variable_of_name(taken)))
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
    for variable in carried:
        emit.bind(variable)


def declare(carried: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each carried value, in which no program has a value yet."""
    for variable in carried:
        emit.assign(emit.bind(variable), None)


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
