"""Where the tiles of a kernel's module change their layout, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.errors import SourcePosition
from kernellab.records.showing import HasCard, show
from kernellab.records.tables import RowSequence, column_names, data_frame

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
