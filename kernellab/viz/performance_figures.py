"""Sweeps, flame graphs, timelines of warps, and rooflines, drawn by matplotlib."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogFormatter, PercentFormatter, StrMethodFormatter

from kernellab.common.arguments import is_one_of
from kernellab.common.text import counted, percent, shown, time_text
from kernellab.errors import ArgumentError, OptionError
from kernellab.profiling.estimates.estimate import Roofline
from kernellab.profiling.estimates.model import MEDIAN_ERROR
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfileRecord, Scope, Timeline
from kernellab.tuning.plot_data import (
    AGAINST,
    CompiledPoint,
    LinesData,
    PlotData,
    Point,
    UntimedData,
    check_kind,
    default_kind,
    lines_data,
    plot_data,
    untimed_data,
)
from kernellab.tuning.tuning import Tuning
from kernellab.tuning.tunings import Tunings, beside
from kernellab.viz.kit.figure import (
    ORDERED_LINES,
    SEQUENTIAL,
    FigurePicture,
    figure_of,
    label,
    sheet,
)
from kernellab.viz.kit.palette import BASELINE, BEST, BLIND_SAFE, INK, LINES, OTHER, ink_on

WIDE = 5
"""Times further apart than this factor are drawn on a logarithmic axis."""

MOST_ROWS = 60
"""Configs that a plot with a row for each shows: the fastest."""

MOST_LINES = 300
"""Configs that a plot with a line for each shows: the fastest."""

MOST_AXES, MOST_VALUES = 12, 20
"""Parameters side by side, and values of one that are written: a sweep that somebody saved may
have any number of each, and every word of a picture takes milliseconds.
"""

MOST_CURVES = 16
"""Most baselines, or kernels and baselines over sizes: more cannot be distinguished."""


class TuningPlot(FigurePicture):
    """A plot: a picture where it is displayed, with the data behind it.

    Attributes:
        data: what is drawn; `data.to_json()` for other programs.
    """

    def __init__(
        self, data: PlotData | UntimedData | LinesData, draw: Callable[[Any], Figure]
    ) -> None:
        self.data = data
        self._drawn_by = draw

    def _draw(self) -> Figure:
        return self._drawn_by(self.data)

    def __repr__(self) -> str:
        return f"<plot of {self.data.title}: {self.data.kind}>"


@figure_of.register
def tuning_plot(
    tuning: Tuning, kind: str | None = None, x: str | None = None, y: str | None = None
) -> TuningPlot:
    """The plot of a sweep: see `Tuning.plot`."""
    kind = default_kind(tuning) if kind is None else kind
    check_kind(kind)
    if kind in AGAINST and not tuning.is_timed:
        return TuningPlot(untimed_data(tuning, kind), _draw_untimed)
    drawers = {"times": _draw_times, "heatmap": _draw_heatmap, "parallel": _draw_parallel}
    return TuningPlot(plot_data(tuning, kind, x, y), drawers.get(kind, _draw_against))


@figure_of.register
def tunings_plot(
    tunings: Tunings, kind: str, y: str = "time", others: Sequence[Tunings] = ()
) -> TuningPlot:
    """The plot of several sweeps: see `Tunings.plot`."""
    if not is_one_of(kind, ["sizes"]):
        raise ArgumentError(
            f"Several sweeps have no plot of kind {shown(kind)}.",
            advice='Pass kind="sizes", or plot a single sweep: tunings[0].plot("times").',
        )
    return TuningPlot(lines_data(tunings, y, beside(others)), _draw_lines)


# Drawing


_LETTERS = 15
"""Of a subtitle, in an inch."""

_MOST_LINES = 12
"""Of a subtitle."""


def _not_shown(shown: int, there: int, noun: str) -> str:
    return f"; {there - shown:,} {noun} not shown" if there > shown else ""


def _paper(title: str, subtitle: str, width: float, height: float) -> tuple[Figure, Axes]:
    """A sheet whose subtitle has as many lines as it needs; axis labels take some of the width."""
    letters = int((width - 0.6) * _LETTERS)
    lines = [short for line in subtitle.split("\n") for short in textwrap.wrap(line, letters)]
    lines = lines[:_MOST_LINES]
    return sheet(label(title), "\n".join(lines), width, height + 0.13 * (len(lines) - 1))


def _logarithmic_if_wide(axes: Axes, points: Sequence[Point], which: str) -> None:
    times = [point.us for point in points]
    if max(times) > WIDE * min(times):
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        _plain_numbers(axes.xaxis if which == "x" else axes.yaxis)


def _plain_numbers(axis: Axis) -> None:
    """200, not two times ten to the second."""
    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def _baselines(data: PlotData, line: Callable[..., Any]) -> None:
    for name, time in itertools.islice(data.baselines.items(), MOST_CURVES):
        line(
            time,
            color=BASELINE,
            linewidth=1.2,
            linestyle="--",
            label=f"{label(name)}, {time_text(time, 4)}",
        )


def _baselines_not_shown(data: PlotData) -> str:
    return _not_shown(MOST_CURVES, len(data.baselines), "baselines")


def _legend(axes: Axes, **where: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**where)


_FEW_ROWS = 6

_STANDINGS = ((True, BEST, "the fastest, and those tied with it"), (False, OTHER, None))
"""Whether points are tied with the fastest, their color, and the words of the legend."""


def _draw_times(data: PlotData) -> Figure:
    points = list(data.points)[:MOST_ROWS]
    few = _not_shown(len(points), len(data.points), "slower configs") + _baselines_not_shown(data)
    figure, axes = _paper(data.title, data.subtitle + few, 7, max(2.4, 1.4 + 0.155 * len(points)))
    for tied, color, words in _STANDINGS:
        rows = [row for row, point in enumerate(points) if point.tied is tied]
        if rows:
            chosen = [points[row] for row in rows]
            lower = [point.us - point.lower for point in chosen]
            upper = [point.upper - point.us for point in chosen]
            axes.errorbar(
                [point.us for point in chosen],
                rows,
                xerr=[lower, upper],
                fmt="o",
                color=color,
                markersize=3.5,
                elinewidth=1,
                capsize=2,
                label=words,
            )
    _baselines(data, axes.axvline)
    _a_row_each(axes, points, data.varying)
    axes.set_xlabel("us, median and quartiles")
    _logarithmic_if_wide(axes, points, "x")
    # The slowest are below on the right; among a few rows there may be none below.
    _legend(axes, loc="upper right" if len(points) > _FEW_ROWS else "best")
    return figure


def _a_row_each(axes: Axes, points: Sequence[CompiledPoint], varying: Sequence[str]) -> None:
    """Draw a row for each config, named by the values that distinguish it from the others."""
    names = varying or list(points[0].values)
    labels = [
        label(", ".join(str(point.values.get(name, "")) for name in names)) for point in points
    ]
    axes.set_yticks(range(len(points)), labels, fontsize=7)
    axes.set_ylabel(label(", ".join(names)))
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.grid(axis="y")


def _draw_untimed(data: UntimedData) -> Figure:
    """An estimate or a resource of each config, which is all that is known without a GPU."""
    known = [point for point in data.points if getattr(point, data.kind) is not None]
    most_first = data.kind == "occupancy"  # of all else the less, the better
    known.sort(key=lambda point: float(getattr(point, data.kind)), reverse=most_first)
    points = known[:MOST_ROWS]
    more = len(known) - len(points)
    order = f"by {AGAINST[data.kind]}, the {'highest' if most_first else 'lowest'} on top"
    others = f"; {more} configs with {'less' if most_first else 'more'} not shown" if more else ""
    error = f"; bars: the median error of {MEDIAN_ERROR:.0%}" if data.kind == "estimate" else ""
    subtitle = f"{data.subtitle}; {order}{error}{others}"
    figure, axes = _paper(data.title, subtitle, 7, 1.4 + 0.155 * len(points))
    amounts = [getattr(point, data.kind) for point in points]
    is_estimate = data.kind == "estimate"
    if is_estimate:
        errors = [MEDIAN_ERROR * amount for amount in amounts]
        bars: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 1, "capsize": 2}
        axes.errorbar(amounts, range(len(points)), xerr=errors, **bars)
    axes.hlines(range(len(points)), 0, amounts, color=OTHER, linewidth=1.2, alpha=0.6)
    axes.plot(amounts, range(len(points)), "o", color=OTHER, markersize=3.5)
    for row, amount in enumerate(amounts):
        number = f"{amount:.4g}" if is_estimate else f"{amount:,}"
        written = percent(amount) if most_first else number
        axes.annotate(
            written, (amount * (1 + is_estimate * MEDIAN_ERROR), row), (5, 0),
            textcoords="offset points", va="center", fontsize=7, color=INK,
        )  # fmt: skip
    _a_row_each(axes, points, data.varying)
    axes.set_xlim(0, (1.22 if is_estimate else 1.12) * max([*amounts, 0]) or 1)
    _name_resource(axes, data.kind)
    return figure


def _name_resource(axes: Axes, kind: str) -> None:
    """The axis of a resource, its numbers written as they are in tables."""
    axes.set_xlabel(AGAINST[kind])
    if kind == "occupancy":
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    else:
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _draw_heatmap(data: PlotData) -> Figure:
    across, down = data.axes
    columns, rows = _fast_levels(data.points, across), _fast_levels(data.points, down)
    fastest = {
        (repr(point.values.get(across)), repr(point.values.get(down))): point
        for point in reversed(data.points)
    }
    cells = [[fastest.get((repr(x), repr(y))) for x in columns] for y in rows]
    width, height = max(4.6, 1.6 + 0.75 * len(columns)), 1.6 + 0.42 * len(rows)
    few = "".join(
        _not_shown(len(shown), len(_levels(data.points, name)), f"values of {label(name)}")
        for shown, name in ((columns, across), (rows, down))
    )
    words = (
        f"{data.subtitle}{few}\n"
        "us of the fastest config with these two\n"
        "framed: the fastest of all, and those tied with it"
    )
    figure, axes = _paper(data.title, words, width, height)
    times = [cell.us for line in cells for cell in line if cell is not None]
    norm = LogNorm(min(times), max(times) if max(times) > min(times) else 2 * min(times))
    numbers = [[float("nan") if cell is None else cell.us for cell in line] for line in cells]
    colors = SEQUENTIAL.reversed()
    axes.imshow(numbers, norm=norm, cmap=colors, aspect="auto")
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            if cell is not None:
                ink = ink_on(to_hex(colors(norm(cell.us))))
                weight = "bold" if cell is data.points[0] else "normal"
                written = axes.text(column, row, f"{cell.us:.4g}", ha="center", va="center")
                written.set(fontsize=8, color=ink, fontweight=weight)
                if cell.tied:
                    corner = (column - 0.44, row - 0.4)
                    axes.add_patch(
                        Rectangle(corner, 0.88, 0.8, fill=False, edgecolor=ink, linewidth=1.1)
                    )
    axes.set_xticks(range(len(columns)), [label(value) for value in columns])
    axes.set_yticks(range(len(rows)), [label(value) for value in rows])
    axes.set_xlabel(label(across))
    axes.set_ylabel(label(down))
    return figure


def _levels(points: Sequence[Point], name: str) -> list[Any]:
    """The values of a parameter: numbers by size, others in the order of the sweep."""
    values = [point.values.get(name) for point in sorted(points, key=lambda point: point.config)]
    kept = list({repr(value): value for value in values}.values())
    numbers = all(isinstance(value, int | float) for value in kept)
    return sorted(kept) if numbers else kept


def _fast_levels(points: Sequence[Point], name: str) -> list[Any]:
    """The values of a parameter, in order; of many those of the fastest configs."""
    known = dict.fromkeys(repr(point.values.get(name)) for point in points)
    kept = set(itertools.islice(known, MOST_VALUES))
    return [level for level in _levels(points, name) if repr(level) in kept]


def _draw_parallel(data: PlotData) -> Figure:
    points, parameters = data.points[:MOST_LINES], data.axes[:MOST_AXES]
    names = [*parameters, "us"]
    few = _not_shown(len(points), len(data.points), "slower configs")
    few += _not_shown(len(parameters), len(data.axes), "parameters")
    figure, axes = _paper(
        data.title,
        f"{data.subtitle}{few}\none line a config, from its values to its time, the fastest on top",
        max(4.6, 1.6 * len(names)),
        4.2,
    )
    times = [point.us for point in points]
    wide = max(times) > WIDE * min(times)
    norm = (LogNorm if wide else Normalize)(min(times), max(max(times), 1.001 * min(times)))
    levels = {name: _levels(points, name) for name in parameters}
    for point in reversed(points):
        heights = [_height(levels[name], point.values.get(name)) for name in parameters]
        heights.append(1 - norm(point.us))
        best = point.tied
        axes.plot(
            heights,
            color=BEST if best else ORDERED_LINES(norm(point.us)),
            linewidth=2.2 if best else 0.9,
            alpha=1 if best else 0.6,
        )
    for place, name in enumerate(parameters):
        axes.axvline(place, color=INK, linewidth=0.8)
        for value in _spread(levels[name]):
            # With a background: lines run through it, and what is behind the picture may be
            # white or black.
            axes.text(
                place,
                _height(levels[name], value),
                label(value),
                fontsize=8,
                ha="center",
                va="center",
                color=ink_on(INK),
                bbox={"boxstyle": "round,pad=0.25", "facecolor": INK, "edgecolor": "none"},
                zorder=3,
            )
    axes.axvline(len(names) - 1, color=INK, linewidth=0.8)
    for part in (0.0, 0.5, 1.0):
        value = float(norm.inverse(part))
        axes.text(len(names) - 0.97, 1 - part, f"{value:.4g}", fontsize=8, va="center")
    axes.set_xticks(range(len(names)), [label(name) for name in names])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _spread(levels: Sequence[Any]) -> Sequence[Any]:
    """Values that are written beside an axis: all, or of many some, from the first to the last."""
    step = -(-len(levels) // MOST_VALUES)
    return [*levels[:-1:step], *levels[-1:]]


def _height(levels: Sequence[Any], value: Any) -> float:
    return levels.index(value) / max(len(levels) - 1, 1)


def _draw_against(data: PlotData) -> Figure:
    figure, axes = _paper(data.title, data.subtitle + _baselines_not_shown(data), 6.4, 4)
    known = [point for point in data.points if getattr(point, data.kind) is not None]
    for tied, color, words in reversed(_STANDINGS):
        shown = [point for point in known if point.tied is tied]
        axes.scatter(
            [getattr(point, data.kind) for point in shown],
            [point.us for point in shown],
            s=22,
            color=color,
            alpha=0.85,
            linewidths=0,
            label=words if shown else None,
        )
    _baselines(data, axes.axhline)
    _name_resource(axes, data.kind)
    axes.set_ylabel("us")
    _logarithmic_if_wide(axes, known, "y")
    _legend(axes)
    return figure


def _draw_lines(data: LinesData) -> Figure:
    warm = any(is_warm for line in data.lines for is_warm in line.warm)
    words = "; hollow: run in a row by a CUDA graph, with a warm cache" if warm else ""
    words += _not_shown(MOST_CURVES, len(data.lines), "lines")
    lines = data.lines[:MOST_CURVES]
    figure, axes = _paper(data.title, data.subtitle + words, 6.8, 4.2)
    for number, line in enumerate(lines):
        color = LINES[number % len(LINES)]
        style = "--" if line.is_baseline else "-"
        axes.plot(line.x, line.y, style, color=color, label=label(line.name))
        for warm in (False, True):
            chosen = [place for place, was_warm in enumerate(line.warm) if was_warm is warm]
            axes.plot(
                [line.x[place] for place in chosen],
                [line.y[place] for place in chosen],
                "o",
                markersize=4,
                color=color,
                markerfacecolor="none" if warm else color,
            )
        axes.fill_between(line.x, line.lower, line.upper, color=color, alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    sizes = _spread(sorted({x for line in lines for x in line.x}))
    axes.set_xticks(sizes, _format_sizes(sizes))
    axes.minorticks_off()
    if data.unit == "us":
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label(data.key))
    axes.set_ylabel(data.unit)
    axes.grid()
    _legend(axes)
    return figure


_LONGEST = 6
"""Digits of a number below a tick."""

_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def _format_sizes(sizes: Sequence[float]) -> list[str]:
    """Sizes as they are; long ones in units of 1024, if all are whole numbers of those."""
    plain = [f"{size:.15g}" for size in sizes]
    if max(map(len, plain)) <= _LONGEST or any(size % 1024 for size in sizes if size > 1024):
        return plain
    units = [next((unit for unit in _UNITS if size >= unit[0]), (1, "")) for size in sizes]
    return [f"{size / factor:.4g} {unit}".rstrip() for size, (factor, unit) in zip(sizes, units)]


# Profiles drawn by matplotlib: flame graphs of scopes, timelines of warps.

_PROFILE_WIDTH, _PROFILE_ROW = 9.0, 0.26
"""Inches: of a picture, and of one level of a flame graph, or one warp of a timeline."""
_MOST_LEVELS, _MOST_WARPS, _MOST_EVENTS = 40, 48, 20_000
_COLORED = len(BLIND_SAFE) - 1
"""Scopes of a timeline with a color each; the rest share the last one."""
_LEAST_SHARE = 0.002
"""Of the width: narrower scopes are not drawn."""
_GAP = 0.002
"""Between neighbors, as a share of the picture's width."""
_LETTER = 0.0085
"""How wide a letter is, as a share of the picture's width."""

