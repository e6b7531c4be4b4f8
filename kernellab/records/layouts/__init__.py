"""Layouts: which register or place in memory holds which element of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, cast, overload

import numpy
from numpy.typing import ArrayLike

from kernellab.common.arguments import check_whole
from kernellab.common.text import counted, shown
from kernellab.errors import LayoutError
from kernellab.records.display import HasCard, plot, show
from kernellab.records.layouts.constructors import MadeByHand
from kernellab.records.layouts.linear import Bases, LinearTile, Numbers, Shape, Vector, sizes

_MOST_PICTURED = 64
"""Elements of the largest tile whose picture names every element."""


Move = Literal["stays", "register", "lane", "warp", "block"]
MOVES: tuple[Move, ...] = ("stays", "register", "lane", "warp", "block")
"""Where an element is, as seen from a register that is to have it: there, in another register
of the thread, another lane of the warp, another warp of the block, another block."""


class Holder(NamedTuple):
    """One register of one thread."""

    register: int
    lane: int
    warp: int
    block: int
    """The block (CTA) of the cluster; 0 if a program is one block."""


class SharedPlace(NamedTuple):
    """A place in shared memory."""

    offset: int
    """In elements, from the beginning of the buffer, padding included."""
    block: int


class TensorMemoryPlace(NamedTuple):
    """A place in tensor memory, from the beginning of the allocation."""

    row: int
    column: int


@dataclass(frozen=True)
class Layout(HasCard, LinearTile, MadeByHand):
    """Where a tile's elements are: from a compilation, `Layout.parse` or a family's constructor."""

    _place: ClassVar[Callable[..., Any]]
    """The holder of an element, with a number for each field."""

    def __post_init__(self) -> None:
        if type(self) is Layout:
            raise LayoutError(
                "Layout(...) cannot be called directly.",
                advice="Write Layout.parse(encoding, shape), or Layout.blocked(...), for example.",
            )

    @overload
    def holders(self, index: Sequence[int]) -> tuple[Any, ...]: ...

    @overload
    def holders(self, index: ArrayLike) -> Any: ...

    def holders(self, index: ArrayLike) -> Any:
        """Everything that holds the element at `index`, in order: registers by block, warp, lane
        and register; places in shared memory, one except for a layout that keeps copies; places in
        tensor memory, several where an element fills several columns or rows are idle beside it.

        Args:
            index: of one element, or an array of indices of shape (..., rank of the tile).

        Returns:
            A tuple of `Holder`, `SharedPlace` or `TensorMemoryPlace` for one index. For an array
            int64 of shape (..., replication, fields), the last axis as in the tuple's entries.

        Raises:
            LayoutError: the tile has no such element.
        """
        has_several = False
        if isinstance(index, list | tuple) or hasattr(index, "__array__"):
            with suppress(TypeError, ValueError, RuntimeError):  # ragged rows, no array after all
                has_several = numpy.ndim(index) > 1
        if has_several:
            return self._places(self._inputs_of_all(index))
        inputs = self._inputs_of(cast("Sequence[int]", index))
        return tuple(self._place(*row) for row in self._places(inputs).tolist())

    def _places(self, inputs: Numbers) -> Numbers:
        """Counted-through inputs as places, one column for each of their fields."""
        return self._split(inputs)

    def describe(self) -> str:
        """The layout in words."""
        raise NotImplementedError

    def _plane(self, by_element: Numbers, most_rows: int, most_columns: int) -> Numbers:
        """The first rows and columns of (*shape, ...): shape (rows, columns, ...)."""
        most_rows = check_whole("most_rows", most_rows)
        most_columns = check_whole("most_columns", most_columns)
        rank = len(self.shape)
        if rank < 2:
            columns = min(self.element_count, most_columns)
            plane = by_element.reshape(-1, columns, *by_element.shape[rank:])
        else:
            plane = by_element[(0,) * (rank - 2)]
        return plane[:most_rows, :most_columns]

    def part_shown(self, most_rows: int, most_columns: int) -> str:
        """A sentence about the part of the tile that is shown; "" for the whole tile."""
        if self.element_count <= most_rows * most_columns and len(self.shape) < 2:
            return ""
        if len(self.shape) < 2:
            return f"elements 0 to {most_rows * most_columns - 1} of {self.element_count:,}"
        *leading, rows, columns = self.shape
        parts = [
            f"{most} of {size:,} {what}"
            for most, size, what in ((most_rows, rows, "rows"), (most_columns, columns, "columns"))
            if size > most
        ]
        if math.prod(leading) > 1:
            parts.append(f"at index {', '.join('0' for _ in leading)} of {sizes(leading)}")
        return ", ".join(parts)

    def show(self, to: Layout | None = None, by: str | None = None) -> Any:
        """The layout as a picture: elements, and the threads or the memory
        that hold them (docs/widgets.md).

        Args:
            to: another layout of the same shape, to see what a conversion to it moves.
            by: what the colors show first: "warp", "lane", "register" or "block"; of shared
                memory "bank", "offset" or "row of the tile"; of tensor memory "row" or "column".
                None leaves the choice to the view.

        Raises:
            LayoutError: the shapes differ, or `by` does not exist.
        """
        return show(self, to=to, by=by)

    def plot(
        self,
        by: str | None = None,
        at: Sequence[int] = (),
        hardware: bool = False,
        element_bits: int = 16,
    ) -> Any:
        """The layout as a figure, for a page or a slide: colored cells, labeled if large enough.

        Args:
            by: what the colors are: "warp", "lane", "register" or "block"; of shared memory
                "bank" or "offset"; of tensor memory "row" or "column". None means the first of
                them that differs.
            at: of a tile with more than two dimensions, the slice's index; None is the first.
            hardware: draw the places: registers by thread, or memory in rows of 128 bytes.
            element_bits: of an element in shared memory; banks depend on it.

        Returns:
            A picture that a cell displays: `.save(path)`, `.png()`, `.svg()`, `.figure`.

        Raises:
            LayoutError: no such `by` or slice, or the tile is too large to be drawn.
        """
        return plot(self, by=by, at=at, hardware=hardware, bits=element_bits)


@dataclass(frozen=True)
class RegisterLayout(Layout):
    """A tile in the registers of a program's threads.

    Registers count the elements of the tile that a thread holds, not 32-bit registers of the
    hardware: two fp16 elements share one of those. A register that always repeats another
    one is left out.
    """

    register: Bases
    lane: Bases
    warp: Bases
    block: Bases
    _inputs = ("register", "lane", "warp", "block")
    _place = Holder

    @property
    def registers_per_thread(self) -> int:
        """Elements that one thread holds."""
        return self._size("register")

    @property
    def lanes(self) -> int:
        """Threads of a warp."""
        return self._size("lane")

    @property
    def warps(self) -> int:
        """Warps of a program (of one block of it)."""
        return self._size("warp")

    @property
    def blocks(self) -> int:
        """Blocks (CTAs) of a program: 1 without clusters."""
        return self._size("block")

    def elements(
        self,
        block: ArrayLike = 0,
        warp: ArrayLike = 0,
        lane: ArrayLike = 0,
        register: ArrayLike = 0,
    ) -> Numbers:
        """The indices of the elements that registers hold.

        Args:
            block, warp, lane, register: numbers, or arrays of them, which are broadcast.

        Returns:
            int64 of shape (*broadcast shape, rank of the tile).

        Raises:
            LayoutError: there is no such block, warp, lane or register.
        """
        return self._elements(block=block, warp=warp, lane=lane, register=register)

    def all_elements(self) -> Numbers:
        """Each register's index: int64 of shape (blocks, warps, lanes, registers, rank)."""
        return self._indices(self.all_numbers())

    def all_numbers(self) -> Numbers:
        """As `all_elements`, by numbers: shape (blocks, warps, lanes, registers)."""
        shape = (self.blocks, self.warps, self.lanes, self.registers_per_thread)
        return self._element_numbers.reshape(shape)

    def all_holders(self) -> Numbers:
        """The holders of every element, as in `Holder`: int64 (*shape, replication, 4)."""
        return self._split(self._inputs_by_element).reshape(*self.shape, -1, 4)

    def threads(self, index: Sequence[int]) -> tuple[int, ...]:
        """The numbers of the threads that hold the element at `index`, in order."""
        threads = {
            (holder.block * self.warps + holder.warp) * self.lanes + holder.lane
            for holder in self.holders(index)
        }
        return tuple(sorted(threads))

    @property
    def contiguous(self) -> tuple[int, ...]:
        """By dimension: how many neighbors one thread holds in each aligned run."""
        return tuple(self._run(self.register, dim) for dim in range(len(self.shape)))

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions, the fastest first, as registers, lanes, warps and blocks follow."""
        vectors = [vector for vectors in self.bases.values() for vector in vectors]
        along = [dim for vector in vectors for dim, step in enumerate(vector) if step]
        rest = reversed(range(len(self.shape)))
        return tuple(dict.fromkeys([*along, *rest]))

    def vector_width(self, element_bits: int, most_bits: int = 128) -> int:
        """Elements of one access of a thread, if memory is contiguous along the fastest axis.

        Args:
            element_bits: size of an element.
        """
        element_bits = check_whole("element_bits", element_bits, least=1)
        most_bits = check_whole("most_bits", most_bits, least=1)
        if not self.shape:
            return 1
        return max(1, min(self.contiguous[self.order[0]], most_bits // element_bits))

    def _run(self, vectors: Bases, dim: int) -> int:
        """The aligned run of neighbors along a dimension that some vectors span."""
        run = 1
        while self._unit(dim, run) in vectors:
            run *= 2
        return run

    def _unit(self, dim: int, step: int) -> Vector:
        return tuple(step if d == dim else 0 for d in range(len(self.shape)))

    def moves_to(self, other: RegisterLayout) -> Mapping[Move, int]:
        """How another layout's registers, of all threads together, get their elements from this.

        Returns:
            How far away the element is -> how many registers; the nearest first.
            Where it is held several times, the nearest counts.

        Raises:
            LayoutError: the shapes differ.
        """
        if not isinstance(cast("Any", other), RegisterLayout):
            raise LayoutError(
                f"moves_to takes the layout of a tile in registers, got {shown(other)}."
            )
        if other.shape != self.shape:
            raise LayoutError(
                "Both layouts must have the same shape, got "
                f"{sizes(self.shape)} and {sizes(other.shape)}."
            )
        wanted = other._element_numbers
        place = other._split(numpy.arange(wanted.size))
        nearest = numpy.full(wanted.size, len(MOVES) - 1)
        for held in self._inputs_by_element[wanted].T:
            # From behind: block, warp, lane, register.
            # The first that is another one says how far it is.
            differs = (self._split(held) != place)[:, ::-1]
            far = numpy.where(differs.any(axis=1), len(MOVES) - 1 - differs.argmax(axis=1), 0)
            nearest = numpy.minimum(nearest, far)
        counts = numpy.bincount(nearest, minlength=len(MOVES)).tolist()
        return {move: count for move, count in zip(MOVES, counts) if count}

    def describe(self) -> str:
        """The layout in words."""
        blocks = f"{self.blocks} blocks of " if self.blocks > 1 else ""
        lines = [
            f"{self._title()}: {_FAMILIES.get(self.family, 'threads hold its elements')}.",
            f"{blocks}{counted(self.warps, 'warp')} of {counted(self.lanes, 'lane')}; "
            f"each thread holds {counted(self.registers_per_thread, 'element')}{self._runs()}.",
        ]
        lines += [
            f"{self._extent(vectors, name)}."
            for name, vectors in self.bases.items()
            if name in ("lane", "warp") and any(map(any, vectors))
        ]
        lines.append(self._copies())
        return "\n".join(lines)

    def _runs(self) -> str:
        runs = [
            f"{run} along dimension {dim}" for dim, run in enumerate(self.contiguous) if run > 1
        ]
        return f", in runs of {' and '.join(runs)}" if runs else ""

    def _extent(self, vectors: Bases, name: str) -> str:
        """How far the numbers of an input lead apart, by dimension."""
        positions = {(0,) * len(self.shape)}
        for vector in vectors:
            moved = {tuple(a ^ b for a, b in zip(position, vector)) for position in positions}
            positions |= moved
        different = [
            len({position[dim] for position in positions}) for dim in range(len(self.shape))
        ]
        many = {"lane": "The lanes of a warp", "warp": "The warps"}[name]
        return f"{many} are at {sizes(different)} positions"

    def _copies(self) -> str:
        if self.replication == 1:
            return "Every element is held once."
        across = {
            name: 1 << sum(not any(vector) for vector in vectors)
            for name, vectors in self.bases.items()
        }
        where = [f"{number} {name}s" for name, number in across.items() if number > 1]
        return f"Every element is held {self.replication} times" + (
            f", by {' times '.join(where)}." if where else "."
        )

    def picture(self) -> str:
        """Which threads hold which element: "Layout(0,0)={0,4}, (0,1)={1,5},
        ..." for a tile of at most 64 elements.

        Of a larger tile the first rows and columns, one cell an element: "T12:3" is register 3
        of thread 12, the first that holds it. A last line then says how much of the tile that is.
        """
        if self.element_count <= _MOST_PICTURED:
            cells = [
                f"({','.join(map(str, index))})={{{','.join(map(str, self.threads(index)))}}}"
                for index in numpy.ndindex(self.shape)
            ]
            return f"Layout{', '.join(cells)}"
        rows = self.cells(8, 8)
        width = max(len(cell) for row in rows for cell in row)
        lines = [" ".join(cell.ljust(width) for cell in row).rstrip() for row in rows]
        return "\n".join([*lines, self.part_shown(8, 8)])

    def cells(self, most_rows: int, most_columns: int) -> list[list[str]]:
        """The tile's first rows and columns: "T12:3" for thread and register.

        A tile of one dimension is folded into rows of `most_columns`;
        of more than two, it is the plane at index 0 of the leading ones.
        """
        plane = self._plane(self.all_holders()[..., 0, :], most_rows, most_columns)
        register, lane, warp, block = numpy.moveaxis(plane, -1, 0)
        thread = (block * self.warps + warp) * self.lanes + lane
        return [
            [f"T{t}:{r}" for t, r in zip(*row)] for row in zip(thread.tolist(), register.tolist())
        ]


@dataclass(frozen=True)
class SharedLayout(Layout):
    """A tile in shared memory (AMD: LDS)."""

    offset: Bases
    """By bits of the offset in elements, before padding."""
    block: Bases
    alignment: int = 16
    """Of the buffer's first byte, in bytes; 16 if the encoding does not state it."""
    paddings: tuple[tuple[int, int], ...] = ()
    """(interval, padding): after every `interval` elements, `padding` are left free."""
    _inputs = ("offset", "block")
    _place = SharedPlace

    @property
    def size(self) -> int:
        """Elements from the first to the last, padding between them included."""
        return int(self._padded(self._size("offset") - 1)) + 1

    def elements(self, offset: ArrayLike, block: ArrayLike = 0) -> Numbers:
        """The indices of the elements at offsets (in elements, padding included):
        int64 of shape (*broadcast shape, rank).

        Raises:
            LayoutError: an offset past the end, or one that padding leaves free.
        """
        offsets = numpy.asarray(offset, numpy.int64)
        taken = self._padded(numpy.arange(self._size("offset")))
        plain = numpy.searchsorted(taken, offsets)
        free = (plain >= len(taken)) | (taken[numpy.minimum(plain, len(taken) - 1)] != offsets)
        if free.any():
            first = int(numpy.atleast_1d(offsets)[numpy.atleast_1d(free)][0])
            raise LayoutError(f"Offset {first} of a {self} is padding, and holds no element.")
        return self._elements(offset=plain, block=block)

    def _places(self, inputs: Numbers) -> Numbers:
        split = self._split(inputs)
        split[..., 0] = self._padded(split[..., 0])
        return split

    def offsets(self) -> Numbers:
        """The offset of every element's first place, in elements: int64 of the tile's shape."""
        first = self._inputs_by_element[:, 0] % self._size("offset")
        return self._padded(first).reshape(self.shape)

    def cells(self, most_rows: int, most_columns: int) -> list[list[str]]:
        """Offsets, in elements, of the first rows and columns, folded as a `RegisterLayout`'s."""
        plane = self._plane(self.offsets(), most_rows, most_columns)
        return [[str(offset) for offset in row] for row in plane.tolist()]

    def _padded(self, offsets: ArrayLike) -> Numbers:
        plain = numpy.asarray(offsets, numpy.int64)
        free = sum(plain // interval * padding for interval, padding in self.paddings)
        return numpy.asarray(plain + free)

    def describe(self) -> str:
        """The layout in words."""
        unused = self.size - self._size("offset")
        left_free = f", {unused:,} of them left free" if unused else ""
        lines = [
            f"{self._title()} in shared memory: {_FAMILIES.get(self.family, 'a tile')}.",
            f"It takes the space of {counted(self.size, 'element')}{left_free}.",
        ]
        for interval, padding in self.paddings:
            lines.append(f"After every {interval} elements, {padding} are left free.")
        return "\n".join(lines)


@dataclass(frozen=True)
class TensorMemoryLayout(Layout):
    """A tile in Blackwell's tensor memory."""

    row: Bases
    """By bits of the row: tensor memory calls its 128 rows lanes."""
    column: Bases
    _inputs = ("row", "column")
    _place = TensorMemoryPlace

    def elements(self, row: ArrayLike, column: ArrayLike) -> Numbers:
        """The indices of the elements at rows and columns: int64 (*broadcast shape, rank)."""
        return self._elements(row=row, column=column)

    def describe(self) -> str:
        """The layout in words."""
        return (
            f"{self._title()}: {_FAMILIES[self.family]}.\n"
            f"It takes {counted(self._size('row'), 'row')} and "
            f"{counted(self._size('column'), 'column')}, in units of one element."
        )


_FAMILIES = {
    "blocked": (
        "each thread holds a box of adjacent elements, each warp a box of threads, "
        "the program a box of warps"
    ),
    "slice": "another layout without one of its dimensions, as a reduction leaves it",
    "dot_op": ("an operand of a matmul, in the registers that the instruction reads"),
    "nvidia_mma": (
        "the result of mma.sync or wgmma, in the registers where the instruction leaves it"
    ),
    "amd_mfma": "the result of a CDNA matrix instruction, in the registers where it leaves it",
    "amd_wmma": "the result of an RDNA matrix instruction, in the registers where it leaves it",
    "linear": "a layout by its basis vectors alone",
    "swizzled_shared": "rows whose vectors are permuted by XOR, against bank conflicts",
    "amd_rotating_shared": (
        "rows whose vectors are permuted by XOR, otherwise in each block of rows, against bank "
        "conflicts"
    ),
    "nvmma_shared": "as TMA writes it and the matrix units read it",
    "padded_shared": "rows with padding between them, against bank conflicts",
    "shared_linear": "a layout by its basis vectors alone",
    "tensor_memory": "rows and columns of Blackwell's tensor memory",
    "tensor_memory_scales": "the scales of a scaled matmul in tensor memory",
}
"""A description of each family."""
