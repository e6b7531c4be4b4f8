"""Arithmetic of generated code: numbers, matmuls and rounding modes."""

from __future__ import annotations

import functools
import sys
from typing import Any, Literal

import ml_dtypes
import numpy
import torch

# What generated code calls for arithmetic that NumPy does otherwise than a GPU, or slowly.
#
# Floating-point types of 16 bits and fewer are computed in float32 and rounded to nearest even
# once per operation. Integers are stored signed; operations that MLIR calls unsigned view them
# so.


Value = Any
"""A NumPy scalar, an array, or a SymbolicTile."""

Array = numpy.ndarray[Any, Any]

FLOAT32 = numpy.dtype(numpy.float32)
FLOAT64 = numpy.dtype(numpy.float64)

_UNSIGNED: dict[numpy.dtype[Any], numpy.dtype[Any]] = {
    numpy.dtype(kind): numpy.dtype(f"u{numpy.dtype(kind).itemsize}")
    for kind in ("bool", "int8", "int16", "int32", "int64")
}

_TORCH_TYPES = {
    numpy.dtype(numpy.float16): torch.float16,
    numpy.dtype(numpy.float32): torch.float32,
    numpy.dtype(ml_dtypes.bfloat16): torch.bfloat16,
}

_TORCH_FROM = 1024
"""The elements from which torch converts faster than NumPy (10 to 20 times for float16)."""

_SHORT_AXIS = 128
"""Up to so many elements along an axis, torch finds their maximum sooner than NumPy."""


def largest_finite(kind: numpy.dtype) -> float:
    """The largest finite number of a floating-point type, those of 4 to 16 bits included."""
    limits: Any = ml_dtypes.finfo  # its call has no types
    return float(limits(kind).max)


# Conversions


def widen(value: Value) -> Value:
    """A float of fewer than 32 bits as float32, which is exact; anything else unchanged."""
    array = numpy.asarray(value)
    return array if array.dtype in (FLOAT32, FLOAT64) else convert(array, FLOAT32)


def convert(value: Value, dtype: numpy.dtype) -> Value:
    """A floating-point value in another floating-point type, rounded to nearest even.

    8-bit types saturate, infinities too: Triton converts to them with cvt.rn.satfinite.
    """
    array = numpy.asarray(value)
    if array.dtype == dtype:
        return array
    if array.size >= _TORCH_FROM and array.dtype in _TORCH_TYPES and dtype in _TORCH_TYPES:
        return _converted_by_torch(array, dtype)
    if array.dtype.itemsize == 1:
        return convert(_eight_bit_values(array.dtype)[array.view(numpy.uint8)], dtype)
    if dtype.itemsize == 1:
        largest = largest_finite(dtype)
        return numpy.clip(widen(array), -largest, largest).astype(dtype)
    return array.astype(dtype)


def _as_tensor(array: Array) -> torch.Tensor:
    """A tensor that shares the array's memory where torch can:
    it takes no negative strides, and warns of what may not be written.
    """
    shareable = array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if shareable else array.copy())


def _converted_by_torch(array: Array, dtype: numpy.dtype) -> Value:
    bits = array if array.dtype in (FLOAT32, numpy.float16) else array.view(numpy.int16)
    source = _as_tensor(bits)
    if bits is not array:
        source = source.view(torch.bfloat16)
    result = source.to(_TORCH_TYPES[dtype])
    if dtype in (FLOAT32, numpy.float16):
        return result.numpy()
    return result.view(torch.int16).numpy().view(dtype)


@functools.cache
def _eight_bit_values(dtype: numpy.dtype) -> Value:
    """The float32 value of each of the 256 bit patterns of an 8-bit float."""
    return numpy.arange(256, dtype=numpy.uint8).view(dtype).astype(FLOAT32)


def convert_toward_zero(value: Value, dtype: numpy.dtype) -> Value:
    """A floating-point value in a narrower type, rounded toward zero."""
    wide = widen(value)
    nearest = numpy.asarray(wide.astype(dtype))
    too_large = (numpy.abs(nearest.astype(wide.dtype)) > numpy.abs(wide)) & numpy.isfinite(wide)
    bits = nearest.view(f"u{dtype.itemsize}")
    return numpy.where(too_large, bits - bits.dtype.type(1), bits).view(dtype)


