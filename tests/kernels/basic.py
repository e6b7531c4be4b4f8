"""Kernels that the tests compile: ordinary Triton code, in a real file because Triton reads its source."""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """C = A @ B for A (M, K) and B (K, N), one (BLOCK_M, BLOCK_N) tile of C per program."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < K - start) & (columns[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(
        c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N)
    )


@triton.jit
def copy_many(x_ptr, y_ptr, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Holds a whole tile in registers across a barrier of a reduction, so that a low register limit spills."""
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + rows * stride + columns)
    total = tl.sum(tl.sum(x, 1), 0)
    tl.store(y_ptr + rows * stride + columns, x * total)


@triton.jit
def matmul_into(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    """One (SIZE, SIZE) product, of whatever type c_ptr says."""
    rows = tl.arange(0, SIZE)[:, None]
    columns = tl.arange(0, SIZE)[None, :]
    tile = rows * SIZE + columns
    product = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile), out_dtype=c_ptr.dtype.element_ty)
    tl.store(c_ptr + tile, product)
