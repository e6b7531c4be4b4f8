"""Loads and stores, checked: what generated code calls to touch the tensors of a launch.

A pointer is an element offset from the start of one argument's tensor. Every access is checked
before anything is read or written: against the storage behind that tensor, since valid GPU code
may walk from a view into its storage, never out of it; or, if the launch asks for that, against
the view itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy
import torch
from numpy.lib.stride_tricks import as_strided

from kernellab.interpreter.execution.lane_fault import LaneFault, programs_at_fault
from kernellab.interpreter.memory import atomics, boxes
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.tiles import Active, Value, first_active


@dataclass
class OutOfBoundsAccess(LaneFault):
    """An access outside the bounds of its buffer."""

    action: str
    buffer: Buffer
    index: int
    """Element index, relative to the tensor's first element."""


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
        bounds: what an access must stay inside: the "storage", or the "view" that the
            tensor is of it.
        first, stop: index in `elements` of the first one that may be touched, and beyond the last.
        present: which of `elements` belong to the view, where it has holes and is the
            bounds; else None.
    """

    def __init__(
        self,
        name: str,
        tensor: torch.Tensor,
        dtype: numpy.dtype,
        writable: bool = True,
        bounds: str = "storage",
    ) -> None:
        self.name = name
        self.tensor = tensor
        self.writable = writable
        self.elements, self.origin = _storage_elements(tensor, dtype)
        self.bounds = bounds
        self.first, self.stop = 0, len(self.elements)
        self.present: numpy.ndarray | None = None
        if bounds == "view":
            self._keep_to_view()

    def _keep_to_view(self) -> None:
        tensor, size = self.tensor, self.elements.itemsize
        steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
        extent = (steps + 1) * tensor.element_size() // size if tensor.numel() else 0
        self.first, self.stop = self.origin, self.origin + extent
        if extent and not tensor.is_contiguous() and tensor.element_size() == size:
            present = numpy.zeros(len(self.elements), numpy.bool_)
            as_strided(present[self.origin :], tensor.shape, tensor.stride())[...] = True
            self.present = None if present[self.first : self.stop].all() else present

    def is_outside(self, index: numpy.ndarray) -> numpy.ndarray:
        """Which of the elements of these indices may not be touched."""
        outside = (index < self.first) | (index >= self.stop)
        if self.present is not None:
            outside |= ~self.present.take(index, mode="clip")
        return outside

    def addresses(self, offsets: Value) -> Value:
        """Where in memory the elements at `offsets` are, in bytes."""
        start = self.tensor.untyped_storage().data_ptr()
        start += int(self.tensor.storage_offset()) * self.tensor.element_size()
        steps = offsets * numpy.int64(self.elements.itemsize)
        if isinstance(steps, numpy.ndarray):
            steps += numpy.int64(start)
            return steps
        return steps + numpy.int64(start)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.elements.itemsize

    def viewed_as(self, dtype: numpy.dtype) -> Buffer:
        """The same argument under another pointee type of the same width."""
        other = object.__new__(Buffer)
        other.__dict__.update(self.__dict__, elements=self.elements.view(dtype))
        return other

    def over(self, elements: numpy.ndarray) -> Buffer:
        """A buffer of other elements, from the first on; all of them may be touched."""
        other = object.__new__(Buffer)
        limits = {"origin": 0, "first": 0, "stop": len(elements), "present": None}
        other.__dict__.update(self.__dict__, elements=elements, writable=True, **limits)
        return other


_PLAIN = frozenset(
    {torch.float32, torch.float16, torch.int32, torch.int64, torch.float64, torch.int8, torch.int16}
)
"""Types that torch hands to NumPy as they are."""


def _storage_elements(tensor: torch.Tensor, dtype: numpy.dtype) -> tuple[numpy.ndarray, int]:
    """The tensor's storage as elements of `dtype`, and which of them is the tensor's first;
    the bytes before and behind whole elements are left out.
    """
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if not size:
        return numpy.empty(0, dtype), 0
    if tensor.dtype in _PLAIN and tensor.nbytes == size and tensor.is_contiguous():
        elements = tensor.numpy().reshape(-1)
        if elements.dtype == dtype:
            return elements, 0  # the same as below, sooner
    everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage).numpy()
    offset = int(tensor.storage_offset()) * tensor.element_size()
    phase = offset % dtype.itemsize
    whole = max(size - phase, 0) // dtype.itemsize * dtype.itemsize
    return everything[phase : phase + whole].view(dtype), (offset - phase) // dtype.itemsize


class Elsewhere(Protocol):
    """Takes a Buffer's place where the offsets are addresses: see `address_space.Elements`."""

    @property
    def itemsize(self) -> int: ...

    def addresses(self, offsets: Value) -> Value: ...

    def load(
        self, addresses: Value, rank: int, mask: Value | None, other: Value | None, active: Active
    ) -> Value: ...

    def store(
        self, addresses: Value, value: Value, rank: int, mask: Value | None, active: Active
    ) -> None: ...

    def atomic(
        self,
        operation: str,
        addresses: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None,
        active: Active,
        wanted: bool,
    ) -> numpy.ndarray | None: ...

    def compare_and_swap(
        self,
        addresses: Value,
        compare: Value,
        value: Value,
        rank: int,
        shape: tuple[int, ...],
        programs: int,
        mask: Value | None,
        active: Active,
    ) -> Value: ...


