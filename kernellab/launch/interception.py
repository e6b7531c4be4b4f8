"""`interpreted()`: other people's kernels on the CPU, launched by other people's code."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator, ExitStack
from dataclasses import replace
from typing import Any, Self

import torch

from kernellab import triton_api
from kernellab.common.arguments import check_choice
from kernellab.common.system import InterruptsBetween
from kernellab.common.text import counted
from kernellab.compiler.arguments import plain_value
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.machine_code.resources import read_nvidia
from kernellab.compiler.targets import (
    DEFAULT_TARGET,
    local_target,
    multiprocessor_count,
    parse_target,
    shared_limit,
    usual_gpu,
)
from kernellab.errors import ArgumentError, CompileError, OptionError, UnsupportedOperation
from kernellab.interpreter import CollectedFaults
from kernellab.launch.autotuners import autotuned_launches_taken
from kernellab.launch.cuda_tensors import session_is
from kernellab.launch.dispatch import GpuLaunch, interpret, launch_on_gpu
from kernellab.launch.preparation import RUN, Grid, prepare
from kernellab.launch.torch_cuda import torch_answers_for
from kernellab.records import Run, Specialization, Target
from kernellab.records.launches import DEFAULT, RunOptions
from kernellab.torch_api.emulation import untraced
from kernellab.triton_api import EmulatedDriver, JITFunction

ANSWERS = ("driver", "gpu")

ON_FAULT = ("raise", "collect")

_ENTERED: set[ExitStack] = set()
"""All contexts that were entered and not left, which last until the process ends."""


class interpreted(ContextDecorator):  # noqa: N801 - a context manager and decorator, spelled like those of contextlib
    """Run Triton kernels on the interpreter wherever ordinary code launches them with CPU tensors.

        with kernellab.interpreted():
            z = library.add(x, y)

    It is also a decorator. It applies to all kernels, also to those imported before, autotuned or
    with heuristics, and to all code that calls `kernel[grid](...)`. If Triton has no GPU, its
    driver (`triton.runtime.driver.active`: current target, device properties, a benchmarker)
    describes `target`. Triton still makes launches with CUDA tensors itself. The context applies to
    the thread or asyncio task that entered it. Contexts nest; the innermost applies. Afterwards,
    Triton is unchanged.

    With `answers="gpu"`, torch behaves as if that GPU were there, for libraries that require one:
    `torch.cuda` describes it, also in threads started inside, and tensors made on or moved to
    "cuda" are in the CPU's memory. If a library checks for a GPU while it is imported, import it
    inside.

    With `on_fault="collect"`, launches continue after an access out of bounds, as a GPU often does.
    Reads give NaN, or integers of bytes 0xA5, and writes are dropped. `faults` of the object that
    the context yields lists the accesses, and so does the end of the context, on stderr.

    What Triton refuses is refused with Triton's own exceptions; faults are KernelLab's. A launch
    gives an `InterpretedLaunch`: what Triton's compiled kernel has (`asm`, `metadata`, `n_regs`) is
    compiled when first asked for.
    """

    def __init__(
        self,
        *,
        target: str | Target = DEFAULT_TARGET,
        stage: str = DEFAULT.stage,
        order: str = DEFAULT.order,
        seed: int = DEFAULT.seed,
        bounds: str = DEFAULT.bounds,
        completion: str = DEFAULT.completion,
        answers: str = "driver",
        on_fault: str = "raise",
    ) -> None:
        """Choose what is emulated and how kernels run;
        a launch that says an option itself goes before.

        Args:
            target: the GPU to emulate, "sm_90", "gfx942", ...
            stage, order, seed, bounds, completion: as for `kernellab.run`.
            answers: who answers for the target: Triton's "driver" alone, or all of the "gpu",
                torch included.
            on_fault: what an access out of bounds does: "raise" an OutOfBounds, or "collect" it
                and let the launch go on. Other faults raise in any case.

        Raises:
            TargetError: no such target.
            OptionError: an option's value is wrong.
        """
        check_choice("answers", answers, ANSWERS)
        check_choice("on_fault", on_fault, ON_FAULT)
        self.faults = CollectedFaults()
        self._collects = on_fault == "collect"
        self._answers = answers
        self._target = parse_target(target)
        self._options = RunOptions(stage, order, seed, bounds, completion)
        self._entered = threading.local()

    def __enter__(self) -> Self:
        self.faults = CollectedFaults()
        faults = self.faults if self._collects else None
        with ExitStack() as stack:
            if faults is not None:
                stack.callback(_list, faults)
            if _interrupts.begin():
                stack.callback(_interrupts.end)
            stack.enter_context(autotuned_launches_taken())
            if self._answers == "gpu":
                taken = _LaunchesOnTorchsGpu(self._target, self._options, faults)
                stack.enter_context(triton_api.emulated(taken))
                stack.enter_context(torch_answers_for(self._target, taken))
            else:
                launches = _OtherPeoplesLaunches(self._target, self._options, faults)
                stack.enter_context(triton_api.emulated(launches))
                stack.enter_context(session_is(None))  # torch answers itself
            entered = stack.pop_all()
            self._stacks().append(entered)
            _ENTERED.add(entered)
        return self

    def __exit__(self, *_: object) -> None:
        entered = self._stacks().pop()
        _ENTERED.discard(entered)
        entered.close()

    def _stacks(self) -> list[ExitStack]:
        """The stacks of this thread, several if a decorated function calls itself."""
        stacks: list[ExitStack] = vars(self._entered).setdefault("stacks", [])
        return stacks


_interrupts = InterruptsBetween(
    whole=(
        interpreted.__enter__.__code__,
        interpreted.__exit__.__code__,
        torch.autocast.__enter__.__code__,  # they call functions of other modules
        torch.autocast.__exit__.__code__,
    ),
    modules=(
        "contextlib", "torch.overrides", "torch.utils._python_dispatch",
        "kernellab.common.patches", "kernellab.launch.cuda_tensors",
        "kernellab.launch.torch_cuda", "kernellab.torch_api.emulation",
        "kernellab.triton_api.emulation",
    ),
)  # fmt: skip
"""Ctrl-C never stops what puts in place, switches or takes away what replaces torch's and Triton's
functions.
"""


def _list(faults: CollectedFaults) -> None:
    """Print the faults that launches continued after, if there are any."""
    if faults:
        print(faults, file=sys.stderr)


class Interception:
    """Replaces the GPU: launches go to the interpreter, and the driver describes its target.

    Attributes:
        target: the GPU that is emulated.
    """

    _is_torchs = False
    """Whether torch emulates the same GPU."""

    def __init__(
        self, target: Target, options: RunOptions = DEFAULT, faults: CollectedFaults | None = None
    ) -> None:
        """Describe `target`; `options` are those of launches that give none, and `faults` collects
        accesses out of bounds, after which launches continue.
        """
        self.target = target
        self._options = options
        self._faults = faults
        self._last: Run | tuple[Any, ...] | None = None

    @property
    def driver(self) -> EmulatedDriver | None:
        """The driver that Triton uses; None if there is a GPU with its own."""
        return self._own_driver if local_target() is None else None

    @functools.cached_property
    def _own_driver(self) -> EmulatedDriver:
        properties = {
            "max_shared_mem": shared_limit(self.target),
            "max_num_regs": 65536,
            "multiprocessor_count": multiprocessor_count(self.target),
            "warpSize": triton_api.gpu_target(self.target).warp_size,
            **_clocks(self.target),
        }
        return EmulatedDriver(
            self.target,
            {name: value for name, value in properties.items() if value is not None},
            functools.partial(_loaded, self.target),
            self._launcher,
            is_torchs=self._is_torchs,
        )

    def load(self, compiled: Any) -> None:
        """Load Triton's compiled kernel onto the emulated GPU: its launches are interpreted."""
        with triton_api.driver_is(self._own_driver):
            triton_api.load(compiled)

    @classmethod
    def like_the_current(cls, target: Target) -> Interception:
        """Return a new one for a single launch on a target, with the options of the current
        emulation, if there is one, or with the default options.
        """
        current = triton_api.current_emulation()
        if isinstance(current, Interception):
            return cls(target, current._options, current._faults)
        return cls(target)

    @property
    def last_run(self) -> Run | None:
        """The latest launch that ran; None before the first."""
        if isinstance(self._last, tuple):
            self._last = GpuLaunch(*self._last).as_run()
        return self._last

    @untraced
    def take_launch(
        self,
        run_natively: Callable[..., Any],
        kernel: JITFunction,
        args: Sequence[Any],
        grid: Grid,
        warmup: bool,
        keywords: Mapping[str, Any],
    ) -> Any:
        """Carry out a launch that Triton would have; see `triton_api.Emulation`."""
        __tracebackhide__ = True
        launch = prepare(kernel, grid, args, dict(keywords), self.target, RUN)
        if launch.bound is None:
            if warmup:
                return run_natively(*args, grid=grid, warmup=True, **launch.keywords)
            compiled, self._last = launch_on_gpu(
                run_natively, launch.grid, launch.args, launch.keywords
            )
            return compiled
        call = launch.bound
        if warmup:
            compiled = triton_api.compile_natively(
                kernel, call.specialization, self.target, call.options
            )
            if self.driver is None and self.target.backend == "cuda":
                self.load(compiled)  # or its first launch would load it onto the GPU that is there
            return compiled
        options = self._options if launch.options is DEFAULT else launch.options
        run = self._last = interpret(kernel, launch.grid, call, self.target, options, self._faults)
        return InterpretedLaunch(kernel, call, run, self.load, options)

    def _launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Return the function that launches a compiled kernel, with Triton's calling convention."""
        specialization = Specialization(source.signature, source.constants, source.attrs)
        options = {
            name: _as_tuple(getattr(metadata, name))
            for name in triton_api.option_names(self.target)
        }

        def launch(x: int, y: int, z: int, *rest: Any) -> None:
            # stream, function, packed metadata, launch metadata and two hooks come first
            values = values_of_relaunch(source.fn, specialization, rest[6:])
            call = BoundCall(specialization, values, options, key=metadata.hash)
            self._last = interpret(
                source.fn, (x, y, z), call, self.target, self._options, self._faults
            )

        return launch


