"""Cases of arithmetic, one element at a time."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import torch

from kernellab.cli import demo
from tests.cases.case import Case, as_numpy, case, normal
from tests.kernels.interp import arithmetic
from tests.support import versions

N = 32
INTEGERS = [
    torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


# Integers: Python's own are the reference, wrapped afterwards.


def wrap(number: int, dtype: torch.dtype) -> int:
    bits = torch.iinfo(dtype).bits
    number &= (1 << bits) - 1
    signed = torch.iinfo(dtype).min < 0
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def quotient(a: int, b: int) -> int:
    """C's division, toward zero."""
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def integer_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The corners of the type against each other, and random numbers; no zero among the second."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    xs = [low, low, high, high, 0, 1, high // 2, low + 1, 7, 7]
    ys = [high, 2, high, low or 3, high, high, 3, 5, 2, high - 1]
    if low < 0:
        xs += [-7, 7, -7, low, -1]
        ys += [2, -2, -2, -1, low]
    rng = np.random.default_rng(1)
    kind = as_numpy(torch.zeros(1, dtype=dtype)).dtype
    more = rng.integers(low, high, (2, N - len(xs)), dtype=kind, endpoint=True)
    more[1][more[1] == 0] = 3
    x = np.concatenate([np.array(xs, dtype=kind), more[0]])
    y = np.concatenate([np.array(ys, dtype=kind), more[1]])
    return torch.from_numpy(x), torch.from_numpy(y)


def integer_rows(x: int, y: int, shift: int) -> list[int]:
    return [
        x + y, x - y, x * y, quotient(x, y), remainder(x, y), x & y, x | y, x ^ y,
        x << shift, x >> shift, min(x, y), max(x, y), -x, ~x, min(x, y), abs(x),
    ]  # fmt: skip


@case("integers-{}", arithmetic.integers)
def integers(dtype):
    x, y = integer_pairs(dtype)
    shift = torch.arange(N) % torch.iinfo(dtype).bits
    shift_ptr = shift.to(dtype)
    yield dict(x_ptr=x, y_ptr=y, shift_ptr=shift_ptr, out_ptr=torch.zeros(16, N, dtype=dtype), N=N)
    lanes = zip(x.tolist(), y.tolist(), shift_ptr.tolist())
    columns = [[wrap(v, dtype) for v in integer_rows(*lane)] for lane in lanes]
    kind = as_numpy(x).dtype
    yield {"out_ptr": np.array(columns, dtype=kind).T}


@case("integer_scalars-{}", arithmetic.integer_scalars, (32,))
def integer_scalars(dtype):
    x, y = integer_pairs(dtype)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(N, 8, dtype=dtype))
    xs, ys = x.tolist(), y.tolist()
    rows = [
        [
            x + y, x * y, quotient(x, y), remainder(x, y), xs[0] - ys[0], xs[0] * ys[0],
            min(x, ys[0]), quotient(xs[0], ys[0]) + remainder(xs[0], ys[0]),
        ]
        for x, y in zip(xs, ys)
    ]  # fmt: skip
    wrapped = [[wrap(v, dtype) for v in row] for row in rows]
    yield {"out_ptr": np.array(wrapped, dtype=as_numpy(x).dtype)}


def comparison_rows(x: Any, y: Any) -> list[bool]:
    return [x < y, x <= y, x > y, x >= y, x == y, x != y, not x < y, x < y or x > y]


@case("comparisons-{}", arithmetic.comparisons)
def comparisons(dtype):
    if dtype.is_floating_point:
        values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]
        pairs = [(a, b) for a in values for b in values][: N - 4]
        x, y = (torch.tensor([*side, *[2.5] * 4], dtype=dtype) for side in zip(*pairs))
    else:
        x, y = integer_pairs(dtype)
        y[:4] = x[:4]
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(8, N, dtype=torch.int8), N=N)
    lanes = zip(x.tolist(), y.tolist())
    yield {"out_ptr": np.array([comparison_rows(x, y) for x, y in lanes]).T}


