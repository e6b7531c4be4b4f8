"""The memory of an access: one argument's tensor, in strided slices if that is possible,
or all of memory by address.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy
import torch
from numpy.lib.stride_tricks import as_strided

from kernellab.interpreter.affine import (
    AffineTile,
    Bases,
    BoxMask,
    End,
    Interval,
    Progression,
    as_array,
    as_box,
    extremes,
    part_of,
)
from kernellab.interpreter.tiles import Active, LaneFault, Value, first_active


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


def extent_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements are between the first and the last of a tensor, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((count - 1) * stride for count, stride in zip(shape, strides))


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
        extent = extent_of(tensor.shape, tensor.stride()) * tensor.element_size() // size
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
        """The addresses of the elements at `offsets`, in bytes."""
        start = self.tensor.untyped_storage().data_ptr()
        start += int(self.tensor.storage_offset()) * self.tensor.element_size()
        steps = offsets * numpy.int64(self.elements.itemsize)
        if isinstance(steps, numpy.ndarray):
            steps += numpy.int64(start)
            return steps
        return steps + numpy.int64(start)

    @property
    def itemsize(self) -> int:
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
"""Types that torch passes to NumPy unchanged."""


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


class ResolvedAccess(NamedTuple):
    buffer: Buffer
    offsets: Value
    mask: Value | None
    active: Active


class Addressed(Protocol):
    """Takes a Buffer's place if the offsets are addresses: see `address_space.Elements`."""

    @property
    def itemsize(self) -> int: ...

    def addresses(self, offsets: Value) -> Value: ...

    def resolve(
        self,
        action: str,
        addresses: Value,
        rank: int,
        mask: Value | None,
        active: Active,
        uniform: bool = False,
    ) -> ResolvedAccess: ...


# Loads and stores at affine offsets under a box mask: strided slices of memory, moved in as few
# copies as the mask allows.


Lanes = Any
"""First lane and the one beyond the last along each dimension, a tuple of pairs of ints."""


def load_slices(
    buffer: Buffer, offsets: AffineTile, mask: Value | None, other: Value | None, active: Active
) -> Value | None:
    """Load as `memory.load` does; None if the access is not a box inside the memory.

    Programs that are not active read what the first active one reads.
    """
    if other is not None and numpy.size(other) != 1:
        return None
    box = Box.of(buffer, offsets, mask)
    if box is not None and active is not None and box.has_programs:
        box = box.made_alike(active)
    if box is None or not box.is_inside(buffer):
        return None
    elements = buffer.elements
    if box.is_everything:
        result = box.read(elements, box.bases, box.intervals)
    else:
        result = numpy.empty((len(box.bases), *box.extents), elements.dtype)
        box.fill_outside(result, 0 if other is None else numpy.asarray(other).reshape(()))
        for first, last, lanes in box.pieces():
            loaded = box.looked_at(elements, part_of(box.bases, first, last), lanes)
            result[first:last, *_slices(lanes)] = loaded
    return result if box.has_programs else result[0]


def store_slices(
    buffer: Buffer, offsets: AffineTile, stored: numpy.ndarray, mask: Value | None, active: Active
) -> bool:
    """Do what `memory.store` does; return False without storing if that takes more than slices."""
    if 0 in offsets.strides and _have_collisions(offsets):
        return False  # the order of writes matters
    box = Box.of(buffer, offsets, mask)
    if box is None:
        return False
    shape = (len(box.bases), *box.extents)
    if stored.shape == box.extents and not box.has_programs:
        stored = stored[numpy.newaxis]
    if stored.shape != shape and numpy.broadcast_shapes(shape, stored.shape) != shape:
        return False  # every program writes to one place: the last one wins
    values = stored if stored.shape == shape else numpy.broadcast_to(stored, shape)
    if active is not None and box.has_programs:
        box, values = box.of_active(active), values[active]
    if not box.is_inside(buffer):
        return False
    if box.is_everything:
        box.write(buffer.elements, box.bases, box.intervals, values)
        return True
    for first, last, lanes in box.pieces():
        bases = part_of(box.bases, first, last)
        box.write(buffer.elements, bases, lanes, values[first:last, *_slices(lanes)])
    return True


