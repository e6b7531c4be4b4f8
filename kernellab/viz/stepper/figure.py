"""One step of a stepper as a picture."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy

from kernellab.viz.stepper.card import text_lines
from kernellab.viz.stepper.data import StepperView
from kernellab.viz.stepper.states import StepState

_MOST_PICTURES = 6
"""Variables with a picture, and arguments, in the PNG."""

_LINE_HEIGHT = 0.2
"""Inches that a line of text takes."""


def figure_of(view: StepperView, state: StepState | None) -> bytes:
    """A PNG file of one step, drawn by matplotlib; None where there are no steps."""
    from matplotlib.figure import Figure

    text = list(text_lines(view, state))
    pictures = [] if state is None else list(_pictures(state))
    rows = -(-len(pictures) // _MOST_PICTURES)
    height = len(text) * _LINE_HEIGHT + 0.3
    figure = Figure(figsize=(11, height + 1.9 * rows))
    whole = figure.get_figheight()
    for number, line in enumerate(text):
        current = line.startswith("  ->")
        figure.text(
            0.01,
            1 - (0.2 + number * _LINE_HEIGHT) / whole,
            line,
            family="monospace",
            fontsize=9,
            weight="bold" if current or number == 0 else "normal",
            parse_math=False,
            verticalalignment="center",
            backgroundcolor="#ffeeb0" if current else "none",
        )
    for number, (title, colors) in enumerate(pictures):
        row, column = divmod(number, _MOST_PICTURES)
        bottom = (1.9 * (rows - row - 1) + 0.1) / whole
        axes = figure.add_axes((0.01 + column * 0.165, bottom, 0.15, 1.4 / whole))
        axes.imshow(_thickened(colors), interpolation="nearest")
        axes.set_title(title, fontsize=8, parse_math=False)
        axes.set_xticks([])
        axes.set_yticks([])
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=100, facecolor="white")
    return content.getvalue()


def _thickened(colors: numpy.ndarray) -> numpy.ndarray:
    """A strip of a picture with its rows repeated, so that there is something to see."""
    rows, columns, _ = colors.shape
    return numpy.repeat(colors, max(columns // (8 * rows), 1), axis=0)


def _pictures(state: StepState) -> Iterator[tuple[str, numpy.ndarray]]:
    """(title, colors) of the variables with a picture, then of the arguments."""
    drawn = [
        (variable.name, variable.picture)
        for variable in state.variables
        if variable.picture is not None
    ]
    for name, picture in drawn[:_MOST_PICTURES]:
        yield name, picture.colors({})
    for argument in state.arguments[:_MOST_PICTURES]:
        if argument.picture is not None:
            marks = " and ".join(argument.touched)
            title = f"{argument.name} ({marks})" if marks else argument.name
            yield title, argument.picture.colors(argument.touched)
