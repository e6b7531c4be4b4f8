"""How long a run with residues takes, over a plain run on the interpreter.

One side runs the code that `kernellab.equal` runs, on tensors of residues that are ready; the other
is `kernellab.run`. The code of both is made before. Goal: at most 4 times in the geometric mean of
the eleven kernels. The outputs of the two cannot be compared; that residues decide equality is what
the tests show (tests/equality, tests/workshop/test_equal_to_torch.py).
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.harness import ONE_THREAD

os.environ.update(ONE_THREAD)

import time

import pandas
import torch

import kernellab
from benchmarks.eleven_kernels import eleven_cases
from benchmarks.harness import Comparison, Sample, geometric_mean, print_report, take_turns, timed
from kernellab.cli.demo import Case
from kernellab.equality.functions import ExactTensors
from kernellab.equality.sides import KernelSide, side_of

ROUNDS = 7
GOAL = 4


def measure(case: Case, rounds: int = ROUNDS) -> Comparison:
    """A run with residues and a plain run, in turns; CPU time."""
    launch = kernellab.bind(
        case.kernel, case.grid, **case.make_arguments(), **case.constants, **case.options
    )
    side = side_of(launch, None, (), {}, None)
    assert isinstance(side, KernelSide)

    def exact() -> Sample:
        tensors = ExactTensors(0).holding(side.tensors())
        return timed(lambda: side.run_again(tensors), time.process_time)

    def plain() -> Sample:
        return timed(lambda: kernellab.run(launch), time.process_time)

    return take_turns(exact, plain, rounds=rounds)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    turns = [(case, measure(case)) for case in eleven_cases()]
    rows: list[dict[str, Any]] = [
        {
            "kernel": case.name,
            "size": case.size,
            "run, ms": f"{comparison.their_median * 1e3:.2f}",
            "with residues, ms": f"{comparison.our_median * 1e3:.2f}",
            "ratio": f"{comparison.overhead:.1f}",
        }
        for case, comparison in turns
    ]
    mean = geometric_mean([comparison.overhead for _, comparison in turns])
    print_report(
        "Runs with residues",
        pandas.DataFrame(rows),
        f"Geometric mean {mean:.1f} times a plain run; goal {GOAL}.",
    )


if __name__ == "__main__":
    main()
