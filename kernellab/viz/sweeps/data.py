"""What the view of sweeps draws: `TuningView`, from the same points and lines as the plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from kernellab.errors import ArgumentError
from kernellab.tuning.kernel_source import how_to_open
from kernellab.tuning.plot_data import (
    Line,
    baseline_times,
    format_launch,
    lines_data,
    varying_parameters,
)
from kernellab.tuning.records import (
    MICROSECONDS,
    Trial,
    achieved,
    by_compiler,
    format_value,
    tied_with_best,
    timed,
)
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings
from kernellab.viz.explorer.data import PassPairData
from kernellab.viz.kit.data import ViewData
from kernellab.viz.sweeps.card import format_sweep, format_untimed, untimed_order

UNITS = ("time", "GB/s", "TFLOP/s")


def sweeps_data(
    title: str,
    plot: str,
    sweeps: Sequence[Tuning],
    sizes: Sequence[SizesData],
    notes: Sequence[str],
) -> TuningView:
    """A view of sweeps without any explorer."""
    names = [sweep_name(sweep, sweeps) for sweep in sweeps]
    return TuningView(
        kind="tuning",
        title=title,
        plot=plot,
        sweeps=tuple(_sweep(sweep, name) for sweep, name in zip(sweeps, names)),
        configs=tuple(
            config for place, sweep in enumerate(sweeps) for config in _configs(sweep, place)
        ),
        sizes=tuple(sizes),
        notes=tuple(notes),
        opened=(),
        pairs=(),
    )


def sweep_name(tuning: Tuning, beside: Sequence[Tuning]) -> str:
    """Return what distinguishes a sweep from those beside it."""
    key = ", ".join(f"{name}={value}" for name, value in tuning.key.items()) or format_launch(
        tuning
    )
    return f"{tuning.kernel}, {key}" if len({sweep.kernel for sweep in beside}) > 1 else key


def _sweep(tuning: Tuning, name: str) -> SweepData:
    configs = [trial.candidate.values for trial in tuning.trials]
    untimed = (
        [] if tuning.is_timed else [f"{format_untimed(tuning)}: this is {untimed_order(tuning)}."]
    )
    if not tuning.trials:
        untimed = [f"{format_untimed(tuning)}."]
    return SweepData(
        kernel=tuning.kernel,
        name=name,
        machine=(
            f"{tuning.machine.gpu or f'compiled for {tuning.target}, no GPU'}; "
            f"{tuning.machine.versions}"
        ),
        launch=format_launch(tuning),
        words=(*untimed, *format_sweep(tuning)),
        parameters=tuple(_parameters(tuning)),
        varying=tuple(varying_parameters(configs)),
        baselines=baseline_times(tuning),
        knows_kernel=tuning.knows_kernel,
        how_to_open=""
        if tuning.knows_kernel
        else how_to_open(tuning.kernel, tuning.source, ".show()"),
        source=_source_to_run(tuning),
    )


_MOST_SOURCE = 200_000
"""Characters of a source that are shown to who has to agree to it."""


def _source_to_run(tuning: Tuning) -> str:
    source = tuning.source
    if tuning.knows_kernel or source is None or not source.is_whole:
        return ""
    return source.excerpt(_MOST_SOURCE)


def _parameters(tuning: Tuning) -> list[str]:
    return list(dict.fromkeys(name for trial in tuning.trials for name in trial.candidate.values))


# Configs


def _configs(tuning: Tuning, sweep: int) -> list[ConfigData]:
    names = _parameters(tuning)
    tied = {trial.number for trial in tied_with_best(tuning.trials)}
    first = next((trial.number for trial in timed(tuning.trials)), None)
    standings: dict[int, Standing] = dict.fromkeys(tied, "tied")
    if first is not None:
        standings[first] = "best"
    order = {trial.number: rank for rank, trial in enumerate(by_compiler(tuning.trials))}
    return [
        replace(
            _config(tuning, trial, sweep, names, standings),
            untimed_rank=order.get(trial.number, len(order)),
        )
        for trial in tuning.trials
    ]


def _config(
    tuning: Tuning,
    trial: Trial,
    sweep: int,
    names: Sequence[str],
    standings: Mapping[int, Standing],
) -> ConfigData:
    timing, compiled, dropped = trial.timing, trial.outcome.compiled, trial.outcome.dropped
    # Without times no rate is wanted, and what a launch moves need not be counted.
    rates = {} if timing is None else achieved(tuning, timing)
    standing: Standing = standings.get(trial.number, "behind" if timing else "untimed")
    us, lower, upper = (
        (None, None, None)
        if timing is None
        else (seconds * MICROSECONDS for seconds in (timing.median, timing.lower, timing.upper))
    )
    return ConfigData(
        sweep=sweep,
        number=trial.number,
        values=tuple(_value(trial.candidate.values, name) for name in names),
        standing="dropped" if dropped else standing,
        us=us,
        lower=lower,
        upper=upper,
        runs=timing.runs if timing else 0,
        gb_per_s=rates.get("GB/s"),
        tflop_per_s=rates.get("TFLOP/s"),
        registers=compiled.resources.registers if compiled else None,
        spills=compiled.resources.spills if compiled else None,
        shared=compiled.resources.shared_bytes if compiled else None,
        occupancy=compiled.occupancy if compiled and math.isfinite(compiled.occupancy) else None,
        limited_by=compiled.limited_by if compiled else "",
        matrix=compiled.matrix if compiled else "",
        checked=trial.outcome.checked,
        unchecked=trial.outcome.unchecked,
        dropped=dropped.reason if dropped else "",
        why=dropped.why.strip() if dropped else "",
    )


_LARGEST_EXACT = 2**53
"""Whole numbers up to this are the same in JavaScript."""


def _value(values: Mapping[str, Any], name: str) -> float | str | None:
    """A parameter's value: a number where JavaScript has the same one, else text."""
    if name not in values:
        return None
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return format_value(value)
    return value if math.isfinite(value) and abs(value) <= _LARGEST_EXACT else str(value)


