"""Tensor descriptors: blocks of a tensor by the coordinates of their first element.

What is outside the tensor is padding when it is loaded, and left alone when it is stored to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.affine import AffineTile, BoxMask, End, base_of, cut
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import Addressed, Buffer
from kernellab.interpreter.memory.global_memory import Memory
from kernellab.interpreter.numerics import round_to_tf32
from kernellab.interpreter.tiles import Active, Composite, Value, full, merge, narrowed, reshape

Block = tuple[int, ...]
"""Sizes of a block along the descriptor's dimensions."""


@dataclass(frozen=True, eq=False)
class Descriptor(Composite):
    """A tensor in memory, seen block by block; every number may differ from program to program.

    Attributes:
        buffer: the argument that the tensor is in, or whatever is at an address.
        dtype: of its elements.
        start: offset of its first element from the start of the argument, or its address.
        shape, strides: in elements, dimension by dimension.
        pads_with_nan: whether elements outside are NaN instead of 0.
        rounds_to_tf32: whether loaded float32 numbers are rounded to tf32, as the
            copy engine can do.
    """

    buffer: Buffer | Addressed
    dtype: numpy.dtype
    start: Value
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    pads_with_nan: bool = False
    rounds_to_tf32: bool = False

    def __repr__(self) -> str:
        """The text that a debugger shows."""
        place = self.buffer.name if isinstance(self.buffer, Buffer) else f"address {self.start}"
        shape, strides = (tuple(map(str, sizes)) for sizes in (self.shape, self.strides))
        return (
            f"<descriptor of {place}: {self.dtype}[{', '.join(shape)}], strides "
            f"({', '.join(strides)})>"
        )

    def merged(self, old: Any, active: Active) -> Descriptor:
        """This descriptor for active programs, `old` for the others; both see the same argument."""
        if self._kind() != old._kind():
            raise UnsupportedOperation(
                "The interpreter does not support a tensor descriptor that refers to different "
                "arguments in different programs.",
                advice="Load from both descriptors, and choose between the tiles.",
            )
        return Descriptor(
            self.buffer,
            self.dtype,
            merge(active, self.start, old.start, 0),
            tuple(merge(active, new, was, 0) for new, was in zip(self.shape, old.shape)),
            tuple(merge(active, new, was, 0) for new, was in zip(self.strides, old.strides)),
            self.pads_with_nan,
            self.rounds_to_tf32,
        )

    def _kind(self) -> tuple[Any, ...]:
        argument = id(self.buffer.tensor) if isinstance(self.buffer, Buffer) else None
        return argument, self.dtype, self.pads_with_nan, self.rounds_to_tf32

    @property
    def padding(self) -> Value:
        """The value of an element outside."""
        return numpy.asarray(numpy.nan if self.pads_with_nan else 0).astype(self.dtype)

    @property
    def unit(self) -> int:
        """How much one element adds to an offset, which is in bytes for a tensor by address."""
        return 1 if isinstance(self.buffer, Buffer) else self.dtype.itemsize


def load(
    descriptor: Descriptor,
    indices: tuple[Value, ...],
    block: Block,
    shape: tuple[int, ...],
    active: Active = None,
    through: Memory = global_memory,
) -> Value:
    """The block whose first element has the coordinates `indices`, as a tile of `shape`;
    read through that memory.

    Raises:
        OutOfBoundsAccess: an element inside the descriptor's shape is outside the storage.
    """
    offsets, mask = box(descriptor, indices, block)
    padding = descriptor.padding
    value = through.load(
        descriptor.buffer, offsets, len(block), mask=mask, other=padding, active=active
    )
    value = value if shape == block else reshape(value, block, shape)
    return round_to_tf32(value, ties_to_even=True) if descriptor.rounds_to_tf32 else value


def store(
    descriptor: Descriptor,
    indices: tuple[Value, ...],
    value: Value,
    block: Block,
    shape: tuple[int, ...],
    active: Active = None,
    through: Memory = global_memory,
) -> None:
    """Write a tile of `shape` to the block at `indices`, program after program.

    Raises:
        OutOfBoundsAccess, ReadOnlyStore: as for `memory.store`.
    """
    offsets, mask = box(descriptor, indices, block)
    value = value if shape == block else reshape(value, shape, block)
    through.store(descriptor.buffer, offsets, len(block), value, mask=mask, active=active)


def reduce(
    operation: str,
    descriptor: Descriptor,
    indices: tuple[Value, ...],
    value: Value,
    block: Block,
    shape: tuple[int, ...],
    programs: int,
    active: Active = None,
    through: Memory = global_memory,
) -> None:
    """Combine the block at `indices` with a tile of `shape`, program after program;
    `operation` as for `memory.atomic`.
    """
    offsets, mask = box(descriptor, indices, block)
    through.atomic(
        descriptor.buffer,
        offsets,
        len(block),
        operation,
        reshape(value, shape, block),
        block,
        programs,
        mask=mask,
        active=active,
        wanted=False,
    )


