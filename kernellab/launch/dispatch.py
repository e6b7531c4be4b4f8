"""Launches are carried out here: on the interpreter, or by Triton on the GPU.

The functions of `on_launch` are called around both. On the interpreter, a program must fit on the
emulated GPU.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor

from kernellab import interpreter, triton_api
from kernellab.common.patches import replaced
from kernellab.common.text import shown
from kernellab.compiler.arguments import NUMBERS, ArgumentFacts, facts_as_text, facts_of
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.machine_code.resources import buffer_report, check_needs
from kernellab.compiler.targets import shared_limit
from kernellab.errors import (
    ArgumentError,
    CompileError,
    KernelLabError,
    OptionError,
    UnsupportedOperation,
)
from kernellab.interpreter.execution import program
from kernellab.interpreter.execution.grid import check_has_length, grid_to_run
from kernellab.interpreter.execution.inspection import attached_debugger
from kernellab.interpreter.execution.program import ProgramCode, program_code
from kernellab.launch.preparation import Grid
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.records.launches import DEFAULT, RunOptions
from kernellab.triton_api import JITFunction
from kernellab.triton_api.patches import gpu_launches_watched
from kernellab.triton_api.pipeline import shared_bytes, ttgir_text

# `on_launch`: the user's functions that are called around every launch.
#
# Without them a launch costs nothing more: on a GPU, Triton's own launcher is in place; on the
# interpreter, an empty list is read.


@dataclass(frozen=True)
class WatchedLaunch:
    """One launch, as the functions of `on_launch` get it."""

    kernel: Any
    """The kernel inside autotuners and heuristics."""
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    """All parameters by name, constants and defaults too. Keeping it keeps the tensors' memory."""
    device: Literal["gpu", "cpu"]
    """ "cpu" if the interpreter runs it."""


Callback = Callable[[WatchedLaunch], Any]


class LaunchWatch:
    """The result of `on_launch`; `remove()` or the end of a `with` ends it."""

    def __init__(self, enter: Callback | None, exit: Callback | None) -> None:
        self.enter = enter
        self.exit = exit
        watches.append(self)
        _gpu_launches.__enter__()

    def remove(self) -> None:
        """Stop the calls; a second time does nothing."""
        if self in watches:
            watches.remove(self)
            _gpu_launches.__exit__()

    def __enter__(self) -> LaunchWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


watches: list[LaunchWatch] = []
"""The active watches, in the order in which they began."""


def on_launch(enter: Callback | None = None, exit: Callback | None = None) -> LaunchWatch:
    """Call functions around every launch of a Triton kernel, on a GPU or on the interpreter.

        with kernellab.on_launch(lambda launch: print(launch.kernel.__name__, launch.grid)):
            train_step()

    Each function gets the launch: `.kernel`, `.grid`, `.arguments` by name, `.device`. Several
    watches nest: the first to begin is called first before a launch, and last after it. On a GPU,
    `exit` is called once the launch is queued in the stream. Kernels that torch.compile launches by
    itself are not seen. Without a watch, Triton is unchanged.

    Args:
        enter: called before the launch; an exception from it stops the launch.
        exit: called after the launch, also if it failed.

    Returns:
        The watch; `.remove()` or the end of a `with` ends it.

    Raises:
        ArgumentError: neither is given, or one is not a function.
    """
    for name, callback in (("enter", enter), ("exit", exit)):
        if callback is not None and not callable(callback):
            raise ArgumentError(
                f"{name} must be a function, got {shown(callback)}.",
                advice="The function is called with the launch as its argument.",
            )
    if enter is None and exit is None:
        raise ArgumentError(
            "on_launch needs enter, exit or both, got neither.",
            advice="Pass a function: on_launch(enter=lambda launch: print(launch.grid)).",
        )
    return LaunchWatch(enter, exit)


@contextmanager
def announced(launch: WatchedLaunch) -> Iterator[None]:
    """Call the functions of all watches before and after a launch."""
    entered: list[LaunchWatch] = []
    try:
        for watch in tuple(watches):
            entered.append(watch)
            if watch.enter is not None:
                watch.enter(launch)
        yield
    finally:
        for watch in reversed(entered):
            if watch.exit is not None:
                watch.exit(launch)