def _clocks(target: Target) -> dict[str, int]:
    """The properties from which autotuners estimate times, in kHz and bits; none if unknown."""
    gpu = usual_gpu(target.arch)
    if gpu is None:
        return {}
    return {
        "sm_clock_rate": round(gpu.clock * _KHZ),
        "mem_clock_rate": round(gpu.memory_clock * _KHZ),
        "mem_bus_width": gpu.bus_bits,
    }


_KHZ = 1e6
"""Of one GHz."""


def _as_tuple(value: Any) -> Any:
    """Return lists, which JSON has in place of tuples, as tuples, because options are hashed."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


_LOADED = "nothing: there is no device"
"""The module of a loaded binary; if it were None, Triton would load the binary at each launch."""


def _loaded(
    target: Target, name: str, binary: bytes, shared: int, _device: int
) -> tuple[str, None, int, int, int]:
    """Return what a driver returns for a loaded binary, without a function."""
    if target.backend != "cuda":
        raise UnsupportedOperation(
            f"The compiled kernel {name!r} cannot be loaded, because the registers in AMD's "
            "binaries are not read.",
            advice=(
                "Launch the kernel itself, kernel[grid](...); kernellab.compile has its resources."
            ),
        )
    resources = read_nvidia(binary, name, shared)
    return _LOADED, None, resources.registers, resources.stack_bytes // _WORD, MOST_THREADS


class _OtherPeoplesLaunches(Interception):
    """Launches of code that knows Triton's exceptions, not ours."""

    def take_launch(self, *launch: Any) -> Any:
        """Make a launch. What Triton refuses raises Triton's own exception, with ours as a note."""
        __tracebackhide__ = True
        try:
            return super().take_launch(*launch)
        except (ArgumentError, CompileError, OptionError) as error:
            if error.__cause__ is None:
                raise
            ours, tritons = str(error), error.__cause__
        tritons.add_note(ours)
        raise tritons


