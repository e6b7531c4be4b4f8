"""What is known of a kernel besides its compilation, laid over the explorer: findings of a check, costs of accesses, a profile.

Each kind of evidence becomes notes on lines of the kernel and numbers on lines of a stage; the explorer carries both to its other texts.
Evidence of another kernel, or of another definition of it, is refused.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.checker.records import Finding, Findings
from kernellab.compiler.analyses.module import lines_of_operations
from kernellab.compiler.comparison import Comparison
from kernellab.compiler.subjects import differences, is_defined_alike
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.memory_costs.records import Accesses, GlobalAccess
from kernellab.memory_costs.shared_records import SharedAccess
from kernellab.profiling.lining_up import lines_of
from kernellab.profiling.records import ISSUED, REASONS, Profile
from kernellab.records import Compilation, Subject
from kernellab.viz.card import Card, Table
from kernellab.viz.ir_view import line_in
from kernellab.viz.view_data import IrSide, IrView, MarginNote, MetricData, Severity
from kernellab.wording import joined_sizes


@dataclass(frozen=True)
class Shown:
    """What evidence adds to one compilation's side of the explorer."""

    notes: tuple[MarginNote, ...] = ()
    metrics: tuple[MetricData, ...] = ()

    def on(self, side: IrSide) -> IrSide:
        """The side with these notes and metrics."""
        return dataclasses.replace(
            side, notes=(*self.notes, *side.notes), metrics=(*side.metrics, *self.metrics)
        )


def shown_with(compilation: Compilation, evidence: Sequence[Any]) -> Shown:
    """What all evidence says of a compilation.

    Raises:
        ArgumentError: something is no evidence, or is of another kernel, definition or compilation.
        ProfileError: a profile of other machine code.
    """
    return _together([_shown(compilation, one) for one in evidence])


def shown_on_sides(comparison: Comparison, evidence: Sequence[Any]) -> tuple[Shown, Shown]:
    """The same for two compilations: evidence stands on each side that it is of.

    Raises:
        ArgumentError, ProfileError: as `shown_with`, where it is of neither.
    """
    sides: tuple[list[Shown], list[Shown]] = ([], [])
    for one in evidence:
        refusals = []
        for compilation, found in zip((comparison.left, comparison.right), sides):
            try:
                found.append(_shown(compilation, one))
            except KernelLabError as error:
                refusals.append(error)
        if len(refusals) == len(sides):
            raise refusals[0]
    return _together(sides[0]), _together(sides[1])


def laid_over(view: IrView, shown: Sequence[Shown]) -> IrView:
    """The explorer's data with what evidence says, one `Shown` for each side; its bars are shown first."""
    metrics = [metric.name for one in shown for metric in one.metrics]
    sides = tuple(one.on(side) for side, one in zip(view.sides, shown, strict=True))
    return dataclasses.replace(view, sides=sides, metric=metrics[0] if metrics else view.metric)


def evidence_card(compilation: Compilation, shown: Shown, side: str = "") -> Card:
    """The same for a still: notes in a table, and of each metric the kernel's lines with the largest numbers."""
    in_order = sorted(shown.notes, key=lambda note: note.line)
    rows = [row for note in in_order for row in _rows(note)]
    notes = Table("", ("line", "", "what", "from"), rows)
    numbers = Table(
        "Lines with the largest numbers",
        ("bars", "line", "", "from"),
        [
            (metric.name, str(line), f"{number:,}", metric.origin)
            for metric in shown.metrics
            for line, number in _largest(compilation, metric)
        ],
    )
    return Card("Findings and measurements", side, (notes, numbers))


def _rows(note: MarginNote) -> Iterator[tuple[str, str, str, str]]:
    """What is said, line by line, and what to try."""
    first, *more = note.words.splitlines() or [""]
    yield str(note.line or ""), note.severity, first, note.origin
    yield from (("", "", line, "") for line in more)
    yield from (("", "try", line, "") for line in note.advice.splitlines())


_LISTED_LINES = 3
"""So many lines of each metric stand in a still."""


def _largest(compilation: Compilation, metric: MetricData) -> list[tuple[int, float]]:
    """The kernel's lines that have most of a metric, what was inlined there counted in."""
    total: Counter[int] = Counter()
    try:
        for line, number in metric.values.items():
            for there in compilation.source_map.lines(metric.stage, "source", line):
                total[there] += number  # type: ignore[assignment]
    except ValueError:  # a record from files that kept no lines, or none of this stage
        return []
    return list(total.most_common(_LISTED_LINES))


