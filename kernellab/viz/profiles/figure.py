"""Profiles drawn by matplotlib: flame graphs of scopes, timelines of warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kernellab.common.text import counted
from kernellab.errors import OptionError
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfileRecord, Scope, Timeline
from kernellab.viz.kit.figure import FigurePicture, figure_of, label, sheet
from kernellab.viz.kit.palette import BLIND_SAFE, INK, ink_on

_WIDTH, _ROW = 9.0, 0.26
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


@dataclass(frozen=True)
class _Box:
    scope: Scope
    depth: int
    start: float
    width: float


class FlameGraph(FigurePicture):
    """The scopes of a profile, each as wide as its part of a metric, what it holds below it.

    Attributes:
        record: the profile.
        metric: what the widths are.
    """

    def __init__(self, record: ProfileRecord, metric: str) -> None:
        self.record = record
        self.metric = metric

    def __repr__(self) -> str:
        return f"<flame graph of {self.metric}>"

    def _draw(self) -> Figure:
        boxes = [box for box in _boxes(self.record, self.metric) if box.depth < _MOST_LEVELS]
        levels = 1 + max(box.depth for box in boxes)
        subtitle = self.record.measured_by
        title = f"{label(self.record.name or 'Profile')}: {self.metric}"
        figure, axes = sheet(title, subtitle, _WIDTH, 0.9 + _ROW * levels)
        for box in boxes:
            color = _COLORS[box.scope.kind]
            place = (box.start, box.depth)
            width = max(box.width - _GAP, box.width / 2)
            axes.add_patch(Rectangle(place, width, 0.94, facecolor=color, edgecolor="none"))
            letters = int(box.width / _LETTER)
            if letters >= 3:
                words = label(box.scope.name)
                words = words if len(words) <= letters else f"{words[: letters - 1]}…"
                axes.text(
                    box.start + 0.003, box.depth + 0.5, words, fontsize=7, va="center",
                    color=ink_on(color), clip_on=True,
                )  # fmt: skip
        axes.set_xlim(0, 1)
        axes.set_ylim(levels, 0)
        axes.axis("off")
        return figure


def _boxes(record: ProfileRecord, metric: str) -> Iterator[_Box]:
    (read_metric,) = trees.read(metric, record.root)
    totals = trees.totals_of(record.root)
    whole = totals[id(record.root)]

    def size(scope: Scope) -> float:
        place = trees.Place(scope, totals[id(scope)], whole, record.machine.devices)
        value = read_metric.of(place)
        return value if value > 0 else 0.0

    all_of_it = size(record.root)
    waiting = [(record.root, 0, 0.0)]
    while waiting:
        scope, depth, start = waiting.pop()
        width = size(scope) / all_of_it if all_of_it else float(scope is record.root)
        if width < _LEAST_SHARE:
            continue
        yield _Box(scope, depth, start, width)
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


class TimelinePicture(FigurePicture):
    """The events of a profile: a row for each warp of each program, time to the right.

    Attributes:
        timeline: what is drawn.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def __repr__(self) -> str:
        return f"<plot of {self.timeline!r}>"

    def _draw(self) -> Figure:
        events = self.timeline.events
        rows, row_of = numpy.unique(
            numpy.stack([events.program, events.warp]), axis=1, return_inverse=True
        )
        row_of = row_of.reshape(-1)
        shown = numpy.flatnonzero(row_of < _MOST_WARPS)[:_MOST_EVENTS]
        first = int(events.start[shown].min())
        last = max(int(events.end[shown].max()) - first, 1)
        named = _named(self.timeline, shown)
        height = min(rows.shape[1], _MOST_WARPS)
        left_out = "" if len(shown) == len(events) else f"; {len(shown):,} of them are drawn"
        subtitle = f"{counted(len(events), 'event')}, in {events.unit}{left_out}"
        figure, axes = sheet(label(self.timeline.title), subtitle, _WIDTH, 1.3 + _ROW * height)
        for number, name in enumerate(named):
            chosen = shown[events.scope[shown] == name]
            boxes = [
                Rectangle((start - first, row + 0.06), max(end - start, last / 4000), 0.88)
                for start, end, row in zip(
                    events.start[chosen].tolist(),
                    events.end[chosen].tolist(),
                    row_of[chosen].tolist(),
                )
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
    took = numpy.bincount(
        events.scope[shown],
        weights=(events.end - events.start)[shown],
        minlength=len(events.names),
    )
    there = numpy.unique(events.scope[shown])
    return [int(index) for index in there[numpy.argsort(-took[there], kind="stable")]]


def _color(number: int) -> str:
    return BLIND_SAFE[min(number, _COLORED)]


def _row_name(program: int, warp: int) -> str:
    if program < 0:
        return "launches" if warp < 0 else f"stream {warp}"
    return f"program {program}" if warp < 0 else f"program {program}, warp {warp}"


@figure_of.register
def timeline_picture(timeline: Timeline) -> TimelinePicture:
    """The picture of a profile's events."""
    return TimelinePicture(timeline)