# Sizes


def sizes_data(groups: Sequence[Tunings], sweeps: Sequence[Tuning]) -> tuple[list[SizesData], str]:
    """The lines over the key in every unit that is known, and why there are none in the others.

    Args:
        groups: the sweeps of one kernel each.
        sweeps: all of them, in the order of the view.
    """
    sizes: list[SizesData] = []
    problems: list[str] = []
    firsts = _best_configs(sweeps)
    for unit in UNITS:
        try:
            drawn = lines_data(groups[0], unit, groups[1:])
        except ArgumentError as error:
            problems.append(f"No {unit} over sizes: {error.problem}.")
            continue
        lines = [_size_line(line, drawn.key, sweeps, firsts) for line in drawn.lines]
        sizes.append(SizesData(drawn.key, drawn.unit, tuple(lines)))
    return sizes, "" if sizes else problems[0]


def _best_configs(sweeps: Sequence[Tuning]) -> list[int | None]:
    """Of each sweep the number, among all configs, of the fastest."""
    before, sizes = 0, list[int | None]()
    for sweep in sweeps:
        best = sweep.best if sweep.is_timed else None
        sizes.append(None if best is None else before + sweep.trials.index(best))
        before += len(sweep.trials)
    return sizes


def _size_line(
    line: Line,
    key: str,
    sweeps: Sequence[Tuning],
    firsts: Sequence[int | None],
) -> SizeLine:
    configs: dict[float, int | None] = {}
    if not line.is_baseline:
        configs = {
            float(sweep.key[key]): first
            for sweep, first in zip(sweeps, firsts)
            if sweep.kernel == line.name
        }
    points = zip(line.x, line.y, line.lower, line.upper, line.warm, strict=True)
    return SizeLine(
        name=line.name,
        is_baseline=line.is_baseline,
        points=tuple(SizePoint(*point, configs.get(point[0])) for point in points),
    )


