"""Profiles drawn by matplotlib: flame graphs of scopes, timelines of warps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kernellab.common.formatting import counted
from kernellab.errors import OptionError
from kernellab.profiling.profiles import metrics as expressions
from kernellab.profiling.profiles import trees
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import ProfileRecord, Scope
from kernellab.profiling.profiles.timeline import Timeline
from kernellab.viz.kit.figure import FigurePicture, figure_of, label, sheet
from kernellab.viz.kit.palette import BLIND_SAFE, INK, ink_on

_WIDTH, _ROW = 9.0, 0.26
"""Inches: of a picture, and of one level of a flame graph, or one warp of a timeline."""
_MOST_LEVELS, _MOST_WARPS, _MOST_EVENTS = 40, 48, 20_000
_COLOURED = len(BLIND_SAFE) - 1
"""Scopes of a timeline with a colour each; the rest share the last one."""
_LEAST_SHARE = 0.002
"""Of the width: narrower scopes are not drawn."""
_GAP = 0.002
"""Between neighbours, as a share of the picture's width."""
_LETTER = 0.0085
"""How wide a letter is, as a share of the picture's width."""

_COLOURS = {"scope": BLIND_SAFE[0], "frame": BLIND_SAFE[7], "kernel": BLIND_SAFE[1]}
_COLOURS |= {"line": BLIND_SAFE[2], "root": BLIND_SAFE[4]}


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
        boxes = [one for one in _boxes(self.record, self.metric) if one.depth < _MOST_LEVELS]
        levels = 1 + max(one.depth for one in boxes)
        subtitle = self.record.measured_by
        title = f"{label(self.record.name or 'Profile')}: {self.metric}"
        figure, axes = sheet(title, subtitle, _WIDTH, 0.9 + _ROW * levels)
        for one in boxes:
            colour = _COLOURS[one.scope.kind]
            place = (one.start, one.depth)
            width = max(one.width - _GAP, one.width / 2)
            axes.add_patch(Rectangle(place, width, 0.94, facecolor=colour, edgecolor="none"))
            letters = int(one.width / _LETTER)
            if letters >= 3:
                words = label(one.scope.name)
                words = words if len(words) <= letters else f"{words[: letters - 1]}…"
                axes.text(
                    one.start + 0.003, one.depth + 0.5, words, fontsize=7, va="center",
                    color=ink_on(colour), clip_on=True,
                )  # fmt: skip
        axes.set_xlim(0, 1)
        axes.set_ylim(levels, 0)
        axes.axis("off")
        return figure


def _boxes(record: ProfileRecord, metric: str) -> Iterator[_Box]:
    (asked,) = expressions.read(metric, record.root)
    totals = trees.totals_of(record.root)
    whole = totals[id(record.root)]

    def size(scope: Scope) -> float:
        place = expressions.Place(scope, totals[id(scope)], whole, record.machine.devices)
        value = asked.of(place)
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
    asked = expressions.read(metric, record.root, first_alone=True)
    if not asked:
        raise OptionError(
            "The profile has no metrics: there is nothing to be as wide as.",
            advice="profile.tree() lists its scopes.",
        )
    return FlameGraph(record, asked[0].text)


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
            colour = _colour(number)
            axes.add_collection(PatchCollection(boxes, facecolor=colour, edgecolor="none"))
        axes.set_xlim(0, last)
        axes.set_ylim(height, 0)
        axes.set_yticks(
            [one + 0.5 for one in range(height)],
            [_row_name(*rows[:, one].tolist()) for one in range(height)],
            fontsize=7,
        )
        axes.set_xlabel(events.unit)
        patches = [
            Patch(color=_colour(number), label=label(events.names[name]))
            for number, name in enumerate(named[:_COLOURED])
        ]
        if len(named) > _COLOURED:
            patches.append(Patch(color=_colour(_COLOURED), label="others"))
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
    return [int(one) for one in there[numpy.argsort(-took[there], kind="stable")]]


def _colour(number: int) -> str:
    return BLIND_SAFE[min(number, _COLOURED)]


def _row_name(program: int, warp: int) -> str:
    if program < 0:
        return "launches" if warp < 0 else f"stream {warp}"
    return f"program {program}" if warp < 0 else f"program {program}, warp {warp}"


@figure_of.register
def timeline_picture(timeline: Timeline) -> TimelinePicture:
    """The picture of a profile's events."""
    return TimelinePicture(timeline)
