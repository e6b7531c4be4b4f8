"""The cards of diagnostics, a check, a diagnosis, and accesses to memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kernellab.checker.records import Finding, Findings
from kernellab.common.text import counted, element_text, joined_sizes, percent, time_text
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
from kernellab.profiling.accesses.records import Accesses, AccessFinding, GlobalAccess, SharedAccess
from kernellab.profiling.diagnosis.records import CostFinding, Diagnoses, Diagnosis
from kernellab.records import BoundLaunch
from kernellab.viz.kit.data import At, Bar, BarKind, BarPart, Edit, Link, Strip, StripCell, Tone
from kernellab.viz.kit.view import Card, Table, card_of


def diagnostics_card(
    title: str,
    diagnostics: Sequence[Diagnostic],
    subtitle: str = "",
    notes: Sequence[str] = (),
    tone: Tone = "",
) -> Card:
    """One table a diagnostic, errors first, else in the order in which they are given."""
    tables = [
        diagnostic_table(diagnostic, finding_links({"finding": number}, diagnostic))
        for number, diagnostic in sorted(
            enumerate(diagnostics), key=lambda numbered: numbered[1].severity != "error"
        )
    ]
    return Card(title, subtitle, tables, notes, tone)


def diagnostic_table(diagnostic: Diagnostic, links: Sequence[Link] = ()) -> Table:
    """The facts of a diagnostic under its kind and its line, with a picture if one helps."""
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
    """The tone of all of them: that of the worst; "pass" if there is none."""
    tones = {_TONES.get(diagnostic.severity, "") for diagnostic in diagnostics}
    return next((tone for tone in ("fail", "warn", "") if tone in tones), "pass")


def _tried(diagnostic: Diagnostic) -> tuple[Change, ...]:
    return diagnostic.changes if diagnostic.verified else ()


def _strip(finding: Finding) -> Strip | None:
    """The picture of a finding: a contended element, or a tensor and what is beyond its end."""
    if len(finding.rivals) == 2 and finding.index is not None:
        first, second = (f"{program} {deed}" for program, deed in finding.rivals)
        element = element_text(finding.argument, finding.index)
        cells = StripCell(f"{first} →"), StripCell(element, "fail"), StripCell(f"← {second}")
        return Strip("", cells)
    if finding.held is None or finding.index is None:
        return None
    return _beyond(finding.argument, finding.held, finding.index[0], finding.count)


def _beyond(name: str, held: tuple[int, int], index: int, count: int) -> Strip | None:
    """A tensor from its first to its last element, `held`, as a strip, with the first of `count`
    elements outside; None if that is between those two.
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
    """A listing of facts; those in `code`, with the unnamed rows below, are code."""
    rows, named, marked = list(facts), "", []
    for number, (name, _) in enumerate(rows):
        named = name or named
        if named in code:
            marked.append(number)
    return Table(title, (), rows, links=links, code=marked)


def fault_card(error: KernelLabError, launch: BoundLaunch | None) -> Card:
    """The card of the error that stopped a launch, or a compilation."""
    links, name = [], getattr(error, "kernel", "") if launch is None else launch.name
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
    """The facts of its diagnostic, or of a program's fault as a finding has them."""
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
    place = "" if diagnostic.position is None else f", {diagnostic.position}"
    return f"{diagnostic.kind}{place}"


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
    for number, line in enumerate(words.splitlines()):
        is_code = label == "change"
        yield "" if number else label, line.strip() if number and not is_code else line


_LABELS = {"evidence:": "evidence", "in": "where", "with": "values"}
"""Words that introduce a part of a text -> its label in a card."""


@card_of.register
def findings_card(findings: Findings) -> Card:
    """One table a finding: errors first, each kind of severity in the order of the lines."""
    number = {0: "nothing found", 1: "1 finding"}.get(len(findings), f"{len(findings)} findings")
    return diagnostics_card(
        f"{findings.kernel}: {number}",
        findings,
        f"{findings.target}, grid {joined_sizes(findings.grid)}",
        (*filter(None, (findings.examined,)), *findings.notes),
        tone_of(findings),
    )


_LEAST_BUSY = 0.005
"""The share of the time that a part of the GPU must be busy to have a row."""


@card_of.register
def diagnosis_card(diagnosis: Diagnosis) -> Card:
    """The time of each part of the GPU beside the possible one, and the findings by cost."""
    grid = "" if diagnosis.grid is None else f", grid {joined_sizes(diagnosis.grid)}"
    title = f"{diagnosis.kernel}: {diagnosis.headline}"
    if len(diagnosis) and diagnosis[0].cost:
        title += f", {diagnosis[0].kind} {_cost(diagnosis[0])}"
    shown: set[str] = set()
    tables = [_finding_table(number, finding, shown) for number, finding in enumerate(diagnosis)]
    return Card(
        title,
        f"{diagnosis.target}{grid}",
        (_busy_table(diagnosis), *tables),
        footnotes=(*diagnosis.notes, *([_WHAT_IS_BUSY] if diagnosis.parts else [])),
        legend=_LEGEND if diagnosis.parts else (),
    )


