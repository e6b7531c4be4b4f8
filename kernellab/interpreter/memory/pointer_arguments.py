"""The memory behind an argument, whatever the argument is: Triton takes any object that has
`data_ptr()` and `dtype`, and reads at that address.

How far the memory reaches is said by the object's own storage, by a tensor or an array that it
holds, by its sizes, or by a tensor elsewhere in the process that the address lies in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy
import torch

from kernellab.common.formatting import shown
from kernellab.compiler.specialization.argument_values import tensor_of
from kernellab.errors import ArgumentError
from kernellab.interpreter.memory.address_space import RawMemory, is_mapped, live_tensors

_ADVICE = (
    "Give it shape (and stride(), where it is not contiguous), numel() or nbytes; or "
    "untyped_storage(); or keep the tensor that owns the memory, on the CPU."
)


class UnknownExtent(Exception):
    """An object that points somewhere, and nothing says how far its memory reaches, or that it is
    there. The text goes on from what it is: "that points to 0x40, and ...".

    Attributes:
        advice: what to give instead.
    """

    def __init__(self, text: str, advice: str = _ADVICE) -> None:
        super().__init__(text)
        self.advice = advice


def is_pointer(value: Any) -> bool:
    """Return whether Triton would take a value that is not a plain tensor for a pointer."""
    if isinstance(value, type):
        return False
    if isinstance(value, torch.Tensor):
        return type(value).data_ptr is not torch.Tensor.data_ptr
    return hasattr(value, "data_ptr") and hasattr(value, "dtype")


def memory_behind(value: Any) -> torch.Tensor | None:
    """The tensor that a launch reads and writes for an argument: itself; of a tensor descriptor
    that which it describes; of another object with `data_ptr()` and `dtype` a tensor that begins at
    that address, over the same memory. None for a value that is not a pointer.

    A tensor's storage is how far the memory reaches.

    Raises:
        UnknownExtent: nothing says how far the memory behind the object reaches.
    """
    if type(value) is torch.Tensor:
        return value
    if is_pointer(value):
        return _tensor_at(value)
    if isinstance(value, torch.Tensor):
        return value
    base = described(value)
    return None if base is None else memory_behind(base)


def described(value: Any) -> Any:
    """The tensor, array or pointer that a descriptor describes, None where there is none: its
    `base`, or the base of that.
    """
    base = None if isinstance(value, type) else getattr(value, "base", None)
    if base is None or isinstance(base, torch.Tensor | numpy.ndarray) or is_pointer(base):
        return base
    return described(base)


def _address(value: Any) -> int:
    try:
        address = value.data_ptr()
    except Exception as error:
        words = f"{type(error).__name__}: {shown(str(error))}"
        raise UnknownExtent(f"whose data_ptr() raises {words}") from error
    if not isinstance(address, int | numpy.integer):
        raise UnknownExtent(f"whose data_ptr() gives {shown(address)}, which is not an address")
    return int(address)


def _tensor_at(value: Any) -> torch.Tensor:
    address = _address(value)
    if address == 0:
        return torch.empty(0, dtype=_torch_type(value), device="cpu")
    sizes = _sizes(value)
    for storage in _storages_of(value):
        if _holds(storage, address):
            return _view(storage, address, value, sizes)
    if sizes is not None:
        size = _extent(sizes) * _torch_type(value).itemsize
        if not is_mapped(address, size):
            raise UnknownExtent(
                f"that points to {address:#x}, where this process has no {size:,} bytes of memory"
            )
        _check_aligned(address, address, _torch_type(value))
        everything = torch.from_numpy(numpy.asarray(RawMemory(address, size, 1)))
        return _view(everything.untyped_storage(), address, value, sizes)
    storages = [tensor.untyped_storage() for tensor in live_tensors()]
    holding = [storage for storage in storages if _holds(storage, address)]
    if holding:  # the owner's, not that of an object for a part of it
        return _view(max(holding, key=lambda storage: storage.nbytes()), address, value, None)
    raise UnknownExtent(
        f"that points to {address:#x}, and nothing says how far the memory there reaches"
    )


# Where the memory is


def _storages_of(value: Any) -> Iterator[torch.UntypedStorage]:
    """The storages that an object may point into: its own, and those of what it holds."""
    try:
        storage = torch.Tensor.untyped_storage(value)
    except Exception:
        storage = _asked(value, "untyped_storage")
    if isinstance(storage, torch.UntypedStorage):
        yield storage
    held = [getattr(value, "base", None), *_attributes(value)]
    for item in itertools.islice(held, _MOST_HELD):  # some more come while it goes on
        if isinstance(item, numpy.ndarray):
            yield from _storage_of_array(item)
        elif isinstance(item, torch.Tensor) or (is_pointer(item) and item is not value):
            inside = _asked(item, "untyped_storage")
            if isinstance(inside, torch.UntypedStorage):
                yield inside
            else:
                held.append(getattr(item, "base", None))


def _attributes(value: Any) -> Iterable[Any]:
    slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    held = getattr(value, "__dict__", None)
    return [*(held.values() if isinstance(held, dict) else ()), *slots]


_MOST_HELD = 1000
"""Things that an object holds and that are looked at."""


def _storage_of_array(array: numpy.ndarray[Any, Any]) -> Iterator[torch.UntypedStorage]:
    owner = array
    while isinstance(owner.base, numpy.ndarray):
        owner = owner.base
    with suppress(ArgumentError):  # of a type that no tensor has
        yield tensor_of(owner).untyped_storage()


def _holds(storage: torch.UntypedStorage, address: int) -> bool:
    if storage.device.type != "cpu":
        return False
    start = storage.data_ptr()
    return start <= address < start + storage.nbytes()


def _view(
    storage: torch.UntypedStorage, address: int, value: Any, sizes: Sizes | None
) -> torch.Tensor:
    """What of a storage the object is: of its shape where it says one that fits,
    else all elements from its address on.

    Raises:
        UnknownExtent: the address lies within an element.
    """
    kind, skipped = _torch_type(value), address - storage.data_ptr()
    _check_aligned(address, skipped, kind)
    left = (storage.nbytes() - skipped) // kind.itemsize
    if sizes is None or _extent(sizes) > left:
        sizes = (left,), (1,)
    return torch.empty(0, dtype=kind, device="cpu").set_(storage, skipped // kind.itemsize, *sizes)


def _check_aligned(address: int, skipped: int, kind: torch.dtype) -> None:
    """Refuse an address that lies within an element, so many bytes behind the first one's."""
    if skipped % kind.itemsize:
        raise UnknownExtent(
            f"that points to {address:#x}, which is between two elements of "
            f"{kind.itemsize} bytes ({str(kind).removeprefix('torch.')})",
            advice="A GPU accesses whole elements: give the address of one.",
        )


