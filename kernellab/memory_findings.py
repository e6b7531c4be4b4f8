"""What the accesses of a launch to memory cost, as plain facts: what `kernellab.accesses` gives.

Where a number comes from stands with the class. `table()` gives a pandas DataFrame, imported when first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernellab.errors import SourcePosition
from kernellab.findings import data_frame

Action = Literal["load", "store", "atomic", "async copy", "TMA load", "TMA store", "TMA reduction", "tensor map"]  # fmt: skip
"""What an access does: an asynchronous copy loads into shared memory, past the registers; the copy engine (TMA) moves a block at
once; a tensor map is what it reads of a descriptor that the kernel makes, written by an atomic copy."""


@dataclass(frozen=True)
class GlobalAccess:
    """One operation of the compiled TTGIR that accesses global memory, and what all its executions cost together.

    Counted from the layout that the tile has there (Triton's), and from the addresses and masks of a run on the interpreter.
    """

    operation: str
    action: Action
    argument: str
    """The parameter that its addresses start from; "" where none is found."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """Of the tile; () for a single element."""
    element: str
    element_bytes: int
    encoding: str
    """The tile's layout; "" where a tile has none, or the copy engine moves it."""
    vector_width: int
    """Elements that one thread accesses at once, by the compiler's rules: what is known of addresses and mask, and the layout.
    1 for the copy engine, which has no threads."""
    executions: int
    """Times that a program executed it."""
    requests: int
    """Instructions of warps of which a lane was on; of the copy engine, copies."""
    sectors: int
    """Pieces of 32 bytes that requests asked for, each counted once a request."""
    lines: int
    """The same of 128 bytes."""
    best_sectors: int
    """Sectors that would do if the lanes of each request accessed neighbouring elements."""
    useful_bytes: int
    """Of the elements that were on."""
    different_sectors: int
    """Sectors that all executions together asked for, each counted once."""
    reuse_between_programs: float
    """How many programs ask for a sector, on average."""

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors that requests asked for."""
        return 32 * self.sectors

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the different sectors: the part of the L2 cache that holds them all."""
        return 32 * self.different_sectors

    @property
    def sectors_per_request(self) -> float:
        """Sectors of one request, on average; 0 where nothing was asked for."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Useful bytes over bytes moved; above 1 where lanes share elements."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0

    @property
    def writes(self) -> bool:
        """Whether it changes memory."""
        return "load" not in self.action and self.action != "async copy"

    @property
    def reads(self) -> bool:
        """Whether it reads memory."""
        return not self.writes or self.action == "atomic"

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        return (
            f"{where}{self.action} of {self.argument or 'memory'}: {self.requests:,} requests, "
            f"{self.sectors:,} sectors ({self.sectors_per_request:.3g} a request)"
        )


@dataclass(frozen=True)
class Accesses:
    """The accesses to global memory of one launch, in the order of the compiled TTGIR."""

    kernel: str
    target: str
    grid: tuple[int, int, int]
    accesses: tuple[GlobalAccess, ...]
    footprint_bytes: int
    """Different sectors of all accesses together, in bytes: what the L2 cache holds if nothing is evicted."""
    dram_bytes_read: int
    """What comes from DRAM if the caches are cold and large enough: different sectors that are read."""
    dram_bytes_written: int
    """What goes to DRAM in the end: different sectors that are written."""

    def __iter__(self) -> Iterator[GlobalAccess]:
        return iter(self.accesses)

    def __len__(self) -> int:
        return len(self.accesses)

    def __getitem__(self, argument: str) -> tuple[GlobalAccess, ...]:
        """The accesses to the memory behind a parameter; none where there are none."""
        return tuple(access for access in self.accesses if access.argument == argument)

    def table(self) -> Any:
        """One row per access, as a pandas DataFrame."""
        columns = [
            "operation", "action", "argument", "position", "shape", "element", "vector_width", "executions", "requests", "sectors",
            "lines", "sectors_per_request", "best_sectors", "useful_bytes", "moved_bytes", "efficiency", "footprint_bytes",
            "reuse_between_programs", "encoding",
        ]  # fmt: skip
        return data_frame(self.accesses, columns)