def cut_to_tf32(value: Array) -> Value:
    """float32 with the low 13 bits of the fraction ignored, as the tensor core reads .tf32
    operands (PTX ISA, mma).
    """
    return (value.view(numpy.uint32) & numpy.uint32(0xFFFFE000)).view(FLOAT32)


def round_to_tf32(value: Array, ties_to_even: bool = False) -> Value:
    """float32 rounded to tf32's ten bits, halves away from zero (PTX's cvt.rna.tf32.f32)
    or to even (cvt.rn.tf32.f32).
    """
    bits = numpy.asarray(value).view(numpy.uint32)
    below_half = numpy.uint32(0xFFF)
    last = bits >> numpy.uint32(13) & numpy.uint32(1) if ties_to_even else numpy.uint32(1)
    return numpy.where(
        numpy.isfinite(value), cut_to_tf32((bits + below_half + last).view(FLOAT32)), value
    )


def to_integer(value: Value, dtype: numpy.dtype) -> Value:
    """A float as an integer, toward zero, and beyond the integer's range what an NVIDIA
    GPU's cvt.rzi gives.

    That saturates (PTX ISA, cvt). 8-bit integers are the low byte of a 16-bit conversion. NaN is 0,
    but the integer with only its top bit set where source or result has 64 bits; seen on an H200.
    """
    wide = widen(value)
    through = numpy.dtype(f"{dtype.kind}{max(dtype.itemsize, 2)}")
    limits = numpy.iinfo(through)
    low, high = float(limits.min), float(limits.max)
    inside = (wide > low - 1) & (wide < high + 1 if high < 2**53 else wide < high)
    if numpy.all(inside):
        return wide.astype(through).astype(dtype)
    saturated = numpy.where(wide > 0, through.type(limits.max), through.type(limits.min))
    safe = numpy.where(inside, wide, 0).astype(through)
    has_64_bits = 8 in (wide.dtype.itemsize, through.itemsize)
    of_nan = numpy.array(int(has_64_bits) << (8 * through.itemsize - 1), f"u{through.itemsize}")
    saturated = numpy.where(numpy.isnan(wide), of_nan.view(through), saturated)
    return numpy.where(inside, safe, saturated).astype(dtype)


def to_unsigned_integer(value: Value, dtype: numpy.dtype) -> Value:
    """`to_integer` for an unsigned integer, whose bits are kept in the signed `dtype`."""
    return signed(to_integer(value, _UNSIGNED[dtype]), dtype)


def unsigned(value: Value) -> Value:
    """The same bits read as an unsigned integer."""
    array = numpy.asarray(value)
    return array.view(_UNSIGNED[array.dtype])


def signed(value: Value, dtype: numpy.dtype) -> Value:
    """Unsigned bits stored as the signed `dtype` of the same width."""
    array = numpy.asarray(value)
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)


def reinterpret(value: Value, dtype: numpy.dtype) -> Value:
    """The same bits under another type of the same width."""
    array = numpy.asarray(value)
    if array.dtype == dtype:
        return array
    if dtype == numpy.bool_:
        return (array & 1).astype(numpy.bool_)
    return array.view(dtype)


# Integer arithmetic


def divide_toward_zero(a: Value, b: Value) -> Value:
    """C's division of integers: NumPy's rounds down. By zero, it gives what an H200 does."""
    a, b = numpy.asarray(a), numpy.asarray(b)
    quotient = numpy.floor_divide(a, b)
    if (a.size and a.min() < 0) or (b.size and b.min() < 0):
        inexact = (a - quotient * b != 0) & ((a < 0) != (b < 0))
        quotient = quotient + inexact.astype(quotient.dtype)
    return quotient if b.all() else numpy.where(b == 0, _divided_by_zero(a), quotient)


def _divided_by_zero(a: Array) -> Value:
    """All ones; of 64-bit integers that fit 32 bits, which are divided as such,
    32 ones (seen on an H200).
    """
    ones = ~a.dtype.type(0)
    if a.dtype.itemsize < 8:
        return ones
    fits = a.view(numpy.uint64) <= numpy.uint64(0xFFFFFFFF)
    return numpy.where(fits, a.dtype.type(0xFFFFFFFF), ones)


def remainder(a: Value, b: Value) -> Value:
    """C's remainder of integers; of a division by zero, the dividend, as an H200 gives it."""
    result = numpy.fmod(a, b)
    divisor = numpy.asarray(b)
    return result if divisor.all() else numpy.where(divisor == 0, a, result)


