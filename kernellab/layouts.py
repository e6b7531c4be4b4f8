"""Layouts: which register of which thread, or which place in memory, holds which element of a tile.

A layout is linear over bits. Each of its inputs (a register's number, a lane's, an offset in memory) has one basis vector for each
bit: the index of the element that this bit leads to. The element of an input is the XOR of the vectors of the bits that are set in
it. The vectors come from Triton (its linear layouts); what is done with them here is arithmetic.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

import numpy
from numpy.typing import ArrayLike, NDArray

from kernellab import worker
from kernellab.errors import LayoutError, WorkerError

Shape = tuple[int, ...]
Vector = tuple[int, ...]
Bases = tuple[Vector, ...]
"""The basis vectors of one input: entry k is the index of the element that the number 2**k leads to."""
Numbers = NDArray[numpy.int64]

_MAKER = "kernellab.compiler.hand_made_layouts:make"
"""What the worker process is asked for a layout made by hand: Triton aborts on some."""
_MOST_PICTURED = 64
"""Elements of the largest tile whose picture names every element."""


class Holder(NamedTuple):
    """One register of one thread."""

    register: int
    lane: int
    warp: int
    block: int
    """The block (CTA) of the cluster; 0 where a program is one block."""


class SharedPlace(NamedTuple):
    """A place in shared memory."""

    offset: int
    """In elements, from the beginning of the buffer, padding included."""
    block: int


class TensorMemoryPlace(NamedTuple):
    """A place in tensor memory, from the beginning of the allocation."""

    row: int
    column: int


def sizes(shape: Sequence[int]) -> str:
    """A shape in words: "128x64"; of a tile without dimensions "one element"."""
    return "x".join(str(size) for size in shape) or "one element"


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tile are: made by a compilation, by `Layout.parse`, or by the constructors named after families."""

    shape: Shape
    encoding: str
    """The layout as TTGIR writes it, aliases spelt out: "#ttg.blocked<{sizePerThread = [1, 4], ...}>"."""

    @property
    def bases(self) -> Mapping[str, Bases]:
        """Input -> its basis vectors; the first input varies fastest where inputs are counted through."""
        raise NotImplementedError

    def holders(self, index: Sequence[int]) -> tuple[Any, ...]:
        """Everything that holds the element at `index`, in order.

        Raises:
            LayoutError: the tile has no such element.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """The layout in words."""
        raise NotImplementedError

    @property
    def family(self) -> str:
        """MLIR's name of the kind of layout: "blocked", "slice", "nvidia_mma", "nvmma_shared", ..."""
        found = re.match(r"#\w+\.(\w+)", self.encoding)
        return found[1].removesuffix("_encoding") if found else ""

    @property
    def element_count(self) -> int:
        """Elements of the tile."""
        return math.prod(self.shape)

    @property
    def replication(self) -> int:
        """How many holders each element has."""
        return int(self._inputs_by_element.shape[1])

    def __str__(self) -> str:
        return f"{self.family.replace('_', ' ')} layout of {sizes(self.shape)}"

    def _title(self) -> str:
        """What it is, as the beginning of a description."""
        words = str(self)
        return f"{words[:1].upper()}{words[1:]}"

    # The linear function

    def _size(self, name: str) -> int:
        """How many numbers an input has."""
        return 1 << len(self.bases[name])

    def _number(self, index: Sequence[int]) -> int:
        """An element's number, the last dimension fastest. Sizes are powers of two: the XOR of indices is the XOR of numbers."""
        number = 0
        for position, size in zip(index, self.shape):
            number = number * size + position
        return number

    def _indices(self, numbers: Numbers) -> Numbers:
        """The indices of elements by their numbers, as an array of shape (*numbers.shape, rank)."""
        if not self.shape:
            return numpy.zeros((*numbers.shape, 0), numpy.int64)
        return numpy.stack(numpy.unravel_index(numbers, self.shape), axis=-1)

    def _elements(self, **inputs: ArrayLike) -> Numbers:
        """The indices of the elements that numbers of the inputs lead to; arrays are broadcast."""
        found = numpy.zeros((), numpy.int64)
        for name, given in inputs.items():
            asked = self._asked(name, given)
            found = found ^ numpy.zeros_like(asked)  # with no bits, it has a shape all the same
            for bit, vector in enumerate(self.bases[name]):
                found = found ^ numpy.where(asked >> bit & 1, self._number(vector), 0)
        return self._indices(found)

    def _asked(self, name: str, given: ArrayLike) -> Numbers:
        """Numbers of an input, all of which it has."""
        asked = numpy.asarray(given)
        if asked.size and asked.dtype.kind not in "iu":
            raise LayoutError(f"A {name} is a whole number, and not {given!r}.")
        outside = (asked < 0) | (asked >= self._size(name))
        if outside.any():
            raise LayoutError(
                f"A {self} has {name} 0 to {self._size(name) - 1}, and was asked for {int(asked[outside].flat[0])}."
            )
        return asked.astype(numpy.int64)

    @cached_property
    def _element_numbers(self) -> Numbers:
        """The element's number for every input, counted through."""
        numbers = numpy.zeros(1, numpy.int64)
        for vectors in self.bases.values():
            for vector in vectors:
                numbers = numpy.concatenate([numbers, numbers ^ self._number(vector)])
        return numbers

    @cached_property
    def _inputs_by_element(self) -> Numbers:
        """For every element the inputs that lead to it, in order: an array of shape (elements, replication)."""
        # Linear and onto: as many inputs lead to one element as to any other.
        return numpy.argsort(self._element_numbers, kind="stable").reshape(self.element_count, -1)

    def _inputs_of(self, index: Sequence[int]) -> Numbers:
        """The inputs that lead to one element."""
        try:
            given = tuple(operator.index(i) for i in index)
        except TypeError:
            given = ()
        if len(given) != len(self.shape) or any(not 0 <= i < n for i, n in zip(given, self.shape)):
            raise LayoutError(
                f"A tile of {sizes(self.shape)} has no element {index}.",
                advice=f"An index has {len(self.shape)} whole numbers, each below the tile's size.",
            )
        return cast(Numbers, self._inputs_by_element[self._number(given)])

    def _split(self, inputs: Numbers) -> Numbers:
        """Counted-through inputs as one column for each input: an array of shape (*inputs.shape, number of inputs)."""
        columns = []
        for name in self.bases:
            columns.append(inputs % self._size(name))
            inputs = inputs // self._size(name)
        return numpy.stack(columns, axis=-1)

    # Made by hand

    @staticmethod
    def parse(encoding: str, shape: Sequence[int], target: object = None) -> Layout:
        """The layout that an encoding gives a tile.

        Triton is asked in the worker process, since it aborts on some; the answer is kept.

        Args:
            encoding: as TTGIR writes it, with no aliases: "#ttg.slice<{dim = 1, parent = #ttg.blocked<{...}>}>".
            shape: of the tile, in elements.
            target: the GPU ("sm_90", "gfx942") that is to have such a layout; None asks for no GPU's approval.

        Raises:
            LayoutError: the encoding does not parse, the shape does not fit it, or the target has no such layout.
            TargetError: no such target.
        """
        if not isinstance(encoding, str):
            raise LayoutError(f"{encoding!r} is no encoding.", advice="Give it as text, as TTGIR writes it.")  # fmt: skip
        return _ask(encoding, _shape(shape), None if target is None else str(target))

    @staticmethod
    def blocked(
        *,
        shape: Sequence[int],
        size_per_thread: Sequence[int],
        threads_per_warp: Sequence[int],
        warps_per_cta: Sequence[int],
        order: Sequence[int],
    ) -> RegisterLayout:
        """Each thread holds a box of neighbours, each warp a box of those, the program a box of these; then it repeats.

        Args:
            shape: of the tile.
            size_per_thread, threads_per_warp, warps_per_cta: the boxes, by dimension.
            order: the dimensions, the fastest first.

        Raises LayoutError, here as in all that follow: what is given does not fit together.
        """
        return _registers(
            "ttg.blocked<{"
            f"sizePerThread = {_list(size_per_thread)}, threadsPerWarp = {_list(threads_per_warp)}, "
            f"warpsPerCTA = {_list(warps_per_cta)}, order = {_list(order)}}}>",
            shape,
        )

    @staticmethod
    def slice(*, shape: Sequence[int], dim: int, parent: Layout) -> RegisterLayout:
        """The parent's layout without its dimension `dim`: what a reduction along it leaves."""
        return _registers(f"ttg.slice<{{dim = {dim}, parent = {_encoding(parent)}}}>", shape)

    @staticmethod
    def dot_operand(
        *, shape: Sequence[int], operand: int, parent: Layout, k_width: int = 0
    ) -> RegisterLayout:
        """A matrix product's operand in registers.

        Args:
            shape: of the operand.
            operand: 0 for A, 1 for B.
            parent: the product's own layout.
            k_width: neighbours along K that a thread holds side by side; for mma.sync 32 over the element's bits.
        """
        width = f", kWidth = {k_width}" if k_width else ""
        return _registers(
            f"ttg.dot_op<{{opIdx = {operand}, parent = {_encoding(parent)}{width}}}>", shape
        )

    @staticmethod
    def nvidia_mma(
        *,
        shape: Sequence[int],
        version: int,
        warps_per_cta: Sequence[int],
        instruction_shape: Sequence[int],
    ) -> RegisterLayout:
        """The result of mma.sync (version 2, instruction shape [16, 8]) or wgmma (version 3, [16, N, K]: one warp's part).

        Blackwell's products (version 5) lie in tensor memory: `Layout.tensor_memory`.
        """
        return _registers(
            f"ttg.nvidia_mma<{{versionMajor = {version}, versionMinor = 0, "
            f"warpsPerCTA = {_list(warps_per_cta)}, instrShape = {_list(instruction_shape)}}}>",
            shape,
        )

    @staticmethod
    def amd_mfma(
        *,
        shape: Sequence[int],
        version: int,
        warps_per_cta: Sequence[int],
        instruction_shape: Sequence[int],
        is_transposed: bool = False,
    ) -> RegisterLayout:
        """The result of a CDNA matrix instruction: version 2 is gfx90a, 3 gfx942, 4 gfx950; instruction shape [M, N, K]."""
        return _registers(
            f"ttg.amd_mfma<{{version = {version}, warpsPerCTA = {_list(warps_per_cta)}, "
            f"instrShape = {_list(instruction_shape)}, isTransposed = {_word(is_transposed)}}}>",
            shape,
        )

    @staticmethod
    def amd_wmma(
        *,
        shape: Sequence[int],
        version: int,
        warp_bases: Sequence[Sequence[int]] = (),
        is_transposed: bool = False,
    ) -> RegisterLayout:
        """The 16x16 result of an RDNA matrix instruction: version 1 is gfx11, 2 gfx12.

        `warp_bases` says, bit by bit of the warp's number, how many instructions further its part lies. Triton 3.6 spells this
        encoding in another way: there, `parse` it.
        """
        return _registers(
            f"ttg.amd_wmma<{{version = {version}, isTranspose = {_word(is_transposed)}, "
            f"ctaLayout = {{warp = {_lists(warp_bases)}}}}}>",
            shape,
        )

    @staticmethod
    def linear(
        *,
        shape: Sequence[int],
        register: Sequence[Sequence[int]],
        lane: Sequence[Sequence[int]],
        warp: Sequence[Sequence[int]] = (),
        block: Sequence[Sequence[int]] = (),
    ) -> RegisterLayout:
        """Any linear layout of registers, by its basis vectors."""
        return _registers(
            f"ttg.linear<{{register = {_lists(register)}, lane = {_lists(lane)}, "
            f"warp = {_lists(warp)}, block = {_lists(block)}}}>",
            shape,
        )

    @staticmethod
    def swizzled_shared(
        *, shape: Sequence[int], vector: int, per_phase: int, max_phase: int, order: Sequence[int]
    ) -> SharedLayout:
        """Shared memory whose rows are cut into vectors of `vector` elements, permuted by XOR with the row.

        Args:
            shape: of the tile.
            vector: elements that stay together.
            per_phase: rows in a sequence that are permuted alike.
            max_phase: how many permutations there are; 1 for none.
            order: the dimensions, the fastest first.
        """
        return _shared(
            f"ttg.swizzled_shared<{{vec = {vector}, perPhase = {per_phase}, maxPhase = {max_phase}, "
            f"order = {_list(order)}}}>",
            shape,
        )

    @staticmethod
    def amd_rotating_shared(
        *, shape: Sequence[int], vector: int, per_phase: int, max_phase: int, order: Sequence[int]
    ) -> SharedLayout:
        """As `swizzled_shared`, and after each `max_phase` rows (times `per_phase`) the permutations are others."""
        return _shared(
            f"ttg.amd_rotating_shared<{{vec = {vector}, perPhase = {per_phase}, "
            f"maxPhase = {max_phase}, order = {_list(order)}}}>",
            shape,
        )

    @staticmethod
    def nvmma_shared(
        *,
        shape: Sequence[int],
        swizzling_byte_width: int,
        element_bit_width: int,
        transposed: bool = False,
    ) -> SharedLayout:
        """Shared memory as TMA writes it and wgmma and tcgen05 read it, swizzled over 0, 32, 64 or 128 bytes."""
        return _shared(
            f"ttg.nvmma_shared<{{swizzlingByteWidth = {swizzling_byte_width}, "
            f"transposed = {_word(transposed)}, elementBitWidth = {element_bit_width}}}>",
            shape,
        )

    @staticmethod
    def padded_shared(
        *, shape: Sequence[int], paddings: Sequence[tuple[int, int]], order: Sequence[int]
    ) -> SharedLayout:
        """Shared memory with room left free: after every `interval` elements `padding` of them, for each pair given."""
        pairs = ", ".join(f"{interval}:+{padding}" for interval, padding in paddings)
        return _shared(
            f"ttg.padded_shared<[{pairs}] {{order = {_list(order)}, shape = {_list(shape)}}}>",
            shape,
        )

    @staticmethod
    def shared_linear(
        *,
        shape: Sequence[int],
        offset: Sequence[Sequence[int]],
        block: Sequence[Sequence[int]] = (),
        alignment: int = 16,
    ) -> SharedLayout:
        """Any linear layout of shared memory, by its basis vectors; the alignment is in bytes."""
        blocks = f", block = {_lists(block)}" if block else ""
        return _shared(
            f"ttg.shared_linear<{{offset = {_lists(offset)}{blocks}}}, alignment = {alignment}>",
            shape,
        )

    @staticmethod
    def tensor_memory(
        *, shape: Sequence[int], block_m: int, block_n: int, column_stride: int = 1
    ) -> TensorMemoryLayout:
        """Blackwell's tensor memory, in blocks of `block_m` rows (64 or 128) and `block_n` columns.

        `column_stride` is 1 for elements that lie side by side, and 32 over their bits for narrow ones with a column each.
        """
        made = Layout.parse(
            f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, "
            f"colStride = {column_stride}>",
            shape,
        )
        assert isinstance(made, TensorMemoryLayout)
        return made


