"""Matrix products: plain, persistent, through descriptors, warp-specialized, scaled."""

import triton
import triton.language as tl


@triton.jit
def grouped_tile(
    program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr
):
    """The (row, column) of a program's tile, in groups of GROUP_M rows of tiles, so that neighbors share tiles in L2."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    group = program // in_group
    first = group * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    return first + (program % in_group) % rows, (program % in_group) // rows


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = A @ B through pointers, one tile of C a program."""
    tile_m, tile_n = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - start, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - start, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """C = A @ B, each program taking every PROGRAMS-th tile: two loops that the compiler flattens."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        tile_m, tile_n = grouped_tile(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        safe_rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BLOCK_M), BLOCK_M)
        safe_columns = tl.max_contiguous(
            tl.multiple_of(tl.where(columns < N, columns, 0), BLOCK_N), BLOCK_N
        )
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            k = step * BLOCK_K + inner
            a = tl.load(
                a_ptr + safe_rows[:, None] * stride_am + k[None, :], mask=k[None, :] < K, other=0.0
            )
            b = tl.load(
                b_ptr + k[:, None] * stride_bk + safe_columns[None, :],
                mask=k[:, None] < K,
                other=0.0,
            )
            accumulator = tl.dot(a, b, accumulator)
        c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def matmul_descriptors(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A @ B through descriptors that the kernel makes (TMA where the GPU has it)."""
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = a_tiles.load([row, start])
        b = b_tiles.load([start, column])
        accumulator = tl.dot(a, b, accumulator)
    c_tiles.store([row, column], accumulator.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_tma(
    a_tiles, b_tiles, c_tiles, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """C = A @ B.T, persistent, through descriptors that the host makes; warp-specialized where SPECIALIZE says so."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(
        tl.program_id(0), tiles, PROGRAMS, flatten=True, warp_specialize=SPECIALIZE
    ):
        tile_m, tile_n = grouped_tile(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            a = a_tiles.load([row, step * BLOCK_K])
            b = b_tiles.load([column, step * BLOCK_K])
            accumulator = tl.dot(a, b.T, accumulator)
        c_tiles.store([row, column], accumulator.to(tl.float16))


@triton.jit
def matmul_warp_specialized(
    a_tiles, b_tiles, c_tiles, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A @ B.T, loads and products in warps of their own."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, K, BLOCK_K, warp_specialize=True):
        a = a_tiles.load([row, start])
        b = b_tiles.load([column, start])
        accumulator = tl.dot(a, b.T, accumulator)
    c_tiles.store([row, column], accumulator.to(tl.float16))


@triton.jit
def matmul_scaled(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N, K,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A @ B in microscaling formats: one power of two for each 32 elements along K; two fp4 share a byte."""
    A_PACK: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_inner = tl.arange(0, BLOCK_K // A_PACK)
    b_inner = tl.arange(0, BLOCK_K // B_PACK)
    scales = tl.arange(0, BLOCK_K // 32)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a_k = start // A_PACK + a_inner
        b_k = start // B_PACK + b_inner
        scale_k = start // 32 + scales
        a = tl.load(a_ptr + rows[:, None] * (K // A_PACK) + a_k[None, :])
        b = tl.load(b_ptr + b_k[:, None] * N + columns[None, :])
        a_scale = tl.load(a_scale_ptr + rows[:, None] * (K // 32) + scale_k[None, :])
        b_scale = tl.load(b_scale_ptr + columns[:, None] * (K // 32) + scale_k[None, :])
        accumulator = tl.dot_scaled(a, a_scale, A_FORMAT, b, b_scale, B_FORMAT, accumulator)
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty))
