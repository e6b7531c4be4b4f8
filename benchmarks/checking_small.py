"""What a check of a small launch costs, over the launch itself, once both are warm.

One side is `kernellab.check` with every detector on and the outputs named; the other
`kernellab.run`. Both have run before, so nothing is compiled. The kernels are those that an
interpreter and a GPU are compared on (`small_cases`), each about one kind of operation; many are
given NaN, infinities and numbers of every exponent, which a check runs again to say where they come
from. Goal: at most 4 times, in the geometric mean.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.harness import ONE_THREAD

os.environ.update(ONE_THREAD)

import statistics
import time

import pandas

import kernellab
from benchmarks.harness import Comparison, geometric_mean, print_report, take_turns, timed
from benchmarks.small_cases import SMALL_CASES, SmallCase

ROUNDS = 9
GOAL = 4
LISTED = 5


def measure(case: SmallCase) -> Comparison:
    """A check and a plain run, in turns; CPU time."""
    arguments = {**case.tensors(), **case.constants}

    def check() -> Any:
        return kernellab.check(case.kernel, case.grid, outputs=case.outputs, **arguments)

    def run() -> Any:
        return kernellab.run(case.kernel, case.grid, **arguments)

    return take_turns(
        lambda: timed(check, time.process_time),
        lambda: timed(run, time.process_time),
        rounds=ROUNDS,
    )


def main() -> None:
    """Print how the ratios lie, and the largest of them."""
    turns = sorted(
        ((case, measure(case)) for case in SMALL_CASES), key=lambda one: -one[1].overhead
    )
    ratios = [one.overhead for _, one in turns]
    rows = [
        {
            "kernel": case.name,
            "run, ms": f"{one.their_median * 1e3:.2f}",
            "check, ms": f"{one.our_median * 1e3:.2f}",
            "times": f"{one.overhead:.1f}",
            "findings": len(one.last_ours),
        }
        for case, one in turns[:LISTED]
    ]
    clean = [one.overhead for _, one in turns if not len(one.last_ours)]
    print_report(
        "Checking small launches",
        pandas.DataFrame(rows),
        f"CPU time, medians of {ROUNDS}, in turns; of {len(ratios)} kernels those {LISTED} whose "
        f"checks take longest. Goal: at most {GOAL} times a plain run in the geometric mean. It is "
        f"{geometric_mean(ratios):.1f}, the median is {statistics.median(ratios):.1f}, and "
        f"{sum(ratio <= GOAL for ratio in ratios)} of {len(ratios)} reach {GOAL}; of the "
        f"{len(clean)} without a finding the geometric mean is {geometric_mean(clean):.1f}.",
    )


if __name__ == "__main__":
    main()
