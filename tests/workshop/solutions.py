"""A right kernel within budget for each exercise of the workshop; students do not get these."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from tests.corpus.gluon_kernels import copy_to_shared, tma_load, tma_store


@triton.jit
def add_one(x_ptr, z_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(z_ptr + lanes, tl.load(x_ptr + lanes) + 1)


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, total, mask=mask)


@triton.jit
def scale_and_shift(x_ptr, z_ptr, a, b, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, mask=mask)


@triton.jit
def clamp(x_ptr, z_ptr, low, high, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, tl.minimum(tl.maximum(x, low), high), mask=mask)


@triton.jit
def reverse(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + (n - 1 - offsets), mask=mask), mask=mask)


@triton.jit
def every_other(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + 2 * offsets, mask=mask), mask=mask)


@triton.jit
def few_programs(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    for start in range(first, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(z_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def silu_gate(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x * tl.sigmoid(x) * y, mask=mask)


@triton.jit
def outer_add(x_ptr, y_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + r, mask=r < rows)
    y = tl.load(y_ptr + c, mask=c < columns)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    tl.store(z_ptr + r[:, None] * columns + c[None, :], x[:, None] + y[None, :], mask=inside)


@triton.jit
def scale_rows(x_ptr, scale_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    scale = tl.load(scale_ptr + r, mask=r < rows)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    places = r[:, None] * columns + c[None, :]
    tl.store(z_ptr + places, tl.load(x_ptr + places, mask=inside) * scale[:, None], mask=inside)


@triton.jit
def transpose(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    tile = tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=inside)
    turned = (c < columns)[:, None] & (r < rows)[None, :]
    tl.store(z_ptr + c[:, None] * rows + r[None, :], tl.trans(tile), mask=turned)


@triton.jit
def causal_mask(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    places = r[:, None] * columns + c[None, :]
    x = tl.load(x_ptr + places, mask=inside)
    tl.store(z_ptr + places, tl.where(c[None, :] <= r[:, None], x, -float("inf")), mask=inside)


@triton.jit
def pad(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    own = ((r >= 1) & (r <= rows))[:, None] & ((c >= 1) & (c <= columns))[None, :]
    x = tl.load(x_ptr + (r - 1)[:, None] * columns + (c - 1)[None, :], mask=own, other=0.0)
    inside = (r < rows + 2)[:, None] & (c < columns + 2)[None, :]
    tl.store(z_ptr + r[:, None] * (columns + 2) + c[None, :], x, mask=inside)


@triton.jit
def gather_rows(ids_ptr, table_ptr, z_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    number = tl.load(ids_ptr + row).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < width
    tl.store(
        z_ptr + row * width + lanes,
        tl.load(table_ptr + number * width + lanes, mask=mask),
        mask=mask,
    )


@triton.jit
def sum_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
    tl.store(z_ptr + row, tl.sum(x, axis=0))


@triton.jit
def max_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
    tl.store(z_ptr + row, tl.max(x, axis=0))


@triton.jit
def argmax_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
    tl.store(z_ptr + row, tl.argmax(x, axis=0))


@triton.jit
def sum_long_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
    tl.store(z_ptr + row, tl.sum(total, axis=0))


@triton.jit
def moments(x_ptr, mean_ptr, variance_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    away = tl.where(lanes < columns, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, tl.sum(away * away, axis=0) / columns)


@triton.jit
def running_sum(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
        tl.store(z_ptr + row * columns + lanes, before + tl.cumsum(x, axis=0), mask=lanes < columns)
        before += tl.sum(x, axis=0)


@triton.jit
def sum_columns(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, rows, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (c < columns)[None, :]
        total += tl.load(x_ptr + r[:, None] * columns + c[None, :], mask=inside, other=0.0)
    tl.store(z_ptr + c, tl.sum(total, axis=0), mask=c < columns)


@triton.jit
def dot_product(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.atomic_add(z_ptr, tl.sum(x * y, axis=0))


@triton.jit
def histogram(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(z_ptr + x, 1, mask=mask)


@triton.jit
def softmax(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(z_ptr + row * columns + lanes, weights / tl.sum(weights, axis=0), mask=mask)


@triton.jit
def log_softmax(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=-float("inf"))
    x -= tl.max(x, axis=0)
    tl.store(z_ptr + row * columns + lanes, x - tl.log(tl.sum(tl.exp(x), axis=0)), mask=mask)


@triton.jit
def online_softmax(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
        largest = now
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        mask = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, mask=mask)
        tl.store(z_ptr + row * columns + lanes, tl.exp(x - largest) / total, mask=mask)


@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    y = tl.load(y_ptr + row * columns + lanes, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * columns + lanes, mask=mask, other=0.0)
    tl.store(dx_ptr + row * columns + lanes, y * (dy - tl.sum(y * dy, axis=0)), mask=mask)


@triton.jit
def cross_entropy(x_ptr, target_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
    largest = tl.max(x, axis=0)
    total = tl.log(tl.sum(tl.exp(x - largest), axis=0)) + largest
    right = tl.load(x_ptr + row * columns + tl.load(target_ptr + row))
    tl.store(z_ptr + row, total - right)


@triton.jit
def rms_norm(x_ptr, weight_ptr, z_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + lanes, mask=mask)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(z_ptr + row * columns + lanes, x * scale * weight, mask=mask)


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, z_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + lanes, mask=mask)
    bias = tl.load(bias_ptr + lanes, mask=mask)
    away = tl.where(mask, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(away * away, axis=0) / columns + eps)
    tl.store(z_ptr + row * columns + lanes, away * scale * weight + bias, mask=mask)


@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, z_ptr, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < half
    one = tl.load(x_ptr + row * 2 * half + lanes, mask=mask)
    other = tl.load(x_ptr + row * 2 * half + half + lanes, mask=mask)
    cos = tl.load(cos_ptr + row * half + lanes, mask=mask)
    sin = tl.load(sin_ptr + row * half + lanes, mask=mask)
    tl.store(z_ptr + row * 2 * half + lanes, one * cos - other * sin, mask=mask)
    tl.store(z_ptr + row * 2 * half + half + lanes, other * cos + one * sin, mask=mask)


@triton.jit
def matvec(a_ptr, x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, columns, COLUMNS):
        c = start + tl.arange(0, COLUMNS)
        inside = (r < rows)[:, None] & (c < columns)[None, :]
        a = tl.load(a_ptr + r[:, None] * columns + c[None, :], mask=inside, other=0.0)
        total += a * tl.load(x_ptr + c, mask=c < columns, other=0.0)[None, :]
    tl.store(z_ptr + r, tl.sum(total, axis=1), mask=r < rows)


@triton.jit
def dot_of_tiles(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    places = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c_ptr + places, tl.dot(tl.load(a_ptr + places), tl.load(b_ptr + places)))


@triton.jit
def product(
    a_ptr, b_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_mask = (m < M)[:, None] & (k < K)[None, :]
        b_mask = (k < K)[:, None] & (n < N)[None, :]
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b.to(tl.float16), acc)
    return acc, m, n


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    acc, m, n = product(a_ptr, b_ptr, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def linear_relu(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    acc, m, n = product(a_ptr, b_ptr, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    acc = tl.maximum(acc + tl.load(bias_ptr + n, mask=n < N)[None, :], 0.0)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def batched_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(2)
    acc, m, n = product(a_ptr + i * M * K, b_ptr + i * K * N, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    places = i * M * N + m[:, None] * N + n[None, :]
    tl.store(c_ptr + places, acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def quantized_matmul(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    acc, m, n = product(a_ptr, b_ptr, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    acc = acc * tl.load(scale_ptr + n, mask=n < N)[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


@triton.jit
def convolution(x_ptr, w_ptr, z_ptr, n, taps, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for t in range(taps):
        places = offsets - taps + 1 + t
        x = tl.load(x_ptr + places, mask=(places >= 0) & (places < n), other=0.0)
        total += x * tl.load(w_ptr + t)
    tl.store(z_ptr + offsets, total, mask=offsets < n)


@triton.jit
def sort_rows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=float("inf"))
    tl.store(z_ptr + row * columns + lanes, tl.sort(x), mask=mask)


@triton.jit
def weight_gradient(
    x_ptr, dy_ptr, dw_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    places = r[:, None] * columns + c[None, :]
    x = tl.load(x_ptr + places, mask=inside, other=0.0)
    dy = tl.load(dy_ptr + places, mask=inside, other=0.0)
    tl.atomic_add(dw_ptr + c, tl.sum(x * dy, axis=0), mask=c < columns)


@triton.jit
def attended(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    q_rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    wide = tl.arange(0, WIDTH)
    q_places = q_rows[:, None] * WIDTH + wide[None, :]
    q = tl.load(q_ptr + q_places, mask=(q_rows < queries)[:, None], other=0.0)
    largest = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    acc = tl.zeros((BLOCK_Q, WIDTH), tl.float32)
    end = tl.minimum(keys, (tl.program_id(0) + 1) * BLOCK_Q) if CAUSAL else keys
    for start in range(0, end, BLOCK_K):
        k_rows = start + tl.arange(0, BLOCK_K)
        places = k_rows[:, None] * WIDTH + wide[None, :]
        k = tl.load(k_ptr + places, mask=(k_rows < keys)[:, None], other=0.0)
        v = tl.load(v_ptr + places, mask=(k_rows < keys)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = (k_rows < keys)[None, :]
        if CAUSAL:
            seen = seen & (k_rows[None, :] <= q_rows[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        shrunk = tl.exp(largest - now)
        total = total * shrunk + tl.sum(weights, axis=1)
        acc = acc * shrunk[:, None] + tl.dot(weights.to(tl.float16), v)
        largest = now
    tl.store(z_ptr + q_places, acc / total[:, None], mask=(q_rows < queries)[:, None])


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    q_rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    k_rows = tl.arange(0, BLOCK_K)
    wide = tl.arange(0, WIDTH)
    q_places = q_rows[:, None] * WIDTH + wide[None, :]
    k_places = k_rows[:, None] * WIDTH + wide[None, :]
    q = tl.load(q_ptr + q_places, mask=(q_rows < queries)[:, None], other=0.0)
    k = tl.load(k_ptr + k_places, mask=(k_rows < keys)[:, None], other=0.0)
    v = tl.load(v_ptr + k_places, mask=(k_rows < keys)[:, None], other=0.0)
    scores = tl.dot(q, tl.trans(k)) * scale
    scores = tl.where((k_rows < keys)[None, :], scores, -float("inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    z = tl.dot(weights.to(tl.float16), v) / tl.sum(weights, axis=1)[:, None]
    tl.store(z_ptr + q_places, z, mask=(q_rows < queries)[:, None])


@triton.jit
def flash_attention(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    attended(q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale, BLOCK_Q, BLOCK_K, WIDTH, False)


@triton.jit
def causal_attention(
    q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    attended(q_ptr, k_ptr, v_ptr, z_ptr, queries, keys, scale, BLOCK_Q, BLOCK_K, WIDTH, True)


@gluon.jit
def turn_vectors(x_ptr, z_ptr, SIZE: gl.constexpr):
    wide: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tall: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 32, [1, 0])
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, wide))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, wide))
    tile = gl.load(x_ptr + row[:, None] * SIZE + column[None, :])
    turned = gl.allocate_shared_memory(tile.dtype, [SIZE, SIZE], shared, tile).load(tall)
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, tall))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, tall))
    gl.store(z_ptr + column[None, :] * SIZE + row[:, None], turned)


@gluon.jit
def three_stages(x_ptr, z_ptr, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.arange(0, 512, layout=layout)
    stages = gl.allocate_shared_memory(gl.float32, [3, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for number in range(2):
        copy_to_shared(stages.index(number), x_ptr + number * 512 + i)
        async_copy.commit_group()
    for number in range(TILES):
        after = number + 2
        if after < TILES:
            copy_to_shared(stages.index(after % 3), x_ptr + after * 512 + i)
        async_copy.commit_group()
        async_copy.wait_group(2)
        tile = stages.index(number % 3).load(layout)
        gl.store(z_ptr + number * 512 + i, 2 * tile)


@gluon.jit
def in_place(x, z, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(x.dtype, [2, 64, 64], x.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(filled.index(0), count=1)
    mbarrier.init(filled.index(1), count=1)
    for number in range(TILES):
        stage = stages.index(number % 2)
        tma.store_wait(1)
        mbarrier.expect(filled.index(number % 2), x.block_type.nbytes)
        tma_load(x, [number * 64, 0], filled.index(number % 2), stage)
        mbarrier.wait(filled.index(number % 2), number // 2 & 1)
        tile = stage.load(layout)
        stage.store(tile + tile)
        fence_async_shared()
        tma_store(z, [number * 64, 0], stage)
    tma.store_wait(0)


@gluon.jit
def load_tiles(x, stages, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)
        mbarrier.expect(filled.index(stage), x.block_type.nbytes)
        tma_load(x, [number * 64, 0], filled.index(stage), stages.index(stage))


@gluon.jit
def compute_tiles(z_ptr, stages, filled, emptied, layout: gl.constexpr, TILES: gl.constexpr):
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)
        tile = stages.index(stage).load(layout)
        mbarrier.arrive(emptied.index(stage), count=1)
        gl.store(z_ptr + number * 4096 + row[:, None] * 64 + column[None, :], tile + tile)


@gluon.jit
def two_groups(x, z_ptr, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(x.dtype, [2, 64, 64], x.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    gl.warp_specialize(
        [
            (compute_tiles, (z_ptr, stages, filled, emptied, layout, TILES)),
            (load_tiles, (x, stages, filled, emptied, TILES)),
        ],
        [1],
        [24],
    )
