"""What the layout view draws, and the tiles that fill it in."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from kernellab.common.arguments import is_one_of
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, LayoutError, suggestion
from kernellab.records.layouts import (
    Layout,
    RegisterLayout,
    SharedLayout,
    TensorMemoryLayout,
    sizes,
)
from kernellab.records.tile_layouts import TileLayout
from kernellab.viz.kit.data import ViewData

Memory = Literal["registers", "shared memory", "tensor memory"]


@dataclass(frozen=True)
class LayoutInput:
    """One input of a linear layout."""

    name: str
    """ "register", "lane", "warp", "block"; of memory "offset", "block"; "row", "column"."""
    bases: tuple[int, ...]
    """By bits of the input: the number of the element that the bit leads to,
    the last dimension fastest."""


@dataclass(frozen=True)
class TileData:
    """A tile and where its elements are."""

    name: str
    shape: tuple[int, ...]
    memory: Memory
    element_bits: int
    """0 where the layout stands for elements of any size."""
    encoding: str
    inputs: tuple[LayoutInput, ...]
    """The first varies fastest where inputs are counted through."""
    paddings: tuple[tuple[int, int], ...]
    """(interval, padding) in elements."""
    fragment: str
    """What the PTX manual calls the registers: "a", "b" (operands), "c" (the result);
    "" for other layouts."""
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
    """What the compiler does to get from one to the other, where that is known."""
    colors: str = ""
    """What it is colored by at first: "warp", "bank"; "" where no one says."""


LARGEST = 1 << 20
"""Elements of the largest tile that is drawn."""


def layout_of(thing: Layout | TileLayout) -> Layout:
    if isinstance(thing, Layout):
        return thing
    if not isinstance(thing, TileLayout):
        raise ArgumentError(
            f"to must be a layout, got {thing!r}.",
            advice='Give a Layout, or a tile of a compilation: compilation.layouts()["acc"][0].',
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
        advice = suggestion(by, offered, "It can be colored by")
        raise LayoutError(f"by={shown(by)} is not a color of this picture.", advice=advice)


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
    return TileData(
        name=name,
        shape=shape,
        memory=_memory(layout),
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


def _memory(layout: Layout) -> Memory:
    if isinstance(layout, SharedLayout):
        return "shared memory"
    return "tensor memory" if isinstance(layout, TensorMemoryLayout) else "registers"


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
    """The size of an element by its MLIR type, as memory holds it:
    "f16" 16, "i1" 8, a pointer 64.
    """
    if element.startswith("!"):
        return 64
    digits = re.search(r"\d+", element)
    return max(8, int(digits[0])) if digits else 0
