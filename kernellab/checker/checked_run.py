"""A checked run, and the events that detectors observe."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.arguments import LazyCopies, Results
from kernellab.common.text import element_text
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.modules import users_line
from kernellab.errors import SourcePosition
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.execution.faults import calls_at, index_provenance
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory import buffers, global_memory
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import (
    Atomic,
    CompareAndSwap,
    Load,
    MemoryAccess,
    Store,
)
from kernellab.interpreter.tiles import Active, Value
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.autotuners import TunerFacts
from kernellab.launch.reference_results import Results as ExpectedResults
from kernellab.launch.results import Tolerances
from kernellab.records import Target


@dataclass(frozen=True)
class CheckedRun:
    """The launch that is checked.

    Attributes:
        kernel: the JIT function.
        call: its arguments, with the tensors that it runs on, which are copies.
        code: its generated code.
        grid: the number of programs along x, y, z.
        target: the GPU that is emulated.
        outputs: the arguments of which it must write all elements.
        uninitialized: the arguments that are uninitialized memory.
        most_turns: the most iterations of a `while` loop.
        restrided: the arguments that may be read anywhere in their storage.
        copies: the memory of the tensors of `call`.
        expected: the expected results, by argument.
        tolerances: how far the results may be off the expected ones.
        autotuner: what the kernel's autotuner does; None if it has none.
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
    expected: ExpectedResults = field(default_factory=ExpectedResults)
    tolerances: Tolerances = field(default_factory=Tolerances)
    autotuner: TunerFacts | None = None

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors among its arguments, by name."""
        return dict(tensors_in(self.call.values))

    @property
    def results(self) -> Results:
        """The tensors in which runs are compared: the outputs if they are named, else all."""
        named = {name: self.tensors[name] for name in self.outputs}
        return Results(named or self.tensors, self.copies)

    @cached_property
    def _names_by_start(self) -> dict[int, str]:
        return {
            tensor.untyped_storage().data_ptr(): name
            for name, tensor in reversed(self.tensors.items())
        }

    def storage_of(self, tensor: torch.Tensor) -> str | int:
        """Return a key for a storage that is the same in each run of the launch: the name of its
        first argument, or the address of memory that does not belong to an argument.
        """
        start = tensor.untyped_storage().data_ptr()
        return self._names_by_start.get(start, start)

    @property
    def programs(self) -> int:
        """The number of programs in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def program_id(self, linear: int) -> tuple[int, int, int]:
        """Return the id of a program along x, y, z."""
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)


@dataclass(eq=False)
class Event:
    """The execution of an operation by a batch of programs.

    Attributes:
        run: the launch.
        operation: the operation.
        programs: the batch; None for values that are computed once, before any program runs.
        active: which programs are active; None for all.
        frame, instruction: the position in the generated code.
    """

    run: CheckedRun
    operation: Operation
    programs: Programs | None
    active: Active
    frame: types.FrameType
    instruction: int

    def calls(self) -> tuple[SourcePosition, ...]:
        """Return the kernel's line, then the line in each helper function that was inlined there,
        without Triton's own functions such as `tl.sum`.
        """
        code = self.run.code
        places = tuple(calls_at(self.frame.f_code, self.instruction, code.locations))
        own = users_line(reversed(places))
        return places if own is None else places[: places.index(own) + 1]

    def values(self, place: tuple[int, ...], program: int) -> dict[str, Any]:
        """Return the values that the index of an access was computed from.

        Args:
            place: the element's position in its tile.
            program: the position of its program in the batch.
        """
        run = self.run
        return index_provenance(self.frame, self.instruction, place, program, run.code, run.call)

    def taking_part(self, rank: int) -> Any:
        """Return which programs are active, for tiles with programs first; True for all."""
        return True if self.active is None else self.active.reshape((-1,) + (1,) * rank)

    def linear_ids(self, among: numpy.ndarray | None = None) -> numpy.ndarray:
        """Return the linear ids of the active programs, or of those that `among` selects."""
        if self.programs is None:
            return numpy.arange(0)
        chosen = self.active if among is None else among
        return self.programs.linear if chosen is None else self.programs.linear[chosen]


