"""Layouts of tiles and conversions between them: their cards, their view and its data."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernellab.common.arguments import is_one_of
from kernellab.common.text import counted, shown
from kernellab.compiler.analyses.records import Conversion, Conversions, Layouts, TileLayout
from kernellab.errors import ArgumentError, LayoutError, nearest
from kernellab.records.layouts import (
    Layout,
    Move,
    RegisterLayout,
    SharedLayout,
    TensorMemoryLayout,
    sizes,
)
from kernellab.viz.kit.data import ViewData
from kernellab.viz.kit.view import Card, Table, View, card_of, view_of

_MOST_ROWS = 16
_MOST_COLUMNS = 16
"""The part of a tile that is pictured."""
_MOST_TILES = 60
"""Rows of a list of tiles."""
_MOST_NAMED = 64
"""Elements of a tile whose every holder is named."""


@card_of.register
def layout_card(layout: Layout) -> Card:
    """A layout in words, its basis vectors, and a picture of the tile's first rows and columns."""
    notes = layout.describe().splitlines()
    if isinstance(layout, RegisterLayout) and layout.element_count <= _MOST_NAMED:
        notes.append(layout.picture())  # which names every element's threads
    return Card(
        title=f"Layout of {sizes(layout.shape)}",
        subtitle=layout.encoding,
        tables=(_bases(layout), _picture(layout)),
        notes=notes,
    )


@card_of.register
def tile_card(tile: TileLayout) -> Card:
    """The layout of one tile of a kernel."""
    return _card_of_alike([tile])


def tile_cards(tiles: Iterable[TileLayout]) -> list[Card]:
    """The layouts of tiles, those of one shape and layout together on one card."""
    alike: dict[tuple[str, tuple[int, ...], str], list[TileLayout]] = {}
    for tile in tiles:
        alike.setdefault((tile.name, tile.shape, tile.encoding), []).append(tile)
    return [_card_of_alike(group) for group in alike.values()]


def _card_of_alike(tiles: Sequence[TileLayout]) -> Card:
    """One layout, and the operations whose results have it."""
    first = tiles[0]
    made = (
        f"{tile.operation}, {tile.position}" if tile.position else tile.operation for tile in tiles
    )
    where = "; ".join(dict.fromkeys(made))
    elements = ", ".join(dict.fromkeys(tile.element for tile in tiles))
    title = f"{first.name or first.operation}: {sizes(first.shape)} of {elements}"
    if first.layout is None:
        return Card(title=title, subtitle=where, notes=(first.why_unknown,))
    card = layout_card(first.layout)
    return Card(title=title, subtitle=where, tables=card.tables, notes=card.notes)


@card_of.register
def layouts_card(layouts: Layouts) -> Card:
    """The tiles of a module: name, line, type and layout, what is the same said once."""
    named = (
        (
            tile.name or tile.operation,
            str(tile.position.line) if tile.position else "",
            f"{sizes(tile.shape)} of {tile.element}",
            tile.encoding,
        )
        for tile in layouts
    )
    rows = list(dict.fromkeys(named))
    more = len(rows) - _MOST_TILES
    return Card(
        title=f"{len(layouts)} tiles",
        subtitle=f"of {layouts.read_from}",
        tables=(Table("", ("tile", "line", "type", "layout"), rows[:_MOST_TILES]),),
        notes=(f"{more} more lines are left out: .table() has every tile.",) if more > 0 else (),
    )


@card_of.register
def conversions_card(conversions: Conversions) -> Card:
    """Where tiles change their layout, one row each."""
    rows = [
        (
            f"{conversion.operation}{' in a loop' if conversion.in_loop else ''}",
            str(conversion.position.line) if conversion.position else "",
            conversion.cost(),
            ", ".join(dict.fromkeys(neighbor.operation for neighbor in conversion.forced_by)),
            ", ".join(dict.fromkeys(neighbor.operation for neighbor in conversion.wanted_by)),
        )
        for conversion in conversions
    ]
    return Card(
        title=counted(len(rows), "conversion"),
        subtitle=f"of {conversions.read_from}",
        tables=(Table("", ("operation", "line", "how", "from", "for"), rows),),
    )


