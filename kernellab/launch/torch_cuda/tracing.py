"""Tensors without values, in which torch traces: they keep their devices themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import GPU


def traced(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What torch's tracing gives, which knows each tensor's device, but not the current GPU."""
    if func is torch.Tensor.cuda and len(args) == 1 and kwargs.get("device") is None:
        kwargs["device"] = GPU
    elif func in _NEED_INDEX:
        args = tuple(GPU if _is_current_gpu(value) else value for value in args)
        if _is_current_gpu(kwargs.get("device")):
            kwargs["device"] = GPU
    return func(*args, **kwargs)


_NEED_INDEX = frozenset(
    {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor, torch.Tensor.to}
)
"""Functions for which torch adds the number of the current GPU to a device without one."""


def _is_current_gpu(device: Any) -> bool:
    return isinstance(device, str | torch.device) and str(device) == GPU.type