@dataclass(eq=False)
class CheckedAccess(Event):
    """An access to memory, of which elements outside the storage are already masked off.

    Attributes:
        request: the access to memory.
        buffer: the storage that it goes to.
        original: the kernel's own access, if elements of it were masked off; None if `request` is
            the same.
    """

    request: MemoryAccess
    buffer: Buffer
    original: MemoryAccess | None = None

    @property
    def action(self) -> str:
        """ "load", "store" or "atomic"."""
        return _ACTIONS[type(self.request)]

    @property
    def rank(self) -> int:
        """The number of dimensions of its tile."""
        return self.request.rank

    @property
    def is_shared(self) -> bool:
        """True if all programs of the batch make the same access, which is made once."""
        request = self.request
        return isinstance(request, Load) and not global_memory.differs(
            request.rank, request.offsets, request.mask, request.other
        )

    @cached_property
    def index(self) -> numpy.ndarray:
        """The index of each element in `buffer.elements`; programs first if they differ."""
        index: numpy.ndarray = numpy.asarray(self.request.offsets) + self.buffer.origin
        return index

    @cached_property
    def written(self) -> numpy.ndarray:
        """What a store or an atomic is given, as elements of the buffer."""
        assert isinstance(self.request, Store | Atomic)
        values = numpy.asarray(self.request.value)
        kind = self.buffer.elements.dtype
        return values if values.dtype == kind else values.view(kind)

    @cached_property
    def on(self) -> numpy.ndarray | None:
        """Which elements are enabled, programs first if they differ; None for all."""
        active = None if self.is_shared else self.active
        return global_memory.lanes_on(self.request.mask, active, self.rank)

    def element(
        self, among: numpy.ndarray, place: tuple[int, ...], program: int
    ) -> tuple[int, ...]:
        """Return the index in its tensor of an element that is accessed; see `Finding.index`.

        Args:
            among: an array over the tile, with programs first if they differ.
            place: the element's position in its tile.
            program: the position of its program in the batch.
        """
        index = numpy.broadcast_to(
            self.index, numpy.broadcast_shapes(self.index.shape, among.shape)
        )
        place = (program, *place) if index.ndim > self.rank else place
        return self.coordinates(int(index[place]))

    def coordinates(self, index: int) -> tuple[int, ...]:
        """Return the coordinates in the tensor of an element of `buffer`; see `place_in`."""
        return place_in(self.buffer, index)

    def named(self, index: tuple[int, ...]) -> str:
        """Return "x_ptr[3, 4]"."""
        return element_text(self.buffer.name, index)

    @cached_property
    def box(self) -> buffers.Box | None:
        """The enabled elements as a box of the active programs; None if they are not a box."""
        request = self.request
        if not isinstance(request.offsets, AffineTile):
            return None
        box = buffers.Box.of(self.buffer, request.offsets, request.mask)
        if box is not None and self.active is not None and box.has_programs:
            return box.of_active(self.active)
        return box


def place_in(buffer: Buffer, index: int) -> tuple[int, ...]:
    """Return the coordinates in the tensor of an element of a buffer; a single number, counted from
    the tensor's first element, if it has no coordinates.
    """
    tensor, offset = buffer.tensor, index - buffer.origin
    place = coordinates(tensor, offset) if tensor.element_size() == buffer.itemsize else None
    return (offset,) if place is None else place


def coordinates(tensor: torch.Tensor, offset: int) -> tuple[int, ...] | None:
    """Return the coordinates of the element at `offset` elements from a tensor's first; None if
    that is not an element of the tensor.
    """
    index = [0] * tensor.ndim
    rest = offset
    for dimension in sorted(range(tensor.ndim), key=tensor.stride, reverse=True):
        step = tensor.stride(dimension)
        if step:
            index[dimension], rest = divmod(rest, step)
    inside = all(0 <= place < size for place, size in zip(index, tensor.shape))
    return tuple(index) if inside and not rest else None


_ACTIONS = {Load: "load", Store: "store", Atomic: "atomic", CompareAndSwap: "atomic"}


@dataclass(eq=False)
class Computed(Event):
    """The values of an operation.

    Attributes:
        operands, results: its values in the generated code; pointers are offsets.
    """

    operands: Sequence[Value]
    results: Sequence[Value]
