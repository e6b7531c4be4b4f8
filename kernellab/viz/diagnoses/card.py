"""The card of a diagnosis: what costs most first, each with its line, evidence and advice."""

from __future__ import annotations

from kernellab.common.formatting import counted, joined_sizes
from kernellab.profiling.diagnosis.records import CostFinding, Diagnoses, Diagnosis
from kernellab.viz.diagnostics.card import diagnostics_card
from kernellab.viz.kit.card import Card, Table, card_of

_COLUMNS = ("costs", "finding", "line", "what")
_OF_KERNELS = ("kernel", "time", "findings", "first")


@card_of.register
def diagnosis_card(diagnosis: Diagnosis) -> Card:
    """A list of the findings, then one table for each."""
    grid = "" if diagnosis.grid is None else f", grid {joined_sizes(diagnosis.grid)}"
    number = counted(len(diagnosis), "finding") if len(diagnosis) else "nothing found"
    each = diagnostics_card(
        f"{diagnosis.kernel}: {number}",
        diagnosis.findings,
        f"{diagnosis.target}{grid}",
        diagnosis.notes,
    )
    ranked = Table("What costs most", _COLUMNS, [_row(one) for one in diagnosis], numbers=(0, 2))
    return Card(each.title, each.subtitle, (ranked, *each.tables), each.notes)


def _row(one: CostFinding) -> tuple[str, ...]:
    return (
        f"{one.cost:.0%}" if one.cost else "",
        one.kind,
        "" if one.line is None else str(one.line),
        one.what,
    )


@card_of.register
def diagnoses_card(diagnoses: Diagnoses) -> Card:
    """One row a kernel, with its first finding."""
    shares = diagnoses.shares or (None,) * len(diagnoses)
    rows = [
        (
            one.kernel,
            "" if share is None else f"{share:.0%}",
            str(len(one)),
            one[0].headline if len(one) else "",
        )
        for one, share in zip(diagnoses, shares, strict=True)
    ]
    title = f"{counted(len(diagnoses), 'kernel')} diagnosed"
    return Card(title, "", [Table("", _OF_KERNELS, rows, numbers=(1, 2))], diagnoses.notes)
