"""Shadow memory: notes on elements of storages, such as which programs touch them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy
import torch

from kernellab.checker.arguments import LazyCopies
from kernellab.checker.checked_run import CheckedAccess
from kernellab.common.containers import sparse_zeros
from kernellab.interpreter.affine import as_array, part_of
from kernellab.interpreter.memory.buffers import Box, Buffer

Ids = Any
"""Linear ids of the programs that touch elements: an array that broadcasts, or one number."""

SEVERAL = -2
"""In place of a program's id: more than one."""

PIECE = 1 << 20
"""The number of notes that are examined together, because intermediate results take memory."""


@dataclass(frozen=True)
class Stretches:
    """Elements from each of `starts` up to and without each of `stops`.

    Attributes:
        ids: the program that touches each, or one number for all.
        is_exact: False if elements between them are not touched.
    """

    starts: numpy.ndarray
    stops: numpy.ndarray
    ids: Ids
    is_exact: bool = True

    def together(self) -> Stretches:
        """The same as one stretch if one follows another, whoever touches it."""
        starts, stops = self.starts, self.stops
        if len(starts) > 1 and (starts[1:] == stops[:-1]).all():
            return Stretches(starts[:1], stops[-1:], SEVERAL, self.is_exact)
        return self


@dataclass(frozen=True)
class AccessPart(ABC):
    """A part of an access, all of whose lanes are on.

    Attributes:
        ids: the program that touches each element.
        repeats: True if several lanes may touch one element.
    """

    ids: Ids
    repeats: bool

    @abstractmethod
    def read(self, shadow: numpy.ndarray) -> numpy.ndarray:
        """A copy of the notes about its elements."""

    @abstractmethod
    def write(self, shadow: numpy.ndarray, values: Any) -> None:
        """Change the notes about its elements; of lanes that touch one element, one wins."""

    @abstractmethod
    def count(self) -> int:
        """How many lanes it has."""

    @abstractmethod
    def listed(self) -> ListedPart:
        """The same, its elements one by one."""

    @abstractmethod
    def stretches(self) -> Stretches:
        """Its elements as rows of neighbors."""

    def span(self) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray] | None:
        """(ids, first, last) of each program's elements; None if slow, or if programs share
        some."""
        return None


@dataclass(frozen=True)
class _BoxPart(AccessPart):
    """Lanes of neighboring programs whose elements are evenly spaced."""

    box: Box
    bases: Any
    lanes: Any

    def read(self, shadow: numpy.ndarray) -> numpy.ndarray:
        return self.box.read(shadow, self.bases, self.lanes)

    def write(self, shadow: numpy.ndarray, values: Any) -> None:
        self.box.write(shadow, self.bases, self.lanes, values)

    def count(self) -> int:
        lanes = [int(stop - start) for start, stop in self.lanes]
        return len(self.bases) * math.prod(lanes)

    def listed(self) -> ListedPart:
        index = as_array(self.bases).reshape((-1,) + (1,) * len(self.lanes))
        for dimension, ((start, stop), stride) in enumerate(zip(self.lanes, self.box.strides)):
            steps = numpy.arange(start, stop) * stride
            index = index + steps.reshape((-1,) + (1,) * (len(self.lanes) - dimension - 1))
        ids = self.ids if numpy.ndim(self.ids) == 0 else numpy.broadcast_to(self.ids, index.shape)
        return ListedPart(ids if numpy.ndim(ids) == 0 else ids.reshape(-1), True, index.reshape(-1))

    def stretches(self) -> Stretches:
        lengths = [int(stop - start) for start, stop in self.lanes]
        steps = self.box.strides
        along = [place for place, length in enumerate(lengths) if length > 1 and steps[place]]
        row = min(along, key=lambda place: steps[place], default=None)
        length = 1 if row is None else (lengths[row] - 1) * steps[row] + 1
        starts = as_array(self.bases)
        for place, ((start, stop), stride) in enumerate(zip(self.lanes, steps)):
            if place == row or place not in along:
                starts = starts + start * stride
            else:
                starts = (starts[:, None] + numpy.arange(start, stop) * stride).reshape(-1)
        ids = self.ids
        if numpy.ndim(ids):
            ids = numpy.repeat(ids.reshape(-1), len(starts) // len(self.bases))
        return Stretches(starts, starts + length, ids, row is None or steps[row] == 1)

    def span(self) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray] | None:
        if numpy.ndim(self.ids) == 0 and self.ids == SEVERAL:
            return None
        first = last = as_array(self.bases)
        for (start, stop), stride in zip(self.lanes, self.box.strides):
            first, last = first + start * stride, last + (stop - 1) * stride
        return numpy.ravel(self.ids), first, last


