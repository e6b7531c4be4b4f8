"""What a launch of a marked kernel noted: the words that Proton's operations wrote, as arrays."""

from __future__ import annotations

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
    processors: Array
    """The multiprocessor that each ran on."""
    begun: Array
    """When each began, in ns of the GPU's own timer, which counts in steps of up to a
    microsecond."""
    ended: Array
    """When each began to write what it had noted."""
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
            "what the launch noted is damaged: a program did not come to its end, or wrote over it"
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
        processors=words[:, 2].astype(numpy.int64),
        begun=_time(words, 4),
        ended=_time(words, 6),
        warps=tuple(warps),
        taken=taken,
        kept=kept,
        marks=mark_of(numpy.take_along_axis(noted[..., 0], at, axis=2)).astype(numpy.int64),
        clocks=numpy.take_along_axis(noted[..., 1], at, axis=2),
    )


def _time(words: Array, at: int) -> Array:
    return words[:, at].astype(numpy.int64) + (words[:, at + 1].astype(numpy.int64) << 32)