@dataclass(frozen=True)
class RegisterLayout(Layout):
    """A tile in the registers of a program's threads.

    Registers count the elements of the tile that a thread holds, not 32-bit registers of the hardware: two fp16 elements share one
    of those. A register that always repeats another one is left out.
    """

    register: Bases
    lane: Bases
    warp: Bases
    block: Bases

    @property
    def bases(self) -> Mapping[str, Bases]:
        """Input -> its basis vectors."""
        return {
            "register": self.register,
            "lane": self.lane,
            "warp": self.warp,
            "block": self.block,
        }

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
        """The index of every register's element: int64 of shape (blocks, warps, lanes, registers, rank)."""
        return self._indices(self.all_numbers())

    def all_numbers(self) -> Numbers:
        """As `all_elements`, the elements by their numbers, the last dimension fastest: shape (blocks, warps, lanes, registers)."""
        shape = (self.blocks, self.warps, self.lanes, self.registers_per_thread)
        return self._element_numbers.reshape(shape)

    def holders(self, index: Sequence[int]) -> tuple[Holder, ...]:
        """Every register that holds the element at `index`, by block, warp, lane and register.

        Raises:
            LayoutError: the tile has no such element.
        """
        return tuple(Holder(*row) for row in self._split(self._inputs_of(index)).tolist())

    def all_holders(self) -> Numbers:
        """The holders of every element: int64 of shape (*shape, replication, 4), the last axis as in `Holder`."""
        return self._split(self._inputs_by_element).reshape(*self.shape, -1, 4)

    def threads(self, index: Sequence[int]) -> tuple[int, ...]:
        """The threads that hold the element at `index`, by their numbers in the program, in order."""
        held = self.holders(index)
        return tuple(
            sorted({(one.block * self.warps + one.warp) * self.lanes + one.lane for one in held})
        )

    @property
    def contiguous(self) -> tuple[int, ...]:
        """By dimension: how many neighbours one thread holds in each aligned run."""
        return tuple(self._run(self.register, dim) for dim in range(len(self.shape)))

    @property
    def order(self) -> tuple[int, ...]:
        """The dimensions, the fastest first: in the order in which registers, then lanes, warps and blocks go along them."""
        vectors = [vector for vectors in self.bases.values() for vector in vectors]
        along = [dim for vector in vectors for dim, step in enumerate(vector) if step]
        rest = reversed(range(len(self.shape)))
        return tuple(dict.fromkeys([*along, *rest]))

    def vector_width(self, element_bits: int, most_bits: int = 128) -> int:
        """Elements that one access of a thread could take at once, if memory is contiguous along the fastest dimension.

        Args:
            element_bits: size of an element.
            most_bits: of the widest access.
        """
        if not self.shape:
            return 1
        return max(1, min(self.contiguous[self.order[0]], most_bits // element_bits))

    def _run(self, vectors: Bases, dim: int) -> int:
        """The aligned run of neighbours along a dimension that some vectors span."""
        run = 1
        while self._unit(dim, run) in vectors:
            run *= 2
        return run

    def _unit(self, dim: int, step: int) -> Vector:
        return tuple(step if d == dim else 0 for d in range(len(self.shape)))

    def describe(self) -> str:
        """The layout in words."""
        blocks = f"{self.blocks} blocks of " if self.blocks > 1 else ""
        lines = [
            f"{self._title()}: {_FAMILIES.get(self.family, 'threads hold its elements')}.",
            f"{blocks}{_count(self.warps, 'warp')} of {_count(self.lanes, 'lane')}; "
            f"each thread holds {_count(self.registers_per_thread, 'element')}{self._runs()}.",
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
            moved = {tuple(a ^ b for a, b in zip(one, vector)) for one in positions}
            positions |= moved
        different = [len({one[dim] for one in positions}) for dim in range(len(self.shape))]
        many = {"lane": "The lanes of a warp", "warp": "The warps"}[name]
        return f"{many} lie at {sizes(different)} positions"

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
        """Which threads hold which element: "Layout(0,0)={0,4}, (0,1)={1,5}, ..." for a tile of at most 64 elements.

        Of a larger tile the first rows and columns, one cell an element: "T12:3" is register 3 of thread 12, the first that holds it.
        """
        if self.element_count <= _MOST_PICTURED:
            cells = [
                f"({','.join(map(str, index))})={{{','.join(map(str, self.threads(index)))}}}"
                for index in numpy.ndindex(self.shape)
            ]
            return f"Layout{', '.join(cells)}"
        rows = self.cells(8, 8)
        width = max(len(cell) for row in rows for cell in row)
        return "\n".join(" ".join(cell.ljust(width) for cell in row).rstrip() for row in rows)

    def cells(self, most_rows: int, most_columns: int) -> list[list[str]]:
        """The tile's first rows and columns (of more than two dimensions, at index 0 of the leading ones): "T12:3" for thread and register."""
        plane = self.all_holders()[..., 0, :]
        while plane.ndim > 3:
            plane = plane[0]
        if plane.ndim < 3:
            plane = plane.reshape(1, -1, 4)
        plane = plane[:most_rows, :most_columns]
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
    """Of the buffer's first byte, in bytes; 16 where the encoding asks for nothing."""
    paddings: tuple[tuple[int, int], ...] = ()
    """(interval, padding): after every `interval` elements, `padding` are left free."""

    @property
    def bases(self) -> Mapping[str, Bases]:
        """Input -> its basis vectors."""
        return {"offset": self.offset, "block": self.block}

    @property
    def size(self) -> int:
        """Elements from the first to the last, padding between them included."""
        return int(self._padded(self._size("offset") - 1)) + 1

    def elements(self, offset: ArrayLike, block: ArrayLike = 0) -> Numbers:
        """The indices of the elements at offsets (in elements, padding included): int64 of shape (*broadcast shape, rank).

        Raises:
            LayoutError: an offset past the end, or one that padding leaves free.
        """
        asked = numpy.asarray(offset, numpy.int64)
        taken = self._padded(numpy.arange(self._size("offset")))
        plain = numpy.searchsorted(taken, asked)
        free = (plain >= len(taken)) | (taken[numpy.minimum(plain, len(taken) - 1)] != asked)
        if free.any():
            first = int(numpy.atleast_1d(asked)[numpy.atleast_1d(free)][0])
            raise LayoutError(f"A {self} has nothing at offset {first}.")
        return self._elements(offset=plain, block=block)

    def holders(self, index: Sequence[int]) -> tuple[SharedPlace, ...]:
        """The places of the element at `index`: one, but for a layout that keeps copies.

        Raises:
            LayoutError: the tile has no such element.
        """
        split = self._split(self._inputs_of(index))
        split[:, 0] = self._padded(split[:, 0])
        return tuple(SharedPlace(*row) for row in split.tolist())

    def offsets(self) -> Numbers:
        """The offset of every element's first place, in elements: int64 of the tile's shape."""
        first = self._inputs_by_element[:, 0] % self._size("offset")
        return self._padded(first).reshape(self.shape)

    def _padded(self, offsets: ArrayLike) -> Numbers:
        plain = numpy.asarray(offsets, numpy.int64)
        free = sum(plain // interval * padding for interval, padding in self.paddings)
        return numpy.asarray(plain + free)

    def describe(self) -> str:
        """The layout in words."""
        lines = [
            f"{self._title()} in shared memory: {_FAMILIES.get(self.family, 'a tile')}.",
            f"{self.size} elements from first to last.",
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

    @property
    def bases(self) -> Mapping[str, Bases]:
        """Input -> its basis vectors."""
        return {"row": self.row, "column": self.column}

    def elements(self, row: ArrayLike, column: ArrayLike) -> Numbers:
        """The indices of the elements at rows and columns: int64 of shape (*broadcast shape, rank)."""
        return self._elements(row=row, column=column)

    def holders(self, index: Sequence[int]) -> tuple[TensorMemoryPlace, ...]:
        """The places of the element at `index`: several where it fills several columns, or where rows lie idle beside it.

        Raises:
            LayoutError: the tile has no such element.
        """
        return tuple(
            TensorMemoryPlace(*row) for row in self._split(self._inputs_of(index)).tolist()
        )

    def describe(self) -> str:
        """The layout in words."""
        return (
            f"{self._title()}: {_FAMILIES[self.family]}.\n"
            f"It takes {_count(self._size('row'), 'row')} and {_count(self._size('column'), 'column')}, "
            f"in units of one element."
        )


_FAMILIES = {
    "blocked": "each thread holds a box of neighbours, each warp a box of those, the program a box of these",
    "slice": "another layout without one of its dimensions, as a reduction leaves it",
    "dot_op": "an operand of a matrix product, in the registers where the instruction takes it from",
    "nvidia_mma": "the result of mma.sync or wgmma, in the registers where the instruction leaves it",
    "amd_mfma": "the result of a CDNA matrix instruction, in the registers where it leaves it",
    "amd_wmma": "the result of an RDNA matrix instruction, in the registers where it leaves it",
    "linear": "a layout by its basis vectors alone",
    "swizzled_shared": "rows whose vectors are permuted by XOR, against bank conflicts",
    "amd_rotating_shared": "rows whose vectors are permuted by XOR, otherwise in each block of rows, against bank conflicts",
    "nvmma_shared": "as TMA writes it and the matrix units read it",
    "padded_shared": "rows with room between them, against bank conflicts",
    "shared_linear": "a layout by its basis vectors alone",
    "tensor_memory": "rows and columns of Blackwell's tensor memory",
    "tensor_memory_scales": "the scales of a scaled matrix product in tensor memory",
}
"""What each family is, in words."""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# Asking for a layout made by hand


@cache
def _ask(encoding: str, shape: Shape, target: str | None) -> Layout:
    try:
        made: Layout = worker.call(_MAKER, encoding, shape, target)
    except WorkerError as death:
        if not death.died:
            raise
        said = _assertion(death.last_words)
        raise LayoutError(
            f"Triton has no layout of a tile of {sizes(shape)} for {encoding}: asked for one, it ended its process"
            + (f", and said: {said}." if said else "."),
            advice="The encoding does not fit the shape, or no GPU has such a layout.",
        ) from death
    return made


def _assertion(words: str) -> str:
    """What an aborting process says, without where in Triton's sources it says so; "" where it says nothing."""
    found = re.search(r"Assertion [`'](.*)' failed|(?:LLVM ERROR|error): (.*)", words)
    return (found[1] or found[2]) if found else ""


def _shape(given: object) -> Shape:
    """A shape that somebody gave, as whole numbers."""
    try:
        return tuple(operator.index(size) for size in cast(Any, given))
    except TypeError:
        raise LayoutError(
            f"{given!r} is no shape of a tile.",
            advice="Give its sizes as whole numbers: (128, 64).",
        ) from None


def _encoding(parent: object) -> str:
    if not isinstance(parent, Layout):
        raise LayoutError(
            f"The parent is {parent!r}, and has to be a layout.",
            advice="Layout.parse and the constructors make one.",
        )
    return parent.encoding


def _registers(encoding: str, shape: Sequence[int]) -> RegisterLayout:
    made = Layout.parse(f"#{encoding}", shape)
    assert isinstance(made, RegisterLayout)
    return made


def _shared(encoding: str, shape: Sequence[int]) -> SharedLayout:
    made = Layout.parse(f"#{encoding}", shape)
    assert isinstance(made, SharedLayout)
    return made


def _list(numbers: Sequence[int]) -> str:
    return f"[{', '.join(str(number) for number in numbers)}]"


def _lists(vectors: Sequence[Sequence[int]]) -> str:
    return f"[{', '.join(_list(vector) for vector in vectors)}]"


def _word(boolean: bool) -> str:
    return "true" if boolean else "false"
