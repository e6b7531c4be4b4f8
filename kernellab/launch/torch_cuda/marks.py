"""Which tensors count as being on the GPU: a mark on their storage.

Views, parameters and gradients that share a storage share its mark, and the mark lives and dies
with it. A tensor without a mark is what it is: on the CPU, as a rule.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kernellab.torch_api.emulation import identity_of, parts_of_sparse
from kernellab.torch_api.gpu_answers import check_index

GPU = torch.device("cuda", 0)
"""The emulated GPU."""


def names_gpu(device: Any) -> bool:
    """Whether a device, as torch's functions take it, is the GPU.

    Raises:
        RuntimeError: it is a GPU, but none that is there.
    """
    index = named(device)
    if index.type != GPU.type:
        return False
    check_index(index.index or 0)
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
    """Return the identities of the storages of tensors, valid while the tensors live."""
    return {identity_of(storage) for tensor in tensors_in(*values) for storage in _storages(tensor)}


def share_place(result: Any, *sources: Any) -> None:
    """Place on the GPU what was newly made out of a tensor that is there."""
    made = list(tensors_in(result))
    if made and any(map(is_on_gpu, tensors_in(*sources))):
        before = storages_of(*sources)
        for tensor in made:
            if not storages_of(tensor) <= before:
                place_on_gpu(tensor)


def _storages(tensor: torch.Tensor) -> Sequence[torch.UntypedStorage]:
    """The storages of a tensor: those of its indices and its values, if it is sparse; none of a
    kind that only stands for a tensor.
    """
    if tensor.layout is not torch.strided:
        return [part.untyped_storage() for part in parts_of_sparse(tensor)]
    try:
        return (tensor.untyped_storage(),)
    except (NotImplementedError, RuntimeError):
        return ()


def _mark_of(tensor: torch.Tensor) -> str | None:
    marks = {getattr(storage, _MARK, None) for storage in _storages(tensor)}
    return marks.pop() if len(marks) == 1 else None


def _mark(tensor: torch.Tensor, mark: str | None) -> None:
    if tensor.is_cpu:
        for storage in _storages(tensor):
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
    """How many bytes of storages count as being on the GPU, now and at most.

    What dies is noted by a function that is not Python's, which no Ctrl-C can stop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: dict[weakref.ref[Any], tuple[int, int]] = {}
        self._by_identity: dict[int, weakref.ref[Any]] = {}
        self._dead: deque[weakref.ref[Any]] = deque()
        self._bytes = 0
        self.peak = 0

    @property
    def bytes(self) -> int:
        """Those that are there now."""
        with self._lock:
            return self._settled()

    def add(self, storage: torch.UntypedStorage) -> None:
        """Count a storage for as long as it lives."""
        key, size = identity_of(storage), storage.nbytes()
        reference = weakref.ref(storage, self._dead.append)
        with self._lock:
            self._alive[reference] = key, size
            self._by_identity[key] = reference
            self._bytes += size
            self.peak = max(self.peak, self._settled())

    def forget(self, storage: torch.UntypedStorage) -> None:
        """Count a storage no longer."""
        with self._lock:
            self._drop(self._by_identity[identity_of(storage)])

    def reset_peak(self) -> None:
        """Begin anew with the most."""
        self.peak = self.bytes

    def _settled(self) -> int:
        while self._dead:
            self._drop(self._dead.popleft())
        return self._bytes

    def _drop(self, reference: weakref.ref[Any]) -> None:
        key, size = self._alive.pop(reference, (0, 0))
        if self._by_identity.get(key) is reference:
            del self._by_identity[key]
        self._bytes -= size


allocated = Allocated()
