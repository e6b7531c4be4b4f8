"""The view of sweeps: plots and table, linked, and the IR explorer of each config."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from kernellab.common.arguments import at_most, is_whole
from kernellab.common.progress import ProgressBar
from kernellab.common.text import shown
from kernellab.compiler.compare import compare
from kernellab.compiler.compilations import Compilation
from kernellab.errors import ArgumentError, CompileError
from kernellab.profiling.estimates.model import MEDIAN_ERROR
from kernellab.tuning import plot_data
from kernellab.tuning.files import Named
from kernellab.tuning.records import (
    MICROSECONDS,
    Trial,
    achieved,
    by_compiler,
    format_value,
    how_to_open,
    tied_with_best,
    timed,
)
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings, beside
from kernellab.viz import performance
from kernellab.viz.explorer_data import IrView, PassPairData, lightened
from kernellab.viz.explorer_sides import explore_compilation, explore_failure, noted, pass_pairs
from kernellab.viz.kit.data import Answer, Handler, ViewData, as_json, packed
from kernellab.viz.kit.view import View, view_of

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
        estimate_error=MEDIAN_ERROR,
        opened=(),
        pairs=(),
    )


def sweep_name(tuning: Tuning, beside: Sequence[Tuning]) -> str:
    """Return what distinguishes a sweep from those beside it."""
    key = ", ".join(f"{name}={value}" for name, value in tuning.key.items())
    key = key or plot_data.format_launch(tuning)
    return f"{tuning.kernel}, {key}" if len({sweep.kernel for sweep in beside}) > 1 else key


def _sweep(tuning: Tuning, name: str) -> SweepData:
    configs = [trial.candidate.values for trial in tuning.trials]
    untimed = f"{performance.format_untimed(tuning)}."
    if tuning.trials:
        untimed += f" The configs are sorted by {performance.untimed_order(tuning)}."
    return SweepData(
        kernel=tuning.kernel,
        name=name,
        machine=(
            f"{tuning.machine.gpu or f'compiled for {tuning.target}, no GPU'}; "
            f"{tuning.machine.versions}"
        ),
        launch=plot_data.format_launch(tuning),
        answer=performance.sweep_answer(tuning),
        words=(*([] if tuning.is_timed else [untimed]), *performance.format_sweep(tuning)),
        parameters=tuple(_parameters(tuning)),
        varying=tuple(plot_data.varying_parameters(configs)),
        baselines=plot_data.baseline_times(tuning),
        knows_kernel=tuning.knows_kernel,
        how_to_open=""
        if tuning.knows_kernel
        else how_to_open(tuning.kernel, tuning.source, ".show()"),
        space=_space_to_measure(tuning),
    )


def _space_to_measure(tuning: Tuning) -> str:
    """The configs to measure first as a line of Python; "" if there are none. Texts of a file
    that stand for values are not Python that a reader should run.
    """
    candidates = [
        trial.candidate.values
        for trial in performance.to_measure(tuning)
        if not any(isinstance(value, Named) for value in trial.candidate.values.values())
    ]
    if not candidates:
        return ""
    lines = "".join(f"    {candidate!r},\n" for candidate in candidates)
    return f"space = [  # tuning.candidates({len(candidates)})\n{lines}]\n"


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
    for trial in performance.to_measure(tuning):
        standings[trial.number] = "candidate"
    order = {trial.number: rank for rank, trial in enumerate(by_compiler(tuning.trials))}
    return [
        _config(tuning, trial, sweep, names, standings, order.get(trial.number, len(order)))
        for trial in tuning.trials
    ]


def _config(
    tuning: Tuning,
    trial: Trial,
    sweep: int,
    names: Sequence[str],
    standings: Mapping[int, Standing],
    untimed_rank: int,
) -> ConfigData:
    timing, compiled, dropped = trial.timing, trial.outcome.compiled, trial.outcome.dropped
    # Without times no rate is wanted, and what a launch moves need not be counted.
    rates = {} if timing is None else achieved(tuning, timing)
    standing: Standing = standings.get(trial.number, "behind" if timing else "untimed")
    return ConfigData(
        sweep=sweep,
        number=trial.number,
        values=tuple(_value(trial.candidate.values, name) for name in names),
        standing="dropped" if dropped else standing,
        us=timing.median * MICROSECONDS if timing else None,
        lower=timing.lower * MICROSECONDS if timing else None,
        upper=timing.upper * MICROSECONDS if timing else None,
        runs=timing.runs if timing else 0,
        gb_per_s=rates.get("GB/s"),
        tflop_per_s=rates.get("TFLOP/s"),
        estimate=compiled.estimated if compiled else None,
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
        untimed_rank=untimed_rank,
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
    before, firsts = 0, list[int | None]()
    for sweep in sweeps:
        best = sweep.best if sweep.is_timed else None
        firsts.append(None if best is None else before + sweep.trials.index(best))
        before += len(sweep.trials)
    for unit in UNITS:
        try:
            drawn = plot_data.lines_data(groups[0], unit, groups[1:])
        except ArgumentError as error:
            problems.append(f"There is no plot of {unit} over sizes. {error.problem}")
            continue
        lines = [_size_line(line, drawn.key, sweeps, firsts) for line in drawn.lines]
        sizes.append(SizesData(drawn.key, drawn.unit, tuple(lines)))
    return sizes, "" if sizes else problems[0]


def _size_line(
    line: plot_data.PlotLine,
    key: str,
    sweeps: Sequence[Tuning],
    firsts: Sequence[int | None],
) -> SizeLine:
    configs = {
        float(sweep.key[key]): first
        for sweep, first in zip(sweeps, firsts)
        if sweep.kernel == line.name and not line.is_baseline
    }
    points = zip(line.x, line.y, line.lower, line.upper, line.warm, strict=True)
    return SizeLine(
        name=line.name,
        is_baseline=line.is_baseline,
        points=tuple(SizePoint(*point, configs.get(point[0])) for point in points),
    )


Standing = Literal["best", "tied", "behind", "candidate", "untimed", "dropped"]
"""Of a config: fastest, as fast within noise, slower, to measure first, never timed, dropped."""


@dataclass(frozen=True)
class ConfigData:
    """One config of a sweep, and all that is known about it; times in microseconds or None."""

    sweep: int
    """Number in `TuningView.sweeps`."""
    number: int
    """Its number in the sweep, as the table has it."""
    values: tuple[float | str | None, ...]
    """By `SweepData.parameters`; None if the config has no such parameter."""
    standing: Standing
    us: float | None
    lower: float | None
    """The lower quartile."""
    upper: float | None
    """The upper quartile."""
    runs: int
    gb_per_s: float | None
    tflop_per_s: float | None
    estimate: float | None
    """The estimated time, whose median error is `TuningView.estimate_error`."""
    registers: int | None
    spills: int | None
    shared: int | None
    occupancy: float | None
    limited_by: str
    matrix: str
    checked: str
    """The results that its own were found equal to; "" if they were not compared."""
    unchecked: str
    """Why no one could; "" for others."""
    dropped: str
    """The reason; "" for one that is in the race."""
    why: str
    """In full, its error message."""
    untimed_rank: int
    """Its place where nothing was timed; see `ranking.by_compiler`."""


@dataclass(frozen=True)
class SweepData:
    """What the configs of one sweep share."""

    kernel: str
    name: str
    """The key's values, which distinguish it from other sweeps."""
    machine: str
    launch: str
    answer: str
    """The fastest config, or the one with the lowest estimate; "" if nothing is known."""
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
    space: str
    """The configs to measure first, to be pasted where there is a GPU; "" for none."""


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
    estimate_error: float
    """The median of |estimate / time - 1|."""
    opened: tuple[OpenedConfig, ...]
    pairs: tuple[ConfigPair, ...]

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """The explorers apart."""
        return self, [config.explorer for config in self.opened]


