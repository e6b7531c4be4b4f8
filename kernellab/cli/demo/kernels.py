"""The demo's kernels: ordinary Triton, with nothing of KernelLab in it."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y, one block of elements a program."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@triton.jit
def softmax(x_ptr, out_ptr, row_stride, n_columns, BLOCK: tl.constexpr):
    """Softmax of each row, one row a program; BLOCK covers the row."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * row_stride + columns, result, mask=inside)


@triton.jit
def grouped_tile(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """The (row, column) of a program's tile, in groups of GROUP_M rows that share L2."""
    programs_in_group = GROUP_M * tiles_n
    group = program // programs_in_group
    first_row = group * GROUP_M
    rows_in_group = min(tiles_m - first_row, GROUP_M)
    within = program % programs_in_group
    return first_row + within % rows_in_group, within // rows_in_group


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = A @ B, one BLOCK_M x BLOCK_N tile of C a program, accumulated in fp32."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = grouped_tile(tl.program_id(0), tiles_m, tiles_n, GROUP_M)

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    # Rows and columns past the edge wrap round: they are read, and masked away when C is stored.
    a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + (columns % N)[None, :] * stride_bn

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr,
    row_stride, n_columns, epsilon, BLOCK: tl.constexpr,
):  # fmt: skip
    """Layer normalization of each row, one row a program, in three walks over blocks of the row."""
    row = tl.program_id(0)
    x_row = x_ptr + row * row_stride
    out_row = out_ptr + row * row_stride

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_row + columns, mask=columns < n_columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_columns

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + columns, mask=columns < n_columns, other=0.0).to(tl.float32)
        centered = tl.where(columns < n_columns, x - mean, 0.0)
        squares += centered * centered
    rstd = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / n_columns + epsilon)

    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n_columns
        x = tl.load(x_row + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside)
        bias = tl.load(bias_ptr + columns, mask=inside)
        tl.store(out_row + columns, (x - mean) * rstd * weight + bias, mask=inside)


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Zero each element with probability p and scale the rest by 1 / (1 - p); Philox of (seed,
    index) decides.
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=inside)
