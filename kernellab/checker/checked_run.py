"""One checked run: what is known of it, and the events that detectors observe."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.lazy_copies import LazyCopies
from kernellab.checker.outcomes import Results
from kernellab.compiler.modules.structure import users_line
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import SourcePosition
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.execution.provenance import calls_at, index_provenance
from kernellab.interpreter.memory import boxes, global_memory
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import (
    Atomic,
    CompareAndSwap,
    Load,
    MemoryAccess,
    Store,
)
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.tiles import Active, Value
from kernellab.launch.argument_copies import tensors_in
from kernellab.records import Target


@dataclass(frozen=True)
class CheckedRun:
    """The launch that is checked.

    Attributes:
        kernel: the JIT function.
        call: its arguments, the tensors being the copies that it runs on.
        code: its generated code.
        grid: how many programs along x, y, z.
        target: the GPU that is emulated.
        outputs: the arguments that it must write as a whole.
        uninitialized: the arguments whose memory nobody has written.
        most_turns: so many turns a loop may take.
        restrided: the arguments that may be read anywhere in their storage.
        copies: the memory that the tensors of `call` lie in.
        expected: right results, by argument, as far as somebody said them.
        tolerances: how far off an element may be, relative to it and absolutely; None for what its
            dtype allows.
    """

    kernel: Any
    call: BoundCall
    code: ProgramCode
    grid: Grid
    target: Target
    outputs: tuple[str, ...] = ()
    uninitialized: tuple[str, ...] = ()
    most_turns: int = 100_000
    restrided: frozenset[str] = frozenset()
    copies: LazyCopies = field(default_factory=LazyCopies)
    expected: Mapping[str, torch.Tensor] = field(default_factory=dict)
    tolerances: tuple[float | None, float | None] = (None, None)

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among its arguments, by name."""
        return dict(tensors_in(self.call.values))

    @property
    def results(self) -> Results:
        """The tensors in which runs are compared: the outputs where they are named, else all."""
        named = {name: self.tensors[name] for name in self.outputs}
        return Results(named or self.tensors, self.copies)

    @cached_property
    def _names_by_start(self) -> dict[int, str]:
        return {
            one.untyped_storage().data_ptr(): name for name, one in reversed(self.tensors.items())
        }

    def storage_of(self, tensor: torch.Tensor) -> str | int:
        """What tells the storages of a launch apart in each of its runs: the name
        of the first argument that lies there; of memory that is no argument's, its address.
        """
        start = tensor.untyped_storage().data_ptr()
        return self._names_by_start.get(start, start)

    @property
    def programs(self) -> int:
        """How many programs the grid has."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def program_id(self, linear: int) -> tuple[int, int, int]:
        """The id of a program along x, y, z."""
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)


@dataclass(eq=False)
class Event:
    """Something that a batch of programs does.

    Attributes:
        run: the launch.
        operation: what does it.
        programs: the batch; None for what is computed once, before any program runs.
        active: which programs take part; None for all.
        frame, instruction: where the generated code stands.
    """

    run: CheckedRun
    operation: Operation
    programs: Programs | None
    active: Active
    frame: types.FrameType
    instruction: int

    def calls(self) -> tuple[SourcePosition, ...]:
        """The kernel's line, then that of each helper function that was inlined there;
        Triton's own, `tl.sum` say, left out.
        """
        code = self.run.code
        places = tuple(calls_at(self.frame.f_code, self.instruction, code.locations))
        own = users_line(reversed(places))
        return places if own is None else places[: places.index(own) + 1]

    def values(self, place: tuple[int, ...], program: int) -> dict[str, Any]:
        """What the index of the access was made of, at a lane of the program
        at a position in the batch.
        """
        run = self.run
        return index_provenance(self.frame, self.instruction, place, program, run.code, run.call)

    def linear_ids(self, among: numpy.ndarray | None = None) -> numpy.ndarray:
        """Linear ids of the programs that take part, or of those `among` the batch's."""
        if self.programs is None:
            return numpy.arange(0)
        chosen = self.active if among is None else among
        return self.programs.linear if chosen is None else self.programs.linear[chosen]


@dataclass(eq=False)
class Access(Event):
    """An access to memory, its lanes outside every storage switched off already.

    Attributes:
        request: what is asked of memory.
        buffer: the storage that it goes to.
        asked: what the kernel asked for, where lanes of that were switched off; None where
            `request` is that.
    """

    request: MemoryAccess
    buffer: Buffer
    asked: MemoryAccess | None = None

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
        return isinstance(request, Load) and not global_memory.differs(
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
        return global_memory.lanes_on(self.request.mask, active, self.rank)

    def element(
        self, among: numpy.ndarray, place: tuple[int, ...], program: int
    ) -> tuple[int, ...]:
        """Where in its tensor a lane of a program goes, see `Finding.index`;
        `among` is what was found of all lanes.
        """
        index = numpy.broadcast_to(
            self.index, numpy.broadcast_shapes(self.index.shape, among.shape)
        )
        place = (program, *place) if index.ndim > self.rank else place
        return self.coordinates(int(index[place]))

    def coordinates(self, index: int) -> tuple[int, ...]:
        """Of an element of `buffer`, in the tensor; one number where it has none there."""
        return place_in(self.buffer, index)

    def named(self, index: tuple[int, ...]) -> str:
        """ "x_ptr[3, 4]"."""
        return f"{self.buffer.name or 'memory'}[{', '.join(map(str, index))}]"

    @cached_property
    def box(self) -> boxes.Box | None:
        """The lanes that are on, as a box of the programs that take part;
        None where they are none.
        """
        request = self.request
        if not isinstance(request.offsets, AffineTile):
            return None
        box = boxes.Box.of(self.buffer, request.offsets, request.mask)
        if box is not None and self.active is not None and box.has_programs:
            return box.of_active(self.active)
        return box


def place_in(buffer: Buffer, index: int) -> tuple[int, ...]:
    """Where in its tensor an element of a buffer is; one number where it has no place there."""
    tensor, offset = buffer.tensor, index - buffer.origin
    found = coordinates(tensor, offset) if tensor.element_size() == buffer.itemsize else None
    return (offset,) if found is None else found


def coordinates(tensor: torch.Tensor, offset: int) -> tuple[int, ...] | None:
    """Of the element that lies `offset` elements from a tensor's first;
    None where none of its own does.
    """
    found = [0] * tensor.ndim
    rest = offset
    for dimension in sorted(range(tensor.ndim), key=tensor.stride, reverse=True):
        step = tensor.stride(dimension)
        if step:
            found[dimension], rest = divmod(rest, step)
    inside = all(0 <= place < size for place, size in zip(found, tensor.shape))
    return tuple(found) if inside and not rest else None


_ACTIONS = {Load: "load", Store: "store", Atomic: "atomic", CompareAndSwap: "atomic"}


@dataclass(eq=False)
class Computed(Event):
    """Values that an operation computed.

    Attributes:
        operands, results: its values, as the generated code has them; pointers are offsets.
    """

    operands: Sequence[Value]
    results: Sequence[Value]
