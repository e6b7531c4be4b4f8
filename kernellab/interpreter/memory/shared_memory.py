"""Memory on the chip, shared and tensor memory alike, and its barriers:
what generated code calls for TTGIR's memory descriptors.

An allocation is one array, programs first, and a memory descriptor is a view of it. Layouts say
where the hardware puts an element; here every element is in its place already. All that a kernel
reads and writes on the chip passes through `load`, `operand` and `store`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy

from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.tiles import (
    Active,
    Composite,
    Value,
    first_active,
    full,
    merge,
    narrowed,
)

Choice = int | numpy.ndarray
"""An index that all programs take, or an array with one entry for each program."""


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


@dataclass
class Allocation:
    """The state that all views of an allocation share.

    Attributes:
        arrivals: the arrivals that barriers in it still wait for; see `asynchrony`.
        writes: how often it was written.
        place: if known, where it begins in the program's shared memory, in bytes, minus where it
            begins here, for each program; and its name.
    """

    arrivals: list[Any] = field(default_factory=list)
    writes: int = 0
    place: tuple[numpy.ndarray, str] | None = None


class SharedTile(Composite):
    """A memory descriptor: for each program of the batch, a tile in its own memory.

    Attributes:
        memory: what the tile is chosen from, a view of an allocation, shape (programs,
            *choices, *tile).
        chosen: which index each program takes along each dimension of choices.
        allocation: what it shares with the other views of its allocation.
    """

    def __init__(
        self,
        memory: numpy.ndarray,
        chosen: tuple[Choice, ...] = (),
        allocation: Allocation | None = None,
    ) -> None:
        self.memory = memory
        self.chosen = chosen
        self.allocation = Allocation() if allocation is None else allocation

    @property
    def arrivals(self) -> list[Any]:
        """The arrivals that barriers in its allocation still wait for."""
        return self.allocation.arrivals

    @property
    def shape(self) -> tuple[int, ...]:
        """The tile's shape, programs left out."""
        return self.memory.shape[1 + len(self.chosen) :]

    @property
    def nbytes(self) -> int:
        return int(numpy.prod(self.shape)) * self.memory.itemsize

    def read(self) -> numpy.ndarray:
        """The tile of every program, shape (programs, *tile):
        in place where all chose alike, else a copy.
        """
        tile: numpy.ndarray = self.memory[self._place()]
        return tile

    def write(self, value: Value, active: Active) -> None:
        """Overwrite the tile of the active programs."""
        self.allocation.writes += 1
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
                "Programs that run together hold tiles of different allocations in one variable."
            )
        chosen = (merge(active, mine, theirs, 0) for mine, theirs in zip(self.chosen, old.chosen))
        return self.view(self.memory, tuple(chosen))

    def view(self, memory: numpy.ndarray, chosen: tuple[Choice, ...]) -> SharedTile:
        return SharedTile(memory, chosen, self.allocation)

    @functools.cached_property
    def addresses(self) -> numpy.ndarray:
        """Where the tile of each program begins, in bytes."""
        of_program, *of_choices = self.memory.strides
        start, *_ = self.memory.__array_interface__["data"]
        addresses: numpy.ndarray = start + numpy.arange(len(self.memory)) * of_program
        for choice, stride in zip(self.chosen, of_choices):
            addresses = addresses + numpy.asarray(choice, numpy.int64) * stride
        return addresses


# Allocations


def allocate(programs: int, shape: tuple[int, ...], dtype: numpy.dtype) -> SharedTile:
    """Memory for a tile, all bits set: floats are NaN, so reading before writing shows."""
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
    """One of the tiles along the first dimension. Raises BufferOutsideAllocation: an active program
    asks for one that is not there.
    """
    positions = numpy.asarray(position)
    extent = tile.shape[0]
    outside = (positions < 0) | (positions >= extent)
    if outside.any():
        positions = _checked_positions(positions, outside, extent, active)
    choice = int(positions.flat[0]) if (positions == positions.flat[0]).all() else positions
    return tile.view(tile.memory, (*tile.chosen, choice))


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
    return tile.view(tile.memory[(..., *box)], tile.chosen)


def permute(tile: SharedTile, order: tuple[int, ...]) -> SharedTile:
    """Dimension `d` of the result is dimension `order[d]` of the tile."""
    front = 1 + len(tile.chosen)
    axes = (*range(front), *(front + d for d in order))
    return tile.view(tile.memory.transpose(axes), tile.chosen)


def reshape(tile: SharedTile, shape: tuple[int, ...]) -> SharedTile:
    """The same elements, in order, in another shape."""
    front = tile.memory.shape[: 1 + len(tile.chosen)]
    return tile.view(_reshaped(tile.memory, (*front, *shape)), tile.chosen)


