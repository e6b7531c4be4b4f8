"""The IR explorer, live and still: a compilation, two, or one that failed, with evidence."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from textwrap import shorten
from typing import Any

from kernellab.checker.records import Findings
from kernellab.common.text import joined_sizes
from kernellab.compiler.compare import Comparison, differences, is_defined_alike
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import lines_of_operations
from kernellab.errors import ArgumentError, CompileError, KernelLabError, ProfileError
from kernellab.profiling.accesses.records import Accesses, GlobalAccess, SharedAccess
from kernellab.profiling.profiles.nsight import ISSUED, REASONS, SampledCode, lines_of
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfiledLine
from kernellab.records import PassRun, Subject
from kernellab.viz import explorer_sides
from kernellab.viz.explorer_data import IrView, MarginNote, MetricData, lightened
from kernellab.viz.kernels import comparison_card, kernel_card
from kernellab.viz.kit.data import Answer, Handler
from kernellab.viz.kit.view import Card, Table, View, view_of

# What is known about a kernel besides its compilation, laid over the explorer: findings of a check,
# costs of accesses, a profile.
#
# Each kind of evidence becomes notes on lines of the kernel and numbers on lines of a stage; the
# explorer carries both to its other texts. Evidence of another kernel, or of another definition
# of it, is refused. To add a kind, register a function with `annotations_of`.


@dataclass(frozen=True)
class Annotations:
    """The additions of evidence to one compilation's side of the explorer."""

    notes: tuple[MarginNote, ...] = ()
    metrics: tuple[MetricData, ...] = ()


@singledispatch
def annotations_of(given: object, compilation: Compilation) -> Annotations:
    """The annotations of evidence for a compilation, by the class of the evidence. Raises
    ArgumentError: it is not evidence, or belongs to another kernel, definition or compilation;
    ProfileError: a profile of other machine code.
    """
    del compilation
    raise ArgumentError(
        f"The explorer cannot show a value of type {type(given).__name__}.",
        advice=(
            "Pass what kernellab.check, kernellab.accesses, kernellab.profile or "
            "kernellab.read_ncu returns: Findings, Accesses, Profile or SampledCode."
        ),
    )


def file_of(compilation: Compilation) -> str:
    """The kernel's file; "" if the record has none."""
    return compilation.source_map.file if compilation.can_answer("source_map") else ""


def check_subject(
    what: str, kernel: str, subject: Subject | None, compilation: Compilation
) -> None:
    """Refuse what is of another kernel or definition; `what` names it, as "The findings". Raises
    ArgumentError: it is.
    """
    if kernel != compilation.kernel:
        raise ArgumentError(
            f"{what} are of the kernel {kernel!r}, and the compilation is of "
            f"{compilation.kernel!r}.",
            advice="Pass results for the kernel of this compilation.",
        )
    if subject is not None and not is_defined_alike(subject, compilation):
        raise ArgumentError(
            f"{what} and this compilation come from different definitions of {kernel!r}: their "
            "source lines differ.",
            advice="Compile the kernel again, or record the results again with kernellab.check, "
            "kernellab.accesses or kernellab.profile.",
            position=subject.definition,
        )


def metric_of(
    name: str, unit: str, stage: str, numbers: Iterable[tuple[int, float]], origin: str
) -> Iterator[MetricData]:
    """Pairs of line and number as a metric, each line summed; nothing if all are 0."""
    total: Counter[int] = Counter()
    for line, number in numbers:
        if line and number:
            total[line] += number  # type: ignore[assignment]
    if total:
        yield MetricData(name, unit, stage, dict(total), origin)


def annotations_by_side(
    comparison: Comparison, given: Sequence[Any]
) -> tuple[Annotations, Annotations]:
    """The annotations for two compilations: evidence is shown on each side that it belongs to.
    Raises ArgumentError, ProfileError: as `annotations_of`, if it belongs to neither.
    """
    sides: tuple[list[Annotations], list[Annotations]] = ([], [])
    for evidence in given:
        refusals = []
        for compilation, sides_annotations in zip((comparison.left, comparison.right), sides):
            try:
                sides_annotations.append(annotations_of(evidence, compilation))
            except KernelLabError as error:
                refusals.append(error)
        if len(refusals) == len(sides):
            raise refusals[0]
    return _together(sides[0]), _together(sides[1])


