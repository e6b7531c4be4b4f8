"""The cards of measured and estimated times: profiles, estimates, rooflines, counters, sweeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kernellab.common.text import counted, joined_sizes, percent, time_text
from kernellab.profiling.estimates.estimate import Estimate, Roofline
from kernellab.profiling.estimates.model import MEDIAN_ERROR
from kernellab.profiling.profiles.nsight import Counters
from kernellab.tuning.plot_data import has_estimates, varying_parameters
from kernellab.tuning.records import (
    ESTIMATED,
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
        title=f"{roofline.kernel}: {roofline.reached:.0%} of what {roofline.highest.name} allows",
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
    """One row a counter: what was counted, and what KernelLab says with no GPU."""
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

# The card of a sweep: the fastest configs, what the compiler says about them, and why others were
# dropped.

MOST_ROWS = 10

REDEFINED = (
    "The kernel has been redefined since this sweep. What is shown here, and the IR of its "
    "configs, belong to the source that it had then."
)


COMPILED_IN_ORDER = (
    "what the compiler reports: fewest spills, then highest occupancy, then fewest registers. "
    "This order does not predict times"
)
"""Of configs without times; see `by_compiler`."""
ESTIMATED_IN_ORDER = (
    f"estimated times, with a median error of {MEDIAN_ERROR:.0%} on held-out kernels"
)

TO_MEASURE = 5
"""Configs to measure first, which are marked."""


def untimed_order(tuning: Tuning) -> str:
    """The ranking of configs without times, in words."""
    return ESTIMATED_IN_ORDER if has_estimates(tuning) else COMPILED_IN_ORDER


def to_measure(tuning: Tuning) -> list[Trial]:
    """The configs to measure first on a GPU; none if times or no estimates are known."""
    if tuning.is_timed or not has_estimates(tuning):
        return []
    return by_compiler(tuning.trials)[:TO_MEASURE]


TO_EXPLORE_ALL = ".show() displays times over the key, and the plots and configs of each sweep."
TO_EXPLORE = ".show() displays the sweep as linked plots and a table, with the IR of every config."


@card_of.register
def tuning_card(tuning: Tuning) -> Card:
    """The card of one sweep, as a cell shows it."""
    card = still_card(tuning)
    return replace(card, notes=(*card.notes, TO_EXPLORE)) if tuning.trials else card


def still_card(tuning: Tuning) -> Card:
    """The card of one sweep, where its view is not to be had."""
    ranked, machine = timed(tuning.trials), tuning.machine
    shown = ranked or by_compiler(tuning.trials)
    untimed = f"{format_untimed(tuning)}. Sorted by {untimed_order(tuning)}"
    title = "The fastest" if ranked else untimed
    left = sum(not trial.is_dropped for trial in tuning.trials) - len(shown[:MOST_ROWS])
    if left > 0:
        title += f"; {counted(left, 'other')} in tuning.table"
    return Card(
        title=f"{tuning.kernel}: {counted(len(tuning.trials), 'config')}",
        subtitle=f"for {tuning.target}, {machine.gpu or 'no GPU'}; {machine.versions}",
        tables=(_configs(tuning, shown[:MOST_ROWS], title), _baselines(tuning), _dropped(tuning)),
        # A view says it of each config that is opened.
        notes=tuple(filter(None, (*format_sweep(tuning), tuning.recompiled))),
    )


@card_of.register
def tunings_card(tunings: Tunings) -> Card:
    """The card of several sweeps, as a cell shows it."""
    card = still_card_of_all(tunings)
    return replace(card, notes=(*card.notes, TO_EXPLORE_ALL)) if len(tunings) else card


def still_card_of_all(tunings: Tunings) -> Card:
    """The card of several sweeps without their view: the fastest config for each key."""
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
    """The note of a sweep without times; with a GPU, no config got so far."""
    if not tuning.trials:
        return "No config was tried"
    return "Nothing was timed" if tuning.machine.gpu else "Nothing was timed, which needs a GPU"


def sweep_answer(tuning: Tuning) -> str:
    """The fastest config beside the first baseline, else the lowest estimate; "" without both."""
    if tuning.is_timed and tuning.best.timing is not None:
        best = tuning.best.timing
        beside = [
            f", {percent(baseline.median / best.median)} of the speed of {name}"
            for name, baseline in tuning.baselines.items()
        ]
        time = time_text(best.median * MICROSECONDS, 4)
        return f"{time}{beside[0] if beside else ''}: {tuning.best.candidate}"
    for trial in to_measure(tuning)[:1]:
        compiled = trial.outcome.compiled
        if compiled is not None and compiled.estimated is not None:
            about = time_text(compiled.estimated)
            return f"about {about}, estimated ± {MEDIAN_ERROR:.0%}: {trial.candidate}"
    return ""


def format_sweep(tuning: Tuning) -> tuple[str, ...]:
    """The notes about a sweep as a whole, in sentences."""
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
    words = f"{best.candidate} is the fastest: {time}."
    if ties:
        words = (
            f"{best.candidate} has the lowest median, {time}, in a tie with "
            f"{counted(ties, 'other config')}: their quartiles overlap."
        )
    return [words, *how_timed(tuning), *unchecked]


def _unchecked(tuning: Tuning) -> list[str]:
    trials = [trial for trial in tuning.trials if trial.outcome.unchecked]
    if not trials:
        return []
    words = f"The results of {counted(len(trials), 'config')} were not checked."
    return [f"{words} {trials[0].number}: {trials[0].outcome.unchecked}"]


def _configs(tuning: Tuning, shown: list[Trial], title: str) -> Table:
    """A row per config, a column per parameter: names in each row would be too wide for a page."""
    varying = varying_parameters([trial.candidate.values for trial in tuning.trials])
    parameters = varying or list(shown[0].candidate.values if shown else ())
    rates = achieved(tuning, tuning.best.timing) if tuning.is_timed else {}
    times = ["us", "quartiles", *rates] if tuning.is_timed else []
    if not tuning.is_timed and has_estimates(tuning):
        times = [ESTIMATED]
    results = ["config", *times, "registers", "spilled", "shared", "occupancy"]
    named = (parameter_column(name, results) for name in parameters)
    columns = [results[0], *named, *results[1:]]
    marked = {trial.number for trial in to_measure(tuning)}
    rows = [_row(tuning, trial, parameters, trial.number in marked) for trial in shown]
    return Table(title, columns, rows, numbers=range(1, len(columns)))


def _row(
    tuning: Tuning, trial: Trial, parameters: Sequence[str], is_marked: bool
) -> tuple[str, ...]:
    values = trial.candidate.values
    mark = "★ " if is_marked else ""
    cells = [f"{mark}{trial.number}", *(format_value(values.get(name, "")) for name in parameters)]
    timing, compiled = trial.timing, trial.outcome.compiled
    if tuning.is_timed and timing is not None:
        times = (timing.median, timing.lower, timing.upper)
        median, lower, upper = (seconds * MICROSECONDS for seconds in times)
        cells += [f"{median:.4g}", f"{lower:.4g} to {upper:.4g}"]
        cells += [f"{rate:.4g}" for rate in achieved(tuning, timing).values() if rate is not None]
    if not tuning.is_timed and has_estimates(tuning):
        estimated = None if compiled is None else compiled.estimated
        cells.append("" if estimated is None else f"{estimated:.4g}")
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
    return Table("Baselines", (), rows)


def _dropped(tuning: Tuning) -> Table:
    """Each reason once, with how many configs it met and what was said of the first."""
    counts: Counter[str] = Counter()
    firsts: dict[str, tuple[str, str]] = {}
    for trial in tuning.trials:
        if (dropped := trial.outcome.dropped) is not None:
            counts[dropped.reason] += 1
            first = f"{trial.number}: {trial.candidate}", dropped.line
            firsts.setdefault(dropped.reason, first)
    rows = [(f"{count} × {reason}", *firsts[reason]) for reason, count in counts.items()]
    return Table("Dropped", ("reason", "first config", "its error"), rows)
