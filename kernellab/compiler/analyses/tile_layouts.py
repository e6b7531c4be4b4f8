"""The tiles of a kernel's module: where their elements are, and where they change their layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kernellab.common.text import joined_sizes
from kernellab.errors import LayoutError, SourcePosition
from kernellab.records.display import HasCard, RowSequence, column_names, data_frame, plot, show

if TYPE_CHECKING:
    from kernellab.records.layouts import Layout


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


# Where the tiles of a kernel's module change their layout, and what that costs.

Means = Literal["no-op", "registers", "warp shuffles", "shared memory"]
"""How elements get to the threads that need them: they are there; in other registers
of the same thread; handed from lane to lane; written to shared memory and read from there."""


@dataclass(frozen=True)
class Neighbor:
    """An operation that settles the layout on one side of a conversion."""

    operation: str
    position: SourcePosition | None

    def __str__(self) -> str:
        return f"{self.operation} ({self.position})" if self.position else self.operation


@dataclass(frozen=True)
class Conversion:
    """An operation that brings the elements of a tile to other threads, or that may have to.

    `ttg.convert_layout` does nothing else; a reduction, a scan or a gather does it on the way, and
    an operand of a matmul is brought into shared memory and out of it by `ttg.local_alloc`
    and `ttg.local_load`.
    """

    operation: str
    name: str
    """The kernel's own name for the result, or ""."""
    number: int
    """The operation's number in the order of the module's text."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    element: str
    source: str
    """The encoding of what it takes."""
    destination: str
    """The encoding of what it gives; "" where it gives a number."""
    means: Means
    shared_bytes: int
    """What goes through shared memory in one execution by one program, each byte once however many
    threads write or read it. Of a conversion, and of what writes or reads a buffer: the tile. Of
    anything else: `scratch_bytes`, which holds its partial results."""
    shuffled_bytes: int
    """What threads hand from lane to lane, likewise:
    4 bytes for each thread and instruction (docs/layouts.md)."""
    shuffles_counted: bool
    """Whether `shuffled_bytes` is counted in the machine code; else it is an estimate."""
    kept_bytes: int | None
    """Of a conversion between registers: what threads hold afterwards and held before, so that it
    stays with them, by the two layouts; a copy in each thread counts. 0 where the whole tile goes
    through shared memory; None of operations that are not conversions."""
    scratch_bytes: int
    """Shared memory that it needs while it runs. Source: Triton's allocation pass."""
    in_loop: bool
    forced_by: tuple[Neighbor, ...]
    """The operations that leave the tile in the layout that it comes from."""
    wanted_by: tuple[Neighbor, ...]
    """The operations that need the layout that it goes to."""
    in_finished_code: Mapping[str, int] = field(default_factory=dict)
    """Opcode -> how many instructions of the machine code are on its TTGIR line, of those
    that move data between threads or wait for each other; empty where the record cannot say."""

    def show(self) -> Any:
        """Both layouts as pictures, and what moves between them (docs/widgets.md)."""
        return show(self)

    def cost(self) -> str:
        """How much goes which way: "16 bytes through shared memory, 2,560 by warp shuffles"."""
        parts = []
        if self.shared_bytes:
            parts.append(f"{self.shared_bytes:,} bytes through shared memory")
        if self.shuffled_bytes:
            about = "" if self.shuffles_counted else "an estimated "
            unit = "" if parts else " bytes"
            parts.append(f"{about}{self.shuffled_bytes:,}{unit} by {self._between_lanes()}")
        if parts and self.kept_bytes:
            parts.append(f"{self.kept_bytes:,} stay in their threads")
        return ", ".join(parts) or _WITHOUT_BYTES[self.means]

    def _between_lanes(self) -> str:
        """What the machine code has that hands values from lane to lane:
        shuffles, or REDUX, which combines those of a whole warp.
        """
        combined = any("REDUX" in opcode for opcode in self.in_finished_code)
        shuffled = any(opcode.startswith("SHFL") for opcode in self.in_finished_code)
        if combined:
            return "warp shuffles and reductions" if shuffled else "warp reductions"
        return "warp shuffles"

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        loop = " in a loop" if self.in_loop else ""
        words = [f"{where}{self.operation}{loop}: {self.cost()}"]
        if self.forced_by:
            words.append(f"from the layout of {_listed(self.forced_by)}")
        if self.wanted_by:
            words.append(f"for {_listed(self.wanted_by)}")
        return "; ".join(words)


_WITHOUT_BYTES: Mapping[Means, str] = {
    "no-op": "nothing to do",
    "registers": "within each thread's registers",
    "warp shuffles": "by warp shuffles",
    "shared memory": "through shared memory",
}


def _listed(neighbors: Sequence[Neighbor]) -> str:
    return ", ".join(str(neighbor) for neighbor in neighbors)


@dataclass(frozen=True)
class Conversions(HasCard, RowSequence[Conversion]):
    """Where the tiles of a module change their layout, in the order of its text."""

    conversions: tuple[Conversion, ...]
    read_from: str
    _rows = "conversions"

    def __str__(self) -> str:
        """A line for each conversion."""
        lines = [str(conversion) for conversion in self.conversions]
        return "\n".join(lines) or f"No tile of {self.read_from!r} changes its layout."

    def table(self) -> Any:
        """One row per conversion, as a pandas DataFrame."""
        frame = data_frame(self.conversions, column_names(Conversion))
        for column in ("forced_by", "wanted_by"):
            frame[column] = [
                _listed(getattr(conversion, column)) for conversion in self.conversions
            ]
        return frame
