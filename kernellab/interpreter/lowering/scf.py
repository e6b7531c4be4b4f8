"""The `scf` dialect: loops and branches.

Where every program goes the same way they become Python's own. Where programs part, both ways are taken, with only their own programs active, and the results are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from kernellab.interpreter.dataflow import yielded
from kernellab.interpreter.emitter import Emitter
from kernellab.interpreter.expressions import Expression, tiles, variable
from kernellab.interpreter.registry import lowers
from kernellab.interpreter.waiting import waits
from kernellab.ir import scf, tt

Results = tuple[Expression, ...]


@lowers(scf.YieldOp, scf.ConditionOp, tt.ReturnOp, tt.ReduceReturnOp, tt.ScanReturnOp, pure=False)
def end_of_block(op: scf.YieldOp, emit: Emitter) -> None:
    """Whoever owns the block reads what it hands on."""


# for


@lowers(scf.ForOp, pure=False)
def for_loop(op: scf.ForOp, emit: Emitter) -> Results:
    _refuse_in_element_wise_code("for", emit)
    if emit.varies(op.lower, op.upper, op.step):
        return _divergent_for(op, emit)
    carried = op.block.args[1:]
    _carry(op.initial, carried, emit)
    numbers = tiles.count(emit[op.lower], emit[op.upper], emit[op.step])
    with emit.loop(emit.bind(op.block.args[0]), numbers):
        emit.operations(op.block)
        _update(carried, yielded(op.block), emit)
    return _variables(carried, emit)


def _divergent_for(op: scf.ForOp, emit: Emitter) -> Results:
    """Every program counts its own turns; those that are done stay as they are."""
    carried = op.block.args[1:]
    _carry(op.initial, carried, emit)
    turns, turn, active = emit.fresh("turns"), emit.fresh("turn"), emit.fresh("active")
    bounds = emit[op.lower], emit[op.upper], emit[op.step]
    emit.assign(turns, tiles.turns(*bounds, emit.programs.count, emit.active_programs()))
    index = emit.bind(op.block.args[0])
    emit.assign(index, emit[op.lower])
    with emit.loop(turn, variable("range")(variable(turns).max())):
        emit.assign(active, tiles.some(variable(turns) > variable(turn)))
        with emit.only(active):
            emit.operations(op.block)
            _merge(carried, yielded(op.block), emit)
        emit.assign(index, variable(index) + emit[op.step])
    return _variables(carried, emit)


# if


@lowers(scf.IfOp, pure=False)
def branch(op: scf.IfOp, emit: Emitter) -> Results:
    if emit.element_wise:
        return _choice_of_elements(op, emit)
    if emit.varies(op.condition):
        return _divergent_if(op, emit)
    _bind(op.results, emit)
    with emit.when(emit[op.condition]):
        emit.operations(op.then_region.block)
        _update(op.results, yielded(op.then_region.block), emit)
    if op.else_region.blocks:
        with emit.otherwise():
            emit.operations(op.else_region.block)
            _update(op.results, yielded(op.else_region.block), emit)
    return _variables(op.results, emit)


def _divergent_if(op: scf.IfOp, emit: Emitter) -> Results:
    _declare(op.results, emit)
    _side(op.then_region.block, emit[op.condition], op.results, emit)
    if op.else_region.blocks:
        _side(op.else_region.block, ~emit[op.condition], op.results, emit)
    return _variables(op.results, emit)


def _choice_of_elements(op: scf.IfOp, emit: Emitter) -> Results:
    """Both sides for every element; a region that works element by element touches no memory."""
    regions = [op.then_region, op.else_region] if op.results else []
    for region in regions:
        emit.operations(region.block)
    sides = [yielded(region.block) for region in regions]
    return tuple(
        tiles.select(emit[op.condition], emit[chosen], emit[otherwise], 0)
        for chosen, otherwise in zip(*sides)
    )


def _side(block: Block, condition: Expression, results: Sequence[SSAValue], emit: Emitter) -> None:
    """One side of a branch, for the programs whose condition holds, if there are any."""
    taken, active = emit.fresh("taken"), emit.fresh("active")
    emit.assign(taken, tiles.narrowed(emit.active_programs(), condition, emit.programs.count))
    with emit.when(variable(taken).any()):
        emit.assign(active, tiles.some(variable(taken)))
        with emit.only(active):
            emit.operations(block)
            _merge(results, yielded(block), emit)


# while


@lowers(scf.WhileOp, pure=False)
def while_loop(op: scf.WhileOp, emit: Emitter) -> Results:
    _refuse_in_element_wise_code("while", emit)
    before, after = op.before.block, op.after.block
    condition, *passed = yielded(before)
    if emit.varies(condition):
        return _divergent_while(op, emit)
    _carry(op.initial, before.args, emit)
    _bind(after.args, emit)
    with emit.forever():
        emit.operations(before)
        _update(after.args, passed, emit)
        emit.leave_loop(~emit[condition])
        emit.operations(after)
        _update(before.args, yielded(after), emit)
        if waits(op):
            emit.end_turn()
    return _variables(after.args, emit)


def _divergent_while(op: scf.WhileOp, emit: Emitter) -> Results:
    """Goes on until no program's condition holds; a program that is done stays as it is."""
    before, after = op.before.block, op.after.block
    condition, *passed = yielded(before)
    _carry(op.initial, before.args, emit)
    _declare(after.args, emit)
    active = emit.fresh("active")
    everyone = tiles.narrowed(emit.active_programs(), True, emit.programs.count)
    emit.assign(active, everyone)
    with emit.forever(), emit.only(active):
        emit.operations(before)
        _merge(after.args, passed, emit)
        emit.assign(active, tiles.narrowed(variable(active), emit[condition], emit.programs.count))
        emit.leave_loop(~variable(active).any())
        emit.operations(after)
        _merge(before.args, yielded(after), emit)
        if waits(op):
            emit.end_turn()
    return _variables(after.args, emit)


def _refuse_in_element_wise_code(loop: str, emit: Emitter) -> None:
    if emit.element_wise:
        raise emit.unsupported(f"a {loop} loop in a function that combines elements")


# Values that live from turn to turn. A target is the value that stands for them there: a loop's argument, a branch's result.


def _bind(targets: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each target."""
    for target in targets:
        emit.bind(target)


def _declare(targets: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each target, in which no program has a value yet."""
    for target in targets:
        emit.assign(emit.bind(target), None)


def _carry(initial: Sequence[SSAValue], arguments: Sequence[SSAValue], emit: Emitter) -> None:
    """Variables for a loop's arguments, set to their initial values."""
    values = [emit.passed(value, argument) for value, argument in zip(initial, arguments)]
    for argument, value in zip(arguments, values):
        emit.assign(emit.bind(argument), value)


def _update(targets: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once: one may be computed from another."""
    if targets:
        passed = tuple(emit.passed(value, target) for value, target in zip(values, targets))
        emit.assign([emit.variable_of(target) for target in targets], passed)


def _merge(targets: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once, for the active programs only."""
    if targets:
        active = emit.active_programs()
        merged = tuple(
            tiles.merge(active, emit.passed(value, target), emit[target], emit.rank(value))
            for value, target in zip(values, targets)
        )
        emit.assign([emit.variable_of(target) for target in targets], merged)


def _variables(targets: Sequence[SSAValue], emit: Emitter) -> Results:
    return tuple(emit[target] for target in targets)
