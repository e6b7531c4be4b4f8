"""Turns for programs that wait for each other.

Each program is a coroutine. Its turn goes on until it ends, or until a spin loop turns back.
Programs are admitted in the launch's order: the first one alone, and when those that are admitted
all wait, as many more as there are waiting. From then on all take their turns round after round, in
the order of their admission. So a program that finds every lock free runs from start to end before
the next one begins, and few programs are alive at a time, however large the grid.

A program waits when its turn changed nothing in memory and did not end it. A round in which all
wait is silent. In silence nobody learns anything new: a program whose variables come back to what
they were goes round in a circle, and if all do, that is a deadlock. Variables that only count along
do not matter (`idle_variables.py`). A program whose count decides when it gives up does not come
round; it is given `SILENT_ROUNDS`. One whose accesses leave their tensors, where a checker lets the
run go on, is given `STRAY_ROUNDS`: no value that it reads there can end its loop.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.watch import Reading, WatchedMemory

Coroutine: TypeAlias = "types.GeneratorType[None, None, None]"

Step = tuple[Programs, Callable[[], object]]
"""A batch of programs, and what to call to run it, or to run it on."""

SILENT_ROUNDS = 100_000
"""So many silent rounds may pass, with no program left to admit,
before programs that count their tries are stopped."""

STRAY_ROUNDS = 2_000
"""The same, where every program goes in a circle or makes accesses that leave their tensors."""

PATIENCE = 1_000
"""After so many rounds in which no program ended, more are admitted though memory changes:
programs may count there as they wait."""


@dataclass(frozen=True)
class Waiting:
    """A program that waits.

    Attributes:
        programs: the batch of this one program.
        code, instruction: where in the generated code it waits.
        reading: what it read last.
    """

    programs: Programs
    code: types.CodeType
    instruction: int
    reading: Reading | None


@dataclass
class DeadlockDetected(Exception):
    """A deadlock; raised where the first of the programs waits.

    Attributes:
        waiting: every program that has not ended, in the order of their turns.
        silent_rounds: how many silent rounds have passed.
        proven: True where all went round in circles, False where the programs were stopped for
            their number of rounds.
    """

    waiting: tuple[Waiting, ...]
    silent_rounds: int
    proven: bool


def take_turns(
    batches: Iterator[Programs],
    start: Callable[[Programs], Coroutine],
    memory: WatchedMemory,
    idle: Collection[str] = (),
) -> Iterator[Step]:
    """One turn after the other, each to be carried out before the next is asked for.

    Args:
        batches: one program each.
        start: the kernel's code, which makes a coroutine of a program.
        memory: what that code reads and writes through.
        idle: variables of that code that decide nothing while a program waits.

    The last step raises NobodyMoves where programs wait for ever.
    """
    live: list[_Program] = []
    admitted, silent_rounds, stray_rounds, rounds_without_end = 1, 0, 0, 0
    while True:
        newcomers = [_Program(one, start(one)) for one in itertools.islice(batches, admitted)]
        live += newcomers
        if not live:
            return
        for program in live:
            yield program.programs, functools.partial(program.turn, memory)
        silent = not any(program.changed or program.ended for program in live)
        left = [program for program in live if not program.ended]
        rounds_without_end = rounds_without_end + 1 if len(left) == len(live) else 0
        live = left
        silent_rounds = silent_rounds + 1 if silent and not newcomers else 0
        if silent_rounds:
            circling = [program.comes_round(silent_rounds, idle) for program in live]
            stray_rounds += all(one or program.strayed for one, program in zip(circling, live))
            stopped = silent_rounds >= SILENT_ROUNDS or stray_rounds >= STRAY_ROUNDS
            if (proven := all(circling)) or stopped:
                yield _stop(live, silent_rounds, proven)
        else:
            stray_rounds = 0
        enough = live and not silent and rounds_without_end < PATIENCE
        admitted = 0 if enough else max(1, len(live))
        rounds_without_end = rounds_without_end if enough else 0


def _stop(live: Sequence[_Program], silent_rounds: int, proven: bool) -> Step:
    stuck = DeadlockDetected(tuple(one.waiting() for one in live), silent_rounds, proven)
    return live[0].programs, functools.partial(live[0].coroutine.throw, stuck)


class _Program:
    """A program that has been admitted.

    Attributes:
        changed: whether its latest turn changed memory.
        strayed: whether its latest turn made an access that left its tensor.
        ended: whether it has run to its end.
    """

    def __init__(self, programs: Programs, coroutine: Coroutine) -> None:
        self.programs = programs
        self.coroutine = coroutine
        self.changed = self.strayed = self.ended = False
        self._reading: Reading | None = None
        self._variables: dict[str, Any] = {}

    def turn(self, memory: WatchedMemory) -> None:
        """Run it until it ends, or until a spin loop turns back."""
        memory.changed = memory.strayed = False
        self.ended = next(self.coroutine, _END) is _END
        self.changed, self.strayed = memory.changed, memory.strayed
        self._reading = memory.reading

    def comes_round(self, silent_rounds: int, idle: Collection[str]) -> bool:
        """True where its variables, but for the idle ones, are what they were at an earlier end
        of a turn in this silence.

        To be asked after every silent round, from the first on. It compares with rounds 1, 2, 4, 8,
        ..., so that a circle of any length is found (R. P. Brent, An improved Monte Carlo
        factorization algorithm, BIT 20, 1980).
        """
        frame = self._frame()
        variables = {name: value for name, value in frame.f_locals.items() if name not in idle}
        variables["the instruction"] = frame.f_lasti
        same = silent_rounds > 1 and _are_same(variables, self._variables)
        if silent_rounds & (silent_rounds - 1) == 0:
            self._variables = variables
        return same

    def waiting(self) -> Waiting:
        """Where it waits, and for what."""
        frame = self._frame()
        return Waiting(self.programs, frame.f_code, frame.f_lasti, self._reading)

    def _frame(self) -> types.FrameType:
        frame = self.coroutine.gi_frame
        assert frame is not None, "only a program that has not ended has a frame"
        return frame


_END: Any = object()


def _are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        _is_same(value, other[name]) for name, value in one.items()
    )


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of one variable are the same, bit for bit."""
    if one is other:
        return True
    if isinstance(one, types.FunctionType) and isinstance(other, types.FunctionType):
        return one.__code__ is other.__code__
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    first, second = numpy.asarray(one), numpy.asarray(other)
    return (
        first.dtype == second.dtype
        and first.dtype.kind != "O"
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
