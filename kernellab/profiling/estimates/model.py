"""The model of the estimate: its GPUs, a time from a launch's counts, its calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.common.arguments import check_choice
from kernellab.compiler.targets import GPUS, Gpu, usual_gpu
from kernellab.errors import OptionError, TargetError
from kernellab.profiling.accesses.requests import SECTOR
from kernellab.profiling.estimates.counts import LATENCIES, LaunchCounts
from kernellab.records import Target

CALIBRATED = "h200"
"""The GPU whose recorded times the calibration was fitted to; others are scaled."""

_ESTIMATED = {name: gpu for name, gpu in GPUS.items() if gpu.backend == "cuda"}
"""The GPUs whose machine code can be counted."""


def gpu_of(target: Target) -> Gpu:
    """Return the GPU for a target, H200 for sm_90. Raises TargetError: the table has none."""
    calibrated = GPUS[CALIBRATED]
    gpu = calibrated if target.arch == calibrated.arch else usual_gpu(target.arch)
    if gpu is None:
        raise TargetError(
            f"The hardware numbers of {target} are not known.",
            advice=f"Compile for one of {_listed(GPUS)}.",
        )
    return gpu


def estimated_gpu(target: Target, name: str | None = None) -> Gpu:
    """Return the GPU to estimate for: the one with this name, or the one that stands for a target.

    Raises:
        OptionError: there is no such GPU, or it has another architecture.
        TargetError: launches on this target cannot be estimated.
    """
    if target.backend != "cuda":
        raise TargetError(
            f"Launches on {target} are not calibrated: an estimate counts NVIDIA's machine code.",
            advice=f"Compile for one of {_listed(_ESTIMATED)}.",
        )
    if name is None:
        return gpu_of(target)
    wanted = str(name).lower().removeprefix("nvidia ")
    check_choice("gpu", name, _ESTIMATED, word=wanted)
    gpu = GPUS[wanted]
    if gpu.arch != target.arch:
        raise OptionError(
            f"gpu={name!r} has the target sm_{gpu.arch}, but the kernel is compiled for {target}.",
            advice=f'Compile it with target="sm_{gpu.arch}".',
        )
    return gpu


def notes_on(gpu: Gpu) -> tuple[str, ...]:
    """Return notes on what an estimate leaves out because the table has no number for it."""
    notes = []
    if gpu.cache_rate is None:
        notes.append(
            f"No source has the L2 bandwidth of the {gpu.name}: the time of the L2 cache is left "
            "out."
        )
    if gpu.cache_bytes is None:
        notes.append(
            f"No source has the L2 size of the {gpu.name}: everything that programs load again is "
            "taken to be in it."
        )
    return tuple(notes)


def _listed(gpus: Mapping[str, Gpu]) -> str:
    names: dict[str, list[str]] = {}
    for gpu in gpus.values():
        arch = f"sm_{gpu.arch}" if gpu.backend == "cuda" else gpu.arch
        names.setdefault(arch, []).append(gpu.name)
    return ", ".join(f"{arch} ({', '.join(products)})" for arch, products in names.items())


# How long a launch takes, from its counts: a time for each part of the GPU, and one of all.
#
# Each part takes some time if it alone were busy: counts over its rate. Parts overlap, but not
# wholly: together they take the p-norm of their times. What is fitted, to sweeps on an H200, is
# in `Calibration`, a number or two for each part and the same for all kernels; docs/estimates.md
# says how near that comes for kernels that were left out.


Column = Any
"""A number for each launch."""


@dataclass(frozen=True)
class Calibration:
    """Fitted numbers; 1.0 is the hardware's own.

    Attributes:
        latency: cycles of a load from DRAM, under load.
        cache_latency, near_latency: of one that L2 and L1 answer.
        issue, alu, fma, special, lanes, tensor: of the time that units take by their rates.
        lines: cycles for each full line of a request.
        wavefronts: cycles for each wavefront without bank conflicts; conflicts take `_CYCLE` each.
        path: of the time of a program's warps one after the other.
        dram, cache: the part of the peak bandwidth that is reached.
        kept: of the L2 cache, the part that holds stored bytes which are not in DRAM when the
            launch ends.
        dirty: the part that holds bytes stored before the launch, which loads send to DRAM
            (`triton.testing.do_bench` fills the cache by stores).
        narrow: the exponent by which requests for parts of lines slow DRAM down.
        spills: of the traffic of spilled registers that goes to L2.
        crowded: of what programs request again and L2 has lost, the part that DRAM sends again.
        atomics: nanoseconds for each sector of an atomic, all of them.
        contention: nanoseconds for each of the updates by atomics that take turns.
        partial: nanoseconds for each line of which a store writes parts of sectors.
        starts: cycles between the starts of two programs, on the whole GPU.
        warp_starts: cycles between those of two warps, on one multiprocessor.
        units, sharpness, outer_sharpness: p of the norms, of the issue slots and arithmetic units
            (whose instructions take those slots), of the parts of a multiprocessor, and of it with
            what is outside.
        launch: microseconds of a launch that does nothing.
    """

    latency: float
    cache_latency: float
    near_latency: float
    issue: float
    alu: float
    fma: float
    special: float
    lanes: float
    tensor: float
    lines: float
    wavefronts: float
    path: float
    dram: float
    cache: float
    kept: float
    dirty: float
    narrow: float
    spills: float
    crowded: float
    atomics: float
    contention: float
    partial: float
    starts: float
    warp_starts: float
    units: float
    sharpness: float
    outer_sharpness: float
    launch: float

    def of_shared(self, wavefronts: Column, conflicts: Column) -> Column:
        """Cycles of a multiprocessor's shared memory."""
        return self.wavefronts * (wavefronts - conflicts) + _CYCLE * conflicts

    def of_lines(self, lines: Column, sectors: Column) -> Column:
        """Cycles of its load and store units; each line more than sectors fill takes one."""
        return self.lines * sectors / 4 + _CYCLE * numpy.maximum(0.0, lines - sectors / 4)


