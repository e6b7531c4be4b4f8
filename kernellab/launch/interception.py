"""`interpreted()`: other people's kernels on the CPU, launched by other people's code."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from kernellab import triton_api
from kernellab.common.argument_checks import check_choice
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.formatting import counted
from kernellab.compiler.machine_code.resources import read_nvidia
from kernellab.compiler.specialization.argument_values import plain_value
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.compiler.targets import (
    DEFAULT_TARGET,
    local_target,
    multiprocessor_count,
    parse_target,
    shared_limit,
)
from kernellab.errors import ArgumentError, CompileError, OptionError, UnsupportedOperation
from kernellab.launch.autotuned_kernels import autotuned_launches_taken
from kernellab.launch.dispatch import interpret
from kernellab.launch.fitting import check_fits
from kernellab.launch.gpu_launches import GpuLaunch, launch_on_gpu
from kernellab.launch.preparation import RUN, Grid, prepare
from kernellab.launch.torch_cuda.entering import torch_answers_for, torch_answers_itself
from kernellab.records import Run, Specialization, Target
from kernellab.records.run_options import DEFAULT, RunOptions
from kernellab.triton_api import EmulatedDriver, JITFunction

ANSWERS = ("driver", "gpu")

_ENTERED: set[ExitStack] = set()
"""All that were entered and not left: one that nobody holds lasts until the process ends."""


class interpreted(ContextDecorator):  # noqa: N801 - a context manager and decorator, spelt like those of contextlib
    """Run Triton kernels on the interpreter wherever ordinary code launches them with CPU tensors.

        with kernellab.interpreted():
            z = library.add(x, y)

    Or as a decorator of a function. Any kernel counts: one imported before, autotuned or with
    heuristics, and whoever calls `kernel[grid](...)`. Where Triton has no GPU, its driver answers
    for `target` (`triton.runtime.driver.active`: current target, device properties, a benchmarker).
    Launches with CUDA tensors stay Triton's own. It holds for the thread or asyncio task that
    entered it; contexts nest, and the innermost one counts. Afterwards Triton is what it was.

    With `answers="gpu"` torch says and does as if that GPU were there, which libraries that insist
    on one need: `torch.cuda` answers for it, in threads started inside too, and tensors that are
    made on or moved to "cuda" count as being there, in the CPU's memory. Import such a library
    inside, where it asks while it is imported.

    What Triton refuses is refused with Triton's own exceptions; faults are KernelLab's. A launch
    gives an `InterpretedLaunch`: what Triton's compiled kernel has (`asm`, `metadata`, `n_regs`) is
    compiled when first asked for.
    """

    @names_bad_arguments
    def __init__(
        self,
        *,
        target: str | Target = DEFAULT_TARGET,
        stage: str = DEFAULT.stage,
        order: str = DEFAULT.order,
        seed: int = DEFAULT.seed,
        bounds: str = DEFAULT.bounds,
        answers: str = "driver",
    ) -> None:
        """Choose what is emulated and how kernels run;
        a launch that says an option itself goes before.

        Args:
            target: the GPU to emulate, "sm_90", "gfx942", ...
            stage, order, seed, bounds: as for `kernellab.run`.
            answers: who answers for the target: Triton's "driver" alone, or all of the "gpu",
                torch included.

        Raises:
            TargetError: no such target.
            OptionError: an option's value is wrong.
        """
        check_choice("answers", answers, ANSWERS)
        self._answers = answers
        self._target = parse_target(target)
        self._options = RunOptions(stage=stage, order=order, seed=seed, bounds=bounds)
        self._entered = threading.local()

    def __enter__(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(autotuned_launches_taken())
            if self._answers == "gpu":
                taken = _LaunchesOnTorchsGpu(self._target, self._options)
                stack.enter_context(triton_api.emulated(taken))
                stack.enter_context(torch_answers_for(self._target, taken))
            else:
                launches = _OtherPeoplesLaunches(self._target, self._options)
                stack.enter_context(triton_api.emulated(launches))
                stack.enter_context(torch_answers_itself())
            entered = stack.pop_all()
            self._stacks().append(entered)
            _ENTERED.add(entered)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered = self._stacks().pop()
        _ENTERED.discard(entered)
        entered.close()

    def _stacks(self) -> list[ExitStack]:
        """One for each time that this thread is inside: a decorated function may call itself."""
        stacks: list[ExitStack] = vars(self._entered).setdefault("stacks", [])
        return stacks


class Interception:
    """What stands in the GPU's place: launches go to the interpreter,
    and questions are answered for its target.

    Attributes:
        target: the GPU that is emulated.
    """

    _is_torchs = False
    """Whether torch answers for the same GPU."""

    def __init__(self, target: Target, options: RunOptions = DEFAULT) -> None:
        self.target = target
        self._options = options
        self._last: Run | tuple[Any, ...] | None = None

    @functools.cached_property
    def driver(self) -> EmulatedDriver | None:
        """What Triton takes for its driver; None where it has a GPU's."""
        return self._emulated_driver() if local_target() is None else None

    @classmethod
    def like_the_current(cls, target: Target = DEFAULT_TARGET) -> Interception:
        """One of its own for a single launch: of the target and options that are emulated already,
        else of `target` and the default options.
        """
        current = triton_api.current_emulation()
        if isinstance(current, Interception):
            return cls(current.target, current._options)
        return cls(target)

    @property
    def last_run(self) -> Run | None:
        """The latest launch that was carried out; None before the first."""
        if isinstance(self._last, tuple):
            self._last = GpuLaunch(*self._last).as_run()
        return self._last

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
            return triton_api.compile_natively(
                kernel, call.specialization, self.target, call.options
            )
        options = self._options if launch.options is DEFAULT else launch.options
        self._check(kernel, call)
        run = self._last = interpret(kernel, launch.grid, call, self.target, options)
        return InterpretedLaunch(kernel, call, run, options)

    def _check(self, kernel: JITFunction, call: BoundCall) -> None:
        """What else is asked of a launch before it is carried out."""

    def _emulated_driver(self) -> EmulatedDriver:
        properties = {
            "max_shared_mem": shared_limit(self.target),
            "max_num_regs": 65536,
            "multiprocessor_count": multiprocessor_count(self.target),
            "warpSize": triton_api.gpu_target(self.target).warp_size,
        }
        return EmulatedDriver(
            self.target,
            {name: value for name, value in properties.items() if value is not None},
            functools.partial(_loaded, self.target),
            self._launcher,
            is_torchs=self._is_torchs,
        )

    def _launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What launches a compiled kernel, as Triton calls it."""
        specialization = Specialization(source.signature, source.constants, source.attrs)
        options = {
            name: _as_tuple(getattr(metadata, name))
            for name in triton_api.option_names(self.target)
        }

        def launch(x: int, y: int, z: int, *rest: Any) -> None:
            # stream, function, packed metadata, launch metadata and two hooks come first
            values = _values_of_relaunch(source.fn, specialization, rest[6:])
            call = BoundCall(specialization, values, options, key=metadata.hash)
            self._last = interpret(source.fn, (x, y, z), call, self.target, self._options)

        return launch


def _as_tuple(value: Any) -> Any:
    """What a tuple was before it was kept as JSON; code is kept by options that can be hashed."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


