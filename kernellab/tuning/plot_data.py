"""The data of a sweep's plots as JSON-compatible records, which stills and widgets both draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernellab.common.arguments import is_one_of
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, suggestion
from kernellab.tuning import records
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings

AGAINST = {
    "estimate": "estimated time, us",
    "occupancy": "occupancy",
    "registers": "registers of a thread",
    "spills": "spilled bytes of a thread",
    "shared": "shared memory of a program, bytes",
}
"""Kinds of plots that draw time against an estimate or a resource, and the labels of their axes."""

KINDS = ("times", "heatmap", "parallel", *AGAINST)


@dataclass(frozen=True)
class CompiledPoint:
    """One config, and what the compiler reports for it."""

    config: int
    label: str
    values: Mapping[str, Any]
    estimate: float | None
    """Microseconds, estimated and not measured."""
    occupancy: float | None
    registers: int | None
    spills: int | None
    shared: int | None


@dataclass(frozen=True)
class Point(CompiledPoint):
    """One config, timed. Times in microseconds."""

    us: float
    lower: float
    upper: float
    tied: bool
    """Whether its time overlaps with that of the fastest config, or it is the fastest."""


@dataclass(frozen=True)
class _Plot:
    """The contents of a plot, as plain data."""

    kind: str
    title: str
    subtitle: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class PlotData(_Plot):
    """A plot of one sweep."""

    points: Sequence[Point]
    """The fastest first."""
    baselines: Mapping[str, float]
    """Name -> microseconds."""
    varying: Sequence[str]
    """The parameters that have more than one value, in the order of the config."""
    axes: Sequence[str] = ()
    """The two parameters of a heat map, or all that vary for parallel coordinates."""


@dataclass(frozen=True)
class UntimedData(_Plot):
    """A plot of a sweep in which nothing was timed: of each config one of AGAINST."""

    points: Sequence[CompiledPoint]
    """In the order of the sweep."""
    varying: Sequence[str]


@dataclass(frozen=True)
class PlotLine:
    """One kernel, or one baseline, over the key."""

    name: str
    is_baseline: bool
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]
    warm: Sequence[bool]
    """For each point, whether its runs had a warm cache, at rates that DRAM does not reach."""


@dataclass(frozen=True)
class LinesData(_Plot):
    """A plot of several sweeps against their key."""

    key: str
    unit: str
    """ "us", "GB/s" or "TFLOP/s"."""
    lines: Sequence[PlotLine]


def plot_data(tuning: Tuning, kind: str, x: str | None = None, y: str | None = None) -> PlotData:
    """Return what a plot of a sweep shows. `x`, `y`: parameters of a heat map; None takes the two
    that vary most. Raises ArgumentError: no such kind or parameter, nothing was timed, or nothing
    is known to draw.
    """
    check_kind(kind)
    if not tuning.is_timed:
        _compiled_trials(tuning)
        raise ArgumentError(
            f"No config of this sweep of {tuning.kernel!r} was timed, so there is no plot of "
            f"kind {kind!r}.",
            advice=(
                f"Without times, the kinds are {', '.join(AGAINST)}. Times need a GPU, or a saved "
                "sweep: kernellab.Tuning.load(path)."
            ),
        )
    tied = {trial.number for trial in records.tied_with_best(tuning.trials)}
    points = [_point(trial, trial.number in tied) for trial in records.timed(tuning.trials)]
    _check_known(points, kind, tuning)
    varying = varying_parameters([point.values for point in points])
    axes: Sequence[str] = ()
    if kind == "heatmap":
        axes = _two_axes(points, x, y)
    elif kind == "parallel":
        if not varying:
            raise ArgumentError(
                "Parallel coordinates need a parameter that varies, but in this sweep none does.",
                advice="Sweep at least two values of a parameter.",
            )
        axes = varying
    timings = (trial.timing for trial in records.timed(tuning.trials))
    how = " or ".join(dict.fromkeys(timing.how for timing in timings if timing is not None))
    return PlotData(
        kind=kind,
        title=tuning.kernel,
        subtitle=f"{tuning.machine.gpu}; {format_launch(tuning)}; {how}",
        points=points,
        baselines=baseline_times(tuning),
        varying=varying,
        axes=axes,
    )


def check_kind(kind: str, kinds: Sequence[str] = KINDS) -> None:
    """Raise ArgumentError if sweeps have no plot of that kind."""
    if not is_one_of(kind, kinds):
        raise ArgumentError(
            f"{shown(kind)} is not a kind of plot.", advice=suggestion(kind, kinds, "Kinds:")
        )


def default_kind(tuning: Tuning) -> str:
    """Return the plot that a sweep shows first: times, else estimates, else a resource."""
    if tuning.is_timed:
        return "times"
    return "estimate" if has_estimates(tuning) else "registers"


def has_estimates(tuning: Tuning) -> bool:
    """Whether the time of any config was estimated."""
    compiled = (trial.outcome.compiled for trial in tuning.trials)
    return any(result is not None and result.estimated is not None for result in compiled)


def untimed_data(tuning: Tuning, kind: str) -> UntimedData:
    """Return what an untimed sweep's plot shows. Raises ArgumentError: there is nothing to draw."""
    compiled = _compiled_trials(tuning)
    points = [CompiledPoint(**_compiled(trial)) for trial in compiled]
    _check_known(points, kind, tuning)
    launch = format_launch(tuning)
    return UntimedData(
        kind=kind,
        title=tuning.kernel,
        subtitle="; ".join(filter(None, (str(tuning.target), launch, "nothing was timed"))),
        points=points,
        varying=varying_parameters([trial.candidate.values for trial in compiled]),
    )


