"""Matrix products that are slow, or not; M is a parameter as in most."""

# ruff: noqa: ARG001

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr = "tf32", PARTS: tl.constexpr = 1,
):  # fmt: skip
    """c = a @ b; with PARTS, parts of K are added up by atomics."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.program_id(2) * (K // PARTS) + tl.arange(0, BK)
    at_a = a + row[:, None] * K + depth[None, :]
    at_b = b + depth[:, None] * N + column[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K // PARTS, BK):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total, input_precision=PRECISION)
        at_a += BK
        at_b += BK * N
    at_c = c + row[:, None] * N + column[None, :]
    if PARTS == 1:
        tl.store(at_c, total.to(c.dtype.element_ty))
    else:
        tl.atomic_add(at_c, total)


@triton.jit
def matmul_while(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with a while loop."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    first = 0
    while first < K:
        x = tl.load(a + row[:, None] * K + first + depth[None, :])
        y = tl.load(b + (first + depth[:, None]) * N + column[None, :])
        total = tl.dot(x, y, total)
        first += BK
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def matmul_widened(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same, with operands made fp32 before the product."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        x = tl.load(a + row[:, None] * K + first + depth[None, :]).to(tl.float32)
        y = tl.load(b + (first + depth[:, None]) * N + column[None, :]).to(tl.float32)
        total = tl.dot(x, y, total)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def matmul_turned(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PRECISION: tl.constexpr = "tf32",
):  # fmt: skip
    """c = a @ b.T, both with K as their last dimension."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        x = tl.load(a + row[:, None] * K + first + depth[None, :])
        y = tl.load(b + column[None, :] * K + first + depth[:, None])
        total = tl.dot(x, y, total, input_precision=PRECISION)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def product_by_sums(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same as sums over broadcast products."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        x = tl.load(a + row[:, None] * K + first + depth[None, :]).to(tl.float32)
        y = tl.load(b + column[:, None] * K + first + depth[None, :]).to(tl.float32)
        total += tl.sum(x[:, None, :] * y[None, :, :], 2)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def sum_with_turned(x, y, out, N, COUNT, SIZE: tl.constexpr):
    """The sum of matrices, and of others transposed: each tile is turned."""
    row = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for which in range(COUNT):
        here = which * N * N
        total += tl.load(x + here + row[:, None] * N + column[None, :])
        total += tl.trans(tl.load(y + here + column[:, None] * N + row[None, :]))
    tl.store(out + row[:, None] * N + column[None, :], total)


@triton.jit
def sum_turned_once(x, y, out, N, COUNT, SIZE: tl.constexpr):
    """The same: the sum is turned."""
    row = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    turned = tl.zeros((SIZE, SIZE), tl.float32)
    for which in range(COUNT):
        here = which * N * N
        total += tl.load(x + here + row[:, None] * N + column[None, :])
        turned += tl.load(y + here + column[:, None] * N + row[None, :])
    tl.store(out + row[:, None] * N + column[None, :], total + tl.trans(turned))


@triton.jit
def product_by_columns(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    """The same, one column of a times one row of b an iteration."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        x = tl.load(a + row * K + k).to(tl.float32)
        y = tl.load(b + k * N + column).to(tl.float32)
        total += x[:, None] * y[None, :]
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def gram_by_rows(x, out, ROWS, COLUMNS, BN: tl.constexpr):
    """x.T @ x as a sum of products of each row with itself."""
    row = tl.program_id(0) * BN + tl.arange(0, BN)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BN, BN), tl.float32)
    for k in range(ROWS):
        left = tl.load(x + k * COLUMNS + row).to(tl.float32)
        right = tl.load(x + k * COLUMNS + column).to(tl.float32)
        total += left[:, None] * right[None, :]
    tl.store(out + row[:, None] * COLUMNS + column[None, :], total)


@triton.jit
def gram_by_tiles(x, out, ROWS, COLUMNS, BN: tl.constexpr, BK: tl.constexpr):
    """The same by tl.dot."""
    row = tl.program_id(0) * BN + tl.arange(0, BN)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BN, BN), tl.float32)
    for first in range(0, ROWS, BK):
        left = tl.load(x + (first + depth[:, None]) * COLUMNS + row[None, :])
        right = tl.load(x + (first + depth[:, None]) * COLUMNS + column[None, :])
        total = tl.dot(tl.trans(left), right, total)
    tl.store(out + row[:, None] * COLUMNS + column[None, :], total)
