"""PTX on arrays, instruction by instruction, against Python's own integers, NumPy and ml_dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

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
def test_the_nth_one_of_a_mask(offset: int) -> None:
    masks = words(3).view("u4")
    bases = np.arange(masks.size, dtype="u4") * 7 % 32
    found = result("fns.b32 $0, $1, $2, $3;", "u32", masks, bases, np.int32(offset))
    wanted = [nth_set(int(mask), int(base), offset) for mask, base in zip(masks, bases)]
    assert found.tolist() == wanted
    assert result("fns.b32 $0, 0x14, 0, 2;", "u32").tolist() == 4


@pytest.mark.parametrize("text", INTEGERS)
def test_integers(text: str) -> None:
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
)
def test_64_bits(text: str, exactly: Callable[[int, int], int]) -> None:
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
def test_floats(text: str) -> None:
    with np.errstate(all="ignore"):
        want = FLOATS[text](NUMBERS, OTHERS)
        same(result(text, "f32", NUMBERS, OTHERS), want)


APPROXIMATE: dict[str, Callable[[Any], Any]] = {
    "ex2.approx.ftz.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
    "tanh.approx.f32": np.tanh,
    "rcp.approx.ftz.f32": lambda x: 1 / x,
    "sqrt.approx.f32": np.sqrt,
    "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
}


@pytest.mark.parametrize("opcode", APPROXIMATE)
def test_functions(opcode: str) -> None:
    x = np.linspace(0.01, 9, 50, dtype=F32)
    got = result(f"{opcode} $0, $1;", "f32", x)
    np.testing.assert_allclose(got, APPROXIMATE[opcode](x.astype(np.float64)), rtol=1.2e-7)


NARROW = {
    "e4m3x2": (ml_dtypes.float8_e4m3fn, 448.0),
    "e5m2x2": (ml_dtypes.float8_e5m2, 57344.0),
    "e2m1x2": (ml_dtypes.float4_e2m1fn, 6.0),
}


@pytest.mark.parametrize("kind", NARROW)
def test_two_numbers_packed_the_upper_one_first(kind: str) -> None:
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
    same(
        result("cvt.rz.f16.f32 $0, $1;", "f16", np.array([65519, 0.1, -70000], F32)),
        [65504, 0.09997559, -65504],
    )
    same(
        result(
            "fma.rn.relu.f16 $0, $1, $1, $2;",
            "f16",
            np.array([1.5, 1], F16),
            np.array([0.25, -3], F16),
        ),
        [2.5, 0],
    )


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
        ("wonder.f32 $0, $1;", "'wonder.f32'"),
        ("add.cc.u32 $0, $1, $1;", "'add.cc.u32'"),
        ("mov.u32 $0, %laneid;", "'%laneid'"),
        ("mov.u32 $0, undeclared;", "'undeclared'"),
        ("again: add.u32 $0, $0, 1;", "'again:'"),
        (".reg .b128 x;", "'.reg .b128 x'"),
    ],
)
def test_what_is_not_known_is_named(text: str, named: str) -> None:
    with pytest.raises(PtxError, match=named.replace(".", r"\.")):
        assembled(text)
