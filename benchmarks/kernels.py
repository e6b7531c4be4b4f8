"""The benchmarks' own kernels: ordinary Triton, beside those of `kernellab.cli.demo.kernels`."""

import triton
import triton.language as tl


@triton.jit
def persistent_softmax(x_ptr, out_ptr, row_stride, n_rows, n_columns, BLOCK: tl.constexpr):
    """Softmax of each row, with fewer programs than rows: each takes every so-manieth row."""
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        result = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * row_stride + columns, result, mask=inside)


@triton.jit
def softmax_rows(x_ptr, out_ptr, n_rows, n_columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of each row, ROWS rows at once; each program takes every so-manieth group of rows. BLOCK covers a row."""
    columns = tl.arange(0, BLOCK)[None, :]
    for first in tl.range(tl.program_id(0) * ROWS, n_rows, tl.num_programs(0) * ROWS):
        rows = first + tl.arange(0, ROWS)[:, None]
        inside = (rows < n_rows) & (columns < n_columns)
        places = rows * n_columns + columns
        x = tl.load(x_ptr + places, mask=inside, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=1)[:, None])
        result = numerator / tl.sum(numerator, axis=1)[:, None]
        tl.store(out_ptr + places, result.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    """Each row over the root of the mean of its squares, times the weights."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + at, mask=at < columns, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(x * x) / columns + eps)
    w = tl.load(w_ptr + at, mask=at < columns)
    tl.store(out_ptr + tl.program_id(0) * stride + at, x * scale * w, mask=at < columns)


@triton.jit
def atomic_histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    """counts[v] += 1 for each value v, one atomic addition an element."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    values = tl.load(x_ptr + offsets, mask=inside)
    tl.atomic_add(counts_ptr + values, 1, mask=inside)


@triton.jit
def block_histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """counts[v] += how often v occurs, one histogram a block and one atomic addition a bin."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    values = tl.load(x_ptr + offsets, mask=inside, other=0)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), tl.histogram(values, BINS, mask=inside))


@triton.jit
def cumulative_sum(x_ptr, out_ptr, row_stride, n_columns, BLOCK: tl.constexpr):
    """The running sum of each row, one row a program; BLOCK covers the row."""
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    start = tl.program_id(0) * row_stride
    x = tl.load(x_ptr + start + columns, mask=inside, other=0.0)
    tl.store(out_ptr + start + columns, tl.cumsum(x, axis=0), mask=inside)


@triton.jit
def attend(accumulator, total, largest, q, k, v, scale, rows, columns, CAUSAL: tl.constexpr):
    """Take one block of keys and values into a block of queries' running softmax (FlashAttention-2, arXiv:2307.08691).

    `scale` includes log2(e): probabilities are powers of two. Where CAUSAL, keys after a query's own place do not count.
    """
    scores = tl.dot(q, tl.trans(k)) * scale
    if CAUSAL:
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
    new_largest = tl.maximum(largest, tl.max(scores, axis=1))
    probabilities = tl.math.exp2(scores - new_largest[:, None])
    correction = tl.math.exp2(largest - new_largest)
    total = total * correction + tl.sum(probabilities, axis=1)
    accumulator = tl.dot(probabilities.to(v.dtype), v, accumulator * correction[:, None])
    return accumulator, total, new_largest


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, stride_head, stride_token,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention of one block of queries of one head; every length is a multiple of its block."""
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * stride_head
    rows = first + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, HEAD)
    queries = head + rows[:, None] * stride_token + lanes[None, :]
    keys = head + tl.arange(0, BLOCK_N)[:, None] * stride_token + lanes[None, :]
    q = tl.load(q_ptr + queries)

    accumulator = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, first, BLOCK_N):  # keys that every query of the block sees
        columns = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys + start * stride_token)
        v = tl.load(v_ptr + keys + start * stride_token)
        accumulator, total, largest = attend(
            accumulator, total, largest, q, k, v, scale, rows, columns, False
        )
    for start in range(first, first + BLOCK_M, BLOCK_N):  # keys on the diagonal
        columns = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys + start * stride_token)
        v = tl.load(v_ptr + keys + start * stride_token)
        accumulator, total, largest = attend(
            accumulator, total, largest, q, k, v, scale, rows, columns, True
        )
    tl.store(out_ptr + queries, (accumulator / total[:, None]).to(out_ptr.dtype.element_ty))


@triton.jit
def attention_by_descriptors(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, heads, length,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`attention` with its tensors, all heads one below the other, as tensor descriptors."""
    tokens = heads * length
    q_rows = tl.make_tensor_descriptor(q_ptr, [tokens, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    k_rows = tl.make_tensor_descriptor(k_ptr, [tokens, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    v_rows = tl.make_tensor_descriptor(v_ptr, [tokens, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    out_rows = tl.make_tensor_descriptor(out_ptr, [tokens, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * length
    rows = first + tl.arange(0, BLOCK_M)
    q = q_rows.load([head + first, 0])

    accumulator = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    for start in range(0, first, BLOCK_N):  # keys that every query of the block sees
        columns = start + tl.arange(0, BLOCK_N)
        k = k_rows.load([head + start, 0])
        v = v_rows.load([head + start, 0])
        accumulator, total, largest = attend(
            accumulator, total, largest, q, k, v, scale, rows, columns, False
        )
    for start in range(first, first + BLOCK_M, BLOCK_N):  # keys on the diagonal
        columns = start + tl.arange(0, BLOCK_N)
        k = k_rows.load([head + start, 0])
        v = v_rows.load([head + start, 0])
        accumulator, total, largest = attend(
            accumulator, total, largest, q, k, v, scale, rows, columns, True
        )
    out = (accumulator / total[:, None]).to(out_ptr.dtype.element_ty)
    out_rows.store([head + first, 0], out)
