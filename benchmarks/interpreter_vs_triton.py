"""Our interpreter beside Triton's own, and beside torch, on eleven kernels; one thread each.

Triton's interpreter runs through its real entry:
TRITON_INTERPRET=1 and an ordinary launch, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import (
    ONE_THREAD,
    Comparison,
    Sample,
    Server,
    Side,
    geometric_mean,
    print_report,
    take_turns,
    timed,
)

os.environ |= ONE_THREAD

import pandas
import torch

from benchmarks.eleven_kernels import cleared, eleven_cases
from kernellab.cli.demo import Case, check_outputs, matmul_case

torch.set_num_threads(1)

GOAL = 150
"""Times faster than Triton's interpreter, geometric mean of the eleven kernels."""

LEAST = 30
"""Times faster than Triton's interpreter, each of the eleven."""

TORCH_GOAL = 5
"""At most so many times torch's time, geometric mean of the eleven."""

ROUNDS = 5
OURS_PER_ROUND = 5
SECONDS_PER_CASE = 30.0


def all_cases() -> list[Case]:
    """The eleven, then the matrix product in two more dtypes."""
    return [*eleven_cases(), matmul_case(torch.bfloat16), matmul_case(torch.float32)]


def triton_launch(name: str) -> Sample:
    """One launch of a case on Triton's interpreter, in the server's process;
    the written tensors come back.
    """
    case = next(case for case in all_cases() if case.name == name)
    arguments = cleared(case, case.make_arguments())
    sample = timed(
        lambda: case.kernel[case.grid](**arguments, **case.constants, **case.options),
        time.process_time,
    )
    return Sample(sample.seconds, {output: arguments[output] for output in case.tolerance})


def our_side(case: Case, arguments: dict[str, Any]) -> Side:
    """Launches the case through `kernellab.run`, on cleared outputs."""
    from kernellab.launch.tile_kernel import run

    def launch() -> Sample:
        cleared(case, arguments)
        return timed(
            lambda: run(case.kernel, case.grid, **arguments, **case.constants, **case.options),
            time.process_time,
        )

    return launch


@dataclass(frozen=True)
class Row:
    """What was measured of one case."""

    case: Case
    right: bool
    """Whether our outputs are right against the case's reference."""
    agreement: str
    """How our outputs compare with those of Triton's interpreter."""
    beside_triton: Comparison
    beside_torch: Comparison

    def as_dict(self) -> dict[str, Any]:
        """The row as the table shows it."""
        return {
            "kernel": self.case.name,
            "size": self.case.size,
            "Triton's interpreter, ms": f"{self.beside_triton.their_median * 1e3:,.0f}",
            "ours, ms": f"{self.beside_triton.our_median * 1e3:.2f}",
            "ratio": round(self.beside_triton.speedup),
            "torch, ms": f"{self.beside_torch.their_median * 1e3:.2f}",
            "ours over torch": f"{self.beside_torch.overhead:.1f}",
            "ours right": "yes" if self.right else "NO",
            "both equal": self.agreement,
        }


def measure(case: Case, server: Server) -> Row:
    """Our interpreter in turns with Triton's, then with torch."""
    arguments = case.make_arguments()
    launch = our_side(case, arguments)
    launch()
    right = all(check.passed for check in check_outputs(case, arguments))
    beside_triton = take_turns(
        launch,
        lambda: server.ask(case.name),
        rounds=ROUNDS,
        ours_per_round=OURS_PER_ROUND,
        warm_up=False,
        seconds=SECONDS_PER_CASE,
    )
    beside_torch = take_turns(
        launch,
        lambda: timed(lambda: case.torch_twin(arguments), time.process_time),
        rounds=ROUNDS * OURS_PER_ROUND,
    )
    agreement = _agreement(case, arguments, beside_triton.last_theirs)
    return Row(case, right, agreement, beside_triton, beside_torch)


def _agreement(case: Case, arguments: dict[str, Any], theirs: dict[str, torch.Tensor]) -> str:
    """Whether the two interpreters wrote the same: bit for bit, within the tolerance, or not."""
    if all(torch.equal(arguments[name], theirs[name]) for name in theirs):
        return "every bit"
    difference = max(
        float((arguments[name].double() - theirs[name].double()).abs().max()) for name in theirs
    )
    both_right = all(check.passed for check in check_outputs(case, {**arguments, **theirs}))
    return f"within {difference:.1e}" if both_right else "no: Triton's is wrong"


def main() -> None:
    """Print the table; exit with 1 where a result is wrong or a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="a case by name; may be repeated"
    )
    chosen = parser.parse_args().only
    cases = [case for case in all_cases() if chosen is None or case.name in chosen]
    with Server(
        "benchmarks.interpreter_vs_triton:triton_launch", {**ONE_THREAD, "TRITON_INTERPRET": "1"}
    ) as server:
        rows = [measure(case, server) for case in cases]
    eleven = {case.name for case in eleven_cases()}
    counted = [row for row in rows if row.case.name in eleven] or rows
    speedups = [row.beside_triton.speedup for row in counted]
    over_torch = geometric_mean([row.beside_torch.overhead for row in counted])
    print_report(
        "Our interpreter and Triton's",
        pandas.DataFrame([row.as_dict() for row in rows]),
        "Over the eleven kernels of the goals, without bf16 and fp32 products: ratio "
        f"{geometric_mean(speedups):.0f} (geometric mean; goal: {GOAL}), at least "
        f"{min(speedups):.0f} (goal: {LEAST}); ours over torch {over_torch:.1f} (geometric mean; "
        f"goal: at most {TORCH_GOAL}).",
        f"One thread, CPU time. A row of Triton's is the median of up to {ROUNDS} launches, no "
        f"more after {SECONDS_PER_CASE:.0f} s; ours of {OURS_PER_ROUND} for each of those, in "
        "turns. Triton's interpreter multiplies the raw bits of bf16, so its bf16 product is "
        "wrong; ours is checked against torch.",
    )
    missed = geometric_mean(speedups) < GOAL or min(speedups) < LEAST or over_torch > TORCH_GOAL
    raise SystemExit(1 if missed or not all(row.right for row in rows) else 0)


if __name__ == "__main__":
    main()
