"""The cards of layouts, and of the conversions between them."""

from __future__ import annotations

from kernellab.findings import Conversion, Conversions, Layouts, TileLayout
from kernellab.layouts import Layout, RegisterLayout, SharedLayout, sizes
from kernellab.viz.card import Card, Table

_MOST_ROWS = 16
_MOST_COLUMNS = 16
"""The part of a tile that is pictured."""
_MOST_TILES = 60
"""Rows of a list of tiles."""
_MOST_NAMED = 64
"""Elements of a tile whose every holder is named."""


def layout_card(layout: Layout) -> Card:
    """A layout in words, its basis vectors, and a picture of the tile's first rows and columns."""
    first, *rest = layout.describe().splitlines()
    return Card(
        title=f"Layout of {sizes(layout.shape)}",
        subtitle=layout.encoding,
        tables=(_bases(layout), _picture(layout)),
        notes=(first, *rest, *_named(layout)),
    )


def tile_card(tile: TileLayout) -> Card:
    """The layout of one tile of a kernel."""
    where = f"{tile.operation}, {tile.position}" if tile.position else tile.operation
    title = f"{tile.name or tile.operation}: {sizes(tile.shape)} of {tile.element}"
    if tile.layout is None:
        return Card(title=title, subtitle=where, notes=(tile.why_unknown,))
    card = layout_card(tile.layout)
    return Card(title=title, subtitle=where, tables=card.tables, notes=card.notes)


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


def conversions_card(conversions: Conversions) -> Card:
    """Where tiles change their layout, one row each."""
    rows = [_conversion(one) for one in conversions]
    return Card(
        title=f"{len(rows)} conversions",
        subtitle=f"of {conversions.read_from}",
        tables=(Table("", ("operation", "line", "how", "from", "for"), rows),),
    )


def _conversion(one: Conversion) -> tuple[str, ...]:
    return (
        f"{one.operation}{' in a loop' if one.in_loop else ''}",
        str(one.position.line) if one.position else "",
        one.cost(),
        ", ".join(dict.fromkeys(neighbour.operation for neighbour in one.forced_by)),
        ", ".join(dict.fromkeys(neighbour.operation for neighbour in one.wanted_by)),
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
    """The first rows and columns: thread and register of each element, or its offset."""
    if isinstance(layout, RegisterLayout):
        title, cells = "Thread and register", layout.cells(_MOST_ROWS, _MOST_COLUMNS)
    elif isinstance(layout, SharedLayout):
        plane = layout.offsets()
        plane = plane.reshape(-1, plane.shape[-1] if plane.ndim else 1)
        shown = plane[:_MOST_ROWS, :_MOST_COLUMNS].tolist()
        title, cells = "Offset in elements", [[str(offset) for offset in row] for row in shown]
    else:
        return Table("", (), ())
    columns = ("", *(str(number) for number in range(len(cells[0]))))
    return Table(title, columns, [(str(number), *row) for number, row in enumerate(cells)])
