"""A bound launch on the interpreter, and who watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from kernellab import interpreter, triton_api
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.execution.grid import grid_to_run
from kernellab.interpreter.stepping.attached_debugger import attached_debugger
from kernellab.launch.fitting import end_trial
from kernellab.launch.preparation import Grid
from kernellab.launch.watching import WatchedLaunch, told, watches
from kernellab.records import Run, Target
from kernellab.records.run_options import DEFAULT, RunOptions
from kernellab.triton_api import JITFunction

Instrumented = Callable[[interpreter.Instrument | None], Run]
"""Runs a launch, with an instrument or without."""


class LaunchWatcher(Protocol):
    """Watches launches on the interpreter: a profile of them."""

    def around(
        self,
        kernel: JITFunction,
        call: BoundCall,
        target: Target,
        options: RunOptions,
        run: Instrumented,
    ) -> Run:
        """Have a launch run, which nobody else does."""


_watchers: list[LaunchWatcher] = []
"""The last one counts."""


@contextmanager
def launches_watched(watcher: LaunchWatcher) -> Iterator[None]:
    """Inside, a watcher has every launch on the interpreter run, of whatever thread."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


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
    if not watches:
        return _run(kernel, grid, call, target, options)
    sizes = grid_to_run(grid, call.values, may_be_empty=True)
    with told(WatchedLaunch(kernel, sizes, call.values, "cpu")):
        return _run(kernel, sizes, call, target, options)


def _run(
    kernel: JITFunction, grid: Grid, call: BoundCall, target: Target, options: RunOptions
) -> Run:
    __tracebackhide__ = True
    if _watchers:

        def run(instrument: interpreter.Instrument | None) -> Run:
            return interpreter.launch(kernel, grid, call, target, options, instrument=instrument)

        return _watchers[-1].around(kernel, call, target, options, run)
    is_stepped = not kernel.is_gluon() and options.stage == DEFAULT.stage
    debugger = attached_debugger(lambda: _files_of(kernel)) if is_stepped else None
    return interpreter.launch(kernel, grid, call, target, options, debugger)


def _files_of(kernel: JITFunction) -> set[str]:
    """The files of a kernel and of the functions that it may call."""
    return {f.fn.__code__.co_filename for f in triton_api.reachable_functions(kernel)}