_LOADED = "nothing: there is no device"
"""What stands for the module of a loaded binary; of None Triton would load it at each launch."""


def _loaded(
    target: Target, name: str, binary: bytes, shared: int, _device: int
) -> tuple[str, None, int, int, int]:
    """A binary as a driver loads it: no function, and what it takes of the GPU."""
    if target.backend != "cuda":
        raise UnsupportedOperation(
            f"the registers of {name!r} are not read out of AMD's binary, so the compiled kernel "
            "cannot be loaded",
            advice=(
                "Launch the kernel itself, kernel[grid](...); kernellab.compile has its resources."
            ),
        )
    resources = read_nvidia(binary, name, shared)
    return _LOADED, None, resources.registers, resources.stack_bytes // _WORD, MOST_THREADS


class _OtherPeoplesLaunches(Interception):
    """Launches of code that knows Triton's exceptions, not ours."""

    def take_launch(self, *launch: Any) -> Any:
        """Carry out a launch; what Triton refuses is refused with Triton's own exception,
        to which ours is a note.
        """
        __tracebackhide__ = True
        try:
            return super().take_launch(*launch)
        except (ArgumentError, CompileError, OptionError) as error:
            if error.__cause__ is None:
                raise
            ours, tritons = str(error), error.__cause__
        tritons.add_note(ours)
        raise tritons

    def _check(self, kernel: JITFunction, call: BoundCall) -> None:
        check_fits(kernel, call, self.target)