def annotated(view: IrView, annotations: Sequence[Annotations]) -> IrView:
    """The explorer's data with `Annotations` for each side, whose bars are shown first."""
    metrics = [metric.name for annotation in annotations for metric in annotation.metrics]
    sides = tuple(
        dataclasses.replace(
            side, notes=(*added.notes, *side.notes), metrics=(*side.metrics, *added.metrics)
        )
        for side, added in zip(view.sides, annotations, strict=True)
    )
    return dataclasses.replace(view, sides=sides, metric=metrics[0] if metrics else view.metric)


def annotation_cards(
    compilation: Compilation, annotations: Annotations, side: str = ""
) -> list[Card]:
    """The annotations for a still: a table of notes, and the largest lines of each metric; [] if
    there are none. `side` names one of two compilations.
    """
    if not annotations.notes and not annotations.metrics:
        return []
    in_order = sorted(annotations.notes, key=lambda note: note.line)
    rows = [row for note in in_order for row in _rows(note)]
    notes = Table("", ("line", "", "what", "from"), rows)
    numbers = Table(
        "Lines with the largest numbers",
        ("bars", "line", "", "from"),
        [
            (metric.name, str(line), f"{number:,}", metric.origin)
            for metric in annotations.metrics
            for line, number in _largest(compilation, metric)
        ],
    )
    return [Card("Findings and measurements", side, (notes, numbers))]


def _rows(note: MarginNote) -> Iterator[tuple[str, str, str, str]]:
    first, *more = note.words.splitlines() or [""]
    yield str(note.line or ""), note.severity, first, note.origin
    yield from (("", "", line, "") for line in more)
    yield from (("", "try", line, "") for line in note.advice.splitlines())


_LISTED_LINES = 3
"""How many lines of each metric a still shows."""


def _largest(compilation: Compilation, metric: MetricData) -> list[tuple[int, float]]:
    """The kernel's lines that have most of a metric, what was inlined there counted in."""
    total: Counter[int] = Counter()
    if not compilation.can_answer("source_map"):
        return []
    source_map = compilation.source_map
    if metric.stage not in source_map.stages:
        return []
    for line, number in metric.values.items():
        for there in source_map.lines(metric.stage, "source", line):
            total[there] += number  # type: ignore[assignment]
    return list(total.most_common(_LISTED_LINES))


def can_annotate(thing: Any) -> bool:
    """Whether the explorer can show it beside a compilation."""
    return annotations_of.dispatch(type(thing)) is not annotations_of.dispatch(object)


def _together(parts: Sequence[Annotations]) -> Annotations:
    """Return all notes and metrics; a number distinguishes metrics of the same name."""
    taken: Counter[str] = Counter()
    metrics = []
    for metric in (metric for part in parts for metric in part.metrics):
        taken[metric.name] += 1
        number = taken[metric.name]
        name = metric.name if number == 1 else f"{metric.name} ({number})"
        metrics.append(dataclasses.replace(metric, name=name))
    return Annotations(tuple(note for part in parts for note in part.notes), tuple(metrics))


@annotations_of.register
def annotations_of_findings(findings: Findings, compilation: Compilation) -> Annotations:
    """Each finding on its line."""
    check_subject("The findings", findings.kernel, findings.subject, compilation)
    origin = f"check on {findings.target}, grid {joined_sizes(findings.grid)}"
    file = file_of(compilation)
    notes = [explorer_sides.margin_note(finding, origin, file) for finding in findings]
    if not notes:
        notes.append(MarginNote("note", "nothing found", origin, 0))
    notes += [MarginNote("note", words, origin, 0) for words in findings.notes]
    return Annotations(tuple(notes))


