"""How long it takes to count what the accesses of a launch cost, over a plain run on the interpreter.

One side is `kernellab.accesses`: the TTGIR compiled, run on copies of the tensors, every access counted. The other side is
`kernellab.run`, whose code is kept from the launch before. Goal: at most 5 times. Every byte that is stored must be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas
import torch

import kernellab
from benchmarks import memory_kernels as kernels
from benchmarks.harness import print_report, take_turns, timed
from benchmarks.small_cases import blank, integers, moderate
from kernellab.memory_costs.records import Accesses

ROUNDS = 5
GOAL = 5
SIZE = 1 << 20
SIDE = 512


class Case(NamedTuple):
    """One launch."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: Mapping[str, int]
    stored: int
    """Bytes that it stores."""


def cases() -> list[Case]:
    """The launches that are measured."""
    x, out = moderate(torch.float32, 1, SIZE), blank(torch.float32, SIZE)
    index = integers(torch.int32, 2, 0, SIZE, SIZE)
    a, b = (moderate(torch.float32, seed, SIDE, SIDE).half() for seed in (1, 2))
    c = blank(torch.float16, SIDE, SIDE)
    block, tile = {"BLOCK": 1024}, {"M": 64, "N": 64, "K": 32, "num_stages": 3}
    grid = (SIZE // 1024,)
    return [
        Case("copy of 1M", kernels.copy, grid, (x, out, SIZE), block, 4 * SIZE),
        Case("gather of 1M", kernels.gather, grid, (x, index, out), block, 4 * SIZE),
        Case("softmax of 1,024 rows", kernels.softmax, grid, (x, out, 1000), block, 4 * 1024 * 1000),
        Case("matmul of 512x512", kernels.matmul, (8, 8), (a, b, c, SIDE, SIDE), tile, 2 * SIDE * SIDE),
    ]  # fmt: skip


def stored_bytes(found: Accesses) -> int:
    """Useful bytes of all stores."""
    return sum(one.useful_bytes for one in found if one.writes)


def row(case: Case) -> tuple[float, dict[str, Any]]:
    """How many times as long ours takes, and the row of the table."""

    def count() -> Accesses:
        return kernellab.accesses(
            case.kernel, case.grid, *case.arguments, target="sm_90", **case.options
        )

    def run() -> Any:
        return kernellab.run(case.kernel, case.grid, *case.arguments, **case.options)

    turns = take_turns(lambda: timed(count), lambda: timed(run), rounds=ROUNDS)
    return turns.overhead, {
        "launch": case.name,
        "run, ms": f"{turns.their_median * 1e3:.0f}",
        "accesses, ms": f"{turns.our_median * 1e3:.0f}",
        "times": f"{turns.overhead:.1f}",
        "all stores counted": "yes" if stored_bytes(turns.last_ours) == case.stored else "NO",
    }


def main() -> None:
    """Print the table; exit with 1 where something was not counted."""
    rows = [row(case) for case in cases()]
    print_report(
        "Counting accesses",
        pandas.DataFrame([columns for _, columns in rows]),
        f"Medians of {ROUNDS}, in turns. Goal: at most {GOAL} times a plain run; "
        f"{sum(times <= GOAL for times, _ in rows)} of {len(rows)} reach it.",
    )
    raise SystemExit(any(one["all stores counted"] == "NO" for _, one in rows))


if __name__ == "__main__":
    main()
