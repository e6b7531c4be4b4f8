"""Counters of a launch, measured and predicted, as plain facts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kernellab.common.formatting import joined_sizes
from kernellab.profiling.nsight.records import SampledCode
from kernellab.records.showing import HasCard
from kernellab.records.tables import data_frame


@dataclass(frozen=True)
class Counter:
    """One metric of Nsight Compute's."""

    name: str
    measured: float | None
    """None where nobody counted."""
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
    """Each instruction's own counters; `compilation.explore(found.lines)` shows them beside the
    kernel's lines. None where nothing was counted."""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Counter]:
        return iter(self.counters)

    def __len__(self) -> int:
        return len(self.counters)

    def __getitem__(self, name: str) -> Counter:
        """The counter of that name."""
        return next(one for one in self.counters if one.name == name)

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
