"""The card of a check: each finding with its line, what happens there, and what to try."""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from kernellab.checker.records import Finding, Findings
from kernellab.common.formatting import joined_sizes
from kernellab.viz.kit.card import Card, Table, card_of


@card_of.register
def findings_card(findings: Findings) -> Card:
    """One table a finding, in the order of the kernel's lines."""
    number = {0: "nothing found", 1: "1 finding"}.get(len(findings), f"{len(findings)} findings")
    grid = joined_sizes(findings.grid)
    return Card(
        title=f"{findings.kernel}: {number}",
        subtitle=f"{findings.target}, grid {grid}",
        tables=[Table(_title(one), (), list(_facts(one))) for one in findings],
        notes=findings.notes,
    )


def _title(one: Finding) -> str:
    return one.kind if one.position is None else f"{one.kind}, {one.position}"


def _facts(one: Finding) -> Iterator[tuple[str, str]]:
    if one.position is not None:
        source = linecache.getline(one.position.file, one.position.line).strip()
        if source:
            yield "line", source
    for call in reversed(one.calls):
        yield "called from", str(call)
    first, *more = one.message.splitlines()
    yield "what", first
    yield from (("", line.strip()) for line in more)
    if one.where:
        yield "where", one.where
    if one.values:
        yield "values", ", ".join(f"{name} = {value}" for name, value in one.values.items())
    if one.advice:
        yield "try", one.advice
