"""A GPU that is not there, as far as Inductor asks for it: what it is, and nothing that runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo.device_interface
import torch._inductor.runtime.hints
import torch._inductor.utils
import torch.utils._triton

_interfaces: Any = torch._dynamo.device_interface
_backends: Any = torch.backends
_hints: Any = torch._inductor.runtime.hints
_inductor_utils: Any = torch._inductor.utils
_triton_questions: Any = torch.utils._triton

DEVICE = torch.device("cuda", 0)
"""What it is called, AMD's too."""


_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
"""c10::impl::device_guard_impl_registry: a pointer for each kind of device (DeviceGuardImpl
Interface.h)."""

_CUDA, _META = 1, 14
"""c10::DeviceType (DeviceType.h)."""


def let_operations_be_traced() -> None:
    """Have torch's operations take tensors that are traced as being on a GPU.

    Each asks for a guard that switches to the tensor's GPU. A build of torch for CUDA has one that
    does nothing where no GPU is; a build for the CPU has none: there that of the meta device
    stands in, which does nothing either. It lasts as long as the process.
    """
    torch._C._ensureCUDADeviceGuardSet()
    library = next(Path(torch.__file__).parent.glob("lib/libc10.*"), None)
    if _backends.cuda.is_built() or library is None:
        return
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(str(library)), _REGISTRY)
    if not guards[_CUDA]:
        guards[_CUDA] = guards[_META]


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """While active, a module or class has other attributes; one that it lacks is left out."""
    before = dict(vars(owner))
    names = [name for name in attributes if hasattr(owner, name)]
    for name in names:
        setattr(owner, name, attributes[name])
    try:
        yield
    finally:
        for name in names:
            if name in before:
                setattr(owner, name, before[name])
            else:  # it was inherited
                delattr(owner, name)


@contextmanager
def gpu_answers(properties: Any, hip_version: str | None) -> Iterator[None]:
    """While active, torch's compiler is told of one GPU, in all threads of the process.

    Args:
        properties: as `torch.cuda.get_device_properties` gives them.
        hip_version: of ROCm, for an AMD GPU; None for NVIDIA's.
    """
    let_operations_be_traced()
    _interfaces.get_interface_for_device("cuda")  # registers torch's own before ours
    with ExitStack() as stack:
        stack.enter_context(_registered(_interface(properties)))
        stack.enter_context(replaced(torch.cuda, **_torch_cuda(properties)))
        stack.enter_context(replaced(torch.version, hip=hip_version))
        _forget_answers()
        try:
            yield
        finally:
            _forget_answers()


def _torch_cuda(properties: Any) -> dict[str, Callable[..., Any]]:
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda _device=None: properties,
        "get_device_capability": lambda _device=None: (properties.major, properties.minor),
        "get_device_name": lambda _device=None: properties.name,
        "synchronize": lambda _device=None: None,
        "_exchange_device": lambda _device: 0,
        "_maybe_exchange_device": lambda _device: 0,
        "get_rng_state": lambda _device=None: torch.zeros(16, dtype=torch.uint8, device="cpu"),
        "set_rng_state": lambda _state, _device=None: None,
    }


def _interface(properties: Any) -> type:
    """What Dynamo and Inductor ask of a kind of device."""

    class Worker(_interfaces.CudaInterface.Worker):  # type: ignore[misc]
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda _device=None: properties)

    class VirtualGpu(_interfaces.CudaInterface):  # type: ignore[misc]
        is_available = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 1)
        current_device = staticmethod(lambda: 0)
        set_device = staticmethod(lambda _device: None)
        exchange_device = staticmethod(lambda _device: 0)
        maybe_exchange_device = staticmethod(lambda _device: 0)
        synchronize = staticmethod(lambda _device=None: None)
        memory_allocated = staticmethod(lambda _device=None: 0)
        get_raw_stream = staticmethod(lambda _device: 0)
        get_device_properties = staticmethod(lambda _device=None: properties)
        get_compute_capability = staticmethod(lambda _device=None: _capability(properties))
        is_bf16_supported = staticmethod(lambda *_answer, **_options: properties.major >= 8)
        is_triton_capable = staticmethod(lambda _device=None: True)
        raise_if_triton_unavailable = staticmethod(lambda _device=None: None)

    VirtualGpu.Worker = Worker
    return VirtualGpu


def _capability(properties: Any) -> int | str:
    """As torch's interface says it: 90, or "gfx942"."""
    if torch.version.hip:
        return str(properties.gcnArchName).partition(":")[0]
    return int(properties.major * 10 + properties.minor)


@contextmanager
def _registered(interface: type) -> Iterator[None]:
    known = dict(_interfaces.device_interfaces)
    for name in ("cuda", "cuda:0"):
        _interfaces.register_interface_for_device(name, interface)
    try:
        yield
    finally:
        _interfaces.device_interfaces.clear()
        _interfaces.device_interfaces.update(known)


def _forget_answers() -> None:
    """What torch remembers of the machine's GPU."""
    for module in (_triton_questions, _inductor_utils):
        _clear_caches(module)
    _hints.DeviceProperties.create.cache_clear()


def _clear_caches(module: ModuleType) -> None:
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) == module.__name__ and hasattr(thing, "cache_clear"):
            thing.cache_clear()