def is_evidence(thing: Any) -> bool:
    """Whether the explorer can show it beside a compilation."""
    return isinstance(thing, tuple(_READERS))


def _shown(compilation: Compilation, evidence: Any) -> Shown:
    for kind, reader in _READERS.items():
        if isinstance(evidence, kind):
            return reader(compilation, evidence)
    names = ", ".join(kind.__name__ for kind in _READERS)
    raise ArgumentError(
        f"A {type(evidence).__name__} is no evidence that the explorer shows.",
        advice=f"It shows what kernellab.check, kernellab.accesses and kernellab.read_ncu give: {names}.",
    )


def _together(found: Iterable[Shown]) -> Shown:
    """All notes and metrics; metrics of one name are told apart by a number."""
    found = list(found)
    taken: Counter[str] = Counter()
    metrics = []
    for metric in (metric for one in found for metric in one.metrics):
        taken[metric.name] += 1
        number = taken[metric.name]
        name = metric.name if number == 1 else f"{metric.name} ({number})"
        metrics.append(dataclasses.replace(metric, name=name))
    return Shown(tuple(note for one in found for note in one.notes), tuple(metrics))


def _file_of(compilation: Compilation) -> str:
    try:
        return compilation.source_map.file
    except ValueError:  # a record from files that kept no lines
        return ""


def _check_subject(
    what: str, kernel: str, subject: Subject | None, compilation: Compilation
) -> None:
    """Refuse what is of another kernel, or of another definition of it."""
    if kernel != compilation.kernel:
        raise ArgumentError(
            f"{what} are of the kernel {kernel!r}, and the compilation is of {compilation.kernel!r}."
        )
    if subject is not None and not is_defined_alike(subject, compilation):
        raise ArgumentError(
            f"{what} are of another definition of {kernel!r} than the compilation: its lines are others.",
            advice="Run it again with the kernel as it is now, or compile the kernel again.",
            position=subject.definition,
        )


# A check


_WARNINGS = ("missing-other", "order-dependence", "nan", "infinity", "float-overflow", "dot-precision")  # fmt: skip
"""Kinds of findings that may be meant; all others are faults."""


def _of_findings(compilation: Compilation, findings: Findings) -> Shown:
    """Each finding on its line."""
    _check_subject("The findings", findings.kernel, findings.subject, compilation)
    origin = f"check on {findings.target}, grid {joined_sizes(findings.grid)}"
    file = _file_of(compilation)
    notes = [_finding_note(one, file, origin) for one in findings]
    if not notes:
        notes.append(MarginNote("note", "nothing found", origin, 0))
    notes += [MarginNote("note", words, origin, 0) for words in findings.notes]
    return Shown(tuple(notes))


def _finding_note(one: Finding, file: str, origin: str) -> MarginNote:
    severity: Severity = "warning" if one.kind in _WARNINGS else "error"
    lines = [f"{one.kind}: {one.message}"]
    if one.where:
        lines.append(f"in {one.where}")
    if one.values:
        lines.append("with " + ", ".join(f"{name} = {value}" for name, value in one.values.items()))
    line = line_in(file, (one.position, *reversed(one.calls)))
    return MarginNote(severity, "\n".join(lines), origin, line, one.advice)


# Accesses to memory


def _of_accesses(compilation: Compilation, accesses: Accesses) -> Shown:
    """What costs too much on its line, and numbers for each operation of the TTGIR."""
    _check_subject("The accesses", accesses.kernel, accesses.subject, compilation)
    if accesses.subject is not None:
        unequal = list(differences(accesses.subject, compilation))
        if unequal:
            raise ArgumentError(
                f"The accesses were counted for another compilation of {accesses.kernel!r}: {'; '.join(unequal)}.",
                advice="Compile with the arguments, options and target of the launch that was counted.",
            )
    origin = f"run of the interpreter for {accesses.target}, grid {joined_sizes(accesses.grid)}"
    file = _file_of(compilation)
    found = accesses.findings
    notes = [
        MarginNote("warning", one.what, origin, line_in(file, (one.position,))) for one in found
    ]
    read, written = accesses.dram_bytes_read, accesses.dram_bytes_written
    together = f"{read:,} bytes from DRAM with cold caches, {written:,} to it"
    notes.append(MarginNote("note", together, origin, 0))
    return Shown(tuple(notes), tuple(_access_metrics(compilation, accesses, file, origin)))


