"""Launches on a GPU, plain and marked: memory for what warps note, the readings of some programs,
and times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from triton.testing import do_bench_cudagraph

from kernellab.common.gpu_faults import gpu_fault
from kernellab.errors import GpuFault, ProfileError
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.line_scopes.marking import MarkedKernel
from kernellab.profiling.line_scopes.readings import Readings, read
from kernellab.triton_api import load
from kernellab.triton_api.marked_kernels import (
    HEADER_WORDS,
    launch_compiled,
    launch_marked,
    scratch_bytes,
)

ROUNDS = 3
METHOD = f"of a launch on the GPU, by events: medians of {ROUNDS} rounds, in turns"
METHOD_OF_SHORT = f"of a launch in a CUDA graph: medians of {ROUNDS} rounds, in turns"


class KeptArguments:
    """The contents of a launch's tensors, so that every launch begins with the same."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._now: dict[int, torch.Tensor] = {}
        for _, tensor in tensors_in(values):
            storage = tensor.detach().untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._now.setdefault(storage.data_ptr(), whole)
        self._first = self.contents()

    def contents(self) -> list[torch.Tensor]:
        """A copy of what the tensors hold."""
        return [tensor.clone() for tensor in self._now.values()]

    def restore(self, contents: Sequence[torch.Tensor] | None = None) -> None:
        """Give the tensors what they held first, or at another time."""
        for now, kept in zip(self._now.values(), self._first if contents is None else contents):
            now.copy_(kept)

    def hold(self, contents: Sequence[torch.Tensor]) -> bool:
        """Whether the tensors hold just that, bit for bit."""
        return all(map(torch.equal, self._now.values(), contents))


@dataclass
class PlainLaunch:
    """A kernel as it is, loaded, on one grid."""

    compiled: Any
    """Triton's own CompiledKernel."""
    grid: tuple[int, int, int]
    values: Sequence[Any]
    """The kernel's arguments, all of them, in order."""

    def __post_init__(self) -> None:
        load(self.compiled)

    def __call__(self) -> None:
        """Launch once."""
        launch_compiled(self.compiled, self.grid, self.values)


@dataclass
class MarkedLaunch:
    """A marked kernel, loaded, on one grid."""

    marked: MarkedKernel
    grid: tuple[int, int, int]
    values: Sequence[Any]
    """The kernel's arguments, all of them, in order."""
    noted: torch.Tensor | None = field(default=None, init=False)
    """What the programs note, one row of bytes for each."""

    def __post_init__(self) -> None:
        load(self.marked.compiled)

    def __call__(self) -> None:
        """Launch once."""
        launch_marked(self.marked.compiled, self.grid, self.values, self._memory)

    def _memory(self, size: int) -> torch.Tensor:
        if self.noted is None or self.noted.numel() != size:
            self.noted = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return self.noted

    def _rows(self) -> torch.Tensor:
        assert self.noted is not None, "the kernel was launched"
        return self.noted.view(-1, scratch_bytes(self.marked.compiled)).view(torch.int32)

    def most_readings(self) -> int:
        """How many readings the busiest warp took, kept or not."""
        counts = self._rows()[:, HEADER_WORDS : HEADER_WORDS + self.marked.memory.warps]
        return int(counts.max().item()) // 2

    def readings(self, programs: int) -> Readings:
        """What so many programs noted, evenly spread over the grid."""
        rows = self._rows()
        some = min(programs, len(rows))
        chosen = torch.arange(some, device=rows.device) * len(rows) // max(some, 1)
        words = rows.index_select(0, chosen).cpu().numpy().view("uint32")
        return read(words, self.marked.memory)


def room_for_readings(programs: int, warps: int) -> int:
    """How many readings each warp of a grid may have, so that all fit into an eighth of the GPU's
    free memory, and into 2 GiB.
    """
    free, _ = torch.cuda.mem_get_info()
    return int(min(free // 8, 2 << 30) // (8 * programs * warps))


def times_in_turns(
    plain: Callable[[], None],
    marked: Callable[[], None],
    arguments: KeptArguments,
    depends: bool,
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """Microseconds of both on the GPU: medians of rounds, one after the other.

    Args:
        arguments: of both.
        depends: whether a launch on what an earlier one left does something else: they are
            restored before each.
        rounds: how many.
    """
    time = _by_events(arguments) if depends else _in_a_graph
    both = [(time(plain), time(marked)) for _ in range(rounds)]
    return statistics.median(pair_first for pair_first, _ in both), statistics.median(
        pair_first for _, pair_first in both
    )


def _in_a_graph(launch: Callable[[], None]) -> float:
    return 1000 * float(do_bench_cudagraph(launch, rep=10, return_mode="median"))


def _by_events(arguments: KeptArguments) -> Callable[[Callable[[], None]], float]:
    def time(launch: Callable[[], None]) -> float:
        event: Any = torch.cuda.Event
        pairs = [[event(enable_timing=True) for _ in range(2)] for _ in range(20)]
        for begin, end in pairs:
            arguments.restore()
            begin.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        return 1000 * float(statistics.median(begin.elapsed_time(end) for begin, end in pairs))

    return time


@contextmanager
def gpu_faults_told(kernel: str) -> Iterator[None]:
    """Raise a clear error for a launch that fails on the GPU or runs out of its memory.

    Raises:
        ProfileError: the GPU does not have enough memory.
        GpuFault: the launch failed.
    """
    try:
        yield
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        raise ProfileError(
            f"The GPU does not have enough memory to profile {kernel!r}, which needs copies of its "
            f"tensors and the readings of its warps: {error}",
            advice="Profile it on smaller tensors.",
        ) from error
    except RuntimeError as error:
        if (died := gpu_fault(error)) is None:
            raise
        raise GpuFault(
            f"The launch of {kernel!r} failed on the GPU while it was profiled ({died}).",
            advice=(
                "This process cannot use the GPU any more: restart it, and launch inside of "
                "kernellab.guarded_launches(), which names the line and the element."
            ),
            kernel=kernel,
        ) from error
