"""Kernels that convert numbers to types that are too narrow for them, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def to_half(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = (x * 3.0).to(tl.float16)  # fault: float-overflow
    tl.store(out_ptr + lanes, y)


@triton.jit
def stored_as_half(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The store converts to the type of its pointer."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    total = tl.cumsum(x, axis=0)
    tl.store(out_ptr + lanes, total, mask=lanes < n)  # fault: float-overflow


@triton.jit
def to_brain(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x.to(tl.bfloat16).to(tl.float32))  # fault: float-overflow


@triton.jit
def to_eight_bits(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """fp8 saturates: 500 becomes 448."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = x.to(tl.float8e4nv)  # fault: float-overflow
    tl.store(out_ptr + lanes, y)


@triton.jit
def weights(x_ptr, v_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """Weights that are not normalized yet go into a product of fp16."""
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :])
    weight = tl.exp(x)
    half = weight.to(tl.float16)  # fault: float-overflow
    v = tl.load(v_ptr + k[:, None] * N + n[None, :])
    total = tl.sum(weight, axis=1)
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.dot(half, v) / total[:, None])


@triton.jit
def overflow_that_ends(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A large number that stands for "never" becomes infinity, and its weight 0."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    x = tl.where(lanes < 8, x, -1.0e9).to(tl.float16)
    tl.store(out_ptr + lanes, tl.exp(x.to(tl.float32)))


def up_to(largest: float, n: int) -> torch.Tensor:
    return torch.linspace(0.0, largest, n)


HALF, EIGHT_BITS = torch.float16, torch.float8_e4m3fn

PAIRS = [
    pair(to_half, {"y = (x * 3.0).to(tl.float16)": "y = tl.minimum(x * 3.0, 65504.0).to(tl.float16)"}, (1,), lambda: (up_to(30_000.0, 16), zeros(16, dtype=HALF)), BLOCK=16),
    Pair(
        faulty=Launch(stored_as_half, (1,), lambda: (up_to(20_000.0, 12), zeros(12, dtype=HALF), 12), {"BLOCK": 16}),
        clean=Launch(stored_as_half, (1,), lambda: (up_to(20_000.0, 12), zeros(12), 12), {"BLOCK": 16}),
    ),
    pair(to_brain, {"lanes, x": "lanes, (x * 0.5)"}, (1,), lambda: (torch.tensor([1.0, 3.4e38, -3.4e38, 3.0e38]), zeros(4)), BLOCK=4),
    # Scaled by the largest, as quantization does.
    pair(to_eight_bits, {"y = x.to(tl.float8e4nv)": "scale = tl.max(tl.abs(x), axis=0) / 448.0\n    y = (x / scale).to(tl.float8e4nv)"}, (1,), lambda: (up_to(500.0, 16), zeros(16, dtype=EIGHT_BITS)), BLOCK=16),
    pair(
        weights, {"weight = tl.exp(x)": "weight = tl.exp(x - tl.max(x, axis=1)[:, None])"}, (1,),
        lambda: (up_to(14.0, 256).reshape(16, 16), normal(16, 16, dtype=HALF), zeros(16, 16)), M=16, K=16, N=16,
    ),
    Pair(
        faulty=Launch(to_half, (1,), lambda: (-up_to(60_000.0, 16), zeros(16, dtype=HALF)), {"BLOCK": 16}),
        clean=Launch(overflow_that_ends, (1,), lambda: (normal(16), zeros(16)), {"BLOCK": 16}),
    ),
]  # fmt: skip