def _around_on_gpu(kernel: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> Any:
    names = getattr(kernel, "arg_names", [f"argument {number}" for number in range(len(values))])
    return announced(WatchedLaunch(kernel, grid, dict(zip(names, values, strict=False)), "gpu"))


_gpu_launches = gpu_launches_watched(_around_on_gpu)


# Whether a program fits on the emulated GPU: checked before a kernel's first launch, as a GPU's
# driver does.


def check_fits(
    kernel: JITFunction, call: BoundCall, target: Target, options: RunOptions = DEFAULT
) -> ProgramCode:
    """Check once per specialization that one program fits on the GPU. Returns the code for the
    call, as a run with these options takes it. Raises CompileError: it needs more threads or shared
    memory than the GPU has; the cause is Triton's own OutOfResources.
    """
    is_late = options.completes_late
    code = program_code(kernel, call, target, options.stage, is_late=is_late)
    misfit = code.once(check_fits, lambda: _misfit(kernel, call, target))
    if misfit is not None:
        raise misfit from misfit.__cause__
    return code


def _misfit(kernel: JITFunction, call: BoundCall, target: Target) -> CompileError | None:
    options = {**triton_api.backend_options(target), **call.options}
    threads = int(options["num_warps"]) * triton_api.gpu_target(target).warp_size
    shared = _shared_bytes(kernel, call, target, options)
    try:
        check_needs(kernel, target, threads, shared, lambda: _buffers(kernel, call, target))
    except CompileError as error:
        return error.with_traceback(None)
    return None


def _buffers(kernel: JITFunction, call: BoundCall, target: Target) -> str:
    """Return the buffers that the shared memory of a kernel goes into, as a compilation does."""
    try:
        return buffer_report(kernel, ttgir_text(kernel, call.specialization, target, call.options))
    except KernelLabError:
        return ""


def _shared_bytes(kernel: JITFunction, call: BoundCall, target: Target, options: Any) -> int:
    """Return the shared memory of one program; 0 if even a generous estimate is below the limit."""
    limit = shared_limit(target)
    if limit is None:
        return 0
    if not kernel.is_gluon():
        sizes = program_code(kernel, call, target).tile_bytes
        if sizes.most_shared(int(options.get("num_stages") or 1)) <= limit:
            return 0
    try:
        return program.kept_number(
            program.stored_file(kernel, call, target),
            "shared",
            lambda: shared_bytes(kernel, call.specialization, target, call.options),
        )
    except KernelLabError:
        return 0  # compiling it reports the error


# Trying configs


class Fits(Exception):
    """Ends a trial: the kernel fits."""


class _Trials(threading.local):
    is_trial = False
    settled: weakref.WeakSet[Any]

    def __init__(self) -> None:
        self.settled = weakref.WeakSet()


_trials = _Trials()


def trial() -> AbstractContextManager[None]:
    """While active, a launch of this thread on the interpreter runs nothing, and raises Fits or the
    error.
    """
    return replaced(_trials, is_trial=True)


def end_trial(kernel: JITFunction, call: BoundCall, target: Target) -> None:
    """End a trial before the launch would run; without a trial, do nothing. Raises Fits: it is a
    trial, and the kernel fits; CompileError: it is a trial, and the kernel does not fit.
    """
    if _trials.is_trial:
        check_fits(kernel, call, target)
        raise Fits
    _trials.settled.clear()


def is_settled(tuner: Any) -> bool:
    """Return whether a config of a tuner was found to fit since the last launch that ran."""
    return tuner in _trials.settled


def settle(tuner: Any) -> None:
    """Record that a config of a tuner fits."""
    _trials.settled.add(tuner)


# Runs of bound calls on the interpreter, and profiles that watch them.


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
    """Run a bound call on the interpreter, in place. With `faults`, the run continues after
    accesses out of bounds, which are collected there. Raises GridError, CompileError,
    UnsupportedOperation, KernelFault: as `interpreter.launch`; a CompileError too if a program does
    not fit on the GPU.
    """
    __tracebackhide__ = True
    end_trial(kernel, call, target)
    if kernel.is_gluon() and options.stage == DEFAULT.stage:
        options = replace(options, stage="ttgir")  # where Gluon begins
    _check_completion(kernel, options)
    code = check_fits(kernel, call, target, options)
    if call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"This launch of {kernel.__name__!r} replaces the compiled code with "
            f"{call.options['ir_override']!r}, which the interpreter does not run.",
            advice="Leave ir_override out.",
            position=triton_api.definition_of(kernel),
        )
    if not watches:
        return _run(kernel, grid, call, target, code, options, faults)
    sizes = grid_to_run(grid, call.values, may_be_empty=True)
    with announced(WatchedLaunch(kernel, sizes, call.values, "cpu")):
        return _run(kernel, sizes, call, target, code, options, faults)


def _check_completion(kernel: JITFunction, options: RunOptions) -> None:
    """Raise OptionError if operations are to complete late in IR that has no asynchronous ones."""
    if options.completes_late and not options.stage.startswith("ttgir"):
        raise OptionError(
            f"completion={options.completion!r} needs stage='ttgir', got stage={options.stage!r}: "
            "TTIR has no asynchronous operations.",
            advice='Pass stage="ttgir", or remove completion=.',
            position=triton_api.definition_of(kernel),
        )


