"""Loads and stores, checked: what generated code calls to touch the tensors of a launch.

A pointer is an element offset from the start of one argument's tensor. Every access is checked
before anything is read or written: against the storage behind that tensor, since valid GPU code
may walk from a view into its storage, never out of it; or, if the launch asks for that, against
the view itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy

from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.memory import buffers
from kernellab.interpreter.memory.buffers import Addressed, Buffer, OutOfBoundsAccess, ReadOnlyStore
from kernellab.interpreter.tiles import Active, Value, first_active, lanes_at_fault

# Atomics on a flat array: as if one element after the other were read, changed and written, in
# the order given.
#
# Elements at different addresses do not see each other, so only those at one address have to
# take turns. Addresses that a few elements share take theirs together, round by round; one that
# many share runs alone, as one accumulation.


Array = numpy.ndarray

UFUNCS = {
    "and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor, "add": numpy.add,
    "fadd": numpy.add, "max": numpy.maximum, "min": numpy.minimum, "umax": numpy.maximum,
    "umin": numpy.minimum,
}  # fmt: skip

_ROUNDS = 64
"""An address that more elements share runs alone:
so there are few rounds, and few that run alone."""


def apply_in_turns(operation: str, elements: Array, targets: Array, operands: Array) -> None:
    """Update `elements` at `targets`, when the earlier values are not needed.

    Args:
        operation: one of `UFUNCS`, or "exchange".
    """
    if operation == "exchange":
        elements[targets] = operands  # where targets are equal, NumPy lets the last one win
        return
    elements, operands = _as_compared(operation, elements, operands)
    UFUNCS[operation].at(elements, targets, operands)


def update_in_turns(operation: str, elements: Array, targets: Array, operands: Array) -> Array:
    """As `apply`; returns what each target held when its turn came."""
    of_type = elements.dtype
    elements, operands = _as_compared(operation, elements, operands)

    def step(old: Array, lanes: Array | slice) -> Array:
        if operation == "exchange":
            return operands[lanes]
        written: Array = UFUNCS[operation](old, operands[lanes])
        return written

    def alone(first: Array, lanes: Array) -> Array:
        states = numpy.concatenate([first, operands[lanes]])
        if operation == "exchange":
            return states
        accumulated: Array = UFUNCS[operation].accumulate(states, dtype=states.dtype)
        return accumulated

    return _in_turns(elements, targets, step, alone).view(of_type)


def swap_in_turns(elements: Array, targets: Array, expected: Array, replacement: Array) -> Array:
    """Write `replacement` for `expected`; returns what was there, as unsigned bits."""

    def step(old: Array, lanes: Array | slice) -> Array:
        return numpy.where(old == expected[lanes], replacement[lanes], old)

    def alone(first: Array, lanes: Array) -> Array:
        state = first.item()
        states = [state]
        for compared, new in zip(expected[lanes].tolist(), replacement[lanes].tolist()):
            state = new if state == compared else state
            states.append(state)
        return numpy.array(states, first.dtype)

    return _in_turns(elements, targets, step, alone)


def _as_compared(operation: str, elements: Array, operands: Array) -> tuple[Array, Array]:
    """Both as unsigned integers if the operation treats them so."""
    if operation not in ("umax", "umin"):
        return elements, operands
    bits = f"u{elements.itemsize}"
    return elements.view(bits), operands.view(bits)


def _in_turns(
    elements: Array,
    targets: Array,
    step: Callable[[Array, Array | slice], Array],
    alone: Callable[[Array, Array], Array],
) -> Array:
    """Update `elements` at `targets`; returns what each target held when its turn came.

    Args:
        step: (what is found, lanes) -> what is written, for lanes with targets that differ.
        alone: (what is found first, lanes) -> the states of one target: what its lanes find one
            after the other, and what remains.
    """
    if (targets[1:] > targets[:-1]).all():
        untouched: Array = elements[targets]
        elements[targets] = step(untouched, slice(None))
        return untouched
    old = numpy.empty(targets.shape, elements.dtype)
    order = targets.argsort(kind="stable")
    ordered = targets[order]
    begins = numpy.flatnonzero(numpy.append(True, ordered[1:] != ordered[:-1]))
    counts = numpy.diff(begins, append=len(targets))
    crowded = counts > _ROUNDS
    for begin, count in zip(begins[crowded], counts[crowded]):
        lanes, target = order[begin : begin + count], ordered[begin : begin + 1]
        states = alone(elements[target], lanes)
        old[lanes], elements[target] = states[:-1], states[-1]
    begins, counts = begins[~crowded], counts[~crowded]
    for turn in range(counts.max(initial=0)):
        lanes = order[begins[counts > turn] + turn]
        old[lanes] = elements[targets[lanes]]
        elements[targets[lanes]] = step(old[lanes], lanes)
    return old


# What generated code calls: loads, stores and atomics, checked.


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
        OutOfBoundsAccess: an element that would be read is outside the storage.
    """
    if not isinstance(buffer, Buffer):
        uniform = not differs(rank, offsets, mask, other)
        buffer, offsets, mask, active = buffer.resolve("load", offsets, rank, mask, active, uniform)
    asking = active
    if active is not None and not differs(rank, offsets, mask, other):
        active = None  # one access for all: what a uniform value is loaded from must stay uniform
    if isinstance(offsets, AffineTile):
        result = buffers.load_slices(buffer, offsets, mask, other, active)
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
        OutOfBoundsAccess: an element that would be written is outside the storage;
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
        if buffers.store_slices(buffer, offsets, stored, mask, active):
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
    """Which elements of an access take part, programs first; None if all do."""
    on = None if mask is None else numpy.asarray(mask)
    if active is not None:
        programs = active.reshape((-1,) + (1,) * rank)
        on = programs if on is None else on & programs
    return None if on is None or on.all() else on


