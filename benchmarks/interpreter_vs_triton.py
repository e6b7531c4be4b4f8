"""Our interpreter beside Triton's own, and beside torch, on the demo's kernels; one thread each.

Triton's interpreter runs through its real entry: TRITON_INTERPRET=1 and an ordinary launch, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from benchmarks.harness import (
    ONE_THREAD,
    Comparison,
    Sample,
    Server,
    geometric_mean,
    print_report,
    take_turns,
    timed,
)

os.environ |= ONE_THREAD

import pandas
import torch

from kernellab.demo.cases import Case, all_cases
from kernellab.demo.checking import check_outputs

torch.set_num_threads(1)

GOAL = 60
"""Times faster than Triton's interpreter, geometric mean."""

ROUNDS = 5
OURS_PER_ROUND = 3
SECONDS_PER_CASE = 30.0


def triton_launch(name: str) -> Sample:
    """One launch of a case on Triton's interpreter, in the server's process; the written tensors come back."""
    case = next(case for case in all_cases() if case.name == name)
    arguments = case.make_arguments()
    sample = timed(lambda: case.kernel[case.grid](**arguments, **case.constants, **case.options))
    return Sample(sample.seconds, {output: arguments[output] for output in case.tolerance})


def our_side(case: Case) -> tuple[dict[str, Any], Any]:
    """Arguments, and a side that launches the case on them through `kernellab.run`."""
    from kernellab.tile_kernel import run

    arguments = case.make_arguments()

    def launch() -> Sample:
        return timed(
            lambda: run(case.kernel, case.grid, **arguments, **case.constants, **case.options)
        )

    return arguments, launch


def compare(case: Case, server: Server) -> dict[str, Any]:
    """One row of the table."""
    arguments, launch = our_side(case)
    launch()
    ours_right = all(check.passed for check in check_outputs(case, arguments))
    beside_triton = take_turns(
        launch,
        lambda: server.ask(case.name),
        rounds=ROUNDS,
        ours_per_round=OURS_PER_ROUND,
        warm_up=False,
        seconds=SECONDS_PER_CASE,
    )
    beside_torch = take_turns(
        launch, lambda: timed(lambda: case.torch_twin(arguments)), rounds=ROUNDS * OURS_PER_ROUND
    )
    return {
        "kernel": case.name,
        "size": case.size,
        "Triton's interpreter, ms": f"{beside_triton.their_median * 1e3:,.0f}",
        "ours, ms": f"{beside_triton.our_median * 1e3:.2f}",
        "ratio": round(beside_triton.speedup),
        "torch, ms": f"{beside_torch.their_median * 1e3:.2f}",
        "ours right against torch": "yes" if ours_right else "NO",
        "both equal": _agreement(case, arguments, beside_triton),
    }


def _agreement(case: Case, arguments: dict[str, Any], comparison: Comparison) -> str:
    """Whether the two interpreters wrote the same: bit for bit, within the tolerance, or not."""
    theirs = comparison.last_theirs
    if all(torch.equal(arguments[name], theirs[name]) for name in theirs):
        return "every bit"
    difference = max(
        float((arguments[name].double() - theirs[name].double()).abs().max()) for name in theirs
    )
    both_right = all(check.passed for check in check_outputs(case, {**arguments, **theirs}))
    return f"within {difference:.1e}" if both_right else "no: Triton's is wrong"


def main() -> None:
    """Print the table; exit with 1 where a result is wrong or the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="a case by name; may be repeated")  # fmt: skip
    chosen = parser.parse_args().only
    cases = [case for case in all_cases() if chosen is None or case.name in chosen]
    with Server("benchmarks.interpreter_vs_triton:triton_launch", {**ONE_THREAD, "TRITON_INTERPRET": "1"}) as server:  # fmt: skip
        rows = pandas.DataFrame([compare(case, server) for case in cases])
    mean = geometric_mean([float(ratio) for ratio in rows["ratio"]])
    print_report(
        "Our interpreter and Triton's",
        rows,
        f"Geometric mean of the ratios: {mean:.0f} (goal: {GOAL}). One thread. A row of Triton's is the median of up to {ROUNDS} "
        f"launches, stopped after {SECONDS_PER_CASE:.0f} s; ours of {OURS_PER_ROUND} for each of those, in turns. "
        "Triton's interpreter multiplies the raw bits of bf16, so its bf16 product is wrong; ours is checked against torch.",
    )
    wrong = (rows["ours right against torch"] != "yes").any()
    raise SystemExit(1 if wrong or mean < GOAL else 0)


if __name__ == "__main__":
    main()