def _check_known(points: Sequence[CompiledPoint], kind: str, tuning: Tuning) -> None:
    """Raise ArgumentError if what a kind draws is known about no config."""
    if kind in AGAINST and all(getattr(point, kind) is None for point in points):
        raise ArgumentError(
            f"No config of this sweep of {tuning.kernel!r} has a value to plot by {kind!r}.",
            advice="tuning.table shows what is known of each config.",
        )


def _compiled_trials(tuning: Tuning) -> list[records.Trial]:
    """Return the configs that were compiled. Raises ArgumentError: there are none."""
    compiled = [trial for trial in tuning.trials if trial.outcome.compiled and not trial.is_dropped]
    if compiled:
        return compiled
    raise ArgumentError(
        f"No config of this sweep of {tuning.kernel!r} was timed or compiled, so there is "
        "nothing to draw.",
        advice="tuning.table shows the reason for each config.",
    )


def baseline_times(tuning: Tuning) -> dict[str, float]:
    """Map baselines' names, which say how they were timed if otherwise, to microseconds."""
    best = tuning.ranked[0].timing if tuning.is_timed else None
    times = {}
    for name, timing in tuning.baselines.items():
        is_alike = best is None or best.method == timing.method
        times[name if is_alike else f"{name} ({timing.how})"] = timing.median * records.MICROSECONDS
    return times


def format_launch(tuning: Tuning) -> str:
    """Describe what was launched in a few words: the key's values, else the tensors' types."""
    if tuning.key:
        return ", ".join(f"{name}={value}" for name, value in tuning.key.items())
    tensors = [words for words in tuning.arguments.values() if "[" in words]
    return ", ".join(dict.fromkeys(tensors))


def _point(trial: records.Trial, tied: bool) -> Point:
    timing = trial.timing
    assert timing is not None
    return Point(
        us=timing.median * records.MICROSECONDS,
        lower=timing.lower * records.MICROSECONDS,
        upper=timing.upper * records.MICROSECONDS,
        tied=tied,
        **_compiled(trial),
    )


