"""PTX on arrays and functions of device libraries, against Python, mpmath, NumPy, ml_dtypes."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
import triton.language.extra.cuda.libdevice as libdevice
import triton.language.extra.hip.libdevice as ocml

from kernellab.interpreter.foreign_code import FUNCTIONS
from kernellab.interpreter.ptx import KINDS, PtxError
from kernellab.interpreter.ptx_instructions import assembled, run

F32, F16, BF16 = np.dtype("f4"), np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)


def result(text: str, kind: str, *operands: Any) -> np.ndarray:
    """What `$0`, of a type of PTX, holds after a text has run on arrays for `$1`, `$2`, ..."""
    inputs = {}
    for number, operand in enumerate(operands, 1):
        array = np.asarray(operand)
        inputs[f"${number}"] = array.view(f"u{array.itemsize}")
    with np.errstate(all="ignore"):
        (bits,) = run(text, inputs, {"$0": KINDS[kind].bits}, None)  # type: ignore[arg-type]
    return np.asarray(bits).view(KINDS[kind].dtype)


def words(seed: int, dtype: str = "i4") -> np.ndarray:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    corners = np.array([0, 1, -1, limits.min, limits.max, limits.max - 1, 2, 255], dtype)
    return np.concatenate([corners, rng.integers(limits.min, limits.max, 56, dtype)])


def signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def field(x: int, start: int, length: int) -> int:
    """bfe.s32 of PTX's own pseudocode."""
    length_ = min(length, 32)
    top = min(start + length_ - 1, 31)
    sign = 0 if length == 0 else x >> top & 1
    bits = sum(
        (x >> (i + start) & 1 if i < length_ and i + start <= 31 else sign) << i for i in range(32)
    )
    return signed(bits, 32)


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add.s32 $0, $1, $2;": lambda a, b: a + b,
    "add.sat.s32 $0, $1, $2;": lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1),
    "sub.s32 $0, $1, $2;": lambda a, b: a - b,
    "mul.lo.s32 $0, $1, $2;": lambda a, b: a * b,
    "mul.hi.s32 $0, $1, $2;": lambda a, b: a * b >> 32,
    "mul.hi.u32 $0, $1, $2;": lambda a, b: (a % 2**32) * (b % 2**32) >> 32,
    "mad.lo.s32 $0, $1, $2, 5;": lambda a, b: a * b + 5,
    "min.s32 $0, $1, $2;": min,
    "max.u32 $0, $1, $2;": lambda a, b: max(a % 2**32, b % 2**32),
    "abs.s32 $0, $1;": lambda a, _: abs(a),
    "neg.s32 $0, $1;": lambda a, _: -a,
    "and.b32 $0, $1, $2;": lambda a, b: a & b,
    "or.b32 $0, $1, 0xF0;": lambda a, _: a | 0xF0,
    "xor.b32 $0, $1, $2;": lambda a, b: a ^ b,
    "cnot.b32 $0, $1;": lambda a, _: int(a == 0),
    "shl.b32 $0, $1, 33;": lambda *_: 0,
    "shr.s32 $0, $1, 40;": lambda a, _: -1 if a < 0 else 0,
    "shr.u32 $0, $1, 3;": lambda a, _: (a % 2**32) >> 3,
    "sad.s32 $0, $1, $2, 7;": lambda a, b: abs(a - b) + 7,
    "popc.b32 $0, $1;": lambda a, _: (a % 2**32).bit_count(),
    "clz.b32 $0, $1;": lambda a, _: 32 - (a % 2**32).bit_length(),
    "bfind.s32 $0, $1;": lambda a, _: (~a if a < 0 else a).bit_length() - 1,
    "bfind.shiftamt.u32 $0, $1;": lambda a, _: 32 - (a % 2**32).bit_length() if a else -1,
    "brev.b32 $0, $1;": lambda a, _: int(f"{a % 2**32:032b}"[::-1], 2),
    "bfe.s32 $0, $1, 5, 9;": lambda a, _: field(a % 2**32, 5, 9),
    "bfe.s32 $0, $1, 28, 9;": lambda a, _: field(a % 2**32, 28, 9),
    "bfe.u32 $0, $1, 5, 0;": lambda *_: 0,
    "bfi.b32 $0, $1, $2, 30, 9;": lambda a, b: b & ~(3 << 30) | (a & 3) << 30,
    "prmt.b32.rc8 $0, $1, $2, 2;": lambda a, _: (a % 2**32 >> 16 & 255) * 0x01010101,
    "prmt.b32 $0, $1, $2, 0xBA98;": lambda a, _: sum(
        (255 if a % 2**32 >> 8 * i + 7 & 1 else 0) << 8 * i for i in range(4)
    ),
    "dp4a.s32.s32 $0, $1, $2, 3;": lambda a, b: (
        3 + sum(signed(a >> 8 * i, 8) * signed(b >> 8 * i, 8) for i in range(4))
    ),
    "{ .reg .pred p, q; setp.lt.s32 p|q, $1, $2; selp.b32 $0, 7, 9, q; }": lambda a, b: (
        9 if a < b else 7
    ),
    "set.ge.u32.s32 $0, $1, $2;": lambda a, b: -1 if a >= b else 0,
    "cvt.s32.s8 $0, $1;": lambda a, _: signed(a, 8),
    "cvt.sat.s8.s32 $0, $1;": lambda a, _: min(max(a, -128), 127),
    "{ .reg .b16 %l<2>; mov.b32 {%l0, %l1}, $1; mov.b32 $0, {%l1, %l0}; }": lambda a, _: (
        a % 2**32 >> 16 | a << 16
    ),
    "mov.b32 $0, 017;": lambda *_: 15,
}


