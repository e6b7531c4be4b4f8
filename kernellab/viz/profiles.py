"""The card and the view of a profile, made of the same `KernelCosts`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import numpy

from kernellab.common.text import counted, format_bytes, percent, scaled, time_text
from kernellab.errors import source_line, visible
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.files import SAMPLES
from kernellab.profiling.profiles.profile import Profile, ProfileDifference
from kernellab.profiling.profiles.records import (
    COUNT,
    TIME,
    Events,
    ProfiledKernel,
    ProfiledLine,
    Scope,
)
from kernellab.profiling.profiles.session import ProfileSession
from kernellab.viz.kit.data import Bar, BarKind, BarPart, TableData, ViewData
from kernellab.viz.kit.view import Card, Table, View, card_of, view_of


@dataclass(frozen=True)
class LineCost:
    """What one operation of a line took."""

    words: str
    """ "async copy, prologue"; "" for all of the line."""
    stands_for: BarKind
    shares: tuple[float, ...]
    """Of its kernel, 0 to 1: of each of `ProfileView.measures`."""
    facts: str
    """ "15,183,565 cycles, 32,768 executions"."""
    scope: int
    """Its place in `TimelineData.names`; -1 for none."""


@dataclass(frozen=True)
class CostLine:
    """A line of a source, and what it took: nothing, for most lines."""

    number: int
    text: str
    costs: tuple[LineCost, ...]

    def share(self, measure: int = 0) -> float:
        """Of its kernel, all operations together."""
        return sum(cost.shares[measure] for cost in self.costs)


@dataclass(frozen=True)
class KernelCosts:
    """A kernel's lines in its source's order, apart from those of helpers in other files."""

    name: str
    """ "matmul", or "matmul, in standard.py" for a helper's lines."""
    words: str
    """ "270 us, 88 % of the time"."""
    lines: tuple[CostLine, ...]


@dataclass(frozen=True)
class TimelineRow:
    """The events of a warp."""

    program: int
    """-1 for events of no program."""
    warp: int
    """-1 for events of no warp."""
    events: int
    """How many."""


@dataclass(frozen=True)
class TimelineData:
    """Events over time."""

    names: tuple[str, ...]
    kinds: tuple[BarKind, ...]
    """Of the names."""
    unit: Literal["cycles", "ns"]
    rows: tuple[TimelineRow, ...]
    left_out: str
    """Which programs or events are not drawn; "" for none."""
    events: bytes
    """All events' starts, row by row, and ends (float64 from 0); their names' places (int32)."""


