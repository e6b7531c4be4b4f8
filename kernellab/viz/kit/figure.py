"""The common parts of all matplotlib figures: their theme, and their pictures."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, singledispatch
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image

from kernellab.common.system import save_whole, saved_path
from kernellab.errors import ArgumentError
from kernellab.viz.kit.palette import INK, ORDERED, VIRIDIS

SEQUENTIAL = LinearSegmentedColormap.from_list(
    "kernellab", [tuple(channel / 255 for channel in color) for color in VIRIDIS]
)
"""Numbers as the colors of cells."""

ORDERED_LINES = LinearSegmentedColormap.from_list("kernellab lines", ORDERED)
"""Numbers as the colors of lines."""

_THEME = {
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # users' names are not formulas
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.labelcolor": INK,
    "hatch.linewidth": 0.7,
    "savefig.bbox": "tight",  # nothing is cut off, and there is no empty edge
    "svg.hashsalt": "kernellab",  # the same figure is the same file
    "svg.fonttype": "none",  # words stay words: searched, copied, read aloud
}


@contextmanager
def theme() -> Iterator[None]:
    """Inside, matplotlib draws as KernelLab does, whatever style the user has chosen
    for other figures. Letters that its font does not have are boxes, without a warning for each.
    """
    with style.context(_THEME, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from ")
        warnings.filterwarnings("ignore", "constrained_layout not applied")  # very long words
        yield


def sheet(title: str, subtitle: str, width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure in inches, with title and subtitle; to be called inside `theme()`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    below = "\n" * (subtitle.count("\n") + bool(subtitle))
    axes.set_title(f"{title}{below}", loc="left", fontsize=11, fontweight="bold")
    axes.text(0, 1.01, subtitle, transform=axes.transAxes, fontsize=8, va="bottom")
    return figure, axes


_LONGEST_LABEL = 60


def label(value: object) -> str:
    """A name or a value as a picture has it: one line of so many letters, for the picture grows
    with its words, and whoever saved a file may have named things at any length.
    """
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


class FigurePicture:
    """A matplotlib figure that a cell displays, on transparent paper."""

    def _draw(self) -> Figure:
        raise NotImplementedError

    @cached_property
    def figure(self) -> Figure:
        """The matplotlib figure, which you may change."""
        with theme():
            return self._draw()

    def png(self, dots_per_inch: int = 110) -> bytes:
        """The picture on transparent paper, in at most 256 colors: a third of the size, in every
        notebook that is saved with it.
        """
        with Image.open(io.BytesIO(self._file("png", dpi=dots_per_inch))) as drawn:
            few = drawn.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        file = io.BytesIO()
        few.save(file, "png", optimize=True)
        return file.getvalue()

    def svg(self) -> str:
        """The picture as SVG, its words as text."""
        # Without a date the same picture is the same text.
        return self._file("svg", metadata={"Date": None}).decode()

    def _file(self, kind: str, **options: Any) -> bytes:
        file = io.BytesIO()
        with theme():
            self.figure.savefig(file, format=kind, transparent=True, **options)
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture in the format of the path's ending; return the path.

        Raises:
            ArgumentError: matplotlib does not know the format.
            KernelLabError: the file cannot be written.
        """
        kind = saved_path(path, ArgumentError).suffix.removeprefix(".").lower()
        known = FigureCanvasBase.get_supported_filetypes()
        if kind not in known:
            raise ArgumentError(
                f"The suffix of {str(path)!r} is not an image format.",
                advice=f"Use .svg, .pdf or .png; matplotlib also knows {', '.join(known)}.",
            )
        # Without a date the same picture is the same file.
        undated = {"svg": "Date", "pdf": "CreationDate"}
        options = {"metadata": {undated[kind]: None}} if kind in undated else {}
        return save_whole(path, self._file(kind, **options))

    def _repr_png_(self) -> bytes:
        return self.png()


@singledispatch
def figure_of(record: object, **options: Any) -> FigurePicture:
    """The figure of a record, by its class. Raises TypeError: it has none."""
    del options
    raise TypeError(f"a {type(record).__name__} has no figure")
