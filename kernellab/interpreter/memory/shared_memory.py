"""Memory on the chip, shared and tensor memory alike:
what generated code calls for TTGIR's memory descriptors.

An allocation is one array, programs first, and a memory descriptor is a view of it. Layouts say
where the hardware puts an element; here every element is in its place already. All that a kernel
reads and writes on the chip passes through `load`, `operand` and `store`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.numerics.tiles import (
    Active,
    Composite,
    Value,
    first_active,
    full,
    merge,
)

Choice = int | numpy.ndarray
"""An index that all programs take, or an array with one entry a program."""


@dataclass
class BufferOutsideAllocation(Exception):
    """A buffer that an allocation does not have, in the terms of one batch;
    the launch adds kernel line and program.
    """

    index: int
    extent: int
    program: int
    """Position of the program in the batch; the first that takes part,
    where all ask for the same."""


class SharedTile(Composite):
    """A memory descriptor: for each program of the batch, a tile in its own memory.

    Attributes:
        memory: what the tile is chosen from, a view of an allocation, shape (programs,
            *choices, *tile).
        chosen: which index each program takes along each dimension of choices.
    """

    def __init__(self, memory: numpy.ndarray, chosen: tuple[Choice, ...] = ()) -> None:
        self.memory = memory
        self.chosen = chosen

    @property
    def shape(self) -> tuple[int, ...]:
        """The tile's shape, programs left out."""
        return self.memory.shape[1 + len(self.chosen) :]

    @property
    def nbytes(self) -> int:
        """The size of one program's tile."""
        return int(numpy.prod(self.shape)) * self.memory.itemsize

    def read(self) -> numpy.ndarray:
        """The tile of every program, shape (programs, *tile):
        in place where all chose alike, else a copy.
        """
        tile: numpy.ndarray = self.memory[self._place()]
        return tile

    def write(self, value: Value, active: Active) -> None:
        """Overwrite the tile of the active programs."""
        stored = full(value, self.shape)
        if active is None:
            self.memory[self._place()] = stored
            return
        programs = numpy.flatnonzero(active)
        if stored.ndim > len(self.shape):
            stored = numpy.broadcast_to(stored, (len(active), *self.shape))[programs]
        chosen = (c if isinstance(c, int) else c[programs] for c in self.chosen)
        self.memory[(programs, *chosen)] = stored

    def _place(self) -> tuple[Any, ...]:
        if all(isinstance(choice, int) for choice in self.chosen):
            return (slice(None), *self.chosen)
        return (numpy.arange(len(self.memory)), *self.chosen)

    def merged(self, old: Any, active: Active) -> SharedTile:
        """This tile for active programs, `old` for the others; both are tiles of one allocation, or
        `old` is what stands for any value.
        """
        if not isinstance(old, SharedTile):
            return self
        if self.memory.__array_interface__ != old.memory.__array_interface__:
            raise UnsupportedOperation(
                "programs that run together hold tiles of different allocations in one variable"
            )
        chosen = (merge(active, mine, theirs, 0) for mine, theirs in zip(self.chosen, old.chosen))
        return SharedTile(self.memory, tuple(chosen))


# Allocations


def allocate(programs: int, shape: tuple[int, ...], dtype: numpy.dtype) -> SharedTile:
    """Memory for a tile, its bytes all ones: NaN in every type of float,
    so that reading before writing shows.
    """
    size = int(numpy.prod(shape)) * dtype.itemsize
    memory = numpy.full((programs, size), 0xFF, numpy.uint8).view(dtype)
    return SharedTile(memory.reshape(programs, *shape))


def allocate_with(programs: int, shape: tuple[int, ...], value: Value) -> SharedTile:
    """Memory that holds a tile already."""
    tile = full(value, shape)
    return SharedTile(numpy.array(numpy.broadcast_to(tile, (programs, *shape))))


# Reading and writing


def load(tile: SharedTile) -> numpy.ndarray:
    """The tile of every program, as a copy: what is written later does not change it."""
    value = tile.read()
    return value.copy() if value.base is not None else value


def operand(tile: SharedTile) -> numpy.ndarray:
    """The tile as a matrix instruction reads it: in place, to be used at once."""
    return tile.read()