def format_conversion(conversion: Conversion) -> str:
    """What a conversion says about itself, with files' names: a long path would hide the rest."""
    words = str(conversion)
    neighbors = (*conversion.forced_by, *conversion.wanted_by)
    for position in (conversion.position, *(neighbor.position for neighbor in neighbors)):
        if position is not None and position.file:
            words = words.replace(position.file, Path(position.file).name)
    return words


def _bases(layout: Layout) -> Table:
    rows = [
        (name, " ".join(f"({','.join(map(str, vector))})" for vector in vectors) or "none")
        for name, vectors in layout.bases.items()
    ]
    return Table("Basis vectors", ("input", "where 1, 2, 4, ... lead"), rows)


def _picture(layout: Layout) -> Table:
    """The first rows and columns: thread and register of each element, or its offset."""
    if not isinstance(layout, RegisterLayout | SharedLayout):
        return Table("", (), ())
    is_register = isinstance(layout, RegisterLayout)
    title = "Thread and register" if is_register else "Offset in elements"
    cells = layout.cells(_MOST_ROWS, _MOST_COLUMNS)
    part = layout.part_shown(_MOST_ROWS, _MOST_COLUMNS)
    columns = ("", *(str(number) for number in range(len(cells[0]))))
    # A tile of one dimension is folded: its rows are named by their first element.
    step = len(cells[0]) if len(layout.shape) < 2 else 1
    rows = [(str(number * step), *row) for number, row in enumerate(cells)]
    return Table(f"{title}: {part}" if part else title, columns, rows)


_MOVES: Mapping[Move, str] = {
    "stays": "stays where it is",
    "register": "goes to another register of its thread",
    "lane": "goes to another lane of its warp (a shuffle)",
    "warp": "goes to another warp (through shared memory)",
    "block": "goes to another block",
}
"""In the words that the view has."""

Memory = Literal["registers", "shared memory", "tensor memory"]


@dataclass(frozen=True)
class LayoutInput:
    """One input of a linear layout."""

    name: str
    """ "register", "lane", "warp", "block"; of memory "offset", "block"; "row", "column"."""
    bases: tuple[int, ...]
    """By bits of the input: the number of the element it leads to, the last dimension fastest."""


@dataclass(frozen=True)
class TileData:
    """A tile and where its elements are."""

    name: str
    shape: tuple[int, ...]
    memory: Memory
    element_bits: int
    """0 if the layout stands for elements of any size."""
    encoding: str
    inputs: tuple[LayoutInput, ...]
    """The first varies fastest where inputs are counted through."""
    paddings: tuple[tuple[int, int], ...]
    """(interval, padding) in elements."""
    fragment: str
    """The PTX manual's word for the registers: "a", "b", "c" (the result); else ""."""
    words: str
    """The layout in words."""


@dataclass(frozen=True)
class LayoutView(ViewData):
    """What the layout view draws."""

    kind: Literal["layout"]
    title: str
    tiles: tuple[TileData, ...]
    left: int
    """Number of the tile that is shown first."""
    right: int | None
    """Number of the tile that it is compared with."""
    conversion: str
    """How the compiler converts one to the other, if that is known."""
    colors: str = ""
    """The first coloring: "warp", "bank"; "" if it is not known."""


LARGEST = 1 << 20
"""Elements of the largest tile that is drawn."""


def layout_of(thing: Layout | TileLayout) -> Layout:
    if isinstance(thing, Layout):
        return thing
    if not isinstance(thing, TileLayout):
        raise ArgumentError(
            f"to must be a layout, got {thing!r}.",
            advice='Pass a Layout, or a tile of a compilation: compilation.layouts()["acc"][0].',
        )
    if thing.layout is None:
        raise LayoutError(f"{thing} cannot be drawn: {thing.why_unknown}")
    return thing.layout