def gather(
    descriptor: Descriptor,
    rows: Value,
    column: Value,
    shape: Block,
    active: Active = None,
    through: Memory = global_memory,
) -> Value:
    """A tile of `shape`: the given rows of a descriptor of two dimensions, from `column` on."""
    offsets, mask = rows_of(descriptor, rows, column, shape)
    padding = descriptor.padding
    value = through.load(descriptor.buffer, offsets, 2, mask=mask, other=padding, active=active)
    return round_to_tf32(value, ties_to_even=True) if descriptor.rounds_to_tf32 else value


def scatter(
    descriptor: Descriptor,
    rows: Value,
    column: Value,
    value: Value,
    shape: Block,
    active: Active = None,
    through: Memory = global_memory,
) -> None:
    """Write a tile of `shape` to the given rows of a descriptor of two dimensions,
    from `column` on.
    """
    offsets, mask = rows_of(descriptor, rows, column, shape)
    through.store(descriptor.buffer, offsets, 2, value, mask=mask, active=active)


# Where a block is


def box(descriptor: Descriptor, indices: tuple[Value, ...], block: Block) -> tuple[Value, BoxMask]:
    """Offsets of a block's elements, and which of them are inside the tensor."""
    first = [_base(index) for index in indices]
    intervals = {
        dimension: (cut(-index, extent), cut(_base(size) - index, extent))
        for dimension, (index, size, extent) in enumerate(zip(first, descriptor.shape, block))
    }
    mask = BoxMask(intervals, block)
    if any(numpy.ndim(stride) for stride in descriptor.strides):
        return _offsets(descriptor, first, block), mask
    strides = [int(stride) * descriptor.unit for stride in descriptor.strides]
    base = _base(descriptor.start)
    for index, stride in zip(first, strides):
        base = _wrapped(base + index * stride)
    steps = tuple(stride * (extent > 1) for stride, extent in zip(strides, block))
    offsets = AffineTile(base_of(numpy.asarray(base)), steps, block, numpy.dtype(numpy.int64))
    return offsets, mask


def _offsets(descriptor: Descriptor, first: list[End], block: Block) -> Value:
    rank = len(block)
    total = _column(descriptor.start, rank)
    for dimension, (index, stride, extent) in enumerate(zip(first, descriptor.strides, block)):
        lanes = numpy.arange(extent).reshape((extent,) + (1,) * (rank - dimension - 1))
        total = total + (_column(index, rank) + lanes) * _column(stride, rank) * descriptor.unit
    return total


def rows_of(
    descriptor: Descriptor, rows: Value, column: Value, shape: Block
) -> tuple[Value, Value]:
    """Return offsets of separate rows, and which of their elements are inside the tensor."""
    row = full(rows, shape[:1]).astype(numpy.int64)[..., None]
    columns = _column(column, 2) + numpy.arange(shape[1])
    height, width = (_column(size, 2) for size in descriptor.shape)
    down, across = (_column(stride, 2) for stride in descriptor.strides)
    distance = (row * down + columns * across) * descriptor.unit
    offsets = _column(descriptor.start, 2) + distance
    return offsets, (row >= 0) & (row < height) & (columns >= 0) & (columns < width)


def _base(value: Value) -> End:
    """A scalar as Python's integer, one number for each program as an int64 array."""
    return int(value) if numpy.ndim(value) == 0 else numpy.asarray(value).astype(numpy.int64)


def _wrapped(offset: End) -> End:
    """An offset in 64 bits: ragged descriptors reach backwards by going round (`ragged_tma`)."""
    if isinstance(offset, int):
        return (offset + 2**63) % 2**64 - 2**63
    return offset


def _column(value: Value, rank: int) -> numpy.ndarray:
    """One number for each program, or one for all, with `rank` dimensions of extent 1 behind."""
    array = numpy.asarray(value, numpy.int64)
    return array.reshape(array.shape + (1,) * rank)


# Tensor descriptors that a kernel writes to global scratch memory, for the copy engine to read
# there.


SCRATCH = 1 << 62
"""The address of global scratch memory: no storage has one so large."""


class Tensormaps:
    """The descriptors that the programs of one batch have written, by address:
    each program has separate scratch memory, all at one place.
    """

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._written: dict[int, Descriptor] = {}

    def write(self, address: Value, descriptor: Descriptor, active: Active = None) -> None:
        for place, writing in self._places(address, active):
            before = self._written.get(place)
            merged = descriptor if before is None else descriptor.merged(before, writing)
            self._written[place] = merged

    def read(self, address: Value, active: Active = None) -> Descriptor:
        """The descriptor that the active programs have there."""
        read: Descriptor | None = None
        for place, reading in self._places(address, active):
            if place not in self._written:
                raise UnsupportedOperation(
                    "The interpreter reads only tensor descriptors that this kernel wrote."
                )
            descriptor = self._written[place]
            read = descriptor if read is None else descriptor.merged(read, reading)
        assert read is not None, "somebody reads"
        return read

    def _places(self, address: Value, active: Active) -> list[tuple[int, numpy.ndarray]]:
        """(address, which programs mean it) for each address that an active program has."""
        taking_part = narrowed(active, True, self._programs)
        addresses = numpy.broadcast_to(numpy.asarray(address), taking_part.shape)
        return [
            (int(place), taking_part & (addresses == place))
            for place in numpy.unique(addresses[taking_part])
        ]