def reinterpret(tile: SharedTile, shape: tuple[int, ...], dtype: numpy.dtype) -> SharedTile:
    """The same bytes, row after row, as a tile of another type; it may be smaller."""
    front = tile.memory.shape[: 1 + len(tile.chosen)]
    flat = _reshaped(tile.memory, (*front, -1)).view(dtype)
    return tile.view(_reshaped(flat[..., : int(numpy.prod(shape))], (*front, *shape)), tile.chosen)


def reinterpret_columns(
    tile: SharedTile, shape: tuple[int, ...], dtype: numpy.dtype, step: int, new_step: int
) -> SharedTile:
    """The same columns of tensor memory as a tile of another type, or as several tiles side by
    side; an element is `step` times its size behind its neighbor, in the result `new_step` times.
    """
    *front, rows, columns = shape
    count = int(numpy.prod(front))
    if step > 1 or rows != tile.shape[-2] or (count > 1 and len(tile.shape) > 2):
        raise UnsupportedOperation(
            "The interpreter does not support a view of tensor memory with other rows."
        )
    memory = tile.memory.view(dtype)[..., : count * columns * new_step : new_step]
    if front:
        memory = numpy.moveaxis(memory.reshape(*memory.shape[:-1], *front, columns), -3, -2)
    return tile.view(memory, tile.chosen)


