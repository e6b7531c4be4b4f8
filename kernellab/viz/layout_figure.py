"""Layouts as figures, drawn by matplotlib: `layout.plot()`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from kernellab.common.arguments import at_most, check_flags, check_whole, is_whole
from kernellab.common.text import shown
from kernellab.compiler.analyses.records import TileLayout
from kernellab.errors import LayoutError
from kernellab.records.layouts import Layout, RegisterLayout, SharedLayout, sizes
from kernellab.viz.kit.figure import SEQUENTIAL, FigurePicture, figure_of, sheet
from kernellab.viz.kit.palette import BLIND_SAFE, ink_on, sequential
from kernellab.viz.layouts import (
    check_color,
    check_drawable,
    element_bits,
    fragment,
    layout_of,
    tile_title,
)

BANK_ROW = 128
"""Bytes that the 32 banks of shared memory have side by side, four each."""

_ROW = 32
"""Elements side by side, of a tile of one dimension."""

_WIDEST, _HIGHEST = 8.0, 7.0
"""Inches of the cells of a picture."""
_LARGEST_CELL = 0.44
_LEAST_LETTERS = 4.2
"""Points of the smallest letters that a cell is labeled in."""
_LEAST_SHAPE = 0.08
"""Inches of the smallest cell that is drawn as a box; smaller ones are the pixels of an image."""
_LEAST_SQUARE = 0.025
"""Inches of the smallest cell that is a square."""
_MOST_LABELS = 8192
"""Cells of the largest picture that may have labels."""
_MOST_TICKS = 16

Cells = numpy.ndarray
"""One number for each cell of a picture, shape (rows, columns); -1 for none."""


@dataclass(frozen=True)
class _Picture:
    """Cells to be drawn."""

    parts: Mapping[str, Cells]
    """Coloring -> the number of each cell."""
    labels: Sequence[tuple[int, int, int, str]]
    """(row, column, cells side by side, words)."""
    across: str
    down: str
    first: str
    """The default coloring."""
    row_step: int = 1
    """The step of the numbers from each row to the next."""


class LayoutPlot(FigurePicture):
    """Where the elements of a tile are, as a figure."""

    def __init__(self, title: str, words: str, picture: _Picture, by: str) -> None:
        self._title = title
        self._words = words
        self._picture = picture
        self._by = by

    def __repr__(self) -> str:
        return f"<plot of {self._title}: by {self._by}>"

    def _draw(self) -> Figure:
        return _draw(self._picture, self._by, self._title, self._words)


@figure_of.register(Layout)
@figure_of.register(TileLayout)
def layout_plot(
    thing: Layout | TileLayout,
    by: str | None = None,
    at: Sequence[int] = (),
    hardware: bool = False,
    bits: int = 16,
) -> LayoutPlot:
    """The figure of a layout, or of a tile's, whose elements have bits: see their `plot`."""
    layout = layout_of(thing)
    title = f"{sizes(layout.shape)}, {layout.family.replace('_', ' ')}"
    if isinstance(thing, TileLayout):
        title, bits = tile_title(thing, layout), element_bits(thing.element) or 16
    check_drawable(layout)
    check_flags(hardware=hardware)
    check_whole("element_bits", bits, least=1, most=_WIDEST_ELEMENT)
    plane = _checked_plane(layout, at)
    picture = _of_hardware(layout, bits) if hardware else _of_tile(layout, plane, bits)
    check_color(by, picture.parts)
    chosen = picture.first if by is None else by
    words = [f"colored by {chosen}"]
    if plane:
        words.append(f"slice ({', '.join(map(str, plane))}, :, :)")
    copies = layout.replication
    if copies > 1:
        shown_of_them = "" if hardware else ", the first is shown"
        words.append(f"every element is held {copies} times{shown_of_them}")
    return LayoutPlot(title, "; ".join(words), picture, chosen)


_WIDEST_ELEMENT = 1024
"""Bits."""


