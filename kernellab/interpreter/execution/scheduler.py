"""Turns for programs that wait for each other.

Each program is a coroutine. Its turn goes on until it ends, or until a spin loop turns back.
Programs are admitted in the launch's order: the first one alone, and when those that are admitted
all wait, as many more as there are waiting. From then on all take their turns round after round, in
the order of their admission. So a program that finds every lock free runs from start to end before
the next one begins, and few programs are alive at a time, however large the grid.

A program waits when its turn changed nothing in memory and did not end it. A round in which all
wait is silent. In silence no one learns anything new: a program whose variables come back to what
they were goes round in a circle, and if all do, that is a deadlock. Variables that only count along
do not matter (`idle_variables.py`). A program whose count decides when it gives up does not come
round; it is given `SILENT_ROUNDS`. One whose accesses leave their tensors, where a checker lets the
run go on, is given `STRAY_ROUNDS`: no value that it reads there can end its loop.

Code that preempts may stop a program elsewhere too. Its programs are all admitted at once, and take
their turns as `preemption.py` has it; those that then wait, or are left, go on as described above.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from kernellab.interpreter.execution.coroutines import Coroutine, RunningProgram, Step, Waiting
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.preemption import Preemption, preempted
from kernellab.interpreter.memory.watch import WatchedMemory

SILENT_ROUNDS = 100_000
"""So many silent rounds may pass, with no program left to admit,
before programs that count their tries are stopped."""

STRAY_ROUNDS = 2_000
"""The same, where every program goes in a circle or makes accesses that leave their tensors."""

PATIENCE = 1_000
"""After so many rounds in which no program ended, more are admitted though memory changes:
programs may count there as they wait."""


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
    preemption: Preemption | None = None,
) -> Iterator[Step]:
    """One turn after the other, each to be carried out before the next is asked for.

    Args:
        batches: one program each.
        start: the kernel's code, which makes a coroutine of a program.
        memory: what that code reads and writes through.
        idle: variables of that code that decide nothing while a program waits.
        preemption: how programs are preempted, if they are.

    The last step raises NobodyMoves where programs wait for ever.
    """
    live: list[RunningProgram] = []
    if preemption is not None:
        live = [RunningProgram(batch, start(batch)) for batch in batches]
        yield from preempted(live, memory, preemption)
        live = [program for program in live if not program.ended]
    admitted, silent_rounds, stray_rounds, rounds_without_end = 1, 0, 0, 0
    while True:
        newcomers = [
            RunningProgram(batch, start(batch)) for batch in itertools.islice(batches, admitted)
        ]
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
            stray_rounds += all(
                is_circling or program.strayed for is_circling, program in zip(circling, live)
            )
            stopped = silent_rounds >= SILENT_ROUNDS or stray_rounds >= STRAY_ROUNDS
            if (proven := all(circling)) or stopped:
                yield _stop(live, silent_rounds, proven)
        else:
            stray_rounds = 0
        enough = live and not silent and rounds_without_end < PATIENCE
        admitted = 0 if enough else max(1, len(live))
        rounds_without_end = rounds_without_end if enough else 0


def _stop(live: Sequence[RunningProgram], silent_rounds: int, proven: bool) -> Step:
    stuck = DeadlockDetected(tuple(program.waiting() for program in live), silent_rounds, proven)
    return live[0].programs, functools.partial(live[0].coroutine.throw, stuck)