@case("booleans", arithmetic.booleans)
def booleans():
    rng = np.random.default_rng(5)
    x, y = (torch.from_numpy(rng.integers(0, 2, 16).astype(bool)) for _ in range(2))
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(12, 16, dtype=torch.int32), N=16)
    x, y = x.numpy(), y.numpy()
    i = np.arange(16)
    unsigned_less = ~x & y
    assert unsigned_less.any()
    rows = [
        x & y, x | y, x ^ y, ~x, x == y, x.astype(int) + y, np.where(x, 2, 0),
        np.where(x, 3, 4), (i < 5).astype(int) + (i >= 3), unsigned_less, i % 2 == 1, i != 2,
    ]  # fmt: skip
    # tl.int1 from an integer takes any number but 0 for true.
    rows[10] = i != 0
    yield {"out_ptr": np.array(rows, dtype=np.int32)}


ENDS_ON_AN_H200 = {
    torch.int8: [
        [-1, -1, -1, -128, -1, 33, -1, -1],
        [7, 127, -128, 0, 5, 1, 0, 126],
        [-128, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, -1, -1, 0, 0, 0, 0],
    ],
    torch.int16: [
        [-1, -1, -1, -32768, -1, 33, -1, -1],
        [7, 32767, -32768, 0, 5, 1, 0, 32766],
        [-32768, 0, 0, 0, 0, 0, 0, -512],
        [0, 0, -1, -1, 0, 0, 0, 127],
    ],
    torch.int32: [
        [-1, -1, -1, -2147483648, -1, 33, -1, -1],
        [7, 2147483647, -2147483648, 0, 5, 1, 0, 2147483646],
        [-2147483648, 0, 0, 0, 0, 0, 0, -512],
        [0, 0, -1, -1, 0, 0, 0, 8388607],
    ],
    torch.int64: [
        [4294967295, -1, -1, -9223372036854775808, 4294967295, 33, 4294967295, -1],
        [7, 9223372036854775807, -9223372036854775808, 0, 5, 1, 0, 9223372036854775806],
        [-9223372036854775808, 0, 0, 0, 42949672960, 0, 0, -512],
        [0, 0, -1, -4294967296, 0, 0, 0, 36028797018963967],
    ],
    torch.uint8: [
        [255, 255, 255, 0, 255, 33, 255, 255],
        [7, 255, 0, 0, 5, 1, 0, 254],
        [128, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    torch.uint32: [
        [4294967295, 4294967295, 4294967295, 0, 4294967295, 33, 4294967295, 4294967295],
        [7, 4294967295, 0, 0, 5, 1, 0, 4294967294],
        [2147483648, 0, 0, 0, 0, 0, 0, 4294966784],
        [0, 0, 0, 0, 0, 0, 0, 16777215],
    ],
    torch.uint64: [
        [
            4294967295, 18446744073709551615, 4294967295, 0, 4294967295, 33, 4294967295,
            18446744073709551615,
        ],
        [7, 18446744073709551615, 0, 0, 5, 1, 0, 18446744073709551614],
        [9223372036854775808, 0, 0, 0, 42949672960, 0, 0, 18446744073709551104],
        [0, 0, 0, 0, 0, 0, 0, 72057594037927935],
    ],
}  # fmt: skip
"""Quotients, remainders and shifts of `integers_at_the_ends` on an NVIDIA H200 (Triton 3.6):
recorded there."""


@case("integers_at_the_ends-{}", arithmetic.integers_at_the_ends)
def integers_at_the_ends(dtype):
    low, high, bits = torch.iinfo(dtype).min, torch.iinfo(dtype).max, torch.iinfo(dtype).bits
    kind = as_numpy(torch.zeros(1, dtype=dtype)).dtype
    x = [7, high, low, low, 5, 100, 0, high - 1]
    y = [0, 0, 0, -1 if low else high, 0, 3, 0, 0]
    shift = [bits - 1, bits, bits + 1, 31, 33, 63, 65, 8]
    x_ptr, y_ptr, shift_ptr = (torch.from_numpy(np.array(v, kind)) for v in (x, y, shift))
    out = torch.zeros(4, 8, dtype=dtype)
    yield dict(x_ptr=x_ptr, y_ptr=y_ptr, shift_ptr=shift_ptr, out_ptr=out, N=8)
    yield {"out_ptr": np.array(ENDS_ON_AN_H200[dtype], as_numpy(out).dtype)}


# Floats: float64 is the reference, rounded once to the type by NumPy or ml_dtypes.

CORNERS = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 65504.0, 6e-8, 1e-5, -3.0, 0.1]


def float_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [(CORNERS[i % 12], CORNERS[(i * 5 + 1 + i // 12) % 12]) for i in range(40)]
    rng = np.random.default_rng(2)
    more = rng.standard_normal((2, 88)) * 10.0 ** rng.integers(-3, 4, (2, 88))
    x = np.concatenate([[a for a, _ in pairs], more[0]])
    y = np.concatenate([[b for _, b in pairs], more[1]])
    return torch.from_numpy(x).to(dtype), torch.from_numpy(y).to(dtype)


@case("floats-{}", arithmetic.floats)
def floats(dtype):
    x, y = float_pairs(dtype)
    zeros = (x == 0) & (y == 0)  # which zero a minimum gives is left open
    x[zeros] = 2.0
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(11, 128, dtype=dtype), N=128)
    kind = as_numpy(x).dtype
    x, y = as_numpy(x).astype(np.float64), as_numpy(y).astype(np.float64)

    def once(wide):
        return wide.astype(kind)

    product = once(x * y)
    negated = -x if versions.NEGATES_ZEROS else 0.0 - x
    rows = [
        once(x + y), once(x - y), product, once(negated), once(abs(x)), once(np.fmin(x, y)),
        once(np.fmax(x, y)), once(np.minimum(x, y)), once(np.maximum(x, y)),
        once(np.where(x < y, x, y)), once(product.astype(np.float64) + x),
    ]  # fmt: skip
    yield {"out_ptr": np.array(rows)}


@case("divisions-{}", arithmetic.divisions)
def divisions(dtype):
    result = torch.float64 if dtype == torch.float64 else torch.float32
    x, y = float_pairs(dtype)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(2, 128, dtype=result), N=128)
    x, y = as_numpy(x).astype(np.float64), as_numpy(y).astype(np.float64)
    yield {"out_ptr": np.array([x / y, np.fmod(x, y)])}


@case("fused-{}", arithmetic.fused)
def fused(dtype):
    """Python's fractions are exact; the sum is rounded once."""
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.standard_normal(64)).to(dtype)
    y = torch.from_numpy(rng.standard_normal(64)).to(dtype)
    # Sums that nearly cancel, and tiny addends that decide how a tie is rounded.
    z = -(x * y)
    z[::3] = x[::3] * (2.0**12 if dtype == torch.float16 else 2.0**30)
    z[1::3] = 2.0 ** -torch.arange(22).to(dtype)[: z[1::3].numel()] * 1e-3
    x[40], y[40] = 1 + 2.0**-4, 1 + 2.0**-4
    z[40] = 2.0**-24 if dtype == torch.float16 else 2.0**-60
    yield dict(x_ptr=x, y_ptr=y, z_ptr=z, out_ptr=torch.zeros(64, dtype=dtype), N=64)
    exact = [
        Fraction(a) * Fraction(b) + Fraction(c)
        for a, b, c in zip(x.tolist(), y.tolist(), z.tolist())
    ]
    yield {"out_ptr": torch.tensor([nearest(f, dtype) for f in exact], dtype=dtype)}


PRECISION = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
SMALLEST = {torch.float16: -24, torch.bfloat16: -133, torch.float32: -149, torch.float64: -1074}


def nearest(number: Fraction, dtype: torch.dtype) -> float:
    """The nearest number of the type, ties to even; no overflow."""
    if number == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(number)))
    if Fraction(2) ** exponent > abs(number):
        exponent -= 1
    unit = Fraction(2) ** max(exponent - PRECISION[dtype] + 1, SMALLEST[dtype])
    return float(round(number / unit) * unit)


