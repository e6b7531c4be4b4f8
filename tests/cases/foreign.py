"""Cases of inline assembly and device libraries, through kernels."""

# ruff: noqa: C408 - arguments by name read best as calls of dict

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import torch

from tests.cases.arithmetic import wrap
from tests.cases.case import Case, as_numpy, case, normal, whole
from tests.kernels.interp import foreign

WORD = 2**32

ONE_REGISTER: dict[str, Callable[[int, int, int], int]] = {
    "shf.l.wrap.b32 $0, $1, $2, $3;": lambda x, y, s: ((y << 32 | x) << (s % 32)) // WORD,
    "shf.r.clamp.b32 $0, $1, $2, $3;": lambda x, y, s: (y << 32 | x) >> min(s, 32),
    "lop3.b32 $0, $1, $2, $3, 0xE8;": lambda x, y, s: x & y | x & s | y & s,
    "mad.lo.u32 $0, $1, $2, $3;": lambda x, y, s: x * y + s,
    "mad.hi.u32 $0, $1, $2, $3;": lambda x, y, s: x * y // WORD + s,
    "prmt.b32 $0, $1, $2, 0x3715;": lambda x, y, _: int.from_bytes(
        bytes((y << 32 | x).to_bytes(8, "little")[i] for i in (5, 1, 7, 3)), "little"
    ),
    "bfe.u32 $0, $1, $3, 7;": lambda x, _, s: x >> s & 127,
    "bfi.b32 $0, $1, $2, $3, 5;": lambda x, y, s: y & ~(31 << s) | (x & 31) << s,
    "add.u32 $0, $1, $2; xor.b32 $0, $0, $3; not.b32 $0, $0;": lambda x, y, s: ~((x + y) ^ s),
    "popc.b32 $0, $1; clz.b32 $0, $0;": lambda x, *_: 32 - x.bit_count().bit_length(),
    "brev.b32 $0, $1;": lambda x, *_: int(f"{x:032b}"[::-1], 2),
}
"""Assembly -> Python's integers."""


@case(lambda asm, shift: f"assembly-{asm.split()[0]}-{shift}", foreign.one_register_each, (2,))
def one_register(asm, shift):
    x, y = (whole(64, low=0, high=WORD, seed=s, dtype=torch.int64).to(torch.int32) for s in (0, 1))
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros_like(x), shift=shift, ASM=asm, N=32)
    lanes = zip((x.long() % WORD).tolist(), (y.long() % WORD).tolist())
    result = [wrap(ONE_REGISTER[asm](x, y, shift), torch.int32) for x, y in lanes]
    yield {"out_ptr": np.array(result, np.int32)}


@case("four_in_a_register", foreign.four_in_a_register, (2,))
def four_in_a_register():
    x = whole(64, low=-128, high=128, dtype=torch.int8)
    yield dict(x_ptr=x, out_ptr=torch.zeros_like(x), N=32)
    yield {"out_ptr": x.view(torch.uint8) << 3}


@case("several_results", foreign.several_results, (3,))
def several_results():
    a = whole(3, 2, 16, low=0, high=256, dtype=torch.uint8)
    b = normal(16).mul(100)
    yield dict(
        a_ptr=a, b_ptr=b, c_ptr=torch.zeros(3, 2, 16, dtype=torch.int32),
        d_ptr=torch.zeros(3, 2, 16), N=16,
    )  # fmt: skip
    yield {"c_ptr": a.int(), "d_ptr": torch.maximum(a.float(), b)}


@case("through_memory", foreign.through_memory, (2,))
def through_memory():
    x = whole(64, low=-(2**15), high=2**15, dtype=torch.int16)
    out = torch.zeros_like(x)
    yield dict(x_ptr=x, out_ptr=out, n=50, N=32)
    out[:50] = x[:50] << 3
    yield {"out_ptr": out}


KINDS = {torch.float16: "f16", torch.bfloat16: "bf16"}
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add.rn.{}x2 $0, $1, $2;": lambda x, y: x + y,
    "fma.rn.{}x2 $0, $1, $2, $1;": lambda x, y: x * y + x,
    "max.NaN.{}x2 $0, $1, $2;": np.maximum,
    "{{ .reg .b16 a, b; mov.b32 {{a, b}}, $1; mov.b32 $0, {{a, b}}; }}": lambda x, _: x,
}


