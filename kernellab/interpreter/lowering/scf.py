"""The `scf` dialect: loops and branches.

Where every program goes the same way they become Python's own. Where programs part, both ways are taken, with only their own programs active, and the results are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from kernellab.interpreter.emitter import Emitter, yielded
from kernellab.interpreter.expressions import Expression, tiles, variable
from kernellab.interpreter.registry import lowers
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
    carried = _carry(op.initial, op.block.args[1:], emit)
    numbers = tiles.count(emit[op.lower], emit[op.upper], emit[op.step])
    with emit.loop(emit.bind(op.block.args[0]), numbers):
        emit.operations(op.block)
        _update(carried, yielded(op.block), emit)
    return _variables(carried)


def _divergent_for(op: scf.ForOp, emit: Emitter) -> Results:
    """Every program counts its own turns; those that are done stay as they are."""
    carried = _carry(op.initial, op.block.args[1:], emit)
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
    return _variables(carried)


# if


@lowers(scf.IfOp, pure=False)
def branch(op: scf.IfOp, emit: Emitter) -> Results:
    if emit.element_wise:
        return _choice_of_elements(op, emit)
    results = [emit.bind(result) for result in op.results]
    if emit.varies(op.condition):
        _divergent_if(op, results, emit)
        return _variables(results)
    with emit.when(emit[op.condition]):
        emit.operations(op.then_region.block)
        _update(results, yielded(op.then_region.block), emit)
    if op.else_region.blocks:
        with emit.otherwise():
            emit.operations(op.else_region.block)
            _update(results, yielded(op.else_region.block), emit)
    return _variables(results)


def _divergent_if(op: scf.IfOp, results: list[str], emit: Emitter) -> None:
    for result in results:
        emit.assign(result, None)
    _side(op.then_region.block, emit[op.condition], results, emit)
    if op.else_region.blocks:
        _side(op.else_region.block, ~emit[op.condition], results, emit)


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


def _side(block: Block, condition: Expression, results: list[str], emit: Emitter) -> None:
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
    carried = _carry(op.initial, before.args, emit)
    handed_on = [emit.bind(argument) for argument in after.args]
    with emit.forever():
        emit.operations(before)
        _update(handed_on, passed, emit)
        emit.leave_loop(~emit[condition])
        emit.operations(after)
        _update(carried, yielded(after), emit)
    return _variables(handed_on)


def _divergent_while(op: scf.WhileOp, emit: Emitter) -> Results:
    """Goes on until no program's condition holds; a program that is done stays as it is."""
    before, after = op.before.block, op.after.block
    condition, *passed = yielded(before)
    carried = _carry(op.initial, before.args, emit)
    handed_on = [emit.bind(argument) for argument in after.args]
    for name in handed_on:
        emit.assign(name, None)
    active = emit.fresh("active")
    everyone = tiles.narrowed(emit.active_programs(), True, emit.programs.count)
    emit.assign(active, everyone)
    with emit.forever(), emit.only(active):
        emit.operations(before)
        _merge(handed_on, passed, emit)
        emit.assign(active, tiles.narrowed(variable(active), emit[condition], emit.programs.count))
        emit.leave_loop(~variable(active).any())
        emit.operations(after)
        _merge(carried, yielded(after), emit)
    return _variables(handed_on)


def _refuse_in_element_wise_code(loop: str, emit: Emitter) -> None:
    if emit.element_wise:
        raise emit.unsupported(f"a {loop} loop in a function that combines elements")


# Values that live from turn to turn


def _carry(initial: Sequence[SSAValue], arguments: Sequence[SSAValue], emit: Emitter) -> list[str]:
    """Variables for a loop's arguments, set to their initial values."""
    values = [emit[value] for value in initial]
    names = [emit.bind(argument) for argument in arguments]
    for name, value in zip(names, values):
        emit.assign(name, value)
    return names


def _update(names: Sequence[str], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once: one may be computed from another."""
    if names:
        emit.assign(list(names), tuple(emit[value] for value in values))


def _merge(names: Sequence[str], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once, for the active programs only."""
    if names:
        merged = (
            tiles.merge(emit.active_programs(), emit[value], variable(name), emit.rank(value))
            for name, value in zip(names, values)
        )
        emit.assign(list(names), tuple(merged))


def _variables(names: Sequence[str]) -> Results:
    return tuple(variable(name) for name in names)