def extreme(ufunc: numpy.ufunc, a: Value, b: Value) -> Value:
    """`ufunc`, one of maximum, minimum, fmax and fmin, for which +0 is larger
    than -0 (IEEE 754-2019, 9.6).
    """
    a, b = numpy.asarray(a), numpy.asarray(b)
    result = ufunc(a, b)
    fewer, more = (a, b) if a.size <= b.size else (b, a)
    zeros = fewer == 0
    if not zeros.any():
        return result
    zeros = more == 0 if zeros.size == 1 else zeros & (more == 0)
    if not zeros.any():
        return result
    # The sum of zeros is -0 if both are, which is their maximum.
    of_zeros = a + b if ufunc in (numpy.maximum, numpy.fmax) else -(-a - b)
    return numpy.where(zeros, of_zeros, result)


def multiply_high(a: Value, b: Value) -> Value:
    """The high half of the product of two unsigned 32- or 64-bit integers."""
    a, b = unsigned(a), unsigned(b)
    if a.dtype.itemsize == 4:
        factor, other = (a, b) if a.size < b.size else (b, a)
        wide = numpy.asarray(other * factor.astype(numpy.uint64))
        high = 1 if sys.byteorder == "little" else 0
        return wide.reshape(*wide.shape, 1).view(numpy.uint32)[..., high]
    return _multiply_high_64(a, b)


def _multiply_high_64(a: Array, b: Array) -> Value:
    """The schoolbook product of 32-bit halves (Hacker's Delight, 8-2)."""
    half, mask = numpy.uint64(32), numpy.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + (a_low * b_low >> half)
    carry = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (carry >> half)


def leading_zeros(value: Array) -> Array:
    """Return how many zero bits precede the first set bit of an unsigned or signed integer, in
    uint64.
    """
    bits = 8 * value.dtype.itemsize
    rest = value.view(f"u{value.dtype.itemsize}").astype(numpy.uint64)
    for step in (1, 2, 4, 8, 16, 32):
        rest = rest | rest >> numpy.uint64(step)
    return numpy.uint64(bits) - numpy.bitwise_count(rest)


def reversed_bits(value: Array) -> Array:
    """An unsigned integer with its bits in the opposite order."""
    size = value.dtype.itemsize
    bytes_ = numpy.ascontiguousarray(value)[..., None].view(numpy.uint8)[..., ::-1]
    turned = _REVERSED_BYTES[bytes_]
    return numpy.ascontiguousarray(turned).view(f"u{size}")[..., 0]


_REVERSED_BYTES = numpy.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], numpy.uint8)


# Functions


def erf(value: Value) -> Value:
    """The error function; NumPy has none."""
    return torch.erf(_as_tensor(numpy.asarray(value))).numpy()


def fma(a: Value, b: Value, c: Value, dtype: numpy.dtype) -> Value:
    """a * b + c with one rounding; float64 too, short of overflow and underflow inside (Boldo
    and Melquiond, 2008).
    """
    a, b, c = (numpy.asarray(operand, FLOAT64) for operand in (a, b, c))
    if dtype != FLOAT64:
        wide = rounded_to_odd(a * b, c)
        return wide.astype(dtype) if dtype == FLOAT32 else _narrowed_to_odd(wide).astype(dtype)
    product, low = exact_product(a, b)
    small, error = exact_sum(c, low)
    large, rest = exact_sum(product, small)
    result = large + rounded_to_odd(rest, error)
    return numpy.where(numpy.isfinite(result), result, a * b + c)


def exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what was rounded off (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and what was rounded off (Dekker, with Veltkamp's splitting)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, low


def _halves(value: Array) -> tuple[Array, Array]:
    shifted = value * float(2**27 + 1)
    high = shifted - (shifted - value)
    return high, value - high


def rounded_to_odd(a: Array, b: Array) -> Value:
    """a + b in float64, where an inexact sum takes its neighbor with an odd last bit:
    rounding once more is then right.
    """
    return _made_odd(*exact_sum(a, b))


def _narrowed_to_odd(value: Array) -> Value:
    """float64 as float32, rounded to odd."""
    narrow = numpy.asarray(value.astype(FLOAT32))
    return _made_odd(narrow, value - narrow)


def _made_odd(rounded: Array, error: Array) -> Value:
    """The neighbor with an odd last bit, toward `error`, of each rounded value
    whose last bit is even and whose error is not 0.
    """
    bits = numpy.asarray(rounded).view(f"i{rounded.dtype.itemsize}")
    inexact = (error != 0) & numpy.isfinite(rounded) & (bits & 1 == 0)
    step = numpy.where((error > 0) == (rounded > 0), 1, -1).astype(bits.dtype)
    return numpy.where(inexact, bits + step, bits).view(rounded.dtype)


def reduce(ufunc: numpy.ufunc, value: Array, axis: int) -> Value:
    """Combine all elements along an axis in the tile's own type;
    narrow floats in float32, rounded once at the end.
    """
    if value.dtype.kind == "i" and ufunc in (numpy.add, numpy.multiply):
        return ufunc.reduce(value, axis=axis, dtype=value.dtype)
    if value.dtype.kind == "i":
        return ufunc.reduce(value, axis=axis)
    return convert(ufunc.reduce(widen(value), axis=axis), value.dtype)


def accumulate(ufunc: numpy.ufunc, value: Array, axis: int, reverse: bool) -> Value:
    """Combine each element with all before it along an axis, one after the other."""
    ordered = numpy.flip(value, axis) if reverse else value
    keywords = {"dtype": value.dtype} if ufunc in (numpy.add, numpy.multiply) else {}
    result = ufunc.accumulate(ordered, axis=axis, **keywords)
    return numpy.flip(result, axis) if reverse else result


def reduce_ignoring_nan(ufunc: numpy.ufunc, value: Array, axis: int) -> Value:
    """maximum or minimum along an axis, NaN only where every element is NaN.

    NumPy's fmax and fmin are several times slower than maximum and minimum,
    so they run only where a NaN turned up. Along a short axis torch is several times faster again.
    """
    if value.dtype == FLOAT32 and value.size >= _TORCH_FROM and value.shape[axis] <= _SHORT_AXIS:
        along = torch.amax if ufunc is numpy.maximum else torch.amin
        result = along(_as_tensor(value), axis).numpy()[()]
    else:
        result = ufunc.reduce(value, axis=axis)
    if not numpy.isnan(result).any():
        return result
    return (numpy.fmax if ufunc is numpy.maximum else numpy.fmin).reduce(value, axis=axis)


# Matmuls as tensor cores compute them: narrow operands multiplied exactly, sums kept in float32.


BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)


def dot(a: Array, b: Array, c: Array, input_precision: str) -> Value:
    """a @ b + c over the last two dimensions.

    Integers are exact. Floats of 16 bits and fewer are multiplied exactly and accumulated in
    float32. What happens to float32 operands is `input_precision`: "ieee" leaves them alone, "tf32"
    cuts them, "tf32x3", "bf16x3" and "bf16x6" split them into two or three narrow parts and add up
    the products that matter, as Triton's pass f32-dot-tc does.
    """
    if c.dtype.kind == "i":
        # Exact while |a @ b| < 2**53: BLAS has no integer product, float64 has the bits.
        whole = numpy.matmul(a.astype(FLOAT64), b.astype(FLOAT64)).astype(numpy.int64)
        return whole.astype(c.dtype) + c
    product = _float_product(a, b, input_precision)
    if c.dtype == product.dtype:
        in_place = c.ndim <= product.ndim and c.size <= product.size
        return numpy.add(product, c, out=product if in_place else None)
    return convert(product + widen(c), c.dtype)


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
    """An infinite operand leaves NaN in its small part; the large parts' product is right."""
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
    return widen(convert(value, dtype))


# IEEE 754 arithmetic in float32 and float64 in every rounding mode: what PTX and libdevice spell
# `.rn`, `.rz`, `.rd`, `.ru`.
#
# NumPy rounds to nearest even. The other modes come from that result and the sign of what was
# rounded off, which is computed exactly; of float64 short of overflow and underflow inside.


Mode = Literal["rn", "rz", "rd", "ru"]
"""To nearest even, toward zero, down, up."""


def add_in_mode(a: Any, b: Any, mode: Mode = "rn") -> Any:
    """a + b. A sum of 0 that is exact is -0 when rounded down,
    unless both are +0 (IEEE 754, 6.3).
    """
    a, b = numpy.broadcast_arrays(a, b)
    total, error = exact_sum(a, b)
    result = _directed(total, error, mode, a, b)
    if mode == "rd":
        positive = ~numpy.signbit(a) & ~numpy.signbit(b)
        result = numpy.where((total == 0) & (error == 0) & ~positive, -abs(result), result)
    return result


def subtract_in_mode(a: Any, b: Any, mode: Mode = "rn") -> Any:
    return add_in_mode(a, -numpy.asarray(b), mode)


def multiply_in_mode(a: Any, b: Any, mode: Mode = "rn") -> Any:
    a, b = numpy.broadcast_arrays(a, b)
    if a.dtype == FLOAT32:
        return convert_in_mode(a.astype(FLOAT64) * b, FLOAT32, mode)
    return _directed(*exact_product(a, b), mode, a, b)


def divide_in_mode(a: Any, b: Any, mode: Mode = "rn") -> Any:
    a, b = numpy.broadcast_arrays(a, b)
    quotient = numpy.asarray(a / b)
    if mode == "rn":
        return quotient
    rest = _exactly(-quotient, b, a)
    finite = numpy.isfinite(a) & (b != 0) & numpy.isfinite(b)
    beyond = numpy.isinf(quotient) & finite
    error = numpy.where(beyond, -quotient, rest * numpy.sign(b))
    return _toward(quotient, numpy.where(finite, error, 0), mode)


def square_root_in_mode(a: Any, mode: Mode = "rn") -> Any:
    a = numpy.asarray(a)
    root = numpy.asarray(numpy.sqrt(a))
    if mode == "rn":
        return root
    return _toward(root, numpy.where(numpy.isfinite(root), _exactly(-root, root, a), 0), mode)


def fma_in_mode(a: Any, b: Any, c: Any, mode: Mode = "rn") -> Any:
    """a * b + c, rounded once."""
    a, b, c = numpy.broadcast_arrays(a, b, c)
    if a.dtype == FLOAT32:
        wide = [operand.astype(FLOAT64) for operand in (a, b, c)]
        return convert_in_mode(rounded_to_odd(wide[0] * wide[1], wide[2]), FLOAT32, mode)
    nearest = fma(a, b, c, FLOAT64)
    return nearest if mode == "rn" else _directed(nearest, _rest(a, b, c, nearest), mode, a, b, c)


def convert_in_mode(value: Any, dtype: numpy.dtype, mode: Mode = "rn") -> Any:
    """A float64 number as float32, or an integer as either."""
    value = numpy.asarray(value)
    nearest = value.astype(dtype)
    if mode == "rn":
        return nearest
    # The type that holds every float64 and every 64-bit integer.
    error = value.astype(numpy.longdouble) - nearest
    return _directed(nearest, error, mode, value)


def _directed(nearest: Any, error: Any, mode: Mode, *operands: Array) -> Any:
    """`nearest` rounded by `mode` instead, where it overflowed too: the exact result is finite."""
    if mode == "rn":
        return nearest
    finite = numpy.logical_and.reduce([numpy.isfinite(operand) for operand in operands])
    error = numpy.where(numpy.isinf(nearest), -numpy.asarray(nearest), error)
    return _toward(nearest, numpy.where(finite, error, 0), mode)


def _toward(nearest: Any, error: Any, mode: Mode) -> Any:
    """The nearest number, or its neighbor on the side of `mode`; `error` is exact less nearest."""
    kind = numpy.asarray(nearest).dtype.type
    match mode:
        case "rz":
            inward = (error < 0) & (nearest > 0) | (error > 0) & (nearest < 0)
            return numpy.where(inward, numpy.nextafter(nearest, kind(0)), nearest)
        case "rd":
            return numpy.where(error < 0, numpy.nextafter(nearest, kind(-numpy.inf)), nearest)
        case "ru":
            return numpy.where(error > 0, numpy.nextafter(nearest, kind(numpy.inf)), nearest)
        case _:
            return nearest


def _exactly(a: Array, b: Array, c: Array) -> Any:
    """a * b + c, where that is near 0: its sign is right."""
    if a.dtype == FLOAT32:
        return a.astype(FLOAT64) * b.astype(FLOAT64) + c
    return fma(a, b, c, FLOAT64)


def _rest(a: Array, b: Array, c: Array, nearest: Any) -> Any:
    product, low = exact_product(a, b)
    total, error = exact_sum(product, c)
    small, smaller = exact_sum(error, low)
    large, rest = exact_sum(total - nearest, small)
    return large + (rest + smaller)
