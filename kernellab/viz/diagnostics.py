"""The cards of what is wrong with a launch: diagnostics, and a check."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kernellab.checker.records import Finding, Findings
from kernellab.common.text import joined_sizes
from kernellab.compiler.records import Remark
from kernellab.errors import Diagnostic, KernelFault, KernelLabError, source_line
from kernellab.profiling.accesses.records import AccessFinding
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.records import BoundLaunch
from kernellab.viz.kit.data import At, Link
from kernellab.viz.kit.view import Card, Table, card_of

# The cards of diagnostics and of a check: each finding with its line, what happens there, and
# what to try.


def diagnostics_card(
    title: str, diagnostics: Sequence[Diagnostic], subtitle: str = "", notes: Sequence[str] = ()
) -> Card:
    """One table a diagnostic, in the order in which they are given."""
    tables = [
        diagnostic_table(diagnostic, finding_links({"finding": number}, diagnostic))
        for number, diagnostic in enumerate(diagnostics)
    ]
    return Card(title, subtitle, tables, notes)


def diagnostic_table(diagnostic: Diagnostic, links: Sequence[Link] = ()) -> Table:
    """The facts of a diagnostic under its kind and its line."""
    return facts_table(_title(diagnostic), _facts(diagnostic), links)


_CODE = ("line", "called from", "values", "computed from")


def facts_table(
    title: str,
    facts: Iterable[tuple[str, str]],
    links: Sequence[Link] = (),
    code: Collection[str] = _CODE,
) -> Table:
    """A listing of facts. Those under the names in `code` are code, with the rows below a name that
    have none.
    """
    rows, named, marked = list(facts), "", []
    for number, (name, _) in enumerate(rows):
        named = name or named
        if named in code:
            marked.append(number)
    return Table(title, (), rows, links=links, code=marked)


def fault_card(error: KernelLabError, launch: BoundLaunch | None) -> Card:
    """The card of the error that stopped a launch, or a compilation."""
    links, name = [], getattr(error, "kernel", "")
    if launch is not None:
        name = launch.name
    if launch is not None and isinstance(error, KernelFault):
        place: dict[str, Any] = {} if error.position is None else {"line": error.position.line}
        if error.program is not None:
            place["program"] = error.program
        links = [
            Link(-1, "step", "The step of the trace that does it", "steps", place),
            Link(-1, "IR", "What became of the line", "ir", place),
            Link(-1, "check", "The launch with every detector on", "check", {}),
        ]
    ending = "stopped by a fault" if isinstance(error, KernelFault) else "does not compile"
    target = "" if launch is None or launch.target is None else str(launch.target)
    return Card(
        f"{name or 'The kernel'}: {ending}",
        target,
        [facts_table(_title(error.diagnostic), _facts_of_error(error), links)],
    )


def _facts_of_error(error: KernelLabError) -> Iterator[tuple[str, str]]:
    """The facts of its diagnostic; of a fault in a program, where and with which values as a
    finding has them.
    """
    diagnostic = error.diagnostic
    if not isinstance(error, KernelFault) or error.program is None:
        yield from _facts(diagnostic)
        return
    where, *_ = error.why.splitlines()
    values = ", ".join(f"{name} = {value}" for name, value in error.values.items())
    yield from _facts(replace(diagnostic, why="", advice=""))
    yield "where", where.removeprefix("in ")
    if values:
        yield "values", values
    if diagnostic.advice:
        yield "try", diagnostic.advice


@card_of.register(AccessFinding)
@card_of.register(CostFinding)
@card_of.register(Finding)
@card_of.register(Remark)
def diagnostic_card(diagnostic: Diagnostic) -> Card:
    """The card of a single one."""
    return Card(_title(diagnostic), diagnostic.severity, [facts_table("", _facts(diagnostic))])


def finding_links(at: At, diagnostic: Diagnostic) -> list[Link]:
    """From a finding to its step, and to its line; `at` says which finding it is."""
    if not isinstance(diagnostic, Finding | CostFinding) or diagnostic.position is None:
        return []
    line = diagnostic.position.line
    lowered = Link(-1, "IR", f"What became of line {line}", "ir", {"line": line})
    if isinstance(diagnostic, CostFinding):
        return [lowered]
    return [Link(-1, "step", "The step of the trace that does it", "steps", at), lowered]


def _title(diagnostic: Diagnostic) -> str:
    return (
        diagnostic.kind
        if diagnostic.position is None
        else f"{diagnostic.kind}, {diagnostic.position}"
    )


def _facts(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    if diagnostic.position is not None:
        source = source_line(diagnostic.position.file, diagnostic.position.line).strip()
        if source:
            yield "line", source
        if diagnostic.position.notice:
            yield "notice", diagnostic.position.notice
    for call in diagnostic.called_from:
        yield "called from", str(call)
    yield from _rows("what", diagnostic.what)
    yield from _rows("why", diagnostic.why)
    for lead, words in diagnostic.circumstances.items():
        yield from _rows(_LABELS.get(lead, lead), words)
    yield from _rows("try", diagnostic.advice)


def _rows(label: str, words: str) -> Iterator[tuple[str, str]]:
    """A row for each line."""
    for number, line in enumerate(words.splitlines()):
        yield "" if number else label, line.strip() if number else line


_LABELS = {"in": "where", "with": "values"}
"""What introduces a part of a text -> its label in a card."""


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