def check_drawable(layout: Layout) -> None:
    """Raise LayoutError for a tile of too many elements to draw."""
    if layout.element_count > LARGEST:
        raise LayoutError(
            f"A tile of {sizes(layout.shape)} has more elements than can be drawn: {LARGEST:,}."
        )


def check_color(by: str | None, offered: Collection[str]) -> None:
    """Raise LayoutError for what a picture cannot be colored by; None leaves the choice open."""
    if by is not None and not is_one_of(by, offered):
        choices = ", ".join(f'"{name}"' for name in offered)
        raise LayoutError(
            f"by must be one of {choices}, got {shown(by)}.",
            advice=nearest(by, offered) or f'Write by="{next(iter(offered))}", for example.',
        )


def tile_title(tile: TileLayout, layout: Layout) -> str:
    """The tile's name, line, type and family."""
    line = f", line {tile.position.line}" if tile.position else ""
    family = layout.family.replace("_", " ")
    return f"{tile.name or tile.operation}{line}: {sizes(layout.shape)} {tile.element}, {family}"


def named_data(thing: Layout | TileLayout) -> TileData:
    layout = layout_of(thing)
    if isinstance(thing, Layout):
        return tile_data(layout, str(layout), 0)
    return tile_data(layout, tile_title(thing, layout), element_bits(thing.element))


def tile_data(layout: Layout, name: str, bits: int) -> TileData:
    shape = layout.shape or (1,)
    memory: Memory = "tensor memory" if isinstance(layout, TensorMemoryLayout) else "registers"
    return TileData(
        name=name,
        shape=shape,
        memory="shared memory" if isinstance(layout, SharedLayout) else memory,
        element_bits=bits,
        encoding=layout.encoding,
        inputs=tuple(
            LayoutInput(basis, tuple(_number(vector, shape) for vector in vectors))
            for basis, vectors in layout.bases.items()
        ),
        paddings=layout.paddings if isinstance(layout, SharedLayout) else (),
        fragment=fragment(layout),
        words=layout.describe(),
    )


def _number(vector: Sequence[int], shape: Sequence[int]) -> int:
    """The number of the element at an index, the last dimension fastest."""
    number = 0
    for position, size in zip(vector, shape):
        number = number * size + position
    return number


def fragment(layout: Layout) -> str:
    """The letter that the PTX manual has for the registers of an NVIDIA matrix instruction."""
    if not isinstance(layout, RegisterLayout) or "nvidia_mma" not in layout.encoding:
        return ""
    if layout.family == "nvidia_mma":
        return "c"
    operand = re.match(r"#ttg\.dot_op<\{opIdx = (\d)", layout.encoding)
    return "ab"[int(operand[1])] if operand else ""


def element_bits(element: str) -> int:
    """The bits of an element in memory by its MLIR type: "f16" 16, "i1" 8, a pointer 64."""
    if element.startswith("!"):
        return 64
    digits = re.search(r"\d+", element)
    return max(8, int(digits[0])) if digits else 0


COLORINGS: Mapping[Memory, tuple[str, ...]] = {
    "registers": ("warp", "lane", "register", "block"),
    "shared memory": ("bank", "offset", "row of the tile"),
    "tensor memory": ("row", "column"),
}
"""The colorings of a tile, as in js/src/layout_colors.ts."""


@view_of.register
def layout_view(
    layout: Layout, to: Layout | TileLayout | None = None, by: str | None = None
) -> View:
    """One layout, or two of the same shape and what moves; `by` is what colors show at first."""
    chosen = [layout] if to is None else [layout, layout_of(to)]
    _check_comparable(chosen)
    names = [str(layout) for layout in chosen]
    if len(set(names)) < len(names):
        names = [f"{name}, {side}" for name, side in zip(names, ("first", "second"))]
    tiles = tuple(tile_data(layout, name, 0) for layout, name in zip(chosen, names))
    cards = [*_what_moves(chosen), *map(layout_card, chosen)]
    title = f"Layout of {sizes(layout.shape)}"
    return _view(title, tiles, cards, by=by)