_COLORS = {"scope": BLIND_SAFE[0], "frame": BLIND_SAFE[7], "kernel": BLIND_SAFE[1]}
_COLORS |= {"line": BLIND_SAFE[2], "root": BLIND_SAFE[4]}


class FlameGraph(FigurePicture):
    """The scopes of a profile, each as wide as its part of a metric, what it holds below it."""

    def __init__(self, record: ProfileRecord, metric: str) -> None:
        self.record = record
        self.metric = metric

    def __repr__(self) -> str:
        return f"<flame graph of {self.metric}>"

    def _draw(self) -> Figure:
        boxes = [box for box in _boxes(self.record, self.metric) if box[1] < _MOST_LEVELS]
        levels = 1 + max(depth for _, depth, _, _ in boxes)
        subtitle = self.record.measured_by
        title = f"{label(self.record.name or 'Profile')}: {self.metric}"
        figure, axes = sheet(title, subtitle, _PROFILE_WIDTH, 0.9 + _PROFILE_ROW * levels)
        for scope, depth, start, width in boxes:
            color, drawn = _COLORS[scope.kind], max(width - _GAP, width / 2)
            box = Rectangle((start, depth), drawn, 0.94, facecolor=color, edgecolor="none")
            axes.add_patch(box)
            letters = int(width / _LETTER)
            if letters >= 3:
                words = label(scope.name)
                words = words if len(words) <= letters else f"{words[: letters - 1]}…"
                axes.text(
                    start + 0.003, depth + 0.5, words, fontsize=7, va="center",
                    color=ink_on(color), clip_on=True,
                )  # fmt: skip
        axes.set_xlim(0, 1)
        axes.set_ylim(levels, 0)
        axes.axis("off")
        return figure