def _checked_plane(layout: Layout, at: Sequence[int]) -> tuple[int, ...]:
    """The index of the slice that is drawn, one number for each leading dimension."""
    leading = layout.shape[:-2]
    numbers: Any = at  # whatever somebody wrote
    numbers = at_most(numbers, 100)
    if numbers is None or not all(map(is_whole, numbers)):
        raise LayoutError(
            f"at must be integers such as (0,), which choose a slice of {sizes(layout.shape)}, "
            f"got {shown(at)}."
        )
    given = tuple(numbers) or (0,) * len(leading)
    if len(given) != len(leading) or not all(0 <= a < size for a, size in zip(given, leading)):
        wanted = f"{len(leading)} numbers below {sizes(leading)}" if leading else "no slices"
        raise LayoutError(
            f"at={given} is not a slice of {sizes(layout.shape)}, which has {wanted}.",
            advice="" if leading else "Remove at=.",
        )
    return given


# The tile: a cell for each element


def _of_tile(layout: Layout, plane: tuple[int, ...], bits: int) -> _Picture:
    held = _first_holders(layout, plane)
    down, across = ("row", "column") if len(layout.shape) > 1 else ("", "element")
    step = 1 if len(layout.shape) > 1 else held.shape[1]
    if isinstance(layout, RegisterLayout):
        register, lane, warp, block = numpy.moveaxis(held, -1, 0)
        parts = {"warp": warp, "lane": lane, "register": register, "block": block}
        several = (name for name in ("warp", "lane", "register") if parts[name].max() > 0)
        thread = (block * layout.warps + warp) * layout.lanes + lane
        labels = list(_runs(thread, register, fragment(layout)))
        return _Picture(parts, labels, across, down, next(several, "warp"), step)
    if isinstance(layout, SharedLayout):
        offset, block = numpy.moveaxis(held, -1, 0)
        bank_of_first_byte = offset * bits // 8 % BANK_ROW // 4
        parts = {"bank": bank_of_first_byte, "offset": offset}
        if block.max() > 0:
            parts["block"] = block
        return _Picture(parts, list(_numbers(offset)), across, down, "bank", step)
    row, column = numpy.moveaxis(held, -1, 0)
    labels = []
    if row.size <= _MOST_LABELS:
        cells = numpy.ndindex(*row.shape)
        labels = [(y, x, 1, f"{row[y, x]}:{column[y, x]}") for y, x in cells]
    return _Picture({"row": row, "column": column}, labels, across, down, "row", step)


def _first_holders(layout: Layout, plane: tuple[int, ...]) -> numpy.ndarray:
    """The first holder of each element: int64 (rows, columns, fields); 1D tiles in rows of 32."""
    shape = layout.shape[len(plane) :]
    index = numpy.moveaxis(numpy.indices(shape or (1,)), 0, -1).reshape(-1, max(len(shape), 1))
    if not layout.shape:
        index = index[:, :0]
    leading = numpy.broadcast_to(numpy.array(plane, numpy.int64), (len(index), len(plane)))
    held = layout.holders(numpy.concatenate([leading, index], axis=1))[:, 0]
    if len(shape) == 2:
        return numpy.asarray(held.reshape(*shape, -1))
    columns = min(len(held), _ROW)
    return numpy.asarray(held.reshape(-1, columns, held.shape[-1]))


def _numbers(cells: Cells) -> Iterator[tuple[int, int, int, str]]:
    if cells.size <= _MOST_LABELS:
        for (row, column), number in numpy.ndenumerate(cells):
            yield row, column, 1, str(number)


def _runs(thread: Cells, register: Cells, letter: str) -> Iterator[tuple[int, int, int, str]]:
    """Neighboring cells of a thread and consecutive registers: "T0:{c0,c1}", as in PTX's manual."""
    if thread.size > _MOST_LABELS:
        return
    for row, (threads, registers) in enumerate(zip(thread.tolist(), register.tolist())):
        start = 0
        for end in range(1, len(threads) + 1):
            follows = threads[start], registers[start] + end - start
            if end == len(threads) or (threads[end], registers[end]) != follows:
                held = _registers(letter or "r", registers[start], end - start)
                yield row, start, end - start, f"T{threads[start]}:{held}"
                start = end


