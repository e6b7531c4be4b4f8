"""`kernellab.uninitialized`: mark a tensor as uninitialized memory for a check."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from kernellab.errors import ArgumentError

_MARK = "kernellab_uninitialized"


def uninitialized(tensor: Any) -> torch.Tensor:
    """Return the tensor, marked as uninitialized memory.

    `kernellab.check` reports reads of its elements before the kernel has written them. Everything
    else, including a plain launch, uses it as the tensor itself: both share their memory.

    Args:
        tensor: a torch tensor on any device, or a NumPy array.

    Returns:
        A tensor with the same memory, shape and strides.

    Raises:
        ArgumentError: `tensor` is neither.
    """
    if isinstance(tensor, numpy.ndarray):
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(
            f"tensor must be a torch tensor or a NumPy array, got {tensor!r} of type "
            f"{type(tensor).__name__}."
        )
    marked = tensor.detach()
    setattr(marked, _MARK, True)
    return marked


def is_uninitialized(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is marked."""
    return bool(getattr(tensor, _MARK, False))