@case(lambda asm, dtype: f"pairs-{asm.split()[0]}-{KINDS[dtype]}", foreign.pairs_of_halves)
def pairs_of_halves(asm, dtype):
    x, y = normal(16, dtype=dtype), normal(16, seed=1, dtype=dtype)
    x[3] = math.nan
    text = asm.format(KINDS[dtype])
    yield dict(x_ptr=x, y_ptr=y, out_ptr=torch.zeros_like(x), ASM=text, N=16)
    # Products and sums are exact in float64.
    result = PAIRS[asm](x.double().numpy(), y.double().numpy())
    yield {"out_ptr": result.astype(as_numpy(x).dtype)}


@case("through_e4b15", foreign.through_e4b15)
def through_e4b15():
    """Numbers that 4 bits of exponent with a bias of 15 and 3 bits of fraction hold exactly."""
    magnitudes = [0.0, 1.0, 1.125, 0.5, 1.75, 0.0625, 0.015625 * 1.5, 2.0**-14]
    x = torch.tensor([*magnitudes, *(-m for m in magnitudes)], dtype=torch.float16)
    yield dict(
        x_ptr=x, out_ptr=torch.zeros_like(x), bits_ptr=torch.zeros(16, dtype=torch.uint8), N=16
    )
    bits = x.view(torch.int16).numpy().astype(np.uint16)
    narrow = bits >> 8 & 0x80 | bits >> 7 & 0x7F  # fp16 has the bias 15 too
    yield {"out_ptr": x, "bits_ptr": narrow.astype(np.uint8)}


@case("functions_of_one", foreign.functions_of_one, (2,), rtol=1e-06)
def functions_of_one():
    x_ptr = torch.linspace(0.6, 5, 32)
    yield dict(x_ptr=x_ptr, out_ptr=torch.zeros(32), N=16)
    yield {
        "out_ptr": [
            float(mpmath.tanh(x) + mpmath.gamma(x) - mpmath.erfinv(0.5 / x)) for x in x_ptr.tolist()
        ]
    }


@case("functions_of_several", foreign.functions_of_several, rtol=2e-07)
def functions_of_several():
    x_ptr = normal(16)
    y_ptr = normal(16, seed=1)
    yield dict(x_ptr=x_ptr, y_ptr=y_ptr, out_ptr=torch.zeros(4, 16), N=16)
    xs, ys = x_ptr.tolist(), y_ptr.tolist()
    tiny = Fraction(float(np.float32(1e-9)))
    yield {
        "out_ptr": np.array(
            [
                [abs(x) ** y for x, y in zip(xs, ys)],
                [float(Fraction(x) * Fraction(y) + tiny) for x, y in zip(xs, ys)],
                [float(mpmath.besselj(3, x)) for x in xs],
                [math.ceil(x) for x in xs],
            ]
        )
    }


@case("integers_and_bits", foreign.integers_and_bits)
def integers_and_bits():
    x = whole(16, low=-(2**31), high=2**31, dtype=torch.int32)
    x[:4] = torch.tensor([0, 1, -1, -(2**31)])
    yield dict(x_ptr=x, out_ptr=torch.zeros(5, 16, dtype=torch.int32), N=16)
    rows = []
    for number in x.tolist():
        bits = number % WORD
        other = wrap(number + 77, torch.int32)
        row = [
            bits.bit_count(), 32 - bits.bit_length(), int(f"{bits:032b}"[::-1], 2),
            (bits & -bits).bit_length(), number * other >> 32,
        ]  # fmt: skip
        rows.append([wrap(v, torch.int32) for v in row])
    yield {"out_ptr": np.array(rows).T}


def foreign_cases() -> Iterator[Case]:
    for asm in ONE_REGISTER:
        yield one_register(asm, 17)
    yield one_register("shf.l.wrap.b32 $0, $1, $2, $3;", 35)
    yield one_register("shf.r.clamp.b32 $0, $1, $2, $3;", 35)
    yield four_in_a_register()
    yield several_results()
    yield through_memory()
    for asm in PAIRS:
        yield from (pairs_of_halves(asm, dtype) for dtype in (torch.float16, torch.bfloat16))
    yield through_e4b15()
    yield functions_of_one()
    yield functions_of_several()
    yield integers_and_bits()