@view_of.register
def tile_view(
    tile: TileLayout, to: Layout | TileLayout | None = None, by: str | None = None
) -> View:
    """The layout of one tile of a kernel; `to` and `by` as for `layout_view`."""
    shown = [tile] if to is None else [tile, to]
    layouts = [layout_of(item) for item in shown]
    _check_comparable(layouts)
    tiles = tuple(map(named_data, shown))
    cards = [
        tile_card(each) if isinstance(each, TileLayout) else layout_card(each) for each in shown
    ]
    return _view(tiles[0].name, tiles, [*_what_moves(layouts), *cards], by=by)


def _what_moves(layouts: Sequence[Layout]) -> list[Card]:
    """Return what moves between two layouts of registers that are shown side by side."""
    match layouts:
        case [RegisterLayout() as source, RegisterLayout() as destination]:
            moved = source.moves_to(destination)
            rows = [(f"{count:,}", _MOVES[move]) for move, count in moved.items()]
            return [Card("What moves", tables=(Table("", ("elements", "each"), rows),))]
    return []


@view_of.register
def layouts_view(layouts: Layouts, name: str | None = None) -> View:
    """The tiles of a module, one at a time; with a name the kernel's tiles of that name. Raises
    LayoutError: no tile has that name, or no tile has a layout.
    """
    chosen = layouts.tiles if name is None else layouts[name]
    drawn = [
        named_data(tile)
        for tile in chosen
        if tile.layout is not None and tile.layout.element_count <= LARGEST and tile.layout.shape
    ]
    tiles = tuple({data.name: data for data in drawn}.values())
    if not tiles:
        raise LayoutError(f"No tile of {layouts.read_from!r} has a layout that can be drawn.")
    title = f"{name or 'Tiles'} in {layouts.read_from}"
    cards = [layouts_card(layouts)] if name is None else tile_cards(chosen)
    first = 0 if name and layouts.type_in_kernel(name) else _largest_named(tiles, chosen)
    return View(title, lambda: LayoutView("layout", title, tiles, first, None, ""), lambda: cards)


def _largest_named(tiles: Sequence[TileData], chosen: Sequence[TileLayout]) -> int:
    """Which is the largest tile that the kernel gave a name to: an accumulator, a loaded block."""
    named = {layout.name for layout in chosen if layout.name}
    return max(
        range(len(tiles)),
        key=lambda n: (tiles[n].name.split(",")[0] in named, math.prod(tiles[n].shape), -n),
    )


@view_of.register
def conversion_view(conversion: Conversion) -> View:
    """What a conversion takes, what it gives, and what it moves. Raises LayoutError: one side is
    not a layout of registers or of memory.
    """
    if not conversion.destination:
        raise LayoutError(f"{conversion.operation} gives a number: there is no layout to show.")
    sides = [
        Layout.parse(side, conversion.shape) for side in (conversion.source, conversion.destination)
    ]
    name = conversion.name or conversion.operation
    bits = element_bits(conversion.element)
    tiles = tuple(
        tile_data(side, f"{name}, {when}", bits) for side, when in zip(sides, ("before", "after"))
    )
    words = format_conversion(conversion)
    cards = [Card(name, words), *_what_moves(sides), *map(layout_card, sides)]
    return _view(name, tiles, cards, conversion=words)


def _view(
    title: str,
    tiles: tuple[TileData, ...],
    cards: Sequence[Card],
    conversion: str = "",
    by: str | None = None,
) -> View:
    check_color(by, dict.fromkeys(name for tile in tiles for name in COLORINGS[tile.memory]))
    right = 1 if len(tiles) > 1 else None
    data = LayoutView("layout", title, tiles, 0, right, conversion, by or "")
    return View(title, lambda: data, lambda: cards)


def _check_comparable(layouts: Sequence[Layout]) -> None:
    first, *rest = layouts
    check_drawable(first)
    for other in rest:
        if other.shape != first.shape:
            raise LayoutError(
                f"A layout of {sizes(other.shape)} cannot be compared with one of "
                f"{sizes(first.shape)}.",
                advice="Compare layouts of tiles with the same shape.",
            )
