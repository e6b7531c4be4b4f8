"""Runs of bound calls on the interpreter, and profiles that watch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from kernellab import interpreter, triton_api
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.execution.grid import grid_to_run
from kernellab.interpreter.execution.inspection import attached_debugger
from kernellab.launch.fitting import end_trial
from kernellab.launch.preparation import Grid
from kernellab.launch.watching import WatchedLaunch, announced, watches
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
        """Run a launch by calling `run`."""


_watchers: list[LaunchWatcher] = []
"""The watchers, of which the last one runs launches."""


@contextmanager
def launches_watched(watcher: LaunchWatcher) -> Iterator[None]:
    """While active, a watcher runs all launches on the interpreter, of all threads."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def interpret(
    kernel: JITFunction,
    grid: Grid,
    call: BoundCall,
    target: Target,
    options: RunOptions,
    faults: interpreter.CollectedFaults | None = None,
) -> Run:
    """Run a bound call on the interpreter, in place. With `faults`, the run goes on after accesses
    out of bounds, which are collected there.

    Raises:
        GridError, CompileError, UnsupportedOperation, KernelFault: as `interpreter.launch`.
    """
    __tracebackhide__ = True
    end_trial(kernel, call, target)
    if kernel.is_gluon() and options.stage == DEFAULT.stage:
        options = replace(options, stage="ttgir")  # where Gluon begins
    if call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"This launch of {kernel.__name__!r} replaces its code with "
            f"{call.options['ir_override']!r}, and the interpreter runs the kernel itself.",
            advice="Leave ir_override out.",
            position=triton_api.definition_of(kernel),
        )
    if not watches:
        return _run(kernel, grid, call, target, options, faults)
    sizes = grid_to_run(grid, call.values, may_be_empty=True)
    with announced(WatchedLaunch(kernel, sizes, call.values, "cpu")):
        return _run(kernel, sizes, call, target, options, faults)


def _run(
    kernel: JITFunction,
    grid: Grid,
    call: BoundCall,
    target: Target,
    options: RunOptions,
    faults: interpreter.CollectedFaults | None,
) -> Run:
    __tracebackhide__ = True
    if _watchers:

        def run(instrument: interpreter.Instrument | None) -> Run:
            return interpreter.launch(
                kernel, grid, call, target, options, instrument=instrument, faults=faults
            )

        return _watchers[-1].around(kernel, call, target, options, run)
    is_stepped = not kernel.is_gluon() and options.stage == DEFAULT.stage
    debugger = attached_debugger(lambda: _files_of(kernel)) if is_stepped else None
    return interpreter.launch(kernel, grid, call, target, options, debugger, faults=faults)


def _files_of(kernel: JITFunction) -> set[str]:
    """Return the files of a kernel and of the functions that it may call."""
    return {f.fn.__code__.co_filename for f in triton_api.reachable_functions(kernel)}
