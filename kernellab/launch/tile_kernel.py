"""`TileKernel`: one launch line, sent to the interpreter or to the GPU; and the latest launches."""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any

from torch import Tensor

from kernellab import triton_api
from kernellab.common.arguments import check_flags, listed
from kernellab.common.patches import replaced
from kernellab.common.text import shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.kernels import as_triton_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, parse_target
from kernellab.errors import (
    WITHOUT_SOURCE,
    ArgumentError,
    KernelLabError,
    NoGrid,
    OptionError,
    suggestion,
)
from kernellab.interpreter.execution.grid import check_has_length
from kernellab.launch.autotuners import ConfigName, launched_with, take_autotuned_launches
from kernellab.launch.dispatch import GpuLaunch, SeenGrid, interpret, launch_on_gpu, note
from kernellab.launch.interception import Interception
from kernellab.launch.preparation import (
    RUN,
    Grid,
    emulated_for,
    goes_to_gpu,
    innermost,
    prepare,
    takes_launch,
)
from kernellab.records import BoundLaunch, Launch, Run, Target
from kernellab.records.launches import RUN_OPTION_NAMES
from kernellab.torch_api.emulation import untraced
from kernellab.triton_api import GluonJITFunction, JITFunction, emulations, is_made_of_the_same

# The latest launch of each kernel of a cell, kept so that it can run again.
#
# There is one for each kernel name, because a launch holds its tensors: a cell that runs again
# replaces its launches.


_latest: dict[tuple[str, str], BoundLaunch] = {}


def keep(launch: BoundLaunch) -> weakref.ref[BoundLaunch]:
    """Keep a launch until another launch of a kernel with that name is kept."""
    _latest[_name(launch.plain)] = launch
    return weakref.ref(launch)


_stopped: weakref.WeakKeyDictionary[KernelLabError, BoundLaunch] = weakref.WeakKeyDictionary()
"""Launches, each kept as long as the error that ended it."""


def launch_stopped_by(error: KernelLabError) -> BoundLaunch | None:
    """Return the launch that ended with an error; None if it is not known."""
    return _stopped.get(error)


def latest_of(kernel: Any) -> BoundLaunch | None:
    """Return the launch that is kept of this kernel; None for another kernel of the same name."""
    launch = _latest.get(_name(kernel))
    return launch if launch is not None and launch.plain is kernel else None


def latest_named(name: str) -> Iterator[BoundLaunch]:
    """Return the launches that are kept of kernels with a name, in any module."""
    return (launch for launch in _latest.values() if launch.name == name)


def _name(kernel: Any) -> tuple[str, str]:
    return str(kernel.fn.__module__), str(kernel.fn.__qualname__)


# `TileKernel`: one launch line, sent to the interpreter or to the GPU.


