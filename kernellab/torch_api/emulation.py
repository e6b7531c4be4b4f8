"""What an emulated GPU takes of torch: modes, kernels of operations, what torch asks itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch.overrides
import torch.utils._device
import torch.utils._python_dispatch
import torch.utils._triton

_overrides: Any = torch.overrides
_dispatching: Any = torch.utils._python_dispatch
_default_devices: Any = torch.utils._device

TorchFunctionMode: Any = _overrides.TorchFunctionMode
DeviceContext: Any = _default_devices.DeviceContext
"""How torch makes tensors on the default device."""


class OperationMode(_dispatching.TorchDispatchMode):  # type: ignore[misc]
    """Sees each operation below autograd, without an import of torch's compiler, which takes
    seconds.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


# Modes


def push_modes(function_mode: Any, dispatch_mode: Any) -> None:
    """Put both on top of this thread's stacks."""
    _overrides._push_mode(function_mode)
    dispatch_mode.__enter__()


def remove_modes(function_mode: Any, dispatch_mode: Any) -> None:
    """Take both off this thread's stacks, wherever in them they are: other modes may have been
    entered since, and tasks of asyncio leave in any order.
    """
    above = []
    while _overrides._get_current_function_mode_stack():
        mode = _overrides._pop_mode()
        if mode is function_mode:
            break
        above.append(mode)
    for mode in reversed(above):
        _overrides._push_mode(mode)
    higher = []
    while _dispatching._get_current_dispatch_mode_stack():
        if _dispatching._get_current_dispatch_mode_stack()[-1] is dispatch_mode:
            dispatch_mode.__exit__(None, None, None)
            break
        higher.append(_dispatching._pop_mode())
    for one in reversed(higher):
        _dispatching._push_mode(one)


@contextmanager
def function_mode_pushed(mode: Any) -> Iterator[None]:
    """While active, a mode is on top of this thread's stack, once more."""
    _overrides._push_mode(mode)
    try:
        yield
    finally:
        _overrides._pop_mode()


@functools.cache
def unasked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch's written in Python, but that it asks no mode whether to answer for it,
    and goes on.
    """
    plain: Any = function
    asks = [name for name in plain.__code__.co_names if name.startswith("has_torch_function")]
    others = plain.__globals__ | dict.fromkeys(asks, lambda *_: False)
    made = FunctionType(plain.__code__, others, plain.__name__, plain.__defaults__)
    made.__kwdefaults__ = plain.__kwdefaults__
    return made


@contextmanager
def modes_pushed(function_mode: Any, dispatch_mode: Any) -> Iterator[None]:
    """While active, both are on top of this thread's stacks."""
    push_modes(function_mode, dispatch_mode)
    try:
        yield
    finally:
        remove_modes(function_mode, dispatch_mode)


def stated_default_device() -> torch.device | None:
    """What `torch.set_default_device` or `with torch.device(...)` say in this thread; else None."""
    for mode in reversed(_overrides._get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            device: torch.device = mode.device
            return device
    return None


@functools.cache
def follows_default_device(function: Callable[..., Any]) -> bool:
    """Whether a function of torch's makes a tensor on the default device."""
    return function in _default_devices._device_constructors()


def identity_of(storage: torch.UntypedStorage) -> int:
    """What tells a storage apart from all others that live."""
    return int(storage._cdata)


def autocast_is_on(autocast: torch.autocast) -> bool:
    """Whether it rounds, or switches that off."""
    return bool(autocast._enabled)


# Kernels of operations


@functools.cache
def draws_numbers(operation: Any) -> bool:
    """Whether it takes random numbers from a generator."""
    return torch.Tag.nondeterministic_seeded in operation.tags


def runs_on_gpu_alone(operation: Any) -> bool:
    """Whether somebody registered code for the operation that runs for tensors on a GPU only."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CUDA"))


def run_as(key: str, operation: Any, args: Any, kwargs: Any) -> Any:
    """The result of the code that is registered for "CUDA" or "CPU", whatever the tensors are."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    tensors = _taken_as_tensors(operation)
    given = (
        torch.scalar_tensor(value) if place in tensors and _is_number(value) else value
        for place, value in enumerate(args)
    )
    return operation.redispatch(keys, *given, **kwargs)


@functools.cache
def _taken_as_tensors(operation: Any) -> frozenset[int]:
    """Which arguments are tensors, for which a call takes numbers too: those of `x + 1`."""
    arguments = operation._schema.arguments
    return frozenset(
        place for place, one in enumerate(arguments) if isinstance(one.type, torch.TensorType)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex)


# Files


def take_files(place_said: Callable[..., Any], back_in_place: Callable[..., Any]) -> None:
    """Ask these two first where a storage is that is saved, and have it there when it is loaded."""
    torch.serialization.register_package(_FIRST, place_said, back_in_place)


def leave_files(place_said: Callable[..., Any], back_in_place: Callable[..., Any]) -> None:
    """Ask them no longer."""
    registry: list[Any] = torch.serialization._package_registry
    registry[:] = [one for one in registry if one[1:] != (place_said, back_in_place)]


_FIRST = 0

# Questions that torch asks itself

C_MODULE: ModuleType = torch._C
"""What `torch.cuda` and other people's code ask by underscored names."""

CUDA_MODULES: tuple[ModuleType, ...] = (
    torch.cuda,
    torch.cuda.memory,
    torch.cuda.random,
    torch.cuda.graphs,
    torch.cuda.nvtx,
    torch.cuda.profiler,
)
"""Where the functions of `torch.cuda` are defined, or imported to."""

ACCELERATOR_MODULES: tuple[ModuleType, ...] = (torch.accelerator, torch.accelerator.memory)
"""The same of `torch.accelerator`."""

QUESTIONS_OF_TRITON = tuple(
    name
    for name, value in vars(torch.utils._triton).items()
    if callable(value) and hasattr(value, "cache_clear")
)
"""What torch asks of Triton and the GPU once, and remembers: "has_triton", ..."""


def forget_answers_about_triton() -> None:
    """Let torch ask its questions again."""
    for name in QUESTIONS_OF_TRITON:
        function = getattr(torch.utils._triton, name)
        getattr(function, "cache_clear", lambda: None)()


def triton_questions() -> ModuleType:
    """The module whose functions they are."""
    return sys.modules["torch.utils._triton"]
