"""What comes before any launch: the kernel inside, whose keywords are whose, where the tensors are,
hooks, and binding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy
import torch

from kernellab import triton_api
from kernellab.common.formatting import shown
from kernellab.compiler.specialization.binding import BoundCall, bind
from kernellab.compiler.specialization.inductor_kernels import InductorKernel, as_triton_kernel
from kernellab.compiler.specialization.unwrapping import unwrap_kernel
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_target
from kernellab.errors import ArgumentError, GridError, OptionError
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.memory.pointer_arguments import (
    UnknownExtent,
    described,
    is_pointer,
    memory_behind,
)
from kernellab.records import Target
from kernellab.records.run_options import DEFAULT, RunOptions, split_keywords
from kernellab.triton_api import JITFunction

Grid = Any
"""One to three sizes, or a function from the kernel's parameters (by name) to them."""


@dataclass(frozen=True)
class EntryPoint:
    """What a public function that launches kernels says of itself.

    Attributes:
        name: "check"; stands in errors.
        refuses: run option -> why the function does not take it.
        on_gpu: what becomes of a launch whose tensors are on a GPU. It is "refused", where
            everything runs on the CPU; "launched", by Triton, which also runs the hooks and binds;
            or "bound", as any other, by a function that launches in its own way.
        runs_hooks: whether the kernel's own hooks run before.
        keeps_assertions: whether `tl.device_assert` is carried out also where the launch does not
            say `debug=True`, without which Triton leaves it out.
    """

    name: str
    refuses: Mapping[str, str] = field(default_factory=dict)
    on_gpu: Literal["refused", "launched", "bound"] = "refused"
    runs_hooks: bool = True
    keeps_assertions: bool = False


RUN = EntryPoint("run", on_gpu="launched")
"""The launch line itself, whoever wrote it."""


class PreparedLaunch(NamedTuple):
    """A launch of which everything is known but what the kernel does.

    A tuple, because every launch makes one, and a frozen data class takes five times as long.
    """

    kernel: JITFunction
    """The kernel inside autotuners and heuristics."""
    grid: Grid
    """As it was given, or the kernel's own."""
    args: Sequence[Any]
    """By position, as they were given."""
    keywords: Mapping[str, Any]
    """The kernel's and the backend's, with what autotuners and heuristics have added."""
    target: Target
    """The GPU that the interpreter emulates."""
    options: RunOptions
    """What the launch says of how the interpreter shall run it; `DEFAULT` itself for nothing."""
    bound: BoundCall | None
    """None where the tensors are on a GPU, and Triton launches."""
    added: Mapping[str, Any] = {}
    """Options of the backend that the entry point gave on its own."""

    @property
    def call(self) -> BoundCall:
        """The bound call of a launch that is not Triton's."""
        assert self.bound is not None, "Triton binds what it launches"
        return self.bound

    @property
    def own_call(self) -> BoundCall:
        """The bound call without what the entry point added."""
        options = {name: one for name, one in self.call.options.items() if name not in self.added}
        return replace(self.call, options=options) if self.added else self.call

    def sizes(self) -> tuple[int, int, int]:
        """The grid, computed from the arguments where it is a function.

        Raises:
            GridError: a grid that no GPU would accept.
        """
        return check_grid(self.grid, self.call.values)