@case("zeros-{}", arithmetic.zeros)
def zeros(dtype):
    """As seen on an H200: +0 is the larger. Before Triton 3.8 -x is 0 - x."""
    x = torch.tensor([0.0, -0.0, 0.0, -0.0, math.nan, -0.0, 1.0, -1.0], dtype=dtype)
    y = torch.tensor([-0.0, 0.0, 0.0, -0.0, -0.0, math.nan, -0.0, 0.0], dtype=dtype)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(6, 8, dtype=dtype), N=8)
    nan = math.nan
    negated = -0.0 if versions.NEGATES_ZEROS else 0.0
    yield {
        "out_ptr": np.array(
            [
                [0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 1.0, 0.0],
                [-0.0, -0.0, 0.0, -0.0, -0.0, -0.0, -0.0, -1.0],
                [0.0, 0.0, 0.0, -0.0, nan, nan, 1.0, 0.0],
                [-0.0, -0.0, 0.0, -0.0, nan, nan, -0.0, -1.0],
                [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
                [negated, 0.0, negated, 0.0, nan, 0.0, -1.0, 1.0],
            ]
        )
    }


@case("clamped-{}", arithmetic.clamped)
def clamped(dtype):
    x = torch.tensor([-2.0, -1.0, 0.5, 3.0, math.inf, -math.inf, 0.0, math.nan], dtype=dtype)
    low, high = torch.full((8,), -1.0, dtype=dtype), torch.full((8,), 1.5, dtype=dtype)
    yield dict(x_ptr=x, low_ptr=low, high_ptr=high, out_ptr=torch.zeros(2, 8, dtype=dtype), N=8)
    x = x.double().numpy()
    yield {"out_ptr": np.array([np.fmin(np.fmax(x, -1.0), 1.5), np.clip(x, -1.0, 1.5)])}


@case(
    "elementary-{}", arithmetic.elementary,
    rtol=lambda dtype: 1e-6 if dtype == torch.float32 else 1e-13,
    atol=lambda dtype: 1e-7 if dtype == torch.float32 else 1e-14,
)  # fmt: skip
def elementary(dtype):
    x_ptr = torch.linspace(0.05, 6.0, 16, dtype=dtype)
    yield dict(x_ptr=x_ptr, out_ptr=torch.zeros(13, 16, dtype=dtype), N=16)
    x = x_ptr.double()
    rows = [
        x.exp(), x.exp2(), x.log(), x.log2(), x.sin(), x.cos(), x.sqrt(), x.rsqrt(), x.erf(),
        x.floor(), x.ceil(), x.sigmoid(), x[0].erf() + x,
    ]  # fmt: skip
    yield {"out_ptr": torch.stack(rows).numpy()}


@case("precise", arithmetic.precise)
def precise():
    x_ptr = normal(N).abs()
    y_ptr = normal(N, seed=1)
    yield dict(x_ptr=x_ptr, y_ptr=y_ptr, out_ptr=torch.zeros(3, N), N=N)
    x, y = x_ptr.double(), y_ptr.double()
    yield {"out_ptr": torch.stack([x.sqrt(), x / y, x / y]).float()}


@case("high_products-{}", arithmetic.high_products)
def high_products(dtype):
    bits = torch.iinfo(dtype).bits
    x, y = integer_pairs(dtype)
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros(2, N, dtype=dtype), N=N)
    mask = (1 << bits) - 1
    xs, ys = ([v & mask for v in side.tolist()] for side in (x, y))
    rows = [[a * b >> bits for a, b in zip(xs, ys)], [a * ys[0] >> bits for a in xs]]
    wrapped = [[wrap(v, dtype) for v in row] for row in rows]
    yield {"out_ptr": np.array(wrapped, dtype=as_numpy(x).dtype)}