@annotations_of.register
def annotations_of_accesses(accesses: Accesses, compilation: Compilation) -> Annotations:
    """The accesses that cost too much, on their lines, and numbers of each TTGIR operation."""
    check_subject("The accesses", accesses.kernel, accesses.subject, compilation)
    if accesses.subject is not None:
        unequal = list(differences(accesses.subject, compilation))
        if unequal:
            raise ArgumentError(
                f"The accesses were counted for a different compilation of {accesses.kernel!r}: "
                f"{'; '.join(unequal)}.",
                advice=(
                    "Compile with the arguments, options and target of the launch that was counted."
                ),
            )
    origin = f"run of the interpreter for {accesses.target}, grid {joined_sizes(accesses.grid)}"
    file = file_of(compilation)
    notes = [explorer_sides.margin_note(finding, origin, file) for finding in accesses.findings]
    read, written = accesses.dram_bytes_read, accesses.dram_bytes_written
    together = f"{read:,} bytes from DRAM with cold caches, {written:,} to it"
    notes.append(MarginNote("note", together, origin, 0))
    return Annotations(tuple(notes), tuple(_access_metrics(compilation, accesses, file, origin)))


_GLOBAL: Mapping[str, tuple[str, Callable[[GlobalAccess], int]]] = {
    "sectors": ("sectors of 32 bytes that requests ask for", lambda access: access.sectors),
    "requests": ("requests to global memory", lambda access: access.requests),
    "DRAM bytes": (
        "bytes of different sectors of each access: what cold caches move",
        lambda access: access.footprint_bytes,
    ),
}
_SHARED: Mapping[str, tuple[str, Callable[[SharedAccess], int]]] = {
    "shared wavefronts": ("wavefronts of shared memory", lambda access: access.wavefronts),
    "bank conflicts": ("wavefronts that bank conflicts add", lambda access: access.conflicts),
}


def _access_metrics(
    compilation: Compilation, accesses: Accesses, file: str, origin: str
) -> Iterator[MetricData]:
    """Numbers on the TTGIR's lines if every operation is there, else on the kernel's."""
    everything: list[GlobalAccess | SharedAccess] = [*accesses, *accesses.shared]
    lines = _ttgir_lines(compilation, everything)
    stage = "source" if lines is None else "ttgir"
    places = lines or [explorer_sides.line_in(file, (access.position,)) for access in everything]
    of_shared = list(zip(places[len(accesses) :], accesses.shared))
    for name, (unit, count) in _GLOBAL.items():
        numbers = ((at, count(access)) for at, access in zip(places, accesses))
        yield from metric_of(name, unit, stage, numbers, origin)
    for name, (unit, count_shared) in _SHARED.items():
        numbers = ((at, count_shared(access)) for at, access in of_shared)
        yield from metric_of(name, unit, stage, numbers, origin)


def _ttgir_lines(
    compilation: Compilation, accesses: Sequence[GlobalAccess | SharedAccess]
) -> list[int] | None:
    """The line of each operation in the TTGIR; None if one is not there."""
    if "ttgir" not in compilation.stages:
        return None
    known = lines_of_operations(compilation.stages["ttgir"].text)
    lines = []
    for access in accesses:
        of_its_name = known.get(access.operation, [])
        if not 0 < access.occurrence <= len(of_its_name):
            return None
        lines.append(of_its_name[access.occurrence - 1])
    return lines


# A profile: cycles of marks, times and bytes of the interpreter, samples of Proton

_MOST_METRICS = 6
"""Most metrics shown besides cycles and executions."""


@annotations_of.register
def annotations_of_lines(profile: Profile, compilation: Compilation) -> Annotations:
    """Cycles, executions and what else was measured, on the kernel's lines."""
    lines = [record for record in profile.line_records if record.kernel == compilation.kernel]
    if not lines:
        names = sorted({record.kernel for record in profile.line_records})[:_MOST_METRICS]
        raise ProfileError(
            f"The profile has lines of {', '.join(map(repr, names)) or 'no kernel'}, "
            f"but the compilation is of {compilation.kernel!r}.",
            advice="Compile the kernel that was profiled.",
        )
    _check_lines(profile, lines, compilation)
    said = list(profile.notes)
    if profile.perturbation is not None:
        said.append(f"What measuring changed: {profile.perturbation}")
    notes = [MarginNote("note", words, profile.origin, 0) for words in said]
    return Annotations(tuple(notes), tuple(_metrics(profile, lines)))


