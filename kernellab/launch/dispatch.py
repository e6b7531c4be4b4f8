"""The two ways of a prepared launch: the interpreter, and Triton's own launch on the GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab import interpreter, triton_api
from kernellab.compiler.specialization.argument_formatting import format_argument
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.execution.grid import check_has_length
from kernellab.interpreter.stepping.attached_debugger import attached_debugger
from kernellab.launch.fitting import end_trial
from kernellab.launch.preparation import Grid, PreparedLaunch
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.records.run_options import DEFAULT, RunOptions
from kernellab.triton_api import JITFunction

# On the CPU


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


# On the GPU


@dataclass(frozen=True)
class GpuLaunch:
    """A launch on the GPU, noted in a few microseconds and turned into records
    when somebody asks.
    """

    kernel: str
    grid: tuple[int, ...]
    compiled: Any
    arguments: Mapping[str, Any]

    def as_run(self) -> Run:
        """The launch as a Run."""
        source, target = self.compiled.src, self.compiled.metadata.target
        specialization = Specialization(
            signature=dict(source.signature),
            constants=dict(source.constants),
            attributes=dict(source.attrs),
            origins=dict.fromkeys(source.signature, "launch"),
        )
        x, y, z = (*self.grid, 1, 1)[:3]
        launch = Launch(
            kernel=self.kernel,
            grid=(x, y, z),
            specialization=specialization,
            arguments={
                name: format_argument(value)
                for name, value in self.arguments.items()
                if name in source.signature
            },
            options={
                name: value
                for name, value in self.arguments.items()
                if name not in source.signature
            },
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


def launch_on_gpu(
    run_natively: Callable[..., Any], launch: PreparedLaunch
) -> tuple[Any, GpuLaunch | None]:
    """Let Triton launch the kernel, with `run_natively(*args, grid=, warmup=, **keywords)`.

    Returns:
        What Triton gives, its compiled kernel; and a note of the launch,
        None where a hook of Triton's prevented it.

    Raises:
        GridError: a grid of one number, of which Triton would ask the length.
    """
    kernel, grid, args, keywords = launch[:4]
    seen = grid
    if callable(grid):

        def seen_grid(parameters: Mapping[str, Any]) -> Any:
            nonlocal seen
            seen = grid(parameters)
            check_has_length(seen, is_asked=True)
            return seen

        compiled = run_natively(*args, grid=seen_grid, warmup=False, **keywords)
    else:
        check_has_length(grid, is_asked=False)
        compiled = run_natively(*args, grid=grid, warmup=False, **keywords)
    if compiled is None:
        return None, None
    values = {**dict(zip(kernel.arg_names, args, strict=False)), **keywords}
    facts = {name: facts_of(value) for name, value in values.items()}
    return compiled, GpuLaunch(kernel.__name__, tuple(seen), compiled, facts)


def facts_of(value: Any) -> Any:
    """What a launch's description needs of a value;
    never the tensor itself, which would keep its memory.
    """
    if isinstance(value, torch.Tensor):
        return torch.empty_like(value, device="meta")
    if isinstance(value, tuple):
        items = [facts_of(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(getattr(value, "base", None), torch.Tensor):  # a tensor descriptor
        twin = copy.copy(value)
        twin.base = facts_of(value.base)
        return twin
    return value
