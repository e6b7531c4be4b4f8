"""Arguments as Triton's binder takes them: arrays as tensors, over the same memory."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy
import torch

from kernellab.compiler.specialization.type_strings import StatedType
from kernellab.errors import ArgumentError

_TORCH_TYPES = {
    numpy.dtype(ml_dtypes.bfloat16): torch.bfloat16,
    numpy.dtype(ml_dtypes.float8_e4m3fn): torch.float8_e4m3fn,
    numpy.dtype(ml_dtypes.float8_e4m3fnuz): torch.float8_e4m3fnuz,
    numpy.dtype(ml_dtypes.float8_e5m2): torch.float8_e5m2,
    numpy.dtype(ml_dtypes.float8_e5m2fnuz): torch.float8_e5m2fnuz,
}
"""Types that NumPy has through ml_dtypes and torch has itself."""

_BITS = {1: numpy.dtype(numpy.uint8), 2: numpy.dtype(numpy.int16)}
_TORCH_BITS = {1: torch.uint8, 2: torch.int16}

_PLAIN = frozenset({torch.Tensor, int, float, bool, type(None)})


class NeedsCare(Exception):
    """This argument takes the careful way: a type string, or an array that is read-only."""


def plain_value(value: Any) -> Any:
    """The value as Triton's binder takes it: arrays as tensors, NumPy's scalars as Python's."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, numpy.ndarray):
        if not value.flags.writeable:
            raise NeedsCare
        return tensor_of(value)
    if isinstance(value, numpy.generic):
        return value.item()
    if kind is StatedType:
        raise NeedsCare
    if kind is tuple:
        return tuple(plain_value(item) for item in value)
    return value


def tensor_of(array: numpy.ndarray[Any, Any]) -> torch.Tensor:
    """A torch tensor over the memory of a NumPy array, ml_dtypes' bfloat16 and fp8 included.

    Raises:
        ArgumentError: a masked array, a dtype that no GPU has, a foreign byte order, or strides
            that torch cannot express.
    """
    if isinstance(array, numpy.ma.MaskedArray):
        raise ArgumentError(
            "the array is a masked array, but kernels do not see its mask",
            advice="Pass x.data, its elements without the mask; or x.filled(0), a copy.",
        )
    if not array.dtype.isnative:
        raise ArgumentError(
            f"the array has dtype {array.dtype.str!r}, in the other byte order than this machine's",
            advice="array.astype(array.dtype.newbyteorder('=')) makes a copy in the native order.",
        )
    if any(stride < 0 for stride in array.strides):
        raise ArgumentError(
            f"the array has negative strides {array.strides}, which a tensor cannot have",
            advice="Pass array.copy(), which has positive strides.",
        )
    torch_type = _TORCH_TYPES.get(array.dtype)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            if torch_type is None:
                return torch.from_numpy(array)
            return torch.from_numpy(array.view(_BITS[array.dtype.itemsize])).view(torch_type)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"the array of dtype {array.dtype} cannot become a tensor: {str(error).rstrip('.')}"
        ) from error


def array_of(tensor: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """A NumPy array of a tensor's elements, bfloat16 and fp8 included:
    over the same memory where the tensor is contiguous and on the CPU, else of a copy.
    """
    plain = tensor.detach()
    if plain.device.type != "cpu" or not plain.is_contiguous():
        plain = plain.cpu().contiguous()
    for numpy_type, torch_type in _TORCH_TYPES.items():
        if plain.dtype == torch_type:
            bits: numpy.ndarray[Any, Any] = plain.view(_TORCH_BITS[plain.itemsize]).numpy()
            return bits.view(numpy_type)
    array: numpy.ndarray[Any, Any] = plain.numpy()
    return array