def _check_lines(profile: Profile, lines: list[ProfiledLine], compilation: Compilation) -> None:
    """Refuse lines that this compilation has no code of: the kernel has changed since. Raises
    ProfileError: there is one.
    """
    if not compilation.can_answer("source_map"):
        return
    stage = next((name for name in ("ttgir", "ttir") if name in compilation.stages), None)
    kernel = profile.kernel(compilation.kernel)
    if stage is None or kernel is None:
        return
    for line in lines:
        is_code = line.line and line.line != kernel.line and not line.operation.startswith("end")
        if is_code and not compilation.source_map.lines("source", stage, line.line):
            raise ProfileError(
                f"The profile has {line.operation or 'work'} on line {line.line} of "
                f"{compilation.kernel!r}, but the compilation has no code for that line: the "
                "kernel has changed since.",
                advice="Profile it again, or compile what was profiled.",
            )


def _metrics(profile: Profile, lines: list[ProfiledLine]) -> Iterator[MetricData]:
    def metric(name: str, unit: str, numbers: Iterable[float]) -> Iterator[MetricData]:
        placed = zip((line.line for line in lines), numbers)
        return metric_of(name, unit, "source", placed, profile.origin)

    cycles = "cycles of the warps that were measured"
    executions = "executions by warps, or programs"
    yield from metric("cycles", cycles, (line.cycles or 0 for line in lines))
    yield from metric("times executed", executions, (line.executions or 0 for line in lines))
    others = list(dict.fromkeys(name for line in lines for name in line.metrics))[:_MOST_METRICS]
    for name in others:
        yield from metric(name, f"{name}, measured", [line.metrics.get(name, 0) for line in lines])


_LEAST_SHARE = 0.03
"""The share of all stalls that a reason must have to get separate bars."""
_MOST_REASONS = 6
_MEASURED = {
    "measured sectors": (
        "sectors of 32 bytes that requests to global memory asked for",
        "L2 Theoretical Sectors Global",
    ),
    "measured wavefronts": ("wavefronts of shared memory", "L1 Wavefronts Shared"),
}
"""Our name -> in words, and what Nsight Compute calls it."""


@annotations_of.register
def annotations_of_profile(profile: SampledCode, compilation: Compilation) -> Annotations:
    """Samples, the reasons that matter, and executions, on the lines of the SASS."""
    lines = lines_of(profile, compilation)
    metrics: list[MetricData] = []

    def add(name: str, unit: str, numbers: Iterable[float]) -> None:
        metrics.extend(metric_of(name, unit, "sass", zip(lines, numbers), profile.origin))

    waiting = "samples that found a warp waiting"
    add("stall samples", waiting, (line.stalls for line in lines.values()))
    stalls = {reason: n for reason, n in profile.reasons.items() if reason != ISSUED}
    least = _LEAST_SHARE * sum(stalls.values())
    for reason in [reason for reason, n in stalls.items() if n >= least][:_MOST_REASONS]:
        numbers = [line.reasons.get(reason, 0) for line in lines.values()]
        name = f"stalls: {reason.replace('_', ' ')}"
        add(name, f"{waiting} {REASONS.get(reason, reason)}", numbers)
    add("times executed", "executions by warps", (line.executed or 0 for line in lines.values()))
    for name, (unit, counted) in _MEASURED.items():
        add(name, unit, [line.counts.get(counted, 0) for line in lines.values()])
    note = MarginNote("note", "; ".join(profile.summary), profile.origin, 0)
    return Annotations((note,), tuple(metrics))


def compilation_cards(compilation: Compilation, annotations: Annotations) -> list[Card]:
    """The still of a compilation's explorer."""
    redefined = Card("Redefined", "", (), [explorer_sides.REDEFINED])
    return [
        *([redefined] if compilation.is_redefined else []),
        kernel_card(compilation),
        *_source_cards(compilation),
        *annotation_cards(compilation, annotations),
        *_pass_cards(compilation.passes),
    ]


def failure_cards(error: CompileError) -> list[Card]:
    """The still of a compilation that failed."""
    where = f"in {error.failed_pass}" if error.failed_pass else "before the first pass"
    excerpt = error.position.excerpt() if error.position else ""
    place = f"at {error.position}" if error.position else ""
    notes = [line for line in (error.problem, place, *excerpt.splitlines(), error.advice) if line]
    card = Card(explorer_sides.failure_title(error), f"failed {where}", (), notes)
    return [card, *_pass_cards(error.passes)]


