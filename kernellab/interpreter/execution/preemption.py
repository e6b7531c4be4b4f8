"""Programs that are stopped at their switch points, where others go on: what a GPU may do with
them, and programs that run one after the other never show.

All programs are admitted at once. They take turns, each up to its next switch point: round after
round, which keeps them abreast of each other; or by chance, one of them many turns in a row now and
then, so that it gets far ahead while others are stopped. A program that waits for
another has no turn until memory changes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy

from kernellab.interpreter.execution.coroutines import RunningProgram, Step
from kernellab.interpreter.memory.watch import WatchedMemory

MOST_TURNS = 5_000
"""So many turns a run may have in which programs are preempted: what faults there are shows early,
and long waits end without it."""


@dataclass(frozen=True)
class Preemption:
    """Which program goes on at a switch point.

    Attributes:
        turns: "rounds", all of them one after the other, again and again; "there and back", the
            same, every second round backwards; or as many turns in a row, at most, as this number,
            of one that is chosen by chance.
        seed: of that chance.
    """

    turns: Literal["rounds", "there and back"] | int
    seed: int = 0


def preempted(
    programs: Sequence[RunningProgram], memory: WatchedMemory, preemption: Preemption
) -> Iterator[Step]:
    """One turn after the other, each to be carried out before the next is asked for, until all
    programs have ended or wait, or `MOST_TURNS` are over.
    """
    still = _Stillness(programs)
    match preemption.turns:
        case int(most):
            chosen = _by_chance(still, most, preemption.seed)
        case turns:
            chosen = _in_rounds(still, turns_round=turns == "there and back")
    for _, program in zip(range(MOST_TURNS), chosen):
        yield program.programs, functools.partial(program.step, memory)
        still.note(program)


class _Stillness:
    """Which programs wait: those whose spin loop turned back twice while memory stayed as it was.

    Attributes:
        programs: those that take turns.
    """

    def __init__(self, programs: Sequence[RunningProgram]) -> None:
        self.programs = programs
        self._changes = 0
        self._turned_back: dict[RunningProgram, int] = {}
        self._waiting: dict[RunningProgram, int] = {}

    def note(self, program: RunningProgram) -> None:
        """A program has had a turn."""
        self._changes += program.changed
        if program.turned_back:
            if self._turned_back.get(program) == self._changes:
                self._waiting[program] = self._changes
            self._turned_back[program] = self._changes

    def may_go_on(self, program: RunningProgram) -> bool:
        """Whether a turn of a program may come to anything."""
        return not program.ended and self._waiting.get(program) != self._changes


def _in_rounds(still: _Stillness, *, turns_round: bool) -> Iterator[RunningProgram]:
    order = still.programs
    goes_on = True
    while goes_on:
        goes_on = False
        for program in order:
            if still.may_go_on(program):
                goes_on = True
                yield program
        order = order[::-1] if turns_round else order


def _by_chance(still: _Stillness, most: int, seed: int) -> Iterator[RunningProgram]:
    """Numbers of turns in a row are powers of two, so that small ones are as frequent as large."""
    chance = numpy.random.default_rng(seed)
    while ready := [program for program in still.programs if still.may_go_on(program)]:
        program = ready[chance.integers(len(ready))]
        for _ in range(1 << chance.integers(most.bit_length())):
            if not still.may_go_on(program):
                break
            yield program