def nth_set(mask: int, base: int, offset: int) -> int:
    """fns.b32 of PTX's own pseudocode."""
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    position, left = base, abs(offset) - 1
    while 0 <= position < 32:
        if mask >> position & 1:
            if left == 0:
                return position
            left -= 1
        position += 1 if offset > 0 else -1
    return 0xFFFFFFFF


@pytest.mark.parametrize("offset", [0, 1, 2, 5, 33, -1, -2, -7])
def test_the_nth_one_of_a_mask(offset) -> None:
    masks = words(3).view("u4")
    bases = np.arange(masks.size, dtype="u4") * 7 % 32
    found = result("fns.b32 $0, $1, $2, $3;", "u32", masks, bases, np.int32(offset))
    wanted = [nth_set(int(mask), int(base), offset) for mask, base in zip(masks, bases)]
    assert found.tolist() == wanted
    assert result("fns.b32 $0, 0x14, 0, 2;", "u32").tolist() == 4


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text) -> None:
    a, b = words(1), words(2)
    got = result(text, "s32", a, b).tolist()
    assert np.broadcast_to(got, a.shape).tolist() == [
        signed(INTEGERS[text](x, y), 32) for x, y in zip(a.tolist(), b.tolist())
    ]


@pytest.mark.parametrize(
    ("text", "exactly"),
    [
        ("mul.hi.s64 $0, $1, $2;", lambda a, b: a * b >> 64),
        ("mul.hi.u64 $0, $1, $2;", lambda a, b: (a % 2**64) * (b % 2**64) >> 64),
        ("mad.lo.u64 $0, $1, $2, $1;", lambda a, b: a * b + a),
        ("clz.b64 $0, $1;", lambda a, _: 64 - (a % 2**64).bit_length()),
        ("mul.wide.s32 $0, $1, $2;", lambda a, b: signed(a, 32) * signed(b, 32)),
    ],
)  # fmt: skip
def test_64_bits(text, exactly) -> None:
    a, b = words(3, "i8"), words(4, "i8")
    got = result(text, "s64", a, b).tolist()
    assert got == [signed(exactly(x, y), 64) for x, y in zip(a.tolist(), b.tolist())]


NUMBERS = np.array(
    [
        0.0, -0.0, 1.0, -1.5, 0.1, 1e-40, math.inf, -math.inf, math.nan, 3e38,
        2.0**-24, 7.5, 500, -0.3,
    ],
    F32,
)  # fmt: skip
OTHERS = np.array(
    [-0.0, 0.0, 3.0, 2.5, -0.7, 1.0, 1.0, math.inf, 2.0, 3e38, 1.5, -2.0, 0.5, math.nan], F32
)


def same(got: np.ndarray, want: Any) -> None:
    """Bit for bit, NaN apart."""
    want = np.asarray(want).astype(got.dtype)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    number = ~np.isnan(want.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "add.f32 $0, $1, $2;": lambda a, b: a + b,
    "sub.rn.f32 $0, $1, $2;": lambda a, b: a - b,
    "mul.ftz.f32 $0, $1, $2;": lambda a, b: np.where(abs(a) < 2.0**-126, np.copysign(0, a), a) * b,
    "add.sat.f32 $0, $1, $2;": lambda a, b: np.nan_to_num(np.clip(a + b, 0, 1)),
    "fma.rn.f32 $0, $1, $2, 0f3F800000;": lambda a, b: a.astype("f8") * b + 1,
    "div.rn.f32 $0, $1, $2;": lambda a, b: a / b,
    "max.f32 $0, $1, $2;": lambda a, b: np.where((a == 0) & (b == 0), 0.0, np.fmax(a, b)),
    "min.NaN.f32 $0, $1, $2;": lambda a, b: np.where((a == 0) & (b == 0), -0.0, np.minimum(a, b)),
    "abs.f32 $0, $1;": lambda a, _: abs(a),
    "neg.f32 $0, $1;": lambda a, _: -a,
    "copysign.f32 $0, $1, $2;": lambda a, b: np.copysign(b, a),
    "sqrt.rn.f32 $0, $1;": lambda a, _: np.sqrt(a),
    "rcp.rn.f32 $0, $1;": lambda a, _: 1 / a,
    "cvt.rni.f32.f32 $0, $1;": lambda a, _: np.rint(a),
    "max.NaN.xorsign.abs.f32 $0, $1, $2;": lambda a, b: np.copysign(
        np.maximum(abs(a), abs(b)), np.where(np.signbit(a) ^ np.signbit(b), -1, 1)
    ),
}