@dataclass(frozen=True)
class ProfileView(ViewData):
    """What the view of a profile draws."""

    kind: Literal["profile"]
    title: str
    answer: str
    """The time, and what takes most of it: "270 us, line 71 async copy 32 %"."""
    origin: str
    is_of_gpu: bool
    measures: tuple[str, ...]
    """The numbers of bars, the default first: "cycles"; without a GPU, what was counted."""
    kernels: tuple[KernelCosts, ...]
    scopes: TableData | None
    """The tree of scopes; None if it is one kernel."""
    timeline: TimelineData | None
    notes: tuple[str, ...]
    """How it was measured."""
    text: str
    """All of it as text, to be copied."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """The events apart."""
        return self, [] if self.timeline is None else [self.timeline.events]


# From a profile to its kernels' lines.

_KINDS: Sequence[tuple[BarKind, re.Pattern[str]]] = (
    ("wait", re.compile(r"\bwait|barrier|arrival|stalled")),
    ("dot", re.compile(r"\bdot|mma")),
    ("copy", re.compile(r"load|store|copy|atomic|gather|scatter")),
)

_MOST_KERNELS = 50
"""Kernels whose lines are shown."""

_MOST_AROUND = 200
"""Lines of a kernel; of a longer one only those that took something are shown."""


def kind_of(operation: str) -> BarKind:
    """The purpose of an operation, by its name in a profile: "tt.load" is a copy."""
    return next((kind for kind, words in _KINDS if words.search(operation)), "other")


def measures_of(profile: Profile) -> tuple[str, ...]:
    """The metrics of which lines have shares; without a GPU, the counts come first."""
    if profile.is_of_gpu:
        return ("time",)
    known = [name for name in _COUNTED if any(_amount(line, name) for line in profile.line_records)]
    return (*known, "interpreter's time")


_COUNTED = ("bytes", "operations")


def _amount(line: ProfiledLine, measure: str) -> float:
    if measure == "bytes":
        return line.metrics.get("bytes", 0.0)
    if measure == "operations":
        return sum(number for name, number in line.metrics.items() if name.startswith("flops"))
    return line.share


def kernel_costs(profile: Profile) -> list[KernelCosts]:
    """The lines of the kernels that took longest, which come first."""
    lines: dict[str, list[ProfiledLine]] = {}
    for line in profile.line_records:
        lines.setdefault(line.kernel, []).append(line)
    times = profile.kernel_times if lines else {}
    total, measures = sum(times.values()), measures_of(profile)
    names = sorted(lines, key=lambda name: -times.get(name, 0.0))[:_MOST_KERNELS]
    made: list[KernelCosts] = []
    for name in names:
        share = ""
        if times.get(name) and len(times) > 1:
            share = f"{time_text(times[name] / 1000)}, {percent(times[name] / total)} of the time"
        made += _of_kernel(profile.kernel(name), name, share, lines[name], measures)
    return made


def _of_kernel(
    kernel: ProfiledKernel | None,
    name: str,
    words: str,
    records: Sequence[ProfiledLine],
    measures: Sequence[str],
) -> Iterator[KernelCosts]:
    files: dict[str, dict[int, list[ProfiledLine]]] = {}
    for line in records:
        files.setdefault(line.file, {}).setdefault(line.line, []).append(line)
    most = max(files, key=lambda file: len(files[file]))  # the kernel's own by default
    own = kernel.file if kernel is not None and kernel.file in files else most
    wholes = dict.fromkeys(measures, 1.0)
    for measure in wholes.keys() & _COUNTED:
        wholes[measure] = sum(_amount(line, measure) for line in records) or 1.0
    for file in sorted(files, key=lambda file: file != own):
        is_own = file == own
        title = visible(name) if is_own else f"{visible(name)}, in {visible(Path(file).name)}"
        lines = _lines(files[file], file, kernel if is_own else None, wholes)
        yield KernelCosts(title, words if is_own else "", lines)


def _lines(
    costs: Mapping[int, list[ProfiledLine]],
    file: str,
    kernel: ProfiledKernel | None,
    wholes: Mapping[str, float],
) -> tuple[CostLine, ...]:
    """The lines of one file. Of the kernel's own file all of its lines, if they are known."""
    source: dict[int, str] = {}
    if kernel is not None and kernel.source:
        source = dict(enumerate(kernel.source.split("\n"), kernel.line))
    numbers = sorted(costs)
    if len(source) <= _MOST_AROUND:
        numbers = sorted({*costs, *source})
    return tuple(
        CostLine(
            number,
            visible(source.get(number) or source_line(file, number)),
            tuple(cost for record in costs.get(number, ()) for cost in _costs(record, wholes)),
        )
        for number in numbers
    )


def _costs(line: ProfiledLine, wholes: Mapping[str, float]) -> Iterator[LineCost]:
    """The time of an operation; samples in which the warp was stalled are separate."""
    samples, stalled = (line.metrics.get(name, 0) for name in (SAMPLES, "num_stalled_samples"))
    if not line.operation and samples and stalled:
        for words, number in (("stalled", stalled), ("issuing", samples - stalled)):
            share = line.share * number / samples
            facts = counted(round(number), "sample")
            yield LineCost(words, kind_of(words), (share,), facts, -1)
        return
    shares = tuple(_amount(line, measure) / whole for measure, whole in wholes.items())
    kind = kind_of(line.operation)
    yield LineCost(visible(line.operation), kind, shares, _facts(line), line.scope)


def _facts(line: ProfiledLine) -> str:
    facts = [] if line.cycles is None else [f"{line.cycles:,.0f} cycles"]
    if TIME in line.metrics:
        facts.append(time_text(line.metrics[TIME] / 1000))
    if line.executions is not None:
        facts.append(counted(line.executions, "execution"))
    facts += [
        f"{number:,.0f} {visible(name)}"
        for name, number in line.metrics.items()
        if name != TIME and not name.startswith("stalled_")
    ]
    return ", ".join(facts)


