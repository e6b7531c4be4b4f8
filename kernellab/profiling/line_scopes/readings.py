"""What a launch of a marked kernel noted: the words that Proton's operations wrote, as arrays, and
the spans of cycles between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import numpy.typing as npt

from kernellab.errors import ProfileError
from kernellab.triton_api.marked_kernels import HEADER_WORDS, MAGIC, ReadingMemory, mark_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Readings:
    """The clock as the warps of some programs read it. Arrays begin with a program and a warp."""

    programs: Array
    """Each program's number in the grid, x fastest."""
    warps: tuple[int, ...]
    """Those that noted the clock."""
    taken: Array
    """How many readings each warp took; the newest were kept."""
    kept: Array
    """How many there are."""
    marks: Array
    """The mark of each reading, in the order in which they were taken."""
    clocks: Array
    """The low 32 bits of the multiprocessor's clock at each."""

    @property
    def lost(self) -> int:
        """Readings that newer ones took the place of."""
        return int((self.taken - self.kept).sum())


def read(words: Array, memory: ReadingMemory) -> Readings:
    """The readings in the words of some programs: one row of unsigned 32-bit integers for each.

    Raises:
        ProfileError: they were not written by a marked kernel.
    """
    if len(words) == 0 or not (words[:, 0] == MAGIC).all():
        raise ProfileError(
            "the readings of the launch are damaged: a program did not finish, or overwrote them"
        )
    warps = list(memory.noted)
    first = HEADER_WORDS + memory.warps
    size = memory.readings
    taken = words[:, HEADER_WORDS:first][:, warps].astype(numpy.int64) // 2
    kept = numpy.minimum(taken, size)
    noted = words[:, first : first + 2 * size * len(warps)].reshape(len(words), len(warps), size, 2)
    # The memory is a ring: where it is full, the oldest reading follows the newest.
    oldest = numpy.where(taken > size, taken % size, 0)
    most = int(kept.max(initial=0))
    at = (oldest[:, :, None] + numpy.arange(most)) % size
    return Readings(
        programs=words[:, 1].astype(numpy.int64),
        warps=tuple(warps),
        taken=taken,
        kept=kept,
        marks=mark_of(numpy.take_along_axis(noted[..., 0], at, axis=2)).astype(numpy.int64),
        clocks=numpy.take_along_axis(noted[..., 1], at, axis=2),
    )


@dataclass(frozen=True)
class Spans:
    """What warps spent where, one after the other: arrays of one entry each."""

    program: Array
    """Its place among the programs that were read."""
    warp: Array
    """Its place among the warps that noted the clock."""
    scope: Array
    start: Array
    """Cycles since the first reading of the program."""
    cycles: Array


def spans_of(readings: Readings, marks: Sequence[int | None]) -> Spans:
    """From each reading to the next one of the same warp."""
    scope_of_mark = numpy.full(512, -1)
    for number, scope in enumerate(marks):
        scope_of_mark[number] = -1 if scope is None else scope
    clocks = readings.clocks
    cycles = (clocks[:, :, 1:] - clocks[:, :, :-1]).astype(numpy.int64)  # the clock may go round
    many = readings.marks.shape[2]
    there = numpy.arange(max(many - 1, 0)) < readings.kept[:, :, None] - 1
    scopes = scope_of_mark[readings.marks[:, :, :-1]]
    program, warp, at = numpy.nonzero(there & (scopes >= 0))
    if not len(program):
        return Spans(program, warp, at, at, at)
    first = clocks[:, :, 0]
    has = readings.kept > 0
    base = numpy.where(has, first, 0)
    reference = base[numpy.arange(len(base)), has.argmax(axis=1)]
    offsets = (clocks - reference[:, None, None]).astype(numpy.int32).astype(numpy.int64)
    least = numpy.where(has, offsets[:, :, 0], numpy.iinfo(numpy.int64).max).min(axis=1)
    # Sums, since the clock may go round more than once.
    before = numpy.cumsum(cycles, axis=2) - cycles
    starts = offsets[:, :, :1] + before - least[:, None, None]
    chosen = program, warp, at
    return Spans(program, warp, scopes[chosen], starts[chosen], cycles[chosen])
