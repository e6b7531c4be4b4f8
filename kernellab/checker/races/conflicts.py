"""Elements that several programs touch, and at least one of them writes:
found without regard to any order.

While a launch runs, accesses are only listed, as boxes. When it is over, and the memory between the
first and the last element of each program turns out to be its own, nothing else needs to be done:
so it is with most kernels. Else each element is marked with the program that wrote it, read it, or
updated it by an atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.shadow.memory import (
    SEVERAL,
    ListedPart,
    Part,
    ShadowArray,
    Storage,
)
from kernellab.interpreter.memory.global_memory import Buffer

Touch = Literal["read", "write", "update"]
"""What an access does to an element: a plain load, a plain store, an atomic."""

NOBODY = -1

_MOST_LISTED = 100_000
"""So many accesses are listed; with more, elements are marked at once."""

_MOST_SPANS = 1 << 24
"""So many programs have a span each, 16 bytes, and lists of their accesses; of a launch with more,
elements are marked at once: that takes no more memory than there are elements."""


class ShadowMemory:
    """One storage, and which programs touch its elements."""

    def __init__(self, buffer: Buffer, programs: int) -> None:
        self.storage = Storage(buffer)
        self._marks: dict[Touch, ShadowArray] = {}
        has_spans = programs <= _MOST_SPANS
        self._listed: list[tuple[Touch, Part]] | None = [] if has_spans else None
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
            if not self._spans.add(part) or len(self._listed) > _MOST_LISTED:
                self._mark_all()

    def conflicts(self) -> tuple[numpy.ndarray, numpy.ndarray] | None:
        """Which elements two programs touch, one of them by a plain store;
        which one reads and another updates; None where neither is.
        """
        if self._listed is not None:
            if self._spans.are_apart() or self._is_written_once(self._listed):
                return None
            self._mark_all()
        wrote, read, updated = (self._marks_of(kind) for kind in ("write", "read", "update"))
        stored = wrote != NOBODY
        races = (
            (wrote == SEVERAL)
            | (stored & _by_another(read, wrote))
            | (stored & _by_another(updated, wrote))
        )
        shown = (updated != NOBODY) & _by_another(read, updated)
        return (races, shown) if races.any() or shown.any() else None

    def _is_written_once(self, listed: Sequence[tuple[Touch, Part]]) -> bool:
        """True where nothing but stores touches the storage, no two of them one element:
        as many elements as lanes.
        """
        if any(kind != "write" or part.repeats for kind, part in listed):
            return False
        written = self.storage.shadow(False, numpy.bool_)
        for _, part in listed:
            part.write(written.elements, True)
        lanes = sum(part.count() for _, part in listed)
        return int(numpy.count_nonzero(written.elements)) == lanes

    def _mark_all(self) -> None:
        listed, self._listed = self._listed or [], None
        for kind, part in listed:
            self._mark(kind, part)

    def _marks_of(self, kind: Touch) -> numpy.ndarray:
        """One program, NOBODY or SEVERAL for each element."""
        if kind not in self._marks:
            self._marks[kind] = self.storage.shadow(NOBODY, self._ids)
        return self._marks[kind].elements

    def _mark(self, kind: Touch, part: Part) -> None:
        marks = self._marks_of(kind)
        if part.repeats and not isinstance(part, ListedPart):
            part = part.listed()
        before = part.read(marks)
        fresh: Any = part.ids
        if not (before == NOBODY).all():
            fresh = numpy.where((before == NOBODY) | (before == part.ids), part.ids, SEVERAL)
        part.write(marks, fresh)
        if part.repeats:
            assert isinstance(part, ListedPart)
            lost = part.read(marks) != fresh
            marks[part.index[lost]] = SEVERAL


def _by_another(marks: numpy.ndarray, one: numpy.ndarray) -> numpy.ndarray:
    """Where a program other than `one` has left its mark, or several have."""
    found: numpy.ndarray = (marks != NOBODY) & ((marks != one) | (marks == SEVERAL))
    return found


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