_EMBEDDED = 750_000
"""Bytes of packed explorers in a page or widget; beyond it, the largest texts are left out."""

_SENT = 1_000_000
"""Bytes of an explorer that the kernel sends at once."""

_EXPLORERS_KEPT = 4
"""Each has every text, some of megabytes."""

SIZES = "sizes"
"""The kind of plot that several sweeps have besides those of one."""


def _numbers(compilations: Any) -> list[int]:
    numbers = at_most(compilations)
    if numbers is None or not all(map(is_whole, numbers)):
        raise ArgumentError(
            f"compilations must be a list of numbers of configs, such as [0, 3], got "
            f"{shown(compilations)}."
        )
    return numbers


class SweepView(View):
    """Sweeps to explore; the live view compiles the configs that a reader opens."""

    def __init__(
        self,
        title: str,
        plot: str,
        groups: Sequence[Tunings],
        compilations: Sequence[tuple[int, int]] | None,
    ) -> None:
        """
        Args:
            plot: the kind that is shown first.
            compilations: (place of a sweep, number of a config) whose IR a page holds; None for the
                fastest and those that were compiled already.

        Raises:
            ArgumentError: no such config, or its kernel is not known.
        """
        super().__init__(title, self._live_data, self._cards)
        self._plot = plot
        self._groups = groups
        self._sweeps = [tuning for group in groups for tuning in group]
        self._configs = Configs(self._sweeps)
        self._chosen: list[int] | None = None
        if compilations is not None:
            self._chosen = [self._configs.place(*compilation) for compilation in compilations]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {
            "config": self._configs.explorer_answer,
            "config text": self._configs.text_answer,
            "pair": self._configs.pair_answer,
        }

    def _bare_data(self) -> TuningView:
        sizes, problem = list[SizesData](), ""
        if len(self._sweeps) > 1:
            sizes, problem = sizes_data(self._groups, self._sweeps)
        plot = self._plot if sizes or self._plot != SIZES else plot_data.KINDS[0]
        return sweeps_data(self.title, plot, self._sweeps, sizes, [problem] if problem else [])

    def _live_data(self) -> TuningView:
        chosen = self._configs.compiled() if self._chosen is None else self._chosen
        return self._configs.opened(self._bare_data(), chosen)

    def packed_data(self) -> bytes:
        """Return what a page holds, which has no kernel to compile more."""
        chosen = self._configs.worth_a_page() if self._chosen is None else self._chosen
        return packed(self._configs.opened(self._bare_data(), chosen))

    def _cards(self) -> list[Any]:
        if len(self._sweeps) == 1:
            return [performance.still_card(self._sweeps[0])]
        return [performance.still_card_of_all(group) for group in self._groups]