_GLOBAL: Mapping[str, tuple[str, Callable[[GlobalAccess], int]]] = {
    "sectors": ("sectors of 32 bytes that requests ask for", lambda one: one.sectors),
    "requests": ("requests to global memory", lambda one: one.requests),
    "DRAM bytes": (
        "bytes of different sectors of each access: what cold caches move",
        lambda one: one.footprint_bytes,
    ),
}
_SHARED: Mapping[str, tuple[str, Callable[[SharedAccess], int]]] = {
    "shared wavefronts": ("wavefronts of shared memory", lambda one: one.wavefronts),
    "bank conflicts": ("wavefronts that bank conflicts add", lambda one: one.conflicts),
}


def _access_metrics(
    compilation: Compilation, accesses: Accesses, file: str, origin: str
) -> Iterator[MetricData]:
    """Numbers on the lines of the TTGIR where every operation is found there, else on the kernel's."""
    everything: list[GlobalAccess | SharedAccess] = [*accesses, *accesses.shared]
    lines = _ttgir_lines(compilation, everything)
    stage = "source" if lines is None else "ttgir"
    places = lines or [line_in(file, (one.position,)) for one in everything]
    of_global = list(zip(places, accesses))
    of_shared = list(zip(places[len(accesses) :], accesses.shared))
    for name, (unit, number) in _GLOBAL.items():
        yield from _metric(name, unit, stage, ((at, number(one)) for at, one in of_global), origin)
    for name, (unit, count) in _SHARED.items():
        yield from _metric(name, unit, stage, ((at, count(one)) for at, one in of_shared), origin)


def _ttgir_lines(
    compilation: Compilation, found: Sequence[GlobalAccess | SharedAccess]
) -> list[int] | None:
    """The line of each operation in the TTGIR; None where one is not there."""
    if "ttgir" not in compilation.stages:
        return None
    known = lines_of_operations(compilation.stages["ttgir"].text)
    lines = []
    for one in found:
        of_its_name = known.get(one.operation, [])
        if not 0 < one.occurrence <= len(of_its_name):
            return None
        lines.append(of_its_name[one.occurrence - 1])
    return lines


def _metric(
    name: str, unit: str, stage: str, numbers: Iterable[tuple[int, float]], origin: str
) -> Iterator[MetricData]:
    """The numbers of each line summed; nothing where all are 0."""
    total: Counter[int] = Counter()
    for line, number in numbers:
        if line and number:
            total[line] += number  # type: ignore[assignment]
    if total:
        yield MetricData(name, unit, stage, dict(total), origin)


# A profile


_LEAST_SHARE = 0.03
"""Of all stalls, so much must have a reason to have bars of its own."""
_MOST_REASONS = 6
_MEASURED = {
    "measured sectors": (
        "sectors of 32 bytes that requests to global memory asked for",
        "L2 Theoretical Sectors Global",
    ),
    "measured wavefronts": ("wavefronts of shared memory", "L1 Wavefronts Shared"),
}
"""Our name -> in words, and what Nsight Compute calls it."""


def _of_profile(compilation: Compilation, profile: Profile) -> Shown:
    """Samples, the reasons that matter, and executions, on the lines of the SASS."""
    lines = lines_of(profile, compilation)
    metrics = list(
        _metric(
            "stall samples", "samples that found a warp waiting", "sass",
            ((at, one.stalls) for at, one in lines.items()), profile.origin,
        )
    )  # fmt: skip
    stalls = {reason: n for reason, n in profile.reasons.items() if reason != ISSUED}
    least = _LEAST_SHARE * sum(stalls.values())
    for reason in [reason for reason, n in stalls.items() if n >= least][:_MOST_REASONS]:
        unit = f"samples that found a warp waiting {REASONS.get(reason, reason)}"
        numbers = ((at, one.reasons.get(reason, 0)) for at, one in lines.items())
        metrics += _metric(
            f"stalls: {reason.replace('_', ' ')}", unit, "sass", numbers, profile.origin
        )
    metrics += _metric(
        "times executed", "executions by warps", "sass",
        ((at, one.executed or 0) for at, one in lines.items()), profile.origin,
    )  # fmt: skip
    for name, (unit, counted) in _MEASURED.items():
        numbers = ((at, one.counts.get(counted, 0)) for at, one in lines.items())
        metrics += _metric(name, unit, "sass", numbers, profile.origin)
    note = MarginNote("note", "; ".join(profile.summary), profile.origin, 0)
    return Shown((note,), tuple(metrics))


_READERS: Mapping[type, Callable[[Compilation, Any], Shown]] = {
    Findings: _of_findings,
    Accesses: _of_accesses,
    Profile: _of_profile,
}
"""What the explorer takes as evidence -> what it makes of it."""
