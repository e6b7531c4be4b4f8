"""Loads and stores, checked: what generated code calls to touch the tensors of a launch.

A pointer is an element offset from the start of one argument's tensor. Every access is checked
before anything is read or written: against the storage behind that tensor, since valid GPU code
may walk from a view into its storage, never out of it; or, if the launch asks for that, against
the view itself.
"""

from __future__ import annotations

import numpy

from kernellab.interpreter.execution.lane_fault import lanes_at_fault
from kernellab.interpreter.memory import atomics, boxes
from kernellab.interpreter.memory.buffers import (
    Addressed,
    Buffer,
    OutOfBoundsAccess,
    ReadOnlyStore,
)
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.tiles import Active, Value, first_active

# Loads


def load(
    buffer: Buffer | Addressed,
    offsets: Value,
    rank: int,
    *,
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
        uniform = not differs(rank, offsets, mask, other)
        buffer, offsets, mask, active = buffer.resolve("load", offsets, rank, mask, active, uniform)
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
    buffer: Buffer | Addressed,
    offsets: Value,
    rank: int,
    value: Value,
    *,
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
        buffer, offsets, mask, active = buffer.resolve("store", offsets, rank, mask, active)
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
    element = int(numpy.broadcast_to(index, outside.shape)[outside][0])
    lanes = lanes_at_fault(outside, rank, first_active(active))
    raise OutOfBoundsAccess(action, buffer, element - buffer.origin, **lanes)


def first_place(faulty: numpy.ndarray, rank: int, active: Active) -> tuple[tuple[int, ...], int]:
    """Lane and program of the first element that is at fault."""
    lanes = lanes_at_fault(faulty, rank, first_active(active))
    return lanes["place"], lanes["program"]


# Atomics


def atomic(
    buffer: Buffer | Addressed,
    offsets: Value,
    rank: int,
    operation: str,
    value: Value,
    shape: tuple[int, ...],
    programs: int,
    *,
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
        wanted: False where no one looks at what is returned.

    Returns:
        What each lane found, shape (programs, *shape); None where that is not wanted.

    Raises:
        OutOfBoundsAccess, ReadOnlyStore: as for `store`.
    """
    buffer, index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
    everyone = (programs, *shape)
    index = numpy.broadcast_to(index, everyone)
    operand = numpy.broadcast_to(numpy.asarray(value), everyone)
    chosen = slice(None) if on is None else numpy.broadcast_to(on, everyone)
    targets, operands = index[chosen].reshape(-1), operand[chosen].reshape(-1)
    elements = buffer.elements.view(operand.dtype)
    if not wanted:
        atomics.apply(operation, elements, targets, operands)
        return None
    results = numpy.zeros(everyone, operand.dtype)
    updated = atomics.update(operation, elements, targets, operands)
    results[chosen] = updated.reshape(results[chosen].shape)
    return results


def compare_and_swap(
    buffer: Buffer | Addressed,
    offsets: Value,
    rank: int,
    compare: Value,
    value: Value,
    shape: tuple[int, ...],
    programs: int,
    *,
    mask: Value | None = None,
    active: Active = None,
) -> Value:
    """Write `value` where memory holds `compare`, bit for bit, one element after the other;
    returns what each lane found.
    """
    buffer, index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
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
    results = numpy.zeros(everyone, bits)
    results[chosen] = swapped.reshape(results[chosen].shape)
    return results.view(numpy.asarray(compare).dtype)


def _atomic_lanes(
    buffer: Buffer | Addressed, offsets: Value, rank: int, mask: Value | None, active: Active
) -> tuple[Buffer, numpy.ndarray, numpy.ndarray | None]:
    if not isinstance(buffer, Buffer):
        buffer, offsets, mask, active = buffer.resolve("atomic", offsets, rank, mask, active)
    if not buffer.writable:
        raise ReadOnlyStore(buffer)
    index = numpy.asarray(offsets) + buffer.origin
    on = lanes_on(mask, active, rank)
    _check("atomic", buffer, index, on, rank, active)
    return buffer, index, on
