"""Which tensors count as being on the GPU: a mark on their storage.

Views, parameters and gradients that share a storage share its mark, and the mark lives and dies
with it. A tensor without a mark is what it is: on the CPU, as a rule.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from kernellab.torch_api.emulation import identity_of

GPU = torch.device("cuda", 0)
"""The emulated GPU."""


def names_gpu(device: Any) -> bool:
    """Whether a device, as torch's functions take it, is the GPU.

    Raises:
        RuntimeError: it is a GPU, but none that is there.
    """
    asked = named(device)
    if asked.type != GPU.type:
        return False
    if asked.index not in (None, GPU.index):
        raise RuntimeError(
            f"CUDA error: invalid device ordinal\n{asked} was asked for, and one GPU is emulated: "
            f"{GPU}."
        )
    return True


def named(device: Any) -> torch.device:
    """The device that a number, a name or a device means."""
    return torch.device(GPU.type, device) if isinstance(device, int) else torch.device(device)


_MARK = "kernellab_place"
_ON_GPU, _PINNED = "gpu", "pinned"


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether a tensor counts as being on the GPU."""
    return _mark_of(tensor) == _ON_GPU


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether a tensor counts as being in pinned memory."""
    return _mark_of(tensor) == _PINNED


def place_on_gpu(tensor: torch.Tensor) -> None:
    """Let a tensor, and all that share its storage, count as being on the GPU."""
    _mark(tensor, _ON_GPU)


def place_on_cpu(tensor: torch.Tensor) -> None:
    """Take the mark off."""
    _mark(tensor, None)


def pin(tensor: torch.Tensor) -> None:
    """Let a tensor count as being in pinned memory."""
    _mark(tensor, _PINNED)


def is_storage_on_gpu(storage: torch.UntypedStorage) -> bool:
    """Whether all tensors that share a storage count as being on the GPU."""
    return getattr(storage, _MARK, None) == _ON_GPU


def place_storage_on_gpu(storage: torch.UntypedStorage) -> None:
    """Let all tensors that share a storage count as being on the GPU."""
    _mark_storage(storage, _ON_GPU)


def tensors_in(*values: Any) -> Iterator[torch.Tensor]:
    """The tensors among values, within lists, tuples and dicts too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(*value)
        elif isinstance(value, dict):
            yield from tensors_in(*value.values())


def storages_of(*values: Any) -> set[int]:
    """What tells the storages of tensors apart while the tensors live."""
    found = (_storage(tensor) for tensor in tensors_in(*values))
    return {identity_of(storage) for storage in found if storage is not None}


def share_place(result: Any, *sources: Any) -> None:
    """Place on the GPU what was newly made out of a tensor that is there."""
    made = list(tensors_in(result))
    if made and any(map(is_on_gpu, tensors_in(*sources))):
        before = storages_of(*sources)
        for tensor in made:
            if not storages_of(tensor) <= before:
                place_on_gpu(tensor)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None  # sparse, or one of the kinds that stand for a tensor


def _mark_of(tensor: torch.Tensor) -> str | None:
    return getattr(_storage(tensor), _MARK, None)


def _mark(tensor: torch.Tensor, mark: str | None) -> None:
    storage = _storage(tensor)
    if storage is not None and tensor.is_cpu:
        _mark_storage(storage, mark)


def _mark_storage(storage: torch.UntypedStorage, mark: str | None) -> None:
    if getattr(storage, _MARK, None) == mark:
        return
    if getattr(storage, _MARK, None) == _ON_GPU:
        allocated.forget(storage)
    setattr(storage, _MARK, mark)
    if mark == _ON_GPU:
        allocated.add(storage)


class Allocated:
    """How many bytes of storages count as being on the GPU, now and at most."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a storage may die within `add`
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}
        self.bytes = 0
        self.peak = 0

    def add(self, storage: torch.UntypedStorage) -> None:
        """Count a storage for as long as it lives."""
        key, size = identity_of(storage), storage.nbytes()
        with self._lock:
            self._alive[key] = weakref.ref(storage, lambda _: self._drop(key)), size
            self.bytes += size
            self.peak = max(self.peak, self.bytes)

    def forget(self, storage: torch.UntypedStorage) -> None:
        """Count a storage no longer."""
        self._drop(identity_of(storage))

    def reset_peak(self) -> None:
        """Begin anew with the most."""
        self.peak = self.bytes

    def _drop(self, key: int) -> None:
        with self._lock:
            _, size = self._alive.pop(key, (None, 0))
            self.bytes -= size


allocated = Allocated()
