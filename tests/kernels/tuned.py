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


@triton.constexpr_function
def compiles_badly(how):
    """1, unless the process that compiles is to suffer. Triton refuses functions of other modules by their global names."""
    import ctypes as c
    import time as t

    if how == "segfaults":
        c.string_at(0)
    if how == "hangs":
        t.sleep(1000)
    return 1


@triton.jit
def hard_to_compile(x_ptr, z_ptr, n, BLOCK: tl.constexpr, HOW: tl.constexpr):
    """z = x, where it compiles."""
    ONE: tl.constexpr = compiles_badly(HOW)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * ONE, mask=inside)


@triton.jit
def counts_up(x_ptr, z_ptr, n, BLOCK: tl.constexpr, STOP: tl.constexpr):
    """z = x, after a loop that ends for even STOP only."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    count = 0
    while count != STOP:
        count += 2
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, x + (count - STOP), mask=inside)


@triton.jit
def unknown_to_the_interpreter(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """z says which lanes of a warp hold the same x."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    z = tl.inline_asm_elementwise(
        "match.any.sync.b32 $0, $1, 0xffffffff;", "=r,r", [x], tl.int32, is_pure=True, pack=1
    )
    tl.store(z_ptr + offsets, z, mask=inside)


@triton.jit
def applies(x_ptr, z_ptr, n, BLOCK: tl.constexpr, FUNCTION: tl.constexpr):
    """z = FUNCTION(x)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, FUNCTION(tl.load(x_ptr + offsets, mask=inside)), mask=inside)
