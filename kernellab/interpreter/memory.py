"""Loads and stores, checked: what generated code calls to touch the tensors of a launch.

A pointer is an element offset from the start of one argument's tensor. Every access is checked against the storage behind that tensor, before anything is read or written: valid GPU code may walk from a view into its storage, never out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab.interpreter.affine import AffineTile, BoxMask
from kernellab.interpreter.tiles import Active, Value


@dataclass
class OutOfBoundsAccess(Exception):
    """An access outside its storage, in the terms of one batch; the launch adds kernel line and program."""

    action: str
    buffer: Buffer
    index: int
    """Element index, relative to the tensor's first element."""
    place: tuple[int, ...]
    """Position of the offending element in the access, lanes only."""
    program: int | None
    """Position of the program in the batch; None where all programs make the same access."""
    count: int
    """How many elements of the access are out of bounds."""


@dataclass
class ReadOnlyStore(Exception):
    """A store into memory that its owner made read-only."""

    buffer: Buffer


class Buffer:
    """One pointer argument: the storage behind a tensor, seen as a flat array of the pointee type.

    Attributes:
        name: the argument's name.
        tensor: the tensor that was passed.
        elements: the storage as a flat array, from its first whole element on.
        origin: index in `elements` of the tensor's first element.
        writable: False for a NumPy array that its owner made read-only.
    """

    def __init__(
        self, name: str, tensor: torch.Tensor, dtype: numpy.dtype, writable: bool = True
    ) -> None:
        self.name = name
        self.tensor = tensor
        self.writable = writable
        self._bytes, offset = _storage_bytes(tensor)
        phase = offset % dtype.itemsize
        whole = (len(self._bytes) - phase) // dtype.itemsize * dtype.itemsize
        self.elements = self._bytes[phase : phase + max(whole, 0)].view(dtype)
        self.origin = (offset - phase) // dtype.itemsize

    def viewed_as(self, dtype: numpy.dtype) -> Buffer:
        """The same argument under another pointee type of the same width."""
        other = object.__new__(Buffer)
        other.__dict__.update(self.__dict__, elements=self.elements.view(dtype))
        return other