class Model:
    """The times of some launches on a GPU, for any calibration."""

    def __init__(self, counts: Sequence[LaunchCounts], gpu: Gpu) -> None:
        self._gpu = gpu
        self._of = {
            name: numpy.array([getattr(count, name) for count in counts], float)
            for name in (
                "programs", "warps", "resident", "requests", "sectors", "lines", "own_sectors",
                "atomic_sectors", "atomic_turns", "partial_stores", "read_bytes",
                "written_bytes", "wavefronts", "conflicts", "spilled", "locked", "latest",
                "busiest",
            )
        }  # fmt: skip

        def within(name: str, key: str) -> Column:
            return numpy.array([getattr(count, name).get(key, 0.0) for count in counts], float)

        self._paths = numpy.array([count.path for count in counts])
        self._pipes = {
            name: within("instructions", name)
            for name in (
                "fma", "alu", "special", "double", "shared", "global", "tensor", "other",
            )
        }  # fmt: skip
        self._tensor_cycles = sum(
            (
                self._product_cycles(name, within("macs", name))
                for name in {key for count in counts for key in count.macs}
            ),
            numpy.zeros(len(counts)),
        )
        cached = [_cached(count, gpu) for count in counts]
        self._cached = {
            name: numpy.array([launch[name] for launch in cached])
            for name in ("near", "cache", "again", "refetched", "crowded")
        }

    def _product_cycles(self, name: str, macs: Column) -> Column:
        bits, _, group = name.partition(" ")
        part = 1.0 if group else self._gpu.by_warps
        return macs * float(bits) / 16 / (self._gpu.tensor * part)

    def parts(self, by: Calibration) -> Mapping[str, Column]:
        """The time of each part by itself, in microseconds."""
        of, pipes, gpu = self._of, self._pipes, self._gpu
        each = of["programs"] / gpu.multiprocessors
        busiest = numpy.ceil(each) * of["busiest"] / gpu.clocks
        waves = of["programs"] / (gpu.multiprocessors * of["resident"])
        turns = numpy.where(waves > _MANY_WAVES, waves + 0.5, numpy.ceil(waves)) * of["latest"]
        narrow = numpy.maximum(1.0, 4 * of["lines"] / numpy.maximum(of["sectors"], 1.0))
        slower = numpy.minimum(narrow, 4.0) ** by.narrow
        half = numpy.clip(narrow / 2, 1.0, 2.0)  # an L2 slice reads two sectors of a line at once
        spilled = of["spilled"] * 32 * of["programs"]
        cached = self._cached
        requested = of["own_sectors"] * SECTOR * of["programs"] + by.spills * spilled
        requested = requested + cached["again"] * of["programs"]
        kept = numpy.minimum(of["written_bytes"], by.kept * (gpu.cache_bytes or 0))
        moved = of["read_bytes"] + of["written_bytes"]
        evicted = numpy.minimum(by.dirty * (gpu.cache_bytes or 0), _EVICTED * moved)
        again = cached["refetched"] + by.crowded * cached["crowded"]
        memory = moved - kept + evicted * of["read_bytes"] / numpy.maximum(moved, 1.0) + again
        far = 1 - cached["near"] - cached["cache"]
        waits = (
            cached["near"] * by.near_latency + cached["cache"] * by.cache_latency + far * by.latency
        )
        path = _between(waits, self._paths)
        started = numpy.maximum(
            by.starts * of["programs"],
            by.warp_starts * of["programs"] * of["warps"] / gpu.multiprocessors,
        )
        return {
            "instruction issue": busiest * by.issue * sum(pipes.values()) / 4,
            "integer and logic units": busiest * by.alu * pipes["alu"] / 2,
            "floating-point units": busiest
            * (by.fma * pipes["fma"] * 32 / gpu.fp32 + pipes["double"] * 32 / gpu.double),
            "special functions": busiest * by.special * pipes["special"] * 2,
            "loads and stores (L1)": busiest
            * (
                by.of_lines(of["lines"], of["sectors"])
                + by.of_shared(of["wavefronts"], of["conflicts"])
                + by.lanes * pipes["shared"]
                + spilled / of["programs"] / 128
            ),
            "tensor cores": busiest * by.tensor * self._tensor_cycles,
            "latency": by.path * path * turns / gpu.clocks,
            "starting programs": started / gpu.clocks,
            "DRAM": slower * memory / (gpu.dram * by.dram),
            "L2": half * requested / (gpu.cache_peak * by.cache)
            if gpu.cache_peak
            else 0 * requested,
            "atomics": (
                of["atomic_sectors"] * of["programs"] * by.atomics
                + of["atomic_turns"] * by.contention
            )
            / 1e3
            + of["locked"] * (_HELD + self._waiting() * _POLL),
            "stores of parts of sectors": of["partial_stores"] * of["programs"] * by.partial / 1e3,
        }

    def _waiting(self) -> Column:
        """How many programs wait for a lock on average: all resident ones, and fewer at the end."""
        programs = self._of["programs"]
        places = numpy.minimum(programs, self._gpu.multiprocessors * self._of["resident"])
        return places * (1 - places / (2 * programs)) * self._of["locked"] / programs

    def microseconds(self, by: Calibration) -> Column:
        """The time of each launch."""
        parts = self.parts(by)
        outside = [parts[name] for name in _OUTSIDE]
        inside = [column for name, column in parts.items() if name not in (*_OUTSIDE, *_UNITS)]
        inside.append(together([parts[name] for name in _UNITS], by.units))
        return together([together(inside, by.sharpness), *outside], by.outer_sharpness) + by.launch


