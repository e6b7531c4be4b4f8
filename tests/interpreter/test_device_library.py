"""Functions of the device libraries, one by one, against mpmath and Python's own integers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import triton.language.extra.cuda.libdevice as libdevice
import triton.language.extra.hip.libdevice as ocml

from kernellab.interpreter.foreign_code import FUNCTIONS


@pytest.mark.parametrize("module", [libdevice, ocml], ids=["libdevice", "ocml"])
def test_every_function_that_triton_names_is_known(module: Any) -> None:
    symbols = set(re.findall(r'"(__\w+)"', Path(module.__file__).read_text()))
    assert len(symbols) > 90
    assert not symbols - set(FUNCTIONS)


REAL = np.array([-7.3, -2.0, -1.5, -0.9, -0.25, 0.0, 1e-9, 0.3, 0.5, 0.99, 1.0, 2.5, 4.0, 11.7])
UNIT, POSITIVE, ABOVE_ONE = REAL[(abs(REAL) < 1)], REAL[REAL > 0], REAL[REAL >= 1]

OF_ONE: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "acos": (mpmath.acos, UNIT),
    "acosh": (mpmath.acosh, ABOVE_ONE),
    "asin": (mpmath.asin, UNIT),
    "asinh": (mpmath.asinh, REAL),
    "atan": (mpmath.atan, REAL),
    "atanh": (mpmath.atanh, UNIT),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), REAL),
    "ceil": (mpmath.ceil, REAL),
    "cos": (mpmath.cos, REAL),
    "cosh": (mpmath.cosh, REAL),
    "cospi": (mpmath.cospi, REAL),
    "cyl_bessel_i0": (lambda x: mpmath.besseli(0, x), REAL),
    "cyl_bessel_i1": (lambda x: mpmath.besseli(1, x), REAL),
    "erf": (mpmath.erf, REAL),
    "erfc": (mpmath.erfc, REAL),
    "erfcinv": (lambda x: mpmath.erfinv(1 - x), UNIT[UNIT > 0]),
    "erfcx": (lambda x: mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x), REAL),
    "erfinv": (mpmath.erfinv, UNIT),
    "exp": (mpmath.exp, REAL),
    "exp10": (lambda x: mpmath.mpf(10) ** x, REAL),
    "exp2": (lambda x: mpmath.mpf(2) ** x, REAL),
    "expm1": (mpmath.expm1, REAL),
    "fabs": (abs, REAL),
    "floor": (mpmath.floor, REAL),
    "j0": (mpmath.j0, REAL),
    "j1": (mpmath.j1, REAL),
    "lgamma": (lambda x: mpmath.re(mpmath.loggamma(x)), REAL[(REAL > 0) | (REAL % 1 != 0)]),
    "log": (mpmath.log, POSITIVE),
    "log10": (mpmath.log10, POSITIVE),
    "log1p": (mpmath.log1p, UNIT),
    "log2": (lambda x: mpmath.log(x, 2), POSITIVE),
    "logb": (lambda x: mpmath.floor(mpmath.log(x, 2)), POSITIVE),
    "nearbyint": (mpmath.nint, REAL),
    "normcdf": (mpmath.ncdf, REAL),
    "normcdfinv": (lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(x) - 1), UNIT[UNIT > 0]),
    "rcbrt": (lambda x: 1 / mpmath.cbrt(x), POSITIVE),
    "rint": (mpmath.nint, REAL),
    "round": (lambda x: mpmath.sign(x) * mpmath.floor(abs(mpmath.mpf(x)) + 0.5), REAL),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), POSITIVE),
    "sin": (mpmath.sin, REAL),
    "sinh": (mpmath.sinh, REAL),
    "sinpi": (mpmath.sinpi, REAL),
    "sqrt": (mpmath.sqrt, POSITIVE),
    "tan": (mpmath.tan, REAL),
    "tanh": (mpmath.tanh, REAL),
    "tgamma": (mpmath.gamma, REAL[(REAL > 0) | (REAL % 1 != 0)]),
    "trunc": (lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), REAL),
    "y0": (lambda x: mpmath.bessely(0, x), POSITIVE),
    "y1": (lambda x: mpmath.bessely(1, x), POSITIVE),
}


@pytest.mark.parametrize("suffix", ["", "f"])
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_number(name: str, suffix: str) -> None:
    """float64 near its precision (Bessel functions lose some near their zeros),
    float32 to its last bit.
    """
    exactly, x = OF_ONE[name]
    x = x.astype(np.float32 if suffix else np.float64)
    got = FUNCTIONS[f"__nv_{name}{suffix}"](x)
    assert got.dtype == x.dtype
    with mpmath.workdps(40):
        want = [float(exactly(mpmath.mpf(float(v)))) for v in x]
    rtol = 1.3e-7 if suffix else 2e-13
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-15 if not suffix else 1e-14)
    theirs = FUNCTIONS.get(f"__ocml_{name}_f{32 if suffix else 64}")
    if theirs is not None:
        np.testing.assert_array_equal(theirs(x), got)


PAIRS = [(a, b) for a in (-2.5, -1.0, 0.5, 3.0, 7.25) for b in (-3.0, -0.5, 2.0, 5.5)]

OF_TWO: dict[str, Callable[[float, float], float]] = {
    "atan2": math.atan2, "copysign": math.copysign, "fmod": math.fmod, "hypot": math.hypot,
    "fdim": lambda a, b: max(a - b, 0.0), "remainder": math.remainder,
    "rhypot": lambda a, b: 1 / math.hypot(a, b), "nextafter": math.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_numbers(name: str) -> None:
    a, b = np.array(PAIRS).T
    np.testing.assert_allclose(
        FUNCTIONS[f"__nv_{name}"](a, b), [OF_TWO[name](*pair) for pair in PAIRS], rtol=1e-15
    )


def test_powers_norms_and_exponents() -> None:
    a, b = np.array([0.5, 3.0, 2.0, 1e-300, 1e200]), np.array([2.0, -1.5, 10.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(FUNCTIONS["__nv_pow"](a, b)[:3], [0.25, 3.0**-1.5, 1024])
        np.testing.assert_array_equal(FUNCTIONS["__nv_powi"](a[:2], np.int32(3)), [0.125, 27])
        np.testing.assert_allclose(
            FUNCTIONS["__nv_norm3d"](a, a, b)[3:], [2.0, math.sqrt(2) * 1e200]
        )
        assert FUNCTIONS["__nv_norm4d"](*map(np.float64, (1, 2, 4, 10))) == 11
        assert FUNCTIONS["__nv_hypot"](np.float64(math.nan), np.float64(-math.inf)) == math.inf
        x = np.array([12.0, 0.0, math.inf, math.nan, 5e-324])
        limits = np.iinfo(np.int32)
        assert FUNCTIONS["__nv_ilogb"](x).tolist() == [3, limits.min, limits.max, limits.min, -1074]
        assert FUNCTIONS["__nv_ldexp"](np.float64(0.75), np.int32(4)) == 12
        assert math.isnan(FUNCTIONS["__nv_tgamma"](np.float64(-3)))
        assert FUNCTIONS["__nv_tgamma"](np.float64(500)) == math.inf


@pytest.mark.parametrize("order", [0, 1, 2, 5, 20])
def test_bessel_functions_of_any_order(order: int) -> None:
    """Above and below the order, where different recurrences are stable."""
    x = np.array([0.1, 1.0, 3.7, 12.0, 40.0])
    n = np.int32(order)
    first = [float(mpmath.besselj(order, v)) for v in x]
    second = [float(mpmath.bessely(order, v)) for v in x]
    np.testing.assert_allclose(FUNCTIONS["__nv_jn"](n, x), first, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(FUNCTIONS["__nv_yn"](n, x), second, rtol=1e-11)


def signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


OF_INTEGERS: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "abs": (32, lambda a, _: abs(a)),
    "llabs": (64, lambda a, _: abs(a)),
    "brevll": (64, lambda a, _: int(f"{a % 2**64:064b}"[::-1], 2)),
    "clzll": (64, lambda a, _: 64 - (a % 2**64).bit_length()),
    "ffsll": (64, lambda a, _: (a & -a).bit_length()),
    "popcll": (64, lambda a, _: (a % 2**64).bit_count()),
    "hadd": (32, lambda a, b: a + b >> 1),
    "rhadd": (32, lambda a, b: a + b + 1 >> 1),
    "uhadd": (32, lambda a, b: a % 2**32 + b % 2**32 >> 1),
    "urhadd": (32, lambda a, b: a % 2**32 + b % 2**32 + 1 >> 1),
    "mul24": (32, lambda a, b: signed(a, 24) * signed(b, 24)),
    "umul24": (32, lambda a, b: (a % 2**24) * (b % 2**24)),
    "mulhi": (32, lambda a, b: a * b >> 32),
    "mul64hi": (64, lambda a, b: a * b >> 64),
    "umulhi": (32, lambda a, b: (a % 2**32) * (b % 2**32) >> 32),
    "umul64hi": (64, lambda a, b: (a % 2**64) * (b % 2**64) >> 64),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name: str) -> None:
    bits, exactly = OF_INTEGERS[name]
    rng = np.random.default_rng(3)
    corners = [0, 1, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 5]
    more = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 20).tolist()
    a = np.array([*corners, *more], f"i{bits // 8}")
    b = a[::-1].copy()
    operands = (a,) if FUNCTIONS_OF_ONE.search(name) else (a, b)
    with np.errstate(all="ignore"):
        got = np.asarray(FUNCTIONS[f"__nv_{name}"](*operands)).astype(a.dtype).tolist()
    assert got == [signed(exactly(x, y), bits) for x, y in zip(a.tolist(), b.tolist())]


FUNCTIONS_OF_ONE = re.compile("abs|brev|clz|ffs|popc")


def test_bits_of_numbers() -> None:
    x = np.array([1.5, -0.0, math.pi])
    high, low = FUNCTIONS["__nv_double2hiint"](x), FUNCTIONS["__nv_double2loint"](x)
    assert high.tolist() == [int(w) >> 32 for w in x.view(np.int64)]
    back = FUNCTIONS["__nv_hiloint2double"](high.astype(np.int32), low)
    assert back.tobytes() == x.tobytes()
    assert FUNCTIONS["__nv_float_as_int"](np.float32(1)) == 0x3F800000
    assert (
        FUNCTIONS["__nv_byte_perm"](np.int32(0x03020100), np.int32(0x07060504), np.int32(0x6172))
        == 0x06010702
    )


@pytest.mark.parametrize(
    ("symbol", "x", "want"),
    [
        ("__nv_float2int_rn", 2.5, 2),
        ("__nv_float2int_ru", -2.5, -2),
        ("__nv_float2int_rd", -2.5, -3),
        ("__nv_float2int_rz", 1e20, 2**31 - 1),
        ("__nv_float2uint_rn", -4.0, 0),
        ("__nv_double2ll_rn", 2.0**53 + 2, 2**53 + 2),
        ("__nv_llroundf", -2.5, -3),
        ("__nv_llrint", 3.5, 4),
    ],
)
def test_to_integers(symbol: str, x: float, want: int) -> None:
    kind = np.float32 if "float" in symbol or symbol.endswith("f") else np.float64
    assert FUNCTIONS[symbol](kind(x)) == want