SPECIAL = [
    0.0, -0.0, 1.5, -1.5, 2.5, 300.0, -300.0, 447.0, 464.0, 465.0, 480.0, 1e4, 57344.0, 61439.0,
    61440.0, 65504.0, 65519.0, 65520.0, 1e6, -1e6, 3e9, -3e9, 1e19, -1e19, 4e19, 3.4e38, math.inf,
    -math.inf, math.nan, -0.7, 255.9, 127.9,
]  # fmt: skip
"""Numbers about the ends of every narrow type."""

ON_AN_H200: dict[tuple[torch.dtype, torch.dtype], list[float]] = {
    (torch.float32, torch.float8_e4m3fn): [
        0.0, -0.0, 1.5, -1.5, 2.5, 288.0, -288.0, 448.0, 448.0, 448.0, 448.0, 448.0, 448.0, 448.0,
        448.0, 448.0, 448.0, 448.0, 448.0, -448.0, 448.0, -448.0, 448.0, -448.0, 448.0, 448.0,
        448.0, -448.0, math.nan, -0.6875, 256.0, 128.0,
    ],
    (torch.float32, torch.float8_e5m2): [
        0.0, -0.0, 1.5, -1.5, 2.5, 320.0, -320.0, 448.0, 448.0, 448.0, 512.0, 10240.0, 57344.0,
        57344.0, 57344.0, 57344.0, 57344.0, 57344.0, 57344.0, -57344.0, 57344.0, -57344.0, 57344.0,
        -57344.0, 57344.0, 57344.0, 57344.0, -57344.0, math.nan, -0.75, 256.0, 128.0,
    ],
    (torch.float32, torch.int8): [
        0, 0, 1, -1, 2, 44, -44, -65, -48, -47, -32, 16, -1, -1, -1, -1, -1, -1, -1, 0, -1, 0, -1,
        0, -1, -1, -1, 0, 0, 0, -1, 127,
    ],
    (torch.float32, torch.uint8): [
        0, 0, 1, 0, 2, 44, 0, 191, 208, 209, 224, 16, 0, 255, 0, 224, 239, 240, 255, 0, 255, 0, 255,
        0, 255, 255, 255, 0, 0, 0, 255, 127,
    ],
    (torch.float32, torch.int16): [
        0, 0, 1, -1, 2, 300, -300, 447, 464, 465, 480, 10000, 32767, 32767, 32767, 32767, 32767,
        32767, 32767, -32768, 32767, -32768, 32767, -32768, 32767, 32767, 32767, -32768, 0, 0, 255,
        127,
    ],
    (torch.float32, torch.int32): [
        0, 0, 1, -1, 2, 300, -300, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519,
        65520, 1000000, -1000000, 2147483647, -2147483648, 2147483647, -2147483648, 2147483647,
        2147483647, 2147483647, -2147483648, 0, 0, 255, 127,
    ],
    (torch.float32, torch.uint32): [
        0, 0, 1, 0, 2, 300, 0, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519, 65520,
        1000000, 0, 3000000000, 0, 4294967295, 0, 4294967295, 4294967295, 4294967295, 0, 0, 0, 255,
        127,
    ],
    (torch.float32, torch.int64): [
        0, 0, 1, -1, 2, 300, -300, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519,
        65520, 1000000, -1000000, 3000000000, -3000000000, 9223372036854775807,
        -9223372036854775808, 9223372036854775807, 9223372036854775807, 9223372036854775807,
        -9223372036854775808, -9223372036854775808, 0, 255, 127,
    ],
    (torch.float64, torch.int32): [
        0, 0, 1, -1, 2, 300, -300, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519,
        65520, 1000000, -1000000, 2147483647, -2147483648, 2147483647, -2147483648, 2147483647,
        2147483647, 2147483647, -2147483648, -2147483648, 0, 255, 127,
    ],
    (torch.float64, torch.uint16): [
        0, 0, 1, 0, 2, 300, 0, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519, 65520,
        65535, 0, 65535, 0, 65535, 0, 65535, 65535, 65535, 0, 32768, 0, 255, 127,
    ],
    (torch.float64, torch.uint64): [
        0, 0, 1, 0, 2, 300, 0, 447, 464, 465, 480, 10000, 57344, 61439, 61440, 65504, 65519, 65520,
        1000000, 0, 3000000000, 0, 10000000000000000000, 0, 18446744073709551615,
        18446744073709551615, 18446744073709551615, 0, 9223372036854775808, 0, 255, 127,
    ],
    (torch.float16, torch.bool): [0, 0, *[1] * 30],
}  # fmt: skip
"""What `SPECIAL` becomes on an NVIDIA H200 (sm_90, Triton 3.6):
recorded there, not computed here."""

