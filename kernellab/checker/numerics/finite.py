"""Which numbers are NaN or infinite, of every floating-point type that kernels have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy
from xdsl.ir import SSAValue

from kernellab.interpreter.numerics.numerics import largest_finite, widen
from kernellab.ir.types import MemDescType, TensorDescType, dtype, is_pointer

Array = numpy.ndarray[Any, Any]

_EXPONENTS = {
    numpy.dtype(numpy.float16): numpy.uint16(0x7C00),
    numpy.dtype(ml_dtypes.bfloat16): numpy.uint16(0x7F80),
}
"""The bits that are all set in NaN and infinity, of the 16-bit types:
comparing them is faster than converting."""


def is_float(value: SSAValue) -> bool:
    """True for tiles and scalars of a floating-point type; not for what leads to memory."""
    if is_pointer(value.type) or isinstance(value.type, TensorDescType | MemDescType):
        return False
    return is_float_type(dtype(value.type))


def is_float_type(kind: numpy.dtype) -> bool:
    """True for floating-point types, those of 16 and 8 bits included."""
    return kind.kind not in "iub"


def not_finite(array: Array) -> Array:
    """Which elements are NaN or infinite."""
    exponent = _EXPONENTS.get(array.dtype)
    if exponent is None:
        wide: Array = ~numpy.isfinite(widen(array))
        return wide
    special: Array = array.view(numpy.uint16) & exponent == exponent
    return special


def too_large_for(values: Array, kind: numpy.dtype) -> Array:
    """Which values, infinities among them, round to nothing that `kind` has:
    a conversion that saturates cuts them.
    """
    wide = widen(values)
    large: Array = numpy.abs(wide) > largest_finite(kind)
    if large.any():
        large[large] = not_finite(wide[large].astype(kind))
    return large
