"""The tensors among a launch's arguments: copies for runs that must not change the arguments, and
replacements without memory for descriptions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy
import torch

from kernellab.interpreter.memory.address_space import described, is_pointer, memory_behind

ALIGNMENT = 512
"""The alignment of copied storages in bytes, as PyTorch's allocator for CUDA aligns them."""

LARGEST_COPY = 1 << 30
"""The most bytes of tensors on a GPU that a launch copies to the CPU by itself: 1 GiB."""

CopyOf = Callable[[torch.UntypedStorage], torch.UntypedStorage]


def copied(values: Mapping[str, Any], copy_of: CopyOf | None = None) -> dict[str, Any]:
    """Return the arguments with copies of their tensors on the CPU. Tensors that share memory share
    it in the copies too.

    Storages begin at multiples of 512 bytes, as on a GPU. `copy_of` copies each storage once; the
    default is `aligned_copy`.
    """
    storages: dict[int, torch.UntypedStorage] = {}
    made = aligned_copy if copy_of is None else copy_of

    def copy_tensor(value: Any) -> torch.Tensor:
        tensor = memory_behind(value)
        assert tensor is not None, "tensors and pointers have memory"
        original = tensor.detach().untyped_storage()
        if original.data_ptr() not in storages:
            storages[original.data_ptr()] = made(original)
        storage = storages[original.data_ptr()]
        place = int(tensor.storage_offset()), tensor.shape, tensor.stride()
        return torch.empty(0, dtype=tensor.dtype, device="cpu").set_(storage, *place)

    return {name: map_tensors(value, copy_tensor) for name, value in values.items()}


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with `change` applied to its tensors and other objects with `data_ptr()`: to
    the value itself, the items of a tuple, or what a descriptor describes.
    """
    if isinstance(value, torch.Tensor) or is_pointer(value):
        return change(value)
    if isinstance(value, tuple):
        items = [map_tensors(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(base := described(value), torch.Tensor) or is_pointer(base):
        changed = copy.copy(value)
        changed.base = map_tensors(value.base, change)
        return changed
    return value


def tensors_in(values: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of each argument's tensors, in tuples and behind descriptors too."""
    for name, value in values.items():
        if isinstance(value, tuple):
            yield from tensors_in({f"{name}[{place}]": item for place, item in enumerate(value)})
        elif (tensor := memory_behind(value)) is not None:
            yield name, tensor


def storage_bytes(values: Mapping[str, Any]) -> int:
    """Return the bytes of all storages behind the arguments, each counted once."""
    storages = {
        storage.data_ptr(): storage.nbytes()
        for _, tensor in tensors_in(values)
        for storage in (tensor.detach().untyped_storage(),)
    }
    return sum(storages.values())


def distinct_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's distinct elements: an expanded dimension has one."""
    sizes = (int(size) for size, stride in zip(tensor.shape, tensor.stride()) if stride)
    return math.prod(sizes) * int(tensor.element_size())


def copied_back(values: Mapping[str, Any], originals: Mapping[str, Any]) -> None:
    """Write the contents of copies that `copied` made back to the originals."""
    for name, original in originals.items():
        _copy_back(values[name], original)


def _copy_back(value: Any, original: Any) -> None:
    if isinstance(original, tuple):
        for item, original_item in zip(value, original):
            _copy_back(item, original_item)
    elif (tensor := memory_behind(original)) is not None:
        copy = memory_behind(value)
        assert copy is not None, "a copy is what the original is"
        tensor.detach().untyped_storage().copy_(copy.untyped_storage())


def aligned_copy(original: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a copy of a storage on the CPU, aligned to 512 bytes."""
    size = original.nbytes()
    bytes_ = aligned_part(numpy.empty(size + ALIGNMENT, numpy.uint8), size)
    if size:
        everything = torch.empty(0, dtype=torch.uint8, device=original.device).set_(original)
        # NumPy copies on this thread. On two cores, torch's threads took 2 ms to start a copy of
        # half a MB.
        bytes_[...] = everything.cpu().numpy()
    return torch.from_numpy(bytes_).untyped_storage()


def aligned_part(buffer: numpy.ndarray, size: int) -> numpy.ndarray:
    """Return `size` bytes of a buffer of `size + ALIGNMENT` bytes, from an aligned address on."""
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + size]


def without_memory(value: Any) -> Any:
    """Return a value for a launch's description, with meta tensors in place of tensors, so that
    their memory is not kept.
    """

    def without(value: Any) -> Any:
        is_tensor = isinstance(value, torch.Tensor)
        return torch.empty_like(value, device="meta") if is_tensor else value

    return map_tensors(value, without)


def integers_of(values: Mapping[str, Any]) -> dict[str, int]:
    """The integers among arguments, by name."""
    return {
        name: int(value)
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