def _run(
    kernel: JITFunction,
    grid: Grid,
    call: BoundCall,
    target: Target,
    code: ProgramCode,
    options: RunOptions,
    faults: interpreter.CollectedFaults | None,
) -> Run:
    __tracebackhide__ = True
    if _watchers:

        def run(instrument: interpreter.Instrument | None) -> Run:
            return interpreter.launch(
                kernel, grid, call, target, code, options, instrument=instrument, faults=faults
            )

        return _watchers[-1].around(kernel, call, target, options, run)
    is_stepped = options.stage == ("ttgir" if kernel.is_gluon() else DEFAULT.stage)
    debugger = attached_debugger(lambda: _files_of(kernel)) if is_stepped else None
    return interpreter.launch(kernel, grid, call, target, code, options, debugger, faults=faults)


def _files_of(kernel: JITFunction) -> set[str]:
    """Return the files of a kernel and of the functions that it may call."""
    return {f.fn.__code__.co_filename for f in triton_api.reachable_functions(kernel)}


# Launches that Triton makes on the GPU, at the cost that they have without KernelLab: noting one
# takes a microsecond, and the record is made on request.


class GpuLaunch(NamedTuple):
    """The note of a launch on the GPU.

    A launch makes a plain tuple of these: a named one would take as long as two arguments.
    """

    compiled: Any
    """Triton's compiled kernel."""
    grid: Sequence[int] | SeenGrid
    args: Sequence[ArgumentFacts]
    """By position."""
    keywords: Mapping[str, Any]
    """Facts about parameters by name, and options."""

    def as_run(self) -> Run:
        source, target = self.compiled.src, self.compiled.metadata.target
        facts = {**dict(zip(source.fn.arg_names, self.args, strict=False)), **self.keywords}
        signature = source.signature
        specialization = Specialization(
            signature=dict(signature),
            constants=dict(source.constants),
            attributes=dict(source.attrs),
            origins=dict.fromkeys(signature, "launch"),
        )
        sizes = self.grid.sizes if isinstance(self.grid, SeenGrid) else self.grid
        x, y, z = (*sizes, 1, 1)[:3]
        launch = Launch(
            kernel=source.fn.__name__,
            grid=(x, y, z),
            specialization=specialization,
            arguments={
                name: facts_as_text(value) for name, value in facts.items() if name in signature
            },
            options={name: value for name, value in facts.items() if name not in signature},
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


class SeenGrid:
    """A grid that is a function, and the sizes that it returned."""

    __slots__ = ("_grid", "sizes")

    def __init__(self, grid: Callable[[Mapping[str, Any]], Any]) -> None:
        self._grid: Any = grid
        self.sizes: Any = None

    def __call__(self, parameters: Mapping[str, Any]) -> Any:
        """Return the sizes. Raises GridError: the function returned a number, not a sequence."""
        self.sizes = sizes = self._grid(parameters)
        self._grid = None  # it may hold tensors
        if type(sizes) is not tuple:
            check_has_length(sizes, is_asked=True)
        return sizes


def launch_on_gpu(
    run_natively: Callable[..., Any], grid: Grid, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...] | None]:
    """Let Triton launch a kernel, with `run_natively(*args, grid=, warmup=, **keywords)`. Returns
    Triton's compiled kernel, and the note of the launch; None if a hook of Triton's prevented the
    launch. Raises GridError: the grid is a number, and Triton needs a sequence.
    """
    if callable(grid):
        grid = SeenGrid(grid)
    else:
        check_has_length(grid, is_asked=False)
    compiled = run_natively(*args, grid=grid, warmup=False, **keywords)
    return compiled, note(compiled, grid, args, keywords)


def note(
    compiled: Any, grid: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return the parts of a `GpuLaunch`, without tensors, whose memory it would keep; None if
    nothing was launched.
    """
    if compiled is None:
        return None
    for value in keywords.values():
        if type(value) not in NUMBERS:
            parameters = compiled.src.fn.arg_names
            keywords = {
                name: facts_of(keyword) if name in parameters else keyword
                for name, keyword in keywords.items()
            }
            break
    # Inline for tensors and numbers: a call for each would take a tenth of the launch's time.
    facts = [
        (arg.dtype, arg.shape)
        if type(arg) is Tensor
        else arg
        if type(arg) in NUMBERS
        else facts_of(arg)
        for arg in args
    ]
    return compiled, grid, facts, keywords