@view_of.register
def tuning_view(
    tuning: Tuning, plot: str | None = None, compilations: Sequence[int] | None = None
) -> SweepView:
    """The view of one sweep; `Tuning.show` explains the arguments."""
    plot = plot_data.default_kind(tuning) if plot is None else plot
    plot_data.check_kind(plot)
    numbers = None if compilations is None else _numbers(compilations)
    chosen = None if numbers is None else [(0, number) for number in numbers]
    return SweepView(tuning.kernel, plot, [Tunings([tuning])], chosen)


@view_of.register
def tunings_view(
    tunings: Tunings,
    plot: str = SIZES,
    others: Sequence[Tunings] = (),
    compilations: Sequence[tuple[int, int]] = (),
) -> SweepView:
    """The view of several sweeps; `Tunings.show` explains the arguments."""
    groups = [group for group in (tunings, *beside(others)) if len(group)]
    if not groups:
        raise ArgumentError(
            "There is no sweep to show.", advice="Sweep the kernel with kernellab.tune first."
        )
    plot_data.check_kind(plot, (*plot_data.KINDS, SIZES))
    kernels = ", ".join(dict.fromkeys(group[0].kernel for group in groups))
    return SweepView(kernels, plot, groups, _pairs(compilations))


def _pairs(compilations: Any) -> list[tuple[int, int]]:
    items = at_most(compilations)
    if items is None or not all(
        isinstance(item, tuple | list) and len(item) == 2 and all(map(is_whole, item))
        for item in items
    ):
        raise ArgumentError(
            "compilations must be pairs of the place of a sweep and the number of a config, "
            f"such as [(0, 3)], got {shown(compilations)}."
        )
    return items


