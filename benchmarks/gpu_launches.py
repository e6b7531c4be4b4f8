"""What a launch on a GPU costs through a TileKernel, beside Triton's own launch of the same kernel.

Needs a GPU. Rounds of both take turns; a launch's time is that of the host, a round's median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pandas
import torch
import triton

from benchmarks.harness import print_report
from benchmarks.kernels import rms_norm
from kernellab.cli.demo.kernels import vector_add
from kernellab.launch.tile_kernel import TileKernel

ROUNDS, LAUNCHES = 5, 2000

GOAL = 1.1
"""Times Triton's own launch, at most."""


def _launches(kernel: Any, name: str) -> Callable[[], Any]:
    x, y, out = (torch.rand(64, 1024, device="cuda") for _ in range(3))
    if name == "vector add":
        count = x.numel()
        return lambda: kernel[lambda p: (triton.cdiv(p["n"], p["BLOCK"]),)](
            x, y, out, count, BLOCK=1024, num_warps=4
        )
    return lambda: kernel[(64,)](x, y, out, x.stride(0), 1024, 1e-5, BLOCK=1024)


def _microseconds(launch: Callable[[], Any]) -> float:
    times = []
    for number in range(LAUNCHES):
        if number % 500 == 0:
            torch.cuda.synchronize()  # a full queue would be timed instead
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def row(kernel: Any, name: str) -> dict[str, Any]:
    """One kernel, launched both ways."""
    both = {"Triton": _launches(kernel, name), "TileKernel": _launches(TileKernel(kernel.fn), name)}
    for launch in both.values():
        _microseconds(launch)
    rounds = [{way: _microseconds(launch) for way, launch in both.items()} for _ in range(ROUNDS)]
    return {
        "kernel": name,
        **{f"{way}, µs": statistics.median(one[way] for one in rounds) for way in both},
        "times": statistics.median(one["TileKernel"] / one["Triton"] for one in rounds),
    }


def main() -> None:
    """Print the table; exit with 1 where the goal is missed."""
    table = pandas.DataFrame([row(vector_add, "vector add"), row(rms_norm, "rms_norm")])
    print_report(
        "A launch on a GPU",
        table.round(2),
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}; "
        f"time of the host, medians of {ROUNDS} rounds of {LAUNCHES} launches, both ways in turn. "
        f"Goal: at most {GOAL} times.",
    )
    raise SystemExit(int(table["times"].max() > GOAL))


if __name__ == "__main__":
    main()
