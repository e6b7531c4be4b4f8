"""What each operation of a launch on the interpreter takes: time, executions, bytes, floating-point
operations.
"""

from __future__ import annotations

import math
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.compiler.analyses.work import count
from kernellab.compiler.modules.pointers import pointers_of
from kernellab.compiler.modules.structure import kind, position_of
from kernellab.errors import SourcePosition
from kernellab.interpreter.codegen.code_writer import located_at
from kernellab.interpreter.codegen.emitter import emit_passing_events
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.launcher import Instrument
from kernellab.interpreter.memory.buffers import Addressed, Buffer
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir.types import bit_width, element_type, shape


@dataclass
class OperationTally:
    """What one operation took in a launch, of all programs."""

    nanoseconds: int = 0
    executions: int = 0
    """By programs."""
    bytes: int = 0
    """Of global memory, by lanes that are on."""
    is_of_launch: bool = False
    """Whether it runs once for all programs, since none changes it."""


class OperationObserver(AccessObserver):
    """Hears when operations are done, and of every access before it is made. What it takes itself
    is in no operation's time.

    Attributes:
        tallies: what each operation took.
        nanoseconds: of all batches together.
    """

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.tallies: dict[Operation, OperationTally] = {}
        self.nanoseconds = 0
        self._programs: Programs | None = None
        self._since = time.perf_counter_ns()

    @property
    def operations(self) -> Sequence[Operation]:
        """Of the code, which is there, and runs from now on."""
        return self._operations

    @operations.setter
    def operations(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._since = time.perf_counter_ns()

    @property
    def programs(self) -> Programs:
        """The batch that runs."""
        assert self._programs is not None, "a batch runs"
        return self._programs

    @programs.setter
    def programs(self, programs: Programs) -> None:
        self._programs = programs
        self._since = time.perf_counter_ns()

    def passed(self, operation: Operation, active: Active) -> None:
        """Hear that an operation is done, by the programs of the batch that are active; before the
        first batch, by all of the launch at once.
        """
        took = time.perf_counter_ns() - self._since
        tally = self.tallies.get(operation)
        if tally is None:
            tally = self.tallies[operation] = OperationTally()
        tally.nanoseconds += took
        self.nanoseconds += took
        if self._programs is None:
            tally.is_of_launch = True
        else:
            tally.executions += self._taking_part(active)
        self._since = time.perf_counter_ns()

    def access(
        self,
        frame: types.FrameType,
        buffer: Buffer | Addressed,
        offsets: Value,
        mask: Value | None,
        active: Active,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Count the bytes of an access."""
        del offsets
        self._count(frame, buffer.itemsize, shape, mask, active)

    def notify(
        self,
        frame: types.FrameType,
        addresses: Value,
        size: int,
        shape: tuple[int, ...] | None,
        mask: Value | None = None,
        active: Active = None,
    ) -> None:
        """As `access`."""
        del addresses
        self._count(frame, size, shape, mask, active)

    def _count(
        self,
        frame: types.FrameType,
        size: int,
        block: tuple[int, ...] | None,
        mask: Value | None,
        active: Active,
    ) -> None:
        began = time.perf_counter_ns()
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        if operation is not None:
            elements = math.prod(shape(pointers_of(operation).type) if block is None else block)
            lanes = self._lanes(elements, mask, active)
            self.tallies.setdefault(operation, OperationTally()).bytes += size * lanes
        self._since += time.perf_counter_ns() - began

    def _lanes(self, elements: int, mask: Any, active: Active) -> int:
        """How many lanes of all programs are on."""
        programs = self._taking_part(active)
        if mask is None:
            return elements * programs
        on = numpy.asarray(mask)
        if active is not None and on.ndim and len(on) == len(active) > 1:
            on = on[active]
        return int(numpy.count_nonzero(on)) * (elements * programs) // on.size if on.size else 0

    def _taking_part(self, active: Active) -> int:
        return self.programs.count if active is None else int(numpy.count_nonzero(active))

    def instrument(self) -> Instrument:
        """What a launch is run with."""
        return Instrument(emit_passing_events, self)


@dataclass(frozen=True)
class MeasuredOperation:
    """What one operation of a kernel took, in all launches that were profiled."""

    operation: str
    position: SourcePosition | None
    nanoseconds: int
    executions: int
    metrics: Mapping[str, int]
    """ "bytes", and "flops16" by the bits of its operands, unless they are 0."""


def measured(observer: OperationObserver, programs: int) -> list[MeasuredOperation]:
    """What each operation of a launch took, in the order of their ends.

    Args:
        programs: of the launch: all of them execute what no program changes, which runs once.
    """
    measured = []
    for op, tally in observer.tallies.items():
        executions = programs if tally.is_of_launch else tally.executions
        counted = count(op)
        flops = counted[1] * executions if counted and counted[0] in _FLOATING else 0
        amounts = {"bytes": tally.bytes, f"flops{_width(op)}" if flops else "": flops}
        metrics = {name: number for name, number in amounts.items() if number}
        measured.append(
            MeasuredOperation(kind(op), position_of(op), tally.nanoseconds, executions, metrics)
        )
    return measured


_FLOATING = ("matrix", "arithmetic")


def _width(op: Operation) -> int:
    """Bits of what an operation computes with: 8, 16, 32 or 64."""
    of = op.operands[0] if op.operands else op.results[0]
    bits = bit_width(element_type(of.type))
    return next((width for width in (8, 16, 32) if bits <= width), 64)
