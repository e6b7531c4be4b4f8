"""The tensors among a launch's arguments, copies of them for a run that must leave the arguments as
they are, and what stands for them where nobody is to keep their memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch

from kernellab.interpreter.memory.pointer_arguments import is_pointer, memory_behind

ALIGNMENT = 512
"""Of every storage that is copied, in bytes: PyTorch's allocator for CUDA rounds up to that."""

CopyOf = Callable[[torch.UntypedStorage], torch.UntypedStorage]


def copied(values: Mapping[str, Any], copy_of: CopyOf | None = None) -> dict[str, Any]:
    """The arguments with tensors of their own, on the CPU;
    tensors that share memory share it again.

    Storages begin at multiples of 512 bytes, as on a GPU. `copy_of` makes the copies, each once;
    without it, `aligned_copy` does.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    made = aligned_copy if copy_of is None else copy_of
    return {name: _copied(value, storages, made) for name, value in values.items()}


# No function inside `copied`: one that calls itself would keep the copies until Python
# collects cycles.
def _copied(value: Any, storages: dict[int, torch.UntypedStorage], copy_of: CopyOf) -> Any:
    """A value with copies in its tensors' places;
    `storages` has the copies that there are, by the originals' addresses.
    """
    if is_pointer(value):
        value = memory_behind(value)
    if isinstance(value, torch.Tensor):
        original = value.detach().untyped_storage()
        if original.data_ptr() not in storages:
            storages[original.data_ptr()] = copy_of(original)
        storage = storages[original.data_ptr()]
        place = int(value.storage_offset()), value.shape, value.stride()
        return torch.empty(0, dtype=value.dtype, device="cpu").set_(storage, *place)
    if isinstance(value, tuple):
        return tuple(_copied(item, storages, copy_of) for item in value)
    if memory_behind(value) is not None:  # a tensor descriptor
        described = copy.copy(value)
        described.base = _copied(value.base, storages, copy_of)
        return described
    return value


def tensors_in(values: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of every tensor among the arguments, those in tuples
    and behind descriptors too.
    """
    for name, value in values.items():
        if isinstance(value, tuple):
            yield from tensors_in({f"{name}[{place}]": item for place, item in enumerate(value)})
        elif (tensor := memory_behind(value)) is not None:
            yield name, tensor


def copied_back(values: Mapping[str, Any], originals: Mapping[str, Any]) -> None:
    """Give the arguments that `copied` copied what their copies hold now."""
    for name, original in originals.items():
        _copy_back(values[name], original)


def _copy_back(value: Any, original: Any) -> None:
    if isinstance(original, tuple):
        for one, other in zip(value, original):
            _copy_back(one, other)
    elif (tensor := memory_behind(original)) is not None:
        copy = memory_behind(value)
        assert copy is not None, "a copy is what the original is"
        tensor.detach().untyped_storage().copy_(copy.untyped_storage())


def aligned_copy(original: torch.UntypedStorage) -> torch.UntypedStorage:
    """A copy of a storage on the CPU, in memory that begins at a multiple of 512 bytes."""
    size = original.nbytes()
    bytes_ = aligned_part(numpy.empty(size + ALIGNMENT, numpy.uint8), size)
    if size:
        everything = torch.empty(0, dtype=torch.uint8, device=original.device).set_(original)
        # By NumPy, on this thread: on two cores torch's threads were seen to take 2 ms
        # to begin a copy of half a MB.
        bytes_[...] = everything.cpu().numpy()
    return torch.from_numpy(bytes_).untyped_storage()


def aligned_part(room: numpy.ndarray, size: int) -> numpy.ndarray:
    """Of bytes, `ALIGNMENT` more than are asked for, so many from a multiple of it on."""
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]


def without_memory(value: Any) -> Any:
    """What a launch's description needs of a value;
    never the tensor itself, which would keep its memory.
    """
    return with_tensors(value, lambda tensor: torch.empty_like(tensor, device="meta"))


def with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A value with others in the places of its tensors: of itself, of a tuple's items, of what a
    tensor descriptor describes.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple):
        items = [with_tensors(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(getattr(value, "base", None), torch.Tensor):  # a tensor descriptor
        twin = copy.copy(value)
        twin.base = change(value.base)
        return twin
    return value
