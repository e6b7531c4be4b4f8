"""The picture of a graph, for where nothing can be drawn live: its modules, closed, in layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from kernellab.common.text import counted
from kernellab.viz.graph_data import GraphLevel
from kernellab.viz.kit.figure import FigurePicture, label, sheet
from kernellab.viz.kit.palette import INK

MOST_BOXES = 60
"""Most boxes of a picture: with more, it cannot be read at a glance."""

_ROW, _WIDTH, _GAP = 0.42, 7.4, 0.12
"""Inches: a layer, the picture, between boxes."""
_WORDS = 30
"""Letters of a box."""


@dataclass
class Outline:
    """A graph's boxes, modules closed, without arguments and results, and their edges."""

    words: list[str] = field(default_factory=list)
    is_module: list[bool] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)

    def layers(self) -> list[list[int]]:
        """Boxes by the longest way to them; in a layer each near those that lead to it."""
        before: dict[int, list[int]] = {}
        for source, other in sorted(self.edges):
            if source < other:  # a module that is called twice leads back
                before.setdefault(other, []).append(source)
        depth: list[int] = []
        for number in range(len(self.words)):
            depth.append(1 + max((depth[source] for source in before.get(number, ())), default=-1))
        layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for number, layer in enumerate(depth):
            layers[layer].append(number)
        places: dict[int, float] = {}
        for row in layers:
            row.sort(key=lambda number: _mean(before.get(number, ()), places))
            places.update((box, at - (len(row) - 1) / 2) for at, box in enumerate(row))
        return layers


def _mean(numbers: Sequence[int], places: Mapping[int, float]) -> float:
    return sum(places[number] for number in numbers) / len(numbers) if numbers else 0.0


def outline(level: GraphLevel) -> Outline:
    """What is drawn of a level."""
    made, boxes = Outline(), {}
    box_of: dict[int, int] = {}
    for element, name in enumerate(level.labels):
        group = level.groups[element]
        while group >= 0 and level.all_groups[group].parent >= 0:
            group = level.all_groups[group].parent
        if name in ("placeholder", "output", "get_attr"):
            continue
        key = ("group", group) if group >= 0 else ("element", element)
        if key not in boxes:
            boxes[key] = len(made.words)
            made.words.append(_module(level, group) if group >= 0 else name)
            made.is_module.append(group >= 0)
        box_of[element] = boxes[key]
    for user, inputs in enumerate(level.inputs):
        ends = {(box_of[node], box_of[user]) for node in inputs if {node, user} <= box_of.keys()}
        made.edges |= {(source, other) for source, other in ends if source != other}
    return made


def _module(level: GraphLevel, group: int) -> str:
    module = level.all_groups[group]
    return f"{module.name}: {module.of}" if module.of else module.name


class GraphPicture(FigurePicture):
    """A level's graph, modules closed."""

    def __init__(self, title: str, level: GraphLevel) -> None:
        """ """
        self._title = title
        self._level = level
        self.outline = outline(level)

    @property
    def alternative(self) -> str:
        """The picture in words."""
        return f"{self._title}: {self._counts}"

    @property
    def _counts(self) -> str:
        modules = sum(self.outline.is_module)
        others = len(self.outline.words) - modules
        return (
            f"{self._level.words}, {counted(len(self._level.names), 'node')}: "
            f"{counted(modules, 'module')}, {counted(others, 'operation')} beside them"
        )

    def _draw(self) -> Figure:
        layers = self.outline.layers()
        height = _ROW * len(layers) + 0.7
        figure, axes = sheet(label(self._title), self._counts, _WIDTH, height)
        axes.set_axis_off()
        axes.set_xlim(0, _WIDTH)
        axes.set_ylim(_ROW * len(layers), 0)
        space = _WIDTH / max(len(row) for row in layers)
        size = min(2.3, space - _GAP)
        at = {
            number: (_WIDTH / 2 + (place - (len(row) - 1) / 2) * (size + _GAP), _ROW * (y + 0.5))
            for y, row in enumerate(layers)
            for place, number in enumerate(row)
        }
        for source, other in self.outline.edges:
            (x, y), (to_x, to_y) = at[source], at[other]
            arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.7}
            is_long = to_y - y > 1.5 * _ROW
            arrow["alpha"] = 0.25 if is_long else 0.5
            if is_long and abs(to_x - x) < size:  # around what is between them
                bow = min(0.5, 1.4 * size / (to_y - y)) * (-1 if x > _WIDTH / 2 else 1)
                arrow["connectionstyle"] = f"arc3,rad={bow:.3f}"
            start, end = (x, y + _ROW * 0.3), (to_x, to_y - _ROW * 0.3)
            axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
        letters = max(4, int(_WORDS * size / 2.3))
        for number, (x, y) in at.items():
            is_module = self.outline.is_module[number]
            words = self.outline.words[number]
            shown = words if len(words) <= letters else f"{words[: letters - 1]}…"
            box = FancyBboxPatch(
                (x - size / 2, y - _ROW * 0.3),
                size,
                _ROW * 0.6,
                boxstyle="round,pad=0,rounding_size=0.05",
                facecolor="#0072b2" if is_module else "none",
                alpha=0.25 if is_module else 1,
                edgecolor=INK,
                linewidth=0.7,
            )
            axes.add_patch(box)
            axes.text(x, y, shown, ha="center", va="center", fontsize=7)
        return figure
