"""What the lowerings of several dialects share."""

from __future__ import annotations

from collections.abc import Iterator
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
    variable,
)
from kernellab.ir import arith

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
    with emit.when(variable(taken).any()):
        emit.assign(active, tiles.some(variable(taken)))
        with emit.only(active):
            yield


def _is_true(condition: SSAValue) -> bool:
    match condition:
        case OpResult(op=arith.ConstantOp(value=builtin.IntegerAttr() as number)):
            return bool(number.value.data)
        case _:
            return False
