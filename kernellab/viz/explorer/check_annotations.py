"""The findings of `kernellab.check`, as notes on the kernel's lines."""

from __future__ import annotations

from kernellab.checker.records import Findings
from kernellab.common.formatting import joined_sizes
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import (
    Annotations,
    annotations_of,
    check_subject,
    file_of,
)
from kernellab.viz.explorer.data import MarginNote
from kernellab.viz.explorer.sides import margin_note


@annotations_of.register
def annotations_of_findings(findings: Findings, compilation: Compilation) -> Annotations:
    """Each finding on its line."""
    check_subject("The findings", findings.kernel, findings.subject, compilation)
    origin = f"check on {findings.target}, grid {joined_sizes(findings.grid)}"
    file = file_of(compilation)
    notes = [margin_note(one, origin, file) for one in findings]
    if not notes:
        notes.append(MarginNote("note", "nothing found", origin, 0))
    notes += [MarginNote("note", words, origin, 0) for words in findings.notes]
    return Annotations(tuple(notes))