class Configs:
    """The configs of several sweeps, counted through, and what the IR explorer draws of them."""

    def __init__(self, sweeps: Sequence[Tuning]) -> None:
        self._sweeps = list(sweeps)
        self._places = [
            (number, trial) for number, sweep in enumerate(sweeps) for trial in sweep.trials
        ]
        self._explorers: dict[int, IrView] = {}

    def place(self, sweep: int, number: int) -> int:
        """The place of a config among all. Raises ArgumentError: there is no such sweep or config,
        or its kernel is not known.
        """
        if not 0 <= sweep < len(self._sweeps):
            raise ArgumentError(
                f"There is no sweep {sweep!r}: the last sweep is {len(self._sweeps) - 1}.",
                advice="The first sweep has the number 0.",
            )
        tuning = self._sweeps[sweep]
        trial = tuning.trial(number)
        if not tuning.knows_kernel:
            raise ArgumentError(
                f"This sweep of {tuning.kernel!r} was read from a file, which does not hold the "
                f"kernel, so config {number} cannot be compiled.",
                advice=how_to_open(tuning.kernel, tuning.source),
            )
        before = sum(len(earlier.trials) for earlier in self._sweeps[:sweep])
        return before + tuning.trials.index(trial)

    def compiled(self) -> list[int]:
        """The places of configs that were compiled already."""
        return [
            place
            for place, (sweep, trial) in enumerate(self._places)
            if trial.number in self._sweeps[sweep].compiled
        ]

    def worth_a_page(self) -> list[int]:
        """The fastest of an only sweep, and what was compiled already."""
        chosen = self.compiled()
        sweep = self._sweeps[0]
        if len(self._sweeps) == 1 and sweep.knows_kernel:
            standing = sweep.ranked or [trial for trial in sweep.trials if not trial.is_dropped]
            chosen += [sweep.trials.index(trial_number) for trial_number in standing[:1]]
        return sorted(set(chosen))

    def opened(self, view: TuningView, chosen: Sequence[int]) -> TuningView:
        """The view with the explorers of some configs, and what comparing them takes."""
        places = list(dict.fromkeys(chosen))
        most_bytes = _EMBEDDED // max(1, len(places))
        kept = []
        with ProgressBar(f"compile {view.title} to show it", len(chosen), "configs") as work:
            for part, place in enumerate(places, 1):
                kept.append(OpenedConfig(place, part, lightened(self._explorer(place), most_bytes)))
                work.advance()
            pairs = [
                self._pair(*pair)
                for pair in itertools.combinations(places, 2)
                if all(map(self._compiles, pair))
            ]
        return dataclasses.replace(view, opened=tuple(kept), pairs=tuple(pairs))

    def explorer_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "config"."""
        return Answer({}, [lightened(self._explorer(int(request["config"])), _SENT)])

    def text_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "config text": a text too large to send with its explorer."""
        side = self._explorer(int(request["config"])).sides[0]
        return Answer({"text": side.texts[request["text"]].content})

    def pair_answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to the request "pair"."""
        pair = self._pair(int(request["left"]), int(request["right"]))
        return Answer({"pairs": as_json(pair.pairs)})

    def _compilation(self, place: int) -> Compilation:
        sweep, trial = self._places[place]
        return self._sweeps[sweep].compilation(trial.number)

    def _compiles(self, place: int) -> bool:
        try:
            self._compilation(place)
        except CompileError:
            return False
        return True

    def _explorer(self, place: int) -> IrView:
        """A config's explorer; of one that does not compile, up to the pass that failed."""
        if place not in self._explorers:
            while len(self._explorers) >= _EXPLORERS_KEPT:
                del self._explorers[next(iter(self._explorers))]
            try:
                explorer = explore_compilation(self._compilation(place))
            except CompileError as error:
                explorer = explore_failure(error)
            sweep = self._sweeps[self._places[place][0]]
            sides = tuple(noted(side, sweep.recompiled) for side in explorer.sides)
            self._explorers[place] = dataclasses.replace(explorer, sides=sides)
        return self._explorers[place]

    def _pair(self, left: int, right: int) -> ConfigPair:
        compared = compare(self._compilation(left), self._compilation(right))
        return ConfigPair(left, right, pass_pairs(compared))
