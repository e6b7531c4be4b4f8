"""`kernellab.trace`: run a launch, and keep what chosen programs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.common.argument_checks import check_flags, check_whole
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.interpreter.execution.grid import chosen_programs
from kernellab.interpreter.stepping.code import stepping_code
from kernellab.launch.preparation import EntryPoint, Grid, apart_from_parameters, prepare
from kernellab.launch.right_results import Reference, expected_results
from kernellab.records import AskedLaunch, Target
from kernellab.tracing.launches import TracedLaunch
from kernellab.tracing.records import Trace
from kernellab.tracing.values import LARGEST_EXACT


@names_bad_arguments
def trace(
    kernel: Any,
    grid: Grid,
    *args: Any,
    programs: str | int | Sequence[Any] = (0, 0, 0),
    operations: bool = False,
    in_place: bool = False,
    exact_bytes: int = LARGEST_EXACT,
    target: str | Target | None = None,
    expect: Reference | None = None,
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
            as a list of such, or "all"; no more than 100,000.
        operations: one step for each operation of the IR, not for each line.
        in_place: let the run change the arguments, once it has come to its end or to a fault; else
            it works on copies.
        exact_bytes: the largest value of a variable that is kept exactly. Of a larger one a summary
            is kept, and when its elements are asked for, the kernel runs again. The arguments and
            what is written to them are kept whatever their size, up to 256 MiB.
        target: the GPU to emulate, "sm_90", ...; None means the one that a launch would emulate.
        expect: right results, as for `kernellab.check`. Where an element is not as expected, the
            program that wrote the first one is traced too, a notice says the step, and the stepper
            opens there.

        A name that is also a parameter of the kernel is the parameter,
        unless that is given by position.

    Returns:
        The Trace.

    Raises:
        ArgumentError: arguments that do not fit, or tensors on a GPU.
        OptionError: a program outside the grid, or an option that traces do not have.
        GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
    """
    __tracebackhide__ = True
    given = _TraceOptions(programs, operations, in_place, exact_bytes, target, expect)
    own, keywords = apart_from_parameters(given, kernel, args, keywords)
    check_flags(operations=own.operations, in_place=own.in_place)
    check_whole("exact_bytes", own.exact_bytes, meaning="number of bytes")
    launch = prepare(kernel, grid, args, keywords, own.target, _TRACE)
    plain, call, emulated = launch.kernel, launch.call, launch.target
    sizes = launch.sizes()
    wanted = chosen_programs(own.programs, sizes, "programs")
    with ProgressBar(f"trace {plain.__name__}", None, "programs", UNTOUCHED):
        code = stepping_code(plain, call, emulated, traced=True, traces_operations=own.operations)
        traced = TracedLaunch(plain, sizes, call, code, wanted, launch.options, str(emulated))
        expected = expected_results(own.expect, launch, code.batch)
        found = traced.traced(own.in_place, own.exact_bytes, own.operations, expected)
    found.asked = AskedLaunch(kernel, grid, args, keywords, emulated)
    return found


_TRACE = EntryPoint(
    "trace",
    {"stage": "a trace follows the source's lines, which only TTIR from the front end still has"},
    keeps_assertions=True,
)


@dataclass(frozen=True)
class _TraceOptions:
    """What `trace` itself is told; see there."""

    programs: Any = (0, 0, 0)
    operations: Any = False
    in_place: Any = False
    exact_bytes: Any = LARGEST_EXACT
    target: Any = None
    expect: Any = None
