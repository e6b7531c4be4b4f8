"""Arithmetic in every rounding mode, against Python's fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kernellab.interpreter import numerics

MODES = ("rn", "rz", "rd", "ru")


def numbers(dtype: type[np.floating[Any]], seed: int) -> np.ndarray:
    """Numbers of many sizes, small integers, and numbers next to powers of two."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal(200) * 2.0 ** rng.integers(-20, 20, 200)
    near = 2.0 ** rng.integers(-3, 4, 50) * (1 + rng.choice([-1, 0, 1], 50) * 2.0**-20)
    whole = rng.integers(-5, 6, 50).astype(float)
    return np.concatenate([spread, near, whole]).astype(dtype)


def lies_right(got: float, exact: Fraction, mode: str, dtype: Any) -> bool:
    """Whether `got` is `exact` rounded: no other number of the type lies between them,
    and it is on the right side.
    """
    value = Fraction(got)
    if value == exact:
        return True
    below, above = (Fraction(float(np.nextafter(dtype(got), dtype(s * np.inf)))) for s in (-1, 1))
    match mode:
        case "rd":
            return value < exact < above
        case "ru":
            return below < exact < value
        case "rz":
            return value < exact < above if exact > 0 else below < exact < value
        case _:
            return abs(value - exact) <= min(abs(above - exact), abs(below - exact))


def exact_root(got: float, x: float, mode: str, dtype: Any) -> bool:
    """As `lies_right`, by squares."""
    root, square = Fraction(got), Fraction(x)
    if root**2 == square:
        return True
    above = Fraction(float(np.nextafter(dtype(got), dtype(np.inf))))
    below = Fraction(float(np.nextafter(dtype(got), dtype(0))))
    if mode == "ru":
        return below**2 < square < root**2
    return mode == "rn" or root**2 < square < above**2


OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Fraction], int]] = {
    "add": (numerics.add_in_mode, lambda a, b: a + b, 2),
    "subtract": (numerics.subtract_in_mode, lambda a, b: a - b, 2),
    "multiply": (numerics.multiply_in_mode, lambda a, b: a * b, 2),
    "divide": (numerics.divide_in_mode, lambda a, b: a / b, 2),
    "fma": (numerics.fma_in_mode, lambda a, b, c: a * b + c, 3),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_nearest_number_on_the_right_side(name: str, mode: Any, dtype: Any) -> None:
    operation, exactly, count = OPERATIONS[name]
    operands = [numbers(dtype, seed) for seed in range(count)]
    if name == "divide":
        operands[1][operands[1] == 0] = 3
    if name == "fma":
        operands[2][::2] = -(operands[0] * operands[1])[::2]
    got = operation(*operands, mode)
    assert got.dtype == dtype
    for lane, result in enumerate(got.tolist()):
        exact = exactly(*(Fraction(operand[lane].item()) for operand in operands))
        assert lies_right(result, exact, mode, dtype), (lane, result, float(exact))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
def test_square_roots(mode: Any, dtype: Any) -> None:
    x = abs(numbers(dtype, 7))
    for root, square in zip(numerics.square_root_in_mode(x, mode).tolist(), x.tolist()):
        assert exact_root(root, square, mode, dtype), (root, square)


@pytest.mark.parametrize("mode", MODES)
def test_integers_to_floats(mode: Any) -> None:
    x = np.array([2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**62 + 1, -(2**63), 2**63 - 1, 7])
    for result, integer in zip(
        numerics.convert_in_mode(x, np.dtype(np.float32), mode).tolist(), x.tolist()
    ):
        assert lies_right(result, Fraction(integer), mode, np.float32)


def test_what_overflows_underflows_and_is_no_number() -> None:
    largest, tiny = np.float32(3.4028235e38), np.float32(1e-45)
    with np.errstate(all="ignore"):
        assert numerics.add_in_mode(largest, largest, "rz") == largest
        assert numerics.add_in_mode(largest, largest, "ru") == math.inf
        assert numerics.multiply_in_mode(-largest, largest, "ru") == -largest
        assert numerics.multiply_in_mode(tiny, np.float32(0.25), "ru") == tiny
        assert numerics.divide_in_mode(largest, np.float32(0.5), "rd") == largest
        assert numerics.divide_in_mode(np.float32(1), np.float32(0), "rz") == math.inf
        assert numerics.add_in_mode(np.float32(math.inf), np.float32(1), "rz") == math.inf
        assert math.isnan(numerics.fma_in_mode(np.float32(math.nan), largest, largest, "rd"))
        assert math.isnan(numerics.square_root_in_mode(np.float32(-1), "ru"))
        assert numerics.convert_in_mode(np.float64(1e300), np.dtype(np.float32), "rz") == largest
        zero = numerics.add_in_mode(np.float32(1), np.float32(-1), "rd")
        assert zero == 0
        assert np.signbit(zero)
