"""What a sweep's plots show, as plain data that fits into JSON:
stills and widgets draw the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernellab.common.argument_checks import is_text
from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError, suggestion
from kernellab.tuning.results.ranking import tied_with_best, timed
from kernellab.tuning.results.records import Timing, Trial
from kernellab.tuning.results.tables import MICROSECONDS, achieved
from kernellab.tuning.results.tuning import Tuning
from kernellab.tuning.results.tunings import Tunings
from kernellab.tuning.results.value_formatting import format_value

AGAINST = {
    "occupancy": "occupancy",
    "registers": "registers of a thread",
    "spills": "spilled bytes of a thread",
    "shared": "shared memory of a program, bytes",
}
"""Kinds of plots that draw time against a resource, and the axis' words."""

KINDS = ("times", "heatmap", "parallel", *AGAINST)


@dataclass(frozen=True)
class CompiledPoint:
    """One config, and what the compiler says of it."""

    config: int
    label: str
    values: Mapping[str, Any]
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
    """Whether it cannot be told from the fastest, or is it."""


@dataclass(frozen=True)
class PlotData:
    """A plot of one sweep."""

    kind: str
    title: str
    subtitle: str
    points: Sequence[Point]
    """The fastest first."""
    baselines: Mapping[str, float]
    """Name -> microseconds."""
    varying: Sequence[str]
    """The parameters that have more than one value, in the order of the config."""
    axes: Sequence[str] = ()
    """Of a heat map, the two parameters; of parallel coordinates, all that vary."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class UntimedData:
    """A plot of a sweep in which nothing was timed: a resource of each config."""

    kind: str
    """One of AGAINST."""
    title: str
    subtitle: str
    points: Sequence[CompiledPoint]
    """In the order of the sweep."""
    varying: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Line:
    """One kernel, or one baseline, over the key."""

    name: str
    is_baseline: bool
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]
    warm: Sequence[bool]
    """Of each point, whether it was measured in a row, with a warm cache:
    no such rate lasts for tensors from memory."""


@dataclass(frozen=True)
class LinesData:
    """A plot of several sweeps against their key."""

    kind: str
    title: str
    subtitle: str
    key: str
    unit: str
    """ "us", "GB/s" or "TFLOP/s"."""
    lines: Sequence[Line]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


# One sweep


def plot_data(tuning: Tuning, kind: str, x: str | None = None, y: str | None = None) -> PlotData:
    """What a plot of a sweep shows.

    Args:
        tuning: timed.
        kind: one of KINDS.
        x, y: parameters of a heat map; None takes the two that vary most.

    Raises:
        ArgumentError: no such kind, nothing was timed, no such parameters, or nothing varies
            that could be drawn.
    """
    check_kind(kind)
    if not tuning.is_timed:
        _compiled_trials(tuning)
        raise ArgumentError(
            f"nothing of this sweep of {tuning.kernel!r} was timed, so there is no plot of "
            f"kind {kind!r}",
            advice=(
                f"Without times there are {', '.join(AGAINST)}. Times need a GPU, or a saved "
                "sweep: kernellab.Tuning.load(path)."
            ),
        )
    tied = {one.number for one in tied_with_best(tuning.trials)}
    points = [_point(one, one.number in tied) for one in timed(tuning.trials)]
    varying = varying_parameters([one.values for one in points])
    axes: Sequence[str] = ()
    if kind == "heatmap":
        axes = _two_axes(points, x, y)
    elif kind == "parallel":
        if not varying:
            raise ArgumentError(
                "parallel coordinates need a parameter that varies, and here nothing does"
            )
        axes = varying
    return PlotData(
        kind=kind,
        title=tuning.kernel,
        subtitle=f"{tuning.machine.gpu}; {format_launch(tuning)}; {_how(timed(tuning.trials))}",
        points=points,
        baselines=baseline_times(tuning),
        varying=varying,
        axes=axes,
    )


def check_kind(kind: str) -> None:
    """Raises ArgumentError where no sweep has a plot of that kind."""
    if not is_text(kind) or kind not in KINDS:
        raise ArgumentError(
            f"a sweep has no plot of kind {shown(kind)}",
            advice=suggestion(kind, KINDS, "Kinds:"),
        )


def default_kind(tuning: Tuning) -> str:
    """The kind of plot that a sweep shows first: without times resources are all that is known."""
    return "times" if tuning.is_timed else "registers"


def untimed_data(tuning: Tuning, kind: str) -> UntimedData:
    """What a plot shows of a sweep in which nothing was timed.

    Args:
        tuning: whose configs were compiled.
        kind: one of AGAINST.

    Raises:
        ArgumentError: no config compiles.
    """
    compiled = _compiled_trials(tuning)
    launch = format_launch(tuning)
    return UntimedData(
        kind=kind,
        title=tuning.kernel,
        subtitle="; ".join(filter(None, (str(tuning.target), launch, "nothing was timed"))),
        points=[CompiledPoint(**_compiled(one)) for one in compiled],
        varying=varying_parameters([one.candidate.values for one in compiled]),
    )


def _compiled_trials(tuning: Tuning) -> list[Trial]:
    """The configs of which the compiler has said something.

    Raises:
        ArgumentError: there is none.
    """
    compiled = [one for one in tuning.trials if one.outcome.compiled and not one.is_dropped]
    if compiled:
        return compiled
    raise ArgumentError(
        f"no config of this sweep of {tuning.kernel!r} was timed or compiled, so there is "
        "nothing to draw",
        advice="tuning.table says what became of each.",
    )


def _how(trials: Sequence[Trial]) -> str:
    return " or ".join(dict.fromkeys(one.timing.how for one in trials if one.timing is not None))


def baseline_times(tuning: Tuning) -> dict[str, float]:
    """Name -> microseconds; the name says how it was timed where that is another way
    than the fastest config's.
    """
    return {
        _format_baseline(name, one, tuning): one.median * MICROSECONDS
        for name, one in tuning.baselines.items()
    }


def _format_baseline(name: str, timing: Timing, tuning: Tuning) -> str:
    best = tuning.ranked[0].timing if tuning.is_timed else None
    return name if best is None or best.method == timing.method else f"{name} ({timing.how})"


def format_launch(tuning: Tuning) -> str:
    """What was launched, in a few words: the key's values, else the tensors' types."""
    if tuning.key:
        return ", ".join(f"{name}={value}" for name, value in tuning.key.items())
    tensors = [words for words in tuning.arguments.values() if "[" in words]
    return ", ".join(dict.fromkeys(tensors))


def _point(trial: Trial, tied: bool) -> Point:
    timing = trial.timing
    assert timing is not None
    return Point(
        us=timing.median * MICROSECONDS,
        lower=timing.lower * MICROSECONDS,
        upper=timing.upper * MICROSECONDS,
        tied=tied,
        **_compiled(trial),
    )


def _compiled(trial: Trial) -> dict[str, Any]:
    """The fields of a `CompiledPoint`."""
    compiled = trial.outcome.compiled
    known = None if compiled is None else compiled.resources
    return {
        "config": trial.number,
        "label": str(trial.candidate),
        "values": {name: _plain(value) for name, value in trial.candidate.values.items()},
        "occupancy": None
        if compiled is None or math.isnan(compiled.occupancy)
        else compiled.occupancy,
        "registers": None if known is None else known.registers,
        "spills": None if known is None else known.spills,
        "shared": None if known is None else known.shared_bytes,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else format_value(value)


def varying_parameters(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parameters that have more than one value, in the order of the config."""
    names = dict.fromkeys(name for values in configs for name in values)
    return [name for name in names if len({repr(values.get(name)) for values in configs}) > 1]


