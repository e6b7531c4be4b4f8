"""The findings of `kernellab.check`, as notes on the kernel's lines."""

from __future__ import annotations

from kernellab.checker.records import Finding, Findings
from kernellab.common.formatting import joined_sizes
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import (
    Annotations,
    annotations_of,
    check_subject,
    file_of,
)
from kernellab.viz.explorer.data import MarginNote, Severity
from kernellab.viz.explorer.sides import line_in

_WARNINGS = (
    "missing-other",
    "order-dependence",
    "nan",
    "infinity",
    "float-overflow",
    "dot-precision",
)
"""Kinds of findings that may be meant; all others are faults."""


@annotations_of.register
def annotations_of_findings(findings: Findings, compilation: Compilation) -> Annotations:
    """Each finding on its line."""
    check_subject("The findings", findings.kernel, findings.subject, compilation)
    origin = f"check on {findings.target}, grid {joined_sizes(findings.grid)}"
    file = file_of(compilation)
    notes = [_finding_note(one, file, origin) for one in findings]
    if not notes:
        notes.append(MarginNote("note", "nothing found", origin, 0))
    notes += [MarginNote("note", words, origin, 0) for words in findings.notes]
    return Annotations(tuple(notes))


def _finding_note(one: Finding, file: str, origin: str) -> MarginNote:
    severity: Severity = "warning" if one.kind in _WARNINGS else "error"
    lines = [f"{one.kind}: {one.message}"]
    if one.where:
        lines.append(f"in {one.where}")
    if one.values:
        lines.append("with " + ", ".join(f"{name} = {value}" for name, value in one.values.items()))
    line = line_in(file, (one.position, *reversed(one.calls)))
    return MarginNote(severity, "\n".join(lines), origin, line, one.advice)
