"""The cards of what is wrong with a launch: diagnostics, and a check."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernellab.checker.records import Finding, Findings
from kernellab.common.text import element_text, joined_sizes
from kernellab.compiler.records import Remark
from kernellab.errors import (
    Change,
    CompileError,
    Diagnostic,
    KernelFault,
    KernelLabError,
    OutOfBounds,
    SourcePosition,
    source_line,
)
from kernellab.profiling.accesses.records import AccessFinding
from kernellab.profiling.diagnosis.records import CostFinding
from kernellab.records import BoundLaunch
from kernellab.viz.kit.data import At, Edit, Link, Strip, StripCell, Tone
from kernellab.viz.kit.view import Card, Table, card_of

# The cards of diagnostics and of a check: each finding with its line, what happens there, and
# what to try.


def diagnostics_card(
    title: str,
    diagnostics: Sequence[Diagnostic],
    subtitle: str = "",
    notes: Sequence[str] = (),
    tone: Tone = "",
) -> Card:
    """One table a diagnostic, in the order in which they are given."""
    tables = [
        diagnostic_table(diagnostic, finding_links({"finding": number}, diagnostic))
        for number, diagnostic in enumerate(diagnostics)
    ]
    return Card(title, subtitle, tables, notes, tone)


def diagnostic_table(diagnostic: Diagnostic, links: Sequence[Link] = ()) -> Table:
    """The facts of a diagnostic under its kind and its line, with a picture where one helps."""
    table = facts_table(_title(diagnostic), _facts(diagnostic), links)
    return replace(
        table,
        tone=_TONES.get(diagnostic.severity, ""),
        strip=_strip(diagnostic) if isinstance(diagnostic, Finding) else None,
        edits=[Edit(change.line, change.old, change.new) for change in _tried(diagnostic)],
    )


_TONES: Mapping[str, Tone] = {"error": "fail", "warning": "warn"}
_CODE = ("line", "called from", "values", "computed from", "change")


def tone_of(diagnostics: Iterable[Diagnostic]) -> Tone:
    """The tone of all of them: that of the worst; "pass" where there is none."""
    tones = {_TONES.get(diagnostic.severity, "") for diagnostic in diagnostics}
    return next((tone for tone in ("fail", "warn", "") if tone in tones), "pass")


def _tried(diagnostic: Diagnostic) -> tuple[Change, ...]:
    """The changes that were tried, and help."""
    return diagnostic.changes if diagnostic.verified else ()


def _strip(finding: Finding) -> Strip | None:
    """The picture of a finding: the element that two programs contend for, or the tensor with the
    elements beyond its end.
    """
    if len(finding.rivals) == 2 and finding.index is not None:
        first, second = (f"{program} {deed}" for program, deed in finding.rivals)
        element = element_text(finding.argument, finding.index)
        cells = StripCell(f"{first} →"), StripCell(element, "fail"), StripCell(f"← {second}")
        return Strip("", cells)
    if finding.held is None or finding.index is None:
        return None
    return _beyond(finding.argument, finding.held, finding.index[0], finding.count)


def _beyond(name: str, held: tuple[int, int], index: int, count: int) -> Strip | None:
    """A tensor as a strip, with the first element that is not its own, and how many more there are.

    Args:
        name: the tensor's parameter.
        held: its first and its last element.
        index: the element outside; None is returned if it is between those two.
        count: how many elements are outside.
    """
    first, last = held
    if first > last or first <= index <= last:
        return None
    own = list(dict.fromkeys((first, min(first + 1, last), max(last - 1, first), last)))
    cells = [StripCell(str(number)) for number in own]
    if last - first > 3:
        cells.insert(2, StripCell("…"))
    outside = [StripCell(str(index), "fail")]
    if count > 1:
        outside.append(StripCell(f"{count - 1:,} more", "fail"))
    if index > last:
        gap = [StripCell("…")] if index > last + 1 else []
        return Strip(name, (*cells, *gap, *outside))
    gap = [StripCell("…")] if index < first - 1 else []
    return Strip(name, (*reversed(outside), *gap, *cells))


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
    if isinstance(error, CompileError):
        links = [Link(-1, "IR", "What the compiler made before it stopped", "ir", {})]
    ending = "stopped by a fault" if isinstance(error, KernelFault) else "does not compile"
    target = "" if launch is None or launch.target is None else str(launch.target)
    facts = facts_table(_title(error.diagnostic), _facts_of_error(error), links)
    strip = None
    if isinstance(error, OutOfBounds) and error.index is not None and error.held:
        held = error.held[0], error.held[-1]
        strip = _beyond(error.tensor, held, error.index, error.count)
    table = replace(facts, strip=strip, tone="fail")
    return Card(f"{name or 'The kernel'}: {ending}", target, [table], tone="fail")


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
    line, said = diagnostic.position.line, {"said": f"{diagnostic.headline}."}
    lowered = Link(-1, "IR", f"What became of line {line}", "ir", {"line": line, **said})
    if isinstance(diagnostic, CostFinding):
        return [lowered]
    step = "The step of the trace that does it"
    return [Link(-1, "step", step, "steps", {**at, **said}), lowered]


def _title(diagnostic: Diagnostic) -> str:
    return (
        diagnostic.kind
        if diagnostic.position is None
        else f"{diagnostic.kind}, {diagnostic.position}"
    )


def _facts(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    if diagnostic.position is not None:
        yield from _source(diagnostic.position)
        if diagnostic.position.notice:
            yield "notice", diagnostic.position.notice
    for call in diagnostic.called_from:
        yield "called from", str(call)
    yield from _rows("what", diagnostic.what)
    yield from _rows("why", diagnostic.why)
    for lead, words in diagnostic.circumstances.items():
        yield from _rows(_LABELS.get(lead, lead), words)
    changes = _tried(diagnostic)
    shown = {str(change) for change in changes} | {f"line {each.line}: deleted" for each in changes}
    advice = [line for line in diagnostic.advice.splitlines() if line.strip() not in shown]
    yield from _rows("try", "\n".join(advice))
    yield from _rows("change", "\n".join(_diff(changes)))


def _source(position: SourcePosition) -> Iterator[tuple[str, str]]:
    """The line of source, and a caret below its column."""
    text = source_line(position.file, position.line)
    shown = position.excerpt().splitlines()
    if not text.strip():
        return
    cut = len(shown[0]) - len(text.lstrip())
    yield "line", shown[0][cut:].rstrip()
    if position.column:
        yield "", shown[1][cut:]


def _diff(changes: Iterable[Change]) -> Iterator[str]:
    """The lines of a change: "- " before those that go, "+ " before those that come."""
    for change in changes:
        for sign, text in (("-", change.old), ("+", change.new)):
            yield from (f"{sign} {line}" for line in text.splitlines() if line.strip())


def _rows(label: str, words: str) -> Iterator[tuple[str, str]]:
    """A row for each line."""
    for number, line in enumerate(words.splitlines()):
        is_code = label == "change"
        yield "" if number else label, line.strip() if number and not is_code else line


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
        tone_of(findings),
    )
