"""Matmuls as tensor cores compute them:
narrow operands multiplied exactly, sums kept in float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy

from kernellab.interpreter.numerics.numerics import (
    FLOAT32,
    FLOAT64,
    convert,
    cut_to_tf32,
    round_to_tf32,
    widen,
)

Value = Any
"""A NumPy scalar, an array, or a SymbolicTile."""

Array = numpy.ndarray[Any, Any]

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)


def dot(a: Array, b: Array, c: Array, input_precision: str) -> Value:
    """a @ b + c over the last two dimensions.

    Integers are exact. Floats of 16 bits and fewer are multiplied exactly and accumulated in
    float32. What happens to float32 operands is `input_precision`: "ieee" leaves them alone, "tf32"
    cuts them, "tf32x3", "bf16x3" and "bf16x6" split them into two or three narrow parts and add up
    the products that matter, as Triton's pass f32-dot-tc does.
    """
    if c.dtype.kind == "i":
        return _integer_product(a, b).astype(c.dtype) + c
    product = _float_product(a, b, input_precision)
    if c.dtype == product.dtype:
        in_place = c.ndim <= product.ndim and c.size <= product.size
        return numpy.add(product, c, out=product if in_place else None)
    return convert(product + widen(c), c.dtype)


def _integer_product(a: Array, b: Array) -> Value:
    """Exact while |a @ b| < 2**53: BLAS has no integer product, float64 has the bits."""
    return numpy.matmul(a.astype(FLOAT64), b.astype(FLOAT64)).astype(numpy.int64)


def _float_product(a: Array, b: Array, input_precision: str) -> Value:
    if a.dtype == FLOAT32:
        match input_precision:
            case "tf32":
                return numpy.matmul(cut_to_tf32(a), cut_to_tf32(b))
            case "tf32x3":
                return _tf32x3_product(a, b)
            case "bf16x3":
                return _bf16_parts_product(a, b, 2)
            case "bf16x6":
                return _bf16_parts_product(a, b, 3)
    return numpy.matmul(widen(a), widen(b))


def _tf32x3_product(a: Array, b: Array) -> Value:
    a_high, b_high = round_to_tf32(a), round_to_tf32(b)
    small = numpy.matmul(cut_to_tf32(a - a_high), b_high)
    small += numpy.matmul(a_high, cut_to_tf32(b - b_high))
    return numpy.matmul(a_high, b_high) + _zero_for_nan(small)


def _bf16_parts_product(a: Array, b: Array, count: int) -> Value:
    """Products of the parts of `a` and `b`, smallest first;
    those of parts whose numbers add up to `count` or more are left out.
    """
    a_parts, b_parts = _bf16_parts(a, count), _bf16_parts(b, count)
    small: Any = FLOAT32.type(0)
    for weight in range(count - 1, 0, -1):
        for of_a in range(weight + 1):
            small = small + numpy.matmul(a_parts[of_a], b_parts[weight - of_a])
    return numpy.matmul(a_parts[0], b_parts[0]) + _zero_for_nan(small)


def _bf16_parts(value: Array, count: int) -> list[Array]:
    """Numbers of bfloat16's precision that add up to `value`, largest first; in float32."""
    parts = []
    for _ in range(count):
        part = widen(convert(value, BFLOAT16))
        parts.append(part)
        value = value - part
    return parts


def _zero_for_nan(small: Array) -> Value:
    """An infinite operand leaves NaN in its small part;
    the product of the large parts says what is true.
    """
    return numpy.where(numpy.isnan(small), FLOAT32.type(0), small)


# Microscaled operands


_FP4_VALUES = numpy.array(
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0],
    FLOAT32,
)
"""The numbers of e2m1 by bit pattern (OCP Microscaling Formats 1.0, 5.3.3)."""


def unpack_fp4(packed: Array, axis: int) -> Value:
    """Two numbers of e2m1 a byte, low half first, as float32; `axis` (negative) doubles."""
    codes = packed.view(numpy.uint8)
    pairs = numpy.stack([_FP4_VALUES[codes & 15], _FP4_VALUES[codes >> 4]], axis)
    shape = list(packed.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def scaled(
    values: Array, scale: Array | None, axis: int, dtype: numpy.dtype, fast_math: bool
) -> Value:
    """An operand of `tl.dot_scaled`: numbers times the scale of their group along `axis`
    (negative), as float32.

    Numbers, scales and products are each rounded to `dtype`, the 16-bit type that the product is
    computed in: so does Triton on targets whose tensor cores do not scale themselves (its
    DecomposeScaledBlocked pattern).

    Args:
        scale: e8m0 exponents as bytes, or floats; its axis `axis` is shorter by the size of a
            group. None: no scaling.
        fast_math: leave out the rule that an exponent of 0xFF makes NaN; it is an
            infinite scale then.
    """
    operand = _through(values, dtype)
    if scale is None:
        return operand
    group = values.shape[axis] // scale.shape[axis]
    factors = _through(_powers_of_two(scale) if scale.dtype.kind == "i" else scale, dtype)
    product = _through(operand * numpy.repeat(factors, group, axis), dtype)
    if fast_math or scale.dtype.kind != "i":
        return product
    no_number = numpy.repeat(scale.view(numpy.uint8) == 0xFF, group, axis)
    return numpy.where(no_number, FLOAT32.type(numpy.nan), product)


def _powers_of_two(exponents: Array) -> Value:
    """e8m0 as the exponent bits of a float32: 0 becomes 0 and not 2**-127, 0xFF infinity."""
    return (exponents.view(numpy.uint8).astype(numpy.uint32) << numpy.uint32(23)).view(FLOAT32)


def _through(value: Array, dtype: numpy.dtype) -> Value:
    """float32, rounded to `dtype` on the way."""
    return widen(convert(value, dtype))