class _LaunchesOnTorchsGpu(_OtherPeoplesLaunches):
    """Those where torch has a GPU too: the emulated one, whatever else is there."""

    _is_torchs = True

    @functools.cached_property
    def driver(self) -> EmulatedDriver:
        return self._emulated_driver()

    def take_launch(self, *launch: Any) -> Any:
        """Carry out a launch; none goes to a GPU that is really there."""
        __tracebackhide__ = True
        return super().take_launch(_refuse_real_gpu, *launch[1:])


def _refuse_real_gpu(*_: Any, **__: Any) -> Any:
    raise ArgumentError(
        "the tensors of this launch are on a GPU of this machine, and another one is emulated",
        advice='Make them inside of interpreted(answers="gpu"), or pass x.cpu().cuda() there.',
    )


def _values_of_relaunch(
    kernel: JITFunction, specialization: Specialization, args: Sequence[Any]
) -> dict[str, Any]:
    """The values by name of a launch of what is compiled already; constants are what they were.

    Raises:
        ArgumentError: too many values, or too few for the parameters that are no constants.
    """
    names = list(kernel.arg_names)
    if len(args) > len(names):
        raise ArgumentError(
            f"{kernel.__name__!r} takes {counted(len(names), 'argument')}, and {len(args)} were "
            "given to the compiled kernel",
            position=triton_api.definition_of(kernel),
        )
    values = dict(zip(names, map(plain_value, args)))
    for number, name in enumerate(names):
        if specialization.signature[name] == "constexpr":
            values[name] = specialization.constants.get((number,), values.get(name))
        elif name not in values:
            raise ArgumentError(
                f"the compiled kernel of {kernel.__name__!r} was launched without {name!r}",
                advice=(
                    "It takes its arguments by position; only constants behind the last of the "
                    "others may be left out."
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
    """What `kernel[grid](...)` gives inside `interpreted()`:
    the run, and all that Triton's compiled kernel has.

    The kernel is compiled for the emulated GPU when `asm`, `metadata`,
    `n_regs` or another attribute is first asked for.

    Attributes:
        interpreted_run: the finished Run.
    """

    def __init__(
        self, kernel: JITFunction, call: BoundCall, run: Run, options: RunOptions = DEFAULT
    ) -> None:
        self.interpreted_run = run
        self._kernel = kernel
        # Without the values, which would keep the memory of the tensors.
        self._call = replace(call, values={})
        self._options = options

    @functools.cached_property
    def _compiled(self) -> Any:
        return triton_api.compile_natively(
            self._kernel,
            self._call.specialization,
            self.interpreted_run.target,
            self._call.options,
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self._compiled, name):
            triton_api.load(self._compiled)
        return getattr(self._compiled, name)

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        """Launch what was compiled, on other values: `launched[grid](x, y, n)`, by position;
        constants behind the last other parameter may be left out.
        """

        def launch(*args: Any, stream: Any = None) -> None:
            __tracebackhide__ = True
            del stream  # a launch is over when it returns
            values = _values_of_relaunch(self._kernel, self._call.specialization, args)
            call = replace(self._call, values=values)
            interpret(self._kernel, grid, call, self.interpreted_run.target, self._options)

        return launch

    def __repr__(self) -> str:
        return f"InterpretedLaunch({self.interpreted_run!r})"
