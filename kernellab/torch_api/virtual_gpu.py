"""A GPU that is not there, as far as Inductor asks for it: what it is, and nothing that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
import torch._dynamo.device_interface
import torch._inductor.runtime.hints
import torch._inductor.utils
import torch.utils._triton

from kernellab.common.patches import Replacement, all_replaced
from kernellab.torch_api.gpu_answers import OF_C, OF_CUDA, let_operations_be_traced

_interfaces: Any = torch._dynamo.device_interface
_cuda: Any = torch.cuda
_hints: Any = torch._inductor.runtime.hints
_inductor_utils: Any = torch._inductor.utils
_triton_questions: Any = torch.utils._triton

DEVICE = torch.device("cuda", 0)
"""What it is called, AMD's too."""

CPU, META = torch.device("cpu"), torch.device("meta")
"""Where the tensors of a call are that count as being on it: on the meta device if some of them
have no values, else on the CPU.
"""


@contextmanager
def gpu_answers(properties: Any, hip_version: str | None) -> Iterator[None]:
    """While active, torch's compiler sees one GPU, in all threads of the process.

    Args:
        properties: as `torch.cuda.get_device_properties` gives them.
        hip_version: of ROCm, for an AMD GPU; None for NVIDIA's.
    """
    let_operations_be_traced()
    _interfaces.get_interface_for_device("cuda")  # registers torch's own before ours
    with all_replaced(_replacements(properties, hip_version)), _registered(_interface(properties)):
        _forget_answers()
        try:
            yield
        finally:
            _forget_answers()


def _replacements(properties: Any, hip_version: str | None) -> Iterator[Replacement]:
    yield torch.version, "hip", hip_version
    yield torch._C, "_accelerator_getDeviceIndex", lambda: 0
    yield torch.cuda, "is_current_stream_capturing", lambda: False
    yield torch.cuda, "_get_device_properties", lambda _index: properties
    yield from ((torch.cuda, name, function) for name, function in OF_CUDA.items())
    yield from ((torch._C, name, function) for name, function in OF_C.items())
    state = torch.zeros(16, dtype=torch.uint8, device="cpu")
    yield torch.cuda, "get_rng_state", lambda _device=None: state.clone()
    yield torch.cuda, "set_rng_state", lambda _state, _device=None: None


def _interface(properties: Any) -> type:
    """Return the interface of a kind of device for Dynamo and Inductor: torch's own, but for what
    it took from `torch.cuda` before, or would remember.
    """

    class Worker(_interfaces.CudaInterface.Worker):  # type: ignore[misc]
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda _device=None: properties)

    class VirtualGpu(_interfaces.CudaInterface):  # type: ignore[misc]
        device_count = staticmethod(_cuda.device_count)
        exchange_device = staticmethod(_cuda._exchange_device)
        maybe_exchange_device = staticmethod(_cuda._maybe_exchange_device)
        get_raw_stream = staticmethod(lambda _device: 0)
        is_bf16_supported = staticmethod(lambda *_answer, **_options: properties.major >= 8)

    VirtualGpu.Worker = Worker
    return VirtualGpu


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
