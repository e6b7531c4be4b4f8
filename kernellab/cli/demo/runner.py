"""Runs the demo's cases: on the interpreter, with torch, and through the compiler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.cli.demo.cases import Case, small_cases
from kernellab.cli.demo.checking import OutputCheck, check_outputs
from kernellab.common.pandas_import import pandas
from kernellab.compiler.pipeline import compile as compile_kernel
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.launch.tile_kernel import run
from kernellab.records import Compilation, Run
from kernellab.tracing.launches import trace
from kernellab.tracing.records import Trace
from kernellab.viz.kernels.card import format_matrix_instructions

REPEATS = 5


@dataclass(frozen=True)
class Result:
    """What the demo found out about one case."""

    case: Case
    checks: Sequence[OutputCheck]
    remark: str
    """A fact about the outputs in words, "" where there is none."""
    run: Run
    """The first run, whose outputs were checked."""
    first_seconds: float
    """Wall time of the first run, in which the kernel becomes NumPy code."""
    seconds: float
    """Median wall time of the runs after it."""
    torch_seconds: float
    """Median wall time of torch doing the same job, one thread."""
    compilation: Compilation

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(check.passed for check in self.checks)

    @property
    def max_error(self) -> float:
        """The largest absolute error of any output."""
        return max(check.max_error for check in self.checks)


def run_case(case: Case, repeats: int = REPEATS) -> Result:
    """Run, check, time and compile one case."""
    arguments = case.make_arguments()
    with one_thread():
        started = time.perf_counter()
        first = _launch(case, arguments)
        first_seconds = time.perf_counter() - started
        checks = check_outputs(case, arguments)
        remark = case.remark(arguments)
        case.torch_twin(arguments)
        seconds = median_seconds(lambda: _launch(case, arguments), repeats)
        torch_seconds = median_seconds(lambda: case.torch_twin(arguments), repeats)
    compilation = compile_kernel(
        case.kernel, target=DEFAULT_TARGET, **arguments, **case.constants, **case.options
    )
    assert isinstance(compilation, Compilation)  # one target was asked for
    return Result(
        case=case,
        checks=checks,
        remark=remark,
        run=first,
        first_seconds=first_seconds,
        seconds=seconds,
        torch_seconds=torch_seconds,
        compilation=compilation,
    )


def small_traces() -> Iterator[tuple[Case, Trace]]:
    """Each kernel's first program on a small input, step by step."""
    for case in small_cases():
        arguments = case.make_arguments()
        for name in case.tolerance:
            arguments[name].zero_()  # whatever was in the memory is nothing to look at
        yield case, trace(case.kernel, case.grid, **arguments, **case.constants, **case.options)


def _launch(case: Case, arguments: dict[str, Any]) -> Run:
    return run(case.kernel, case.grid, **arguments, **case.constants, **case.options)


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median wall time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread inside: times are then comparable with the interpreter's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def results_table(results: Sequence[Result]) -> pandas.DataFrame:
    """The demo's table: one row a case."""
    rows = []
    for result in results:
        resources = result.compilation.resources
        rows.append(
            {
                "kernel": result.case.name,
                "size": result.case.size,
                "check": "pass" if result.passed else "FAIL",
                "max error": result.max_error,
                "interpreter, ms": result.seconds * 1e3,
                "torch, ms": result.torch_seconds * 1e3,
                "registers": resources.registers,
                "shared, bytes": resources.shared_bytes,
                "matrix instructions": format_matrix_instructions(result.compilation),
            }
        )
    return pandas.DataFrame(rows)
