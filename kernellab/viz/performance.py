"""The cards of measured and estimated times: profiles, estimates, rooflines, counters, sweeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernellab.common.text import counted, joined_sizes, percent, time_text, visible
from kernellab.errors import source_line
from kernellab.profiling.estimates.estimate import Estimate, Roofline
from kernellab.profiling.estimates.model import MEDIAN_ERROR
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.nsight import Counters
from kernellab.profiling.profiles.profile import Profile, ProfileDifference
from kernellab.profiling.profiles.records import ProfiledKernel, ProfiledLine
from kernellab.tuning.plot_data import varying_parameters
from kernellab.tuning.records import (
    MICROSECONDS,
    Trial,
    achieved,
    by_compiler,
    format_value,
    how_timed,
    parameter_column,
    timed,
)
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings
from kernellab.viz.kit.view import Card, Table, card_of

# The card of a profile: its scopes, its kernels' lines, what measuring changed.


_MOST_SCOPES, _MOST_LINES, _MOST_METRICS = 40, 24, 6
"""Rows and columns of a card; `table()` and `lines` have all."""

_LEAST_SHARE = 0.001
"""The share of a kernel's time that a line must take to have a row in a card."""


@card_of.register
def profile_card(profile: Profile) -> Card:
    """Scopes as a tree, lines by their share."""
    tables = [_scopes(profile), *_lines(profile)]
    if profile.kernels:
        rows = [_kernel_row(kernel) for kernel in profile.kernels[:_MOST_LINES]]
        tables.append(Table("Kernels", ("kernel", "launches", "options"), rows, numbers=(1,)))
    notes = [visible(note) for note in profile.notes]
    if profile.perturbation is not None:
        notes.append(f"What measuring changed: {profile.perturbation}.")
    title = visible(profile.name) or "Profile"
    return Card(title, visible(profile.origin), tables, notes)


def _scopes(profile: Profile) -> Table:
    metrics = trees.read(None, profile.root)[:_MOST_METRICS]
    rows = trees.rows(profile, metrics, trees.Filter())
    whole = rows[0].values[0] if metrics else math.nan
    cells = [
        [
            f"{row.lines}{visible(row.scope.name)}",
            *(_metric_text(value) for value in row.values),
            _share(row.values[0], whole) if metrics else "",
        ]
        for row in rows[:_MOST_SCOPES]
    ]
    columns = ["scope", *(visible(metric.text) for metric in metrics), "share" if metrics else ""]
    title = "" if len(rows) <= _MOST_SCOPES else f"The first {_MOST_SCOPES} of {len(rows):,} scopes"
    return Table(title, columns, cells, numbers=range(1, len(columns)), is_listing=True)


def _lines(profile: Profile) -> list[Table]:
    if not profile.line_records:
        return []
    lines = sorted(profile.line_records, key=lambda line: -line.share)
    shown = [line for line in lines if line.share >= _LEAST_SHARE][:_MOST_LINES] or lines[
        :_MOST_LINES
    ]
    names = [
        name for name in dict.fromkeys(name for line in lines for name in line.metrics)
        if not name.startswith("stalled_")
    ][:3]  # fmt: skip
    counts = [
        name
        for name in ("cycles", "executions")
        if any(getattr(line, name) is not None for line in lines)
    ]
    files = {kernel.name: kernel.file for kernel in profile.kernels}
    rows = [
        [_place(line, files.get(line.kernel, "")), *_line_row(line, counts, names)]
        for line in shown
    ]
    columns = ["line", "operation", "share", *counts, *map(visible, names)]
    numbers = range(2, len(columns))
    in_tree = "\n".join(line.name for line in profile.root.walk() if line.kind == "line")
    sources = [source_line(line.file, line.line).strip() for line in shown]
    if not all(source in in_tree for source in sources):
        columns.append("")
        rows = [[*row, source] for row, source in zip(rows, sources, strict=True)]
    title = (
        "Lines"
        if len(shown) == len(lines)
        else f"The {len(shown)} lines with the largest share, of {len(lines):,}"
    )
    return [Table(title, columns, rows, numbers=numbers)]


def _place(line: ProfiledLine, file: str) -> str:
    """The kernel's name and the line; of a helper in another file, that file's."""
    if file and line.file and line.file != file:
        return f"{visible(Path(line.file).name)}:{line.line}"
    return f"{visible(line.kernel)}:{line.line}" if line.kernel else str(line.line)


