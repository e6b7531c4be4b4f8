"""The cards of layouts, and of the conversions between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kernellab.common.text import counted
from kernellab.records.layouts import Layout, Move, RegisterLayout, SharedLayout, sizes
from kernellab.records.tile_layouts import Conversion, Conversions, Layouts, TileLayout
from kernellab.viz.kit.card import Card, Table, card_of

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
    first, *rest = layout.describe().splitlines()
    return Card(
        title=f"Layout of {sizes(layout.shape)}",
        subtitle=layout.encoding,
        tables=(_bases(layout), _picture(layout)),
        notes=(first, *rest, *_named(layout)),
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
    made = [
        f"{tile.operation}, {tile.position}" if tile.position else tile.operation for tile in tiles
    ]
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
    rows = list(dict.fromkeys(_tile_row(tile) for tile in layouts))
    more = len(rows) - _MOST_TILES
    return Card(
        title=f"{len(layouts)} tiles",
        subtitle=f"of {layouts.read_from}",
        tables=(Table("", ("tile", "line", "type", "layout"), rows[:_MOST_TILES]),),
        notes=(f"{more} more lines are left out: .table() has every tile.",) if more > 0 else (),
    )


def _tile_row(tile: TileLayout) -> tuple[str, str, str, str]:
    return (
        tile.name or tile.operation,
        str(tile.position.line) if tile.position else "",
        f"{sizes(tile.shape)} of {tile.element}",
        tile.encoding,
    )


@card_of.register
def conversions_card(conversions: Conversions) -> Card:
    """Where tiles change their layout, one row each."""
    rows = [_conversion(conversion) for conversion in conversions]
    return Card(
        title=counted(len(rows), "conversion"),
        subtitle=f"of {conversions.read_from}",
        tables=(Table("", ("operation", "line", "how", "from", "for"), rows),),
    )


def format_conversion(conversion: Conversion) -> str:
    """What a conversion says of itself, files by their names alone:
    a path takes the tab_id of what is to be read.
    """
    words = str(conversion)
    neighbors = (*conversion.forced_by, *conversion.wanted_by)
    for position in (conversion.position, *(neighbor.position for neighbor in neighbors)):
        if position is not None and position.file:
            words = words.replace(position.file, Path(position.file).name)
    return words


def _conversion(conversion: Conversion) -> tuple[str, ...]:
    return (
        f"{conversion.operation}{' in a loop' if conversion.in_loop else ''}",
        str(conversion.position.line) if conversion.position else "",
        conversion.cost(),
        ", ".join(dict.fromkeys(neighbor.operation for neighbor in conversion.forced_by)),
        ", ".join(dict.fromkeys(neighbor.operation for neighbor in conversion.wanted_by)),
    )


def _bases(layout: Layout) -> Table:
    rows = [
        (name, " ".join(f"({','.join(map(str, vector))})" for vector in vectors) or "none")
        for name, vectors in layout.bases.items()
    ]
    return Table("Basis vectors", ("input", "where 1, 2, 4, ... lead"), rows)


def _named(layout: Layout) -> tuple[str, ...]:
    """Every element's threads, of a tile that is small enough to name them."""
    small = isinstance(layout, RegisterLayout) and layout.element_count <= _MOST_NAMED
    return (layout.picture(),) if small and isinstance(layout, RegisterLayout) else ()


def _picture(layout: Layout) -> Table:
    """The first rows and columns: thread and register of each element, or its offset;
    the title says what is left out.
    """
    if isinstance(layout, RegisterLayout):
        title, cells = "Thread and register", layout.cells(_MOST_ROWS, _MOST_COLUMNS)
    elif isinstance(layout, SharedLayout):
        title, cells = "Offset in elements", layout.cells(_MOST_ROWS, _MOST_COLUMNS)
    else:
        return Table("", (), ())
    part = layout.part_shown(_MOST_ROWS, _MOST_COLUMNS)
    columns = ("", *(str(number) for number in range(len(cells[0]))))
    # A tile of one dimension is folded: its rows are named by their first element.
    step = len(cells[0]) if len(layout.shape) < 2 else 1
    rows = [(str(number * step), *row) for number, row in enumerate(cells)]
    return Table(f"{title}: {part}" if part else title, columns, rows)


def moves_card(source: RegisterLayout, destination: RegisterLayout) -> Card:
    """What has to move from one layout of a tile to another, counted by the registers
    that hold it afterwards.
    """
    moved = source.moves_to(destination)
    rows = [(f"{count:,}", _MOVES[move]) for move, count in moved.items()]
    return Card("What moves", tables=(Table("", ("elements", "each"), rows),))


_MOVES: Mapping[Move, str] = {
    "stays": "stays where it is",
    "register": "goes to another register of its thread",
    "lane": "goes to another lane of its warp (a shuffle)",
    "warp": "goes to another warp (through shared memory)",
    "block": "goes to another block",
}
"""In the words that the view has."""
