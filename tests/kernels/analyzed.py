import triton
import triton.language as tl


@triton.jit
def scaled_sums(x_ptr, out_ptr, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """Sum of each element's square, times two, over a known number of blocks."""
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(STEPS):
        x = tl.load(x_ptr + step * BLOCK + offsets)
        total += x * x
    tl.store(out_ptr + offsets, total * 2.0)


@triton.jit
def small_dot(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    """One product of tiles that are too small for Hopper's matrix unit."""
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + tile)
    b = tl.load(b_ptr + tile)
    tl.store(c_ptr + tile, tl.dot(a, b))


@triton.jit
def load_every_third(x_ptr, i, n):
    return tl.load(x_ptr + i * 3, mask=i < n, other=0.0)


@triton.jit
def strided_through_a_helper(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, load_every_third(x_ptr, i, n))


@triton.jit
def sums_one_further_each_turn(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Its tiles begin at every element, the first at an aligned one."""
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    first = 0
    while first < n:
        total += tl.load(x_ptr + first + offsets)
        first += 1
    tl.store(out_ptr + offsets, total)


@triton.jit
def sums_the_tile_at_a_remainder(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Of the remainder of two scalars the compiler knows no divisor."""
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, 5 * n, BLOCK):
        total += tl.load(x_ptr + first % n + offsets)
    tl.store(out_ptr + offsets, total)


@triton.jit
def from_either_end(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Which of two pointers it reads by, a branch decides."""
    offsets = tl.arange(0, BLOCK)
    if n > 3:
        start = x_ptr + offsets
    else:
        start = x_ptr + n + offsets
    tl.store(out_ptr + offsets, tl.load(start))