def _reshaped(memory: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    reshaped = memory.reshape(shape)
    if reshaped.size and not numpy.may_share_memory(reshaped, memory):
        raise UnsupportedOperation(
            "The interpreter does not support a view of shared memory with gaps."
        )
    return reshaped


# Barriers in shared memory (mbarriers): words that count arrivals and bytes, as on the hardware.
#
# A phase completes when every arrival has come and every byte that was announced is there; then
# the phase's parity flips and counting starts again (PTX ISA, mbarrier). The word of a barrier
# holds, from the lowest bit: the parity of the phase that is under way, the arrivals that are
# still missing, the arrivals of each phase, and the bytes that are still to come, which are
# negative if bytes arrive before they are announced.


_COUNT_BITS = 20
_COUNT = (1 << _COUNT_BITS) - 1
_LACKING = 1
_OF_EACH_PHASE = _LACKING + _COUNT_BITS
_BYTES = _OF_EACH_PHASE + _COUNT_BITS
"""Where each field begins."""


@dataclass
class PhaseNeverCompletes(Exception):
    """A wait for a phase that nothing can complete any more, in the terms of one batch."""

    phase: int
    arrivals: int
    """Arrivals that are missing in the phase."""
    bytes: int
    """Announced bytes that did not come."""
    program: int
    """Position of the program in the batch."""
    place: tuple[CodeType, int] | None = None
    """Of a group of warps, where in the generated code it waits."""
    others: tuple[PhaseNeverCompletes, ...] = ()
    """The waits of the program's other groups of warps."""


@dataclass
class ExtraArrivals(Exception):
    """More arrivals in a phase than the barrier counts, in the terms of one batch."""

    count: int
    """The arrivals of each phase."""
    program: int
    """Position of the program in the batch."""
    place: tuple[CodeType, int] | None = None
    """Where in the generated code an operation was issued that arrives later."""


@dataclass
class NoBarrier(Exception):
    """A barrier is used that is not initialized, one that is in use is invalidated, or one is
    initialized again, in the terms of one batch.
    """

    program: int
    """Position of the program in the batch."""
    in_use: bool = False
    again: bool = False


_NO_BARRIER = -1
"""The word of memory that is not initialized, and of a barrier that was invalidated."""


@dataclass(frozen=True)
class BarrierState:
    """The state of one barrier of one program.

    Attributes:
        phase: the parity of the phase that is under way.
        arrivals, count: the arrivals that are missing in it, and those of each phase.
        bytes: those that are announced and still to come.
    """

    phase: int
    arrivals: int
    count: int
    bytes: int

    def __repr__(self) -> str:
        missing = [f"{self.arrivals} of {self.count} arrivals"] if self.arrivals else []
        missing += [f"{self.bytes:,} bytes"] if self.bytes else []
        return f"mbarrier(phase {self.phase}, waits for {' and '.join(missing)})"


def barrier_states(barrier: SharedTile, program: int = 0) -> list[BarrierState | None]:
    """The states of the barriers of a program's tile; None if none is initialized."""
    return [
        None
        if word == _NO_BARRIER
        else BarrierState(
            word & 1, word >> _LACKING & _COUNT, word >> _OF_EACH_PHASE & _COUNT, word >> _BYTES
        )
        for word in barrier.read()[program].reshape(-1).tolist()
    ]


def initialize(barrier: SharedTile, count: int, active: Active = None) -> None:
    """A barrier whose every phase takes `count` arrivals; phase 0 is under way. Raises NoBarrier:
    an active program has one there, which the PTX ISA leaves undefined.
    """
    there = (load(barrier) != _NO_BARRIER).reshape(len(barrier.memory), -1).any(axis=1)
    there = narrowed(active, there, len(there))
    if there.any():
        raise NoBarrier(int(numpy.argmax(there)), again=True)
    word = count << _LACKING | count << _OF_EACH_PHASE
    store(barrier, numpy.full(barrier.shape, word, numpy.int64), active)


def invalidate(barrier: SharedTile, active: Active = None) -> None:
    """The memory may be used for something else. Raises NoBarrier: an active program has no barrier
    there.
    """
    _word(barrier, active)
    store(barrier, numpy.full(barrier.shape, _NO_BARRIER, numpy.int64), active)


def expect(barrier: SharedTile, size: int, active: Active = None) -> None:
    """One arrival, which announces `size` bytes."""
    _count(barrier, 1, size, active)


def arrive(barrier: SharedTile, count: int = 1, active: Active = None) -> None:
    _count(barrier, count, 0, active)


def receive(barrier: SharedTile, size: int, active: Active = None) -> None:
    """`size` of the bytes that are still to come are there."""
    _count(barrier, 0, -size, active)


def deliver(
    barrier: SharedTile, tile: SharedTile, value: Value, size: int, active: Active = None
) -> None:
    """A copy of `size` bytes into a tile, which the barrier counts."""
    store(tile, value, active)
    receive(barrier, size, active)


commit = count_copies = arrive
"""Arrive when the products of tensor cores, or the copies, that were issued before are done; with
no arrivals, only wait.
"""


def _word(barrier: SharedTile, active: Active) -> numpy.ndarray:
    """The word of each program's barrier. Raises NoBarrier: an active program has no barrier there,
    but nothing or other data.
    """
    word = load(barrier)
    count = word >> _OF_EACH_PHASE & _COUNT
    no_barrier = (word == _NO_BARRIER) | (count == 0) | ((word >> _LACKING & _COUNT) > count)
    if no_barrier.any():
        missing = narrowed(active, no_barrier.reshape(len(word), -1).any(axis=1), len(word))
        if missing.any():
            raise NoBarrier(int(numpy.argmax(missing)))
    return word


def _count(barrier: SharedTile, arrivals: int, size: int, active: Active) -> None:
    word = _word(barrier, active)
    lacking = (word >> _LACKING & _COUNT) - arrivals
    of_each_phase = word >> _OF_EACH_PHASE & _COUNT
    _check_fits(lacking, of_each_phase, active)
    to_come = (word >> _BYTES) + size
    done = (lacking == 0) & (to_come == 0)
    parity = (word & 1) ^ done
    lacking = numpy.where(done, of_each_phase, lacking) & _COUNT
    counted = parity | lacking << _LACKING | of_each_phase << _OF_EACH_PHASE | to_come << _BYTES
    store(barrier, counted, active)


def check_arrivals(barrier: SharedTile, arrivals: int, active: Active) -> None:
    """Check that a phase of the barrier takes so many arrivals.

    Raises:
        ExtraArrivals: it does not.
        NoBarrier: an active program has no barrier there.
    """
    count = _word(barrier, active) >> _OF_EACH_PHASE & _COUNT
    _check_fits(count - arrivals, count, active)


def _check_fits(left: numpy.ndarray, of_each_phase: numpy.ndarray, active: Active) -> None:
    if (left < 0).any():
        extra = narrowed(active, (left < 0).reshape(len(left), -1).any(axis=1), len(left))
        if extra.any():
            program = int(numpy.argmax(extra))
            raise ExtraArrivals(int(of_each_phase[program].flat[0]), program)


def is_under_way(barrier: SharedTile, phase: Value, active: Active = None) -> bool:
    """Whether a program has to wait for the phase of that parity."""
    return bool(waiting_programs(barrier, phase, active).any())


def wait(barrier: SharedTile, phase: Value, active: Active = None) -> None:
    """Go on when the phase of that parity is complete;
    copies and products are done as soon as they are asked for.

    Raises:
        PhaseNeverCompletes: it is not complete, and nothing is left that could complete it.
    """
    waiting = waiting_programs(barrier, phase, active)
    if not waiting.any():
        return
    program = int(numpy.argmax(waiting))
    word = int(load(barrier)[program].flat[0])
    phases = numpy.broadcast_to(numpy.asarray(phase), waiting.shape)
    lacking = word >> _LACKING & _COUNT
    raise PhaseNeverCompletes(int(phases[program]), lacking, word >> _BYTES, program)


def waiting_programs(barrier: SharedTile, phase: Value, active: Active) -> numpy.ndarray:
    """Which of the active programs the phase is not complete for."""
    word = _word(barrier, active)
    under_way = (word & 1).reshape(len(word), -1) == numpy.asarray(phase).reshape(-1, 1)
    return narrowed(active, under_way.any(axis=1), len(word))


@dataclass(frozen=True)
class Waiting:
    """What a group of warps waits for: that the phase of that parity completes."""

    barrier: SharedTile
    phase: Value
    active: Active = None
    asks: Callable[[SharedTile, Value, Active], bool] = is_under_way

    def is_over(self) -> bool:
        return not self.asks(self.barrier, self.phase, self.active)
