"""Integers of 8 and 16 bits that wrap on their way to memory, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, pair, zeros

# fmt: off


@triton.jit
def scores(q_ptr, k_ptr, out_ptr, scale, D: tl.constexpr):
    """A product of int8 is an int8."""
    row, d = tl.program_id(0), tl.arange(0, D)
    q = tl.load(q_ptr + row * D + d)
    k = tl.load(k_ptr + row * D + d)
    products = q * k  # fault: integer-overflow
    tl.store(out_ptr + row, tl.sum(products.to(tl.int32), axis=0) * scale)


@triton.jit
def blend(a_ptr, b_ptr, alpha, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < n
    a, b = tl.load(a_ptr + lanes, mask=inside, other=0), tl.load(b_ptr + lanes, mask=inside, other=0)
    mixed = (a * 3 + b) // 4  # fault: integer-overflow
    tl.store(out_ptr + lanes, mixed, mask=inside)


@triton.jit
def loudest(left_ptr, right_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    left, right = tl.load(left_ptr + lanes), tl.load(right_ptr + lanes)
    both = left + right  # fault: integer-overflow
    tl.store(out_ptr, tl.max(tl.abs(both), axis=0))


@triton.jit
def dequantize(q_ptr, zero_ptr, scale_ptr, out_ptr, GROUP: tl.constexpr):
    group, lanes = tl.program_id(0), tl.arange(0, GROUP)
    q, zero = tl.load(q_ptr + group * GROUP + lanes), tl.load(zero_ptr + group)
    centered = q - zero  # fault: integer-overflow
    tl.store(out_ptr + group * GROUP + lanes, centered.to(tl.float32) * tl.load(scale_ptr + group))


@triton.jit
def unpacked(packed_ptr, scale, out_ptr, N: tl.constexpr):
    """Four bits with a sign: the upper ones are shifted out on purpose."""
    lanes = tl.arange(0, N)
    packed = tl.load(packed_ptr + lanes)
    low, high = (packed << 4) >> 4, packed >> 4
    tl.store(out_ptr + 2 * lanes, low.to(tl.float32) * scale)
    tl.store(out_ptr + 2 * lanes + 1, high.to(tl.float32) * scale)


@triton.jit
def digits(text_ptr, out_ptr, sum_ptr, N: tl.constexpr):
    """One comparison for two, without a sign; and a checksum modulo 256."""
    lanes = tl.arange(0, N)
    text = tl.load(text_ptr + lanes)
    tl.store(out_ptr + lanes, ((text - 48).to(tl.uint8) < 10).to(tl.int32))
    check = tl.zeros((), tl.uint8)
    for i in range(N):
        check += tl.load(text_ptr + i) * 7
    tl.store(sum_ptr, check)


def bytes_of(*size: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    """All numbers of a type alike."""
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, size, generator=torch.Generator().manual_seed(3)).to(dtype)


@triton.jit
def stores_wider(x_ptr, out_ptr, WAY: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if WAY == 0:
        x = tl.cumsum(x, axis=0)
    elif WAY == 1:
        x = x + 200
    elif WAY == 2:
        x = (x >> 8) * 4096
    elif WAY == 3:
        x = x * 6364136223846793005 + 1
    tl.store(out_ptr + lanes, x)  # fault: truncated-store


@triton.jit
def cut_to_int32(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    milliseconds = tl.load(x_ptr + lanes) * 1000
    tl.store(out_ptr + lanes, milliseconds.to(tl.int32))  # fault: cast-overflow


@triton.jit
def difference(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes)
    tl.store(out_ptr + lanes, x - y)  # fault: integer-overflow


def counted(of: torch.dtype, by: int = 1) -> torch.Tensor:
    return (torch.arange(16) * by).to(of)


PAIRS = [
    pair(scores, {"q * k": "q.to(tl.int32) * k"}, (4,), lambda: (bytes_of(4, 64), bytes_of(4, 64), zeros(4), 0.01), D=64),
    pair(
        blend, {"(a * 3 + b) // 4": "((a.to(tl.int32) * 3 + b) // 4).to(tl.uint8)"}, (3,),
        lambda: (bytes_of(300, dtype=torch.uint8), bytes_of(300, dtype=torch.uint8), 3, zeros(300, dtype=torch.uint8), 300),
        BLOCK=128,
    ),
    pair(
        loudest, {"both = left + right": "both = left.to(tl.int32) + right"}, (1,),
        lambda: (bytes_of(256, dtype=torch.int16), bytes_of(256, dtype=torch.int16), zeros(1, dtype=torch.int32)), BLOCK=256,
    ),
    pair(
        dequantize, {"q - zero": "q.to(tl.float32) - zero.to(tl.float32)", "centered.to(tl.float32)": "centered"}, (2,),
        lambda: (bytes_of(2, 32), torch.tensor([100, -100], dtype=torch.int8), torch.ones(2), zeros(2, 32)), GROUP=32,
    ),
    Pair(
        faulty=Launch(scores, (1,), lambda: (bytes_of(1, 16), bytes_of(1, 16), zeros(1), 1.0), {"D": 16}),
        clean=Launch(unpacked, (1,), lambda: (bytes_of(64), 0.5, zeros(128)), {"N": 64}),
    ),
    Pair(
        faulty=Launch(scores, (2,), lambda: (bytes_of(2, 16), bytes_of(2, 16), zeros(2), 1.0), {"D": 16}),
        clean=Launch(
            digits, (1,),
            lambda: (bytes_of(64, dtype=torch.uint8), zeros(64, dtype=torch.int32), zeros(1, dtype=torch.uint8)), {"N": 64},
        ),
    ),
    Pair(
        faulty=Launch(stores_wider, (1,), lambda: (counted(torch.int8, 2), zeros(16, dtype=torch.int8)), {"WAY": 0, "BLOCK": 16}),
        clean=Launch(stores_wider, (1,), lambda: (counted(torch.int8), zeros(16, dtype=torch.int32)), {"WAY": 0, "BLOCK": 16}),
    ),
    Pair(
        faulty=Launch(stores_wider, (1,), lambda: (counted(torch.int32, 8), zeros(16, dtype=torch.uint8)), {"WAY": 1, "BLOCK": 16}),
        clean=Launch(stores_wider, (1,), lambda: (counted(torch.int64, 1 << 30), zeros(16, dtype=torch.int32)), {"WAY": 2, "BLOCK": 16}),
    ),
    Pair(
        faulty=Launch(stores_wider, (1,), lambda: (counted(torch.int64, 1 << 30), zeros(16, dtype=torch.int32)), {"WAY": 4, "BLOCK": 16}),
        clean=Launch(stores_wider, (1,), lambda: (counted(torch.int64), zeros(16, dtype=torch.int32)), {"WAY": 3, "BLOCK": 16}),
    ),
    Pair(
        faulty=Launch(cut_to_int32, (1,), lambda: (counted(torch.int64, 1 << 20), zeros(16, dtype=torch.int32)), {"BLOCK": 16}),
        clean=Launch(cut_to_int32, (1,), lambda: (counted(torch.int64), zeros(16, dtype=torch.int32)), {"BLOCK": 16}),
    ),
    pair(
        difference, {"x - y": "tl.where(x + y < x, 255, x + y)"}, (1,),
        lambda: (counted(torch.uint8, 3), counted(torch.uint8, 16), zeros(16, dtype=torch.uint8)), BLOCK=16,
    ),
]  # fmt: skip
