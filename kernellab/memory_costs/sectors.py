"""Sets of sectors: the pieces of 32 bytes in which memory is moved, by their numbers (address over 32)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy

from kernellab.layouts import Numbers

SECTOR = 32
"""Bytes of a sector."""

_PAGE = 1 << 16
"""Sectors of a page, 2 MiB of memory: a set keeps a boolean for each sector of the pages that it touches."""


def different(numbers: Numbers) -> Numbers:
    """Each number once, in order."""
    ordered = numpy.sort(numbers)
    first = numpy.ones(len(ordered), numpy.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


class SectorSet:
    """Sectors, each once."""

    def __init__(self) -> None:
        self._pages: dict[int, numpy.ndarray] = {}

    def add(self, sectors: Numbers) -> None:
        """Put sectors into the set."""
        if not len(sectors):
            return
        pages = sectors // _PAGE
        if pages.min() == pages.max():
            self._page(int(pages[0]))[sectors % _PAGE] = True
            return
        for page in different(pages).tolist():
            self._page(page)[sectors[pages == page] % _PAGE] = True

    def _page(self, number: int) -> numpy.ndarray:
        if number not in self._pages:
            self._pages[number] = numpy.zeros(_PAGE, numpy.bool_)
        return self._pages[number]

    def __len__(self) -> int:
        return sum(int(numpy.count_nonzero(page)) for page in self._pages.values())

    @staticmethod
    def union(sets: Iterable[SectorSet]) -> SectorSet:
        """What is in any of the sets."""
        found = SectorSet()
        for one in sets:
            for number, page in one._pages.items():
                found._page(number)[...] |= page
        return found
