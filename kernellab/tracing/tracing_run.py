"""`kernellab.trace`: run a launch, and keep what chosen programs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.targets import parse_target
from kernellab.compiler.unwrapping import unwrap_kernel
from kernellab.errors import OptionError
from kernellab.interpreter.execution.grid import check_grid, chosen_programs
from kernellab.interpreter.stepping.code import stepping_code
from kernellab.launch.dispatch import (
    Grid,
    apart_from_parameters,
    bind_launch,
    innermost,
    refuse_gpu,
)
from kernellab.launch.interception import emulated_for
from kernellab.records import Target
from kernellab.records.run_options import DEFAULT, RunOptions, split_keywords
from kernellab.tracing.launches import TracedLaunch
from kernellab.tracing.records import Trace
from kernellab.tracing.values import LARGEST_EXACT


def trace(
    kernel: Any,
    grid: Grid,
    *args: Any,
    programs: str | int | Sequence[Any] = (0, 0, 0),
    operations: bool = False,
    in_place: bool = False,
    exact_bytes: int = LARGEST_EXACT,
    target: str | Target | None = None,
    **keywords: Any,
) -> Trace:
    """Run a launch on the interpreter and keep every step of chosen programs:
    the line, what it changed, what it accessed.

    The whole grid runs, in the order that the options ask for: chosen programs one by one,
    line by line, the others in batches between them. A fault ends the run, and the trace holds
    every step up to it.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`; of an autotuned kernel, the
            first config counts.
        programs: which ones are traced: one as a tuple `(x, y, z)`, `(x, y)` or a number, several
            as a list of such, or "all".
        operations: one step for each operation of the IR, not for each line.
        in_place: let the run change the arguments, once it has come to its end or to a fault; else
            it works on copies.
        exact_bytes: the largest value that is kept exactly. Of a larger one a summary is kept, and
            when its elements are asked for, the kernel runs again.
        target: the GPU to emulate, "sm_90", ...; None means the one that a launch would emulate.

        A name that is also a parameter of the kernel is the parameter.

    Returns:
        The Trace.

    Raises:
        ArgumentError: arguments that do not fit, or tensors on a GPU.
        OptionError: a program outside the grid, or an option that traces do not have.
        GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
    """
    __tracebackhide__ = True
    trace_options = _TraceOptions(programs, operations, in_place, exact_bytes, target)
    trace_options, of_parameters = apart_from_parameters(trace_options, innermost(kernel).arg_names)
    chosen = (
        emulated_for(kernel) if trace_options.target is None else parse_target(trace_options.target)
    )
    plain, keywords = unwrap_kernel(kernel, args, {**keywords, **of_parameters}, {})
    keywords, outright, options = split_keywords(keywords, plain.arg_names)
    _refuse_stage(plain, options)
    _check_size(trace_options.exact_bytes)
    refuse_gpu(plain, args, keywords, "trace")
    call = bind_launch(plain, args, keywords, outright, chosen)
    sizes = check_grid(grid, call.values)
    wanted = chosen_programs(trace_options.programs, sizes, "programs")
    with ProgressBar(f"trace {plain.__name__}", None, "programs", UNTOUCHED):
        code = stepping_code(
            plain, call, chosen, traced=True, traces_operations=trace_options.operations
        )
        launch = TracedLaunch(plain, sizes, call, code, wanted, options, str(chosen))
        return launch.traced(
            trace_options.in_place, trace_options.exact_bytes, trace_options.operations
        )


@dataclass(frozen=True)
class _TraceOptions:
    """What `trace` itself is told; see there."""

    programs: Any = (0, 0, 0)
    operations: Any = False
    in_place: Any = False
    exact_bytes: Any = LARGEST_EXACT
    target: Any = None


def _check_size(exact_bytes: Any) -> None:
    whole = isinstance(exact_bytes, int) and not isinstance(exact_bytes, bool)
    if not whole or exact_bytes < 0:
        raise OptionError(
            f"exact_bytes={exact_bytes!r} is no number of bytes",
            advice=f"Give a whole number; {LARGEST_EXACT} is the default.",
        )


def _refuse_stage(kernel: Any, options: RunOptions) -> None:
    if options.stage != DEFAULT.stage:
        raise OptionError(
            f"stage={options.stage!r}: a trace follows the source's lines, which only TTIR from "
            "the front end still has",
            advice="Leave the stage out.",
            position=triton_api.definition_of(kernel),
        )
