"""Kernels that work along an axis: softmax, scans, sort, histogram, layer norm."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, row_stride, columns, BLOCK: tl.constexpr):
    """Softmax of a row, one row a program."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * row_stride + offsets, mask=inside, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * row_stride + offsets, result, mask=inside)


@triton.jit
def softmax_persistent(x_ptr, out_ptr, row_stride, rows, columns, BLOCK: tl.constexpr):
    """Softmax of rows, each program taking every so many of them."""
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        x = tl.load(x_ptr + row * row_stride + offsets, mask=inside, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        result = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * row_stride + offsets, result, mask=inside)


@triton.jit
def cumsum(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Running sums along both axes of one tile, the second from the end."""
    tile = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    along_rows = tl.cumsum(tl.load(x_ptr + tile), axis=1)
    tl.store(out_ptr + tile, tl.cumsum(along_rows, axis=0, reverse=True))


@triton.jit
def compose(a_first, b_first, a_second, b_second):
    """x -> a2 * (a1 * x + b1) + b2."""
    return a_first * a_second, b_first * a_second + b_second


@triton.jit
def linear_recurrence(a_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    """h[t] = a[t] * h[t - 1] + b[t], as a scan of two values at once."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)
    _, h = tl.associative_scan((a, b), 0, compose)
    tl.store(out_ptr + offsets, h)


@triton.jit
def sort(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each row of a tile sorted, largest first."""
    tile = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + tile, tl.sort(tl.load(x_ptr + tile), descending=True))


@triton.jit
def histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Counts of the values in one block, added to the counts of all."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    counts = tl.histogram(x, BINS)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts)


@triton.jit
def layer_norm_backward(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr,
    row_stride, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of layer normalization, one row a program; rows of a group add to dw and db under a spin lock."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * row_stride + offsets, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * row_stride + offsets, mask=inside, other=0).to(tl.float32)
    w = tl.load(w_ptr + offsets, mask=inside, other=0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)

    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    weighted = tl.where(inside, w * dy, 0.0)
    along_normal = tl.sum(normal * weighted, axis=0) / columns
    along_one = tl.sum(weighted, axis=0) / columns
    dx = (weighted - (normal * along_normal + along_one)) * rstd
    tl.store(dx_ptr + row * row_stride + offsets, dx, mask=inside)

    partial_dw = (dy * normal).to(w_ptr.dtype.element_ty)
    partial_db = dy.to(w_ptr.dtype.element_ty)
    group = row % GROUPS
    lock = lock_ptr + group
    count = lock_ptr + GROUPS + group
    dw = dw_ptr + group * columns + offsets
    db = db_ptr + group * columns + offsets
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        partial_dw += tl.load(dw, mask=inside)
        partial_db += tl.load(db, mask=inside)
    tl.store(dw, partial_dw, mask=inside)
    tl.store(db, partial_db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