def _registers(letter: str, first: int, many: int) -> str:
    """ "c0", "{c0,c1}", "{c0..c7}"."""
    if many == 1:
        return f"{letter}{first}"
    between = "," if many == 2 else ".."
    return f"{{{letter}{first}{between}{letter}{first + many - 1}}}"


# The hardware: a cell for each place


def _of_hardware(layout: Layout, bits: int) -> _Picture:
    if isinstance(layout, RegisterLayout):
        numbers = layout.all_numbers()
        blocks, warps, lanes, registers = numpy.indices(numbers.shape)
        places = (-1, numbers.shape[-1])
        kinds = {"warp": warps, "lane": lanes, "register": registers, "block": blocks}
        parts: dict[str, Cells] = {name: each.reshape(places) for name, each in kinds.items()}
        element = numbers.reshape(places)
        parts["row of the tile"] = element // layout.shape[-1] if layout.shape else element
        first = "warp" if warps.max() else "lane"
        return _Picture(parts, _elements(element, layout), "register", "thread", first)
    held = _all_places(layout)
    if isinstance(layout, SharedLayout):
        byte = held[:, 0] * bits // 8
        rows_of_a_block = int(byte.max()) // BANK_ROW + 1
        down = held[:, 1] * rows_of_a_block + byte // BANK_ROW
        across = byte % BANK_ROW * 8 // bits
        width, names = BANK_ROW * 8 // bits, ("element of the row; 4 bytes are a bank", "128 bytes")
    else:
        down, across = held[:, 0], held[:, 1]
        width, names = int(across.max()) + 1, ("column", "row")
    element = numpy.full((int(down.max()) + 1, width), -1, numpy.int64)
    element[down, across] = numpy.arange(len(held)) // layout.replication
    row = numpy.where(element < 0, -1, element // (layout.shape[-1] if layout.shape else 1))
    parts = {"row of the tile": row}
    if isinstance(layout, SharedLayout):
        bank = numpy.broadcast_to(numpy.arange(width) * bits // 8 // 4, element.shape)
        parts["bank"] = numpy.where(element < 0, -1, bank)
    return _Picture(parts, _elements(element, layout), *names, "row of the tile")


def _all_places(layout: Layout) -> numpy.ndarray:
    """Every place of every element, in their order: int64 of shape (places, fields)."""
    shape = layout.shape or (1,)
    index = numpy.moveaxis(numpy.indices(shape), 0, -1).reshape(-1, len(shape))
    held: Any = layout.holders(index if layout.shape else index[:, :0])
    return numpy.asarray(held.reshape(-1, held.shape[-1]))


def _elements(element: Cells, layout: Layout) -> list[tuple[int, int, int, str]]:
    if element.size > _MOST_LABELS:
        return []
    index = numpy.unravel_index(numpy.maximum(element, 0), layout.shape or (1,))
    return [
        (row, column, 1, ",".join(str(along[row, column]) for along in index))
        for row, column in numpy.ndindex(*element.shape)
        if element[row, column] >= 0
    ]


# Drawing


def _draw(picture: _Picture, by: str, title: str, words: str) -> Figure:
    numbers = picture.parts[by]
    rows, columns = numbers.shape
    cell = min(_LARGEST_CELL, _WIDEST / columns, _HIGHEST / rows)
    width, height = max(columns * cell, 3.2), rows * cell
    figure, axes = sheet(title, words, width + 1.0, height + 1.8)
    # Of very many threads with few registers, squares would be a hair's breadth.
    axes.set_aspect("equal" if cell >= _LEAST_SQUARE else "auto")
    most = 32 if by == "bank" else int(numbers.max()) + 1
    colors = _colors(most)
    painted = [[colors[n] if n >= 0 else None for n in line] for line in numbers.tolist()]
    if cell >= _LEAST_SHAPE:
        _draw_shapes(axes, painted, picture.labels)
    else:
        _draw_image(axes, painted)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    _draw_labels(axes, picture.labels, painted, cell)
    _draw_rulers(axes, picture, cell)
    _draw_key(figure, axes, by, most, colors)
    return figure


def _colors(most: int) -> list[str]:
    if most <= len(BLIND_SAFE):
        return list(BLIND_SAFE[:most])
    return [sequential(number / (most - 1)) for number in range(most)]


def _draw_shapes(
    axes: Axes,
    painted: Sequence[Sequence[str | None]],
    labels: Sequence[tuple[int, int, int, str]],
) -> None:
    """A box for each cell; cells that share a label and a color share a box."""
    joined = {
        (row, column): wide
        for row, column, wide, _ in labels
        if len(set(painted[row][column : column + wide])) == 1
    }
    inside = {
        (row, column + more) for (row, column), wide in joined.items() for more in range(1, wide)
    }
    boxes, colors = [], []
    for row, line in enumerate(painted):
        for column, color in enumerate(line):
            if color is not None and (row, column) not in inside:
                wide = joined.get((row, column), 1)
                boxes.append(Rectangle((column + 0.03, row + 0.03), wide - 0.06, 0.94))
                colors.append(color)
    # Edges moved to whole pixels would close some of the gaps and leave others.
    axes.add_collection(PatchCollection(boxes, facecolors=colors, linewidths=0, snap=False))


def _draw_image(axes: Axes, painted: Sequence[Sequence[str | None]]) -> None:
    known: dict[str | None, tuple[int, ...]] = {None: (0, 0, 0, 0)}
    for line in painted:
        for color in {color for color in line if color is not None} - known.keys():
            known[color] = (*bytes.fromhex(color[1:]), 255)
    pixels = numpy.array([[known[color] for color in line] for line in painted], numpy.uint8)
    axes.imshow(pixels, extent=(0, pixels.shape[1], pixels.shape[0], 0), interpolation="nearest")


def _draw_labels(
    axes: Axes,
    labels: Sequence[tuple[int, int, int, str]],
    painted: Sequence[Sequence[str | None]],
    cell: float,
) -> None:
    """All labels in letters of one size, or none if they would be too small."""
    if not labels:
        return
    # The fifth that is left is what keeps the numbers of neighbors apart.
    fitting = (72 * cell * wide * 0.8 / (0.64 * len(words)) for _, _, wide, words in labels)
    points = min(9.0, 72 * cell * 0.55, *fitting)
    if points < _LEAST_LETTERS:
        return
    for row, column, wide, words in labels:
        color = painted[row][column]
        if color is not None:
            axes.text(
                column + wide / 2,
                row + 0.5,
                words,
                fontsize=points,
                ha="center",
                va="center",
                color=ink_on(color),
                in_layout=False,  # inside the axes: to measure each takes a third of the time
            )


_RULER_LETTERS = 7
"""The size of the numbers beside a picture, in points."""


def _draw_rulers(axes: Axes, picture: _Picture, cell: float) -> None:
    """Draw as many numbers of rows and columns as fit beside cells of `cell` inches."""
    rows, columns = next(iter(picture.parts.values())).shape
    axes.xaxis.set_label_position("bottom")
    digits = len(str(columns)) + 1  # and a space
    wide, high = 0.64 * digits * _RULER_LETTERS / 72, 1.4 * _RULER_LETTERS / 72
    rulers = (
        (axes.xaxis, columns, picture.across, 1, wide),
        (axes.yaxis, rows, picture.down, picture.row_step, high),
    )
    for axis, many, words, each, least in rulers:
        step = 2 ** max(0, math.ceil(math.log2(max(many / _MOST_TICKS, least / cell))))
        places = range(0, many, step)
        axis.set_ticks([place + 0.5 for place in places], [str(place * each) for place in places])
        axis.set_tick_params(length=0, labelsize=_RULER_LETTERS)
        if words:
            axis.set_label_text(words)
    axes.spines[:].set_visible(False)


def _draw_key(figure: Figure, axes: Axes, by: str, most: int, colors: Sequence[str]) -> None:
    if most <= len(BLIND_SAFE):
        marks = [Patch(facecolor=color, label=f"{by} {n}") for n, color in enumerate(colors)]
        figure.legend(handles=marks, loc="outside lower left", ncols=min(most, 4))
        return
    scale = ScalarMappable(Normalize(0, most - 1), SEQUENTIAL)
    bar = figure.colorbar(scale, ax=axes, location="bottom", label=by, aspect=40, shrink=0.8)
    bar.outline.set_visible(False)