def _two_axes(points: Sequence[Point], x: str | None, y: str | None) -> tuple[str, str]:
    names = varying_parameters([one.values for one in points])
    for given in (x, y):
        if given is not None and given not in names:
            raise ArgumentError(
                f"{given!r} is no parameter that varies in this sweep",
                advice=suggestion(given, names, "It varies"),
            )
    if x is not None and x == y:
        others = [name for name in names if name != x]
        raise ArgumentError(
            f"a heat map needs two parameters, and x and y are both {x!r}",
            advice=suggestion("", others, "Beside it vary")
            if others
            else "Nothing else varies here.",
        )
    if len(names) < 2:
        raise ArgumentError(
            "a heat map needs two parameters that vary, and here "
            f"{' and '.join(names) or 'nothing'} does"
        )
    counts = {name: len({repr(one.values.get(name)) for one in points}) for name in names}
    free = sorted((name for name in names if name not in (x, y)), key=lambda name: -counts[name])
    x = x if x is not None else free.pop(0)
    return x, (y if y is not None else free.pop(0))


# Several sweeps

_UNITS = {"time": "us", "us": "us", "GB/s": "GB/s", "TFLOP/s": "TFLOP/s"}


def lines_data(tunings: Tunings, y: str = "time", others: Sequence[Tunings] = ()) -> LinesData:
    """What a plot over sizes shows: each kernel's fastest config, and the baselines,
    against the only key.

    Raises:
        ArgumentError: sweeps without exactly one key that is a number, untimed ones, GPUs of
            several kinds, or work that is not known.
    """
    if not is_text(y) or y not in _UNITS:
        raise ArgumentError(f"y={shown(y)} is none of time, GB/s and TFLOP/s")
    groups = [tunings, *others]
    every = [one for group in groups for one in group]
    keys = {tuple(one.key) for one in every}
    if len(keys) != 1 or len(next(iter(keys))) != 1:
        raise ArgumentError(
            "a plot over sizes needs sweeps with one key, the same for all",
            advice='Sweep with key="n" for each size: kernellab.Tunings([...]).',
        )
    gpus = {one.machine.gpu for one in every}
    if len(gpus) != 1:
        raise ArgumentError(f"these sweeps are of several GPUs: {', '.join(sorted(gpus))}")
    ((name,),) = keys
    if any(not _is_size(one.key[name]) for one in every):
        raise ArgumentError(f"a plot over sizes needs numbers, and {name!r} has others")
    lines: list[Line] = []
    for group in groups:
        lines += _lines(group, name, _UNITS[y], alone=len(groups) == 1)
    kernels = ", ".join(dict.fromkeys(group[0].kernel for group in groups if len(group)))
    return LinesData("sizes", kernels, gpus.pop(), name, _UNITS[y], lines)


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e15


