"""IEEE 754 arithmetic in float32 and float64 in every rounding mode:
what PTX and libdevice spell `.rn`, `.rz`, `.rd`, `.ru`.

NumPy rounds to nearest even. The other modes come from that result and the sign of what was rounded
off, which is computed exactly; of float64 short of overflow and underflow inside.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy

from kernellab.interpreter.numerics import numerics
from kernellab.interpreter.numerics.numerics import (
    FLOAT32,
    FLOAT64,
    exact_product,
    exact_sum,
    rounded_to_odd,
)

Array = numpy.ndarray[Any, Any]

Mode = Literal["rn", "rz", "rd", "ru"]
"""To nearest even, toward zero, down, up."""


def add(a: Any, b: Any, mode: Mode = "rn") -> Any:
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


def subtract(a: Any, b: Any, mode: Mode = "rn") -> Any:
    """a - b."""
    return add(a, -numpy.asarray(b), mode)


def multiply(a: Any, b: Any, mode: Mode = "rn") -> Any:
    """a * b."""
    a, b = numpy.broadcast_arrays(a, b)
    if a.dtype == FLOAT32:
        return convert(a.astype(FLOAT64) * b, FLOAT32, mode)
    return _directed(*exact_product(a, b), mode, a, b)


def divide(a: Any, b: Any, mode: Mode = "rn") -> Any:
    """a / b."""
    a, b = numpy.broadcast_arrays(a, b)
    quotient = numpy.asarray(a / b)
    if mode == "rn":
        return quotient
    rest = _exactly(-quotient, b, a)
    finite = numpy.isfinite(a) & (b != 0) & numpy.isfinite(b)
    beyond = numpy.isinf(quotient) & finite
    error = numpy.where(beyond, -quotient, rest * numpy.sign(b))
    return _toward(quotient, numpy.where(finite, error, 0), mode)


def square_root(a: Any, mode: Mode = "rn") -> Any:
    """The square root of a."""
    a = numpy.asarray(a)
    root = numpy.asarray(numpy.sqrt(a))
    if mode == "rn":
        return root
    return _toward(root, numpy.where(numpy.isfinite(root), _exactly(-root, root, a), 0), mode)


def fma(a: Any, b: Any, c: Any, mode: Mode = "rn") -> Any:
    """a * b + c, rounded once."""
    a, b, c = numpy.broadcast_arrays(a, b, c)
    if a.dtype == FLOAT32:
        wide = [operand.astype(FLOAT64) for operand in (a, b, c)]
        return convert(rounded_to_odd(wide[0] * wide[1], wide[2]), FLOAT32, mode)
    nearest = numerics.fma(a, b, c, FLOAT64)
    return nearest if mode == "rn" else _directed(nearest, _rest(a, b, c, nearest), mode, a, b, c)


def convert(value: Any, dtype: numpy.dtype, mode: Mode = "rn") -> Any:
    """A float64 number as float32, or an integer as either."""
    value = numpy.asarray(value)
    nearest = value.astype(dtype)
    if mode == "rn":
        return nearest
    # The type that holds every float64 and every 64-bit integer.
    error = value.astype(numpy.longdouble) - nearest
    return _directed(nearest, error, mode, value)


def _directed(nearest: Any, error: Any, mode: Mode, *operands: Array) -> Any:
    """`nearest` rounded by `mode` instead, where it overflowed too:
    the exact result is below infinity.
    """
    if mode == "rn":
        return nearest
    finite = numpy.logical_and.reduce([numpy.isfinite(operand) for operand in operands])
    error = numpy.where(numpy.isinf(nearest), -numpy.asarray(nearest), error)
    return _toward(nearest, numpy.where(finite, error, 0), mode)


def _toward(nearest: Any, error: Any, mode: Mode) -> Any:
    """The nearest number, or its neighbor on the side that `mode` asks for;
    `error` is the exact result less the nearest.
    """
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
    return numerics.fma(a, b, c, FLOAT64)


def _rest(a: Array, b: Array, c: Array, nearest: Any) -> Any:
    """a * b + c - nearest, in float64."""
    product, low = exact_product(a, b)
    total, error = exact_sum(product, c)
    small, smaller = exact_sum(error, low)
    large, rest = exact_sum(total - nearest, small)
    return large + (rest + smaller)
