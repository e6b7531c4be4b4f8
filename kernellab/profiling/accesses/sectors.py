"""Sectors: the pieces of 32 bytes in which memory is moved, by their numbers (address over 32).
Mostly many follow each other: runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy

from kernellab.records.layouts import Numbers

SECTOR = 32
"""Bytes of a sector."""
SECTOR_BITS = 5
"""An address shifted by so many bits is its sector."""

_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS
"""Sectors of a page, 2 MiB of memory: a set keeps a boolean for each sector of the pages
that it touches."""
_FEW_RUNS = 256
"""So many runs are marked one by one; of more, every sector is looked up."""
_SHORT = 4
"""Runs of so many sectors on average are not worth merging."""
_LONG = 2
"""Runs of so many sectors on average are worth making."""
_MOST_PAGES_AT_ONCE = 64
"""So many pages are marked together, those between them included."""


class Runs(NamedTuple):
    """Sectors that follow each other: entry i is `starts[i]` up to, not including, `stops[i]`."""

    starts: Numbers
    stops: Numbers

    @property
    def lengths(self) -> Numbers:
        """Sectors of each run."""
        return self.stops - self.starts

    def merged(self) -> Runs:
        """The same sectors, each once, in order, in as few runs as possible."""
        if len(self.starts) < 2:
            return self
        starts, stops = self
        if (starts[1:] < starts[:-1]).any():
            order = numpy.argsort(starts)
            starts, stops = starts[order], stops[order]
        reached = numpy.maximum.accumulate(stops)
        begins = numpy.ones(len(starts), numpy.bool_)
        begins[1:] = starts[1:] > reached[:-1]
        ends = numpy.ones(len(starts), numpy.bool_)
        ends[:-1] = begins[1:]
        return Runs(starts[begins], reached[ends])

    def numbers(self) -> Numbers:
        """Every sector."""
        lengths = self.lengths
        count = int(lengths.sum())
        if count == len(lengths):  # no run is empty
            return self.starts
        before = numpy.cumsum(lengths) - lengths
        every: Numbers = numpy.arange(count) + numpy.repeat(self.starts - before, lengths)
        return every

    @staticmethod
    def joined(parts: Iterable[Runs]) -> Runs:
        """The runs of all parts."""
        starts, stops = zip(*parts)
        return Runs(numpy.concatenate(starts), numpy.concatenate(stops))


class RunsOfRows(NamedTuple):
    """The different sectors of several rows, row after row."""

    runs: Runs
    counts: Numbers
    """How many runs each row has."""
    sectors: Numbers
    """How many sectors each row has."""

    @property
    def entries(self) -> int:
        """How many runs are kept."""
        return len(self.runs.starts)

    def as_runs(self) -> RunsOfRows:
        """They are."""
        return self

    def chosen(self, rows: Numbers, moved: Numbers) -> tuple[Runs, Numbers]:
        """The runs of some rows, moved by so many sectors each;
        and which entry of `rows` each run is of.
        """
        many = self.counts[rows]
        owners = numpy.repeat(numpy.arange(len(rows)), many)
        starts = numpy.cumsum(self.counts) - self.counts
        begins = numpy.cumsum(many) - many
        place = numpy.arange(len(owners)) + (starts[rows] - begins)[owners]
        shift = moved[owners]
        return Runs(self.runs.starts[place] + shift, self.runs.stops[place] + shift), owners


class ScatteredRows(NamedTuple):
    """The different sectors of several rows, few of which follow each other."""

    numbers: Numbers
    """The sectors, row after row, each row's in order, counted from `origin` on."""
    origin: int
    sectors: Numbers
    """How many sectors each row has."""

    @property
    def entries(self) -> int:
        """How many numbers are kept."""
        return len(self.numbers)

    def as_runs(self) -> RunsOfRows:
        """A run for each of them."""
        starts = numpy.add(self.numbers, self.origin, dtype=numpy.int64)
        return RunsOfRows(Runs(starts, starts + 1), self.sectors, self.sectors)


SectorsOfRows = RunsOfRows | ScatteredRows
"""The different sectors of several rows."""


def sectors_of_rows(different: Numbers, counts: Numbers, origin: int) -> SectorsOfRows:
    """The different sectors of rows, counted from `origin` on:
    row after row, so many of each, and those of each in order.
    """
    begins = numpy.ones(len(different) + 1, numpy.bool_)
    begins[1:-1] = different[1:] - different[:-1] != 1
    begins[numpy.cumsum(counts)] = True
    if _LONG * numpy.count_nonzero(begins) > len(begins):
        return ScatteredRows(different, origin, counts)
    starts = numpy.add(different[begins[:-1]], origin, dtype=numpy.int64)
    stops = numpy.add(different[begins[1:]], origin + 1, dtype=numpy.int64)
    runs_until = numpy.searchsorted(numpy.flatnonzero(begins), numpy.cumsum(counts))
    return RunsOfRows(Runs(starts, stops), numpy.diff(runs_until, prepend=0), counts)


class SectorSet:
    """Sectors, each once."""

    def __init__(self) -> None:
        self._pages: dict[int, numpy.ndarray] = {}

    def add(self, runs: Runs) -> None:
        """Put the sectors of runs into the set."""
        if int(runs.lengths.sum()) > _SHORT * len(runs.starts):
            runs = runs.merged()
        if len(runs.starts) <= _FEW_RUNS:
            for page, start, stop in _by_page(runs):
                self._page(page)[start:stop] = True
            return
        self.add_numbers(runs.numbers(), 0)

    def add_numbers(self, numbers: Numbers, origin: int) -> None:
        """Put sectors into the set, counted from `origin` on."""
        if not len(numbers):
            return
        first = int(numbers.min()) + origin >> _PAGE_BITS
        last = int(numbers.max()) + origin >> _PAGE_BITS
        places = numpy.add(numbers, origin - (first << _PAGE_BITS), dtype=numpy.int64)
        if last - first < _MOST_PAGES_AT_ONCE:
            window = numpy.zeros((last - first + 1, _PAGE), numpy.bool_)
            window.reshape(-1)[places] = True
            for number, marks in enumerate(window, first):
                if marks.any():
                    self._page(number)[...] |= marks
            return
        pages = places >> _PAGE_BITS
        for number in numpy.unique(pages).tolist():
            self._page(first + number)[places[pages == number] % _PAGE] = True

    def _page(self, number: int) -> numpy.ndarray:
        if number not in self._pages:
            self._pages[number] = numpy.zeros(_PAGE, numpy.bool_)
        return self._pages[number]

    def __len__(self) -> int:
        return sum(int(numpy.count_nonzero(page)) for page in self._pages.values())

    @staticmethod
    def union(sets: Iterable[SectorSet]) -> SectorSet:
        """What is in any of the sets."""
        union = SectorSet()
        for sector_set in sets:
            for number, page in sector_set._pages.items():
                other = union._pages.get(number)
                union._pages[number] = page.copy() if other is None else other | page
        return union


def _by_page(runs: Runs) -> Iterator[tuple[int, int, int]]:
    """(page, start in it, stop in it) of every run, cut where pages end."""
    for start, stop in zip(runs.starts.tolist(), runs.stops.tolist()):
        while start < stop:
            page, first = divmod(start, _PAGE)
            last = min(first + stop - start, _PAGE)
            yield page, first, last
            start += last - first
