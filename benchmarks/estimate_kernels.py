"""Kernels of many kinds, whose sweeps hold the estimate of time against a GPU."""

import triton
import triton.language as tl


@triton.jit
def transposed(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out = x.T, one tile a program."""
    down = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    across = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (down < rows)[:, None] & (across < columns)[None, :]
    x = tl.load(x_ptr + down[:, None] * columns + across[None, :], mask=inside)
    tl.store(out_ptr + across[:, None] * rows + down[None, :], x.trans(), mask=inside.trans())


@triton.jit
def column_sums(x_ptr, out_ptr, rows, columns, PART: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # fmt: skip
    """out += the sums of columns, PART rows a program."""
    across = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, PART, ROWS):
        down = tl.program_id(1) * PART + start + tl.arange(0, ROWS)
        inside = (down < rows)[:, None] & (across < columns)[None, :]
        total += tl.load(x_ptr + down[:, None] * columns + across[None, :], mask=inside, other=0.0)
    tl.atomic_add(out_ptr + across, tl.sum(total, axis=0), mask=across < columns)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, columns, epsilon, BLOCK: tl.constexpr):
    """Each row over the root of the mean of its squares, in two walks over the row."""
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=at < columns).to(tl.float32)
        result = (x * scale * weight).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * columns + at, result, mask=at < columns)


@triton.jit
def cross_entropy(logits_ptr, labels_ptr, loss_ptr, words, BLOCK: tl.constexpr):
    """The loss of each row, by a running maximum and sum."""
    row = tl.program_id(0)
    logits = logits_ptr + row.to(tl.int64) * words
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, words, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits + at, mask=at < words, other=-1e30).to(tl.float32)
        higher = tl.maximum(largest, x)
        total = total * tl.exp(largest - higher) + tl.exp(x - higher)
        largest = higher
    top = tl.max(largest)
    total = tl.sum(total * tl.exp(largest - top))
    right = tl.load(logits + tl.load(labels_ptr + row)).to(tl.float32)
    tl.store(loss_ptr + row, tl.log(total) + top - right)


@triton.jit
def int8_product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """c = a @ b.T of int8, in int32; both operands lie along K."""
    down = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    a_at = a_ptr + (down % M)[:, None] * K + deep[None, :]
    b_at = b_ptr + (across % N)[None, :] * K + deep[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total, out_dtype=tl.int32)
        a_at += BLOCK_K
        b_at += BLOCK_K
    inside = (down < M)[:, None] & (across < N)[None, :]
    tl.store(c_ptr + down[:, None] * N + across[None, :], total, mask=inside)


@triton.jit
def split_product(a_ptr, b_ptr, c_ptr, M, N, K, PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """c += a @ b in fp32, PARTS programs a tile, each with its part of K."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile = tl.program_id(0)
    down = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_at = a_ptr + down[:, None] * K + deep[None, :]
    b_at = b_ptr + deep[:, None] * N + across[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K * PARTS)):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BLOCK_K * PARTS
        b_at += BLOCK_K * PARTS * N
    inside = (down < M)[:, None] & (across < N)[None, :]
    tl.atomic_add(c_ptr + down[:, None] * N + across[None, :], total, mask=inside)


