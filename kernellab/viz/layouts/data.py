"""What the layout view draws, and the tiles that fill it in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernellab.errors import ArgumentError, LayoutError
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
    colours: str = ""
    """What it is coloured by at first: "warp", "bank"; "" where nobody says."""


LARGEST = 1 << 20
"""Elements of the largest tile that is drawn."""


def layout_of(thing: Layout | TileLayout) -> Layout:
    if isinstance(thing, Layout):
        return thing
    if not isinstance(thing, TileLayout):
        raise ArgumentError(
            f"to={thing!r} is no layout.",
            advice='Give a Layout, or a tile of a compilation: compilation.layouts()["acc"][0].',
        )
    if thing.layout is None:
        raise LayoutError(f"{thing} cannot be drawn: {thing.why_unknown}")
    return thing.layout


def named_data(thing: Layout | TileLayout) -> TileData:
    layout = layout_of(thing)
    if isinstance(thing, Layout):
        return tile_data(layout, str(layout), 0)
    line = f", line {thing.position.line}" if thing.position else ""
    what = (
        f"{thing.name or thing.operation}{line}: {sizes(layout.shape)} {thing.element}, "
        f"{layout.family.replace('_', ' ')}"
    )
    return tile_data(layout, what, element_bits(thing.element))


def tile_data(layout: Layout, name: str, bits: int) -> TileData:
    shape = layout.shape or (1,)
    return TileData(
        name=name,
        shape=shape,
        memory=_memory(layout),
        element_bits=bits,
        encoding=layout.encoding,
        inputs=tuple(
            LayoutInput(one, tuple(_number(vector, shape) for vector in vectors))
            for one, vectors in layout.bases.items()
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
