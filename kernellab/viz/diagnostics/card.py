"""The card of diagnostics: each with its line, what happens there, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.checker.records import Finding
from kernellab.errors import Diagnostic, source_line
from kernellab.profiling.accesses.records import AccessFinding
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.records.remarks import Remark
from kernellab.viz.kit.card import Card, Table, card_of
from kernellab.viz.kit.data import Link


def diagnostics_card(
    title: str, diagnostics: Sequence[Diagnostic], subtitle: str = "", notes: Sequence[str] = ()
) -> Card:
    """One table a diagnostic, in the order in which they are given."""
    tables = [
        Table(_title(one), (), list(_facts(one)), links=_links(number, one))
        for number, one in enumerate(diagnostics)
    ]
    return Card(title, subtitle, tables, notes)


@card_of.register(AccessFinding)
@card_of.register(CostFinding)
@card_of.register(Finding)
@card_of.register(Remark)
def diagnostic_card(one: Diagnostic) -> Card:
    """The card of a single one."""
    return Card(_title(one), one.severity, [Table("", (), list(_facts(one)))])


def _links(number: int, one: Diagnostic) -> list[Link]:
    """From a finding to its step, and to its line."""
    if not isinstance(one, Finding | CostFinding) or one.position is None:
        return []
    line = one.position.line
    lowered = Link(-1, "IR", f"What became of line {line}", "ir", {"line": line})
    if isinstance(one, CostFinding):
        return [lowered]
    return [
        Link(-1, "step", "The step of the trace that does it", "steps", {"finding": number}),
        lowered,
    ]


def _title(one: Diagnostic) -> str:
    return one.kind if one.position is None else f"{one.kind}, {one.position}"


def _facts(one: Diagnostic) -> Iterator[tuple[str, str]]:
    if one.position is not None:
        source = source_line(one.position.file, one.position.line).strip()
        if source:
            yield "line", source
        if one.position.notice:
            yield "notice", one.position.notice
    for call in one.called_from:
        yield "called from", str(call)
    yield from _rows("what", one.what)
    yield from _rows("why", one.why)
    for lead, words in one.circumstances.items():
        yield _LABELS.get(lead, lead), words
    if one.advice:
        yield "try", one.advice


def _rows(label: str, words: str) -> Iterator[tuple[str, str]]:
    """A row for each line."""
    for number, line in enumerate(words.splitlines()):
        yield "" if number else label, line.strip() if number else line


_LABELS = {"in": "where", "with": "values"}
"""What leads words in a text -> what stands before them in a card."""
