"""A roofline, drawn by matplotlib: `compilation.roofline(...).plot()`."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from kernellab.profiling.estimates.estimate import Roof, Roofline
from kernellab.viz.kit.figure import FigurePicture, figure_of, label, sheet
from kernellab.viz.kit.palette import INK, LINES

_WIDTH, _HEIGHT = 7.6, 4.4
"""Inches."""
_SPACE = 8.0
"""How far the picture goes on beyond its outermost point, as a factor."""
_SIZES = (12, 8, 4)
"""Of the points of the levels: where they are one point, all are seen."""


class RooflinePlot(FigurePicture):
    """Operations a second over operations a byte: a slope for each level of memory, a roof for each
    unit, and the launch under them, once for each level.

    Attributes:
        roofline: what is drawn.
    """

    def __init__(self, roofline: Roofline) -> None:
        self.roofline = roofline

    def __repr__(self) -> str:
        return f"<roofline of {self.roofline.kernel}>"

    def _draw(self) -> Figure:
        roofline = self.roofline
        figure, axes = sheet(
            f"{label(roofline.kernel)} under the roofs of {roofline.gpu}",
            (
                f"{roofline.microseconds:.3g} us, {roofline.time_from}; operations and bytes are "
                "counted, peaks those of the data sheet"
            ),
            _WIDTH,
            _HEIGHT,
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


@figure_of.register
def roofline_plot(roofline: Roofline) -> RooflinePlot:
    """The picture of a roofline."""
    return RooflinePlot(roofline)


def _draw_roofs(axes: Axes, roofline: Roofline) -> None:
    levels = [roof for roof in roofline.memory if roof.amount]
    top = max(roofline.operations, key=lambda operation: operation.peak)
    places = [roofline.intensity[level.name] for level in levels]
    ridges = [top.peak / level.peak for level in levels]
    first = min(*places, *ridges) / _SPACE if places else 0.1
    last = max(*places, *ridges) * _SPACE if places else 1e3
    for level, color, size in zip(levels, LINES, _SIZES):
        _draw_slope(axes, level, top, (first, last), color)
        axes.plot(
            [roofline.intensity[level.name]],
            [roofline.rate],
            marker="o",
            markersize=size,
            color=color,
            linestyle="none",
        )
    for unit in roofline.operations:
        axes.plot([first, last], [unit.peak / 1e6] * 2, color=INK, linewidth=1)
        axes.text(first, unit.peak / 1e6, f" {unit.name}", va="bottom", fontsize=8)
    axes.axhline(roofline.rate, color=INK, linewidth=0.8, linestyle="dotted")
    axes.set_xlim(first, last)


def _draw_slope(axes: Axes, level: Roof, top: Roof, span: tuple[float, float], color: str) -> None:
    ridge = min(top.peak / level.peak, span[1])
    ends = (span[0], ridge)
    axes.plot(
        ends,
        [end * level.peak / 1e6 for end in ends],
        color=color,
        label=f"{level.name}, {level.peak / 1e6:.3g} TB/s",
    )
