"""The layout view: tiles of a kernel, layouts made by hand, two layouts
and what moves between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from kernellab.errors import LayoutError
from kernellab.records.layouts import Layout, RegisterLayout, sizes
from kernellab.records.tile_layouts import Conversion, Layouts, TileLayout
from kernellab.viz.kit.card import Card
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.layouts.card import (
    format_conversion,
    layout_card,
    layouts_card,
    moves_card,
    tile_card,
    tile_cards,
)
from kernellab.viz.layouts.data import (
    LARGEST,
    LayoutView,
    Memory,
    TileData,
    check_color,
    check_drawable,
    element_bits,
    layout_of,
    named_data,
    tile_data,
)

COLORINGS: Mapping[Memory, tuple[str, ...]] = {
    "registers": ("warp", "lane", "register", "block"),
    "shared memory": ("bank", "offset", "row of the tile"),
    "tensor memory": ("row", "column"),
}
"""What the view can color a tile by, as js/src/layout_colors.ts has it."""


@view_of.register
def layout_view(
    layout: Layout, to: Layout | TileLayout | None = None, by: str | None = None
) -> View:
    """One layout; with `to`, beside another one of the same shape, and what has to move.
    `by` is what the colors are at first.
    """
    chosen = [layout] if to is None else [layout, layout_of(to)]
    _check_comparable(chosen)
    names = [str(layout) for layout in chosen]
    if len(set(names)) < len(names):
        names = [f"{name}, {side}" for name, side in zip(names, ("first", "second"))]
    tiles = tuple(tile_data(layout, name, 0) for layout, name in zip(chosen, names))
    cards = [*_what_moves(chosen), *(layout_card(layout) for layout in chosen)]
    title = f"Layout of {sizes(layout.shape)}"
    return _view(title, tiles, cards, colors=_checked_colors(by, tiles))


@view_of.register
def tile_view(
    tile: TileLayout, to: Layout | TileLayout | None = None, by: str | None = None
) -> View:
    """The layout of one tile of a kernel; with `to`, beside another layout of the same shape;
    `by` as for `layout_view`.
    """
    shown = [tile] if to is None else [tile, to]
    layouts = [layout_of(item) for item in shown]
    _check_comparable(layouts)
    tiles = tuple(named_data(layout) for layout in shown)
    cards = [
        tile_card(layout) if isinstance(layout, TileLayout) else layout_card(layout)
        for layout in shown
    ]
    colors = _checked_colors(by, tiles)
    return _view(tiles[0].name, tiles, [*_what_moves(layouts), *cards], colors=colors)


def _checked_colors(by: str | None, tiles: Sequence[TileData]) -> str:
    """What the view is to be colored by at first; "" where no one says."""
    offered = list(dict.fromkeys(name for tile in tiles for name in COLORINGS[tile.memory]))
    check_color(by, offered)
    return by or ""


def _what_moves(layouts: Sequence[Layout]) -> list[Card]:
    """Return what moves between two layouts of registers that are shown side by side."""
    match layouts:
        case [RegisterLayout() as source, RegisterLayout() as destination]:
            return [moves_card(source, destination)]
        case _:
            return []


@view_of.register
def layouts_view(layouts: Layouts, name: str | None = None) -> View:
    """The tiles of a module, one at a time; with a name the kernel's tiles of that name.

    Raises:
        LayoutError: no tile has that name, or no tile has a layout.
    """
    chosen = layouts.tiles if name is None else layouts[name]
    tiles = tuple({data.name: data for data in map(named_data, _with_layout(chosen))}.values())
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
    """What a conversion takes, what it gives, and what it moves.

    Raises:
        LayoutError: one side is not a layout of registers or of memory.
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
    colors: str = "",
) -> View:
    right = 1 if len(tiles) > 1 else None
    data = LayoutView("layout", title, tiles, 0, right, conversion, colors)
    return View(title, lambda: data, lambda: cards)


def _with_layout(tiles: Iterable[TileLayout]) -> list[TileLayout]:
    return [
        tile
        for tile in tiles
        if tile.layout is not None and tile.layout.element_count <= LARGEST and tile.layout.shape
    ]


def _check_comparable(layouts: Sequence[Layout]) -> None:
    first, *rest = layouts
    check_drawable(first)
    for other in rest:
        if other.shape != first.shape:
            raise LayoutError(
                f"A layout of {sizes(other.shape)} cannot be compared with one of "
                f"{sizes(first.shape)}.",
                advice="Both have to lay out the same tile.",
            )
