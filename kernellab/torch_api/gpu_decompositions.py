"""Decompositions that are told of a GPU while the tensors that are traced are the CPU's.

Some ask where a tensor is: `convolution_backward` sums the bias apart on a GPU, a product of two
matrices is written out for the CPU. While one runs, a traced tensor answers that it is on the GPU;
the operations that it calls see the CPU again, which autograd needs: without a GPU, torch's engine
refuses to differentiate what is on one.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch._meta_registrations
import torch._subclasses.fake_tensor
import torch.fx.experimental.proxy_tensor

from kernellab.torch_api.virtual_gpu import DEVICE, replaced

_fakes: Any = torch._subclasses.fake_tensor
_proxies: Any = torch.fx.experimental.proxy_tensor
_metas: Any = torch._meta_registrations
_CPU = torch.device("cpu")


class _Asking(threading.local):
    """Whether this thread is inside of a decomposition, and in none of its operations."""

    is_inside = False


_asking = _Asking()


def told_of_gpu(
    decompositions: Mapping[Any, Callable[..., Any]], applied: Counter[str]
) -> dict[Any, Callable[..., Any]]:
    """The same decompositions, which take a traced tensor to be on the GPU.

    Args:
        decompositions: operation -> what it is written out as.
        applied: counts, by the operation's name, what is written out.
    """
    return {
        operation: _told(decomposition, str(operation), applied)
        for operation, decomposition in decompositions.items()
    }


def _told(function: Callable[..., Any], name: str, applied: Counter[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def told(*args: Any, **keywords: Any) -> Any:
        before, _asking.is_inside = _asking.is_inside, True
        try:
            result = function(*args, **keywords)
        finally:
            _asking.is_inside = before
        applied[name] += result is not NotImplemented
        return result

    return told


@contextmanager
def decompositions_told() -> Iterator[None]:
    """While active, decompositions of `told_of_gpu` are told."""
    with ExitStack() as stack:
        device = vars(_fakes.FakeTensor)["device"]
        stack.enter_context(replaced(_fakes.FakeTensor, device=_device_or_gpu(device)))
        for mode in (_fakes.FakeTensorMode, _proxies.ProxyTorchDispatchMode):
            original = vars(mode)["__torch_dispatch__"]
            stack.enter_context(replaced(mode, __torch_dispatch__=_outside(original)))
        hint = _metas.device_hint
        stack.enter_context(replaced(_metas, device_hint=lambda one: _as_gpu(hint(one))))
        yield


def _as_gpu(kind: str) -> str:
    return DEVICE.type if kind == "cpu" else kind


def _device_or_gpu(original: property) -> property:
    def device(tensor: Any) -> torch.device:
        answer: torch.device = original.__get__(tensor)
        return DEVICE if _asking.is_inside and answer == _CPU else answer

    return property(device, original.fset, original.fdel, original.__doc__)


def _outside(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(dispatch)
    def outside(mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _asking.is_inside:
            return dispatch(mode, function, types, args, kwargs)
        _asking.is_inside = False
        try:
            args, kwargs = _on_cpu(args), _on_cpu(kwargs or {})
            return dispatch(mode, function, types, args, kwargs)
        finally:
            _asking.is_inside = True

    return outside


def _on_cpu(value: Any) -> Any:
    """What a decomposition asks for on the GPU that it was told of."""
    return torch.fx.node.map_aggregate(
        value, lambda one: _CPU if isinstance(one, torch.device) and one.type == "cuda" else one
    )