@dataclass
class Box:
    """The elements of accesses at affine offsets under a box mask, computed once for all that share
    both.

    Attributes:
        bases: element index of lane 0, per program.
        strides: elements from one lane to the next along each dimension, none negative.
        extents: shape of the access, mask and offsets together.
        intervals: where the mask is on along each dimension: ints for all programs, or arrays
            with one entry each.
        bounds: smallest and largest index, masked lanes included; they may be loose.
        is_alike: True if the mask is on for the same lanes of all programs.
        is_everything: True if no lane of any program is off.
        has_programs: False if all programs make one and the same access.
    """

    bases: Bases
    strides: tuple[int, ...]
    extents: tuple[int, ...]
    intervals: tuple[Interval, ...]
    bounds: tuple[int, int]
    is_alike: bool
    is_everything: bool
    has_programs: bool

    @staticmethod
    def of(buffer: Buffer, offsets: AffineTile, mask: Value | None) -> Box | None:
        """Return the box, or None if the mask is not a box, a stride is negative, or the tensor has
        holes.
        """
        if buffer.present is not None:
            return None
        known = offsets.latest_box
        if known is None or known[0] is not mask or known[1] != buffer.origin:
            known = offsets.latest_box = mask, buffer.origin, _box_at(buffer.origin, offsets, mask)
        return known[2]

    def of_active(self, active: numpy.ndarray) -> Box:
        return self._with_programs(lambda numbers: numbers[active])

    def made_alike(self, active: numpy.ndarray) -> Box:
        """The same for active programs; the others repeat the access of the first of them."""
        first = first_active(active)
        return self._with_programs(lambda numbers: numpy.where(active, numbers, numbers[first]))

    def _with_programs(self, change: Callable[[numpy.ndarray], numpy.ndarray]) -> Box:
        """The box with other programs: `change` is given one number for each."""
        intervals = tuple(
            (
                start if isinstance(start, int) else change(start),
                stop if isinstance(stop, int) else change(stop),
            )
            for start, stop in self.intervals
        )
        bases = change(as_array(self.bases))
        return dataclasses.replace(self, bases=bases, intervals=intervals)

    @property
    def all_lanes(self) -> Lanes:
        return _everything(self.extents)

    def is_inside(self, buffer: Buffer) -> bool:
        """True if every element that is on may be touched."""
        lowest, beyond = buffer.first, buffer.stop
        if lowest <= self.bounds[0] and self.bounds[1] < beyond:
            return True
        low: Any
        high: Any
        low, high = extremes(self.bases) if self.is_alike else [as_array(self.bases)] * 2
        on: Any = True
        for (start, stop), stride in zip(self.intervals, self.strides):
            on = on & (stop > start)
            low = low + start * stride
            high = high + (stop - 1) * stride
        inside = (low >= lowest) & (high < beyond)
        return (
            bool(inside or not on)
            if self.is_alike
            else bool(numpy.all(inside | ~numpy.asarray(on)))
        )

    def fill_outside(self, result: numpy.ndarray, fill: Any) -> None:
        """Set what the mask leaves out of `result`, shape (programs, *extents)."""
        if not self.is_alike:
            result[...] = fill
            return
        for dimension, ((start, stop), extent) in enumerate(zip(self.intervals, self.extents)):
            before = (slice(None),) * (dimension + 1)
            if start > 0:
                result[*before, :start] = fill
            if stop < extent:
                result[*before, max(stop, start) :] = fill

    def pieces(self) -> Iterator[tuple[int, int, Lanes]]:
        """(first program, the one beyond the last, lanes that are on), in program order:
        neighbors with every lane on go together.
        """
        count = len(self.bases)
        if self.is_alike:
            if all(start < stop for start, stop in self.intervals):
                yield 0, count, self.intervals
            return
        whole = numpy.ones(count, numpy.bool_)
        for (start, stop), extent in zip(self.intervals, self.extents):
            whole &= numpy.equal(start, 0) & numpy.equal(stop, extent)
        everything = _everything(self.extents)
        for first, last in _runs(whole):
            if whole[first]:
                yield first, last, everything
                continue
            for program in range(first, last):
                lanes = tuple(
                    (_at(start, program), _at(stop, program)) for start, stop in self.intervals
                )
                if all(start < stop for start, stop in lanes):
                    yield program, program + 1, lanes

    def read(self, elements: numpy.ndarray, bases: Bases, lanes: Lanes) -> numpy.ndarray:
        """A copy of these lanes of the programs with these bases, programs first."""
        loaded = self.looked_at(elements, bases, lanes)
        return loaded.copy() if isinstance(bases, Progression) else loaded

    def looked_at(self, elements: numpy.ndarray, bases: Bases, lanes: Lanes) -> numpy.ndarray:
        """As `read`, and a view of `elements` if the programs are evenly spaced."""
        starts = self._first_on(bases, lanes)
        if isinstance(starts, Progression):
            return self._evenly_spaced(elements, starts, lanes)
        return self._window(elements, starts, lanes)[starts]

    def write(
        self, elements: numpy.ndarray, bases: Bases, lanes: Lanes, values: numpy.ndarray
    ) -> None:
        """Write these lanes of the programs with these bases, in program order."""
        starts = self._first_on(bases, lanes)
        if isinstance(starts, Progression) and self.is_disjoint(starts, lanes):
            self._evenly_spaced(elements, starts, lanes)[...] = values
        else:
            starts = as_array(starts)
            self._window(elements, starts, lanes)[starts] = values

    def _first_on(self, bases: Bases, lanes: Lanes) -> Bases:
        """Element index of the first lane that is on, where `bases` has lane 0's."""
        if self.is_everything:
            return bases
        return bases + sum([start * stride for (start, _), stride in zip(lanes, self.strides)])

    def _evenly_spaced(
        self, elements: numpy.ndarray, starts: Progression, lanes: Lanes
    ) -> numpy.ndarray:
        """The lanes of all programs, as one view of the memory."""
        size = elements.itemsize
        shape, steps = [starts.count], [starts.step * size]
        for (start, stop), stride in zip(lanes, self.strides):
            shape.append(stop - start)
            steps.append(stride * size)
        return numpy.ndarray(shape, elements.dtype, elements, starts.start * size, steps)

    def _window(
        self, elements: numpy.ndarray, starts: numpy.ndarray, lanes: Lanes
    ) -> numpy.ndarray:
        """A view whose entry i is the block of memory that starts at index i."""
        size = elements.itemsize
        return numpy.ndarray(
            (int(starts.max()) + 1, *[stop - start for start, stop in lanes]),
            elements.dtype,
            elements,
            strides=(size, *[stride * size for stride in self.strides]),
        )

    def is_disjoint(self, starts: Bases, lanes: Lanes) -> bool:
        """True if no two lanes share an element: NumPy may write them in any order."""
        steps = [(stride, stop - start) for stride, (start, stop) in zip(self.strides, lanes)]
        if isinstance(starts, Progression):
            return _reach([*steps, (abs(starts.step), starts.count)]) is not None
        reach = _reach(steps)
        if reach is None or len(starts) == 1:
            return reach is not None
        return bool(numpy.diff(numpy.sort(starts)).min() > reach)