def _boxes(record: ProfileRecord, metric: str) -> Iterator[tuple[Scope, int, float, float]]:
    """Yield each scope with its depth, and with its start and its width as shares of the whole."""
    (read_metric,) = trees.read(metric, record.root)

    def size(scope: Scope) -> float:
        value = read_metric.of(trees.Place(scope, record.root, record.machine.devices))
        return value if value > 0 else 0.0

    all_of_it = size(record.root)
    waiting = [(record.root, 0, 0.0)]
    while waiting:
        scope, depth, start = waiting.pop()
        width = size(scope) / all_of_it if all_of_it else float(scope is record.root)
        if width < _LEAST_SHARE:
            continue
        yield scope, depth, start, width
        for child in scope.children:
            waiting.append((child, depth + 1, start))
            start += size(child) / all_of_it if all_of_it else 0.0


@figure_of.register(ProfileRecord)
@figure_of.register(Profile)
def flame_graph(record: ProfileRecord, metric: str | None = None) -> FlameGraph:
    """The flame graph of a profile."""
    metrics = trees.read(metric, record.root, first_alone=True)
    if not metrics:
        raise OptionError(
            "The profile has no metrics, which the widths of a flame graph show.",
            advice="profile.tree() lists its scopes.",
        )
    return FlameGraph(record, metrics[0].text)


