"""Kernels that touch memory in one way each; `memory_cases` gives them sizes."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

# Triton 3.9 has another name for this.
copy_to_shared = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def copy_whole(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))


@triton.jit
def copy_strided(x, out, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * STRIDE))


@triton.jit
def copy_shifted(x, out, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at + shift))


@triton.jit
def copy_every_other(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    on = at // 64 % 2 == 0
    tl.store(out + at, tl.load(x + at, mask=on, other=0.0), mask=on)


@triton.jit
def gather(x, index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + tl.load(index + at)))


@triton.jit
def scatter(x, index, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.load(index + at), tl.load(x + at))


@triton.jit
def copy_rows(x, out, m, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    inside = (rows < m) & (columns < n)
    at = rows * n + columns
    tl.store(out + at, tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def copy_columns(x, out, M: tl.constexpr, N: tl.constexpr, STRIDE: tl.constexpr):
    """Both tiles lie in memory column by column."""
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    at = columns * STRIDE + rows
    tl.store(out + at, tl.load(x + at))


@triton.jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Read by rows, written by columns: a conversion through shared memory where the compiler thinks that it pays."""
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + rows * COLUMNS + columns)
    tl.store(out + columns * ROWS + rows, tile)


@triton.jit
def sum_rows(x, out, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + rows, tl.sum(tile, axis=1))


@triton.jit
def sum_columns(x, out, M: tl.constexpr, N: tl.constexpr):
    columns = tl.arange(0, N)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    tile = tl.load(x + rows[:, None] * N + columns[None, :])
    tl.store(out + tl.program_id(0) * N + columns, tl.sum(tile, axis=0))


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + columns
    row = tl.load(x + at, mask=columns < n, other=-float("inf"))
    numerator = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + at, numerator / tl.sum(numerator, axis=0), mask=columns < n)


@triton.jit
def running_sums(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :] + tl.program_id(0) * M * N
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    a = a_ptr + rows[:, None] * k + depth[None, :]
    b = b_ptr + depth[:, None] * n + columns[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += K
        b += K * n
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_by_descriptors(
    a_ptr, b_ptr, c_ptr, n, k,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    m = tl.num_programs(0) * M
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [M, K])
    b = tl.make_tensor_descriptor(b_ptr, [k, n], [n, 1], [K, N])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    acc = tl.zeros((M, N), tl.float32)
    for depth in range(0, k, K):
        acc = tl.dot(a.load([row, depth]), b.load([depth, column]), acc)
    c.store([row, column], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def add_atomically(x, out, BLOCK: tl.constexpr, EVERY: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at // EVERY, tl.load(x + at))


@triton.jit
def take_a_number(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_add(x + at, 1))


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(values, BINS))


@gluon.jit
def copy_asynchronously(
    x, out, n,
    ROWS: gl.constexpr, COLUMNS: gl.constexpr, VECTOR: gl.constexpr, LANES: gl.constexpr, FIRST: gl.constexpr,
    APART: gl.constexpr, SWIZZLE: gl.constexpr,
):  # fmt: skip
    """One asynchronous copy of a tile, `LANES` lanes of a warp along a row, into rows (FIRST = 1) or columns (0) of shared memory."""
    layout: gl.constexpr = gl.BlockedLayout(
        [1, VECTOR], [32 // LANES, LANES], [gl.num_warps(), 1], [1, 0]
    )
    shared: gl.constexpr = gl.SwizzledSharedLayout(
        VECTOR if SWIZZLE > 1 else 1, 1, SWIZZLE, [FIRST, 1 - FIRST]
    )
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))[None, :]
    inside = rows * COLUMNS + columns
    at = gl.program_id(0) * ROWS * APART + rows * APART + columns
    tile = gl.allocate_shared_memory(x.dtype.element_ty, [ROWS, COLUMNS], shared)
    copy_to_shared(tile, x + at, mask=inside < n)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + at, tile.load(layout))