def _box_at(origin: int, offsets: AffineTile, mask: Value | None) -> Box | None:
    """Return the box of an access with that origin; None for other masks and negative strides."""
    on = None if mask is None else as_box(mask, offsets.extents)
    if (mask is not None and on is None) or min(offsets.strides, default=0) < 0:
        return None
    extents = offsets.extents if on is None else tuple(map(max, offsets.extents, on.extents))
    is_everything = on is None or on.all()
    intervals = _everything(extents) if on is None or is_everything else _intervals(on, extents)
    base = offsets.base
    has_programs = not isinstance(base, int)
    bases: Bases = base + origin if has_programs else Progression(base + origin, 0, 1)
    differing = [] if is_everything else _differing(intervals)
    if differing:
        has_programs = True
        if len(bases) == 1:
            bases = Progression(extremes(bases)[0], 0, len(differing[0]))
    bounds = offsets.low + origin, offsets.high + origin
    return Box(
        bases,
        offsets.strides,
        extents,
        intervals,
        bounds,
        not differing,
        is_everything,
        has_programs,
    )


def _have_collisions(offsets: AffineTile) -> bool:
    """Whether lanes of a program share elements because they do not differ along some dimension."""
    along = zip(offsets.strides, offsets.extents)
    return any(extent > 1 and not stride for stride, extent in along)


def _reach(steps: Sequence[tuple[int, int]]) -> int | None:
    """How far the last element is from the first, by (step, number); None if two may be one."""
    reach = 0
    for step, number in sorted(steps):
        if number > 1:
            if step <= reach:
                return None
            reach += step * (number - 1)
    return reach


def _everything(extents: tuple[int, ...]) -> Lanes:
    return tuple([(0, extent) for extent in extents])


def _slices(lanes: Lanes) -> tuple[slice, ...]:
    return tuple([slice(start, stop) for start, stop in lanes])


def _intervals(mask: BoxMask, extents: tuple[int, ...]) -> tuple[Interval, ...]:
    """Where the mask is on along each dimension of an access."""
    on = mask.intervals
    return tuple(
        [_same_for_all(on[d]) if d in on else (0, extent) for d, extent in enumerate(extents)]
    )


def _differing(intervals: tuple[Interval, ...]) -> list[numpy.ndarray]:
    return [end for interval in intervals for end in interval if not isinstance(end, int)]


def _same_for_all(interval: Interval) -> Interval:
    start, stop = interval
    return _int_if_constant(start), _int_if_constant(stop)


def _int_if_constant(end: End) -> End:
    if isinstance(end, int):
        return end
    low, high = extremes(end)
    return low if low == high else end


def _runs(flags: numpy.ndarray) -> Iterator[tuple[int, int]]:
    changes = numpy.flatnonzero(flags[1:] != flags[:-1]) + 1
    ends = [0, *changes.tolist(), len(flags)]
    return itertools.pairwise(ends)


def _at(end: End, program: int) -> int:
    return end if isinstance(end, int) else int(end[program])
