"""Conversions and rounding bit for bit as on an H200, by digests; modes against fractions."""

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import kernellab
from kernellab.interpreter import numerics
from tests.kernels.interp import arithmetic, foreign

COUNT = 65_536

CONVERTED = {
    ("float16", "float8_e4m3fn"): "a9ed1528", ("float16", "float8_e5m2"): "e9391c0c",
    ("float16", "bfloat16"): "1cdf887b", ("bfloat16", "float8_e4m3fn"): "1cfa3773",
    ("bfloat16", "float8_e5m2"): "397221e8", ("bfloat16", "float16"): "5150f607",
    ("float32", "float8_e4m3fn"): "a16c6fb9", ("float32", "float8_e5m2"): "1363ca3a",
    ("float32", "float16"): "7c989a5d", ("float32", "bfloat16"): "c7a2ca35",
}  # fmt: skip
TOWARD_ZERO = {"float8_e5m2": "03009f6d", "float16": "455b2713", "bfloat16": "42ed6cf0"}
E4B15 = "07c8aaad"
ROUNDED_AS_ASKED = [
    "37d481f8", "9ceb37f4", "3275a1ce", "bac533c1", "61725d27", "dea7d6df", "f05b4ce3", "c41da96b",
    "0ea41fca",
]  # fmt: skip


def digest(tensor: torch.Tensor) -> str:
    return hashlib.md5(tensor.view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def numbers(kind: str) -> torch.Tensor:
    """All numbers of a 16-bit type, with 0 for NaN; of float32, random ones of many sizes."""
    if kind == "float32":
        rng = np.random.default_rng(0)
        values = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-16, 18, COUNT)
        return torch.from_numpy(values.astype(np.float32))
    x = torch.arange(COUNT, dtype=torch.int32).to(torch.int16).view(getattr(torch, kind)).clone()
    x[x != x] = 0
    return x


@pytest.mark.parametrize(("source", "target"), CONVERTED)
def test_converted(source, target) -> None:
    out = torch.zeros(COUNT, dtype=getattr(torch, target))
    kernellab.run(arithmetic.converted, (1,), numbers(source), out, N=COUNT)
    assert digest(out) == CONVERTED[source, target]


@pytest.mark.parametrize("target", TOWARD_ZERO)
def test_converted_toward_zero(target) -> None:
    out = torch.zeros(COUNT, dtype=getattr(torch, target))
    kernellab.run(arithmetic.converted_toward_zero, (1,), numbers("float32"), out, N=COUNT)
    assert digest(out) == TOWARD_ZERO[target]


def test_converted_to_e4b15() -> None:
    bits, back = torch.zeros(COUNT, dtype=torch.uint8), torch.zeros(COUNT, dtype=torch.float16)
    kernellab.run(foreign.through_e4b15, (1,), numbers("float16"), back, bits, N=COUNT)
    assert digest(bits) == E4B15


def test_rounded_as_asked() -> None:
    x, out = numbers("float32"), torch.zeros(9, 4096)
    kernellab.run(
        foreign.rounded_as_asked, (1,), x[:4096].clone(), x[4096:8192].clone(), out, N=4096
    )
    assert [digest(row) for row in out] == ROUNDED_AS_ASKED


MODES = ("rn", "rz", "rd", "ru")


def spread_numbers(dtype: type[np.floating[Any]], seed: int) -> np.ndarray:
    """Numbers of many sizes, small integers, and numbers next to powers of two."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal(200) * 2.0 ** rng.integers(-20, 20, 200)
    near = 2.0 ** rng.integers(-3, 4, 50) * (1 + rng.choice([-1, 0, 1], 50) * 2.0**-20)
    whole = rng.integers(-5, 6, 50).astype(float)
    return np.concatenate([spread, near, whole]).astype(dtype)


def lies_right(got: float, exact: Fraction, mode: str, dtype: Any) -> bool:
    """Whether `got` is `exact` rounded: no other number lies between, and the side is right."""
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
def test_the_nearest_number_on_the_right_side(name, mode, dtype) -> None:
    operation, exactly, count = OPERATIONS[name]
    operands = [spread_numbers(dtype, seed) for seed in range(count)]
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
def test_square_roots(mode, dtype) -> None:
    x = abs(spread_numbers(dtype, 7))
    for root, square in zip(numerics.square_root_in_mode(x, mode).tolist(), x.tolist()):
        assert exact_root(root, square, mode, dtype), (root, square)


@pytest.mark.parametrize("mode", MODES)
def test_integers_to_floats(mode) -> None:
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
