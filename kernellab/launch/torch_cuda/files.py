"""Tensors in files: where they are is said there, and they come back to it."""

from __future__ import annotations

from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import (
    GPU,
    is_storage_on_gpu,
    names_gpu,
    place_storage_on_gpu,
)
from kernellab.launch.torch_cuda.sessions import current_session


def place_said(storage: Any) -> str | None:
    """What a file says of where a storage is; None leaves it to torch."""
    untyped = getattr(storage, "_untyped_storage", storage)
    return str(GPU) if current_session() is not None and is_storage_on_gpu(untyped) else None


def back_in_place(storage: torch.UntypedStorage, place: str) -> torch.UntypedStorage | None:
    """A storage that was read, where a file, or who loads it, says that it is; None leaves it to
    torch.
    """
    if current_session() is None or not place.startswith(GPU.type) or not names_gpu(place):
        return None
    place_storage_on_gpu(storage)
    return storage