_WHAT_IS_BUSY = "Parts of the GPU work at the same time: their shares do not add up."
_LEGEND: Sequence[tuple[BarKind, str]] = (
    ("used", "busy at the data sheet's rate"),
    ("other", "more at the rate that kernels reach"),
    ("lost", "what a finding costs"),
)


def _cost(finding: CostFinding) -> str:
    return f"{finding.cost:.0%}".replace("%", " %")


def _busy_table(diagnosis: Diagnosis) -> Table:
    """How long each part of the GPU is busy, the busiest first; empty if no time is known."""
    whole = diagnosis.microseconds or 0.0
    estimate = diagnosis.estimate
    least = {part.name: part.at_least for part in estimate.parts} if estimate else {}
    parts = [
        (name, busy, least.get(name, 0.0))
        for name, busy in sorted(diagnosis.parts.items(), key=lambda part: -part[1])
        if whole and busy >= _LEAST_BUSY * whole
    ]
    rows = [
        (name, percent(busy / whole), "", time_text(busy), time_text(at_least) if at_least else "")
        for name, busy, at_least in parts
    ]
    bars = [_busy_bar(busy / whole, at_least / whole) for _, busy, at_least in parts]
    columns = ("busy part", "of the time", "", "busy", "at least")
    return Table("", columns, rows, numbers=(1, 3, 4), is_wide=True, bars={2: bars})


def _busy_bar(busy: float, at_least: float) -> Bar:
    needed = min(at_least, busy)
    parts = (BarPart("used", needed), BarPart("other", min(busy, 1.0) - min(needed, 1.0)))
    return tuple(part for part in parts if part.share > 0)


def _finding_table(number: int, finding: CostFinding, shown: set[str]) -> Table:
    """The facts about a finding, below its cost; each source line and advice is shown once."""
    table = diagnostic_table(finding, finding_links({"finding": number}, finding))
    if table.rows and table.rows[0][0] == "line":
        source = table.rows[0][1]
        if source in shown:
            gone = 2 if finding.position and finding.position.column else 1  # with its caret
            code = [row - gone for row in table.code if row >= gone]
            table = replace(table, rows=table.rows[gone:], code=code)
        shown.add(source)
    if finding.advice and finding.advice in shown:
        table = replace(table, rows=[row for row in table.rows if row != ("try", finding.advice)])
    shown.add(finding.advice)
    if not finding.cost:
        return table
    bar = (BarPart("lost", min(finding.cost, 1.0)),)
    return replace(table, title=f"{_cost(finding)} {table.title}", title_bar=bar)


_OF_KERNELS = ("kernel", "time", "", "findings", "first")


@card_of.register
def diagnoses_card(diagnoses: Diagnoses) -> Card:
    """One row for each kernel, with its first finding."""
    shares = diagnoses.shares or (None,) * len(diagnoses)
    rows = [
        (
            diagnosis.kernel,
            "" if share is None else f"{share:.0%}",
            "",
            str(len(diagnosis)),
            diagnosis[0].headline if len(diagnosis) else "",
        )
        for diagnosis, share in zip(diagnoses, shares, strict=True)
    ]
    bars = [() if share is None else (BarPart("used", min(share, 1.0)),) for share in shares]
    title = f"{counted(len(diagnoses), 'kernel')} diagnosed"
    table = Table("", _OF_KERNELS, rows, numbers=(1, 3), bars={2: bars})
    return Card(title, "", [table], diagnoses.notes)


_COLUMNS = (
    "access", "line", "sectors", "", "useful", "requests", "a request", "elements at once",
    "programs a sector", "",
)  # fmt: skip
_SHARED_COLUMNS = (
    "in shared memory", "line", "wavefronts", "", "bank conflicts", "instructions", "each", "bytes",
    "",
)  # fmt: skip
_WASTED: Sequence[tuple[BarKind, str]] = (
    ("used", "useful"),
    ("lost", "wasted: bytes that no one asked for, turns that bank conflicts take"),
)


@card_of.register
def accesses_card(accesses: Accesses) -> Card:
    """One row for each access, and the bytes of all together."""
    moved, useful = (
        sum(getattr(access, name) for access in accesses)
        for name in ("moved_bytes", "useful_bytes")
    )
    answer = f", {min(useful / moved, 1):.0%} of the bytes moved are useful" if moved else ""
    conflicts = f", {counted(accesses.bank_conflicts, 'bank conflict')}" if accesses.shared else ""
    shown: _Lines = set()
    tables = [_together(accesses), _global_table(accesses, shown)]
    if accesses.shared:
        tables.append(_shared_table(accesses, shown))
    waiting = dict.fromkeys(
        access.position.line for access in accesses if access.waits and access.position
    )
    places = [access.position for access in (*accesses, *accesses.shared) if access.position]
    assumed = dict.fromkeys(access.assumed for access in accesses.shared if access.assumed)
    return Card(
        title=f"{accesses.kernel}: {len(accesses)} accesses to global memory{answer}{conflicts}",
        subtitle=f"{accesses.target}, grid {joined_sizes(accesses.grid)}",
        tables=tables,
        notes=(
            *(f"{finding}. Try: {finding.advice}" for finding in accesses.findings),
            *(
                f"Line {line} waits for other programs: how often it runs depends on whose turn it "
                "is."
                for line in waiting
            ),
            *dict.fromkeys(place.notice for place in places if place.notice),
            *accesses.notes,
        ),
        footnotes=[f"Assumed, where a number has a ~: {what}." for what in assumed],
        legend=_WASTED,
    )


