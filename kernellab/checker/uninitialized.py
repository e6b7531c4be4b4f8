"""`kernellab.uninitialized`: tensors whose contents nobody has written yet,
so far as a check is concerned.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch

from kernellab.common.argument_faults import names_bad_arguments
from kernellab.errors import ArgumentError

_MARK = "kernellab_uninitialized"


@names_bad_arguments
def uninitialized(tensor: Any) -> torch.Tensor:
    """`tensor`, marked as memory that nobody has initialised.

    `kernellab.check` reports what reads an element of it before the kernel has written it.
    For everything else, a plain launch included, it is the tensor: it shares its memory.

    Args:
        tensor: a torch tensor on any device, or a NumPy array.

    Returns:
        A tensor of the same memory, shape and strides.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(tensor, numpy.ndarray):
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(
            f"uninitialized({tensor!r}) takes a torch tensor or a NumPy array, and this is a "
            f"{type(tensor).__name__}"
        )
    marked = tensor.detach()
    setattr(marked, _MARK, True)
    return marked


def is_uninitialized(tensor: torch.Tensor) -> bool:
    """Whether a tensor is marked."""
    return bool(getattr(tensor, _MARK, False))
