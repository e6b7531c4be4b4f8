"""How long it takes to count what the accesses of a launch cost,
over a plain run on the interpreter.

One side is `kernellab.accesses`: the TTGIR run on copies of the tensors, every access counted. The
other side is `kernellab.run`. Both keep a kernel's code from the launch before. Goal: at most 5
times. Every byte of the outputs must be counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.harness import ONE_THREAD, print_report, take_turns, timed

os.environ |= ONE_THREAD

import pandas
import torch

import kernellab
from benchmarks import memory_kernels as kernels
from benchmarks.eleven_kernels import eleven_cases
from benchmarks.small_cases import blank, integers, moderate
from kernellab.profiling.accesses.records import Accesses

torch.set_num_threads(1)

ROUNDS = 7
GOAL = 5
GATHERED = 1 << 20


class Counted(NamedTuple):
    """One launch that is counted."""

    name: str
    kernel: Any
    grid: Any
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]


def launches() -> list[Counted]:
    """The eleven kernels, and the worst that can be asked: elements from anywhere."""
    rows = [
        Counted(
            case.name,
            case.kernel,
            case.grid,
            {**case.make_arguments(), **case.constants, **case.options},
            tuple(case.tolerance),
        )
        for case in eleven_cases()
    ]
    gathered = {
        "x": moderate(torch.float32, 1, GATHERED),
        "index": integers(torch.int32, 2, 0, GATHERED, GATHERED),
        "out": blank(torch.float32, GATHERED),
        "BLOCK": 1024,
    }
    return [*rows, Counted("gather of 1M", kernels.gather, (GATHERED // 1024,), gathered, ("out",))]


def is_complete(launch: Counted, found: Accesses) -> bool:
    """Whether all sectors of the outputs were counted as written, each by one access."""
    stores = [one for one in found if one.writes and one.action != "tensor map"]
    written = sum(one.footprint_bytes for one in stores if one.argument in launch.outputs)
    sizes = [int(launch.arguments[name].nbytes) for name in launch.outputs]
    return written == sum(-(-size // 32) * 32 for size in sizes)


def row(launch: Counted) -> tuple[float, dict[str, Any]]:
    """How many times as long ours takes, and the row of the table."""

    def count() -> Accesses:
        return kernellab.accesses(launch.kernel, launch.grid, target="sm_90", **launch.arguments)

    def run() -> Any:
        return kernellab.run(launch.kernel, launch.grid, **launch.arguments)

    turns = take_turns(
        lambda: timed(count, time.process_time),
        lambda: timed(run, time.process_time),
        rounds=ROUNDS,
    )
    return turns.overhead, {
        "launch": launch.name,
        "run, ms": f"{turns.their_median * 1e3:.1f}",
        "accesses, ms": f"{turns.our_median * 1e3:.1f}",
        "times": f"{turns.overhead:.1f}",
        "all stores counted": "yes" if is_complete(launch, turns.last_ours) else "NO",
    }


def main() -> None:
    """Print the table; exit with 1 where something was not counted."""
    rows = [row(launch) for launch in launches()]
    print_report(
        "Counting accesses",
        pandas.DataFrame([columns for _, columns in rows]),
        f"One thread, CPU time; medians of {ROUNDS}, in turns. Goal: at most {GOAL} times a plain "
        f"run; {sum(times <= GOAL for times, _ in rows)} of {len(rows)} reach it.",
    )
    raise SystemExit(any(one["all stores counted"] == "NO" for _, one in rows))


if __name__ == "__main__":
    main()
