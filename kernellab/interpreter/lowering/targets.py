"""Variables that outlive an iteration or a branch. A target is the value that stands for one:
a loop's argument, a branch's result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, tiles

Results = tuple[Expression, ...]


def bind(targets: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each target."""
    for target in targets:
        emit.bind(target)


def declare(targets: Sequence[SSAValue], emit: Emitter) -> None:
    """A variable for each target, in which no program has a value yet."""
    for target in targets:
        emit.assign(emit.bind(target), None)


def carry(initial: Sequence[SSAValue], arguments: Sequence[SSAValue], emit: Emitter) -> None:
    """Variables for a loop's arguments, set to their initial values."""
    values = [emit.passed(value, argument) for value, argument in zip(initial, arguments)]
    for argument, value in zip(arguments, values):
        emit.assign(emit.bind(argument), value)


def update(targets: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once: one may be computed from another."""
    if targets:
        passed = tuple(emit.passed(value, target) for value, target in zip(values, targets))
        with emit.without_line():
            emit.assign([emit.variable_of(target) for target in targets], passed)


def merge(targets: Sequence[SSAValue], values: Sequence[SSAValue], emit: Emitter) -> None:
    """Set all variables at once, for the active programs only."""
    if targets:
        active = emit.active_programs()
        merged = tuple(
            tiles.merge(active, emit.passed(value, target), emit[target], emit.rank(value))
            for value, target in zip(values, targets)
        )
        emit.assign([emit.variable_of(target) for target in targets], merged)


def variables(targets: Sequence[SSAValue], emit: Emitter) -> Results:
    """The targets' variables."""
    return tuple(emit[target] for target in targets)
