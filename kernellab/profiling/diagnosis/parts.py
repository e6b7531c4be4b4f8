"""How long a launch would take for each resource alone, and so what a finding costs.

Every finding's cost is asked here, and nowhere else: `Parts.saved_by` compares the time of the
launch with that of one in which some of the parts are smaller. The parts come from a small model
(`parts_of`); a better one only has to make `Parts`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernellab.profiling.diagnosis.evidence import Evidence

_LAUNCH = 2.0
"""Microseconds from one small kernel's begin to the next one's, on a busy stream."""
_LATENCY = 700
"""Cycles of a load that comes from DRAM."""
_ATOMIC_TURN = 2.5
"""Cycles of the second-level cache for each atomic of one line after the other; measured on an
H200: 2.1 to 3.1."""
_PROGRAM = 100
"""Cycles between one program of an SM and the next, however little they do; measured on an H200
with programs of two warps: 140."""
_NOT_OVERLAPPED = 0.15
"""Of all parts but the longest, so much is not hidden behind it."""
_ALONE = 0.4
"""The same of a program that has an SM for itself, so that nobody works at its beginning and its
end."""


@dataclass(frozen=True)
class Parts:
    """Microseconds of a launch by resource; they overlap."""

    launch: float = _LAUNCH
    dram: float = 0.0
    cache: float = 0.0
    """The second-level cache's bandwidth."""
    requests: float = 0.0
    """The load and store units: lines of requests."""
    shared: float = 0.0
    """Shared memory's wavefronts."""
    issue: float = 0.0
    """Instructions of warps outside of the matrix units."""
    matrix: float = 0.0
    latency: float = 0.0
    """Loads, barriers and the like that wait for each other."""
    atomics: float = 0.0
    """Updates of one element that take turns."""
    exposed: float = _NOT_OVERLAPPED
    """How much of all parts but the longest is not hidden behind it."""

    @property
    def total(self) -> float:
        """Of all, overlapped."""
        values = [float(getattr(self, name)) for name in RESOURCES]
        longest = max(values)
        return self.launch + longest + self.exposed * (sum(values) - longest)

    @property
    def bound(self) -> str:
        """The resource that takes longest."""
        return max(("launch", *RESOURCES), key=lambda name: float(getattr(self, name)))

    def saved_by(self, **smaller: float) -> float:
        """The share of the whole time, 0 to 1, that goes where some parts have these values."""
        kept = {name: max(value, 0.0) for name, value in smaller.items()}
        return max(1.0 - replace(self, **kept).total / self.total, 0.0)

    def saved_scaling(self, factor: float, *names: str) -> float:
        """The same, where parts (all, unless some are named) take `factor` of their time."""
        chosen = names or RESOURCES
        return self.saved_by(**{name: factor * getattr(self, name) for name in chosen})


RESOURCES = tuple(one.name for one in fields(Parts) if one.name not in ("launch", "exposed"))
"""The parts that overlap."""


def parts_of(evidence: Evidence) -> Parts:
    """The parts of a launch, from its accesses, its arithmetic and its grid."""
    peaks, programs = evidence.peaks, evidence.programs
    turns = evidence.per_sm * peaks.cycle
    """Microseconds of a cycle of every program that the busiest SM has."""
    cache = (
        sum(one.fetched * one.times * evidence.missed(one) for one in evidence.accesses)
        * 32
        * programs
    )
    dram = sum(
        (one.bytes / 32 if one.repeats >= 2 or one.is_dense else one.fetched)
        * one.times
        * 32
        / one.repeats
        for one in evidence.accesses
    )
    crowded = max(1.0, 8 / max(evidence.resident_warps, 1))
    few = min(programs / peaks.multiprocessors, 1.0)
    return Parts(
        dram=dram * programs / peaks.dram * 1e6 / max(few, 0.02),
        cache=cache / peaks.cache * 1e6 / max(few, 0.02),
        requests=sum(lines_cycles(one.requests, one.lines) * one.times for one in evidence.accesses)
        * turns,
        shared=evidence.shared_wavefronts * turns,
        issue=evidence.issue_slots / 4 * turns * crowded,
        matrix=evidence.matrix_cycles * turns,
        latency=evidence.waiting_cycles * evidence.waves * peaks.cycle + begins(evidence),
        atomics=sum(
            evidence.updates(one) / evidence.different_lines(one)
            for one in evidence.accesses
            if one.is_atomic
        )
        * _ATOMIC_TURN
        * peaks.cycle,
        exposed=_ALONE if evidence.blocks == 1 and evidence.per_sm > 1 else _NOT_OVERLAPPED,
    )


def begins(evidence: Evidence) -> float:
    """Microseconds in which programs begin, one after the other on an SM."""
    return _PROGRAM * evidence.per_sm * evidence.peaks.cycle


def lines_cycles(requests: float, lines: float) -> float:
    """Cycles of an SM's load and store unit: one for each line of a request, at least two."""
    return max(lines, 2 * requests)


def waves_of(programs: int, slots: int) -> int:
    """How many times the GPU is filled."""
    return max(ceil(programs / max(slots, 1)), 1)


def load_latency() -> int:
    """Cycles that a load from DRAM takes."""
    return _LATENCY