TOWARD_ZERO_ON_AN_H200 = {
    torch.float8_e5m2: [
        0.0, -0.0, 1.5, -1.5, 2.5, 256.0, -256.0, 384.0, 448.0, 448.0, 448.0, 8192.0, 57344.0,
        57344.0, 57344.0, 57344.0, 57344.0, 57344.0, 57344.0, -57344.0, 57344.0, -57344.0, 57344.0,
        -57344.0, 57344.0, 57344.0, math.inf, -math.inf, math.nan, -0.625, 224.0, 112.0,
    ],
    torch.float16: [
        0.0, -0.0, 1.5, -1.5, 2.5, 300.0, -300.0, 447.0, 464.0, 465.0, 480.0, 10000.0, 57344.0,
        61408.0, 61440.0, 65504.0, 65504.0, 65504.0, 65504.0, -65504.0, 65504.0, -65504.0, 65504.0,
        -65504.0, 65504.0, 65504.0, math.inf, -math.inf, math.nan, -0.69970703125, 255.875, 127.875,
    ],
    torch.bfloat16: [
        0.0, -0.0, 1.5, -1.5, 2.5, 300.0, -300.0, 446.0, 464.0, 464.0, 480.0, 9984.0, 57344.0,
        61184.0, 61440.0, 65280.0, 65280.0, 65280.0, 999424.0, -999424.0, 2986344448.0,
        -2986344448.0, 9.943947977234055e18, -9.943947977234055e18, 3.977579190893622e19,
        3.3895313892515355e38, math.inf, -math.inf, math.nan, -0.69921875, 255.0, 127.5,
    ],
}  # fmt: skip


