"""How long a kernel's first launches take, in comparison with Triton's interpreter.

Triton's interpreter runs the same launch, on copies of the arguments, in a process that has
imported the library with TRITON_INTERPRET=1. All times are processor time. Only our warm launches
are repeated: the first one cannot be, and those of Triton's interpreter take long.
"""

from __future__ import annotations

import importlib
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import kernels  # of Triton alone: its interpreter runs them too
from benchmarks.harness import Sample, Server, geometric_mean, timed

MOST_PROGRAMS = 128
"""Launches of more programs are not timed: Triton's interpreter takes minutes for some."""

WARM_LAUNCHES = 3


@dataclass(frozen=True)
class LaunchTimes:
    """The seconds that launches of one kernel took.

    Attributes:
        first: the first launch of the process.
        warm: a later one, the median.
        triton: a launch on Triton's interpreter.
    """

    kernel: str
    first: float
    warm: float
    triton: float


class Timer:
    """Times the launches that it is given, each kernel once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen: set[str] = set()

    def warm_up(self) -> None:
        """Launch a kernel on both sides, so that no kernel's time has the imports in it."""
        args = [torch.ones(1, 16), torch.ones(16), torch.empty(1, 16), 16, 16, 1e-5]
        kernels.rms_norm[(1,)](*args, BLOCK=16)
        self._server.ask((f"{kernels.__name__}:rms_norm", (1,), args, {"BLOCK": 16}))

    def launch(
        self, run: Callable[..., Any], kernel: Any, grid: Any, args: Sequence[Any], keywords: Any
    ) -> tuple[Any, LaunchTimes | None]:
        """Launch a kernel, and return what that returned, with its times: None if the kernel was
        timed before, or cannot be timed.
        """
        bound = {**dict(zip(kernel.arg_names, args)), **keywords}
        sizes = grid(bound) if callable(grid) else grid
        name = f"{kernel.fn.__module__}:{kernel.__name__}"
        if name in self._seen or math.prod(sizes) > MOST_PROGRAMS:
            return run(kernel, *args, grid=grid, warmup=False, **keywords), None
        self._seen.add(name)
        copies = [_copied(args, keywords) for _ in range(WARM_LAUNCHES + 1)]
        first = _timed(lambda: run(kernel, *args, grid=grid, warmup=False, **keywords))
        warm = [
            _timed(lambda: run(kernel, *some, grid=grid, warmup=False, **others)).seconds  # noqa: B023
            for some, others in copies[1:]
        ]
        try:
            triton = self._server.ask((name, tuple(sizes), *_on_cpu(*copies[0])))
        except Exception:  # whatever Triton's interpreter, or pickle, cannot do
            return first.output, None
        return first.output, LaunchTimes(name, first.seconds, statistics.median(warm), triton)


def triton_launch(request: tuple[str, tuple[int, ...], Sequence[Any], Mapping[str, Any]]) -> float:
    """Launch on Triton's interpreter, in the server's process; return the seconds it takes."""
    name, grid, args, keywords = request
    module, _, kernel_name = name.partition(":")
    kernel = getattr(importlib.import_module(module), kernel_name)
    while not hasattr(kernel, "rewrite"):  # an autotuner, or heuristics
        kernel = kernel.fn
    kernel.rewrite()
    return _timed(lambda: kernel[grid](*args, **keywords)).seconds


def table_of(times: Sequence[LaunchTimes]) -> dict[str, str]:
    """The ratios to Triton's interpreter of one pass over a library."""
    first = [one.triton / one.first for one in times]
    warm = [one.triton / one.warm for one in times]
    return {
        "kernels": str(len(times)),
        "first launch: mean ratio": f"{geometric_mean(first):.1f}",
        "least": f"{min(first):.2f}",
        "below 1": str(sum(ratio < 1 for ratio in first)),
        "warm: mean ratio": f"{geometric_mean(warm):.0f}",
    }


def _timed(call: Callable[[], Any]) -> Sample:
    return timed(call, time.process_time)


def _copied(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    copies = [_copy(value) for value in args]
    return copies, {name: _copy(value) for name, value in keywords.items()}


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _on_cpu(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    moved = [value.cpu() if isinstance(value, torch.Tensor) else value for value in args]
    return moved, {
        name: value.cpu() if isinstance(value, torch.Tensor) else value
        for name, value in keywords.items()
    }
