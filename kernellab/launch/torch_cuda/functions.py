"""What torch's functions do inside: "cuda" is taken for the CPU, and what is made there is marked.

A mode of torch's sees each call of a function, a method or an attribute of a tensor. KernelLab's
own code is exempt: it needs the tensors' real devices.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import torch

from kernellab.launch.torch_cuda import marks
from kernellab.launch.torch_cuda.generators import Generator, making_on_gpu
from kernellab.launch.torch_cuda.marks import GPU, is_on_gpu, named, names_gpu
from kernellab.launch.torch_cuda.sessions import current_session
from kernellab.launch.torch_cuda.tracing import traced
from kernellab.torch_api.autocast_kernels import pass_autocast
from kernellab.torch_api.emulation import (
    HigherOrderOperator,
    TorchFunctionMode,
    follows_default_device,
    function_mode_pushed,
    is_traced,
    unasked,
)


class GpuFunctions(TorchFunctionMode):  # type: ignore[misc]
    """Takes the calls of torch's functions of threads that are inside."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if current_session() is None or _is_ours(sys._getframe(1)):
            return func(*args, **kwargs)
        return _answered(func, args, kwargs)


FUNCTIONS = GpuFunctions()
"""The one that all threads have."""


def _is_ours(frame: FrameType) -> bool:
    """Whether it is KernelLab that calls."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("kernellab.")


def on_default_device(by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """How torch makes tensors on a default device, but that the GPU is one.

    torch's own mode for that lies above ours or below it, where it sees what torch's functions
    make within.
    """

    @functools.wraps(by_torch)
    def make(
        mode: Any, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if current_session() is None or mode.device.type != GPU.type:
            return by_torch(mode, func, types, args, kwargs)
        if follows_default_device(func) and kwargs.get("device") is None:
            kwargs = kwargs | {"device": mode.device}
        elif _is_ours(sys._getframe(1)):
            return func(*args, **kwargs)
        return _answered(func, args, kwargs)

    return make


def _answered(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What any function gives: on the device that it names, or where its arguments are. Traced
    tensors keep their devices themselves.
    """
    if func not in _QUESTIONS and is_traced(marks.tensors_in(args, kwargs)):
        return traced(func, args, kwargs)
    if isinstance(func, HigherOrderOperator):
        pass_autocast(func)
    answer = _ANSWERS.get(func)
    if answer is not None:
        return answer(*args, **kwargs)
    generator = kwargs.get("generator")
    if type(generator) is Generator:  # of the GPU: others are torch's own
        with generator.draws():
            return _on_its_device(func, args, kwargs)
    return _on_its_device(func, args, kwargs)


def _on_its_device(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    device = kwargs.get("device")
    pins = kwargs.pop("pin_memory", None)
    if device is None:
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor | list | tuple | dict):
            marks.share_place(result, args, kwargs)
    else:
        wanted = names_gpu(device)
        with making_on_gpu() if wanted else nullcontext():
            result = func(*args, **kwargs | {"device": "cpu" if wanted else device})
        result = _placed(result, wanted, (args, kwargs))
    if pins and isinstance(result, torch.Tensor):
        marks.pin(result)
    return result


def _placed(result: Any, on_gpu: bool, sources: Any) -> Any:
    """Return the result of a function with a device argument; a result that is an argument is
    copied.
    """
    if isinstance(result, torch.Tensor) and is_on_gpu(result) != on_gpu:
        if marks.storages_of(result) <= marks.storages_of(sources):
            return moved(result, on_gpu)
        (marks.place_on_gpu if on_gpu else marks.place_on_cpu)(result)
    return result


# Moving