class _LaunchesOnTorchsGpu(_OtherPeoplesLaunches):
    """Launches where torch emulates a GPU too, also if there is a real one."""

    _is_torchs = True

    @property
    def driver(self) -> EmulatedDriver:
        return self._own_driver

    def take_launch(self, *launch: Any) -> Any:
        """Make a launch, never on a real GPU."""
        __tracebackhide__ = True
        return super().take_launch(_refuse_real_gpu, *launch[1:])


def _refuse_real_gpu(*_: Any, **__: Any) -> Any:
    raise ArgumentError(
        "The tensors of this launch are on a GPU of this machine, and another GPU is emulated.",
        advice='Make them inside of interpreted(answers="gpu"), or pass x.cpu().cuda() there.',
    )


def values_of_relaunch(
    kernel: JITFunction, specialization: Specialization, args: Sequence[Any]
) -> dict[str, Any]:
    """Return the values by name for a launch of a compiled kernel, its constants included. Raises
    ArgumentError: there are too many values, or too few for the parameters that are not constants.
    """
    names = list(kernel.arg_names)
    if len(args) > len(names):
        raise ArgumentError(
            f"The compiled kernel of {kernel.__name__!r} takes at most "
            f"{counted(len(names), 'argument')}, got {len(args)}.",
            position=triton_api.definition_of(kernel),
        )
    values = dict(zip(names, map(plain_value, args)))
    for number, name in enumerate(names):
        if specialization.signature[name] == "constexpr":
            values[name] = specialization.constants.get((number,), values.get(name))
        elif name not in values:
            raise ArgumentError(
                f"The compiled kernel of {kernel.__name__!r} was launched without {name!r}.",
                advice=(
                    "Pass its arguments by position; only constants after the last other argument "
                    "may be left out."
                ),
                position=triton_api.parameter_position(kernel, name),
            )
    return values