class TileKernel(JITFunction):
    """A Triton kernel whose launch line works with and without a GPU.

    `kernel[grid](*args)` with CUDA tensors is Triton's own launch. With torch CPU tensors or NumPy
    arrays the interpreter runs the kernel, in place, as `target` would. Everything else is
    Triton's `JITFunction`: it compiles, other kernels call it, `triton.autotune` and
    `triton.heuristics` wrap it.

    Attributes:
        target: the GPU that the interpreter emulates; sm_90 unless a cell's
            `--target` says otherwise.
        runs_on_cpu: distinguishes it from a plain kernel without an import of this module.
    """

    target: Target = DEFAULT_TARGET
    runs_on_cpu = True
    _last: Run | tuple[Any, ...] | None = None
    """The latest launch: a Run, or what `note` kept of a launch on the GPU."""
    _stopped: BoundCall | None = None
    """The bound call of the latest launch, if it failed."""
    _kept_launch: list[BoundLaunch] | None = None
    """The latest launch, kept with its tensors while the cell that made the kernel runs."""

    def __init__(self, function: Callable[..., Any] | JITFunction, **settings: Any) -> None:
        """A kernel of a Python function, or of a kernel that `@triton.jit` made;
        `settings` are those of `@triton.jit`.

        Raises:
            ArgumentError: something else, such as a kernel with an autotuner around it.
        """
        if isinstance(function, JITFunction):
            kept = {**triton_api.jit_settings(function)}
            settings = {**kept, "launch_metadata": function.launch_metadata, **settings}
            function = function.fn
        if not isinstance(function, FunctionType):
            raise ArgumentError(
                f"function must be a function or a @triton.jit kernel, got "
                f"{type(function).__name__}.",
                advice=(
                    "Put the autotuner around the TileKernel: "
                    "triton.autotune(...)(kernellab.TileKernel(kernel))."
                ),
            )
        if function.__name__ == "<lambda>":
            raise ArgumentError(
                "function must be a function, got a lambda, which Triton does not compile.",
                advice="Write a `def`.",
            )
        _check_settings(function, settings)
        try:
            super().__init__(function, **settings)
        except ValueError as error:  # of a function without a source
            raise ArgumentError(
                f"Triton cannot make a kernel of {function.__name__!r}: {error}",
                advice=WITHOUT_SOURCE,
            ) from error
        take_autotuned_launches()

    def parse(self) -> ast.Module:
        """Return the function's source as Triton's front end reads it: without `breakpoint()`, and
        with `tl.device_print` for `print(x)`.
        """
        return triton_api.rewrite_debugging_statements(super().parse())

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """The kernel with a grid, ready to be called with its arguments."""

        # All in one function: each that hands arguments on costs a launch on a GPU a tenth.
        def launch(*args: Any, **keywords: Any) -> Any:
            __tracebackhide__ = True
            first = args[0] if args else None
            if (
                type(first) is not Tensor
                or not first.is_cuda
                or self._kept_launch is not None
                or emulations.are_active
                or not RUN_OPTION_NAMES.isdisjoint(keywords)
                or not is_made_of_the_same(self)
            ):
                return self._prepare_and_run(*args, grid=grid, warmup=False, **keywords)
            # Nothing has to be looked at first: this is to cost what Triton's own launch costs.
            seen = SeenGrid(grid) if callable(grid) else grid
            try:
                compiled = JITFunction.run(self, *args, grid=seen, warmup=False, **keywords)
            except KernelLabError:
                raise
            except Exception:  # Triton raises anything for what `prepare` explains
                prepare(self, seen, args, dict(keywords), self.target, RUN)
                if not callable(seen):
                    check_has_length(seen, is_asked=False)
                raise
            self._last = note(compiled, seen, args, keywords)
            self._stopped = None
            return compiled

        return launch

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Raise NoGrid with the launch that was meant."""
        names = ", ".join([*self.arg_names[: len(args)], *(f"{name}=..." for name in keywords)])
        name = self.__name__
        raise NoGrid(
            f"{name!r} was called like a function, outside of the scope of a kernel.",
            advice=(
                f"Pass the number of programs: {name}[(programs,)]({names}). If each program works "
                f"on BLOCK of n elements: {name}[(triton.cdiv(n, BLOCK),)]({names})."
            ),
            position=triton_api.definition_of(self),
        )

    def run(self, *args: Any, grid: Grid, warmup: bool, **keywords: Any) -> Any:
        """Launch the kernel; what `kernel[grid](*args, **keywords)` calls.

        Keywords are parameters, options of the backend (`num_warps`, ...), and options of the
        interpreter: those of `RunOptions`. A name that is also a parameter is passed to the kernel;
        `options={...}` then gives the option.

        Returns:
            A `Run` from the interpreter; Triton's compiled kernel from the GPU.

        Raises:
            ArgumentError: arguments that do not fit, or tensors on the CPU and on a
                GPU in one launch.
            OptionError: a keyword that is neither a parameter nor a launch option.
            GridError: a grid that no GPU would accept.
            CompileError: the kernel does not compile.
            UnsupportedOperation: the interpreter cannot run this kernel.
            KernelFault: the kernel accessed memory outside its tensors, or had another fault.
        """
        __tracebackhide__ = True
        if warmup:
            return self._prepare_and_run(*args, grid=grid, warmup=True, **keywords)
        return self[grid](*args, **keywords)

    @untraced
    def _prepare_and_run(self, *args: Any, grid: Grid, warmup: bool, **keywords: Any) -> Any:
        """A launch that is looked at first: whose it is, and whether it can be."""
        __tracebackhide__ = True
        if self._kept_launch is not None:
            self._kept_launch[:] = [BoundLaunch(self, grid, args, dict(keywords), self.target)]
        launch = prepare(self, grid, args, keywords, self.target, RUN)
        if launch.bound is None:
            natively = super().run
            if warmup:
                return natively(*args, grid=grid, warmup=True, **launch.keywords)
            self._stopped = None
            compiled, self._last = launch_on_gpu(
                natively, launch.grid, launch.args, launch.keywords
            )
            return compiled
        call = launch.bound
        if warmup:
            return triton_api.compile_kernel(self, call.specialization, self.target, call.options)
        try:
            self._last = interpret(self, grid, call, self.target, launch.options)
        except BaseException as error:  # Ctrl-C too stops a launch
            self._stopped = BoundCall(call.specialization, {}, call.options)
            if isinstance(error, KernelLabError):
                _stopped[error] = BoundLaunch(self, grid, args, keywords, self.target)
            raise
        self._stopped = None
        return self._last

    def take_launch_of_cell(self) -> BoundLaunch | None:
        """The latest launch by the cell that made the kernel, and from now on no launch is kept."""
        launches, self._kept_launch = self._kept_launch, None
        return launches[0] if launches else None

    @property
    def last_run(self) -> Run | None:
        """The latest launch that was carried out, and where; None before the first."""
        if isinstance(self._last, tuple):
            self._last = GpuLaunch(*self._last).as_run()
        return self._last

    @property
    def last_launch(self) -> Launch | None:
        """The latest launch that was carried out; None before the first."""
        run = self.last_run
        return None if run is None else run.launch

    @property
    def last_call(self) -> Launch | BoundCall | None:
        """The specialization of the latest launch, also of one that a fault stopped;
        None before the first.
        """
        return self._stopped or self.last_launch

    def __repr__(self) -> str:
        return f"TileKernel({self.module}:{self.fn.__qualname__})"


def _check_settings(function: FunctionType, settings: Mapping[str, Any]) -> None:
    """Refuse settings that Triton would accept and fail at later."""
    known = triton_api.JIT_SETTINGS
    for name, value in settings.items():
        if name not in known:
            raise OptionError(
                f"A TileKernel has no setting {name!r}.",
                advice=suggestion(name, known, "The settings are"),
            )
        if value is None:
            continue
        if name in ("debug", "noinline"):
            check_flags(**{name: value})
        elif name in ("repr", "launch_metadata") and not callable(value):
            raise OptionError(
                f"{name} must be a function, got {shown(value)}.",
                advice=f"Leave {name} out, or pass a function.",
            )
        elif name.startswith("do_not_specialize"):
            _check_parameters(name, value, function)


def _check_parameters(setting: str, value: Any, function: FunctionType) -> None:
    known = list(inspect.signature(function).parameters)
    several = isinstance(value, list | tuple | set | frozenset)
    wrong = (
        [
            parameter
            for parameter in listed(setting, value)
            if parameter not in known and parameter not in range(len(known))
        ]
        if several
        else [value]
    )
    if wrong:
        raise OptionError(
            f"{setting} must name parameters of {function.__name__!r}, got {shown(value)}.",
            advice=f"Pass a list of names, such as {setting}=[{known[0] if known else 'n'!r}].",
        )


class GluonTileKernel(TileKernel, GluonJITFunction):
    """A Gluon kernel as a `TileKernel`: compiled as Gluon; the interpreter runs its TTGIR."""


# Becoming a TileKernel


@contextmanager
def tile_kernels_in(file: str, target: Target) -> Iterator[list[TileKernel]]:
    """While active, `@triton.jit` and `@gluon.jit` on functions whose code comes
    from `file` make TileKernels.

    Gives the list of them, which grows as they are made. Kernels of other files stay what they are.
    """
    made: list[TileKernel] = []
    take_autotuned_launches()

    def adopt(kernel: JITFunction) -> None:
        kernel.__class__ = GluonTileKernel if kernel.is_gluon() else TileKernel
        kernel.target = target
        kernel._kept_launch = []
        made.append(kernel)

    try:
        with triton_api.kernels_become(adopt, file):
            yield made
    except BaseException:  # Ctrl-C too ends the cell
        for kernel in made:
            kernel.take_launch_of_cell()
        raise


@takes_launch
def run(
    launch: BoundLaunch, *, config: ConfigName | None = None, target: str | Target | None = None
) -> Run:
    """Launch a kernel as a function call; the same as `kernel[grid](*args, **constants)`, in place.

    Args:
        kernel: a TileKernel or a plain `@triton.jit` kernel, with or without `triton.autotune` and
            `triton.heuristics` around it, or a kernel that Inductor generated (`torch.compile`).
            Or a bound launch (`kernellab.bind`), in place of kernel, grid and arguments.
        grid: one to three sizes, or a function that takes a dict of the parameters and returns
            them. For a kernel from Inductor, None means the grid that Inductor launches it on.
        args: torch tensors, NumPy arrays, scalars.
        config: the config of an autotuned kernel to launch with: its number among the autotuner's
            configs, from 0, or another `triton.Config`. With None, the CPU runs the first config
            and says so, since times on a CPU do not predict a GPU's; on a GPU, Triton times them.
        target: the GPU to emulate, such as "sm_90"; None for the one that the launch line would
            emulate. A launch on a GPU does not take it.
        keywords: constexprs, further parameters by name, options of the backend, such as
            `num_warps`, and options of the interpreter:

            stage: the IR to run, "ttir" by default.
            order: "sequential" (by linear id, x fastest), "reversed" or "shuffled" programs.
            seed: chooses the shuffled order, 0 by default.
            bounds: inside which accesses must stay: the "storage" (the memory behind a tensor), by
                default, or the "view".
            completion: when asynchronous operations of TTGIR complete: "early", when they are
                issued, by default; "late", when something waits for them; or "shuffled" by seed.

            A keyword that is also a parameter of the kernel is passed to the kernel, unless that
            parameter is already given by position; `options={...}` then gives the option.

    Raises:
        ArgumentError, OptionError, GridError, CompileError, UnsupportedOperation, KernelFault: as
            `TileKernel.run`.
    """
    __tracebackhide__ = True
    kernel, grid = as_triton_kernel(launch.kernel), launch.grid
    args, keywords = launch.args, launch.keywords
    inside = innermost(kernel)
    emulated = emulated_for(inside) if target is None else parse_target(target)
    if target is not None and goes_to_gpu(inside, args, keywords):
        raise OptionError(
            f"Only the interpreter supports target, but this launch of {inside.__name__!r} runs on "
            "the GPU.",
            advice="Remove target, or move the tensors to the CPU.",
        )
    with launched_with(kernel, config):
        if isinstance(inside, TileKernel):
            with nullcontext() if target is None else replaced(inside, target=emulated):
                kernel.run(*args, grid=grid, warmup=False, **keywords)
            last = inside.last_run
        else:
            take_autotuned_launches()
            interception = Interception.like_the_current(emulated)
            with triton_api.emulated(interception):
                kernel.run(*args, grid=grid, warmup=False, **keywords)
            last = interception.last_run
    if last is None:
        raise KernelLabError(
            f"{inside.__name__!r} was not launched: Triton's jit_cache_hook prevented it.",
            advice="triton.knobs.runtime.jit_cache_hook = None removes the hook.",
        )
    return last