def answer_of(profile: Profile, kernels: Sequence[KernelCosts]) -> str:
    """The time, and what takes most of it, in a line; without a GPU what was counted."""
    if not profile.is_of_gpu:
        parts = []
        for measure, name in enumerate(measures_of(profile)):
            if name in _COUNTED:
                amount = sum(_amount(line, name) for line in profile.line_records)
                words = format_bytes(int(amount)) if name == "bytes" else scaled(amount, "FLOP")
                parts.append(f"{words}, {_hottest(kernels, measure)}")
        return f"counted, not timed: {'; '.join(parts)}" if parts else "counted, not timed"
    totals = profile.root.totals
    parts = []
    if totals.get(TIME):
        launches = int(totals.get(COUNT, 1))
        several = f" in {launches:,} launches" if launches > 1 else ""
        parts.append(f"{time_text(totals[TIME] / 1000)}{several}")
    times = profile.kernel_times
    if len(times) > 1 and any(times.values()):
        first = max(times, key=lambda name: times[name])
        parts.append(f"{visible(first)} {_about(times[first] / sum(times.values()))}")
    return ", ".join(filter(None, [*parts, _hottest(kernels, 0)]))


def _hottest(kernels: Sequence[KernelCosts], measure: int) -> str:
    """The line and the operation that took most of the first kernel; "" if there are none."""
    pairs = [(line, cost) for line in kernels[0].lines for cost in line.costs] if kernels else []
    if not pairs:
        return ""
    line, cost = max(pairs, key=lambda pair: pair[1].shares[measure])
    words = f" {cost.words}" if cost.words else ""
    return f"line {line.number}{words} {_about(cost.shares[measure])}"


