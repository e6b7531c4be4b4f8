"""How long it takes to check a launch, over a plain run of it on the interpreter.

One side is `kernellab.check` with every detector on and the outputs named; the other
`kernellab.run`. The code of both is kept from the launch before. Goal: at most 4 times on each of
the eleven kernels, and no finding in any of them. The outputs of the two are not compared, since a
check leaves its arguments as they are; that it finds faults is what the corpus shows
(tests/checker).
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.harness import ONE_THREAD

os.environ.update(ONE_THREAD)

import time

import pandas

import kernellab
from benchmarks.eleven_kernels import cleared, eleven_cases
from benchmarks.harness import Comparison, geometric_mean, print_report, take_turns, timed
from kernellab.cli.demo import Case

ROUNDS = 9
GOAL = 4


def measure(case: Case, rounds: int = ROUNDS) -> Comparison:
    """A check and a plain run, in turns; CPU time."""
    arguments = cleared(case, case.make_arguments())
    settings = {**case.constants, **case.options}

    def check() -> Any:
        return kernellab.check(
            case.kernel, case.grid, outputs=tuple(case.tolerance), **arguments, **settings
        )

    def run() -> Any:
        return kernellab.run(case.kernel, case.grid, **arguments, **settings)

    return take_turns(
        lambda: timed(check, time.process_time),
        lambda: timed(run, time.process_time),
        rounds=rounds,
    )


def main() -> None:
    """Print the table; exit with 1 where something was found."""
    turns = [(case, measure(case)) for case in eleven_cases()]
    ratios = [one.overhead for _, one in turns]
    rows = [
        {
            "kernel": case.name,
            "size": case.size,
            "run, ms": f"{one.their_median * 1e3:.2f}",
            "check, ms": f"{one.our_median * 1e3:.2f}",
            "times": f"{one.overhead:.1f}",
            "findings": len(one.last_ours),
        }
        for case, one in turns
    ]
    print_report(
        "Checking",
        pandas.DataFrame(rows),
        f"CPU time, medians of {ROUNDS}, in turns. Goal: at most {GOAL} times a plain run; "
        f"{sum(ratio <= GOAL for ratio in ratios)} of {len(ratios)} reach it, "
        f"the geometric mean is {geometric_mean(ratios):.1f}.",
    )
    raise SystemExit(any(len(one.last_ours) for _, one in turns))


if __name__ == "__main__":
    main()
