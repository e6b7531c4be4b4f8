"""How the calibration of the estimate is fitted to recorded times, and tested on kernels that it
was not fitted to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy

from kernellab.compiler.targets import GPUS
from kernellab.profiling.estimates.counts import LaunchCounts
from kernellab.profiling.estimates.model import Calibration, Model

BEGIN = Calibration(
    latency=700.0, cache_latency=300.0, near_latency=45.0, issue=1.0, alu=1.0, fma=1.0,
    special=1.0, lanes=1.0, tensor=1.05, lines=0.7,
    wavefronts=0.6, path=1.0, dram=0.88, cache=0.8, kept=0.4, dirty=0.6,
    narrow=0.2, spills=0.5, crowded=1.0, atomics=0.0105, contention=0.61, partial=0.0135,
    starts=1.0, warp_starts=20.0, units=6.0, sharpness=3.0, outer_sharpness=4.0, launch=4.0,
)  # fmt: skip
"""What the search begins with, and is drawn back to: the hardware's own numbers."""
NAMES = [one.name for one in fields(Calibration)]


def as_logs(calibration: Calibration) -> numpy.ndarray:
    """Its numbers, as the search has them."""
    logs: numpy.ndarray = numpy.log(numpy.array([asdict(calibration)[name] for name in NAMES]))
    return logs


def of_logs(logs: numpy.ndarray) -> Calibration:
    """The calibration again; no unit is faster than its rate at the highest clock."""
    values = dict(zip(NAMES, map(float, numpy.exp(logs))))
    gpu = GPUS["h200"]
    fastest = gpu.clock / (gpu.highest_clock or gpu.clock)
    units = ("issue", "alu", "fma", "special", "tensor")
    floors = dict.fromkeys(units, fastest)
    return Calibration(
        **{name: max(value, floors.get(name, 0.0)) for name, value in values.items()}
    )


@dataclass
class Recorded:
    """Configs with their measured times, by kernel, and single launches with theirs."""

    kernels: Sequence[str]
    counts: Sequence[LaunchCounts]
    microseconds: numpy.ndarray
    launches: Sequence[LaunchCounts]
    launch_microseconds: numpy.ndarray

    def __post_init__(self) -> None:
        self.model = Model(self.counts, GPUS["h200"])
        self.launch_model = Model(self.launches, GPUS["h200"])
        names = numpy.array(self.kernels)
        self.rows = {name: numpy.flatnonzero(names == name) for name in dict.fromkeys(self.kernels)}

    def loss(self, logs: numpy.ndarray, without: Collection[str] = ()) -> float:
        """How far estimates are from times: within a kernel, whose configs are to be ranked, more
        than from kernel to kernel.
        """
        by = of_logs(logs)
        off = numpy.log(self.model.microseconds(by) / self.microseconds)
        total = 0.0
        for name, rows in self.rows.items():
            if name not in without:
                mean = off[rows].mean()
                total += numpy.sqrt((off[rows] - mean) ** 2 + 4e-4).mean()
                total += 0.3 * numpy.sqrt(mean**2 + 4e-4)
        drawn = PULL * ((logs - as_logs(BEGIN)) ** 2).sum()
        single = numpy.log(self.launch_model.microseconds(by) / self.launch_microseconds)
        return float(
            total / (len(self.rows) - len(without))
            + numpy.sqrt(single**2 + 4e-4).mean() / 2
            + drawn
        )

    def fitted(
        self, begin: Calibration, steps: int, without: Collection[str] = (), seed: int = 0
    ) -> Calibration:
        """The calibration that a random search from `begin` finds."""
        chance = numpy.random.default_rng(seed)
        best = as_logs(begin)
        least = self.loss(best, without)
        sizes = numpy.full(len(best), 0.25)
        for _ in range(steps):
            which = chance.integers(len(best))
            tried = best.copy()
            tried[which] += chance.normal() * sizes[which]
            if chance.random() < 0.2:
                tried += chance.normal(size=len(best)) * 0.03
            found = self.loss(tried, without)
            sizes[which] = min(max(sizes[which] * (1.3 if found < least else 0.93), 0.01), 1.0)
            if found < least:
                best, least = tried, found
        return of_logs(best)


PULL = 0.003


def ranks(numbers: numpy.ndarray) -> numpy.ndarray:
    """Of each number, its place among all; those that are equal share theirs."""
    _, inverse, counts = numpy.unique(numbers, return_inverse=True, return_counts=True)
    ends = numpy.cumsum(counts)
    found: numpy.ndarray = (ends - (counts - 1) / 2)[inverse]
    return found


def spearman(one: numpy.ndarray, other: numpy.ndarray) -> float:
    """The correlation of ranks."""
    return float(numpy.corrcoef(ranks(one), ranks(other))[0, 1])


@dataclass(frozen=True)
class Verdict:
    """How a kernel's configs were ranked by an estimate.

    Attributes:
        rank: Spearman's correlation with the measured times.
        error: the median of |estimate / time - 1|.
        best_of_five: the fastest of the five that the estimate puts first, over the fastest of all.
        best_of_one: the same of the first alone.
    """

    kernel: str
    configs: int
    rank: float
    error: float
    best_of_five: float
    best_of_one: float


def verdicts(recorded: Recorded, estimates: Mapping[str, numpy.ndarray]) -> list[Verdict]:
    """One for each kernel, of the estimates of its configs."""
    found = []
    for name, rows in recorded.rows.items():
        estimated, times = estimates[name], recorded.microseconds[rows]
        order = numpy.argsort(estimated, kind="stable")
        found.append(
            Verdict(
                name,
                len(rows),
                spearman(estimated, times),
                float(numpy.median(numpy.abs(estimated / times - 1))),
                float(times[order[:5]].min() / times.min()),
                float(times[order[0]] / times.min()),
            )
        )
    return found


def left_out(recorded: Recorded, begin: Calibration, steps: int) -> dict[str, numpy.ndarray]:
    """The estimates of each kernel's configs by a calibration that never saw that kernel."""
    found = {}
    for name, rows in recorded.rows.items():
        by = recorded.fitted(begin, steps, without=(name,))
        found[name] = recorded.model.microseconds(by)[rows]
    return found
