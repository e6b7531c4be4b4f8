"""Variables that outlive an iteration or a branch. A carried value stands for one:
a loop's argument, a branch's result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, tiles

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
