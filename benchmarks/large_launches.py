"""Launches of a size that is common on a GPU: a million programs,
and a product of large matrices.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from typing import Any

from benchmarks.harness import ONE_THREAD, print_report, timed

os.environ |= ONE_THREAD

import pandas
import torch

from benchmarks.eleven_kernels import cleared, half_matmul_case
from kernellab.cli.demo import Case, check_outputs, vector_add_case
from kernellab.launch.tile_kernel import run

torch.set_num_threads(1)

BLOCK = 64


def cases() -> list[Case]:
    """Vector add by a million programs of 64 elements, and a product
    of fp16 matrices of 2048x2048.
    """
    programs = 1_000_000
    million = dataclasses.replace(
        vector_add_case(programs * BLOCK), grid=(programs,), constants={"BLOCK": BLOCK}
    )
    return [million, half_matmul_case(2048)]


def measure(case: Case) -> dict[str, Any]:
    """One row: the first launch, and torch on the same arguments."""
    arguments = cleared(case, case.make_arguments())
    ours = timed(
        lambda: run(case.kernel, case.grid, **arguments, **case.constants, **case.options),
        time.process_time,
    )
    case.torch_twin(arguments)
    torchs = timed(lambda: case.torch_twin(arguments), time.process_time)
    return {
        "kernel": case.name,
        "size": case.size,
        "programs": f"{math.prod(case.grid):,}",
        "ours, s": f"{ours.seconds:.2f}",
        "torch, s": f"{torchs.seconds:.2f}",
        "ours right": "yes" if all(c.passed for c in check_outputs(case, arguments)) else "NO",
    }


def main() -> None:
    """Print the table; exit with 1 where a result is wrong."""
    rows = pandas.DataFrame([measure(case) for case in cases()])
    print_report("Large launches", rows, "One thread, CPU time; ours with the front end.")
    raise SystemExit(1 if (rows["ours right"] != "yes").any() else 0)


if __name__ == "__main__":
    main()
