"""What optimisations of torch.compile are worth: times on a GPU; counts without some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernellab.records.showing import HasCard, text_of
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class ModeTime:
    """How long a call takes one way.

    Attributes:
        mode: "eager", "aot_eager", "inductor", "inductor, CUDA graphs".
        milliseconds: the median of the rounds; None where it failed.
        speedup: eager's median over this one; None where either failed.
        first_seconds: what the first call took, compilation included.
        distance: the largest difference of a result or gradient from eager's, relative to eager's
            largest of that tensor; None where there is nothing to compare.
        error: why it failed; "" where it did not.
    """

    mode: str
    milliseconds: float | None
    speedup: float | None
    first_seconds: float
    distance: float | None
    error: str = ""


@dataclass(frozen=True)
class Speedups(HasCard):
    """A call's times, eager and compiled, in turns on one device.

    Attributes:
        name: of the function or module.
        device: its name: "NVIDIA H200".
        direction: "forward", or "forward and backward".
        rounds: how many turns each had.
    """

    name: str
    device: str
    direction: str
    rounds: int
    torch_version: str
    modes: tuple[ModeTime, ...]

    def __getitem__(self, mode: str) -> ModeTime:
        """The time of a mode by its name."""
        return next(one for one in self.modes if one.mode == mode)

    def table(self) -> Any:
        """One row a mode, as a pandas DataFrame."""
        return data_frame(self.modes, column_names(ModeTime))

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True)
class AblationRow:
    """A call compiled with some of Inductor's optimisations.

    Attributes:
        optimisations: "all", "no fusion", "no inlining", "neither".
        kernels: Triton kernels that were written.
        launches: of those.
        calls: of operations of torch's, such as a matrix product.
        moved_bytes: of all, by Inductor's count.
        milliseconds: the median on this machine's GPU; None where there is none.
        error: why it is not whole; "" where it is.
    """

    optimisations: str
    kernels: int
    launches: int
    calls: int
    moved_bytes: int
    milliseconds: float | None
    error: str = ""


@dataclass(frozen=True)
class Ablation(HasCard):
    """What fusion and inlining are worth for a call.

    Attributes:
        name: of the function or module.
        gpu: that the code was counted for, as it was named.
        device: the GPU that it was timed on; "" where there is none.
        eager_milliseconds: eager torch's median on it; None where there is none.
    """

    name: str
    gpu: str
    direction: str
    device: str
    eager_milliseconds: float | None
    rows: tuple[AblationRow, ...]

    def table(self) -> Any:
        """One row for each choice of optimisations, as a pandas DataFrame."""
        return data_frame(self.rows, column_names(AblationRow))

    def __str__(self) -> str:
        return text_of(self)