def differs(rank: int, *values: Value | None) -> bool:
    """True if one of the operands of an access has a program axis."""
    return any(value is not None and numpy.ndim(value) > rank for value in values)


def _check(
    action: str,
    buffer: Buffer,
    index: numpy.ndarray,
    on: numpy.ndarray | None,
    rank: int,
    active: Active,
) -> bool:
    """True if every index is inside the buffer's bounds, False if only lanes that are off are
    outside. Raises OutOfBoundsAccess: a lane that is on is outside.
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
        operation: one of `UFUNCS`, or "exchange".
        shape: the tile's shape; every lane of every active program takes part, also where
            addresses agree.
        programs: number of programs in the batch.
        wanted: False if the result is not used.

    Returns:
        What each lane found, shape (programs, *shape); None if that is not wanted.

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
        apply_in_turns(operation, elements, targets, operands)
        return None
    results = numpy.zeros(everyone, operand.dtype)
    updated = update_in_turns(operation, elements, targets, operands)
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
    """Write `value` where memory holds `compare`; returns what each lane found."""
    buffer, index, on = _atomic_lanes(buffer, offsets, rank, mask, active)
    everyone = (programs, *shape)
    bits = numpy.dtype(f"u{buffer.elements.itemsize}")
    expected, replacement = (
        numpy.broadcast_to(numpy.asarray(v).view(bits), everyone) for v in (compare, value)
    )
    chosen = slice(None) if on is None else numpy.broadcast_to(on, everyone)
    targets = numpy.broadcast_to(index, everyone)[chosen].reshape(-1)
    swapped = swap_in_turns(
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


# Layers around memory: they replace the module `memory` in generated code, and act on every
# access.


class Memory(Protocol):
    """The interface that generated code calls: the module `global_memory`, or a layer around it
    with functions of the same signatures.
    """

    def load(self, *args: Any, **keywords: Any) -> Any: ...

    def store(self, *args: Any, **keywords: Any) -> Any: ...

    def atomic(self, *args: Any, **keywords: Any) -> Any: ...

    def compare_and_swap(self, *args: Any, **keywords: Any) -> Any: ...


@dataclass(frozen=True)
class MemoryAccess:
    """One access of a batch of programs, before it is made: the arguments of a function of
    `global_memory`.
    """

    function: ClassVar[str]
    buffer: Buffer | Addressed
    offsets: Value
    rank: int
    mask: Value | None = field(default=None, kw_only=True)
    active: Active = field(default=None, kw_only=True)

    @property
    def addresses(self) -> Value:
        return self.buffer.addresses(self.offsets)

    @property
    def is_uniform(self) -> bool:
        """Whether all programs make one access, which has no program axis."""
        return False

    def made_by(self, memory: Memory) -> Any:
        return getattr(memory, self.function)(**vars(self))


@dataclass(frozen=True)
class Load(MemoryAccess):
    """A call of `global_memory.load`."""

    function = "load"
    other: Value | None = field(default=None, kw_only=True)

    @property
    def is_uniform(self) -> bool:
        return not differs(self.rank, self.offsets, self.mask, self.other)


@dataclass(frozen=True)
class Store(MemoryAccess):
    """A call of `global_memory.store`."""

    function = "store"
    value: Value


@dataclass(frozen=True)
class Atomic(MemoryAccess):
    """A call of `global_memory.atomic`."""

    function = "atomic"
    operation: str
    value: Value
    shape: tuple[int, ...]
    programs: int
    wanted: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class CompareAndSwap(MemoryAccess):
    """A call of `global_memory.compare_and_swap`."""

    function = "compare_and_swap"
    compare: Value
    value: Value
    shape: tuple[int, ...]
    programs: int


def _around(kind: type[MemoryAccess]) -> Callable[..., Any]:
    """The function of a layer that generated code calls in the place of `global_memory`'s."""

    def call(layer: MemoryLayer, *args: Any, **keywords: Any) -> Any:
        return layer.around(kind(*args, **keywords))

    return call


class MemoryLayer(ABC):
    """Replaces the module `memory` in generated code: every access goes through `around`."""

    @abstractmethod
    def around(self, access: MemoryAccess) -> Any:
        """Make the access, or another one in its place. The generated code is two frames up."""

    load = _around(Load)
    store = _around(Store)
    atomic = _around(Atomic)
    compare_and_swap = _around(CompareAndSwap)
