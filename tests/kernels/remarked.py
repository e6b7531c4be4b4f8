"""Kernels of which the compiler says something: one for each phrase that can be caused."""

import triton
import triton.language as tl


@triton.jit
def copied(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def strided(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i * 3))


@triton.jit
def added(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def largest(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_max(y_ptr + i, tl.load(x_ptr + i))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    k = tl.arange(0, K)
    a = tl.load(a_ptr + m * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n)
    tl.store(c_ptr + m * N + n, tl.dot(a, b))


@triton.jit
def products(a_ptr, b_ptr, c_ptr, log_ptr, N, K, M_TILE: tl.constexpr, N_TILE: tl.constexpr,
             K_TILE: tl.constexpr, LOG: tl.constexpr):  # fmt: skip
    m = tl.arange(0, M_TILE)[:, None]
    n = tl.arange(0, N_TILE)[None, :]
    k = tl.arange(0, K_TILE)
    total = tl.zeros((M_TILE, N_TILE), tl.float32)
    for start in range(0, K, K_TILE):
        a = tl.load(a_ptr + m * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n)
        total = tl.dot(a, b, total)
        if LOG:
            tl.store(log_ptr + start, 1.0)
    tl.store(c_ptr + m * N + n, total)


@triton.jit
def specialized(a_ptr, b_ptr, c_ptr, M, N, K, TILE: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [TILE, 64])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [TILE, 64])
    total = tl.zeros((TILE, TILE), tl.float32)
    for k in tl.range(0, K, 64, warp_specialize=True):
        total = tl.dot(a.load([0, k]), b.load([0, k]).T, total)
    i = tl.arange(0, TILE)
    tl.store(c_ptr + i[:, None] * N + i[None, :], total)


@triton.jit
def scaled_product(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    k = tl.arange(0, K)
    s = tl.arange(0, K // 32)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + i[None, :])
    a_scale = tl.load(a_scale_ptr + i[:, None] * (K // 32) + s[None, :])
    b_scale = tl.load(b_scale_ptr + i[:, None] * (K // 32) + s[None, :])
    c = tl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3")
    tl.store(c_ptr + i[:, None] * N + i[None, :], c)


@triton.jit
def assuming(x_ptr, y_ptr, n, EITHER: tl.constexpr, BLOCK: tl.constexpr):
    if EITHER:
        tl.assume((n > 0) | (n < -20))
    else:
        tl.assume(n != 0)
    i = tl.program_id(0) * n + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i))


@triton.jit
def shifted(x):
    return x << 40


@triton.jit
def outdated(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    x = tl.where(i, x, 0)
    x = tl.where((i > 3) and (i < 9), x, 1)
    x = tl.view(shifted(x), (BLOCK, 1))
    one = tl.zeros((1,), tl.int32) + tl.load(x_ptr)
    if one > 3:
        x = x + 1
    tl.store(y_ptr + i[:, None], x)


@triton.jit
def through_a_block_pointer(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)))


@triton.jit
def reordered(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    twice = tl.cat(x, x, can_reorder=True)
    tl.store(y_ptr + tl.arange(0, 2 * BLOCK), tl.reshape(twice, (2 * BLOCK,), can_reorder=True))


@triton.jit
def softmax(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.softmax(tl.load(x_ptr + i), keep_dims=True))


@triton.jit
def crowded(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """More alive at once than registers: every element waits for the sum of all."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x / tl.sum(tl.exp(x)))


@triton.jit
def printing(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.device_print("x", x)
    tl.store(y_ptr + i, x)
