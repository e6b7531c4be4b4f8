"""What a GPU can do at most, for weighing findings against each other: a few numbers a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.compiler.targets import multiprocessor_count
from kernellab.records import Target


@dataclass(frozen=True)
class Peaks:
    """Rates of one GPU; of bytes in bytes a second, of an SM (AMD: a compute unit) a cycle."""

    multiprocessors: int
    clock: float
    """Cycles a second."""
    dram: float
    cache: float
    """Of the second-level cache, bytes a second."""
    matrix: float
    """Operations a cycle and SM of the newest matrix instruction, fp16 with fp32 sums."""
    older_matrix: float
    """The same of the instruction of the generation before, where the newest is another."""
    vector: float
    """fp32 operations a cycle and SM outside of the matrix units, two for a multiply-add."""
    double: float
    """fp64 operations a cycle and SM, likewise."""

    @property
    def cycle(self) -> float:
        """Microseconds of one."""
        return 1e6 / self.clock


_GIGA = 1e9

_RATES = {
    "75": (1.59, 320, 1900, 1024, 1024, 128, 4),
    "80": (1.41, 1935, 7200, 2048, 2048, 128, 64),
    "86": (1.70, 936, 3500, 512, 512, 256, 4),
    "89": (2.52, 1008, 6000, 512, 512, 256, 4),
    "90": (1.76, 4800, 12000, 4096, 2400, 256, 128),
    "100": (1.85, 8000, 14000, 8192, 2048, 256, 128),
    "103": (1.85, 8000, 14000, 8192, 2048, 256, 4),
    "120": (2.41, 1792, 9000, 1024, 1024, 256, 4),
    "gfx90a": (1.70, 1638, 3500, 1024, 1024, 128, 128),
    "gfx942": (2.10, 5300, 10000, 2048, 2048, 256, 128),
    "gfx950": (2.40, 8000, 12000, 4096, 4096, 256, 128),
    "gfx1100": (2.50, 960, 3500, 1024, 1024, 512, 16),
    "gfx1201": (2.97, 640, 3000, 2048, 2048, 512, 16),
}
"""GHz; GB/s of DRAM and of the second-level cache; operations a cycle and SM, as `Peaks` has them.

NVIDIA's and AMD's white papers and data sheets of a usual product (T4, A100 80 GB, RTX 3090, RTX
4090, H200, B200, B300, RTX 5090, MI250X, MI300X, MI355X, RX 7900 XTX, RX 9070 XT). Rates of caches,
and that of Hopper's mma.sync, are round numbers: they weigh findings, and are no measurement.
"""

_REACHED = 0.9
"""Of DRAM's rate; on an H200 a vector addition has 4,343 of 4,800 GB/s."""
_MULTIPROCESSORS = 100
"""Of a GPU that is not listed."""


def peaks_of(target: Target) -> Peaks:
    """The rates of a GPU; those of Hopper for one that is not listed."""
    clock, dram, cache, matrix, older, vector, double = _RATES.get(target.arch, _RATES["90"])
    return Peaks(
        multiprocessor_count(target) or _MULTIPROCESSORS,
        clock * _GIGA,
        dram * _GIGA * _REACHED,
        cache * _GIGA,
        matrix,
        older,
        vector,
        double,
    )
