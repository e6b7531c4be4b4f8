"""The result of `kernellab.diagnose`: findings ranked by their cost, as plain facts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.common.system import save_whole
from kernellab.common.text import counted, joined_sizes, time_text
from kernellab.compiler.compilations import Compilation
from kernellab.errors import ArchiveError, Diagnostic
from kernellab.profiling.estimates.estimate import Estimate
from kernellab.records import BoundLaunch
from kernellab.records.display import HasCard, HasRows, RowSequence, data_frame

SEVERE = 0.15
"""From this share of the time on a finding is a warning."""
WORTH_SAYING = 0.02
"""Below this share nothing is said."""


@dataclass(frozen=True)
class CostFinding(HasCard, Diagnostic):
    """A reason why a kernel is slow, on the kernel's line.

    Attributes:
        cost: the share of the kernel's time, 0 to 1, that the advice could save, by the model.
        evidence: the numbers that it rests on, by name.
        source: where these come from.
    """

    cost: float = 0.0
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: str = ""

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
class Diagnosis(HasCard, RowSequence[CostFinding]):
    """Why a kernel is slow: its findings, the most expensive first."""

    kernel: str
    target: str
    grid: tuple[int, int, int] | None
    findings: tuple[CostFinding, ...]
    parts: Mapping[str, float] = field(default_factory=dict)
    """Part of the GPU -> microseconds that it is busy with the launch: those of an estimate."""
    microseconds: float | None = None
    """The estimated time, of which findings cost shares; None if the TTGIR cannot be read."""
    estimate: Estimate | None = field(default=None, repr=False, compare=False)
    """The estimate behind the costs; None if the launch could not be sampled."""
    notes: tuple[str, ...] = ()
    """The assumptions, and what could not be examined."""
    compilation: Compilation | None = field(default=None, repr=False, compare=False)
    launch: BoundLaunch | None = field(default=None, repr=False, compare=False)
    """The launch, to be made again; None if it is not at hand."""
    _rows = "findings"

    @property
    def severe(self) -> tuple[CostFinding, ...]:
        """The findings that cost a considerable share of the time."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def headline(self) -> str:
        """The estimated time, its bound and roofline share if known, and the findings' number."""
        known = []
        if self.microseconds is not None:
            known.append(f"about {time_text(self.microseconds)}")
            if self.parts:
                known.append(f"bound by {max(self.parts, key=lambda part: self.parts[part])}")
            if self.estimate is not None:
                share = self.estimate.lower_bound / self.microseconds
                known.append(f"{100 * share:.0f} % of the roofline")
        known.append(counted(len(self), "finding") if len(self) else "nothing found")
        return ", ".join(known)

    def __str__(self) -> str:
        """A title, then each finding in full."""
        where = "" if self.grid is None else f", grid {joined_sizes(self.grid)}"
        title = f"{self.kernel} for {self.target}{where}: {self.headline}"
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
            "microseconds": self.microseconds,
            "parts": dict(self.parts),
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `to_json` to a file; returns its path. Raises ArchiveError if it cannot."""
        return save_whole(path, f"{json.dumps(self.to_json(), indent=1)}\n".encode(), ArchiveError)


@dataclass(frozen=True)
class Diagnoses(HasCard, HasRows[Diagnosis]):
    """Diagnoses of several kernels, such as those of a model; what takes longest first."""

    diagnoses: tuple[Diagnosis, ...]
    shares: tuple[float | None, ...] = ()
    """The share of the whole time of each kernel, if a profile or the estimate has it."""
    notes: tuple[str, ...] = ()
    _rows = "diagnoses"

    def __getitem__(self, place: int | str) -> Diagnosis:
        """The diagnosis at a place, or of the kernel of that name; raises KeyError for none."""
        if isinstance(place, int):
            return self.diagnoses[place]
        return {diagnosis.kernel: diagnosis for diagnosis in self.diagnoses}[place]

    @property
    def findings(self) -> tuple[CostFinding, ...]:
        """All findings, in the order of the kernels."""
        return tuple(finding for diagnosis in self.diagnoses for finding in diagnosis)

    def __str__(self) -> str:
        """Each kernel with its share, and its first finding."""
        lines = []
        for diagnosis, share in zip(self.diagnoses, self.shares or (None,) * len(self)):
            part = "" if share is None else f"{share:.0%} "
            first = diagnosis.findings[0].headline if diagnosis.findings else "nothing found"
            lines.append(f"{part}{diagnosis.kernel}: {first}")
        return "\n".join([*lines, *self.notes])

    def table(self) -> Any:
        """One row a finding, with its kernel, as a pandas DataFrame."""
        from kernellab.common.pandas_import import pandas

        frames = [diagnosis.table().assign(kernel=diagnosis.kernel) for diagnosis in self.diagnoses]
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()

    def to_json(self) -> list[dict[str, Any]]:
        """Each diagnosis in types that JSON has."""
        return [diagnosis.to_json() for diagnosis in self.diagnoses]
