"""One checked run: what is known of it, and what detectors hear of it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.errors import SourcePosition
from kernellab.interpreter import memory
from kernellab.interpreter.evidence import calls_at, values_behind
from kernellab.interpreter.grid import Grid, Programs
from kernellab.interpreter.memory import Buffer
from kernellab.interpreter.memory_layers import Atomic, CompareAndSwap, Load, MemoryAccess, Store
from kernellab.interpreter.program import ProgramCode
from kernellab.interpreter.tiles import Active, Value
from kernellab.specialize import BoundCall


@dataclass(frozen=True)
class Scene:
    """The launch that is checked.

    Attributes:
        kernel: the JIT function.
        call: its arguments, the tensors being the copies that it runs on.
        code: its generated code.
        grid: how many programs along x, y, z.
        outputs: the arguments that it must write as a whole.
    """

    kernel: Any
    call: BoundCall
    code: ProgramCode
    grid: Grid
    outputs: tuple[str, ...] = ()

    @property
    def programs(self) -> int:
        """How many programs the grid has."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def program_id(self, linear: int) -> tuple[int, int, int]:
        """The id of a program along x, y, z."""
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)


@dataclass(eq=False)
class Heard:
    """Something that a batch of programs does.

    Attributes:
        scene: the launch.
        operation: what does it.
        programs: the batch; None for what is computed once, before any program runs.
        active: which programs take part; None for all.
        frame, instruction: where the generated code stands.
    """

    scene: Scene
    operation: Operation
    programs: Programs | None
    active: Active
    frame: types.FrameType
    instruction: int

    def calls(self) -> tuple[SourcePosition, ...]:
        """The kernel's line, then that of each helper function that was inlined there."""
        code = self.scene.code
        return tuple(calls_at(self.frame.f_code, self.instruction, code.locations))

    def values(self, place: tuple[int, ...], program: int) -> dict[str, Any]:
        """What the index of the access was made of, at a lane of the program at a position in the batch."""
        scene = self.scene
        return values_behind(self.frame, self.instruction, place, program, scene.code, scene.call)

    def linear_ids(self, among: numpy.ndarray | None = None) -> numpy.ndarray:
        """Linear ids of the programs that take part, or of those `among` the batch's."""
        if self.programs is None:
            return numpy.arange(0)
        chosen = self.active if among is None else among
        return self.programs.linear if chosen is None else self.programs.linear[chosen]


@dataclass(eq=False)
class Access(Heard):
    """An access to memory, its lanes outside every storage switched off already.

    Attributes:
        request: what is asked of memory.
        buffer: the storage that it goes to.
    """

    request: MemoryAccess
    buffer: Buffer

    @property
    def action(self) -> str:
        """ "load", "store" or "atomic"."""
        return _ACTIONS[type(self.request)]

    @property
    def rank(self) -> int:
        """Dimensions of its tile."""
        return self.request.rank

    @property
    def is_shared(self) -> bool:
        """True where all programs of the batch make one and the same access."""
        request = self.request
        return isinstance(request, Load) and not memory.differs(
            request.rank, request.offsets, request.mask, request.other
        )

    @cached_property
    def index(self) -> numpy.ndarray:
        """Of each lane, in `buffer.elements`; programs first where they differ."""
        index: numpy.ndarray = numpy.asarray(self.request.offsets) + self.buffer.origin
        return index

    @cached_property
    def on(self) -> numpy.ndarray | None:
        """Which lanes take part, programs first where they differ; None where all do."""
        active = None if self.is_shared else self.active
        return memory.lanes_on(self.request.mask, active, self.rank)


_ACTIONS = {Load: "load", Store: "store", Atomic: "atomic", CompareAndSwap: "atomic"}


@dataclass(eq=False)
class Computed(Heard):
    """Values that an operation computed.

    Attributes:
        operands, results: its values, as the generated code has them; pointers are offsets.
    """

    operands: Sequence[Value]
    results: Sequence[Value]
