"""The card of a check: each finding with its line, what happens there, and what to try."""

from __future__ import annotations

from kernellab.checker.records import Findings
from kernellab.common.formatting import joined_sizes
from kernellab.viz.diagnostics.card import diagnostics_card
from kernellab.viz.kit.card import Card, card_of


@card_of.register
def findings_card(findings: Findings) -> Card:
    """One table a finding, in the order of the kernel's lines."""
    number = {0: "nothing found", 1: "1 finding"}.get(len(findings), f"{len(findings)} findings")
    return diagnostics_card(
        f"{findings.kernel}: {number}",
        findings,
        f"{findings.target}, grid {joined_sizes(findings.grid)}",
        (*filter(None, (findings.examined,)), *findings.notes),
    )