# Loads


def load(
    buffer: Buffer | Elsewhere,
    offsets: Value,
    rank: int,
    mask: Value | None = None,
    other: Value | None = None,
    active: Active = None,
) -> Value:
    """Read `offsets` where `mask` is on and the program is active;
    elsewhere the result is `other`, or 0.

    At least one program is active. Where all would make the same access, it is made once,
    and the result has no program axis.

    Raises:
        OutOfBoundsAccess: an element that would be read lies outside the storage.
    """
    if not isinstance(buffer, Buffer):
        return buffer.load(offsets, rank, mask, other, active)
    asking = active
    if active is not None and not differs(rank, offsets, mask, other):
        active = None  # one access for all: what a uniform value is loaded from must stay uniform
    if isinstance(offsets, AffineTile):
        result = boxes.load(buffer, offsets, mask, other, active)
        if result is not None:
            return result
    index = numpy.asarray(offsets) + buffer.origin
    on = lanes_on(mask, active, rank)
    in_bounds = _check("load", buffer, index, on, rank, asking)
    if not len(buffer.elements):
        value = numpy.zeros(index.shape, buffer.elements.dtype)
    else:
        value = buffer.elements.take(index, mode="wrap" if in_bounds else "clip")
    if on is None:
        return value
    return numpy.where(on, value, buffer.elements.dtype.type(0) if other is None else other)


# Stores


def store(
    buffer: Buffer | Elsewhere,
    offsets: Value,
    value: Value,
    rank: int,
    mask: Value | None = None,
    active: Active = None,
) -> None:
    """Write `value` at `offsets` where `mask` is on and the program is active, in program order.

    Raises:
        OutOfBoundsAccess: an element that would be written lies outside the storage;
            nothing was written.
        ReadOnlyStore: the argument's memory is read-only.
    """
    if not isinstance(buffer, Buffer):
        buffer.store(offsets, value, rank, mask, active)
        return
    if not buffer.writable:
        raise ReadOnlyStore(buffer)
    stored = numpy.asarray(value)
    if stored.dtype != buffer.elements.dtype:
        stored = stored.view(buffer.elements.dtype)
    if isinstance(offsets, AffineTile):
        if boxes.store(buffer, offsets, stored, mask, active):
            return
    index = numpy.asarray(offsets) + buffer.origin
    on = lanes_on(mask, active, rank)
    _check("store", buffer, index, on, rank, active)
    if on is None:
        shape = numpy.broadcast_shapes(index.shape, stored.shape)
        buffer.elements[numpy.broadcast_to(index, shape)] = stored
        return
    shape = numpy.broadcast_shapes(index.shape, on.shape, stored.shape)
    on = numpy.broadcast_to(on, shape)
    buffer.elements[numpy.broadcast_to(index, shape)[on]] = numpy.broadcast_to(stored, shape)[on]


# Checks


def lanes_on(mask: Value | None, active: Active, rank: int) -> numpy.ndarray | None:
    """Which elements of an access take part, programs first; None where all do."""
    on = None if mask is None else numpy.asarray(mask)
    if active is not None:
        programs = active.reshape((-1,) + (1,) * rank)
        on = programs if on is None else on & programs
    return None if on is None or on.all() else on


def differs(rank: int, *values: Value | None) -> bool:
    """True where one of the operands of an access has a program axis."""
    return any(value is not None and numpy.ndim(value) > rank for value in values)


