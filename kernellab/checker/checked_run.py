"""A checked run, its events, and what is known about its kernel before it runs."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.arguments import LazyCopies, Results
from kernellab.common.text import element_text
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.modules import users_line
from kernellab.errors import SourcePosition, source_lines
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.codegen.indices import described, function_of, variable_of
from kernellab.interpreter.execution.faults import calls_at, index_provenance
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import (
    EVERYTHING,
    Arguments,
    ProgramCode,
    memory_effects,
    per_code,
)
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
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import (
    GlobalAccess,
    KeepsElements,
    Location,
    RegionsOfElements,
    argument_name,
    has,
    locate,
    trait_of,
)
from kernellab.ir.types import dtype
from kernellab.launch.argument_copies import ALIGNMENT, tensors_in
from kernellab.launch.autotuners import TunerFacts
from kernellab.launch.reference_results import Results as ExpectedResults
from kernellab.launch.results import Tolerances
from kernellab.records import Target


@dataclass(frozen=True)
class CheckedRun:
    """The launch that is checked.

    Attributes:
        call: its arguments, with the tensors that it runs on, which are copies.
        grid: the number of programs along x, y, z.
        outputs: the arguments of which it must write all elements.
        most_turns: the most iterations of a `while` loop.
        restrided: the arguments that may be read anywhere in their storage.
        copies: the memory of the tensors of `call`.
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
        """Return the kernel's line, then that in each inlined helper, without Triton's own."""
        code = self.run.code
        places = tuple(calls_at(self.frame.f_code, self.instruction, code.locations))
        own = users_line(reversed(places))
        return places if own is None else places[: places.index(own) + 1]

    def values(self, place: tuple[int, ...], program: int) -> dict[str, Any]:
        """Return the values that the index of an access was computed from.

        Args:
            place: the element's position in its tile.
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
        original: the kernel's own access, if elements of it were masked off; None if `request` is
            the same.
    """

    request: MemoryAccess
    buffer: Buffer
    original: MemoryAccess | None = None

    @property
    def action(self) -> str:
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
        """The values of a store or an atomic, as elements of the buffer."""
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


def placing(op: Operation) -> list[SSAValue]:
    """The operands that locate an access: pointers, or a descriptor's indices, then any mask."""
    access = trait_of(op, GlobalAccess)
    if access is None:
        return []
    mask = access.mask_of(op)
    return [*access.indices_of(op), *([] if mask is None else [mask])]


def mask_of(op: Operation) -> SSAValue | None:
    """The mask of an access, if it has one."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.mask_of(op)


def makes_addresses(op: Operation) -> bool:
    """Whether an address or a mask is computed from a result of `op`."""
    values = _behind_accesses(function_of(op))
    return any(result in values for result in op.results)


def stored_value(op: Operation) -> SSAValue | None:
    """The value that an operation writes to global memory, if any."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.value_of(op)


def stored_integers(op: Operation) -> SSAValue | None:
    """The integers that an operation writes to global memory, if any."""
    stored = stored_value(op)
    return stored if stored is not None and dtype(stored.type).kind == "i" else None


@lru_cache(maxsize=32)
def _behind_accesses(function: Operation) -> frozenset[SSAValue]:
    """The values behind addresses and masks, including integers in memory behind loads."""
    operations = list(function.walk())
    placed = [value for op in operations for value in placing(op)]
    values = behind(placed)
    stored = [value for op in operations if (value := stored_integers(op)) is not None]
    return behind([*placed, *stored]) if stored and any(map(was_loaded, values)) else values


def behind(values: Iterable[SSAValue]) -> frozenset[SSAValue]:
    """`values` and what they are computed from, back to arguments and to what was loaded."""
    return frozenset(flow.backward(values, was_loaded))


def was_loaded(value: SSAValue) -> bool:
    """Whether a value comes out of global memory."""
    return isinstance(value, OpResult) and has(value.op, GlobalAccess)


