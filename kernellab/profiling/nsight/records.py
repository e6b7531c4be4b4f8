"""A profile of one launch, as plain facts: what Nsight Compute sampled and counted
of each instruction.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernellab.common.formatting import counted, joined_sizes
from kernellab.records.showing import HasCard
from kernellab.records.tables import data_frame

ISSUED = "selected"
"""The reason of samples in which the warp issued the instruction: not a stall."""

REASONS: Mapping[str, str] = {
    "barrier": "at a barrier, for the program's other warps",
    "branch_resolving": "for the target of a branch",
    "dispatch": "for the dispatcher",
    "drain": "at the end, for its stores to leave",
    "gmma": "for the tensor cores (wgmma)",
    "imc_miss": "for constants that were in no cache",
    "lg_throttle": "for a slot in the queue of global and local memory",
    "long_scoreboard": "for data from global or local memory",
    "math_pipe_throttle": "for an arithmetic unit that was busy",
    "membar": "at a memory fence",
    "mio_throttle": "for a slot in the queue of shared memory and special functions",
    "misc": "for another reason",
    "no_instruction": "for the instruction itself: it was in no cache",
    "not_selected": "though it could have gone on: another warp was taken",
    "selected": "not at all: it issued the instruction",
    "short_scoreboard": "for data from shared memory, or a special function",
    "sleeping": "asleep",
    "tex_throttle": "for a slot in the queue of textures",
    "wait": "for the cycles that the compiler has set",
    "warpgroup_arrive": "for the other warps of its warp group",
}
"""Reason -> what the warp waited for. After "Warp Stall Reasons" in NVIDIA's Kernel
Profiling Guide."""


@dataclass(frozen=True)
class SampledInstruction:
    """One instruction of SASS, with what was measured of it."""

    address: int
    """As the profiler gives it: where the code was in the GPU's memory,
    or bytes from its beginning."""
    text: str
    """ "@P0 LDG.E.128 R4, desc[UR4][R2.64]"."""
    samples: int
    """How often a warp was found at this instruction: next to issue, whether it waited or not."""
    reasons: Mapping[str, int]
    """Reason -> how many of the samples; see `REASONS`. Reasons without a sample are left out."""
    executed: int | None
    """How often a warp executed it; None where that was not counted."""
    counts: Mapping[str, int]
    """What else was counted, under the profiler's own words: "L2 Theoretical Sectors Global";
    what is 0 is left out."""

    @property
    def stalls(self) -> int:
        """The samples that found the warp waiting."""
        return sum(number for reason, number in self.reasons.items() if reason != ISSUED)


@dataclass(frozen=True)
class SampledCode:
    """One launch under a profiler: a sequence of instructions, in the order of the code."""

    kernel: str
    gpu: str
    """ "NVIDIA H200"; "" where no one said."""
    tool: str
    """Who measured: "Nsight Compute"."""
    instructions: tuple[SampledInstruction, ...]

    @property
    def samples(self) -> int:
        """Of all instructions."""
        return sum(instruction.samples for instruction in self.instructions)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Reason -> samples of all instructions, the most frequent first."""
        total: collections.Counter[str] = collections.Counter()
        for instruction in self.instructions:
            total.update(instruction.reasons)
        return dict(total.most_common())

    @property
    def origin(self) -> str:
        """ "measured on NVIDIA H200 by Nsight Compute"."""
        return f"measured on {self.gpu or 'a GPU that the file does not name'} by {self.tool}"

    def __iter__(self) -> Iterator[SampledInstruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return dataclasses.asdict(self)

    def table(self) -> Any:
        """One row per instruction, as a pandas DataFrame."""
        return data_frame(
            self.instructions, ("address", "text", "samples", "stalls", "executed", "reasons")
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """How much was sampled, and what warps waited for in at least a
        twentieth of the samples.
        """
        waited = [
            f"{number / self.samples:.0%} waiting {REASONS.get(reason, reason)} ({reason})"
            for reason, number in self.reasons.items()
            if reason != ISSUED and number >= self.samples / 20
        ]
        return f"{counted(self.samples, 'sample')} of {counted(len(self), 'instruction')}", *waited

    def __str__(self) -> str:
        return "\n  ".join([f"{self.kernel}, {self.origin}:", *self.summary])


@dataclass(frozen=True)
class Counter:
    """One metric of Nsight Compute's."""

    name: str
    measured: float | None
    """None where no one counted."""
    unit: str
    predicted: float | None
    """What the lab says with no GPU; None where it has no such number."""

    @property
    def ratio(self) -> float | None:
        """Predicted over measured."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured

    def __str__(self) -> str:
        known = "not counted" if self.measured is None else f"{self.measured:,.10g} {self.unit}"
        said = "" if self.predicted is None else f", predicted {self.predicted:,.10g}"
        return f"{self.name}: {known.strip()}{said}"


@dataclass(frozen=True)
class Counters(HasCard):
    """The counters of one launch, by name."""

    kernel: str
    gpu: str
    """ "NVIDIA H200"; "" where nothing was counted."""
    grid: tuple[int, int, int]
    counters: tuple[Counter, ...]
    lines: SampledCode | None = field(default=None, repr=False)
    """Each instruction's own counters; `compilation.explore(found.lines)` shows them next to the
    kernel's lines. None where nothing was counted."""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Counter]:
        return iter(self.counters)

    def __len__(self) -> int:
        return len(self.counters)

    def __getitem__(self, name: str) -> Counter:
        """The counter of that name."""
        return next(counter for counter in self.counters if counter.name == name)

    def __str__(self) -> str:
        where = self.gpu or "predicted alone"
        title = f"{self.kernel}, grid {joined_sizes(self.grid)}, {where}"
        return "\n  ".join([title, *map(str, self.counters), *self.notes])

    def table(self) -> Any:
        """One row per counter, as a pandas DataFrame."""
        return data_frame(self.counters, ("name", "measured", "unit", "predicted", "ratio"))

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return dataclasses.asdict(self)