def _check(
    action: str,
    buffer: Buffer,
    index: numpy.ndarray,
    on: numpy.ndarray | None,
    rank: int,
    active: Active,
) -> bool:
    """True where every index is inside the buffer's bounds, False where only lanes
    that are off are outside.

    Raises:
        OutOfBoundsAccess: a lane that is on is outside.
    """
    if index.size == 0:
        return True
    if buffer.present is None and index.min() >= buffer.first and index.max() < buffer.stop:
        return True
    outside = buffer.is_outside(index)
    if on is not None:
        outside = outside & on
    if not outside.any():
        return False
    first = tuple(numpy.argwhere(outside)[0])
    found = int(numpy.broadcast_to(index, outside.shape)[first])
    place, program = first_place(outside, rank, active)
    raise OutOfBoundsAccess(
        action,
        buffer,
        found - buffer.origin,
        place=place,
        program=program,
        count=int(outside.sum()),
        programs=programs_at_fault(outside, rank),
    )


def first_place(faulty: numpy.ndarray, rank: int, active: Active) -> tuple[tuple[int, ...], int]:
    """Lane and program of the first element that is at fault."""
    first = tuple(int(i) for i in numpy.argwhere(faulty)[0])
    return (first[1:], first[0]) if faulty.ndim > rank else (first, first_active(active))


# Atomics


def atomic(
    operation: str,
    buffer: Buffer | Elsewhere,
    offsets: Value,
    value: Value,
    rank: int,
    shape: tuple[int, ...],
    programs: int,
    mask: Value | None = None,
    active: Active = None,
    wanted: bool = True,
) -> numpy.ndarray | None:
    """Read, modify and write one element after the other, in program order, then lane order.

    Args:
        operation: one of `atomics.UFUNCS`, or "exchange".
        shape: the tile's shape; every lane of every active program takes part, also where
            addresses agree.
        programs: number of programs in the batch.
        wanted: False where nobody looks at what is returned.

    Returns:
        What each lane found, shape (programs, *shape); None where that is not wanted.

    Raises:
        OutOfBoundsAccess, ReadOnlyStore: as for `store`.
    """
    if not isinstance(buffer, Buffer):
        return buffer.atomic(operation, offsets, value, rank, shape, programs, mask, active, wanted)
    index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
    everyone = (programs, *shape)
    index = numpy.broadcast_to(index, everyone)
    operand = numpy.broadcast_to(numpy.asarray(value), everyone)
    chosen = slice(None) if on is None else numpy.broadcast_to(on, everyone)
    targets, operands = index[chosen].reshape(-1), operand[chosen].reshape(-1)
    elements = buffer.elements.view(operand.dtype)
    if not wanted:
        atomics.apply(operation, elements, targets, operands)
        return None
    found = numpy.zeros(everyone, operand.dtype)
    updated = atomics.update(operation, elements, targets, operands)
    found[chosen] = updated.reshape(found[chosen].shape)
    return found


def compare_and_swap(
    buffer: Buffer | Elsewhere,
    offsets: Value,
    compare: Value,
    value: Value,
    rank: int,
    shape: tuple[int, ...],
    programs: int,
    mask: Value | None = None,
    active: Active = None,
) -> Value:
    """Write `value` where memory holds `compare`, bit for bit, one element after the other;
    returns what each lane found.
    """
    if not isinstance(buffer, Buffer):
        return buffer.compare_and_swap(offsets, compare, value, rank, shape, programs, mask, active)
    index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
    everyone = (programs, *shape)
    bits = numpy.dtype(f"u{buffer.elements.itemsize}")
    expected, replacement = (
        numpy.broadcast_to(numpy.asarray(v).view(bits), everyone) for v in (compare, value)
    )
    chosen = slice(None) if on is None else numpy.broadcast_to(on, everyone)
    targets = numpy.broadcast_to(index, everyone)[chosen].reshape(-1)
    swapped = atomics.compare_and_swap(
        buffer.elements.view(bits),
        targets,
        expected[chosen].reshape(-1),
        replacement[chosen].reshape(-1),
    )
    found = numpy.zeros(everyone, bits)
    found[chosen] = swapped.reshape(found[chosen].shape)
    return found.view(numpy.asarray(compare).dtype)


def _atomic_lanes(
    buffer: Buffer, offsets: Value, rank: int, mask: Value | None, active: Active
) -> tuple[numpy.ndarray, numpy.ndarray | None]:
    if not buffer.writable:
        raise ReadOnlyStore(buffer)
    index = numpy.asarray(offsets) + buffer.origin
    on = lanes_on(mask, active, rank)
    _check("atomic", buffer, index, on, rank, active)
    return index, on
