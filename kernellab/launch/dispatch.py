"""One launch of any Triton kernel: where its arguments are, and the way
to the interpreter or to the GPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.specialization.binding import BoundCall, bind, described
from kernellab.compiler.targets import local_target
from kernellab.errors import ArgumentError, OptionError, UnsupportedOperation
from kernellab.interpreter.stepping.attached_debugger import attached_debugger
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.records.run_options import DEFAULT, RunOptions
from kernellab.triton_api import JITFunction

Grid = Any
"""One to three sizes, or a function from the kernel's parameters (by name) to them."""


def innermost(kernel: Any) -> JITFunction:
    """The kernel inside autotuners and heuristics.

    Raises:
        ArgumentError: there is none.
    """
    inside = kernel
    while not isinstance(inside, JITFunction):
        if not (hasattr(inside, "fn") and hasattr(inside, "run")):
            raise ArgumentError(
                f"{kernel!r} is no Triton kernel",
                advice="Give a function decorated with @triton.jit, or a TileKernel.",
            )
        inside = inside.fn
    return inside


Options = TypeVar("Options")


def apart_from_parameters(
    options: Options, parameters: Collection[str]
) -> tuple[Options, dict[str, Any]]:
    """What a function that launches kernels is told by name:
    a name that is a parameter of the kernel is the parameter.

    Args:
        options: a data class of its options, each with a default.

    Returns:
        The options without those, and what is for the kernel.
    """
    chosen: Any = options
    defaults = type(options)()
    both = [one.name for one in fields(chosen) if one.name in parameters]
    given = {name: getattr(options, name) for name in both}
    for_kernel = {name: one for name, one in given.items() if one is not getattr(defaults, name)}
    return replace(chosen, **{name: getattr(defaults, name) for name in both}), for_kernel


# On the CPU


def bind_launch(
    kernel: JITFunction,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    options: Mapping[str, Any],
    target: Target,
) -> BoundCall:
    """Run the kernel's own hooks, as Triton does before a launch, and bind its arguments.

    Raises:
        ArgumentError, OptionError: as `bind`.
    """
    for hook in kernel.pre_run_hooks:
        hook(*args, **keywords)
    return bind(kernel, args, keywords, target, options=options)


def interpret(
    kernel: JITFunction, grid: Grid, call: BoundCall, target: Target, options: RunOptions
) -> Run:
    """Run a bound call on the interpreter, in place.

    Raises:
        GridError, CompileError, UnsupportedOperation, KernelFault: as `interpreter.launch`.
    """
    __tracebackhide__ = True
    if kernel.is_gluon() and options.stage == DEFAULT.stage:
        options = replace(options, stage="ttgir")  # where Gluon begins
    if call.options.get("ir_override"):
        raise UnsupportedOperation(
            f"this launch of {kernel.__name__!r} puts {call.options['ir_override']!r} in the "
            "place of its code",
            advice="The interpreter runs the kernel itself: leave ir_override out.",
            position=triton_api.definition_of(kernel),
        )
    from kernellab import interpreter  # here, because a launch on a GPU needs none of it

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
                name: described(value)
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
    run_natively: Callable[..., Any],
    kernel: JITFunction,
    args: Sequence[Any],
    grid: Grid,
    keywords: Mapping[str, Any],
) -> tuple[Any, GpuLaunch | None]:
    """Let Triton launch the kernel, with `run_natively(*args, grid=, warmup=, **keywords)`.

    Returns:
        What Triton gives, its compiled kernel; and a note of the launch,
        None where a hook of Triton's prevented it.
    """
    seen = grid = (grid,) if isinstance(grid, int) else grid
    if callable(grid):

        def seen_grid(parameters: Mapping[str, Any]) -> Any:
            nonlocal seen
            seen = grid(parameters)
            return seen

        compiled = run_natively(*args, grid=seen_grid, warmup=False, **keywords)
    else:
        compiled = run_natively(*args, grid=grid, warmup=False, **keywords)
    if compiled is None:
        return None, None
    values = {**dict(zip(kernel.arg_names, args, strict=False)), **keywords}
    facts = {name: facts_of(value) for name, value in values.items()}
    return compiled, GpuLaunch(kernel.__name__, tuple(seen), compiled, facts)


def refuse_run_options(kernel: JITFunction, options: RunOptions) -> None:
    """Raise OptionError if a launch on the GPU says options that only the interpreter takes."""
    if options is DEFAULT:
        return
    names = ", ".join(options.changed()) or "stage, order, seed and bounds"
    raise OptionError(
        f"this launch of {kernel.__name__!r} goes to the GPU, and only the interpreter "
        f"takes {names}",
        advice="Leave it out, or move the tensors to the CPU.",
        position=triton_api.definition_of(kernel),
    )


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


# Where the arguments are


def goes_to_gpu(kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether Triton's driver should have this launch; without any tensor, the GPU if there is one.

    Raises:
        ArgumentError: tensors on the CPU and on a GPU, or without memory.
    """
    devices = set(_devices((*args, *keywords.values())))
    if devices == {"cpu"}:
        return False
    if not devices:
        return local_target() is not None
    if "cpu" in devices or "meta" in devices:
        raise _wrong_devices(kernel, args, keywords)
    return True


def refuse_gpu(
    kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any], doer: str
) -> None:
    """Raise ArgumentError where the tensors of a launch are on a GPU, which `doer` does not use."""
    tensors = any(isinstance(value, torch.Tensor) for value in (*args, *keywords.values()))
    if tensors and goes_to_gpu(kernel, args, keywords):
        raise ArgumentError(
            f"the tensors of this launch of {kernel.__name__!r} are on a GPU, and {doer} runs "
            "kernels on the CPU.",
            advice="Pass copies: x.cpu(). Smaller ones show the same faults sooner.",
            position=triton_api.definition_of(kernel),
        )


def _wrong_devices(
    kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
) -> ArgumentError:
    places = [
        f"{name} on {', '.join(devices)}"
        for name, value in {**dict(zip(kernel.arg_names, args, strict=False)), **keywords}.items()
        if (devices := list(_devices([value])))
    ]
    return ArgumentError(
        f"no device holds all tensors of this launch of {kernel.__name__!r}: {'; '.join(places)}",
        advice=(
            "Move all of them to the GPU (the kernel runs there) or to the CPU (the "
            "interpreter runs it)."
        ),
        position=triton_api.definition_of(kernel),
    )


_NUMBERS = frozenset({bool, int, float})


def _devices(values: Iterable[Any]) -> Iterator[str]:
    """The device types of all tensors among launch arguments: "cpu", "cuda", "xpu", ..."""
    for value in values:
        if type(value) in _NUMBERS:
            continue
        if isinstance(value, torch.Tensor):
            yield "cpu" if value.is_cpu else value.device.type
        elif isinstance(value, numpy.ndarray):
            yield "cpu"
        elif isinstance(value, tuple):
            yield from _devices(value)
        elif hasattr(value, "base") and not isinstance(
            value, type
        ):  # descriptors, reinterpreted tensors
            yield from _devices([value.base])