@pytest.mark.parametrize("text", FLOATS)
def test_floats(text) -> None:
    with np.errstate(all="ignore"):
        want = FLOATS[text](NUMBERS, OTHERS)
        same(result(text, "f32", NUMBERS, OTHERS), want)


APPROXIMATE: dict[str, Callable[[Any], Any]] = {
    "ex2.approx.ftz.f32": np.exp2, "lg2.approx.f32": np.log2, "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos, "tanh.approx.f32": np.tanh, "rcp.approx.ftz.f32": lambda x: 1 / x,
    "sqrt.approx.f32": np.sqrt, "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


@pytest.mark.parametrize("opcode", APPROXIMATE)
def test_functions(opcode) -> None:
    x = np.linspace(0.01, 9, 50, dtype=F32)
    got = result(f"{opcode} $0, $1;", "f32", x)
    np.testing.assert_allclose(got, APPROXIMATE[opcode](x.astype(np.float64)), rtol=1.2e-7)


NARROW = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 448.0),
    "e5m2x2": (ml_dtypes.float8_e5m2, 57344.0),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 6.0),
}


@pytest.mark.parametrize("kind", NARROW)
def test_two_numbers_packed_the_upper_one_first(kind) -> None:
    dtype, largest = NARROW[kind]
    upper = np.array([1.25, -3.0, 1e9, -1e9, 0.3, 0.0], F32)
    lower = upper[::-1].copy()
    got = result(
        f"cvt.rn.satfinite.{kind}.f32 $0, $1, $2;", kind.replace(kind, "b16"), upper, lower
    )
    high, low = (np.clip(x, -largest, largest).astype(dtype).view(np.uint8) for x in (upper, lower))
    step = 4 if kind == "e2m1x2" else 8
    np.testing.assert_array_equal(got, high.astype(int) << step | low)
    back = result(f"cvt.rn.f16x2.{kind} $0, $1;", "b32", got)
    halves = high.view(dtype).astype(F16), low.view(dtype).astype(F16)
    wide = [half.view(np.uint16).astype(np.uint32) for half in halves]
    np.testing.assert_array_equal(back, wide[0] << 16 | wide[1])


def test_halves_and_tf32() -> None:
    got = result("cvt.rn.bf16x2.f32 $0, $1, $2;", "b32", NUMBERS[2:6], OTHERS[2:6])
    upper, lower = (
        x[2:6].astype(BF16).view(np.uint16).astype(np.uint32) for x in (NUMBERS, OTHERS)
    )
    np.testing.assert_array_equal(got, upper << 16 | lower)
    halfway = np.array([1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12], F32)
    away = result("cvt.rna.tf32.f32 $0, $1;", "f32", halfway)
    assert away.tolist() == [1 + 2.0**-10, -1 - 2.0**-10, 1.0]
    even = result("cvt.rn.tf32.f32 $0, $1;", "f32", halfway)
    assert even.tolist() == [1.0, -1.0, 1.0]
    x = np.array([65519, 0.1, -70000], F32)
    same(result("cvt.rz.f16.f32 $0, $1;", "f16", x), [65504, 0.09997559, -65504])
    a, b = np.array([1.5, 1], F16), np.array([0.25, -3], F16)
    same(result("fma.rn.relu.f16 $0, $1, $1, $2;", "f16", a, b), [2.5, 0])