_CYCLE = GPUS[CALIBRATED].clock / (GPUS[CALIBRATED].highest_clock or GPUS[CALIBRATED].clock)
"""Cycles of the data sheet's clock in one of the highest clock, at which the load and store units
run, unless tensor cores take the power."""

_EVICTED = 0.4
"""Bytes that L2 writes back for each byte that it loads, if others were stored before: 64 MiB are
summed in 24.5 us then, else in 18.6 us (`benchmarks/data/machine_h200.json`)."""

_HELD, _POLL = 0.58, 0.6e-3
"""Microseconds from one holder of a lock to the next, and those that each waiting program adds,
whose request the release waits for (likewise)."""

_UNITS = (
    "instruction issue", "integer and logic units", "floating-point units", "special functions",
)  # fmt: skip
"""Parts that an instruction takes at once: an issue slot, and the unit that executes it."""

_OUTSIDE = ("DRAM", "L2", "atomics", "stores of parts of sectors", "starting programs")
"""Parts that all multiprocessors share."""


def _cached(launch: LaunchCounts, gpu: Gpu) -> dict[str, float]:
    """The effect of the caches on the programs' requests.

    Returns:
        near, cache: the parts of loads that L1 and L2 answer.
        again: bytes of a program that go to L2 a second time because L1 is full.
        refetched: bytes that programs share and L2 has lost in the meantime.
        crowded: repeated bytes that L2 has lost, because so many programs are there at once.
    """
    here = min(float(launch.resident), math.ceil(launch.programs / gpu.multiprocessors))
    each = launch.programs / gpu.multiprocessors
    at_once = sum(min(here * (ask.read + ask.written), ask.whole) for ask in launch.arguments)
    fits = min(1.0, (_NEAR_CACHE - here * launch.shared_bytes) / at_once) if at_once else 1.0
    fits = max(0.0, fits) ** 2
    near = cache = total = 0.0
    for ask in launch.arguments:
        beside = fits * _shared(ask.read * max(each, 1.0), ask.whole)
        others = (1 - beside) * _shared(ask.read * launch.programs, ask.whole)
        near += ask.near_loads + fits * ask.later_loads + beside * ask.first_loads
        cache += (1 - fits) * ask.later_loads + others * ask.first_loads
        total += ask.near_loads + ask.later_loads + ask.first_loads
    again = (1 - fits) * sum(ask.again for ask in launch.arguments)
    whole = gpu.multiprocessors * at_once
    size = math.inf if gpu.cache_bytes is None else gpu.cache_bytes
    lost = max(0.0, 1 - size / whole) if whole else 0.0
    return {
        "near": near / total if total else 0.0,
        "cache": cache / total if total else 0.0,
        "again": again,
        "refetched": refetched(launch, gpu),
        "crowded": lost * again * launch.programs,
    }


