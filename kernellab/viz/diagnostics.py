"""The cards of what is wrong with a launch, and of what its accesses to memory cost: diagnostics, a
check, a diagnosis, accesses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernellab.checker.records import Finding, Findings
from kernellab.common.text import counted, element_text, joined_sizes
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
from kernellab.viz.kit.data import At, Edit, Link, Strip, StripCell, Tone
from kernellab.viz.kit.view import Card, Table, card_of

# The cards of diagnostics, of a check and of a diagnosis: each finding with its line, what
# happens there, and what to try.


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


_OF_FINDINGS = ("costs", "finding", "line", "what")
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
    ranked = Table(
        "What costs most",
        _OF_FINDINGS,
        [_finding_row(finding) for finding in diagnosis],
        numbers=(0, 2),
    )
    return Card(each.title, each.subtitle, (ranked, *each.tables), each.notes)


def _finding_row(finding: CostFinding) -> tuple[str, ...]:
    return (
        f"{finding.cost:.0%}" if finding.cost else "",
        finding.kind,
        "" if finding.line is None else str(finding.line),
        finding.what,
    )


@card_of.register
def diagnoses_card(diagnoses: Diagnoses) -> Card:
    """One row a kernel, with its first finding."""
    shares = diagnoses.shares or (None,) * len(diagnoses)
    rows = [
        (
            diagnosis.kernel,
            "" if share is None else f"{share:.0%}",
            str(len(diagnosis)),
            diagnosis[0].headline if len(diagnosis) else "",
        )
        for diagnosis, share in zip(diagnoses, shares, strict=True)
    ]
    title = f"{counted(len(diagnoses), 'kernel')} diagnosed"
    return Card(title, "", [Table("", _OF_KERNELS, rows, numbers=(1, 2))], diagnoses.notes)


# The card of a launch's accesses to memory: what each costs, and what they cost together.


_COLUMNS = (
    "access", "line", "elements at once", "requests", "sectors", "a request", "useful",
    "programs a sector", "",
)  # fmt: skip
_LINE_COLUMNS = ("line", "accesses", "requests", "sectors", "")
_SHARED_COLUMNS = (
    "in shared memory", "line", "instructions", "wavefronts", "each", "bank conflicts", "bytes", "",
)  # fmt: skip


@card_of.register
def accesses_card(accesses: Accesses) -> Card:
    """One row for each access, and the bytes of all together."""
    grid = joined_sizes(accesses.grid)
    total = [
        ("different sectors (L2)", f"{accesses.footprint_bytes:,} bytes"),
        ("read from cold DRAM", f"{accesses.dram_bytes_read:,} bytes"),
        ("written to DRAM", f"{accesses.dram_bytes_written:,} bytes"),
    ]
    in_shared = f", {len(accesses.shared)} to shared memory" if accesses.shared else ""
    rows = [_row(access) for access in accesses]
    tables = [Table("", _COLUMNS, rows, links=_links(accesses.accesses), code=(len(_COLUMNS) - 1,))]
    if by_line := _by_line(accesses):
        title = "Lines that became several accesses"
        tables.append(Table(title, _LINE_COLUMNS, by_line, code=(len(_LINE_COLUMNS) - 1,)))
    if accesses.shared:
        rows = [_shared_row(access) for access in accesses.shared]
        code = (len(_SHARED_COLUMNS) - 1,)
        tables.append(Table("", _SHARED_COLUMNS, rows, links=_links(accesses.shared), code=code))
        total += [
            ("wavefronts of shared memory", f"{accesses.shared_wavefronts:,}"),
            ("bank conflicts among them", f"{accesses.bank_conflicts:,}"),
            ("to and from shared memory", f"{accesses.shared_bytes:,} bytes"),
        ]
    waiting = dict.fromkeys(
        access.position.line for access in accesses if access.waits and access.position
    )
    places = [access.position for access in (*accesses, *accesses.shared) if access.position]
    assumed = dict.fromkeys(access.assumed for access in accesses.shared if access.assumed)
    return Card(
        title=f"{accesses.kernel}: {len(accesses)} accesses to global memory{in_shared}",
        subtitle=f"{accesses.target}, grid {grid}",
        tables=(*tables, Table("Together", (), total)),
        notes=(
            *(f"{finding}. Try: {finding.advice}" for finding in accesses.findings),
            *(
                (
                    f"Line {line} waits for other programs: how often it runs depends on "
                    "whose turn it is."
                )
                for line in waiting
            ),
            *(f"Assumed, where a number has a ~: {what}." for what in assumed),
            *dict.fromkeys(place.notice for place in places if place.notice),
            *accesses.notes,
        ),
    )


def _links(accesses: Sequence[GlobalAccess | SharedAccess]) -> list[Link]:
    """From each access to its line in the explorer."""
    return [
        Link(
            row,
            "IR",
            f"What became of line {access.position.line}",
            "ir",
            {"line": access.position.line},
        )
        for row, access in enumerate(accesses)
        if access.position
    ]


def _row(access: GlobalAccess) -> tuple[str, ...]:
    place = access.position
    return (
        access.title,
        str(place.line) if place else "",
        str(access.vector_width) if access.encoding else "",
        f"{access.requests:,}",
        f"{access.sectors:,}",
        f"{access.sectors_per_request:.3g}",
        f"{access.efficiency:.0%}",
        f"{access.reuse_between_programs:.3g}",
        _text_of(place),
    )


def _by_line(accesses: Accesses) -> list[tuple[str, ...]]:
    """The totals of each line that became several accesses, as one in a pipelined loop does: its
    copies before the loop, in it and behind it.
    """
    lines: dict[tuple[str, int], list[GlobalAccess]] = {}
    for access in accesses:
        if access.position is not None:
            lines.setdefault((access.position.file, access.position.line), []).append(access)
    return [
        (
            str(line),
            str(len(several)),
            f"{sum(access.requests for access in several):,}",
            f"{sum(access.sectors for access in several):,}",
            _text_of(several[0].position),
        )
        for (_, line), several in lines.items()
        if len(several) > 1
    ]


def _shared_row(access: SharedAccess) -> tuple[str, ...]:
    about = "~" if access.is_model else ""
    worst = f" ({access.ways}-way)" if access.ways > 1 else ""
    return (
        access.described,
        str(access.position.line) if access.position else "",
        f"{access.instructions:,}",
        f"{about}{access.wavefronts:,}",
        f"{access.wavefronts_per_instruction:.3g}",
        f"{access.conflicts:,}{worst}",
        f"{access.bytes:,}",
        _text_of(access.position),
    )


def _text_of(place: SourcePosition | None) -> str:
    """The kernel's line itself."""
    return source_line(place.file, place.line).strip() if place else ""
