"""`torch.cuda.FloatTensor` and its kin: they make tensors of one type on the GPU, and say of a
tensor whether it is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import GPU, is_on_gpu, place_on_gpu
from kernellab.launch.torch_cuda.sessions import Session, current_session
from kernellab.launch.torch_cuda.stand_ins import StandIn


class _Typed(StandIn):
    """The class of such classes."""

    dtype: torch.dtype
    on_cpu: type[torch.Tensor]

    def made(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = self.on_cpu(*args, **kwargs)
        place_on_gpu(tensor)
        return tensor

    def __instancecheck__(self, instance: Any) -> bool:
        if current_session() is None:
            return isinstance(instance, self.original)
        return (
            isinstance(instance, torch.Tensor)
            and instance.dtype == self.dtype
            and is_on_gpu(instance)
        )


def _typed(name: str) -> type[Any]:
    on_cpu: Any = getattr(torch, name)
    facts = {"original": getattr(torch.cuda, name), "on_cpu": on_cpu, "dtype": on_cpu.dtype}
    return _Typed(name, (), facts)


TYPED_TENSORS: Mapping[str, type[Any]] = {
    name: _typed(name)
    for name in (
        "BFloat16Tensor",
        "BoolTensor",
        "ByteTensor",
        "CharTensor",
        "DoubleTensor",
        "FloatTensor",
        "HalfTensor",
        "IntTensor",
        "LongTensor",
        "ShortTensor",
    )
}
"""By their names in `torch.cuda`."""


def set_default_tensor_type(original: Any, _session: Session, t: Any) -> None:
    """`torch.set_default_tensor_type`, of the GPU's types too."""
    name = t if isinstance(t, str) else ""
    typed = TYPED_TENSORS.get(name.removeprefix("torch.cuda.")) if "cuda" in name else t
    if isinstance(typed, _Typed):
        torch.set_default_dtype(typed.dtype)
        torch.set_default_device(GPU)
    else:
        torch.set_default_device(None)
        original(t)
