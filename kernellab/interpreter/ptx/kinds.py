"""PTX's types: how the bits of a register are read as numbers, and numbers are written as bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy

from kernellab.interpreter.numerics.numerics import FLOAT32

Array = Any
"""A NumPy array or scalar."""


@dataclass(frozen=True)
class Kind:
    """A type of PTX.

    Attributes:
        name: "f32", "s64", "e4m3x2".
        dtype: of one number.
        bits: of the whole value; numbers narrower than a byte fill a byte each in `dtype`.
        count: how many numbers it holds; they are along a last axis, the lowest bits first, where
            there are two or more.
    """

    name: str
    dtype: numpy.dtype
    bits: int
    count: int = 1

    @property
    def is_float(self) -> bool:
        """True for floating-point numbers, of whatever width."""
        return self.dtype.kind not in "iub"

    @property
    def is_signed(self) -> bool:
        """True for signed integers."""
        return self.dtype.kind == "i"

    @property
    def element_bits(self) -> int:
        """Bits of one of its numbers."""
        return self.bits // self.count


def _kind(name: str, dtype: Any, bits: int, count: int = 1) -> tuple[str, Kind]:
    return name, Kind(name, numpy.dtype(dtype), bits, count)


KINDS: dict[str, Kind] = dict(
    [
        _kind("pred", numpy.bool_, 1),
        *(
            _kind(f"{letter}{bits}", f"u{bits // 8}", bits)
            for letter in "bu"
            for bits in (8, 16, 32, 64)
        ),
        *(_kind(f"s{bits}", f"i{bits // 8}", bits) for bits in (8, 16, 32, 64)),
        _kind("f16", numpy.float16, 16),
        _kind("bf16", ml_dtypes.bfloat16, 16),
        _kind("f32", numpy.float32, 32),
        _kind("f64", numpy.float64, 64),
        _kind("f16x2", numpy.float16, 32, 2),
        _kind("bf16x2", ml_dtypes.bfloat16, 32, 2),
        _kind("f32x2", numpy.float32, 64, 2),
        _kind("e4m3x2", ml_dtypes.float8_e4m3fn, 16, 2),
        _kind("e5m2x2", ml_dtypes.float8_e5m2, 16, 2),
        _kind("e2m1x2", ml_dtypes.float4_e2m1fn, 8, 2),
        _kind("e2m3x2", ml_dtypes.float6_e2m3fn, 16, 2),
        _kind("e3m2x2", ml_dtypes.float6_e3m2fn, 16, 2),
    ]
)
"""Every type by name. `tf32` is not a type of a register: the
instruction that makes it writes a b32."""


def bits_of(width: int) -> numpy.dtype:
    """The dtype that holds the bits of a register: unsigned, or bool for a predicate."""
    return numpy.dtype(numpy.bool_ if width == 1 else f"u{width // 8}")


def resized(bits: Array, width: int, signed: bool = False) -> Array:
    """A register's bits in a register of another width:
    cut off, or extended with zeros or with the sign.
    """
    array = numpy.asarray(bits)
    wanted = bits_of(width)
    if array.dtype == wanted:
        return array
    if signed and width > 8 * array.itemsize:
        return array.view(f"i{array.itemsize}").astype(f"i{width // 8}").view(wanted)
    return array.astype(wanted)


def numbers(bits: Array, kind: Kind) -> Array:
    """The numbers that a register holds."""
    whole = resized(bits, kind.bits)
    if kind.count == 1:
        return whole if kind.dtype == whole.dtype else whole.view(kind.dtype)
    if kind.element_bits == 4:
        return numpy.stack([whole & 15, whole >> 4], -1).view(kind.dtype)
    parts = numpy.ascontiguousarray(whole)[..., None].view(bits_of(kind.element_bits))
    return parts.view(kind.dtype)


def pattern(values: Array, kind: Kind) -> Array:
    """The bits of numbers, `count` of them along the last axis where that is two or more."""
    array = numpy.asarray(values, kind.dtype)
    if kind.dtype == numpy.bool_:
        return array
    parts = array.view(f"u{array.itemsize}")
    if kind.count == 1:
        return parts
    if kind.element_bits == 4:
        return parts[..., 0] | parts[..., 1] << 4
    return numpy.ascontiguousarray(parts).view(bits_of(kind.bits))[..., 0]


def flushed(values: Array) -> Array:
    """Numbers of float32 with the subnormal ones as zeros of their sign: `.ftz`."""
    if numpy.asarray(values).dtype != FLOAT32:
        return values
    tiny = numpy.abs(values) < numpy.finfo(FLOAT32).tiny
    return numpy.where(tiny, numpy.copysign(FLOAT32.type(0), values), values)