def test_guards_merge_and_comments_are_skipped() -> None:
    text = """{
        .reg .pred %p;  .reg .f32 %f<2>; // two of them
        mov.f32 %f1, 1.5;  /* a
        decimal */ setp.gtu.f32 %p, $1, %f1;
        mov.b32 $0, 0;
        @%p mov.b32 $0, 1;
        @!%p add.s32 $0, $0, -1;
    }"""
    x = np.array([2.0, 1.0, math.nan], F32)
    assert result(text, "s32", x).tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("wonder.f32 $0, $1;", "'wonder.f32'"), ("add.cc.u32 $0, $1, $1;", "'add.cc.u32'"),
        ("mov.u32 $0, %laneid;", "'%laneid'"), ("mov.u32 $0, undeclared;", "'undeclared'"),
        ("again: add.u32 $0, $0, 1;", "'again:'"), (".reg .b128 x;", "'.reg .b128 x'"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_named(text, named) -> None:
    with pytest.raises(PtxError, match=named.replace(".", r"\.")):
        assembled(text)


@pytest.mark.parametrize("module", [libdevice, ocml], ids=["libdevice", "ocml"])
def test_every_function_that_triton_names_is_known(module) -> None:
    symbols = set(re.findall(r'"(__\w+)"', Path(module.__file__).read_text()))
    assert len(symbols) > 90
    assert not symbols - set(FUNCTIONS)


REAL = np.array([-7.3, -2.0, -1.5, -0.9, -0.25, 0.0, 1e-9, 0.3, 0.5, 0.99, 1.0, 2.5, 4.0, 11.7])
UNIT, POSITIVE, ABOVE_ONE = REAL[(abs(REAL) < 1)], REAL[REAL > 0], REAL[REAL >= 1]


def of_mpmath(x: np.ndarray, names: str) -> dict[str, Any]:
    return {name: (getattr(mpmath, name), x) for name in names.split()}


OF_ONE: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    **of_mpmath(UNIT, "acos asin atanh erfinv log1p"),
    **of_mpmath(POSITIVE, "log log10 sqrt"),
    **of_mpmath(ABOVE_ONE, "acosh"),
    **of_mpmath(REAL, "asinh atan ceil cos cosh cospi erf erfc exp expm1 floor j0 j1 sin sinh"),
    **of_mpmath(REAL, "sinpi tan tanh"),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), REAL),
    "cyl_bessel_i0": (lambda x: mpmath.besseli(0, x), REAL),
    "cyl_bessel_i1": (lambda x: mpmath.besseli(1, x), REAL),
    "erfcinv": (lambda x: mpmath.erfinv(1 - x), UNIT[UNIT > 0]),
    "erfcx": (lambda x: mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x), REAL),
    "exp10": (lambda x: mpmath.mpf(10) ** x, REAL),
    "exp2": (lambda x: mpmath.mpf(2) ** x, REAL),
    "fabs": (abs, REAL),
    "lgamma": (lambda x: mpmath.re(mpmath.loggamma(x)), REAL[(REAL > 0) | (REAL % 1 != 0)]),
    "log2": (lambda x: mpmath.log(x, 2), POSITIVE),
    "logb": (lambda x: mpmath.floor(mpmath.log(x, 2)), POSITIVE),
    "nearbyint": (mpmath.nint, REAL),
    "normcdf": (mpmath.ncdf, REAL),
    "normcdfinv": (lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(x) - 1), UNIT[UNIT > 0]),
    "rcbrt": (lambda x: 1 / mpmath.cbrt(x), POSITIVE),
    "rint": (mpmath.nint, REAL),
    "round": (lambda x: mpmath.sign(x) * mpmath.floor(abs(mpmath.mpf(x)) + 0.5), REAL),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), POSITIVE),
    "tgamma": (mpmath.gamma, REAL[(REAL > 0) | (REAL % 1 != 0)]),
    "trunc": (lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), REAL),
    "y0": (lambda x: mpmath.bessely(0, x), POSITIVE),
    "y1": (lambda x: mpmath.bessely(1, x), POSITIVE),
}


@pytest.mark.parametrize("suffix", ["", "f"])
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_number(name, suffix) -> None:
    """float64 near its precision, Bessel functions near zeros less; float32 to its last bit."""
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
def test_functions_of_two_numbers(name) -> None:
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
def test_bessel_functions_of_any_order(order) -> None:
    """Above and below the order, where different recurrences are stable."""
    x = np.array([0.1, 1.0, 3.7, 12.0, 40.0])
    n = np.int32(order)
    first = [float(mpmath.besselj(order, v)) for v in x]
    second = [float(mpmath.bessely(order, v)) for v in x]
    np.testing.assert_allclose(FUNCTIONS["__nv_jn"](n, x), first, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(FUNCTIONS["__nv_yn"](n, x), second, rtol=1e-11)


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
def test_functions_of_integers(name) -> None:
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
        ("__nv_float2int_rn", 2.5, 2), ("__nv_float2int_ru", -2.5, -2),
        ("__nv_float2int_rd", -2.5, -3), ("__nv_float2int_rz", 1e20, 2**31 - 1),
        ("__nv_float2uint_rn", -4.0, 0), ("__nv_double2ll_rn", 2.0**53 + 2, 2**53 + 2),
        ("__nv_llroundf", -2.5, -3), ("__nv_llrint", 3.5, 4),
    ],
)  # fmt: skip
def test_to_integers(symbol, x, want) -> None:
    kind = np.float32 if "float" in symbol or symbol.endswith("f") else np.float64
    assert FUNCTIONS[symbol](kind(x)) == want