def prepare(
    kernel: Any,
    grid: Grid,
    args: Sequence[Any],
    keywords: dict[str, Any],
    target: str | Target | None,
    entry_point: EntryPoint,
) -> PreparedLaunch:
    """Do what comes before a launch, in this order: take autotuners (of which the first config
    counts) and heuristics off the kernel, tell run options from parameters and backend options,
    look where the tensors are, run the kernel's own hooks as Triton does, and bind the arguments.

    Args:
        kernel: of any kind.
        grid, args, keywords: the launch's; without a grid, one of Inductor's kernels has
            its own; what the entry point itself is told is out of the keywords already
            (`apart_from_parameters`).
        target: the GPU to emulate; None means the one that a launch would emulate.
        entry_point: who launches.

    Raises:
        ArgumentError: no kernel; arguments that do not fit; tensors on the CPU and on a GPU,
            without memory, or on a GPU where the entry point does not take them.
        OptionError: an option that nobody takes, or not the entry point; or a wrong value of one.
        TargetError: no such target.
    """
    if not isinstance(kernel, JITFunction):
        kernel = as_triton_kernel(kernel)
    chosen = emulated_for(kernel) if target is None else parse_target(target)
    if not isinstance(kernel, JITFunction) or isinstance(kernel, InductorKernel):
        kernel, keywords = unwrap_kernel(kernel, args, keywords, {})
    _check_is_no_argument(grid, entry_point.name, kernel)
    keywords, outright, options = split_keywords(keywords, kernel.arg_names)
    if grid is None and isinstance(kernel, InductorKernel):
        grid = kernel.own_grid
    if options is not DEFAULT and entry_point.refuses:
        _refuse_options(entry_point, kernel, options)
    if goes_to_gpu(kernel, args, keywords):
        if entry_point.on_gpu == "launched":
            _refuse_run_options(kernel, options)
            triton_api.made_of(kernel)  # Triton keeps what a helper was that is another by now
            tritons = {**keywords, **outright}
            return PreparedLaunch(kernel, grid, args, tritons, chosen, options, None)
        if entry_point.on_gpu == "refused":
            _refuse_tensors(entry_point, kernel, args, keywords)
    if entry_point.runs_hooks:
        for hook in kernel.pre_run_hooks:
            hook(*args, **keywords)
    added = _assertions(kernel, {**keywords, **outright}) if entry_point.keeps_assertions else {}
    call = bind(kernel, args, keywords, chosen, options={**outright, **added})
    return PreparedLaunch(kernel, grid, args, keywords, chosen, options, call, added)


def _check_is_no_argument(grid: Any, entry_point: str, kernel: Any) -> None:
    """Refuse a launch that leaves the grid out, whose first argument stands there."""
    if isinstance(grid, torch.Tensor) and (grid.numel() > 3 or grid.is_floating_point()):
        name = getattr(kernel, "__name__", "kernel")
        raise GridError(
            f"a tensor stands where the grid goes, {_format_shape(grid)}",
            advice=(
                "The grid, how many programs there are, comes after the kernel: "
                f"{entry_point}({name}, (triton.cdiv(n, BLOCK),), ...)."
            ),
        )