_Access = TypeVar("_Access", GlobalAccess, SharedAccess)


_Lines = set[tuple[str, int]]
"""The kernel's lines whose text is shown already."""


def _text_once(place: SourcePosition | None, shown: _Lines) -> str:
    """A line; "" of one that was shown before."""
    if place is None or (place.file, place.line) in shown:
        return ""
    shown.add((place.file, place.line))
    return source_line(place.file, place.line).strip()


def _together(accesses: Accesses) -> Table:
    """The traffic between programs, caches and memory, with bars of one scale."""
    levels = [
        ("asked for by requests", sum(access.moved_bytes for access in accesses)),
        ("different sectors (L2)", accesses.footprint_bytes),
        ("read from cold DRAM", accesses.dram_bytes_read),
        ("written to DRAM", accesses.dram_bytes_written),
    ]
    if accesses.shared:
        levels.append(("to and from shared memory", accesses.shared_bytes))
    most = max(number for _, number in levels) or 1
    rows = [(name, f"{number:,}", "") for name, number in levels]
    bars: list[Bar] = [(BarPart("used", number / most),) for _, number in levels]
    columns = ("together", "bytes", "")
    return Table("", columns, rows, numbers=(1,), bars={2: bars}, is_wide=True)


def _by_place(accesses: Iterable[_Access]) -> list[_Access]:
    """Accesses by line, so that a line is shown once, above all that became of it."""
    return sorted(accesses, key=lambda access: access.position.line if access.position else 0)


def _global_table(accesses: Accesses, shown: _Lines) -> Table:
    ordered = _by_place(accesses)
    most = max((access.sectors for access in ordered), default=0) or 1
    return Table(
        "",
        _COLUMNS,
        [_row(access, shown) for access in ordered],
        numbers=(1, 2, *range(4, len(_COLUMNS) - 1)),
        links=_links(ordered),
        code=(len(_COLUMNS) - 1,),
        is_wide=True,
        bars={3: [_share_bar(access.sectors / most, access.efficiency) for access in ordered]},
    )


def _shared_table(accesses: Accesses, shown: _Lines) -> Table:
    ordered = _by_place(accesses.shared)
    most = max(access.wavefronts for access in ordered) or 1
    bars = [
        _share_bar(access.wavefronts / most, 1 - access.conflicts / max(access.wavefronts, 1))
        for access in ordered
    ]
    return Table(
        f"{counted(accesses.shared_wavefronts, 'wavefront')} of shared memory",
        _SHARED_COLUMNS,
        [_shared_row(access, shown) for access in ordered],
        numbers=(1, 2, *range(4, len(_SHARED_COLUMNS) - 1)),
        links=_links(ordered),
        code=(len(_SHARED_COLUMNS) - 1,),
        is_wide=True,
        bars={3: bars},
    )


def _share_bar(length: float, useful: float) -> Bar:
    used = length * min(useful, 1.0)
    parts = (BarPart("used", used), BarPart("lost", length - used))
    return tuple(part for part in parts if part.share > 1e-9)


def _links(accesses: Sequence[GlobalAccess | SharedAccess]) -> list[Link]:
    """From each access to its line in the explorer."""
    lines = {row: access.position.line for row, access in enumerate(accesses) if access.position}
    return [
        Link(row, "IR", f"What became of line {line}", "ir", {"line": line})
        for row, line in lines.items()
    ]


def _row(access: GlobalAccess, shown: _Lines) -> tuple[str, ...]:
    place, reuse = access.position, access.reuse_between_programs
    return (
        access.title,
        str(place.line) if place else "",
        f"{access.sectors:,}",
        "",
        f"{access.efficiency:.0%}",
        f"{access.requests:,}",
        f"{access.sectors_per_request:.3g}",
        str(access.vector_width) if access.encoding else "",
        f"{reuse:,.0f}" if reuse >= 100 else f"{reuse:.3g}",
        _text_once(place, shown),
    )


def _shared_row(access: SharedAccess, shown: _Lines) -> tuple[str, ...]:
    about = "~" if access.assumed else ""
    worst = f" ({access.ways}-way)" if access.ways > 1 else ""
    return (
        access.described,
        str(access.position.line) if access.position else "",
        f"{about}{access.wavefronts:,}",
        "",
        f"{access.conflicts:,}{worst}",
        f"{access.instructions:,}",
        f"{access.wavefronts_per_instruction:.3g}",
        f"{access.bytes:,}",
        _text_once(access.position, shown),
    )