def exactly(numbers: list[float], dtype: torch.dtype) -> np.ndarray:
    kind = as_numpy(torch.zeros(1, dtype=dtype)).dtype
    return np.array(numbers, dtype=object if kind.kind in "iu" else np.float64).astype(kind)


@case("ends-{}-to-{}", arithmetic.converted)
def converted_at_the_ends(source, target):
    x = torch.tensor(SPECIAL, dtype=torch.float64).to(source)
    yield dict(x_ptr=x, out_ptr=torch.zeros(N, dtype=target), N=N)
    yield {"out_ptr": exactly(ON_AN_H200[source, target], target)}


@case("toward-zero-{}", arithmetic.converted_toward_zero)
def converted_toward_zero(target):
    x = torch.tensor(SPECIAL, dtype=torch.float64).to(torch.float32)
    yield dict(x_ptr=x, out_ptr=torch.zeros(N, dtype=target), N=N)
    yield {"out_ptr": exactly(TOWARD_ZERO_ON_AN_H200[target], target)}


def all_patterns(bits: int, dtype: torch.dtype) -> torch.Tensor:
    """Every number that a float of 8 or 16 bits can be."""
    carrier = {8: np.uint8, 16: np.int16}[bits]
    start = 0 if bits == 8 else -(2**15)
    return torch.from_numpy(np.arange(start, start + 2**bits).astype(carrier)).view(dtype)


@case("widened-{}-to-{}", arithmetic.converted)
def widened(source, target):
    """From all bit patterns of a narrow float: exact. Many elements take another way than few."""
    bits = torch.finfo(source).bits
    x = all_patterns(bits, source)
    yield dict(x_ptr=x, out_ptr=torch.zeros(2**bits, dtype=target), N=2**bits)
    yield {"out_ptr": as_numpy(x).astype(np.float32)}


@case("narrowed-{}-to-{}-{}", arithmetic.converted)
def narrowed(source, target, count):
    """Random numbers and numbers halfway between two neighbors, rounded by ml_dtypes or NumPy."""
    rng = np.random.default_rng(7)
    numbers = rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)
    numbers[::4] = np.round(numbers[::4] * 16) / 16 + 2.0 ** -rng.integers(4, 12, count)[::4]
    x = torch.from_numpy(numbers).to(source)
    yield dict(x_ptr=x, out_ptr=torch.zeros(count, dtype=target), N=count)
    kind = as_numpy(torch.zeros(1, dtype=target)).dtype
    yield {"out_ptr": as_numpy(x).astype(np.float32).astype(kind)}