def _about(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


_MOST_ROWS, _MOST_EVENTS = 128, 60_000
"""Of a timeline: whole programs are left out of a larger one, and the end of a longer row."""


def timeline_of(events: Events | None) -> TimelineData | None:
    """The events row by row; None if there are fewer than two."""
    if events is None or len(events) < 2:
        return None
    order = numpy.lexsort((events.start, events.warp, events.program))
    kept = events.at(order)
    places = numpy.stack([kept.program, kept.warp])
    begins = numpy.flatnonzero(numpy.any(places[:, 1:] != places[:, :-1], axis=0)) + 1
    begins = numpy.concatenate([[0], begins])
    ends = numpy.concatenate([begins[1:], [len(kept)]])
    shown = _rows_drawn(kept.program[begins], ends)
    count = min(int(ends[shown - 1]), _MOST_EVENTS)
    drawn = kept.at(numpy.arange(count))
    first = int(drawn.start.min())
    starts, stops = ((column - first).astype("<f8") for column in (drawn.start, drawn.end))
    # Sorted: each begins where the one before it ends.
    programs, all_programs = (
        1 + numpy.count_nonzero(numpy.diff(kept.program[places]))
        for places in (begins[:shown], begins)
    )
    rows = zip(
        kept.program[begins[:shown]], kept.warp[begins[:shown]], numpy.minimum(ends, count) - begins
    )
    left_out = f"{count:,} of {len(kept):,} events" if count < len(kept) else ""
    if programs < all_programs:
        left_out = f"{programs:,} of {all_programs:,} programs"
    return TimelineData(
        names=tuple(map(visible, events.names)),
        kinds=tuple(map(kind_of, events.names)),
        unit=events.unit,
        rows=tuple(TimelineRow(int(program), int(warp), int(many)) for program, warp, many in rows),
        left_out=left_out,
        events=b"".join((starts.tobytes(), stops.tobytes(), drawn.scope.astype("<i4").tobytes())),
    )


def _rows_drawn(programs: numpy.ndarray, ends: numpy.ndarray) -> int:
    """How many rows are drawn: those of whole programs, at least the first row."""
    count = min(_MOST_ROWS, int(numpy.searchsorted(ends, _MOST_EVENTS, side="right")))
    if count >= len(ends):
        return len(ends)
    while count > 1 and programs[count] == programs[count - 1]:
        count -= 1
    return max(count, 1)


# The card, and the view.

_MOST_SCOPES, _MOST_LINES, _MOST_METRICS = 40, 24, 6
"""Rows and columns of a card; `table()` and `lines` have all."""

_LEAST_SHARE = 0.001
"""The share of a kernel's time that a line must take to have a row in a card."""

_ORDER: Sequence[BarKind] = ("wait", "copy", "dot", "other")


@card_of.register
def profile_card(profile: Profile) -> Card:
    """The answer, the lines by what each took, the scopes, and how it was measured."""
    kernels = kernel_costs(profile)
    measures = measures_of(profile)
    tables = [_cost_table(costs, len(kernels) > 1, measures) for costs in kernels]
    answer = answer_of(profile, kernels)
    title = visible(profile.name) or (kernels[0].name if kernels else "Profile")
    scopes = _scopes(profile)
    if scopes is not None:
        tables.append(scopes)
    if profile.kernels:
        rows = [_kernel_row(kernel) for kernel in profile.kernels[:_MOST_LINES]]
        tables.append(Table("Kernels", ("kernel", "launches", "options"), rows, numbers=(1,)))
    return Card(
        f"{title}: {answer}" if answer else title,
        visible(profile.origin),
        tables,
        footnotes=_method(profile),
        legend=[(kind, kind) for kind in _ORDER] if kernels else [],
    )


def _method(profile: Profile) -> list[str]:
    notes = [visible(note) for note in profile.notes]
    if (count := len({line.kernel for line in profile.line_records})) > _MOST_KERNELS:
        notes.append(f"Lines of {_MOST_KERNELS} of {count:,} kernels are shown.")
    if profile.perturbation is not None:
        notes.append(f"What measuring changed: {profile.perturbation}.")
    versions = ", ".join(f"{name} {version}" for name, version in profile.machine.versions.items())
    if versions:
        notes.append(f"Measured with {visible(versions)}.")
    return notes


def _cost_table(costs: KernelCosts, is_named: bool, measures: Sequence[str]) -> Table:
    """The lines that took something, in their order; of many those that took most."""
    of = range(len(measures))
    lines = [line for line in costs.lines if line.costs]
    lines.sort(key=lambda line: -max(map(line.share, of)))
    some = [line for line in lines if max(map(line.share, of)) >= _LEAST_SHARE][:_MOST_LINES]
    shown = sorted(some or lines[:_MOST_LINES], key=lambda line: line.number)
    left = len(lines) - len(shown)
    title = f"{costs.name}, {costs.words}".rstrip(", ") if is_named else ""
    if left:
        title = f"{title or 'The lines with the largest shares'}; {counted(left, 'other')} left out"
    rows = [
        [
            str(line.number),
            _share(line.share() or math.nan),
            "",
            *(_share(line.share(measure) or math.nan) for measure in of[1:]),
            _first(line),
            line.text,
        ]
        for line in shown
    ]
    names = ["share" if name == "time" else name for name in measures]
    columns = ["line", names[0], "", *names[1:], "most of it", ""]
    if not any(line.text for line in shown):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    numbers = (0, 1, *range(3, 2 + len(of)))
    code = (3 + len(of),)
    bars = {2: _bars(shown)}
    return Table(title, columns, rows, numbers=numbers, code=code, is_wide=True, bars=bars)


def _first(line: CostLine) -> str:
    first = max(line.costs, key=lambda cost: cost.shares)
    is_alone = len(first.shares) > 1 or len(line.costs) == 1 or not first.words
    return first.words if is_alone else f"{first.words} {percent(first.shares[0])}"


def _bars(lines: Sequence[CostLine]) -> list[Bar]:
    """A bar for each line, of the first measure; the longest is full."""
    most = max((line.share() for line in lines), default=0.0) or 1.0
    bars = []
    for line in lines:
        shares = {
            kind: sum(c.shares[0] for c in line.costs if c.stands_for == kind) for kind in _ORDER
        }
        parts = (BarPart(kind, share / most) for kind, share in shares.items() if share > 0)
        bars.append(tuple(parts))
    return bars


def _scopes(profile: Profile) -> Table | None:
    """The tree of scopes, without lines where these have a table; None if it is one kernel."""
    root = _without_lines(profile.root) if profile.line_records else profile.root
    count = sum(1 for _ in root.walk())
    if profile.line_records and count <= 2:
        return None
    pruned = replace(profile, root=root)
    metrics = trees.read(None, profile.root)[:_MOST_METRICS]
    rows = list(islice(trees.rows(pruned, metrics, trees.Filter()), _MOST_SCOPES))
    whole = rows[0].values[0] if metrics else math.nan
    shares = [row.values[0] / whole if metrics and whole else math.nan for row in rows]
    cells = [
        [
            f"{row.lines}{visible(row.scope.name)}",
            *([_share(share), ""] if metrics else []),
            *(_metric_text(value) for value in row.values),
        ]
        for row, share in zip(rows, shares)
    ]
    names = [visible(metric.text) for metric in metrics]
    columns = ["scope", *(["share", ""] if metrics else []), *names]
    bars: list[Bar] = [
        () if math.isnan(share) else (BarPart("used", min(max(share, 0.0), 1.0)),)
        for share in shares
    ]
    title = "Scopes"
    if count > _MOST_SCOPES:
        title = f"The first {_MOST_SCOPES} of {count:,} scopes"
    numbers, drawn = (1, *range(3, len(columns))), {2: bars} if metrics else {}
    return Table(title, columns, cells, numbers=numbers, is_listing=True, bars=drawn)


def _without_lines(scope: Scope) -> Scope:
    """A tree in which the metrics of lines count where the lines are."""
    if scope.kind == "kernel":
        return replace(scope, metrics=scope.totals, children=())
    return replace(scope, children=tuple(map(_without_lines, scope.children)))


def _kernel_row(kernel: ProfiledKernel) -> list[str]:
    options = ", ".join(f"{name}={value}" for name, value in kernel.options.items())
    return [visible(kernel.name), f"{kernel.launches:,}", visible(options)]


def _metric_text(value: float) -> str:
    if math.isnan(value):
        return ""
    if abs(value) >= 1e6:
        return f"{'-' if value < 0 else ''}{scaled(abs(value), '').strip()}"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _share(value: float) -> str:
    return "" if math.isnan(value) else percent(value)


@view_of.register
def profile_view(profile: Profile) -> View:
    """The view of a profile."""
    title = visible(profile.name) or "Profile"
    return View(title, lambda: _data(profile), lambda: [profile_card(profile)])


@view_of.register
def session_view(session: ProfileSession) -> View:
    """The view of what a session measured."""
    return profile_view(session.profile)


def _data(profile: Profile) -> ProfileView:
    card, kernels = profile_card(profile), kernel_costs(profile)
    tables = [table for table in card.data().tables if table.is_listing]
    options = [
        f"{name}: {launches} {'launch' if launches == '1' else 'launches'}, {words}"
        for name, launches, words in map(_kernel_row, profile.kernels[:_MOST_LINES])
        if words
    ]
    return ProfileView(
        kind="profile",
        title=visible(profile.name) or (kernels[0].name if kernels else "Profile"),
        answer=answer_of(profile, kernels),
        origin=visible(profile.origin),
        is_of_gpu=profile.is_of_gpu,
        measures=measures_of(profile),
        kernels=tuple(kernels),
        scopes=tables[0] if tables else None,
        timeline=timeline_of(profile.events),
        notes=(
            *(
                f"The source of {kernel.name} is neither in this profile nor on this machine."
                for kernel in kernels
                if not any(line.text for line in kernel.lines)
            ),
            *_method(profile),
            *options,
        ),
        text=card.text(),
    )


@card_of.register
def difference_card(difference: ProfileDifference) -> Card:
    """One row per scope, the largest differences first."""
    names, scopes = difference.rows()
    scopes.sort(key=lambda scope: -max(map(abs, scope.difference), default=0))
    rows = [
        [
            " / ".join(map(visible, scope.path[1:] or scope.path)),
            *(
                cell
                for first, second, change in zip(scope.first, scope.second, scope.difference)
                for cell in (_metric_text(first), _metric_text(second), _signed(change))
            ),
        ]
        for scope in scopes[:_MOST_SCOPES]
    ]
    columns = ["scope"]
    columns += [f"{name}, {side}" for name in names for side in ("first", "second", "difference")]
    first, second = visible(difference.first.name), visible(difference.second.name)
    title = f"{first or 'the first'} less {second or 'the second'}"
    notes = [difference.caution] if difference.caution else []
    table = Table("", columns, rows, numbers=range(1, len(columns)))
    return Card(title, counted(len(scopes), "scope"), [table], notes)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_metric_text(value)}"
