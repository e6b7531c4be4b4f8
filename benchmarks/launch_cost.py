"""What a launch costs before any kernel code runs: the first one of a kernel, the first one of
a later process, which finds the kernel's code on disk, and one of a kernel that is known.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import ONE_THREAD, print_report, timed

os.environ |= ONE_THREAD

import pandas
import torch
import triton

from benchmarks.eleven_kernels import cleared, eleven_cases
from kernellab.cli.demo import Case, vector_add_case
from kernellab.launch.tile_kernel import TileKernel, run

torch.set_num_threads(1)

FIRST_GOAL = 0.15
"""Seconds at most for the first launch of attention."""

WARM_GOAL = 60e-6
"""Seconds at most for a launch of one known program."""

NEW_KERNELS = 5
WARM_LAUNCHES = 2000


def first_launch(case: Case) -> dict[str, Any]:
    """One row: launches of kernels that no one has seen, of one whose code is on disk, and of one
    that is known.
    """
    arguments = case.make_arguments()

    def launch(kernel: Any, cache: str) -> float:
        os.environ["KERNELLAB_CACHE_DIR"] = cache
        cleared(case, arguments)
        return timed(
            lambda: run(kernel, case.grid, **arguments, **case.constants, **case.options),
            time.process_time,
        ).seconds

    with TemporaryDirectory() as folder:
        caches = [f"{folder}/{number}" for number in range(NEW_KERNELS)]
        kernels = [triton.jit(case.kernel.fn) for _ in caches]
        first = statistics.median(map(launch, kernels, caches))
        again = statistics.median(map(launch, kernels, caches))
        from_disk = statistics.median(launch(triton.jit(case.kernel.fn), one) for one in caches)
    return {
        "kernel": case.name,
        "first launch, ms": f"{first * 1e3:.0f}",
        "with its code on disk, ms": f"{from_disk * 1e3:.1f}",
        "the next, ms": f"{again * 1e3:.1f}",
        "made in, ms": f"{(first - again) * 1e3:.0f}",
    }


def warm_launch(launch: Callable[[], Any]) -> float:
    """Seconds of one launch of a known kernel: the median of many."""
    for _ in range(100):
        launch()
    return statistics.median(timed(launch, time.process_time).seconds for _ in range(WARM_LAUNCHES))


def warm_launches() -> dict[str, float]:
    """Seconds a launch, by how it is written: vector add of 1,024 elements by one program."""
    case = vector_add_case(1024)
    tile_kernel = TileKernel(case.kernel.fn)
    x, y, out, n = case.make_arguments().values()
    return {
        "`kernel[grid](...)`, a TileKernel": warm_launch(
            lambda: tile_kernel[(1,)](x, y, out, n, BLOCK=1024)
        ),
        "`kernellab.run(kernel, grid, ...)`": warm_launch(
            lambda: run(case.kernel, (1,), x, y, out, n, BLOCK=1024)
        ),
    }


def main() -> None:
    """Print both tables; exit with 1 where a goal is missed."""
    first = pandas.DataFrame([first_launch(case) for case in eleven_cases()])
    print_report(
        "The first launch of a kernel",
        first,
        f"CPU time; medians of {NEW_KERNELS} kernels that are new to a process in which others "
        'have run. "Made in": what the first '
        "launch takes longer than the next, which is Triton's front end, reading its module, and "
        f"generating the code. Goal: attention in at most {FIRST_GOAL * 1e3:.0f} ms.",
    )
    warm = warm_launches()
    print_report(
        "A launch of a known kernel",
        pandas.DataFrame(
            [{"launch": name, "µs": f"{seconds * 1e6:.0f}"} for name, seconds in warm.items()]
        ),
        f"CPU time; medians of {WARM_LAUNCHES} launches of one program that adds 1,024 elements. "
        f"Goal: at most {WARM_GOAL * 1e6:.0f} µs.",
    )
    attention = float(first.set_index("kernel").loc["attention", "first launch, ms"]) / 1e3
    raise SystemExit(1 if attention > FIRST_GOAL or min(warm.values()) > WARM_GOAL else 0)


if __name__ == "__main__":
    main()
