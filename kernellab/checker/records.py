"""What `kernellab.check` finds, as plain facts.

`table()` gives a pandas DataFrame, imported when first asked for; `to_dict()` what JSON can hold.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from kernellab.common.formatting import counted
from kernellab.errors import Diagnostic, ProgramId, Severity, SourcePosition
from kernellab.records import AskedLaunch, Subject
from kernellab.records.showing import HasCard
from kernellab.records.tables import data_frame

LISTED_PROGRAMS = 8
"""So many programs of a finding are listed."""

_NAMED_PROGRAMS = 4
"""So many are named in words."""


_MAY_BE_MEANT = (
    "missing-other",
    "order-dependence",
    "nan",
    "infinity",
    "float-overflow",
    "integer-overflow",
    "stalled-sum",
    "dot-precision",
    "ignored-strides",
    "truncated-store",
)
"""Kinds of findings that are warnings; all others are faults."""


@dataclass(frozen=True)
class Finding(HasCard, Diagnostic):
    """One fault of a kernel, told once however often it happens. `Finding.of` makes one.

    Its position is the kernel's line, or that of the helper that it called; None where the IR does
    not say. docs/checking.md has all kinds.

    Attributes:
        programs: eight of those in which it happens: the one that lane and values are of, then
            the others by their ids.
        argument: the parameter whose memory it concerns; "" where there is none.
        index: of the first element that it concerns, in the argument's tensor; one number, counted
            from the tensor's first element, where it lies outside, or the tensor's elements cannot
            be told by coordinates.
        lane: position in its tile of the first lane that it concerns.
        values: what the index was made of, or what was compared, by the kernel's names.
        count: how many elements, or lanes, it concerns; 0 where that means nothing.
        program_count: in how many programs it happens; more than `programs` lists, perhaps.
    """

    programs: tuple[ProgramId, ...] = ()
    argument: str = ""
    index: tuple[int, ...] | None = None
    lane: tuple[int, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0
    program_count: int = 0

    @classmethod
    def of(
        cls,
        kind: str,
        message: str,
        advice: str,
        position: SourcePosition | None = None,
        calls: Sequence[SourcePosition] = (),
        severity: Severity | None = None,
        **facts: Any,
    ) -> Finding:
        """A finding of some kind, which says how bad it is unless `severity` does; `calls` are
        those that lead to the position, the kernel's own first; `facts` are the other fields.
        """
        return cls(
            severity=severity or ("warning" if kind in _MAY_BE_MEANT else "error"),
            kind=kind,
            what=message,
            position=position,
            called_from=tuple(reversed(calls)),
            advice=advice,
            **facts,
        )

    @property
    def message(self) -> str:
        """What happens, with the values."""
        return self.what

    @property
    def calls(self) -> tuple[SourcePosition, ...]:
        """The lines of the calls that lead there, the kernel's own first; empty where the line is
        the kernel's.
        """
        return self.called_from[::-1]

    @property
    def headline(self) -> str:
        """The kind, and what happens."""
        return f"{self.kind}: {self.what}"

    @property
    def circumstances(self) -> Mapping[str, str]:
        """In which programs, and with which values."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return {lead: words for lead, words in (("in", self.where), ("with", values)) if words}

    @property
    def where(self) -> str:
        """ "program (3, 0, 0), lane 2, and 4 more programs";
        "every program" for what is computed once for all; "" where nothing is known.
        """
        lane = f", lane {self.lane[0] if len(self.lane) == 1 else self.lane}" if self.lane else ""
        if not self.programs:
            return f"every program{lane}" if lane else ""
        if lane:
            return f"program {self.programs[0]}{lane}{_more(self.program_count - 1)}"
        named = self.programs[:_NAMED_PROGRAMS]
        listed = ", ".join(map(str, named))
        plural = "s" if len(named) > 1 else ""
        return f"program{plural} {listed}{_more(self.program_count - len(named))}"

    def joined(self, first: Finding) -> Finding:
        """The same fault, seen first elsewhere: in another call of the helper that it stands in."""
        others = sorted({*self.programs, *first.programs} - {*first.programs[:1]})
        programs = [*first.programs[:1], *others][:LISTED_PROGRAMS]
        return dataclasses.replace(
            first,
            programs=tuple(programs),
            count=self.count + first.count,
            program_count=max(self.program_count, first.program_count, len(programs)),
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        plain = self.to_json()
        return {
            "kind": self.kind,
            "message": self.what,
            "advice": self.advice,
            "position": plain["position"],
            "calls": plain["called_from"][::-1],
            **plain["facts"],
            "line": self.line,
        }


@dataclass(frozen=True)
class Findings(HasCard, Sequence[Finding]):
    """What a check of one launch found: a sequence of findings, in the order of the kernel's lines.

    Attributes:
        kernel: its name.
        target: the GPU that was emulated.
        grid: how many programs along x, y, z.
        notes: what was not asked, and which detector failed, and why.
        subject: what was checked; None where nobody said.
        compared: the arguments whose contents were compared with what was expected.
        asked: the launch, to be made again; None where it is not at hand.
    """

    kernel: str
    target: str
    grid: tuple[int, int, int]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    subject: Subject | None = field(default=None, repr=False, compare=False)
    compared: tuple[str, ...] = ()
    asked: AskedLaunch | None = field(default=None, repr=False, compare=False)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(one for one in self.findings if one.kind == kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each finding, in their order."""
        return tuple(one.kind for one in self.findings)

    @property
    def examined(self) -> str:
        """Of a check that found nothing, what that says and what it does not; else ""."""
        if self.findings:
            return ""
        if self.compared:
            verb = "is" if len(self.compared) == 1 else "are"
            results = f"{', '.join(self.compared)} {verb} as expected."
        else:
            results = (
                "Whether the results are right was not asked: %tilecheck --expect NAME (expect=) "
                "compares them with a function's, torch.add for one."
            )
        programs = counted(math.prod(self.grid), "program")
        return f"Examined: every access, atomic and value of {programs}. {results}"

    def table(self) -> Any:
        """A pandas DataFrame with one row for each finding."""
        columns = ("kind", "line", "programs", "argument", "index", "count", "message", "advice")
        return data_frame(self.findings, columns)

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "grid": list(self.grid),
            "notes": list(self.notes),
            "findings": [one.to_dict() for one in self.findings],
        }

    def __str__(self) -> str:
        number = counted(len(self), "finding") if self.findings else "nothing found"
        said = [self.examined] if self.examined else []
        return "\n\n".join(
            [f"{self.kernel}: {number}", *map(str, self.findings), *said, *self.notes]
        )


def _more(programs: int) -> str:
    if programs <= 0:
        return ""
    return f", and {counted(programs, 'more program')}"