def _storage_bytes(tensor: torch.Tensor) -> tuple[numpy.ndarray, int]:
    """All bytes of the tensor's storage, and where in it the tensor's first element is."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return numpy.empty(0, numpy.uint8), 0
    everything = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return everything, tensor.storage_offset() * tensor.element_size()


# Loads


def load(
    buffer: Buffer,
    offsets: Value,
    rank: int,
    mask: Value | None = None,
    other: Value | None = None,
    active: Active = None,
) -> Value:
    """Read `offsets` where `mask` is on and the program is active; elsewhere the result is `other`, or 0.

    Raises:
        OutOfBoundsAccess: an element that would be read lies outside the storage.
    """
    if active is None and isinstance(offsets, AffineTile):
        result = _load_slices(buffer, offsets, mask, other)
        if result is not None:
            return result
    index = numpy.asarray(offsets) + buffer.origin
    on = _lanes(mask, active, rank)
    in_bounds = _check("load", buffer, index, on, rank)
    if not len(buffer.elements):
        value = numpy.zeros(index.shape, buffer.elements.dtype)
    else:
        value = buffer.elements.take(index, mode="wrap" if in_bounds else "clip")
    if on is None:
        return value
    return numpy.where(on, value, buffer.elements.dtype.type(0) if other is None else other)


def _load_slices(
    buffer: Buffer, offsets: AffineTile, mask: Value | None, other: Value | None
) -> numpy.ndarray | None:
    """A load of affine offsets under a box mask, as copies of strided slices; None where it is not one."""
    if mask is not None and not isinstance(mask, BoxMask):
        return None
    if other is not None and numpy.size(other) != 1:
        return None
    box = _Box.of(buffer, offsets, mask)
    if box is None:
        return None
    fill = 0 if other is None else numpy.asarray(other).reshape(())
    result = numpy.empty((len(box.bases), *box.extents), buffer.elements.dtype)
    if not box.covers_everything:
        result[...] = fill
    for programs, inside, source in box.slices():
        result[(programs, *inside)] = source
    return result if box.has_programs else result[0]


# Stores


def store(
    buffer: Buffer,
    offsets: Value,
    value: Value,
    rank: int,
    mask: Value | None = None,
    active: Active = None,
) -> None:
    """Write `value` at `offsets` where `mask` is on and the program is active, in program order.

    Raises:
        OutOfBoundsAccess: an element that would be written lies outside the storage; nothing was written.
        ReadOnlyStore: the argument's memory is read-only.
    """
    if not buffer.writable:
        raise ReadOnlyStore(buffer)
    stored = numpy.asarray(value)
    if stored.dtype != buffer.elements.dtype:
        stored = stored.view(buffer.elements.dtype)
    if active is None and isinstance(offsets, AffineTile):
        if _store_slices(buffer, offsets, stored, mask):
            return
    index = numpy.asarray(offsets) + buffer.origin
    on = _lanes(mask, active, rank)
    _check("store", buffer, index, on, rank)
    if on is None:
        shape = numpy.broadcast_shapes(index.shape, stored.shape)
        buffer.elements[numpy.broadcast_to(index, shape)] = stored
        return
    shape = numpy.broadcast_shapes(index.shape, on.shape, stored.shape)
    on = numpy.broadcast_to(on, shape)
    buffer.elements[numpy.broadcast_to(index, shape)[on]] = numpy.broadcast_to(stored, shape)[on]


def _store_slices(
    buffer: Buffer, offsets: AffineTile, stored: numpy.ndarray, mask: Value | None
) -> bool:
    """A store to affine offsets under a box mask, as writes to strided slices; False where it is not one."""
    if mask is not None and not isinstance(mask, BoxMask):
        return False
    if any(extent > 1 and not stride for stride, extent in zip(offsets.strides, offsets.extents)):
        return False  # lanes that collide: the order of writes matters
    box = _Box.of(buffer, offsets, mask)
    if box is None or stored.ndim > len(box.extents) + box.has_programs:
        return False
    if box.has_programs and stored.ndim == len(box.extents) + 1 and len(stored) > len(box.bases):
        return False
    values = numpy.broadcast_to(stored, (len(box.bases), *box.extents))
    if box.step == 0 and len(box.bases) > 1:
        return False  # programs that collide
    for programs, inside, target in box.slices():
        target[...] = values[(programs, *inside)]
    return True


# Slices of a box


_Slices = tuple[slice, ...]


@dataclass(frozen=True)
class _Box:
    """An access at affine offsets under a box mask, known to stay inside the storage.

    Attributes:
        bases: element index of lane 0, per program.
        strides: elements from one lane to the next along each dimension.
        extents: shape of the access, mask and offsets together.
        intervals: where the mask is on along each dimension: ints for all programs, or arrays.
        step: the distance between consecutive programs' bases, None where it is not constant.
    """

    elements: numpy.ndarray
    bases: numpy.ndarray
    strides: tuple[int, ...]
    extents: tuple[int, ...]
    intervals: tuple[tuple[Any, Any], ...]
    step: int | None
    has_programs: bool

    @staticmethod
    def of(buffer: Buffer, offsets: AffineTile, mask: BoxMask | None) -> _Box | None:
        """None where an element would lie outside (the caller finds which), or the box is not one."""
        extents = offsets.extents
        intervals: list[tuple[Any, Any]] = [(0, extent) for extent in extents]
        if mask is not None:
            if len(mask.extents) != len(extents):
                return None
            extents = tuple(map(max, extents, mask.extents))
            for dimension, interval in mask.intervals.items():
                intervals[dimension] = tuple(_if_same_for_all(end) for end in interval)  # type: ignore[assignment]
            intervals = [
                interval if d in mask.intervals else (0, extents[d])
                for d, interval in enumerate(intervals)
            ]
        bases, has_programs = _bases(offsets, intervals)
        bases = bases + buffer.origin
        box = _Box(
            buffer.elements, bases, offsets.strides, extents, tuple(intervals), None, has_programs
        )
        return box._with_step() if box._is_inside() else None

    @property
    def is_uniform(self) -> bool:
        """True where the mask is the same box in every program."""
        return all(isinstance(end, int) for interval in self.intervals for end in interval)

    @property
    def covers_everything(self) -> bool:
        return all(
            isinstance(start, int) and start == 0 and isinstance(stop, int) and stop == extent
            for (start, stop), extent in zip(self.intervals, self.extents)
        )

    def slices(self) -> Any:
        """(programs, lanes, the strided view of memory) for each piece that one copy can move."""
        if self.is_uniform and self.step is not None:
            inside = tuple(slice(start, stop) for start, stop in self.intervals)
            if all(s.stop > s.start for s in inside):
                yield slice(None), inside, self._view(0, inside, len(self.bases))
            return
        for program in range(len(self.bases)):
            inside = tuple(
                slice(_at(start, program), _at(stop, program)) for start, stop in self.intervals
            )
            if all(s.stop > s.start for s in inside):
                yield program, inside, self._view(program, inside, None)

    def _view(self, program: int, inside: _Slices, programs: int | None) -> numpy.ndarray:
        size = self.elements.itemsize
        first = int(self.bases[program]) + sum(
            lanes.start * stride for lanes, stride in zip(inside, self.strides)
        )
        shape = tuple(lanes.stop - lanes.start for lanes in inside)
        strides = tuple(stride * size for stride in self.strides)
        if programs is not None:
            shape, strides = (programs, *shape), ((self.step or 0) * size, *strides)
        return numpy.ndarray(
            shape, self.elements.dtype, self.elements, offset=first * size, strides=strides
        )

    def _is_inside(self) -> bool:
        """True where every element that is on lies in the storage."""
        low = high = self.bases
        on: Any = True
        for (start, stop), stride in zip(self.intervals, self.strides):
            on = on & (stop > start)
            ends = start * stride, (stop - 1) * stride
            low = low + numpy.minimum(*ends)
            high = high + numpy.maximum(*ends)
        return bool(numpy.all(((low >= 0) & (high < len(self.elements))) | ~numpy.asarray(on)))

    def _with_step(self) -> _Box:
        if len(self.bases) == 1:
            step: int | None = 0
        else:
            step = int(self.bases[1] - self.bases[0])
            if len(self.bases) > 2 and (numpy.diff(self.bases) != step).any():
                step = None
        return _Box(
            self.elements, self.bases, self.strides, self.extents, self.intervals, step,
            self.has_programs,
        )  # fmt: skip


def _bases(
    offsets: AffineTile, intervals: list[tuple[Any, Any]]
) -> tuple[numpy.ndarray, bool]:
    """The base of each program; one entry where all programs make one access."""
    lengths = [len(end) for interval in intervals for end in interval if not isinstance(end, int)]
    base = offsets.base
    if isinstance(base, numpy.ndarray):
        if lengths and len(base) == 1:
            base = numpy.repeat(base, lengths[0])
        return base, True
    if lengths:
        return numpy.full(lengths[0], base, numpy.int64), True
    return numpy.array([base], numpy.int64), False


def _if_same_for_all(end: Any) -> Any:
    """An int where an end of the mask is the same in every program."""
    if isinstance(end, int):
        return end
    first = int(end[0])
    return first if (end == first).all() else end


def _at(end: Any, program: int) -> int:
    return end if isinstance(end, int) else int(end[program])


# Checks


def _lanes(mask: Value | None, active: Active, rank: int) -> numpy.ndarray | None:
    """Which elements of an access take part, programs first; None where all do."""
    on = None if mask is None else numpy.asarray(mask)
    if active is not None:
        programs = active.reshape((-1,) + (1,) * rank)
        on = programs if on is None else on & programs
    return None if on is None or on.all() else on


def _check(
    action: str, buffer: Buffer, index: numpy.ndarray, on: numpy.ndarray | None, rank: int
) -> bool:
    """True where every index is inside the storage, False where only lanes that are off are outside.

    Raises:
        OutOfBoundsAccess: a lane that is on is outside.
    """
    size = len(buffer.elements)
    if index.size == 0 or (index.min() >= 0 and index.max() < size):
        return True
    outside = (index < 0) | (index >= size)
    if on is not None:
        outside = outside & on
    if not outside.any():
        return False
    first = tuple(int(i) for i in numpy.argwhere(outside)[0])
    has_programs = outside.ndim > rank
    raise OutOfBoundsAccess(
        action,
        buffer,
        index=int(numpy.broadcast_to(index, outside.shape)[first]) - buffer.origin,
        place=first[1:] if has_programs else first,
        program=first[0] if has_programs else None,
        count=int(outside.sum()),
    )


# Atomics


def atomic(
    operation: str,
    buffer: Buffer,
    offsets: Value,
    value: Value,
    rank: int,
    shape: tuple[int, ...],
    programs: int,
    mask: Value | None = None,
    active: Active = None,
) -> numpy.ndarray:
    """Read, modify and write one element after the other, in program order, then lane order.

    Args:
        operation: one of `ATOMIC_UFUNCS`, or "exchange".
        shape: the tile's shape; every lane of every active program takes part, also where addresses agree.
        programs: number of programs in the batch.

    Returns:
        What each lane found, shape (programs, *shape).

    Raises:
        OutOfBoundsAccess, ReadOnlyStore: as for `store`.
    """
    index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
    everyone = (programs, *shape)
    index = numpy.broadcast_to(index, everyone)
    operand = numpy.broadcast_to(numpy.asarray(value), everyone)
    chosen = slice(None) if on is None else numpy.broadcast_to(on, everyone)
    targets, operands = index[chosen].reshape(-1), operand[chosen].reshape(-1)
    found = numpy.zeros(everyone, operand.dtype)
    elements = buffer.elements.view(operand.dtype)
    found[chosen] = _update(operation, elements, targets, operands).reshape(found[chosen].shape)
    return found


ATOMIC_UFUNCS = {
    "and": numpy.bitwise_and,
    "or": numpy.bitwise_or,
    "xor": numpy.bitwise_xor,
    "add": numpy.add,
    "fadd": numpy.add,
    "max": numpy.maximum,
    "min": numpy.minimum,
    "umax": numpy.maximum,
    "umin": numpy.minimum,
}


def _update(
    operation: str, elements: numpy.ndarray, targets: numpy.ndarray, operands: numpy.ndarray
) -> numpy.ndarray:
    """Apply the operation target by target; returns what each found."""
    if operation in ("umax", "umin"):
        bits = f"u{elements.itemsize}"
        found = _update(operation[1:], elements.view(bits), targets, operands.view(bits))
        return found.view(elements.dtype)
    if len(numpy.unique(targets)) == len(targets):
        found = elements[targets]
        elements[targets] = _combined(operation, found, operands)
        return found
    found = numpy.empty(targets.shape, elements.dtype)
    for turn, target in enumerate(targets):
        found[turn] = elements[target]
        elements[target] = _combined(operation, found[turn], operands[turn])
    return found


def _combined(operation: str, found: Any, operand: Any) -> Any:
    return operand if operation == "exchange" else ATOMIC_UFUNCS[operation](found, operand)


def compare_and_swap(
    buffer: Buffer,
    offsets: Value,
    compare: Value,
    value: Value,
    rank: int,
    shape: tuple[int, ...],
    programs: int,
    active: Active = None,
) -> numpy.ndarray:
    """Write `value` where memory holds `compare`, one element after the other; returns what each lane found."""
    index, on = _atomic_lanes(buffer, offsets, rank, None, active)
    everyone = (programs, *shape)
    expected = numpy.broadcast_to(numpy.asarray(compare), everyone).reshape(-1)
    replacement = numpy.broadcast_to(numpy.asarray(value), everyone).reshape(-1)
    targets = numpy.broadcast_to(index, everyone).reshape(-1)
    taking_part = numpy.ones(everyone, bool) if on is None else numpy.broadcast_to(on, everyone)
    elements = buffer.elements.view(expected.dtype)
    found = numpy.zeros(targets.shape, expected.dtype)
    for turn in numpy.flatnonzero(taking_part):
        found[turn] = elements[targets[turn]]
        if found[turn] == expected[turn]:
            elements[targets[turn]] = replacement[turn]
    return found.reshape(everyone)


def _atomic_lanes(
    buffer: Buffer, offsets: Value, rank: int, mask: Value | None, active: Active
) -> tuple[numpy.ndarray, numpy.ndarray | None]:
    if not buffer.writable:
        raise ReadOnlyStore(buffer)
    index = numpy.asarray(offsets) + buffer.origin
    on = _lanes(mask, active, rank)
    _check("atomic", buffer, index, on, rank)
    return index, on
