"""From events of a running program to steps: what the stepping code calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.memory import Buffer
from kernellab.tracing.sources import Loop, loops_of, source_of_function
from kernellab.tracing.steps import (
    Access,
    AccessKind,
    AffineLanes,
    Frame,
    Program,
    SourceText,
    Step,
    Turn,
)
from kernellab.tracing.values import ValueStore

MOST_STEPS = 200_000
"""A trace ends after so many steps; the run goes on."""


@dataclass
class _OpenStep:
    """A line that has begun and not ended."""

    line: int
    turns: tuple[Turn, ...]
    operation: str = ""
    changed: dict[str, Any] = field(default_factory=dict)
    accesses: list[_SeenAccess] = field(default_factory=list)


@dataclass
class _SeenAccess:
    kind: AccessKind
    buffer: Buffer | None
    argument: str
    itemsize: int
    offsets: Any
    mask: Any


class _OpenFrame:
    """A call that has not returned."""

    def __init__(self, frame: Frame, loops: list[Loop]) -> None:
        self.frame = frame
        self.step: _OpenStep | None = None
        self._loops = loops
        self._inside: list[tuple[Loop, int]] = []

    def turns_at(self, line: int) -> tuple[Turn, ...]:
        """Which iteration of each loop around it a line begins; a loop's header begins the next one."""
        if not self._loops:
            return ()
        numbers = {loop.line: number for loop, number in self._inside}
        self._inside = []
        for loop in self._loops:
            if loop.holds(line):
                number = numbers.get(loop.line)
                if number is None:
                    number = 0
                elif line == loop.line:
                    number += 1
                self._inside.append((loop, number))
        return tuple(Turn(loop.line, loop.header, number) for loop, number in self._inside)


class Recorder:
    """Hears what a program does, in order, and keeps it as steps.

    A step is closed, and gets its number, when its line is done: the lines of a helper come before the line that called it.

    Attributes:
        steps, frames: what was recorded.
        sources: the functions that ran.
        left_out: how many steps came after the trace was full.
    """

    def __init__(self, values: ValueStore, most_steps: int = MOST_STEPS) -> None:
        self.values = values
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.left_out = 0
        self._most = most_steps
        self._program: Program = (0, 0, 0)
        self._open: list[_OpenFrame] = []
        self._of_programs: dict[Program, list[_OpenFrame]] = {}
        self._known: dict[tuple[str, int], tuple[SourceText | None, list[Loop]]] = {}

    @property
    def sources(self) -> list[SourceText]:
        """The functions that ran."""
        return [source for source, _ in self._known.values() if source is not None]

    def turn_of(self, program: Program) -> None:
        """From here on that program runs, for the first time or again: programs that wait for each other take turns."""
        self._program = program
        self._open = self._of_programs.setdefault(program, [])

    def end(self) -> None:
        """All programs have ended, or stopped: what is open is closed."""
        for program in list(self._of_programs):
            self.turn_of(program)
            while self._open:
                self.leave()

    def enter(self, function: str, file: str, line: int, given: Mapping[str, Any]) -> None:
        """A function begins.

        Args:
            function, file, line: its name, and where its `def` stands.
            given: what has a value already: its parameters, and constants.
        """
        caller = self._open[-1] if self._open else None
        call_line = caller.step.line if caller is not None and caller.step is not None else 0
        frame = Frame(
            len(self.frames),
            function,
            file,
            self._program,
            None if caller is None else caller.frame,
            call_line,
            {name: self.values.add(value) for name, value in given.items()},
        )
        self.frames.append(frame)
        opened = _OpenFrame(frame, self._loops(function, file, line))
        self._open.append(opened)

    def leave(self) -> None:
        """The innermost function returns."""
        self._close(self._open[-1])
        self._open.pop()
        if not self._open:
            del self._of_programs[self._program]
            self._open = []

    def line(self, line: int, operation: str = "") -> None:
        """A line of the innermost function begins, or an operation of it; whatever came before is done."""
        frame = self._open[-1]
        self._close(frame)
        last = frame.step
        turns = frame.turns_at(line) if last is None or last.line != line or not operation else last.turns  # fmt: skip
        frame.step = _OpenStep(line, turns, operation)

    def bound(self, names: Mapping[str, Any]) -> None:
        """Variables of the innermost function were given these values."""
        step = self._open[-1].step
        if step is not None:
            step.changed.update(names)

    def access(
        self, kind: AccessKind, buffer: Buffer | None, argument: str, itemsize: int, offsets: Any, mask: Any
    ) -> None:  # fmt: skip
        """The line that runs is about to access memory.

        Args:
            kind: what it does.
            buffer: the argument's; None where the memory belongs to none.
            argument: its name, "" for none.
            itemsize: bytes of an element.
            offsets: elements from the tensor's first to each that is accessed, without a program axis; addresses in bytes where there is no argument.
            mask: which lanes take part; None for all.
        """
        for frame in reversed(self._open):
            if frame.step is not None:  # the innermost function may not have reached a line yet
                seen = _SeenAccess(kind, buffer, argument, itemsize, offsets, mask)
                frame.step.accesses.append(seen)
                return

    @property
    def is_full(self) -> bool:
        """Whether further steps are only counted."""
        return len(self.steps) >= self._most

    def _close(self, opened: _OpenFrame) -> None:
        step = opened.step
        if step is None:
            return
        opened.step = None
        if self.is_full:
            self.left_out += 1
            return
        add = self.values.add
        self.steps.append(
            Step(
                len(self.steps),
                opened.frame,
                step.line,
                step.turns,
                {name: add(value) for name, value in step.changed.items()},
                tuple([self._kept(seen) for seen in step.accesses]),
                self.values,
                step.operation,
            )
        )

    def _kept(self, seen: _SeenAccess) -> Access:
        lanes: AffineLanes | int
        offsets, mask = seen.offsets, _partial(seen.mask)
        if isinstance(offsets, AffineTile) and isinstance(offsets.base, int):
            lanes = AffineLanes(offsets.base, offsets.strides, offsets.extents)
        else:
            lanes = self.values.add(numpy.asarray(offsets, numpy.int64))
        written = None
        if seen.kind != "load" and seen.buffer is not None:
            indices = lanes.indices() if isinstance(lanes, AffineLanes) else numpy.asarray(offsets)
            written = self.values.add(_held(seen.buffer, indices, mask))
        mask_number = None if mask is None else self.values.add(mask)
        return Access(
            seen.kind, seen.argument, seen.itemsize, lanes, mask_number, written, self.values
        )

    def _loops(self, function: str, file: str, line: int) -> list[Loop]:
        key = file, line
        if key not in self._known:
            source = source_of_function(file, function, line)
            self._known[key] = source, [] if source is None else loops_of(source)
        return self._known[key][1]


def _partial(mask: Any) -> numpy.ndarray | None:
    """The mask as an array; None where every lane is on."""
    array = None if mask is None else numpy.asarray(mask)
    return None if array is None or array.all() else array


def _held(buffer: Buffer, indices: numpy.ndarray, mask: numpy.ndarray | None) -> numpy.ndarray:
    """What memory holds now, lane by lane; a lane that is off reads whatever is nearest."""
    if mask is not None:
        indices = numpy.broadcast_to(indices, numpy.broadcast_shapes(indices.shape, mask.shape))
    held: numpy.ndarray = buffer.elements.take(indices + buffer.origin, mode="clip")
    return held