@case("{}-to-{}", arithmetic.converted)
def integer_to_float(source, target):
    x, _ = integer_pairs(source)
    yield dict(x_ptr=x, out_ptr=torch.zeros(N, dtype=target), N=N)
    if target == torch.float16:  # one rounding, with infinities
        yield {"out_ptr": as_numpy(x).astype(np.float64).astype(np.float16)}
    elif target == torch.bfloat16:  # by way of float32, as Triton does
        yield {"out_ptr": as_numpy(x).astype(np.float32).astype(ml_dtypes.bfloat16)}
    else:
        yield {"out_ptr": [nearest(Fraction(v), target) for v in x.tolist()]}


@case("{}-to-{}", arithmetic.converted)
def integer_to_integer(source, target):
    x, _ = integer_pairs(source)
    out = torch.zeros(N, dtype=target)
    yield dict(x_ptr=x, out_ptr=out, N=N)
    wrapped = [wrap(v, target) for v in x.tolist()]
    yield {"out_ptr": np.array(wrapped, dtype=as_numpy(out).dtype)}


@case("bits-{}-as-{}", arithmetic.same_bits)
def same_bits(source, target):
    x = normal(N).to(source)
    yield dict(x_ptr=x, out_ptr=torch.zeros(N, dtype=target), N=N)
    yield {"out_ptr": x.view(target)}


@case("index_as_data", arithmetic.index_as_data, (4,))
def index_as_data():
    yield dict(
        out_ptr=torch.zeros(12 * 8 + 3 * 8, dtype=torch.int32), float_ptr=torch.zeros(3, 8), N=8
    )
    out = np.zeros(12 * 8 + 24, np.int32)
    real = np.zeros((3, 8), np.float32)
    lanes = np.arange(8)
    for program in range(4):  # all programs write to one place: the last one stays
        i = program * 8 + lanes
        rows = [
            i, i // 3 - i % 3, (i == 5) + (i != 2).astype(int), i.sum() + lanes, -i * 7 + 3,
            (i << 2) | 1, np.cumsum(i), np.where(i < 4, i, -i),
            (i * (lanes - 3)).max() + lanes, np.minimum(i, 6), i.astype(np.int8), i ^ lanes,
        ]  # fmt: skip
        out[:96] = np.array(rows).reshape(-1)
        real[:] = [i * 0.5, i, (1.0 / (i + 1))]
    yield {"out_ptr": out, "float_ptr": real}


@case("near_the_limit-{1}", arithmetic.near_the_limit)
def near_the_limit(dtype, start):
    yield dict(start=start, out_ptr=torch.zeros(5, 16, dtype=dtype), N=16)
    x = [wrap(start + i, dtype) for i in range(16)]
    rows = [
        x, [wrap(v * 2, dtype) for v in x], [wrap(v + start, dtype) for v in x],
        [int(v < start) for v in x], [wrap(v, torch.int16) for v in x],
    ]  # fmt: skip
    yield {"out_ptr": np.array(rows)}


@case("constants", arithmetic.constants)
def constants():
    yield dict(out_ptr=torch.ones(13, 8), N=8)
    values = [
        math.inf, -math.inf, math.nan, 1e-45, np.float16(1.1), ml_dtypes.bfloat16(1.1),
        -math.inf, math.inf, 3.4e38, 255.0, float(2**63), -5.0, 1.0,
    ]  # fmt: skip
    yield {"out_ptr": np.array([[float(v)] * 8 for v in values], np.float32)}


# Random numbers: the project's own Philox, written from the paper


def words(seed: int, offsets: np.ndarray) -> tuple[np.ndarray, ...]:
    zero = np.zeros_like(offsets, dtype=np.uint32)
    counter = (offsets.astype(np.uint32), zero, zero, zero)
    return demo.philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))