Standing = Literal["best", "tied", "behind", "untimed", "dropped"]
"""Of a config: the fastest, as fast within the noise, slower, never timed, dropped."""


@dataclass(frozen=True)
class ConfigData:
    """One config of a sweep, and all that was found out about it. Times in microseconds;
    None is not known, or not measured.
    """

    sweep: int
    """Number in `TuningView.sweeps`."""
    number: int
    """Its number in the sweep, as the table has it."""
    values: tuple[float | str | None, ...]
    """By `SweepData.parameters`; None where the config has no such parameter."""
    standing: Standing
    us: float | None
    lower: float | None
    """The lower quartile."""
    upper: float | None
    """The upper quartile."""
    runs: int
    gb_per_s: float | None
    tflop_per_s: float | None
    registers: int | None
    spills: int | None
    shared: int | None
    occupancy: float | None
    limited_by: str
    matrix: str
    checked: str
    """What its results were found equal to; "" where no one looked."""
    unchecked: str
    """Why no one could; "" for others."""
    dropped: str
    """The reason; "" for one that is in the race."""
    why: str
    """In full, in the words of who refused it."""
    untimed_rank: int = 0
    """Its place where nothing was timed; see `ranking.by_compiler`."""


@dataclass(frozen=True)
class SweepData:
    """What the configs of one sweep share."""

    kernel: str
    name: str
    """What distinguishes it from the other sweeps: the key's values."""
    machine: str
    launch: str
    words: tuple[str, ...]
    parameters: tuple[str, ...]
    varying: tuple[str, ...]
    """The parameters that have more than one value."""
    baselines: Mapping[str, float]
    """Name -> microseconds."""
    knows_kernel: bool
    """Whether its configs can be compiled."""
    how_to_open: str
    """Where they cannot, what to do about it, in sentences; "" else."""
    source: str
    """Where they cannot, what the file holds of the kernel: once a reader has agreed, the
    notebook's kernel runs it, and they can. "" where it holds none, or too little."""


@dataclass(frozen=True)
class SizePoint:
    """The fastest config of a sweep, or a baseline, at one value of the key."""

    x: float
    y: float
    lower: float
    upper: float
    warm: bool
    """Whether it was measured in a row, with a warm cache."""
    config: int | None
    """Number in `TuningView.configs`; None of a baseline."""


@dataclass(frozen=True)
class SizeLine:
    """A kernel, or a baseline, over the key."""

    name: str
    is_baseline: bool
    points: tuple[SizePoint, ...]


@dataclass(frozen=True)
class SizesData:
    """Several sweeps against their key, in one unit."""

    key: str
    unit: str
    """ "us", "GB/s" or "TFLOP/s"."""
    lines: tuple[SizeLine, ...]


@dataclass(frozen=True)
class OpenedConfig:
    """A config whose IR explorer is here."""

    config: int
    part: int
    """Number of the part that holds it, see `packed`."""
    explorer: bytes
    """A packed `IrView`."""


@dataclass(frozen=True)
class ConfigPair:
    """What a comparison of two opened configs needs besides their explorers."""

    left: int
    right: int
    pairs: tuple[PassPairData, ...]


@dataclass(frozen=True)
class TuningView(ViewData):
    """What the view of sweeps draws."""

    kind: Literal["tuning"]
    title: str
    plot: str
    """The kind of plot that is shown first."""
    sweeps: tuple[SweepData, ...]
    configs: tuple[ConfigData, ...]
    """Of all sweeps."""
    sizes: tuple[SizesData, ...]
    notes: tuple[str, ...]
    opened: tuple[OpenedConfig, ...]
    pairs: tuple[ConfigPair, ...]

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """The explorers apart."""
        return self, [config.explorer for config in self.opened]
