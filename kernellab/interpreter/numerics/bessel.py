"""Bessel functions of whole order in float64: torch's are good for nine digits.

Errors are a few units of the sixteenth digit of the function's size thereabouts,
not of its value near a zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

Array = Any
"""A NumPy array or scalar of float64."""

_LARGE = 25.0
"""From here on the asymptotic expansions have all digits."""

_POINTS = 128
"""Of the trapezoidal rule: more than |x| and the order together, and 60 more."""


def first_kind(order: Array, x: Array) -> Array:
    """J of a whole order; NaN for a negative one, as libdevice has it."""
    return numpy.vectorize(_first_kind_of, otypes=[numpy.float64])(order, x)


def second_kind(order: Array, x: Array) -> Array:
    """Y of a whole order; NaN for a negative one, as libdevice has it."""
    return numpy.vectorize(_second_kind_of, otypes=[numpy.float64])(order, x)


def j(order: int, x: Array) -> Array:
    """J0 or J1."""
    x = numpy.asarray(x, numpy.float64)
    size = numpy.abs(x)
    near, far = _small_j(numpy.minimum(size, _LARGE))[order], _asymptotic(order, size)[0]
    value: Array = numpy.where(size <= _LARGE, near, far)
    value = numpy.where(numpy.isinf(x), 0.0, value)
    value = numpy.where(x < 0, -value, value) if order else value
    return numpy.where(numpy.isnan(x), x, value)


def y(order: int, x: Array) -> Array:
    """Y0 or Y1: -inf at 0, NaN below."""
    x = numpy.asarray(x, numpy.float64)
    near = _small_y(order, numpy.clip(x, 0, _LARGE))
    value: Array = numpy.where(x <= _LARGE, near, _asymptotic(order, x)[1])
    value = numpy.where(numpy.isinf(x), 0.0, value)
    value = numpy.where(x == 0, -numpy.inf, value)
    return numpy.where((x < 0) | numpy.isnan(x), numpy.nan, value)


def _small_j(x: Array) -> Array:
    """J of all orders up to 60: the trapezoidal rule on Bessel's integral (DLMF 10.9.2),
    exact but for rounding.
    """
    angles = 2 * numpy.pi * numpy.arange(_POINTS) / _POINTS
    wave = numpy.exp(1j * x[..., None] * numpy.sin(angles))
    return numpy.moveaxis((numpy.fft.fft(wave) / _POINTS).real, -1, 0)[:60]


def _small_y(order: int, x: Array) -> Array:
    """Neumann's expansion (Abramowitz and Stegun 9.1.88)."""
    j_of = _small_j(x)
    logarithm = numpy.log(x / 2) + numpy.euler_gamma - order
    total = logarithm * j_of[order]
    for k in range(1, (60 - order) // 2):
        weight = (order + 2 * k) / (k * (order + k))
        total = total - (-1) ** k * weight * j_of[order + 2 * k]
    return 2 / numpy.pi * (total - j_of[0] / x if order else total)


def _asymptotic(order: int, x: Array) -> tuple[Array, Array]:
    """J and Y by Hankel's expansions (DLMF 10.17.3 and 10.17.4)."""
    x = numpy.maximum(x, _LARGE)
    even, odd, term = numpy.zeros_like(x), numpy.zeros_like(x), numpy.ones_like(x)
    for k in range(24):
        sign = (-1) ** (k // 2)
        if k % 2:
            odd = odd + sign * term
        else:
            even = even + sign * term
        term = term * (4 * order**2 - (2 * k + 1) ** 2) / ((k + 1) * 8 * x)
    phase = x - order * numpy.pi / 2 - numpy.pi / 4
    sine, cosine, size = numpy.sin(phase), numpy.cos(phase), numpy.sqrt(2 / (numpy.pi * x))
    return size * (cosine * even - sine * odd), size * (sine * even + cosine * odd)


def _first_kind_of(order: int, x: float) -> float:
    if order < 0 or math.isnan(x):
        return math.nan
    if order > abs(x):
        return _downward(order, x)
    return _upward(order, x, float(j(0, x)), float(j(1, x)))


def _second_kind_of(order: int, x: float) -> float:
    if order < 0 or math.isnan(x):
        return math.nan
    return _upward(order, x, float(y(0, x)), float(y(1, x)))


def _upward(order: int, x: float, zeroth: float, first: float) -> float:
    """By f(k + 1) = 2k / x f(k) - f(k - 1) (DLMF 10.6.1), which is stable for Y,
    and for J up to x.
    """
    below, here = zeroth, first
    if order == 0:
        return zeroth
    for k in range(1, order):
        if math.isinf(here):
            break
        below, here = here, 2 * k / x * here - below
    return here


def _downward(order: int, x: float) -> float:
    """Miller's way: from far above the order down, then scaled so that J0 + 2
    J2 + 2 J4 + ... is 1.
    """
    if x == 0:
        return 0.0
    above, here, wanted, total = 0.0, 1e-300, 0.0, 0.0
    start = 2 * ((order + 30 + int(10 * math.sqrt(order))) // 2)
    for k in range(start, 0, -1):
        above, here = here, 2 * k / x * here - above
        if k - 1 == order:
            wanted = here
        if k % 2:
            total += here if k == 1 else 2 * here
        if abs(here) > 1e200:
            above, here, wanted, total = (v * 1e-250 for v in (above, here, wanted, total))
    return wanted / total