# How large it is

Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides, in elements."""


def _sizes(value: Any) -> Sizes | None:
    """Shape and strides of an object that says them; None where it says nothing."""
    shape = _whole_numbers(_asked(value, "shape"))
    if shape is None:
        count = _count(value)
        return None if count is None else ((count,), (1,))
    strides = _whole_numbers(_asked(value, "stride"))
    if strides is None:
        strides = _whole_numbers(_asked(value, "strides"))
        size = _torch_type(value).itemsize
        if strides is not None and isinstance(value.dtype, numpy.dtype):
            strides = tuple(stride // size for stride in strides)  # NumPy counts bytes
    if strides is None or len(strides) != len(shape) or any(stride < 0 for stride in strides):
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return shape, strides


def _count(value: Any) -> int | None:
    """How many elements an object without a shape says that it has."""
    for name in ("numel", "nelement", "size"):
        count = _asked(value, name)
        if isinstance(count, int | numpy.integer):
            return int(count)
    nbytes = _asked(value, "nbytes")
    if isinstance(nbytes, int | numpy.integer):
        return int(nbytes) // _torch_type(value).itemsize
    return None


def _extent(sizes: Sizes) -> int:
    """Elements from the first to the last."""
    shape, strides = sizes
    if 0 in shape:
        return 0
    return 1 + sum((count - 1) * stride for count, stride in zip(shape, strides))


def _whole_numbers(numbers: Any) -> tuple[int, ...] | None:
    try:
        return tuple(int(number) for number in numbers)
    except Exception:  # somebody else's object may answer with anything
        return None


def _asked(value: Any, name: str) -> Any:
    """An attribute, or what it gives where it is a method; None where the object has no answer."""
    try:
        attribute = getattr(value, name, None)
        return attribute() if callable(attribute) else attribute
    except Exception:  # somebody else's object may answer with anything
        return None


_SPELLINGS = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "int1": torch.bool,
    **{
        short + bits: getattr(torch, long + bits)
        for short, long in (("i", "int"), ("u", "uint"))
        for bits in ("8", "16", "32", "64")
    },
}
"""How Triton spells types that torch has under another name."""


def _torch_type(value: Any) -> torch.dtype:
    """torch's name for the type of an object's elements; bytes for one that torch does not have:
    the kernel's pointer says what they are.
    """
    text = str(value.dtype).rpartition(".")[2]
    dtype = getattr(torch, text, None)
    return dtype if isinstance(dtype, torch.dtype) else _SPELLINGS.get(text, torch.uint8)