def _line_row(line: ProfiledLine, counts: Sequence[str], names: Sequence[str]) -> list[str]:
    numbers = [getattr(line, name) for name in counts]
    return [
        visible(line.operation),
        percent(line.share),
        *("" if number is None else f"{number:,.0f}" for number in numbers),
        *(_metric_text(line.metrics.get(name, math.nan)) for name in names),
    ]


def _kernel_row(kernel: ProfiledKernel) -> list[str]:
    options = ", ".join(f"{name}={value}" for name, value in kernel.options.items())
    return [visible(kernel.name), f"{kernel.launches:,}", visible(options)]


def _metric_text(value: float) -> str:
    if math.isnan(value):
        return ""
    if value == int(value) or abs(value) >= 1e6:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _share(value: float, whole: float) -> str:
    return percent(value / whole) if whole and not math.isnan(value / whole) else ""


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
                for triple in zip(scope.first, scope.second, scope.difference)
                for cell in (_metric_text(triple[0]), _metric_text(triple[1]), _signed(triple[2]))
            ),
        ]
        for scope in scopes[:_MOST_SCOPES]
    ]
    columns = ["scope"]
    columns += [f"{name}, {side}" for name in names for side in ("first", "second", "difference")]
    title = (
        f"{_named(difference.first.name, 'first')} less {_named(difference.second.name, 'second')}"
    )
    notes = [difference.caution] if difference.caution else []
    table = Table("", columns, rows, numbers=range(1, len(columns)))
    return Card(title, counted(len(scopes), "scope"), [table], notes)


def _named(name: str, otherwise: str) -> str:
    return visible(name) or f"the {otherwise}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_metric_text(value)}"


# The cards of an estimate of time, of a roofline, and of counters beside what is predicted.


_SMALL = 0.02
"""Parts that are busy for a smaller share of the time are left out."""


@card_of.register
def estimate_card(estimate: Estimate) -> Card:
    """The time, what bounds it, and a row for each part."""
    rows = [
        (
            part.name,
            f"{part.microseconds:.3g}",
            f"{part.at_least:.3g}" if part.at_least else "",
            part.counted,
        )
        for part in estimate.parts
        if part.microseconds >= _SMALL * estimate.microseconds
    ]
    return Card(
        title=f"{estimate.kernel}: about {time_text(estimate.microseconds)}",
        subtitle=f"{estimate.gpu}, grid {joined_sizes(estimate.grid)}; {estimate.accuracy}",
        tables=(Table("", ("part", "busy, us", "at least, us", "counted"), rows, numbers=(1, 2)),),
        notes=(f"Bound by {estimate.bound}.", *estimate.notes),
    )


@card_of.register
def roofline_card(roofline: Roofline) -> Card:
    """Operations and bytes, with their roofs."""
    operations = [
        (
            operation.name,
            f"{operation.amount:,.0f}",
            f"{operation.peak / 1e6:,.4g} T/s",
            f"{operation.microseconds:.3g}",
        )
        for operation in roofline.operations
    ]
    memory = [
        (
            level.name,
            f"{level.amount:,.0f}",
            f"{level.peak / 1e3:,.0f} GB/s",
            f"{level.microseconds:.3g}",
            f"{roofline.intensity.get(level.name, 0):.3g}",
        )
        for level in roofline.memory
    ]
    pipes = [(name, f"{often:,.0f}") for name, often in roofline.instructions.items() if often]
    return Card(
        title=(f"{roofline.kernel}: {roofline.reached:.0%} of what {roofline.highest.name} allows"),
        subtitle=(
            f"{roofline.gpu}, grid {joined_sizes(roofline.grid)}; "
            f"{time_text(roofline.microseconds)} ({roofline.time_from}), "
            f"{roofline.rate:.3g} TFLOP/s"
        ),
        tables=(
            Table(
                "", ("unit", "operations", "peak", "at least, us"), operations, numbers=(1, 2, 3)
            ),
            Table(
                "",
                ("memory", "bytes", "peak", "at least, us", "operations a byte"),
                memory,
                numbers=(1, 2, 3, 4),
            ),
            Table("Instructions of warps", ("unit", "executed"), pipes, numbers=(1,)),
        ),
        notes=roofline.notes,
    )