def refetched(launch: LaunchCounts, gpu: Gpu) -> float:
    """Return the bytes loaded again after L2 lost them, by what a wave or all programs share."""
    size = math.inf if gpu.cache_bytes is None else gpu.cache_bytes
    wave = gpu.multiprocessors * launch.resident
    shared = [ask for ask in launch.arguments if ask.shared(launch.programs)]
    all_bytes = sum(ask.whole for ask in shared)
    at_once = sum(
        min(wave * (ask.read * ask.apart + ask.written), ask.whole) for ask in launch.arguments
    )
    total = 0.0
    for ask in shared:
        loaded = ask.read * ask.apart * launch.programs
        more = max(0.0, loaded - ask.whole)
        near = min(more, loaded * ask.stays)
        total += near * max(0.0, 1 - size / at_once)
        total += (more - near) * max(0.0, 1 - size / all_bytes)
    return total


_NEAR_CACHE = 220 * 1024.0
"""Bytes of a multiprocessor's first-level cache, including shared memory."""


def _shared(requested: float, whole: float) -> float:
    """The part of the requests of several programs that another one has made before."""
    return max(0.0, 1 - whole / requested) if requested else 0.0


_MANY_WAVES = 3
"""The number of waves from which programs start one after the other, and not all at once."""


def together(parts: Sequence[Column], sharpness: float) -> Column:
    """The p-norm of times."""
    several = numpy.array(parts) + 1e-9
    most = several.max(axis=0)
    total: Column = most * ((several / most) ** sharpness).sum(axis=0) ** (1 / sharpness)
    return total


def _between(latency: Column, paths: Column) -> Column:
    """The paths at latencies between those that were counted, or below the least."""
    at = numpy.clip(numpy.searchsorted(LATENCIES, latency), 1, len(LATENCIES) - 1)
    steps = numpy.array(LATENCIES)
    low, high = steps[at - 1], steps[at]
    part = (latency - low) / (high - low)
    rows = numpy.arange(len(paths))
    cycles: Column = paths[rows, at - 1] * (1 - part) + paths[rows, at] * part
    return numpy.maximum(cycles, paths[:, 0] / 2)


# The calibration of the estimate: `python -m benchmarks.estimates --fit` prints it.


CALIBRATION = Calibration(
    latency=572.782,
    cache_latency=673.657,
    near_latency=42.88,
    issue=0.924,
    alu=1.062,
    fma=0.924,
    special=0.967,
    lanes=0.876,
    tensor=0.924,
    lines=0.57,
    wavefronts=0.477,
    path=1.387,
    dram=0.857,
    cache=0.94,
    kept=0.313,
    dirty=0.389,
    narrow=0.156,
    spills=1.945,
    crowded=1.279,
    atomics=0.0138,
    contention=0.559,
    partial=0.0151,
    starts=1.031,
    warp_starts=18.506,
    units=7.279,
    sharpness=2.642,
    outer_sharpness=2.898,
    launch=5.904,
)
MEDIAN_ERROR = 0.065
"""The median over kernels of the median of |estimate / time - 1|, each kernel left out in turn."""