@figure_of.register(Timeline)
class TimelinePicture(FigurePicture):
    """The events of a profile: a row for each warp of each program, time to the right."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def __repr__(self) -> str:
        return f"<plot of {self.timeline!r}>"

    def _draw(self) -> Figure:
        events = self.timeline.events
        places = numpy.stack([events.program, events.warp])
        rows, row_of = numpy.unique(places, axis=1, return_inverse=True)
        row_of = row_of.reshape(-1)
        shown = numpy.flatnonzero(row_of < _MOST_WARPS)[:_MOST_EVENTS]
        first = int(events.start[shown].min())
        last = max(int(events.end[shown].max()) - first, 1)
        named = _named(self.timeline, shown)
        height = min(rows.shape[1], _MOST_WARPS)
        left_out = "" if len(shown) == len(events) else f"; {len(shown):,} of them are drawn"
        subtitle = f"{counted(len(events), 'event')}, in {events.unit}{left_out}"
        figure, axes = sheet(
            label(self.timeline.title), subtitle, _PROFILE_WIDTH, 1.3 + _PROFILE_ROW * height
        )
        for number, name in enumerate(named):
            chosen = shown[events.scope[shown] == name]
            columns = events.start[chosen], events.end[chosen], row_of[chosen]
            boxes = [
                Rectangle((start - first, row + 0.06), max(end - start, last / 4000), 0.88)
                for start, end, row in zip(*(column.tolist() for column in columns))
            ]
            color = _color(number)
            axes.add_collection(PatchCollection(boxes, facecolor=color, edgecolor="none"))
        axes.set_xlim(0, last)
        axes.set_ylim(height, 0)
        axes.set_yticks(
            [row + 0.5 for row in range(height)],
            [_row_name(*rows[:, row].tolist()) for row in range(height)],
            fontsize=7,
        )
        axes.set_xlabel(events.unit)
        patches = [
            Patch(color=_color(number), label=label(events.names[name]))
            for number, name in enumerate(named[:_COLORED])
        ]
        if len(named) > _COLORED:
            patches.append(Patch(color=_color(_COLORED), label="others"))
        figure.legend(handles=patches, loc="outside lower left", ncols=4, labelcolor=INK)
        return figure


def _named(timeline: Timeline, shown: numpy.ndarray) -> list[int]:
    """The scopes that are drawn, those that take longest first."""
    events = timeline.events
    lengths = (events.end - events.start)[shown]
    took = numpy.bincount(events.scope[shown], lengths, len(events.names))
    there = numpy.unique(events.scope[shown])
    return [int(index) for index in there[numpy.argsort(-took[there], kind="stable")]]


def _color(number: int) -> str:
    return BLIND_SAFE[min(number, _COLORED)]


def _row_name(program: int, warp: int) -> str:
    if program < 0:
        return "launches" if warp < 0 else f"stream {warp}"
    return f"program {program}" if warp < 0 else f"program {program}, warp {warp}"


_ROOFLINE_WIDTH, _ROOFLINE_HEIGHT = 7.6, 4.4
"""Inches."""
_SPACE = 8.0
"""How far the picture continues beyond its outermost point, as a factor."""
_SIZES = (12, 8, 4)
"""Of the points of the levels: where they are one point, all are seen."""


@figure_of.register(Roofline)
class RooflinePlot(FigurePicture):
    """Operations a second over operations a byte: a slope for each level of memory, a roof for each
    unit, and the launch under them, once for each level.
    """

    def __init__(self, roofline: Roofline) -> None:
        self.roofline = roofline

    def __repr__(self) -> str:
        return f"<roofline of {self.roofline.kernel}>"

    def _draw(self) -> Figure:
        roofline = self.roofline
        figure, axes = sheet(
            f"{label(roofline.kernel)} under the roofs of {roofline.gpu}",
            f"{time_text(roofline.microseconds)}, {roofline.time_from}; operations and bytes "
            "are counted, peaks those of the data sheet",
            _ROOFLINE_WIDTH,
            _ROOFLINE_HEIGHT,
        )
        if not roofline.total_operations:
            axes.set_axis_off()
            axes.text(0, 0.5, "The launch does no floating-point operations.", va="center")
            return figure
        _draw_roofs(axes, roofline)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):  # by default matplotlib writes these as formulas
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("operations a byte")
        axes.set_ylabel("TFLOP/s")
        axes.grid(visible=True)
        axes.legend(loc="lower right")
        return figure


def _draw_roofs(axes: Axes, roofline: Roofline) -> None:
    levels = [roof for roof in roofline.memory if roof.amount]
    top = max(roofline.operations, key=lambda operation: operation.peak)
    places = [roofline.intensity[level.name] for level in levels]
    ridges = [top.peak / level.peak for level in levels]
    first = min(*places, *ridges) / _SPACE if places else 0.1
    last = max(*places, *ridges) * _SPACE if places else 1e3
    for level, color, size in zip(levels, LINES, _SIZES):
        ends = (first, min(top.peak / level.peak, last))
        words = f"{level.name}, {level.peak / 1e6:.3g} TB/s"
        axes.plot(ends, [end * level.peak / 1e6 for end in ends], color=color, label=words)
        axes.plot(roofline.intensity[level.name], roofline.rate, "o", markersize=size, color=color)
    for unit in roofline.operations:
        axes.plot([first, last], [unit.peak / 1e6] * 2, color=INK, linewidth=1)
        axes.text(first, unit.peak / 1e6, f" {unit.name}", va="bottom", fontsize=8)
    axes.axhline(roofline.rate, color=INK, linewidth=0.8, linestyle="dotted")
    axes.set_xlim(first, last)