@card_of.register
def counters_card(counters: Counters) -> Card:
    """One row a counter: what was counted, and what the lab says with no GPU."""
    rows = [
        (
            counter.name,
            _number(counter.measured),
            _number(counter.predicted),
            "" if counter.ratio is None else f"{counter.ratio:.3g}",
            counter.unit,
        )
        for counter in counters
    ]
    columns = ("counter", "measured", "predicted", "ratio", "unit")
    return Card(
        title=f"{counters.kernel}: {counted(len(counters), 'counter')}",
        subtitle=f"{counters.gpu or 'predicted alone'}, grid {joined_sizes(counters.grid)}",
        tables=(Table("", columns, rows, numbers=(1, 2, 3)),),
        notes=counters.notes,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"


_WHOLE = 1000
"""From here on parts of one do not matter."""

# The card of a sweep: the fastest configs, what the compiler says of them, and why others were
# dropped.


MOST_ROWS = 10

REDEFINED = (
    "The kernel has been redefined since this sweep. What is shown here, and the IR of its "
    "configs, belong to the source that it had then."
)


COMPILED_IN_ORDER = (
    "what the compiler says, those first that spill less, have the higher occupancy and take fewer "
    "registers, which is not an order of times"
)
"""Of configs without times; see `ranking.by_compiler`."""
ESTIMATED_IN_ORDER = (
    "the order of estimates, which no one has measured: median error "
    f"{MEDIAN_ERROR:.0%} on kernels left out"
)


def untimed_order(tuning: Tuning) -> str:
    """What configs without times are ranked by, in words."""
    compiled = (trial.outcome.compiled for trial in tuning.trials)
    has_estimates = any(
        outcome is not None and outcome.estimated is not None for outcome in compiled
    )
    return ESTIMATED_IN_ORDER if has_estimates else COMPILED_IN_ORDER


TO_EXPLORE_ALL = ".show() opens the sweeps: times over the key, and each sweep's plots and configs."
TO_EXPLORE = ".show() opens the sweep: plots and table, linked, and the IR of every config."


@card_of.register
def tuning_card(tuning: Tuning) -> Card:
    """The card of one sweep, as a cell shows it."""
    card = still_card(tuning)
    return replace(card, notes=(*card.notes, TO_EXPLORE)) if tuning.trials else card


def still_card(tuning: Tuning) -> Card:
    """The card of one sweep, where its view is not to be had."""
    ranked = timed(tuning.trials)
    shown = ranked or by_compiler(tuning.trials)
    title = "The fastest" if ranked else f"{format_untimed(tuning)}: {untimed_order(tuning)}"
    left = sum(not trial.is_dropped for trial in tuning.trials) - len(shown[:MOST_ROWS])
    if left > 0:
        title += f"; {counted(left, 'other')} in tuning.table"
    return Card(
        title=f"{tuning.kernel}: {counted(len(tuning.trials), 'config')}",
        subtitle=(
            f"for {tuning.target}, {tuning.machine.gpu or 'no GPU'}; {tuning.machine.versions}"
        ),
        tables=(_configs(tuning, shown[:MOST_ROWS], title), _baselines(tuning), _dropped(tuning)),
        # A view says it of each config that is opened.
        notes=tuple(
            filter(None, (*format_sweep(tuning), tuning.recompiled, _what_runs_source(tuning)))
        ),
    )


def _what_runs_source(tuning: Tuning) -> str:
    """Of a sweep from a file: that its source has not run, and what would run it."""
    source = tuning.source
    if tuning.knows_kernel or source is None or not source.is_whole:
        return ""
    return (
        f"The file holds the source of {tuning.kernel}, of which nothing has run: "
        "tuning.with_kernel() runs it, so trust the file first; so does opening a config in the "
        "live view, once you have agreed there."
    )


@card_of.register
def tunings_card(tunings: Tunings) -> Card:
    """The card of several sweeps, as a cell shows it."""
    card = still_card_of_all(tunings)
    return replace(card, notes=(*card.notes, TO_EXPLORE_ALL)) if len(tunings) else card


def still_card_of_all(tunings: Tunings) -> Card:
    """The card of several sweeps, where their view is not to be had:
    the fastest config for each key.
    """
    rows = []
    for tuning in tunings:
        key = ", ".join(f"{name}={value}" for name, value in tuning.key.items())
        if tuning.is_timed and tuning.best.timing is not None:
            time = time_text(tuning.best.timing.median * MICROSECONDS, 4)
            rows.append((key, str(tuning.best.candidate), time))
        else:
            rows.append((key, "not timed", ""))
    name = tunings[0].kernel if len(tunings) else "no sweeps"
    columns = ("key", "the fastest config", "time")
    notes = [REDEFINED] if any(tuning.is_redefined for tuning in tunings) else []
    return Card(f"{name}: {counted(len(tunings), 'sweep')}", "", (Table("", columns, rows),), notes)


def format_untimed(tuning: Tuning) -> str:
    """Of a sweep without times, that it has none; where there was a GPU no config got so far."""
    if not tuning.trials:
        return "No config was tried"
    return "Nothing was timed" if tuning.machine.gpu else "Nothing was timed, which needs a GPU"


def format_sweep(tuning: Tuning) -> tuple[str, ...]:
    """What is to be said of a sweep as a whole, in sentences."""
    ahead = [REDEFINED] if tuning.is_redefined else []
    notes = (f"{note[:1].upper()}{note[1:]}." for note in tuning.notes)
    return (*ahead, *format_best(tuning), *notes)


def format_best(tuning: Tuning) -> list[str]:
    """Which config is the fastest, and with how many it is in a tie, in words."""
    ranked = tuning.ranked
    unchecked = _unchecked(tuning)
    if not ranked:
        if tuning.trials and all(trial.is_dropped for trial in tuning.trials):
            return ["No config is valid."]
        return unchecked
    best = ranked[0]
    assert best.timing is not None
    time = time_text(best.timing.median * MICROSECONDS, 4)
    ties = len(tuning.ties) - 1
    how = [*how_timed(tuning), *unchecked]
    if not ties:
        return [f"{best.candidate} is the fastest: {time}.", *how]
    return [
        (
            f"{best.candidate} has the lowest median, {time}, in a tie with "
            f"{counted(ties, 'other config')}: their quartiles overlap."
        ),
        *how,
    ]


def _unchecked(tuning: Tuning) -> list[str]:
    unchecked = [trial for trial in tuning.trials if trial.outcome.unchecked]
    if not unchecked:
        return []
    return [
        (
            f"The results of {counted(len(unchecked), 'config')} were not checked. "
            f"{unchecked[0].number}: {unchecked[0].outcome.unchecked}"
        )
    ]


def _configs(tuning: Tuning, shown: list[Trial], title: str) -> Table:
    """A row a config, with a column for each parameter:
    of names in every row the table would be wider than a page.
    """
    varying = varying_parameters([trial.candidate.values for trial in tuning.trials])
    parameters = varying or list(shown[0].candidate.values if shown else ())
    rates = achieved(tuning, tuning.best.timing) if tuning.is_timed else {}
    times = ["us", "quartiles", *rates] if tuning.is_timed else []
    results = ["config", *times, "registers", "spilled", "shared", "occupancy"]
    named = (parameter_column(name, results) for name in parameters)
    columns = [results[0], *named, *results[1:]]
    rows = [_row(tuning, trial, parameters) for trial in shown]
    return Table(title, columns, rows, numbers=range(1, len(columns)))


def _row(tuning: Tuning, trial: Trial, parameters: Sequence[str]) -> tuple[str, ...]:
    values = trial.candidate.values
    cells = [str(trial.number), *(format_value(values.get(name, "")) for name in parameters)]
    timing, compiled = trial.timing, trial.outcome.compiled
    if tuning.is_timed and timing is not None:
        median, lower, upper = (
            seconds * MICROSECONDS for seconds in (timing.median, timing.lower, timing.upper)
        )
        cells += [f"{median:.4g}", f"{lower:.4g} to {upper:.4g}"]
        cells += [f"{rate:.4g}" for rate in achieved(tuning, timing).values() if rate is not None]
    if compiled is None:
        return (*cells, "", "", "", "")
    resources = compiled.resources
    occupancy = "" if math.isnan(compiled.occupancy) else percent(compiled.occupancy)
    return (
        *cells,
        str(resources.registers),
        f"{resources.spills:,}",
        f"{resources.shared_bytes:,}",
        occupancy,
    )


def _baselines(tuning: Tuning) -> Table:
    rows = [
        (name, time_text(baseline.median * MICROSECONDS, 4), baseline.how)
        for name, baseline in tuning.baselines.items()
    ]
    return Table("Beside it", (), rows)


def _dropped(tuning: Tuning) -> Table:
    """Each reason once, with how many configs it met and what was said of the first."""
    dropped = [trial for trial in tuning.trials if trial.outcome.dropped is not None]
    counts = Counter(trial.outcome.dropped.reason for trial in dropped if trial.outcome.dropped)
    rows = []
    for reason, count in counts.items():
        first = next(
            trial
            for trial in dropped
            if trial.outcome.dropped and trial.outcome.dropped.reason == reason
        )
        assert first.outcome.dropped is not None
        rows.append(
            (
                f"{count} × {reason}",
                f"{first.number}: {first.candidate}",
                first.outcome.dropped.line,
            )
        )
    return Table("Dropped", ("reason", "the first of them", "in the words of who refused it"), rows)
