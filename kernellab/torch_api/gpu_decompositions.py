"""Decompositions that see a GPU while the traced tensors are on the CPU.

Some depend on where a tensor is: `convolution_backward` sums the bias apart on a GPU, a product of
two matrices is written out for the CPU. While one runs, a traced tensor answers that it is on the
GPU; the operations that it calls see the CPU again, which autograd needs: without a GPU, torch's
engine refuses to differentiate what is on one.
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

from kernellab.common.patches import replaced
from kernellab.torch_api.gpu_calls import moved_devices
from kernellab.torch_api.virtual_gpu import DEVICE

_fakes: Any = torch._subclasses.fake_tensor
_proxies: Any = torch.fx.experimental.proxy_tensor
_metas: Any = torch._meta_registrations


class _Asking(threading.local):
    """Whether this thread is inside of a decomposition, and in none of its operations."""

    is_inside = False


_asking = _Asking()


def seeing_gpu(
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
def decompositions_see_gpu(here: torch.device) -> Iterator[None]:
    """While active, decompositions of `seeing_gpu` see a GPU.

    Args:
        here: where traced tensors of the GPU are.
    """

    def as_gpu(kind: str) -> str:
        return DEVICE.type if kind == here.type else kind

    with ExitStack() as stack:
        device = vars(_fakes.FakeTensor)["device"]
        stack.enter_context(replaced(_fakes.FakeTensor, device=_device_or_gpu(device, here)))
        for mode in (_fakes.FakeTensorMode, _proxies.ProxyTorchDispatchMode):
            original = vars(mode)["__torch_dispatch__"]
            stack.enter_context(replaced(mode, __torch_dispatch__=_outside(original, here)))
        hint = _metas.device_hint
        stack.enter_context(replaced(_metas, device_hint=lambda tensor: as_gpu(hint(tensor))))
        yield


def _device_or_gpu(original: property, here: torch.device) -> property:
    def device(tensor: Any) -> torch.device:
        answer: torch.device = original.__get__(tensor)
        return DEVICE if _asking.is_inside and answer == here else answer

    return property(device, original.fset, original.fdel, original.__doc__)


def _outside(dispatch: Callable[..., Any], here: torch.device) -> Callable[..., Any]:
    @functools.wraps(dispatch)
    def outside(mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _asking.is_inside:
            return dispatch(mode, function, types, args, kwargs)
        _asking.is_inside = False
        try:
            args, kwargs = moved_devices(args, kwargs, here)
            return dispatch(mode, function, types, args, kwargs)
        finally:
            _asking.is_inside = True

    return outside
