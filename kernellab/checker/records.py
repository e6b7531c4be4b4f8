"""The findings of `kernellab.check`, as plain data.

`table()` returns a pandas DataFrame, which it imports; `to_dict()` returns types that JSON has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.common.text import counted, element_text, number_text
from kernellab.errors import Diagnostic, ProgramId, Severity, SourcePosition
from kernellab.records import BoundLaunch, Subject
from kernellab.records.display import HasCard, RowSequence, data_frame

LISTED_PROGRAMS = 8
"""The most programs of a finding that are listed."""

_NAMED_PROGRAMS = 4
"""The most programs that are named in the text."""


STORES = (
    "the offsets, the mask of the store, and any if or return that may keep a program from the "
    "store."
)
"""The reasons why an element may not be written."""

_MAY_BE_MEANT = (
    "missing-other", "order-dependence", "nan", "infinity", "float-overflow", "integer-overflow",
    "stalled-sum", "dot-precision", "ignored-strides", "truncated-store",
)  # fmt: skip
"""Kinds of findings that are warnings; all others are faults."""


_SHOWN = 3
"""How many elements of an argument are listed, besides the last."""


@dataclass(frozen=True)
class Inputs:
    """The elements of one argument that a value was computed from.

    Attributes:
        count: how many elements there are.
        first: index and value of the first few, in the order in which the kernel read them.
        last: the element that it read last; None if `first` has all.
    """

    argument: str
    count: int
    first: tuple[tuple[tuple[int, ...], Any], ...]
    last: tuple[tuple[int, ...], Any] | None = None

    @classmethod
    def of(cls, argument: str, elements: Sequence[tuple[tuple[int, ...], Any]]) -> Inputs:
        """Return the Inputs for elements of an argument, given with their values."""
        if len(elements) <= _SHOWN + 1:
            return cls(argument, len(elements), tuple(elements))
        return cls(argument, len(elements), tuple(elements[:_SHOWN]), elements[-1])

    def __str__(self) -> str:
        """Return "x_ptr[0] = 0.25, x_ptr[1] = 2, and 61 more, the last of which is ..."."""
        first = ", ".join(self._text(*element) for element in self.first)
        if self.last is None:
            return first
        more = self.count - len(self.first)
        return f"{first}, and {more:,} more, the last of which is {self._text(*self.last)}"

    def _text(self, index: tuple[int, ...], value: Any) -> str:
        return f"{element_text(self.argument, index)} = {number_text(value)}"


@dataclass(frozen=True)
class Proposal:
    """A change of the finding's line that may remove its fault, to be tried.

    Attributes:
        old: the expression to replace, as it is written; "" for the mask of the access.
        new: what to write instead, or the condition to add to the mask.
        keyword: the load's keyword that gets `new`; "statement" if `new` is a line to write before.
        replaces_advice: whether the finding's advice is left out if this was tried and helps.
    """

    words: str
    old: str
    new: str
    keyword: str = ""
    replaces_advice: bool = False


@dataclass(frozen=True)
class Finding(HasCard, Diagnostic):
    """One fault of a kernel, reported once however often it happens; made by `Finding.of`.

    The position is a line of the kernel, or of a helper that it calls; None if the IR does not have
    it. docs/checking.md lists all kinds.

    Attributes:
        programs: at most eight in which it happens, first that of `lane` and `values`, then by id.
        argument: the parameter whose memory it concerns; "" if there is none.
        index: its first element; a number from the tensor's first where coordinates do not apply.
        lane: the position in its tile of the first tile element that it concerns.
        values: what the index was computed from, or what was compared, by the kernel's names.
        count: how many elements of memory, or of tiles, it concerns; 0 if that has no meaning.
        program_count: in how many programs it happens; `programs` may list fewer.
        inputs: of a wrong result, its elements by argument, as first read; None if not known.
        cause: of a difference that rounding explains, what rounds: "tf32", "narrow sums", "narrow
            values", "functions", "order of a sum" or "rounding"; else "".
        errors: the largest error of such a result against float64, and that without the cause.
        held: of an access out of bounds, the first and last element that it may touch, or None.
        rivals: of a race, two of its programs, each with what it does: "writes 9.95".
        proposals: changes that the check tries, and shows if the finding goes away.
    """

    programs: tuple[ProgramId, ...] = ()
    argument: str = ""
    index: tuple[int, ...] | None = None
    lane: tuple[int, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    count: int = 0
    program_count: int = 0
    inputs: tuple[Inputs, ...] | None = None
    cause: str = ""
    errors: tuple[float, ...] = ()
    held: tuple[int, int] | None = field(
        default=None, repr=False, compare=False, metadata={"fact": False}
    )
    rivals: tuple[tuple[ProgramId, str], ...] = field(
        default=(), repr=False, compare=False, metadata={"fact": False}
    )
    proposals: tuple[Proposal, ...] = field(
        default=(), repr=False, compare=False, metadata={"fact": False}
    )

    @classmethod
    def of(
        cls,
        kind: str,
        message: str,
        advice: str,
        position: SourcePosition | None = None,
        calls: Sequence[SourcePosition] = (),
        severity: Severity | None = None,
        places: Sequence[SourcePosition] = (),
        **facts: Any,
    ) -> Finding:
        """Return a finding.

        Args:
            kind: what it is; it also decides the severity, unless `severity` is given.
            message: what happens, with the values.
            advice: what to try.
            position: the line.
            calls: the lines of the calls that lead to the position, the kernel's own first.
            severity: how bad it is.
            places: the calls and then the position, in place of both.
            facts: the other fields.
        """
        *leading, place = places or (None,)
        return cls(
            severity=severity or ("warning" if kind in _MAY_BE_MEANT else "error"),
            kind=kind,
            what=message,
            position=position or place,
            called_from=tuple(reversed(calls or leading)),
            advice=advice,
            **facts,
        )

    @property
    def message(self) -> str:
        """The fault, with its values."""
        return self.what

    @property
    def calls(self) -> tuple[SourcePosition, ...]:
        """The lines of the calls that lead to the position; empty in the kernel."""
        return self.called_from[::-1]

    @property
    def headline(self) -> str:
        """The kind and what happens."""
        return f"{self.kind}: {self.what}"

    @property
    def circumstances(self) -> Mapping[str, str]:
        """The programs in which it happens, the values there, and what they were computed from."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        known = {"in": self.where, "with": values, "computed from": _inputs_text(self.inputs)}
        return {lead: words for lead, words in known.items() if words}

    @property
    def where(self) -> str:
        """Where it happens, as text: "program (3, 0, 0), element 2 of the tile, and 4 more
        programs".

        It is "every program" for a value that all programs share, and "" if nothing is known.
        """
        element = self.element_text
        if not self.programs:
            return f"every program{element}" if element else ""
        if element:
            return f"program {self.programs[0]}{element}{_more(self.program_count - 1)}"
        named = self.programs[:_NAMED_PROGRAMS]
        listed = ", ".join(map(str, named))
        plural = "s" if len(named) > 1 else ""
        return f"program{plural} {listed}{_more(self.program_count - len(named))}"

    @property
    def element_text(self) -> str:
        """The position in the tile, as text: ", element 2 of the tile"; "" if there is none."""
        if not self.lane:
            return ""
        return f", element {self.lane[0] if len(self.lane) == 1 else self.lane} of the tile"

    def joined(self, first: Finding) -> Finding:
        """Return one finding for this one and for the same fault in another call of its helper."""
        others = sorted({*self.programs, *first.programs} - {*first.programs[:1]})
        programs = [*first.programs[:1], *others][:LISTED_PROGRAMS]
        return dataclasses.replace(
            first,
            programs=tuple(programs),
            count=self.count + first.count,
            program_count=max(self.program_count, first.program_count, len(programs)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the finding in types that JSON has."""
        plain = self.to_json()
        return {
            "kind": self.kind,
            "message": self.what,
            "advice": self.advice,
            "position": plain["position"],
            "calls": plain["called_from"][::-1],
            **plain["facts"],
            "line": self.line,
            "changes": plain["changes"],
            "verified": self.verified,
        }


@dataclass(frozen=True)
class Findings(HasCard, RowSequence[Finding]):
    """The findings of a check of one launch, in the order of the kernel's lines.

    Attributes:
        grid: the number of programs along x, y, z.
        notes: what was not checked, and which detector failed, and why.
        subject: what was checked; None if it is not known.
        compared: the arguments that were compared with expected contents.
        launch: the launch that was checked; None if it is not available.
        every_size: with `sizes`: "proved", "refuted" by a small launch, "not decided"; else "".
    """

    kernel: str
    target: str
    grid: tuple[int, int, int]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    subject: Subject | None = field(default=None, repr=False, compare=False)
    compared: tuple[str, ...] = ()
    launch: BoundLaunch | None = field(default=None, repr=False, compare=False)
    every_size: Literal["", "proved", "refuted", "not decided"] = ""
    _rows = "findings"

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """Return the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each finding, in their order."""
        return tuple(finding.kind for finding in self.findings)

    @property
    def examined(self) -> str:
        """What a check without findings has examined, and what it has not; else ""."""
        if self.findings:
            return ""
        if self.compared:
            verb = "has" if len(self.compared) == 1 else "have"
            results = f"{', '.join(self.compared)} {verb} the expected contents."
        else:
            results = (
                "It did not compare the results: %tilecheck --expect NAME (or expect=) compares "
                "them with those of a function such as torch.add."
            )
        if 0 in self.grid:
            ran = f"The grid {self.grid} has no programs: nothing ran, and nothing was checked."
            return f"{ran} {results}" if self.compared else ran
        programs = counted(math.prod(self.grid), "program")
        return f"The check examined every access, atomic and value of {programs}. {results}"

    def table(self) -> Any:
        """Return a pandas DataFrame with one row for each finding."""
        columns = ("kind", "line", "programs", "argument", "index", "count", "message", "advice")
        return data_frame(self.findings, columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings in types that JSON has."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "grid": list(self.grid),
            "notes": list(self.notes),
            "every_size": self.every_size,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        number = counted(len(self), "finding") if self.findings else "nothing found"
        examined = [self.examined] if self.examined else []
        return "\n\n".join(
            [f"{self.kernel}: {number}", *map(str, self.findings), *examined, *self.notes]
        )


def _inputs_text(inputs: Sequence[Inputs] | None) -> str:
    if inputs is None:
        return ""
    return "\n".join(map(str, inputs)) or "nothing that the kernel has read"


def _more(programs: int) -> str:
    if programs <= 0:
        return ""
    return f", and {counted(programs, 'more program')}"
