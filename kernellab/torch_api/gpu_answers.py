"""What torch gets from its extension module about one GPU that is not there. `torch.cuda` is
written in terms of these functions: its own code reads every form of a device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

_cuda: Any = torch.cuda
_backends: Any = torch.backends

Function = Callable[..., Any]


def check_index(index: int) -> None:
    """Refuse the number of a GPU that is not there; one below zero means the current one.

    Raises:
        RuntimeError: in the words of CUDA.
    """
    if index > 0:
        raise RuntimeError(
            f"CUDA error: invalid device ordinal\ncuda:{index} was requested, but one GPU is "
            "emulated: cuda:0."
        )


def device_index(device: Any) -> int:
    """The number of the GPU that a device means, in any of the forms that torch takes."""
    index: int = _cuda._get_device_index(device, optional=True)
    check_index(index)
    return index


def _of_index(answer: Any) -> Function:
    def answer_about(index: int = 0, *_: Any) -> Any:
        check_index(index)
        return answer

    return answer_about


OF_CUDA: Mapping[str, Function] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "_lazy_init": lambda: None,
    "_exchange_device": _of_index(0),
    "_maybe_exchange_device": _of_index(0),
}
"""Functions of `torch.cuda` that come from the extension module, or depend on its build;
`_get_device_properties` is another.
"""

OF_C: Mapping[str, Function] = {
    "_cuda_getDevice": lambda: 0,
    "_cuda_setDevice": _of_index(None),
    "_cuda_synchronize": lambda: None,
}
"""Functions of the extension module itself."""


# Device guards

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: a pointer for each kind of device (DeviceGuardImpl
Interface.h)."""

_CUDA, _META = 1, 14
"""c10::DeviceType (DeviceType.h)."""

_KNOWN_TORCH = ("2.11", "2.12", "2.13", "2.14", "2.15")
"""The versions whose registry was looked at: a pointer is written into it."""


def let_operations_be_traced(*, in_copy: bool = False) -> None:
    """Have torch's operations take tensors that are traced as being on a GPU.

    Each asks for a guard that switches to the tensor's GPU. A build of torch for CUDA has one that
    does nothing where no GPU is; a build for the CPU has none: there that of the meta device
    is used, which does nothing either. It lasts as long as the process. A version of torch that
    is not known is left alone; its operations then refuse to be traced.

    Args:
        in_copy: this process is a copy of one, in which CUDA refuses to work: the guard of the meta
            device is used in any case.
    """
    torch._C._ensureCUDADeviceGuardSet()
    library = next(Path(torch.__file__).parent.glob("lib/libc10.*"), None)
    version = ".".join(torch.__version__.split(".")[:2])
    is_known = library is not None and version in _KNOWN_TORCH
    if not is_known or (_backends.cuda.is_built() and not in_copy):
        return
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(str(library)), _REGISTRY)
    if in_copy or not guards[_CUDA]:
        guards[_CUDA] = guards[_META]