def _compiled(trial: records.Trial) -> dict[str, Any]:
    compiled = trial.outcome.compiled
    known = None if compiled is None else compiled.resources
    return {
        "config": trial.number,
        "label": str(trial.candidate),
        "values": {name: _plain(value) for name, value in trial.candidate.values.items()},
        "estimate": None if compiled is None else compiled.estimated,
        "occupancy": None
        if compiled is None or math.isnan(compiled.occupancy)
        else compiled.occupancy,
        "registers": None if known is None else known.registers,
        "spills": None if known is None else known.spills,
        "shared": None if known is None else known.shared_bytes,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else records.format_value(value)


def varying_parameters(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parameters that have more than one value, in the order of the config."""
    names = dict.fromkeys(name for values in configs for name in values)
    return [name for name in names if len({repr(values.get(name)) for values in configs}) > 1]


def _two_axes(points: Sequence[Point], x: str | None, y: str | None) -> tuple[str, str]:
    names = varying_parameters([point.values for point in points])
    for given in (x, y):
        if given is not None and given not in names:
            raise ArgumentError(
                f"{given!r} is not a parameter that varies in this sweep.",
                advice=suggestion(given, names, "The parameters that vary are"),
            )
    if x is not None and x == y:
        others = [name for name in names if name != x]
        raise ArgumentError(
            f"A heat map needs two different parameters, but x and y are both {x!r}.",
            advice=f"Use another parameter that varies for x or y: {', '.join(others)}."
            if others
            else "No other parameter varies.",
        )
    if len(names) < 2:
        raise ArgumentError(
            "A heat map needs two parameters that vary, but in this sweep "
            f"{f'only {names[0]}' if names else 'none'} does.",
            advice="Sweep at least two values of each of two parameters.",
        )
    counts = {name: len({repr(point.values.get(name)) for point in points}) for name in names}
    free = sorted((name for name in names if name not in (x, y)), key=lambda name: -counts[name])
    x = x if x is not None else free.pop(0)
    return x, (y if y is not None else free.pop(0))


_UNITS = {"time": "us", "us": "us", "GB/s": "GB/s", "TFLOP/s": "TFLOP/s"}


def lines_data(tunings: Tunings, y: str = "time", others: Sequence[Tunings] = ()) -> LinesData:
    """Return the plot over sizes: fastest configs and baselines, against the only key. Raises
    ArgumentError: not exactly one numeric key, no times or work, or several kinds of GPU.
    """
    if not is_one_of(y, _UNITS):
        raise ArgumentError(f'y must be "time", "GB/s" or "TFLOP/s", got {shown(y)}.')
    groups = [tunings, *others]
    every = [tuning for group in groups for tuning in group]
    keys = {tuple(tuning.key) for tuning in every}
    if len(keys) != 1 or len(next(iter(keys))) != 1:
        raise ArgumentError(
            "A plot over sizes needs sweeps that all have the same single key, got "
            f"{'; '.join(sorted(', '.join(key) or 'no key' for key in keys)) or 'no key'}.",
            advice='Sweep each size with key="n", and pass the sweeps to kernellab.Tunings([...]).',
        )
    gpus = {tuning.machine.gpu for tuning in every}
    if len(gpus) != 1:
        raise ArgumentError(
            f"These sweeps are of several GPUs: {', '.join(sorted(gpus))}.",
            advice="Pass the sweeps of one GPU.",
        )
    ((name,),) = keys
    if any(not _is_size(tuning.key[name]) for tuning in every):
        raise ArgumentError(
            f"A plot over sizes needs a key whose values are numbers, but not all of {name!r} are."
        )
    lines: list[PlotLine] = []
    for group in groups:
        lines += _lines(group, name, _UNITS[y], alone=len(groups) == 1)
    kernels = ", ".join(dict.fromkeys(group[0].kernel for group in groups if len(group)))
    return LinesData("sizes", kernels, gpus.pop(), name, _UNITS[y], lines)


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e15


def _lines(tunings: Tunings, key: str, unit: str, alone: bool) -> list[PlotLine]:
    ordered = sorted(tunings, key=lambda tuning: float(tuning.key[key]))
    best = [tuning.best.timing for tuning in ordered]
    lines = [_line(tunings[0].kernel, False, ordered, best, key, unit)]
    for name in dict.fromkeys(name for tuning in ordered for name in tuning.baselines):
        having = [tuning for tuning in ordered if name in tuning.baselines]
        times = [tuning.baselines[name] for tuning in having]
        label = name if alone else f"{name} ({tunings[0].kernel})"
        lines.append(_line(label, True, having, times, key, unit))
    return lines


def _line(
    name: str,
    is_baseline: bool,
    tunings: Sequence[Tuning],
    times: Sequence[records.Timing | None],
    key: str,
    unit: str,
) -> PlotLine:
    amounts = [
        [_amount(tuning, timing, part, unit) for part in ("median", "lower", "upper")]
        for tuning, timing in zip(tunings, times)
    ]
    return PlotLine(
        name=name,
        is_baseline=is_baseline,
        x=[float(tuning.key[key]) for tuning in tunings],
        y=[median for median, *_ in amounts],
        lower=[min(quartiles) for _, *quartiles in amounts],
        upper=[max(quartiles) for _, *quartiles in amounts],
        warm=[timing is not None and timing.method == "graph" for timing in times],
    )


def _amount(tuning: Tuning, timing: records.Timing | None, part: str, unit: str) -> float:
    assert timing is not None
    at = records.Timing(getattr(timing, part), 0, 0, 0, 0, timing.method)
    if unit == "us":
        return at.median * records.MICROSECONDS
    rate = records.achieved(tuning, at).get(unit)
    if rate is None:
        raise ArgumentError(
            f"{unit} of {tuning.kernel!r} is not known: "
            f"{tuning.work.bytes_from if unit == 'GB/s' else tuning.work.flops_from}.",
            advice="Pass what a launch moves and computes to kernellab.tune: bytes=, flops=.",
        )
    return rate