def moved(tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
    """A copy in the other place; gradients go back to where the tensor is."""
    if tensor.requires_grad and torch.is_grad_enabled():
        move: Any = _Move.apply
        copy: torch.Tensor = move(tensor, to_gpu)
        return copy
    return _copy(tensor, to_gpu)


def _copy(tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
    copy = tensor.clone()
    (marks.place_on_gpu if to_gpu else marks.place_on_cpu)(copy)
    return copy


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, to_gpu: bool) -> torch.Tensor:
        context.to_gpu = to_gpu
        return _copy(tensor, to_gpu)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        return moved(gradients[0], not context.to_gpu), None


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`Tensor.to`, in each of its forms."""
    rest, names = list(args), ["dtype", "non_blocking", "copy"]
    if rest and (rest[0] is None or isinstance(rest[0], str | int | torch.device)):
        names.insert(0, "device")
    elif rest and isinstance(rest[0], torch.Tensor):
        names[0] = "other"
    how = {name: value for name, value in (*zip(names, rest), *kwargs.items()) if value is not None}
    device, other = how.pop("device", None), how.pop("other", None)
    if other is not None:
        device, how["dtype"] = _device(other), other.dtype
    if device is not None and named(device).type not in ("cpu", GPU.type):
        return tensor.to(device, **how)
    if device is not None and is_on_gpu(tensor) != names_gpu(device):
        tensor = moved(tensor, not is_on_gpu(tensor))
        how["copy"] = False
    result = tensor.to(**how)
    marks.share_place(result, tensor)
    return result


def _cuda(
    tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> torch.Tensor:
    how = {} if memory_format is None else {"memory_format": memory_format}
    return _to(tensor, GPU if device is None else device, non_blocking=non_blocking, **how)


def _cpu(tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    how = {} if memory_format is None else {"memory_format": memory_format}
    return _to(tensor, "cpu", **how)


def _type(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.type`: the name of a type, "torch.cuda.FloatTensor", or a conversion to it."""
    if dtype is None:
        name = tensor.type()
        return name.replace("torch.", "torch.cuda.", 1) if is_on_gpu(tensor) else name
    if isinstance(dtype, str):
        to_gpu = dtype.startswith("torch.cuda.")
        converted = tensor.type(dtype.replace("torch.cuda.", "torch.", 1), *args, **kwargs)
        return _placed(converted, to_gpu, tensor)
    converted = tensor.type(dtype, *args, **kwargs)
    marks.share_place(converted, tensor)
    return converted


def _pin_memory(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    if marks.is_pinned(tensor):
        return tensor
    if is_on_gpu(tensor):
        raise RuntimeError(f"cannot pin '{_type(tensor)}' only dense CPU tensors can be pinned")
    copy = tensor.clone()
    marks.pin(copy)
    return copy


# Making sparse tensors


def _sparse(constructor: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A constructor whose tensor is where its values are, if it names no device."""

    def make(*args: Any, **kwargs: Any) -> Any:
        values = kwargs["values"] if "values" in kwargs else args[place : place + 1]
        if kwargs.get("device") is None and any(map(is_on_gpu, marks.tensors_in(values))):
            kwargs["device"] = GPU
        return _on_its_device(constructor, args, kwargs)

    return make


# Asking


def _device(tensor: torch.Tensor) -> torch.device:
    return GPU if is_on_gpu(tensor) else tensor.device


def _is_cuda(tensor: torch.Tensor) -> bool:
    return is_on_gpu(tensor) or tensor.is_cuda


def _is_cpu(tensor: torch.Tensor) -> bool:
    return not is_on_gpu(tensor) and tensor.is_cpu


def _get_device(tensor: torch.Tensor) -> int:
    return 0 if is_on_gpu(tensor) else tensor.get_device()


def _is_pinned(tensor: torch.Tensor, *_: Any, **__: Any) -> bool:
    return marks.is_pinned(tensor)


def _deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    by_torch: Callable[..., torch.Tensor] = torch.Tensor.__deepcopy__
    was_copied = id(tensor) in memo
    result = by_torch(tensor, memo)
    if not was_copied:
        (marks.place_on_gpu if is_on_gpu(tensor) else marks.place_on_cpu)(result)
    return result


def _repr(tensor: torch.Tensor, **options: Any) -> str:
    by_torch: Callable[..., str] = torch.Tensor.__repr__
    text = by_torch(tensor, **options)
    said = f", device='{GPU}'"
    if is_on_gpu(tensor) and said not in text and text.endswith(")"):
        return f"{text[:-1]}{said})"
    return text


def _numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _refuse_array_of(tensor)
    return tensor.numpy(*args, **kwargs)


def _array(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _refuse_array_of(tensor)
    by_torch: Any = torch.Tensor.__array__
    return by_torch(tensor, *args, **kwargs)


def _refuse_array_of(tensor: torch.Tensor) -> None:
    """NumPy cannot read a GPU's memory."""
    if is_on_gpu(tensor):
        raise TypeError(
            f"can't convert {GPU} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )


def _record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Work is done when its call returns, so memory is never in use by a stream."""


# Going backward


def _calling_others(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch that calls other people's, which need the mode as well: torch disables a
    mode while its handler runs.
    """
    return seeing_gpu(unasked(function))


def seeing_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose own calls of torch's functions the mode sees, of threads that are inside."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with function_mode_pushed(FUNCTIONS) if current_session() else nullcontext():
            return function(*args, **kwargs)

    return call


def context_seeing_gpu(enter: Callable[..., Any]) -> Callable[..., Any]:
    """What makes a context, within which the mode sees calls too, of threads that are inside."""

    @functools.wraps(enter)
    @contextmanager
    def entered(*args: Any) -> Iterator[Any]:
        seen = function_mode_pushed(FUNCTIONS) if current_session() else nullcontext()
        with enter(*args) as value, seen:
            yield value

    return entered


_attributes: Any = torch.Tensor

_QUESTIONS: dict[Any, Callable[..., Any]] = {
    _attributes.device.__get__: _device,
    _attributes.is_cuda.__get__: _is_cuda,
    _attributes.is_cpu.__get__: _is_cpu,
    torch.Tensor.get_device: _get_device,
    torch.get_device: _get_device,
}
"""Where a tensor is, real or traced."""

_ANSWERS: dict[Any, Callable[..., Any]] = {
    **_QUESTIONS,
    torch.Tensor.is_pinned: _is_pinned,
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.type: _type,
    torch.Tensor.pin_memory: _pin_memory,
    torch.Tensor.backward: _calling_others(torch.Tensor.backward),
    torch.autograd.backward: _calling_others(torch.autograd.backward),
    torch.autograd.grad: _calling_others(torch.autograd.grad),
    torch.Tensor.__deepcopy__: _deepcopy,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _array,
    torch.Tensor.record_stream: _record_stream,
    torch.sparse_coo_tensor: _sparse(torch.sparse_coo_tensor, 1),
    **{
        constructor: _sparse(constructor, 2)
        for constructor in (
            torch.sparse_compressed_tensor,
            torch.sparse_csr_tensor,
            torch.sparse_csc_tensor,
            torch.sparse_bsr_tensor,
            torch.sparse_bsc_tensor,
        )
    },
}
