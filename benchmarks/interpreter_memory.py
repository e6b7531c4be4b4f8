"""How much memory a launch takes beyond its arguments, at its peak.

Each kernel has a process of its own, which has launched another one before. There Linux notes the
largest resident size (VmHWM), which is set back once the arguments are made; what it grows by until
the launch is over is the launch's: front end, generated code, tiles and all.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import ONE_THREAD, Server, print_report

os.environ |= ONE_THREAD

import pandas
import torch

from benchmarks.eleven_kernels import cleared, eleven_cases
from kernellab.cli.demo import Case, vector_add_case

torch.set_num_threads(1)

GOAL = 64
"""MiB at most, each of the eleven."""

MIB = 2**20


def peak_of_launch(name: str) -> int:
    """Bytes that the first launch of a case needs beyond its arguments;
    for a process of its own.
    """
    _launch(vector_add_case(1000))
    case = next(case for case in eleven_cases() if case.name == name)
    arguments = cleared(case, case.make_arguments())
    _forget_peak()
    before = _kilobytes("VmRSS")
    _launch(case, arguments)
    return (_kilobytes("VmHWM") - before) * 1024


def _launch(case: Case, arguments: dict[str, Any] | None = None) -> None:
    from kernellab.launch.tile_kernel import run

    arguments = case.make_arguments() if arguments is None else arguments
    run(case.kernel, case.grid, **arguments, **case.constants, **case.options)


def _kilobytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, f"/proc/self/status has no {field}"
    return int(found[1])


def _forget_peak() -> None:
    """Give what is free back to Linux, and set VmHWM back to what is resident then (malloc_trim(3);
    proc(5), clear_refs).
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def measure(case: Case) -> dict[str, Any]:
    """One row of the table."""
    with Server("benchmarks.interpreter_memory:peak_of_launch", ONE_THREAD) as server:
        peak = server.ask(case.name)
    tensors = [t for t in case.make_arguments().values() if isinstance(t, torch.Tensor)]
    given = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    return {
        "kernel": case.name,
        "size": case.size,
        "arguments, MiB": f"{given / MIB:.1f}",
        "beyond them, MiB": f"{peak / MIB:.1f}",
    }


def main() -> None:
    """Print the table; exit with 1 where the goal is missed."""
    rows = pandas.DataFrame([measure(case) for case in eleven_cases()])
    print_report(
        "Memory of a launch",
        rows,
        "What the resident size of a fresh process grows by, at its peak, from just before the "
        "first launch of the kernel to its end (Linux's VmHWM, set back before). Goal: at most "
        f"{GOAL} MiB each.",
    )
    raise SystemExit(1 if rows["beyond them, MiB"].astype(float).max() > GOAL else 0)


if __name__ == "__main__":
    main()
