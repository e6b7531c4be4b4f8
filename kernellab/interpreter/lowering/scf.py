"""The `scf` dialect: loops and branches.

Where every program goes the same way they become Python's own. Where programs part,
both ways are taken, with only their own programs active, and the results are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, tiles, variable
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.lowering.carried_variables import (
    Results,
    bind,
    carry,
    declare,
    merge,
    update,
    variables,
)
from kernellab.interpreter.lowering.common import taken_by_some
from kernellab.ir import scf, tt


@lowers(
    scf.YieldOp,
    scf.ConditionOp,
    tt.ReduceReturnOp,
    tt.ScanReturnOp,
    tt.MapElementwiseReturnOp,
    pure=False,
)
def end_of_block(op: scf.YieldOp, emit: Emitter) -> None:
    """Whoever owns the block reads what it hands on."""


# for


@lowers(scf.ForOp, pure=False)
def for_loop(op: scf.ForOp, emit: Emitter) -> Results:
    if emit.varies(op.lower, op.upper, op.step):
        return _divergent_for(op, emit)
    carried = op.block.args[1:]
    carry(op.initial, carried, emit)
    numbers = tiles.count(emit[op.lower], emit[op.upper], emit[op.step])
    with emit.loop(emit.bind(op.block.args[0]), numbers):
        emit.operations(op.block)
        update(carried, yielded(op.block), emit)
    return variables(carried, emit)


def _divergent_for(op: scf.ForOp, emit: Emitter) -> Results:
    """Every program counts its own iterations; those that are done stay as they are."""
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


@lowers(scf.IfOp, pure=False)
def branch(op: scf.IfOp, emit: Emitter) -> Results:
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


def _divergent_if(op: scf.IfOp, emit: Emitter) -> Results:
    declare(op.results, emit)
    _side(op.then_region.block, emit[op.condition], op.results, emit)
    if op.else_region.blocks:
        _side(op.else_region.block, ~emit[op.condition], op.results, emit)
    return variables(op.results, emit)


def _side(block: Block, condition: Expression, results: Sequence[SSAValue], emit: Emitter) -> None:
    """One side of a branch, for the programs whose condition holds, if there are any."""
    with taken_by_some(condition, emit):
        emit.operations(block)
        merge(results, yielded(block), emit)


# while


@lowers(scf.WhileOp, pure=False)
def while_loop(op: scf.WhileOp, emit: Emitter) -> Results:
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


def _divergent_while(op: scf.WhileOp, emit: Emitter) -> Results:
    """Goes on until no program's condition holds; a program that is done stays as it is."""
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
