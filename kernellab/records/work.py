"""The arithmetic and the memory traffic of one program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kernellab.errors import SourcePosition
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class WorkItem:
    """Arithmetic or memory traffic of one operation of a program.
    Counted from the IR, not measured.
    """

    operation: str
    kind: Literal["matrix", "arithmetic", "load", "store", "atomic"]
    each: int
    """Per execution: floating-point operations ("matrix", "arithmetic"), or bytes of global memory,
    masks counted as true."""
    times: int
    """How often it runs, as far as trip counts are known."""
    unknown_loops: tuple[str, ...]
    """Trip counts that are not known: `each * times` is to be multiplied with them."""
    position: SourcePosition | None


@dataclass(frozen=True)
class Work:
    """Arithmetic and bytes of one program, counted from the TTIR.

    An upper bound for bytes: masked lanes count, and both sides of a branch;
    every operation of a loop runs in every iteration.
    """

    items: tuple[WorkItem, ...]
    read_from: str

    def _sums(self, *kinds: str) -> Mapping[str, int]:
        sums: dict[str, int] = {}
        for item in self.items:
            if item.kind in kinds:
                loops = " * ".join(item.unknown_loops) or "1"
                sums[loops] = sums.get(loops, 0) + item.each * item.times
        return sums

    @property
    def flops(self) -> Mapping[str, int]:
        """Trip counts that are not known ("1" for none) -> floating-point operations
        to be multiplied with them.

        A multiply-add of a matmul counts as two.
        """
        return self._sums("matrix", "arithmetic")

    @property
    def matrix_flops(self) -> Mapping[str, int]:
        """As `flops`, of matmuls only."""
        return self._sums("matrix")

    @property
    def bytes_loaded(self) -> Mapping[str, int]:
        """As `flops`: bytes read from global memory."""
        return self._sums("load")

    @property
    def bytes_stored(self) -> Mapping[str, int]:
        """As `flops`: bytes written to global memory; an atomic counts once."""
        return self._sums("store", "atomic")

    def __str__(self) -> str:
        """Three lines: "1,024 flops, 512 of them in matmuls", and the bytes;
        where trip counts are not known, "16 * n flops".
        """
        products = (
            f", of them in matmuls: {_sum_text(self.matrix_flops)}" if self.matrix_flops else ""
        )
        return "\n".join(
            [
                f"one program, counted from {self.read_from}",
                f"  floating-point operations: {_sum_text(self.flops)}{products}",
                (
                    f"  bytes loaded: {_sum_text(self.bytes_loaded)}, stored: "
                    f"{_sum_text(self.bytes_stored)}"
                ),
            ]
        )

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        return data_frame(self.items, column_names(WorkItem))


def _sum_text(sums: Mapping[str, int]) -> str:
    """ "64 + 1,024 * n" for {"1": 64, "n": 1024}; "0" for none."""
    parts = [
        f"{count:,}" + ("" if loops == "1" else f" * {loops}") for loops, count in sums.items()
    ]
    return " + ".join(parts) or "0"
