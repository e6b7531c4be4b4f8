"""Elements that several programs touch, and at least one of them writes:
found without regard to any order.

While a launch runs, accesses are only listed, as boxes. When it is over, and the memory between the
first and the last element of each program turns out to be its own, or each row of its tiles does,
nothing else needs to be done: so it is with most kernels. Else each element is marked with the
program that wrote it, read it, or updated it by an atomic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.shadow.memory import (
    PIECE,
    SEVERAL,
    ListedPart,
    Part,
    ShadowArray,
    Storage,
)
from kernellab.common.sparse import sparse_zeros
from kernellab.interpreter.memory.buffers import Buffer

Touch = Literal["read", "write", "update"]
"""What an access does to an element: a plain load, a plain store, an atomic."""

_TOUCHES: tuple[Touch, ...] = ("write", "read", "update")

NO_ONE = -1

_UNMARKED = 0
"""A mark is a program's id and 1, or SEVERAL and 1: memory that no one touches is none."""

_MOST_LISTED = 100_000
"""So many accesses are listed; with more, elements are marked at once."""

_MOST_ROWS = 1 << 24
"""So many rows of tiles are compared, 24 bytes each; where there are more, elements are marked."""

_FEW = 4096
"""So many single elements are compared as rows of one: of a large storage, one of so many."""

_MOST_SPANS = 1 << 24
"""So many programs have a span each, 16 bytes, and lists of their accesses; of a launch with more,
elements are marked at once: that takes no more memory than there are elements."""


class ShadowMemory:
    """One storage, and which programs touch its elements."""

    def __init__(self, buffer: Buffer, programs: int) -> None:
        self.storage = Storage(buffer)
        self._unit = self.storage.unit
        self._marks: dict[Touch, ShadowArray] = {}
        self._marked: set[int] = set()
        """Which pieces of the marks have any."""
        has_spans = programs <= _MOST_SPANS
        self._listed: list[tuple[Touch, Part]] | None = [] if has_spans else None
        self._has_spans = has_spans
        self._singles = 0
        self._spans = _Spans(programs if has_spans else 0)
        self._ids: type = numpy.int32 if programs < 1 << 31 else numpy.int64

    def touch(self, kind: Touch, access: Access) -> None:
        """Note an access."""
        if self._listed is not None and not self.storage.fits(access):
            self._mark_all()
        for part in self.storage.parts(access):
            if self._listed is None:
                self._mark(kind, part)
                continue
            self._listed.append((kind, part))
            if not self._is_decided_by_boxes(part) or len(self._listed) > _MOST_LISTED:
                self._mark_all()

    def _is_decided_by_boxes(self, part: Part) -> bool:
        """Whether what was listed, this part too, says who touches what without a mark for each
        element: boxes do, and so do single elements as long as they are few.
        """
        if self._spans.add(part):
            return True
        self._has_spans = False
        self._singles += part.count()
        return self._singles <= max(_FEW, self.storage.length // _FEW)

    def conflicts(self) -> tuple[numpy.ndarray, numpy.ndarray] | None:
        """Which elements two programs touch, one of them by a plain store;
        which one reads and another updates; None where neither is.
        """
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

    def _marks_of(self, kind: Touch) -> numpy.ndarray:
        """A mark for each element."""
        if kind not in self._marks:
            self._marks[kind] = self.storage.shadow(_UNMARKED, self._ids)
        return self._marks[kind].elements

    def _marked_pieces(self, length: int) -> Iterator[slice]:
        pieces = self._marked
        if self._unit != self.storage.unit:  # the marks are about bytes by now
            pieces = set(range(-(-length // PIECE)))
        for piece in sorted(pieces):
            yield slice(piece * PIECE, min((piece + 1) * PIECE, length))

    def _mark(self, kind: Touch, part: Part) -> None:
        marks = self._marks_of(kind)
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

    def _note_pieces(self, part: Part, length: int) -> None:
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
    """See `ShadowMemory.conflicts`, of some elements' marks."""
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


def _are_rows_apart(parts: Sequence[Part]) -> bool:
    """True where no two programs touch one row of neighbors, as tiles of a matrix have them."""
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

    def add(self, part: Part) -> bool:
        """Take in a part of an access; False where that says nothing about single programs."""
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
        """True where no program's last element lies beyond another's first."""
        touched = self._last >= 0
        first, last = self._first[touched], self._last[touched]
        order = numpy.argsort(first)
        return bool((last[order][:-1] < first[order][1:]).all())
