"""Floats that are converted to integers of 8 bits which do not hold them, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def quantize(x_ptr, scale_ptr, q_ptr, stride, n, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + lanes, mask=lanes < n, other=0.0)
    scaled = x / tl.load(scale_ptr + row)
    rounded = tl.where(scaled >= 0, tl.floor(scaled + 0.5), tl.ceil(scaled - 0.5))
    q = rounded.to(tl.int8)  # fault: cast-overflow
    tl.store(q_ptr + row * stride + lanes, q, mask=lanes < n)


@triton.jit
def pixels(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Through int32, which holds them."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    level = (tl.load(x_ptr + lanes) * 255.0 + 0.5).to(tl.int32)
    tl.store(out_ptr + lanes, level.to(tl.uint8))  # fault: cast-overflow


@triton.jit
def with_zero_point(x_ptr, q_ptr, back_ptr, scale, zero, BLOCK: tl.constexpr):
    """The zero point takes it out of the type; the clamp comes too late."""
    lanes = tl.arange(0, BLOCK)
    q = (tl.load(x_ptr + lanes) / scale).to(tl.int32) + zero
    narrow = q.to(tl.int8)  # fault: cast-overflow
    narrow = tl.minimum(tl.maximum(narrow, -120), 120)
    tl.store(q_ptr + lanes, narrow)
    tl.store(back_ptr + lanes, (narrow.to(tl.int32) - zero) * scale)


@triton.jit
def ages(born_ptr, now, out_ptr, n, BLOCK: tl.constexpr):
    """What does not fit is not stored: lanes that are off, and lanes that another value is put into."""
    lanes = tl.arange(0, BLOCK)
    born = tl.load(born_ptr + lanes, mask=lanes < n, other=-float("inf"))
    age = (now - born).to(tl.int16)
    tl.store(out_ptr + lanes, tl.where(born > 0, age, -1), mask=lanes < n)


@triton.jit
def low_byte(x_ptr, out_ptr, N: tl.constexpr):
    """Bits of an integer that is no float are cut on purpose; so are those that are put together."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes)
    level = (x * 15.0).to(tl.int32)
    packed = (level << 4) | level
    tl.store(out_ptr + 2 * lanes, packed.to(tl.int8))
    tl.store(out_ptr + 2 * lanes + 1, (lanes * 37).to(tl.int8))


PAIRS = [
    pair(
        quantize, {"q = rounded.to(tl.int8)": "q = tl.clamp(rounded, -128.0, 127.0).to(tl.int8)"}, (3,),
        lambda: (normal(3, 100), normal(3, 100).abs().amax(1) / 200, zeros(3, 100, dtype=torch.int8), 100, 100), BLOCK=128,
    ),
    Pair(
        faulty=Launch(quantize, (1,), lambda: (normal(1, 64) * 100, torch.ones(1), zeros(1, 64, dtype=torch.int8), 64, 64), {"BLOCK": 64}),
        clean=Launch(quantize, (1,), lambda: (normal(1, 64) * 10, torch.ones(1), zeros(1, 64, dtype=torch.int8), 64, 64), {"BLOCK": 64}),
    ),
    pair(pixels, {"tl.store(out_ptr + lanes, level.to(tl.uint8))": "level = tl.minimum(tl.maximum(level, 0), 255)\n    tl.store(out_ptr + lanes, level.to(tl.uint8))"}, (2,), lambda: (normal(128), zeros(128, dtype=torch.uint8)), BLOCK=64),
    pair(
        with_zero_point, {"narrow = q.to(tl.int8)  # fault: cast-overflow\n    narrow = tl.minimum(tl.maximum(narrow, -120), 120)": "narrow = tl.minimum(tl.maximum(q, -120), 120).to(tl.int8)"}, (1,),
        lambda: (normal(64) * 100, zeros(64, dtype=torch.int8), zeros(64), 2.0, 50), BLOCK=64,
    ),
    Pair(
        faulty=Launch(pixels, (1,), lambda: (torch.full((64,), 1.01), zeros(64, dtype=torch.uint8)), {"BLOCK": 64}),
        clean=Launch(ages, (1,), lambda: (torch.tensor([1970.0, -1e6, 2000.0, 1e-3 - 7e5]), 2024.0, zeros(4, dtype=torch.int16), 4), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(pixels, (1,), lambda: (-normal(64).abs(), zeros(64, dtype=torch.uint8)), {"BLOCK": 64}),
        clean=Launch(low_byte, (1,), lambda: (torch.rand(32), zeros(64, dtype=torch.int8)), {"N": 32}),
    ),
]  # fmt: skip