def unit(word: np.ndarray) -> np.ndarray:
    folded = np.where(word.view(np.int32) < 0, ~word.view(np.int32), word.view(np.int32))
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


@case("random_numbers-{}-{}", arithmetic.random_numbers, rtol=1e-6, atol=2e-6)
def random_numbers(seed, offset):
    integer = torch.zeros(64, dtype=torch.int32)
    yield dict(
        seed=seed, offset=offset, integer_ptr=integer, uniform_ptr=torch.zeros(64),
        normal_ptr=torch.zeros(64), N=64,
    )  # fmt: skip
    offsets = np.arange(offset, offset + 64).astype(np.int32)
    first, second, *_others = words(seed, offsets)
    u1, u2 = np.maximum(unit(first), np.float32(1e-7)).astype(np.float64), unit(second)
    gauss = np.sqrt(-2.0 * np.log(u1)) * np.cos(2 * np.pi * u2.astype(np.float64))
    uniform = demo.uniform(seed, offsets)
    yield {"integer_ptr": first.view(np.int32), "uniform_ptr": uniform, "normal_ptr": gauss}


@case("random_four", arithmetic.random_four)
def random_four():
    yield dict(seed=17, out_ptr=torch.zeros(4, 64, dtype=torch.int32), N=64)
    yield {"out_ptr": np.array(words(17, np.arange(64, dtype=np.int32))).view(np.int32)}


def arithmetic_cases() -> Iterator[Case]:
    F8 = (torch.float8_e4m3fn, torch.float8_e5m2)
    over_integers: list[Callable[[torch.dtype], Case]] = [integers, integer_scalars, comparisons]
    over_floats: list[Callable[[torch.dtype], Case]] = [floats, divisions, comparisons, fused]
    for make in over_integers:
        yield from map(make, INTEGERS)
    for make in over_floats:
        yield from map(make, FLOATS)
    yield from map(integers_at_the_ends, ENDS_ON_AN_H200)
    yield from map(zeros, FLOATS)
    yield booleans()
    yield from map(clamped, (torch.float16, torch.float32))
    yield from map(elementary, (torch.float32, torch.float64))
    yield precise()
    yield from map(high_products, (torch.int32, torch.uint32, torch.int64, torch.uint64))
    yield from (converted_at_the_ends(*types) for types in ON_AN_H200)
    yield from map(converted_toward_zero, TOWARD_ZERO_ON_AN_H200)
    for source in (*F8, torch.float16, torch.bfloat16):
        yield widened(source, torch.float32)
    yield widened(F8[0], torch.float16)
    yield widened(F8[1], torch.bfloat16)
    for target in (torch.float16, torch.bfloat16, *F8):
        yield narrowed(torch.float32, target, 64)
    yield narrowed(torch.float32, torch.bfloat16, 4096)
    yield narrowed(torch.float32, torch.float16, 4096)
    yield narrowed(torch.float16, torch.bfloat16, 4096)
    yield narrowed(torch.bfloat16, torch.float8_e5m2, 64)
    for source in (torch.int32, torch.uint32, torch.int64, torch.uint8):
        for target in (torch.float32, torch.bfloat16):
            yield integer_to_float(source, target)
    yield integer_to_float(torch.uint64, torch.float64)
    yield integer_to_float(torch.int16, torch.float16)
    yield integer_to_integer(torch.int8, torch.int64)
    yield integer_to_integer(torch.uint8, torch.int64)
    yield integer_to_integer(torch.int64, torch.uint8)
    yield integer_to_integer(torch.uint32, torch.int16)
    yield same_bits(torch.float32, torch.int32)
    yield same_bits(torch.bfloat16, torch.int16)
    yield same_bits(torch.int32, torch.float32)
    yield index_as_data()
    yield from (near_the_limit(torch.int32, s) for s in (2**31 - 16, 2**31 - 9, -(2**31), 5))
    yield from (near_the_limit(torch.int64, s) for s in (2**63 - 16, 2**63 - 9, -(2**63), 2**40))
    yield constants()
    yield random_numbers(42, 0)
    yield random_numbers(2**40 + 5, 2**31 - 32)
    yield random_four()