def store(tile: SharedTile, value: Value, active: Active = None) -> None:
    """Write a tile, for the active programs."""
    tile.write(value, active)


def gather(tile: SharedTile, indices: Value, axis: int, shape: tuple[int, ...]) -> numpy.ndarray:
    """result[..., i, ...] = tile[..., indices[..., i, ...], ...] along `axis` (negative);
    `shape` is the indices'.
    """
    data = tile.read()
    index = numpy.broadcast_to(full(indices, shape), (len(data), *shape))
    return numpy.take_along_axis(data, index.astype(numpy.int64), axis)


def scatter(
    tile: SharedTile,
    value: Value,
    indices: Value,
    axis: int,
    shape: tuple[int, ...],
    active: Active = None,
) -> None:
    """tile[..., indices[..., i, ...], ...] = value[..., i, ...] along `axis` (negative);
    `shape` is the indices'.
    """
    data = numpy.array(tile.read())
    index = numpy.broadcast_to(full(indices, shape), (len(data), *shape)).astype(numpy.int64)
    numpy.put_along_axis(data, index, numpy.broadcast_to(full(value, shape), index.shape), axis)
    tile.write(data, active)


# Views


def index(tile: SharedTile, position: Value, active: Active = None) -> SharedTile:
    """One of the tiles along the first dimension.

    Raises:
        BufferOutsideAllocation: an active program asks for one that is not there.
    """
    positions = numpy.asarray(position)
    extent = tile.shape[0]
    outside = (positions < 0) | (positions >= extent)
    if outside.any():
        positions = _checked_positions(positions, outside, extent, active)
    choice = int(positions.flat[0]) if (positions == positions.flat[0]).all() else positions
    return SharedTile(tile.memory, (*tile.chosen, choice))


def _checked_positions(
    positions: numpy.ndarray, outside: numpy.ndarray, extent: int, active: Active
) -> numpy.ndarray:
    """The positions, those of programs that do not take part moved inside."""
    faulty = outside if active is None else outside & active
    if faulty.any():
        program = int(numpy.argmax(faulty)) if positions.ndim else first_active(active)
        position = int(
            numpy.broadcast_to(positions, faulty.shape).flat[program if positions.ndim else 0]
        )
        raise BufferOutsideAllocation(position, extent, program)
    inside: numpy.ndarray = numpy.clip(positions, 0, extent - 1)
    return inside


def subslice(tile: SharedTile, offsets: tuple[int, ...], shape: tuple[int, ...]) -> SharedTile:
    """The box of `shape` that begins at `offsets`."""
    box: tuple[Any, ...] = tuple(slice(at, at + size) for at, size in zip(offsets, shape))
    return SharedTile(tile.memory[(..., *box)], tile.chosen)


def permute(tile: SharedTile, order: tuple[int, ...]) -> SharedTile:
    """Dimension `d` of the result is dimension `order[d]` of the tile."""
    front = 1 + len(tile.chosen)
    axes = (*range(front), *(front + d for d in order))
    return SharedTile(tile.memory.transpose(axes), tile.chosen)


def reshape(tile: SharedTile, shape: tuple[int, ...]) -> SharedTile:
    """The same elements, in order, in another shape."""
    front = tile.memory.shape[: 1 + len(tile.chosen)]
    return SharedTile(_reshaped(tile.memory, (*front, *shape)), tile.chosen)


def reinterpret(tile: SharedTile, shape: tuple[int, ...], dtype: numpy.dtype) -> SharedTile:
    """The same bytes, row after row, as a tile of another type; it may be smaller."""
    front = tile.memory.shape[: 1 + len(tile.chosen)]
    flat = _reshaped(tile.memory, (*front, -1)).view(dtype)
    return SharedTile(_reshaped(flat[..., : int(numpy.prod(shape))], (*front, *shape)), tile.chosen)


def _reshaped(memory: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    reshaped = memory.reshape(shape)
    if reshaped.size and not numpy.may_share_memory(reshaped, memory):
        raise UnsupportedOperation(
            "a view of shared memory whose elements do not follow each other"
        )
    return reshaped
