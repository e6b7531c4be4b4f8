"""Sets of programs: exact, and small however large the grid is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy

_BLOCK = 1 << 16
"""Programs that are kept together, a bit each."""


class ProgramSet:
    """Linear ids of programs, which come batch by batch: a bit for each one of a block that has
    some, nothing but a note for a block that has all. A thousand million take 125 MB at most.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, numpy.ndarray | None] = {}
        """Number of a block -> its bits, packed; None where all are set."""
        self._count = 0

    def update(self, ids: ProgramSet | Iterable[int] | numpy.ndarray) -> None:
        """Take in programs; such as are there already change nothing."""
        if isinstance(ids, ProgramSet):
            for part in ids._parts():
                self.update(part)
            return
        several = ids if isinstance(ids, numpy.ndarray) else numpy.fromiter(ids, numpy.int64)
        blocks = several // _BLOCK
        for block in numpy.unique(blocks).tolist():
            self._mark(block, several[blocks == block] % _BLOCK)

    def _mark(self, block: int, places: numpy.ndarray) -> None:
        kept = self._blocks.setdefault(block, numpy.zeros(_BLOCK // 8, numpy.uint8))
        if kept is None:
            return
        bits = numpy.unpackbits(kept)
        before = int(numpy.count_nonzero(bits))
        bits[places] = 1
        after = int(numpy.count_nonzero(bits))
        self._count += after - before
        self._blocks[block] = None if after == _BLOCK else numpy.packbits(bits)

    def _parts(self) -> Iterator[numpy.ndarray]:
        """The ids, in order, block by block."""
        for block in sorted(self._blocks):
            kept = self._blocks[block]
            inside = numpy.arange(_BLOCK) if kept is None else numpy.unpackbits(kept).nonzero()[0]
            yield block * _BLOCK + inside

    def __len__(self) -> int:
        return self._count

    def first(self, number: int) -> list[int]:
        """Return the lowest ids, at most `number` of them."""
        lowest: list[int] = []
        for part in self._parts():
            lowest += part[: number - len(lowest)].tolist()
            if len(lowest) >= number:
                break
        return lowest
