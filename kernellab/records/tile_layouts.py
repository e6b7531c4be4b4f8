"""The tiles of a kernel's module, and where their elements are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.common.formatting import joined_sizes
from kernellab.errors import LayoutError, SourcePosition
from kernellab.records.showing import plot, show
from kernellab.records.tables import column_names, data_frame

if TYPE_CHECKING:
    from kernellab.records.layouts import Layout
from kernellab.records.showing import HasCard


@dataclass(frozen=True)
class TileLayout(HasCard):
    """One tile of a kernel's module, in registers or in memory, and where its elements are."""

    name: str
    """The kernel's own name for it, "acc"; "" where it has none."""
    operation: str
    """The operation that makes it: "tt.load"; of a loop's variable the loop."""
    number: int
    """The operation's number in the order of the module's text."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """In elements; of a piece of memory with several tiles (the buffers
    of a pipelined loop) all of them."""
    element: str
    """The elements' type as MLIR writes it: "f16", "!tt.ptr<f16>"."""
    encoding: str
    """The layout as TTGIR writes it, aliases spelled out."""
    layout: Layout | None
    """Of the last dimensions, where a piece of memory has several tiles;
    None where Triton does not say: see `why_unknown`."""
    why_unknown: str = ""

    def show(self, to: TileLayout | Layout | None = None, by: str | None = None) -> Any:
        """The tile as a picture (docs/widgets.md); with `to`, next to another layout
        of the same shape; `by` as for `Layout.show`.

        Raises LayoutError where the layout is not known, the shapes differ,
        or nothing is called `by`.
        """
        return show(self, to=to, by=by)

    def plot(self, by: str | None = None, at: Sequence[int] = (), hardware: bool = False) -> Any:
        """The tile as a figure: see `Layout.plot`.

        Raises LayoutError where the layout is not known, or as there.
        """
        return plot(self, by=by, at=at, hardware=hardware)

    def __str__(self) -> str:
        where = f" ({self.position})" if self.position else ""
        shape = joined_sizes(self.shape)
        return f"{self.name or self.operation}{where}: {shape}x{self.element}, {self.encoding}"

    def has_type(self, shape: Sequence[int], element: str) -> bool:
        """Whether it is a tile of that shape and element type, or a piece of memory
        with several of them.
        """
        own = self.shape[-len(shape) :] if shape else self.shape
        return own == tuple(shape) and self.element == element

    def line(self) -> str:
        """The tile in a few words, the encoding by its families alone: "acc, line 38:
        tt.dot, 128x64xf32, nvidia mma".
        """
        where = f", line {self.position.line}" if self.position else ""
        name = f"{self.name}{where}: {self.operation}" if self.name else f"{self.operation}{where}"
        shape = joined_sizes(self.shape)
        families = re.findall(r"#\w+\.(\w+)", self.encoding)
        layout = " of ".join(
            family.removesuffix("_encoding").replace("_", " ") for family in families
        )
        return f"{name}, {shape}x{self.element}, {layout}"


@dataclass(frozen=True)
class Layouts(HasCard):
    """The tiles of a kernel's module, in the order of its text."""

    tiles: tuple[TileLayout, ...]
    read_from: str
    """The stage, or the pass after which the module was read."""
    explain_absence: Callable[[str], str] = field(repr=False, compare=False, default=lambda _: "")
    """Says where a name has gone that no tile has."""
    type_in_kernel: Callable[[str], tuple[tuple[int, ...], str] | None] = field(
        repr=False, compare=False, default=lambda _: None
    )
    """Shape and element type of what the kernel itself calls by a name, last in its TTIR;
    None where that is not known."""

    def __getitem__(self, name: str) -> tuple[TileLayout, ...]:
        """Every tile that has that name in the kernel, in the order of the text.

        First come those of the type that the named value has in TTIR: a pass gives what it makes
        for a line (the predicates of a pipelined loop) the line's name too.

        Raises:
            LayoutError: none has; the message says which pass removed it, where one did.
        """
        matching = [tile for tile in self.tiles if tile.name == name]
        if not matching:
            raise LayoutError(
                f"No tile of {self.read_from!r} is called {name!r}.",
                advice=self.explain_absence(name),
            )
        if (own := self.type_in_kernel(name)) is not None:
            matching.sort(key=lambda tile: not tile.has_type(*own))
        return tuple(matching)

    def __iter__(self) -> Iterator[TileLayout]:
        return iter(self.tiles)

    def __len__(self) -> int:
        return len(self.tiles)

    def __str__(self) -> str:
        """A line for each tile."""
        return "\n".join(tile.line() for tile in self.tiles)

    def show(self, name: str | None = None) -> Any:
        """The tiles as pictures, one at a time or two side by side (docs/widgets.md);
        with a name those that have it.

        Raises LayoutError where no tile has that name.
        """
        return show(self, name=name)

    @property
    def names(self) -> tuple[str, ...]:
        """The kernel's names, each once."""
        return tuple(dict.fromkeys(tile.name for tile in self.tiles if tile.name))

    def table(self) -> Any:
        """One row per tile, as a pandas DataFrame."""
        columns = [name for name in column_names(TileLayout) if name != "layout"]
        return data_frame(self.tiles, columns)
