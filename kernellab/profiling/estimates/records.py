"""What a launch takes, as plain facts: an estimate of its time, and its place under the roofs of a
GPU. Nothing here was measured, unless it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kernellab.common.formatting import joined_sizes
from kernellab.compiler.gpus import GPUS, Gpu
from kernellab.profiling.estimates.counting import LaunchCounts
from kernellab.profiling.estimates.hardware import CALIBRATED
from kernellab.records.showing import HasCard, plot
from kernellab.records.tables import data_frame


@dataclass(frozen=True)
class Part:
    """One part of the GPU: how long it is busy with the launch."""

    name: str
    """ "DRAM", "tensor cores", "latency", ..."""
    microseconds: float
    """If it were the only one: counted, over the rate that kernels reach."""
    at_least: float
    """The same at the data sheet's rate: no launch is faster. 0 where no data sheet has a rate."""
    counted: str
    """What was counted, in words: "16,777,216 bytes read, 8,388,608 written"."""


@dataclass(frozen=True)
class Estimate(HasCard):
    """How long a launch takes, estimated from what is counted, with no GPU.

    `docs/estimates.md` says from what, and how near it comes.
    """

    kernel: str
    gpu: Gpu
    grid: tuple[int, int, int]
    microseconds: float
    parts: tuple[Part, ...]
    """The longest first."""
    counts: LaunchCounts = field(repr=False)
    error: float
    """The median of |estimate / time - 1| on kernels that the calibration never saw: 0.1 is 10
    percent."""
    notes: tuple[str, ...] = ()
    """What is unknown, and what was assumed instead."""

    @property
    def limiting(self) -> Part:
        """The part that is busy the longest."""
        return self.parts[0]

    @property
    def lower_bound(self) -> float:
        """Microseconds that no launch is faster than, by the data sheet's rates."""
        return max(part.at_least for part in self.parts)

    @property
    def bound(self) -> str:
        """Which part bounds the launch, and the bound, in words."""
        most = max(self.parts, key=lambda part: part.at_least)
        words = f"{self.limiting.name}, busy for about {self.limiting.microseconds:.3g} us"
        if not most.at_least:
            return words
        return f"{words}; no launch is faster than {most.at_least:.3g} us ({most.name})"

    @property
    def accuracy(self) -> str:
        """How far to trust it, in words."""
        words = (
            f"an estimate, not measured: median error {self.error:.0%} on kernels left out, "
            f"on an {GPUS[CALIBRATED].name}"
        )
        if self.gpu.name.lower() != CALIBRATED:
            words += f"; scaled to {self.gpu.name} by its data sheet, and not tested there"
        return words

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.gpu}, grid {joined_sizes(self.grid)}: about "
            f"{self.microseconds:.3g} us",
            f"  {self.accuracy}",
            f"  bound by {self.bound}",
            *(
                f"  {part.name}: {part.microseconds:.3g} us ({part.counted})"
                for part in self.parts
                if part.microseconds >= 0.05 * self.limiting.microseconds
            ),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def table(self) -> Any:
        """One row per part, as a pandas DataFrame."""
        return data_frame(self.parts, ("name", "microseconds", "at_least", "counted"))

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return {**asdict(self), "bound": self.bound, "lower_bound": self.lower_bound}


@dataclass(frozen=True)
class Roof:
    """A limit of a GPU: operations, or bytes of one level of memory, a microsecond."""

    name: str
    peak: float
    amount: float
    """The operations or bytes of the launch."""

    @property
    def microseconds(self) -> float:
        """What the launch takes at least, because of it."""
        return self.amount / self.peak


@dataclass(frozen=True)
class Roofline(HasCard):
    """A launch under the roofs of a GPU: operations by kind, bytes by level, all counted with no
    GPU; and its place under them where a time is known.
    """

    kernel: str
    gpu: Gpu
    grid: tuple[int, int, int]
    operations: tuple[Roof, ...]
    """Floating-point and matrix operations by the unit that does them."""
    memory: tuple[Roof, ...]
    """Bytes by level: L1, L2, DRAM."""
    instructions: Mapping[str, float]
    """Instructions of warps by unit."""
    microseconds: float
    """Measured, or estimated."""
    time_from: str
    """ "estimated", or "given"."""
    notes: tuple[str, ...] = ()

    @property
    def total_operations(self) -> float:
        """Of all units."""
        return sum(operation.amount for operation in self.operations)

    @property
    def intensity(self) -> Mapping[str, float]:
        """Level -> operations for each byte there."""
        return {
            level.name: self.total_operations / level.amount
            for level in self.memory
            if level.amount
        }

    @property
    def rate(self) -> float:
        """TFLOP/s that the time means."""
        return self.total_operations / self.microseconds / 1e6

    @property
    def highest(self) -> Roof:
        """The roof that the launch meets first: the one that takes the longest."""
        return max((*self.operations, *self.memory), key=lambda roof: roof.microseconds)

    @property
    def reached(self) -> float:
        """The part of that roof which the time reaches: 1.0 is all that the GPU can do."""
        return self.highest.microseconds / self.microseconds

    def __str__(self) -> str:
        lines = [
            f"{self.kernel} on {self.gpu}, grid {joined_sizes(self.grid)}",
            *(
                f"  {operation.name}: {operation.amount:,.0f} operations, "
                f"at least {operation.microseconds:.3g} us"
                for operation in self.operations
            ),
            *(
                f"  {level.name}: {level.amount:,.0f} bytes, at least {level.microseconds:.3g} us, "
                f"{self.intensity[level.name]:.3g} operations a byte"
                for level in self.memory
                if level.amount
            ),
            (
                f"  {self.microseconds:.3g} us ({self.time_from}): {self.rate:.3g} TFLOP/s, "
                f"{self.reached:.0%} of what {self.highest.name} allows"
            ),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def table(self) -> Any:
        """One row per roof, as a pandas DataFrame."""
        return data_frame(
            (*self.operations, *self.memory), ("name", "amount", "peak", "microseconds")
        )

    def plot(self) -> Any:
        """The roofs and the launch under them: as the last expression of a cell it is displayed."""
        return plot(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has."""
        return {**asdict(self), "intensity": dict(self.intensity), "reached": self.reached}
