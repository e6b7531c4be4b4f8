"""A bound launch on the interpreter."""

from __future__ import annotations

from dataclasses import replace

from kernellab import interpreter, triton_api
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.stepping.attached_debugger import attached_debugger
from kernellab.launch.fitting import end_trial
from kernellab.launch.preparation import Grid
from kernellab.records import Run, Target
from kernellab.records.run_options import DEFAULT, RunOptions
from kernellab.triton_api import JITFunction


def interpret(
    kernel: JITFunction, grid: Grid, call: BoundCall, target: Target, options: RunOptions
) -> Run:
    """Run a bound call on the interpreter, in place.

    Raises:
        GridError, CompileError, UnsupportedOperation, KernelFault: as `interpreter.launch`.
    """
    __tracebackhide__ = True
    end_trial(kernel, call, target)
    if kernel.is_gluon() and options.stage == DEFAULT.stage:
        options = replace(options, stage="ttgir")  # where Gluon begins
    if call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"this launch of {kernel.__name__!r} puts {call.options['ir_override']!r} in the "
            "place of its code",
            advice="The interpreter runs the kernel itself: leave ir_override out.",
            position=triton_api.definition_of(kernel),
        )
    is_stepped = not kernel.is_gluon() and options.stage == DEFAULT.stage
    debugger = attached_debugger(lambda: _files_of(kernel)) if is_stepped else None
    return interpreter.launch(kernel, grid, call, target, options, debugger)


def _files_of(kernel: JITFunction) -> set[str]:
    """The files of a kernel and of the functions that it may call."""
    return {f.fn.__code__.co_filename for f in triton_api.reachable_functions(kernel)}