@dataclass(frozen=True)
class ListedPart(AccessPart):
    """Elements by their indices."""

    index: numpy.ndarray

    def read(self, shadow: numpy.ndarray) -> numpy.ndarray:
        notes: numpy.ndarray = shadow[self.index]
        return notes

    def write(self, shadow: numpy.ndarray, values: Any) -> None:
        shadow[self.index] = values

    def count(self) -> int:
        return int(self.index.size)

    def stretches(self) -> Stretches:
        index = self.index.reshape(-1)
        ids = self.ids if numpy.ndim(self.ids) == 0 else numpy.ravel(self.ids)
        return Stretches(index, index + 1, ids)

    def listed(self) -> ListedPart:
        return self


class Storage:
    """One storage that accesses go to.

    Attributes:
        unit: bytes of the elements that notes are about.
        phase: bytes before the first of them.
    """

    def __init__(self, buffer: Buffer, like: Storage | None = None) -> None:
        """`like` is the same storage in another run, whose units shall be this one's."""
        self.tensor = buffer.tensor
        self._start = buffer.tensor.untyped_storage().data_ptr()
        self.unit: int = buffer.itemsize if like is None else like.unit
        self.phase: int = _address(buffer) - self._start if like is None else like.phase
        self._shadows: list[ShadowArray] = []

    def is_like(self, other: Storage) -> bool:
        """Whether notes are of the same elements as the other's, of this storage in another run."""
        return (self.unit, self.phase) == (other.unit, other.phase)

    def shadow(self, fill: Any, dtype: Any) -> ShadowArray:
        made = ShadowArray(fill, dtype)
        self._shadows.append(made)
        made.elements = _filled(self.length, fill, dtype)
        return made

    def parts(self, access: CheckedAccess) -> Iterator[AccessPart]:
        """The elements that an access touches, in terms of the notes."""
        if self.fits(access):
            yield from _parts(access)
            return
        buffer = access.buffer
        phase = _address(buffer) - self._start
        if self.unit != 1:
            self._become_bytes()
        size = buffer.itemsize
        part = _listed(access)
        index = part.index[:, None] * size + phase + numpy.arange(size)
        ids = part.ids if numpy.ndim(part.ids) == 0 else part.ids[:, None]
        yield ListedPart(ids, True, index)

    def fits(self, access: CheckedAccess) -> bool:
        """Whether the elements of an access are those that notes are about."""
        buffer = access.buffer
        return buffer.itemsize == self.unit and _address(buffer) - self._start == self.phase

    def view(self, tensor: torch.Tensor, shadow: numpy.ndarray) -> numpy.ndarray:
        """The notes of a tensor in the storage, in its shape, and along an axis if several each."""
        size, unit = tensor.element_size(), self.unit
        first = tensor.storage_offset() * size - self.phase
        strides = tuple(step * size // unit * shadow.itemsize for step in tensor.stride())
        shape = tuple(tensor.shape)
        if size > unit:
            shape, strides = (*shape, size // unit), (*strides, shadow.itemsize)
        window = shadow[first // unit :]
        return numpy.lib.stride_tricks.as_strided(window, shape, strides, writeable=True)

    def index_in(self, buffer_index: Any, buffer: Buffer) -> Any:
        """Where the notes on a buffer's elements are, by their indices (of each the first)."""
        return (
            buffer_index * buffer.itemsize + _address(buffer) - self._start - self.phase
        ) // self.unit

    def place_in(self, number: int, buffer: Buffer) -> int:
        byte: int = number * self.unit + self.phase + self._start - _address(buffer)
        return byte // buffer.itemsize

    @property
    def length(self) -> int:
        total: int = self.tensor.untyped_storage().nbytes()
        return max(total - self.phase, 0) // self.unit

    def _become_bytes(self) -> None:
        """Note single bytes from here on: elements of several sizes share the storage."""
        unit, phase = self.unit, self.phase
        self.unit, self.phase = 1, 0
        for shadow in self._shadows:
            old = shadow.elements
            shadow.elements = _filled(self.length, shadow.fill, shadow.dtype)
            for first in range(0, len(old), PIECE):
                noted = old[first : first + PIECE]
                if (noted != shadow.fill).any():
                    place = phase + first * unit
                    again = numpy.repeat(noted, unit)
                    shadow.elements[place : place + len(again)] = again


@dataclass
class ShadowArray:
    """Shadow memory of one storage, with a note for each element; `elements` may be replaced."""

    fill: Any
    dtype: Any
    elements: numpy.ndarray = field(init=False)


class Storages:
    """The storages that a launch touches, found by the buffers of its accesses."""

    def __init__(self, make: Callable[[Buffer], Any]) -> None:
        """`make` is called once for each storage, with its first buffer."""
        self._make = make
        self._by_tensor: dict[int, tuple[torch.Tensor, Any]] = {}
        self.by_start: dict[int, Any] = {}

    def __getitem__(self, buffer: Buffer) -> Any:
        """What stands for the storage of a buffer."""
        number = id(buffer.tensor)
        if number not in self._by_tensor:
            start = buffer.tensor.untyped_storage().data_ptr()
            if start not in self.by_start:
                self.by_start[start] = self._make(buffer)
            # The tensor is kept, so that its id is unique.
            self._by_tensor[number] = buffer.tensor, self.by_start[start]
        return self._by_tensor[number][1]


def has_more(notes: numpy.ndarray, other: numpy.ndarray) -> bool:
    """Return whether a note is true in one array and not in the other."""
    pieces = (slice(first, first + PIECE) for first in range(0, len(notes), PIECE))
    return any(bool((notes[piece] & ~other[piece]).any()) for piece in pieces)


def either(notes: numpy.ndarray, other: numpy.ndarray) -> numpy.ndarray:
    """Return the notes that are true in one of two arrays."""
    union = sparse_zeros(len(notes), numpy.bool_)
    for first in range(0, len(notes), PIECE):
        piece = slice(first, first + PIECE)
        here = notes[piece] | other[piece]
        if here.any():
            union[piece] = here
    return union


def fetch(copies: LazyCopies, access: CheckedAccess) -> None:
    """Have what an access is about to touch; see `LazyCopy`."""
    buffer = access.buffer
    copy = copies.of(buffer.tensor)
    if copy is None:
        return
    size, phase = buffer.itemsize, _address(buffer) - copy.storage.data_ptr()
    for part in _parts(access):
        touched = part.stretches().together()
        copy.fetch(touched.starts * size + phase, touched.stops * size + phase)


def _filled(length: int, fill: Any, dtype: Any) -> numpy.ndarray:
    """An array of one value; of zeros, only what is written takes memory."""
    return numpy.full(length, fill, dtype) if fill else sparse_zeros(length, dtype)


def _address(buffer: Buffer) -> int:
    address: int = buffer.elements.__array_interface__["data"][0]
    return address


def _parts(access: CheckedAccess) -> Iterator[AccessPart]:
    box = access.box
    if box is None:
        yield _listed(access)
        return
    ids = _ids_of(access, box)
    count = len(box.bases)
    for first, last, lanes in box.pieces():
        bases = part_of(box.bases, first, last)
        whole = numpy.ndim(ids) == 0 or (first == 0 and last == count)
        part_ids = ids if whole else ids[first:last]
        yield _BoxPart(part_ids, not box.is_disjoint(bases, lanes), box, bases, lanes)


def _ids_of(access: CheckedAccess, box: Box) -> Ids:
    ids = access.linear_ids()
    if not box.has_programs or len(box.bases) != len(ids):
        return int(ids[0]) if len(ids) == 1 else SEVERAL
    return ids.reshape((-1,) + (1,) * len(box.extents))


def _listed(access: CheckedAccess) -> ListedPart:
    on = access.on
    index = access.index
    shape = index.shape if on is None else numpy.broadcast_shapes(index.shape, on.shape)
    ids: Ids = access.linear_ids(numpy.arange(access.programs.count)) if access.programs else 0
    if len(shape) > access.rank and shape[0] > 1:
        ids = numpy.broadcast_to(ids.reshape((-1,) + (1,) * access.rank), shape)
    else:
        taking_part = access.linear_ids()
        ids = int(taking_part[0]) if len(taking_part) == 1 else SEVERAL
    index = numpy.broadcast_to(index, shape)
    if on is None:
        return ListedPart(ids if numpy.ndim(ids) == 0 else ids.reshape(-1), True, index.reshape(-1))
    chosen = numpy.broadcast_to(on, shape)
    return ListedPart(ids if numpy.ndim(ids) == 0 else ids[chosen], True, index[chosen])


# Find elements that several programs touch and at least one writes, regardless of order. While a
# launch runs, accesses are only listed, as boxes. When it is over, and the memory between the first
# and the last element of each program turns out to be its own, or each row of its tiles does,
# nothing else needs to be done, as for most kernels. Otherwise each element is marked with the
# program that wrote it, read it, or updated it by an atomic.


Touch = Literal["read", "write", "update"]
"""The kinds of accesses to an element: a plain load, a plain store, an atomic."""

_TOUCHES: tuple[Touch, ...] = ("write", "read", "update")

NO_ONE = -1

_UNMARKED = 0
"""A mark is a program's id and 1, or SEVERAL and 1: untouched memory has none."""

_MOST_LISTED = 100_000
"""The most accesses that are listed; with more, elements are marked at once."""

_MOST_ROWS = 1 << 24
"""So many rows of tiles are compared, 24 bytes each; if there are more, elements are marked."""

_FEW = 4096
"""So many single elements are compared as rows of one: of a large storage, one of so many."""

_MOST_SPANS = 1 << 24
"""The most programs that have a span each, of 16 bytes; in larger launches elements are marked."""


class ShadowMemory:
    """One storage, and which programs touch its elements."""

    def __init__(self, buffer: Buffer, programs: int) -> None:
        self.storage = Storage(buffer)
        self._unit = self.storage.unit
        self._marks: dict[Touch, ShadowArray] = {}
        self._marked: set[int] = set()
        """Which pieces of the marks have any."""
        has_spans = programs <= _MOST_SPANS
        self._listed: list[tuple[Touch, AccessPart]] | None = [] if has_spans else None
        self._has_spans = has_spans
        self._singles = 0
        self._spans = _Spans(programs if has_spans else 0)
        self._ids: type = numpy.int32 if programs < 1 << 31 else numpy.int64

    def touch(self, kind: Touch, access: CheckedAccess) -> None:
        if self._listed is not None and not self.storage.fits(access):
            self._mark_all()
        for part in self.storage.parts(access):
            if self._listed is None:
                self._mark(kind, part)
                continue
            self._listed.append((kind, part))
            if not self._is_decided_by_boxes(part) or len(self._listed) > _MOST_LISTED:
                self._mark_all()

    def _is_decided_by_boxes(self, part: AccessPart) -> bool:
        """Whether the list says who touches what: by boxes, or few single elements."""
        if self._spans.add(part):
            return True
        self._has_spans = False
        self._singles += part.count()
        return self._singles <= max(_FEW, self.storage.length // _FEW)

    def conflicts(self) -> tuple[numpy.ndarray, numpy.ndarray] | None:
        """Which elements one stores and another touches, or one reads and one updates; or None."""
        if self._listed is not None:
            apart = self._has_spans and self._spans.are_apart()
            if apart or _are_rows_apart([part for _, part in self._listed]):
                return None
            self._mark_all()
        if not self._marks:
            return None
        length = self.storage.length
        races, shown = (sparse_zeros(length, numpy.bool_) for _ in range(2))
        has_conflicts = False
        for piece in self._marked_pieces(length):
            nothing = numpy.zeros(piece.stop - piece.start, self._ids)
            wrote, read, updated = (
                self._marks[kind].elements[piece] if kind in self._marks else nothing
                for kind in _TOUCHES
            )
            race, show = _conflicts_of(wrote, read, updated)
            if race.any() or show.any():
                races[piece], shown[piece], has_conflicts = race, show, True
        return (races, shown) if has_conflicts else None

    def _mark_all(self) -> None:
        listed, self._listed = self._listed or [], None
        for kind, part in listed:
            self._mark(kind, part)

    def _marked_pieces(self, length: int) -> Iterator[slice]:
        pieces = self._marked
        if self._unit != self.storage.unit:  # the marks are about bytes by now
            pieces = set(range(-(-length // PIECE)))
        for piece in sorted(pieces):
            yield slice(piece * PIECE, min((piece + 1) * PIECE, length))

    def _mark(self, kind: Touch, part: AccessPart) -> None:
        if kind not in self._marks:
            self._marks[kind] = self.storage.shadow(_UNMARKED, self._ids)
        marks = self._marks[kind].elements
        if part.repeats and not isinstance(part, ListedPart):
            part = part.listed()
        self._note_pieces(part, len(marks))
        before, own = part.read(marks), part.ids + 1
        fresh: Any = own
        if not (before == _UNMARKED).all():
            fresh = numpy.where((before == _UNMARKED) | (before == own), own, SEVERAL + 1)
        part.write(marks, fresh)
        if part.repeats:
            assert isinstance(part, ListedPart)
            lost = part.read(marks) != fresh
            marks[part.index[lost]] = SEVERAL + 1

    def _note_pieces(self, part: AccessPart, length: int) -> None:
        if length <= PIECE:
            self._marked = {0}
            return
        rows = part.stretches()
        first, last = rows.starts // PIECE, (rows.stops - 1) // PIECE
        self._marked.update(numpy.unique(first).tolist())
        for begin, end in zip(first[last > first].tolist(), last[last > first].tolist()):
            self._marked.update(range(begin, end + 1))


def _conflicts_of(
    wrote: numpy.ndarray, read: numpy.ndarray, updated: numpy.ndarray
) -> tuple[numpy.ndarray, numpy.ndarray]:
    stored = wrote != _UNMARKED
    races = (
        (wrote == SEVERAL + 1)
        | (stored & _by_another(read, wrote))
        | (stored & _by_another(updated, wrote))
    )
    return races, (updated != _UNMARKED) & _by_another(read, updated)


def _by_another(marks: numpy.ndarray, program: numpy.ndarray) -> numpy.ndarray:
    """Return where several programs, or a program other than `program`, have left a mark."""
    others: numpy.ndarray = (marks != _UNMARKED) & ((marks != program) | (marks == SEVERAL + 1))
    return others


def _are_rows_apart(parts: Sequence[AccessPart]) -> bool:
    """True if no two programs touch one row of neighbors, as tiles of a matrix have them."""
    rows = [part.stretches() for part in parts]
    if not rows or sum(len(row.starts) for row in rows) > _MOST_ROWS:
        return not rows
    if any(numpy.ndim(row.ids) == 0 and row.ids == SEVERAL for row in rows):
        return False
    ids = numpy.concatenate([numpy.broadcast_to(row.ids, row.starts.shape) for row in rows])
    starts = numpy.concatenate([row.starts for row in rows])
    stops = numpy.concatenate([row.stops for row in rows])
    order = numpy.lexsort((starts, ids))
    ids, starts, stops = ids[order], starts[order], stops[order]
    # How far each program has come, rows of different programs kept apart by large steps.
    step = int(stops.max()) + 1
    reached = numpy.maximum.accumulate(ids * step + stops) - ids * step
    begins = numpy.ones(len(ids), numpy.bool_)
    begins[1:] = (ids[1:] != ids[:-1]) | (starts[1:] > reached[:-1])
    ends = numpy.concatenate((numpy.flatnonzero(begins)[1:] - 1, [len(ids) - 1]))
    starts, stops = starts[begins], reached[ends]
    order = numpy.argsort(starts)
    return bool((stops[order][:-1] <= starts[order][1:]).all())


class _Spans:
    """The first and the last element of each program."""

    def __init__(self, programs: int) -> None:
        self._first = numpy.full(programs, numpy.iinfo(numpy.int64).max)
        self._last = numpy.full(programs, -1)

    def add(self, part: AccessPart) -> bool:
        """Take in a part of an access; False if that says nothing about single programs."""
        span = part.span()
        if span is None:
            return False
        ids, first, last = span
        where: Any = ids
        if len(ids) and ids[-1] - ids[0] == len(ids) - 1:
            where = slice(int(ids[0]), int(ids[-1]) + 1)
        self._first[where] = numpy.minimum(self._first[where], first)
        self._last[where] = numpy.maximum(self._last[where], last)
        return True

    def are_apart(self) -> bool:
        """True if no program's last element is beyond another's first."""
        touched = self._last >= 0
        first, last = self._first[touched], self._last[touched]
        order = numpy.argsort(first)
        return bool((last[order][:-1] < first[order][1:]).all())
