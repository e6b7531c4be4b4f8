"""Kernels whose configs matter."""

import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)


@triton.jit
def scaled(x, FACTOR: tl.constexpr):
    return x * FACTOR


@triton.jit
def double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """z = 2 x."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, scaled(tl.load(x_ptr + offsets, mask=inside), SCALE), mask=inside)


@triton.jit
def wrong_in_some(x_ptr, z_ptr, n, BLOCK: tl.constexpr, BIAS: tl.constexpr):
    """z = x + BIAS: right for BIAS = 0 only."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + BIAS, mask=inside)


@triton.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    """x += 1, in place."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) + 1, mask=inside)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """One tile of a matrix product in fp16."""
    rows, k = tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * BLOCK + rows[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], total.to(tl.float16))


@triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)],
    key=["n"],
    reset_to_zero=["z_ptr"],
)
@triton.jit
def autotuned_double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """z += 2 x."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    z = tl.load(z_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, z + 2 * tl.load(x_ptr + offsets, mask=inside), mask=inside)