def _assertions(kernel: JITFunction, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """What has Triton keep a kernel's assertions, where it has some and the launch does not say
    itself; the checks of integer overflow that `debug=True` means too are left out.
    """
    if kernel.debug or ("debug" in keywords and "debug" not in kernel.arg_names):
        return {}
    with suppress(RecursionError):  # of a source that nests too deeply, which binding tells
        if triton_api.made_of(kernel).has_assertions:
            return {"debug": True, "sanitize_overflow": False}
    return {}


# The kernel


def innermost(kernel: Any) -> JITFunction:
    """The kernel inside autotuners and heuristics.

    Raises:
        ArgumentError: there is none.
    """
    for inside in _layers(kernel):
        if isinstance(inside, JITFunction):
            return inside
        with suppress(Exception):  # somebody else's object may answer with anything
            if hasattr(inside, "run"):
                continue
        break
    raise ArgumentError(
        f"{shown(kernel)} is no Triton kernel",
        advice="Give a function decorated with @triton.jit, or a TileKernel.",
    )


def _layers(kernel: Any) -> Iterator[Any]:
    """A kernel, and what it is around, inwards; of an object that has any attribute there is, such
    as a mock, not for ever.
    """
    inside = as_triton_kernel(kernel)
    for _ in range(_MOST_LAYERS):
        yield inside
        if not hasattr(inside, "fn"):
            return
        inside = inside.fn


_MOST_LAYERS = 100
"""More decorators than anybody puts around a kernel."""


def emulated_for(kernel: Any) -> Target:
    """The target that a launch of a kernel (of any kind) on the CPU would emulate."""
    own = next((one.target for one in _layers(kernel) if hasattr(one, "target")), None)
    if isinstance(own, Target):
        return own
    emulation = triton_api.current_emulation()
    return DEFAULT_TARGET if emulation is None or emulation.target is None else emulation.target


# Whose keywords are whose


Own = TypeVar("Own")


def apart_from_parameters(
    own: Own, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Own, dict[str, Any]]:
    """Tell what a function that launches kernels is told itself from the kernel's keywords: a name
    that is also a parameter of the kernel is the parameter, unless that is given by position.

    Args:
        own: a data class of what the function was told by name, each with its default.
        kernel: of any kind.
        args, keywords: what it was given for the kernel.

    Returns:
        What the function is told, and the kernel's keywords.
    """
    all_names = getattr(as_triton_kernel(kernel), "arg_names", ())
    by_name = all_names[len(args) :] if isinstance(all_names, list | tuple) else ()
    told: Any = own
    names = [one.name for one in fields(told) if one.name in by_name]
    if not names:
        return own, {**keywords}
    default = type(own)()
    given = {name: getattr(own, name) for name in names}
    theirs = {name: one for name, one in given.items() if one is not getattr(default, name)}
    back = {name: getattr(default, name) for name in names}
    return replace(told, **back), {**keywords, **theirs}


def _refuse_options(entry_point: EntryPoint, kernel: JITFunction, options: RunOptions) -> None:
    """Raise OptionError if a launch says a run option that the entry point does not take."""
    for name, value in options.changed().items():
        if name in entry_point.refuses:
            raise OptionError(
                f"{name}={shown(value)}: {entry_point.refuses[name]}",
                advice="Leave it out.",
                position=triton_api.definition_of(kernel),
            )


def _refuse_run_options(kernel: JITFunction, options: RunOptions) -> None:
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


# Where the arguments are


def goes_to_gpu(kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether Triton's driver should have this launch; without any tensor, the GPU if there is one.

    Raises:
        ArgumentError: tensors on the CPU and on a GPU, or without memory.
    """
    devices = set(_devices((*args, *keywords.values())))
    if devices == {"cpu"}:
        return False
    if _NO_BLOCK in devices:
        raise _no_block_of_memory(kernel, args, keywords)
    if not devices:
        return local_target() is not None
    if "cpu" in devices or "meta" in devices:
        raise _wrong_devices(kernel, args, keywords)
    return True


def _format_shape(tensor: torch.Tensor) -> str:
    return "a nested one" if tensor.is_nested else f"of shape {tuple(tensor.shape)}"


def _refuse_tensors(
    entry_point: EntryPoint, kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    """Raise ArgumentError where there are tensors at all: they are on a GPU."""
    if any(_devices((*args, *keywords.values()))):
        raise ArgumentError(
            f"the tensors of this launch of {kernel.__name__!r} are on a GPU, and "
            f"{entry_point.name} runs kernels on the CPU.",
            advice="Pass copies: x.cpu(). Smaller ones show the same faults sooner.",
            position=triton_api.definition_of(kernel),
        )


def _wrong_devices(
    kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
) -> ArgumentError:
    places = [
        f"{name} on {', '.join(devices)}"
        for name, value in _by_name(kernel, args, keywords).items()
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


def _by_name(
    kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    return {**dict(zip(kernel.arg_names, args, strict=False)), **keywords}


def _no_block_of_memory(
    kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
) -> ArgumentError:
    """For the first argument that is a tensor without strided memory of its own."""
    name, value = next(
        (name, value)
        for name, value in _by_name(kernel, args, keywords).items()
        if _NO_BLOCK in set(_devices([value]))
    )
    what, advice = _kind_of_tensor(value)
    return ArgumentError(
        f"argument {name!r} of {kernel.__name__!r} is {what}; a kernel takes tensors whose "
        "elements lie in one block of memory",
        advice=advice,
        position=triton_api.parameter_position(kernel, name)
        if name in kernel.arg_names
        else triton_api.definition_of(kernel),
    )


def _kind_of_tensor(value: Any) -> tuple[str, str]:
    """What a tensor without a block of memory is, and what to give instead."""
    if is_pointer(value):
        why, advice = _why_unreachable(value)
        return f"a {type(value).__qualname__} {why}", advice
    tensor = value if isinstance(value, torch.Tensor) else described(value)
    if tensor is not value and is_pointer(tensor):
        return _kind_of_tensor(tensor)
    if not isinstance(tensor, torch.Tensor):
        return "a tuple with a tensor that has none", "Pass plain tensors in it."
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not _is_jagged(tensor):
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        return (
            f"a {kind}, a kind of tensor that has no memory of its own",
            "Pass the plain tensor that holds its values.",
        )
    layout = str(tensor.layout).removeprefix("torch.")
    if tensor.is_nested:
        return (
            f"a nested tensor (layout {layout})",
            "Pass its values and its offsets as tensors of their own: x.values(), x.offsets(); "
            "or x.to_padded_tensor(0.0).",
        )
    if tensor.layout is not torch.strided:
        return (
            f"a tensor in the layout {layout}",
            "Pass x.to_dense(), or the tensors that it is made of: x.indices(), x.values().",
        )
    if tensor.is_neg():
        return (
            "a tensor that torch negates when it is read (is_neg()): its memory has the other sign",
            "Pass x.resolve_neg().",
        )
    if _has_address(tensor):
        return (
            "a tensor whose storage was shortened: it does not hold all of its elements",
            "Make the tensor anew, or resize the storage back.",
        )
    return (
        "a tensor without memory, of a transform of torch's or with its storage freed",
        "Launch the kernel outside of vmap and grad, on tensors that hold values.",
    )


def _why_unreachable(value: Any) -> tuple[str, str]:
    """How it goes on from what a pointer is, and what to give instead."""
    try:
        memory_behind(value)
    except UnknownExtent as error:
        return str(error), error.advice
    return "whose memory is not this process's", "Keep the tensor that owns the memory, on the CPU."


def _has_address(tensor: torch.Tensor) -> bool:
    try:
        return tensor.data_ptr() != 0
    except Exception:  # within vmap
        return False


def _is_jagged(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor.is_nested)
    except Exception:
        return False


_NO_BLOCK = "no block of memory"
"""Stands for the device of a tensor that no pointer leads into."""


def _is_cut_off(tensor: torch.Tensor) -> bool:
    """Whether its storage was shortened under it."""
    steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
    needed = (tensor.storage_offset() + steps + 1) * tensor.itemsize
    return bool(tensor.numel() and needed > tensor.untyped_storage().nbytes())


def _place(tensor: torch.Tensor) -> str:
    """The type of a tensor's device: "cpu", "cuda"."""
    try:
        if tensor.is_nested or tensor.layout is not torch.strided:
            return _NO_BLOCK
        place = "cpu" if tensor.is_cpu else tensor.device.type
        if place == "meta":
            return place
        if tensor.is_neg():
            return _NO_BLOCK
        has_memory = tensor.data_ptr() != 0 or tensor.numel() == 0
        if place == "cpu" and _is_cut_off(tensor):
            return _NO_BLOCK
    except Exception:  # a subclass may answer with anything
        return _NO_BLOCK
    return place if has_memory else _NO_BLOCK


def _place_of_pointer(value: Any) -> str:
    """The type of device that an object says that its memory is on; the CPU where it says none,
    and where there is no other.
    """
    try:
        place = "cpu" if local_target() is None else torch.device(value.device).type
    except Exception:  # somebody else's object may answer with anything
        place = "cpu"
    if place != "cpu":
        return place
    try:
        memory_behind(value)
    except UnknownExtent:
        return _NO_BLOCK
    return place


_NUMBERS = frozenset({bool, int, float})


def _devices(values: Iterable[Any]) -> Iterator[str]:
    """The device types of all tensors among launch arguments: "cpu", "cuda", "xpu", ..."""
    for value in values:
        if type(value) in _NUMBERS:
            continue
        if isinstance(value, torch.Tensor) and not is_pointer(value):
            yield _place(value)
        elif isinstance(value, numpy.ndarray):
            yield "cpu"
        elif isinstance(value, tuple):
            yield from _devices(value)
        elif is_pointer(value):
            yield _place_of_pointer(value)
        elif (base := described(value)) is not None:
            yield from _devices([base])