def _lines(tunings: Tunings, key: str, unit: str, alone: bool) -> list[Line]:
    ordered = sorted(tunings, key=lambda one: float(one.key[key]))
    found = [
        _line(tunings[0].kernel, False, ordered, [one.best.timing for one in ordered], key, unit)
    ]
    for name in dict.fromkeys(name for one in ordered for name in one.baselines):
        having = [one for one in ordered if name in one.baselines]
        times = [one.baselines[name] for one in having]
        label = name if alone else f"{name} ({tunings[0].kernel})"
        found.append(_line(label, True, having, times, key, unit))
    return found


def _line(
    name: str,
    is_baseline: bool,
    tunings: Sequence[Tuning],
    times: Sequence[Timing | None],
    key: str,
    unit: str,
) -> Line:
    amounts = [
        [_amount(one, timing, part, unit) for part in ("median", "lower", "upper")]
        for one, timing in zip(tunings, times)
    ]
    return Line(
        name=name,
        is_baseline=is_baseline,
        x=[float(one.key[key]) for one in tunings],
        y=[one[0] for one in amounts],
        lower=[min(one[1:]) for one in amounts],
        upper=[max(one[1:]) for one in amounts],
        warm=[timing is not None and timing.method == "graph" for timing in times],
    )


def _amount(tuning: Tuning, timing: Timing | None, part: str, unit: str) -> float:
    assert timing is not None
    at = Timing(getattr(timing, part), 0, 0, 0, 0, timing.method)
    if unit == "us":
        return at.median * MICROSECONDS
    rate = achieved(tuning, at).get(unit)
    if rate is None:
        raise ArgumentError(
            f"{unit} of {tuning.kernel!r} is not known: "
            f"{tuning.work.bytes_from if unit == 'GB/s' else tuning.work.flops_from}",
            advice="Say what a launch moves and computes: bytes=, flops=.",
        )
    return rate
