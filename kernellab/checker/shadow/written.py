"""Which elements of a storage were written: rows of neighbors as long as they are that,
a note for each element from then on.
"""

from __future__ import annotations

import numpy
import torch

from kernellab.checker.checked_run import Access
from kernellab.checker.shadow.memory import PIECE, ListedPart, ShadowArray, Storage
from kernellab.interpreter.memory.buffers import Buffer

_MOST_ROWS = 1 << 20
"""So many rows are kept, 16 bytes each."""


class WrittenElements:
    """The elements of one storage that were written."""

    def __init__(self, buffer: Buffer) -> None:
        self.storage = Storage(buffer)
        self._rows: list[tuple[numpy.ndarray, numpy.ndarray]] = []
        """First byte, and the one beyond the last."""
        self._count = 0
        self._notes: ShadowArray | None = None

    def add(self, access: Access) -> None:
        """An access has written its elements."""
        for part in self.storage.parts(access):
            rows = None
            if self._notes is None and not isinstance(part, ListedPart):
                rows = part.stretches().together()
            if rows is None or not rows.is_exact:
                part.write(self._noted().elements, True)
                continue
            size, first = self.storage.unit, self.storage.phase
            self._rows.append((rows.starts * size + first, rows.stops * size + first))
            self._count += len(rows.starts)
            if self._count > _MOST_ROWS:
                self._join()

    def unwritten(self, tensor: torch.Tensor) -> tuple[int, tuple[int, ...]] | None:
        """How many elements of a tensor that lies in the storage were not written,
        and the first of them; None where all were.
        """
        if not tensor.numel() or self._covers(tensor):
            return None
        return first_unset(self.storage.view(tensor, self._noted().elements), tensor.ndim)

    def _covers(self, tensor: torch.Tensor) -> bool:
        """Whether one row of bytes that were all written holds a tensor."""
        if self._notes is not None or not self._rows:
            return False
        self._join()
        starts, stops = self._rows[0]
        size = tensor.element_size()
        steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
        first = int(tensor.storage_offset()) * size
        row = int(numpy.searchsorted(starts, first, side="right")) - 1
        return row >= 0 and first + (steps + 1) * size <= int(stops[row])

    def _join(self) -> None:
        """Make one row of those that overlap, or follow one on another."""
        if self._count == 1:
            return
        starts = numpy.concatenate([start for start, _ in self._rows])
        stops = numpy.concatenate([stop for _, stop in self._rows])
        order = numpy.argsort(starts, kind="stable")
        starts, reached = starts[order], numpy.maximum.accumulate(stops[order])
        begins = numpy.concatenate(([True], starts[1:] > reached[:-1]))
        ends = numpy.concatenate((numpy.flatnonzero(begins)[1:] - 1, [len(starts) - 1]))
        self._rows = [(starts[begins], reached[ends])]
        self._count = len(ends)
        if self._count > _MOST_ROWS // 2:
            self._noted()

    def _noted(self) -> ShadowArray:
        """A note for each element."""
        if self._notes is None:
            self._notes = self.storage.shadow(False, numpy.bool_)
            size, phase = self.storage.unit, self.storage.phase
            for starts, stops in self._rows:
                firsts, lasts = (starts - phase) // size, (stops - phase) // size
                for first, last in zip(firsts.tolist(), lasts.tolist()):
                    self._notes.elements[first:last] = True
            self._rows, self._count = [], 0
        return self._notes


def first_unset(noted: numpy.ndarray, rank: int) -> tuple[int, tuple[int, ...]] | None:
    """How many elements have no note, and the first of them; None where all have. Of elements with
    several notes, along a further dimension, each must be set.
    """
    count, first = 0, None
    rows = max(1, PIECE // max(1, noted[:1].size)) if noted.ndim else 1
    for start in range(0, len(noted), rows) if rank else (0,):
        piece = noted[start : start + rows] if rank else noted
        unset = ~(piece if noted.ndim == rank else piece.all(axis=-1))
        here = int(numpy.count_nonzero(unset))
        if here and first is None:
            place = [int(i) for i in numpy.unravel_index(int(unset.argmax()), unset.shape)]
            first = (start + place[0], *place[1:]) if rank else ()
        count += here
    return None if first is None else (count, first)
