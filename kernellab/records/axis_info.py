"""What is known of the addresses of a kernel's accesses to global memory.

The source of each number is in the docstring of its class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class PointerFacts:
    """What is known of the addresses of one access to global memory, per dimension of its tile.

    `contiguity`, `divisibility` and `constancy` are an estimate of ours, by the rules of Triton's
    AxisInfo analysis (lib/Analysis/AxisInfo.cpp), which the compiler does not print.
    `compiled_bytes` is the compiler's own result.
    """

    operation: str
    pointer: str
    """The kernel's parameter that the addresses start from; "" where none is found."""
    element: str
    shape: tuple[int, ...]
    contiguity: tuple[int, ...]
    """Elements that follow each other in memory."""
    divisibility: tuple[int, ...]
    """The largest power of two, in bytes, that divides the first address of each contiguous run."""
    constancy: tuple[int, ...]
    """Elements that have the same address."""
    vector_width: int | None
    """Elements that one thread may access at once: from the estimate, the layout and the mask; at
    most 128 bits. None for atomics, and if the layout is not a blocked one: `compiled_bytes` has
    it."""
    compiled_bytes: tuple[int, ...]
    """Widths in bytes of the accesses to global memory that PTX or AMD assembly has for this line;
    () where it has none."""
    position: SourcePosition | None


@dataclass(frozen=True)
class AxisInfo:
    """The accesses to global memory of a kernel's module."""

    accesses: tuple[PointerFacts, ...]
    read_from: str

    def table(self) -> Any:
        """One row per access, as a pandas DataFrame."""
        return data_frame(self.accesses, column_names(PointerFacts))