_WORD = 4
"""Drivers count what Triton calls spills, the local memory of a thread, in words of 4 bytes."""

MOST_THREADS = 1024
"""Threads of one block, on every GPU since Fermi (CUDA C++ Programming Guide,
technical specifications)."""


class InterpretedLaunch:
    """The result of `kernel[grid](...)` inside `interpreted()`:
    the run, and all that Triton's compiled kernel has.

    The kernel is compiled for the emulated GPU when `asm`, `metadata`,
    `n_regs` or another attribute is first asked for.

    Attributes:
        interpreted_run: the finished Run.
    """

    def __init__(
        self,
        kernel: JITFunction,
        call: BoundCall,
        run: Run,
        load: Callable[[Any], None],
        options: RunOptions = DEFAULT,
    ) -> None:
        self.interpreted_run = run
        self._kernel = kernel
        self._load = load
        # Without the values, which would keep the memory of the tensors.
        self._call = replace(call, values={})
        self._options = options

    @functools.cached_property
    def _compiled(self) -> Any:
        return triton_api.compile_natively(
            self._kernel, self._call.specialization, self.interpreted_run.target, self._call.options
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self._compiled, name):
            self._load(self._compiled)
        return getattr(self._compiled, name)

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        """Launch what was compiled, on other values: `launched[grid](x, y, n)`, by position;
        constants after the last other parameter may be left out.
        """

        def launch(*args: Any, stream: Any = None) -> None:
            __tracebackhide__ = True
            del stream  # a launch is over when it returns
            values = values_of_relaunch(self._kernel, self._call.specialization, args)
            call = replace(self._call, values=values)
            interpret(self._kernel, grid, call, self.interpreted_run.target, self._options)

        return launch

    def __repr__(self) -> str:
        return f"InterpretedLaunch({self.interpreted_run!r})"