def tensors_among(run: CheckedRun, arguments: Arguments) -> frozenset[str]:
    """Return the names of the tensors among arguments."""
    names = argument_names(run.call, run.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    return frozenset(names[number] for number in numbers) & run.tensors.keys()


def storages_of(run: CheckedRun, arguments: Arguments) -> frozenset[str | int]:
    """Return the storages of arguments (see `CheckedRun.storage_of`)."""
    return frozenset(run.storage_of(run.tensors[name]) for name in tensors_among(run, arguments))


def unchanged_storages(launch: CheckedRun) -> frozenset[int]:
    """Return the addresses of storages that the kernel cannot write. If results may depend on
    addresses, only storages that are aligned as memory of a GPU is.
    """
    effects = memory_effects(launch.code)
    if effects.stored is EVERYTHING or effects.updated is EVERYTHING:
        return frozenset()
    written = storages_of(launch, effects.stored | effects.updated)
    starts = {
        tensor.untyped_storage().data_ptr()
        for tensor in launch.tensors.values()
        if launch.storage_of(tensor) not in written
    }
    if _shows_addresses(launch.code):
        starts = {start for start in starts if start % ALIGNMENT == 0}
    return frozenset(starts)


@per_code
def _shows_addresses(code: ProgramCode) -> bool:
    return any(
        isinstance(op, tt.PtrToIntOp | tt.MakeTensorDescOp)
        or any("divisibility" in name for name in op.attributes)
        for op in code.module.walk()
    )


def on_line(op: Operation) -> str:
    """Return " on line 12", where an operation is; "" if that is not known."""
    frames = locate(op.location).frames
    return f" on line {frames[0].line}" if frames else ""


# The names of a kernel's values in messages.


def name_of(value: SSAValue, user: Operation) -> str | None:
    """Return the kernel's name for an operand of `user`, such as "stride", or the call that it is,
    such as "tl.program_id(0)"; None for a part of an expression.

    All operations of an assignment carry the name of its target, which is not the name of an
    operand.
    """
    here = locate(user.location)
    while not isinstance(value, BlockArgument):
        assert isinstance(value, OpResult)
        name = variable_of(value, len(here.frames))
        is_own = not (name == here.name and _is_on_the_way(value.op, here))
        if name is not None and is_own and not _is_part_of(name, value):
            return name
        if not (has(value.op, KeepsElements) or isinstance(value.op, mlir.ExtSIOp | mlir.ExtFOp)):
            of_grid = isinstance(value.owner, tt.GetProgramIdOp | tt.GetNumProgramsOp)
            return described(value) if of_grid else None
        value = value.op.operands[0]
    return argument_name(value)


def _is_part_of(name: str, value: OpResult) -> bool:
    """Return whether a value has the name of what is assigned, and is a part of the expression: the
    scalar of `u = s / cap` becomes a tile that has the name u.
    """
    if not has(value.op, KeepsElements):
        return False
    return any(
        locate(use.operation.location).name == name and _is_on_the_way(value.op, place)
        for use in value.uses
        if (place := locate(use.operation.location)).name == name
    )


def _is_on_the_way(op: Operation, user: Location) -> bool:
    """Return whether an operation belongs to the same statement as its user."""
    if op.regions and not has(op, RegionsOfElements):
        return False  # a loop or a branch is a separate statement
    frames = locate(op.location).frames[-len(user.frames) :]
    if not frames or not user.frames or frames[0].file != user.frames[0].file:
        return True
    position = user.frames[0]
    return frames[0].line >= _first_line("".join(source_lines(position.file)), position.line)


@lru_cache(maxsize=8)
def _statements(source: str) -> tuple[tuple[int, int], ...]:
    """The first and the last line of each simple statement of a file."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with magics, say
        return ()
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
    statements = (node for node in ast.walk(tree) if isinstance(node, simple))
    return tuple((node.lineno, node.end_lineno or node.lineno) for node in statements)


def _first_line(source: str, line: int) -> int:
    return max(
        (first for first, last in _statements(source) if first <= line <= last), default=line
    )
