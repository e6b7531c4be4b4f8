"""`kernellab.trace`: run a launch, and keep what chosen programs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernellab.common.argument_checks import check_flags, check_whole
from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.interpreter.execution.grid import chosen_programs
from kernellab.interpreter.execution.stepping_code import stepping_code
from kernellab.launch.preparation import EntryPoint, prepare_bound, takes_launch
from kernellab.launch.reference_results import Reference, expected_results
from kernellab.records import BoundLaunch, Target
from kernellab.tracing.launches import TracedLaunch
from kernellab.tracing.records import Trace
from kernellab.tracing.values import LARGEST_EXACT


@takes_launch
def trace(
    launch: BoundLaunch,
    *,
    programs: str | int | Sequence[Any] = (0, 0, 0),
    operations: bool = False,
    in_place: bool = False,
    exact_bytes: int = LARGEST_EXACT,
    target: str | Target | None = None,
    expect: Reference | None = None,
) -> Trace:
    """Run a launch on the interpreter and keep every step of chosen programs:
    the line, what it changed, what it accessed.

    The whole grid runs, in the order that the options ask for: chosen programs one by one,
    line by line, the others in batches between them. A fault ends the run, and the trace holds
    every step up to it. Tensors on a GPU, up to 1 GiB, are copied to the CPU; a notice of the trace
    says so.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; of an
            autotuned kernel, the first config counts.
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
        ArgumentError: arguments that do not fit, or more than 1 GiB on a GPU.
        OptionError: a program outside the grid, or an option that traces do not have.
        GridError, CompileError, UnsupportedOperation: as `kernellab.run`.
    """
    __tracebackhide__ = True
    check_flags(operations=operations, in_place=in_place)
    check_whole("exact_bytes", exact_bytes, meaning="number of bytes")
    prepared = prepare_bound(launch, target, _TRACE)
    plain, call, emulated = prepared.kernel, prepared.call, prepared.target
    sizes = prepared.sizes()
    wanted = chosen_programs(programs, sizes, "programs")
    with ProgressBar(f"trace {plain.__name__}", None, "programs", UNTOUCHED):
        code = stepping_code(plain, call, emulated, traced=True, traces_operations=operations)
        traced = TracedLaunch(
            plain, sizes, call, code, wanted, prepared.options, str(emulated), prepared.notes
        )
        expected = expected_results(expect, prepared, code.batch)
        trace = traced.traced(in_place, exact_bytes, operations, expected)
        if in_place:
            prepared.copy_to_originals()
    trace.launch = replace(launch, target=emulated, expect=expect)
    return trace


_TRACE = EntryPoint(
    "trace",
    {"stage": "a trace follows the source's lines, which only TTIR from the front end still has"},
    keeps_assertions=True,
)
