"""A program as a coroutine: it runs until it ends or stops, and runs on later."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.watch import Reading, WatchedMemory

Coroutine: TypeAlias = "types.GeneratorType[bool | None, None, None]"
"""Gives None where a spin loop turns back, True at a switch point (`Emitter.may_switch`)."""

Step = tuple[Programs, Callable[[], object]]
"""A batch of programs, and what to call to run it, or to run it on."""


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


class RunningProgram:
    """A program that has been admitted.

    Attributes:
        changed: whether its latest turn changed memory.
        strayed: whether its latest turn made an access that left its tensor.
        turned_back: whether its latest turn ended where a spin loop turns back.
        ended: whether it has run to its end.
    """

    def __init__(self, programs: Programs, coroutine: Coroutine) -> None:
        self.programs = programs
        self.coroutine = coroutine
        self.changed = self.strayed = self.turned_back = self.ended = False
        self._reading: Reading | None = None
        self._variables: dict[str, Any] = {}

    def turn(self, memory: WatchedMemory) -> None:
        """Run it until it ends, or until a spin loop turns back."""
        self._go_on(memory, stops_at_switch_points=False)

    def step(self, memory: WatchedMemory) -> None:
        """The same, but only up to the next switch point."""
        self._go_on(memory, stops_at_switch_points=True)

    def _go_on(self, memory: WatchedMemory, *, stops_at_switch_points: bool) -> None:
        memory.changed = memory.strayed = False
        stop = next(self.coroutine, _END)
        while stop is True and not stops_at_switch_points:
            stop = next(self.coroutine, _END)
        self.ended, self.turned_back = stop is _END, stop is None
        self.changed, self.strayed = memory.changed, memory.strayed
        self._reading = memory.reading

    def comes_round(self, silent_rounds: int, idle: Collection[str]) -> bool:
        """True where its variables, but for the idle ones, are what they were at an earlier end
        of a turn in this silence.

        Call it after every silent round, from the first on. It compares with rounds 1, 2, 4, 8,
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


def _are_same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        _is_same(value, second[name]) for name, value in first.items()
    )


def _is_same(left: Any, right: Any) -> bool:
    """Whether two values of one variable are the same, bit for bit."""
    if left is right:
        return True
    if isinstance(left, types.FunctionType) and isinstance(right, types.FunctionType):
        return left.__code__ is right.__code__
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    first, second = numpy.asarray(left), numpy.asarray(right)
    return (
        first.dtype == second.dtype
        and first.dtype.kind != "O"
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