@triton.jit
def batched_product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """c[i] = a[i] @ b[i], bf16."""
    which = tl.program_id(2).to(tl.int64)
    down = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    a_at = a_ptr + which * M * K + (down % M)[:, None] * K + deep[None, :]
    b_at = b_ptr + which * K * N + deep[:, None] * N + (across % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_at, mask=(start + deep)[None, :] < K, other=0.0)
        b = tl.load(b_at, mask=(start + deep)[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    inside = (down < M)[:, None] & (across < N)[None, :]
    places = c_ptr + which * M * N + down[:, None] * N + across[None, :]
    tl.store(places, total.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def convolution(
    x_ptr, weight_ptr, out_ptr, images, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A 3 x 3 convolution, padded, channels last, as a product: pixels by filters."""
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    filters = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image, place = pixel // (HEIGHT * WIDTH), pixel % (HEIGHT * WIDTH)
    y, x = place // WIDTH, place % WIDTH
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(9 * CHANNELS // BLOCK_K):
        tap, first = step // (CHANNELS // BLOCK_K), step % (CHANNELS // BLOCK_K) * BLOCK_K
        row, column = y + tap // 3 - 1, x + tap % 3 - 1
        inside = (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH) & (image < images)
        channel = first + tl.arange(0, BLOCK_K)
        x_at = ((image * HEIGHT + row) * WIDTH + column)[:, None] * CHANNELS + channel[None, :]
        a = tl.load(x_ptr + x_at, mask=inside[:, None], other=0.0)
        b = tl.load(weight_ptr + (tap * CHANNELS + channel)[:, None] * FILTERS + filters[None, :])
        total = tl.dot(a, b, total)
    out_at = pixel[:, None] * FILTERS + filters[None, :]
    result = total.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + out_at, result, mask=(image < images)[:, None])


@triton.jit
def embedded(table_ptr, words_ptr, out_ptr, words, WIDTH: tl.constexpr, WORDS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Rows of a table, by number."""
    which = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    rows = tl.load(words_ptr + which, mask=which < words, other=0)
    for start in range(0, WIDTH, BLOCK):
        at = start + tl.arange(0, BLOCK)
        found = tl.load(table_ptr + rows[:, None] * WIDTH + at[None, :])
        out_at = which[:, None] * WIDTH + at[None, :]
        tl.store(out_ptr + out_at, found, mask=(which < words)[:, None])


@triton.jit
def histogram(x_ptr, counts_ptr, n, TURNS: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """counts[v] += how often v occurs: a histogram of each block, then atomics."""
    total = tl.zeros((BINS,), tl.int32)
    for turn in range(TURNS):
        at = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x_ptr + at, mask=at < n, other=0)
        total += tl.histogram(values, BINS, mask=at < n)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), total)


@triton.jit
def gated(x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """silu(x @ gate) * (x @ up): two products from one operand."""
    down = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    x_at = x_ptr + down[:, None] * K + deep[None, :]
    weights_at = deep[:, None] * N + across[None, :]
    one = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    two = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_at)
        one = tl.dot(x, tl.load(gate_ptr + weights_at), one)
        two = tl.dot(x, tl.load(up_ptr + weights_at), two)
        x_at += BLOCK_K
        weights_at += BLOCK_K * N
    result = one * tl.sigmoid(one) * two
    inside = (down < M)[:, None] & (across < N)[None, :]
    places = out_ptr + down[:, None] * N + across[None, :]
    tl.store(places, result.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, tokens, heads, HALF: tl.constexpr, TOKENS: tl.constexpr):  # fmt: skip
    """Rotary embedding of the two halves of each head."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    inside = (token < tokens)[:, None]
    at = tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + token[:, None] * HALF + at, mask=inside)
    sin = tl.load(sin_ptr + token[:, None] * HALF + at, mask=inside)
    for head in range(heads):
        places = (token[:, None] * heads + head) * (2 * HALF) + at
        first = tl.load(x_ptr + places, mask=inside).to(tl.float32)
        second = tl.load(x_ptr + places + HALF, mask=inside).to(tl.float32)
        kind = out_ptr.dtype.element_ty
        tl.store(out_ptr + places, (first * cos - second * sin).to(kind), mask=inside)
        tl.store(out_ptr + places + HALF, (second * cos + first * sin).to(kind), mask=inside)


@triton.jit
def running_sums(x_ptr, out_ptr, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The running sum of each row; COLUMNS is a row."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + places, mask=(row < rows)[:, None], other=0.0)
    tl.store(out_ptr + places, tl.cumsum(x, axis=1), mask=(row < rows)[:, None])


@triton.jit
def five_points(x_ptr, out_ptr, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each cell's mean with its four neighbors, inside of a frame."""
    down = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    across = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (down > 0) & (down < height - 1) & (across > 0) & (across < width - 1)
    at = x_ptr + down * width + across
    total = tl.load(at, mask=inside) + tl.load(at - 1, mask=inside) + tl.load(at + 1, mask=inside)
    total += tl.load(at - width, mask=inside) + tl.load(at + width, mask=inside)
    tl.store(out_ptr + down * width + across, total * 0.2, mask=inside)


@triton.jit
def decoded(
    q_ptr, k_ptr, v_ptr, out_ptr, most_ptr, tokens, scale, PART: tl.constexpr,
    HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention of one token's HEADS queries of a group to PART of its keys: flash decoding."""
    group, part = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, HEAD)
    queries = group * HEADS + tl.arange(0, HEADS)
    q = tl.load(q_ptr + queries[:, None] * HEAD + at[None, :])
    total = tl.zeros((HEADS,), tl.float32)
    largest = tl.full((HEADS,), float("-inf"), tl.float32)
    result = tl.zeros((HEADS, HEAD), tl.float32)
    for start in range(part * PART, (part + 1) * PART, BLOCK):
        places = (group * tokens + start + tl.arange(0, BLOCK))[:, None] * HEAD + at[None, :]
        scores = tl.dot(q, tl.load(k_ptr + places).trans()) * scale
        higher = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(largest - higher)
        total = total * fade + tl.sum(weights, axis=1)
        result = result * fade[:, None]
        result = tl.dot(weights.to(q.dtype), tl.load(v_ptr + places), result)
        largest = higher
    places = (part * tl.num_programs(0) * HEADS + queries)[:, None] * HEAD + at[None, :]
    tl.store(out_ptr + places, result / total[:, None])
    tl.store(most_ptr + part * tl.num_programs(0) * HEADS + queries, largest + tl.log2(total))


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The tanh form of GELU, element by element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    result = x * tl.sigmoid(2 * inner)
    tl.store(out_ptr + at, result.to(out_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def int4_product(x_ptr, packed_ptr, scale_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """x @ w, w of 4-bit numbers, two of them a byte: rows k and k + K / 2 share one."""
    down = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    across = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    x_at = x_ptr + (down % M)[:, None] * K + deep[None, :]
    packed_at = packed_ptr + deep[:, None] * N + across[None, :]
    for _ in range(0, K // 2, BLOCK_K):
        packed = tl.load(packed_at)
        low = ((packed & 15).to(tl.float16) - 8).to(tl.float16)
        high = ((packed >> 4).to(tl.float16) - 8).to(tl.float16)
        total = tl.dot(tl.load(x_at), low, total)
        total = tl.dot(tl.load(x_at + K // 2), high, total)
        x_at += BLOCK_K
        packed_at += BLOCK_K * N
    total *= tl.load(scale_ptr + across)[None, :]
    inside = (down < M)[:, None] & (across < N)[None, :]
    places = out_ptr + down[:, None] * N + across[None, :]
    tl.store(places, total.to(out_ptr.dtype.element_ty), mask=inside)