_MOST_LINES = 150
_MOST_LETTERS = 240
"""What a still shows of a kernel, and of what the compiler says about one of its lines."""


def _source_cards(compilation: Compilation) -> list[Card]:
    """The kernel under its file's line numbers, with what the compiler says about each line."""
    source, notes = explorer_sides.source_and_notes(compilation)
    if not source.content:
        return []
    shown = list(source.numbered())
    rows = []
    for number, line in shown[:_MOST_LINES]:
        words = "; ".join(note.words.partition("\n")[0] for note in notes if note.line == number)
        rows.append((f"{number:>4}  {line}", shorten(words, _MOST_LETTERS, placeholder=" …")))
    more = len(shown) - _MOST_LINES
    left_out = (f"{more} more lines are left out.",) if more > 0 else ()
    columns = ("line", "what the compiler says")
    return [Card("Source", "", (Table("", columns, rows, is_listing=True),), left_out)]


def _pass_cards(passes: Sequence[PassRun]) -> list[Card]:
    """The passes that changed the module; how many did not."""
    changed = [run for run in passes if run.changed]
    if not changed:
        return []
    rows = []
    for run in changed:
        operations = f"{sum(run.op_counts_after.values()):,}" if run.op_counts_after else ""
        rows.append((run.label, f"{run.seconds * 1e3:.1f} ms", operations, _changes(run)))
    columns = ("pass", "time", "operations", "what came and went")
    table = Table("", columns, rows, numbers=(1, 2))
    quiet = len(passes) - len(changed)
    return [Card("Passes", f"{len(changed)} changed the module, {quiet} did not", (table,))]


_MOST_CHANGES = 6


def _changes(run: PassRun) -> str:
    if not run.op_counts_before or not run.op_counts_after:
        return ""
    largest = sorted(run.op_changes.items(), key=lambda change: -abs(change[1]))
    words = [f"{name} {change:+,}" for name, change in largest[:_MOST_CHANGES]]
    more = len(largest) - _MOST_CHANGES
    return ", ".join([*words, *([f"and {more} more"] if more > 0 else [])])


class Explorer(View):
    """An IR explorer. Of a long compilation, texts of passes wait in the kernel until asked for."""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {"text": self._text}

    def _text(self, request: Mapping[str, Any]) -> Answer:
        try:
            return Answer({"text": self.data.sides[request["side"]].texts[request["text"]].content})
        except (LookupError, TypeError):
            return Answer({"problem": "the view has no such text"})

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest texts of passes if it would be too large."""
        return lightened(self.data, most_bytes)


@view_of.register
def compilation_view(compilation: Compilation, *given: Any) -> Explorer:
    """The explorer of one compilation, with findings, accesses and profiles of it. Raises
    ArgumentError: a value is not evidence, or belongs to another kernel or compilation;
    ProfileError: a profile is of other machine code.
    """
    annotations = _together([annotations_of(evidence, compilation) for evidence in given])
    return Explorer(
        f"{compilation.kernel} for {compilation.target}",
        lambda: annotated(explorer_sides.explore_compilation(compilation), [annotations]),
        lambda: compilation_cards(compilation, annotations),
    )


@view_of.register
def failure_view(error: CompileError) -> Explorer:
    """The explorer of a compilation that failed: up to the pass that did."""
    return Explorer(
        explorer_sides.failure_title(error),
        lambda: explorer_sides.explore_failure(error),
        lambda: failure_cards(error),
    )


@view_of.register
def comparison_view(comparison: Comparison, *given: Any) -> Explorer:
    """Return the explorer of two compilations; evidence is shown on each side that it belongs to.
    Raises ArgumentError, ProfileError: as `compilation_view`, where evidence is of neither.
    """
    left, right = comparison.left, comparison.right
    kernels = " and ".join(dict.fromkeys([left.kernel, right.kernel]))
    sides = annotations_by_side(comparison, given)
    return Explorer(
        f"{kernels}: {comparison.names[0]} and {comparison.names[1]}",
        lambda: annotated(explorer_sides.explore_comparison(comparison), sides),
        lambda: [
            comparison_card(comparison),
            *annotation_cards(left, sides[0], comparison.names[0]),
            *annotation_cards(right, sides[1], comparison.names[1]),
        ],
    )
