"""What `kernellab.diagnose` gives: findings ranked by what they cost, as plain facts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from kernellab.common.formatting import counted
from kernellab.errors import Diagnostic
from kernellab.records import AskedLaunch, Compilation
from kernellab.records.showing import HasCard
from kernellab.records.tables import data_frame

SEVERE = 0.15
"""From this share of the time on a finding is a warning."""
WORTH_SAYING = 0.02
"""Below this share nothing is said."""


@dataclass(frozen=True)
class CostFinding(HasCard, Diagnostic):
    """A reason why a kernel is slow, on the kernel's line.

    Attributes:
        cost: the share of the kernel's time that it costs, 0 to 1, by the numbers that the lab
            weighs findings with: what the advice could save, as far as they go.
        evidence: the numbers that it rests on, by name.
        source: where these come from.
    """

    cost: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: str = ""

    @property
    def is_severe(self) -> bool:
        """Whether it costs enough to be a warning."""
        return self.severity == "warning"

    @property
    def headline(self) -> str:
        """The share of the time, the kind, and what happens."""
        share = f"{self.cost:.0%} " if self.cost >= WORTH_SAYING else ""
        return f"{share}{self.kind}: {self.what}"

    @property
    def circumstances(self) -> Mapping[str, str]:
        """The evidence, in words."""
        words = ", ".join(f"{name} {said(value)}" for name, value in self.evidence.items())
        return {"evidence:": f"{words} ({self.source})"} if words else {}


def said(value: Any) -> str:
    """A number of an evidence as people write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@dataclass(frozen=True)
class Diagnosis(HasCard):
    """Why a kernel is slow: its findings, what costs most first."""

    kernel: str
    target: str
    grid: tuple[int, int, int] | None
    findings: tuple[CostFinding, ...]
    parts: Mapping[str, float] = field(default_factory=dict)
    """Resource -> microseconds that a launch would take for it alone, by the numbers that weigh
    findings: no measurement."""
    notes: tuple[str, ...] = ()
    """What is assumed, and what could not be looked at."""
    compilation: Compilation | None = field(default=None, repr=False, compare=False)
    asked: AskedLaunch | None = field(default=None, repr=False, compare=False)
    """The launch, to be made again; None where it is not at hand."""

    def __iter__(self) -> Iterator[CostFinding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, place: int) -> CostFinding: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[CostFinding, ...]: ...
    def __getitem__(self, place: int | slice) -> CostFinding | tuple[CostFinding, ...]:
        return self.findings[place]

    @property
    def severe(self) -> tuple[CostFinding, ...]:
        """The findings that cost a considerable share of the time."""
        return tuple(one for one in self.findings if one.is_severe)

    def __str__(self) -> str:
        """A title, then each finding in full."""
        where = "" if self.grid is None else f", grid {'x'.join(map(str, self.grid))}"
        title = f"{self.kernel} for {self.target}{where}: {counted(len(self), 'finding')}"
        return "\n\n".join([title, *map(str, self.findings), *self.notes])

    def table(self) -> Any:
        """One row a finding, as a pandas DataFrame."""
        columns = ["kind", "severity", "cost", "line", "what", "evidence", "advice", "source"]
        return data_frame(self.findings, columns)

    def to_json(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "grid": None if self.grid is None else list(self.grid),
            "parts": dict(self.parts),
            "findings": [one.to_json() for one in self.findings],
            "notes": list(self.notes),
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `to_json` to a file; returns its path."""
        file = Path(path)
        file.write_text(json.dumps(self.to_json(), indent=1) + "\n")
        return file


@dataclass(frozen=True)
class Diagnoses(HasCard):
    """Diagnoses of several kernels, such as those of a model; what takes longest first."""

    diagnoses: tuple[Diagnosis, ...]
    shares: tuple[float | None, ...] = ()
    """Of the whole time, one a kernel, where a profile or the estimate says it."""
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter(self.diagnoses)

    def __len__(self) -> int:
        return len(self.diagnoses)

    def __getitem__(self, place: int | str) -> Diagnosis:
        """The diagnosis at a place, or of the kernel of that name; raises KeyError for none."""
        if isinstance(place, int):
            return self.diagnoses[place]
        return {one.kernel: one for one in self.diagnoses}[place]

    @property
    def findings(self) -> tuple[CostFinding, ...]:
        """All findings, in the order of the kernels."""
        return tuple(one for diagnosis in self.diagnoses for one in diagnosis)

    def __str__(self) -> str:
        """Each kernel with its share, and its first finding."""
        lines = []
        for one, share in zip(self.diagnoses, self.shares or (None,) * len(self)):
            part = "" if share is None else f"{share:.0%} "
            first = one.findings[0].headline if one.findings else "nothing found"
            lines.append(f"{part}{one.kernel}: {first}")
        return "\n".join([*lines, *self.notes])

    def table(self) -> Any:
        """One row a finding, with its kernel, as a pandas DataFrame."""
        from kernellab.common.whole_imports import pandas

        frames = [one.table().assign(kernel=one.kernel) for one in self.diagnoses]
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()

    def to_json(self) -> list[dict[str, Any]]:
        """Each diagnosis in types that JSON has."""
        return [one.to_json() for one in self.diagnoses]
