"""Kernels that compute by other algorithms what `pairs.py` says beside them."""

import triton
import triton.language as tl


@triton.jit
def softmax_without_maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + lanes, mask=lanes < n, other=-float("inf"))
    power = tl.exp(x)
    tl.store(out_ptr + row + lanes, power / tl.sum(power, axis=0), mask=lanes < n)


@triton.jit
def softmax_online(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
        largest = now
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=-float("inf"))
        tl.store(out_ptr + row + start + lanes, tl.exp(x - largest) / total, mask=inside)


@triton.jit
def softmax_persistent(x_ptr, out_ptr, m, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=-float("inf"))
        power = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * n + lanes, power / tl.sum(power, axis=0), mask=lanes < n)


@triton.jit
def softmax_tile(x_ptr, out_ptr, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lanes = tl.arange(0, BLOCK)[None, :]
    inside = (rows < m) & (lanes < n)
    x = tl.load(x_ptr + rows * n + lanes, mask=inside, other=-float("inf"))
    power = tl.exp2(1.4426950408889634 * (x - tl.max(x, axis=1)[:, None]))
    tl.store(out_ptr + rows * n + lanes, power / tl.sum(power, axis=1)[:, None], mask=inside)


@triton.jit
def log_sum_exp(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + lanes, mask=start + lanes < n, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
        largest = now
    tl.store(out_ptr + row, largest + tl.log(total))


@triton.jit
def softmax_gradient(y_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + row + lanes, mask=lanes < n, other=0.0)
    dy = tl.load(dy_ptr + row + lanes, mask=lanes < n, other=0.0)
    tl.store(dx_ptr + row + lanes, y * dy - y * tl.sum(y * dy, axis=0), mask=lanes < n)


@triton.jit
def cross_entropy(x_ptr, target_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=-float("inf"))
    chosen = tl.load(x_ptr + row * n + tl.load(target_ptr + row))
    largest = tl.max(x, axis=0)
    tl.store(out_ptr + row, largest + tl.log(tl.sum(tl.exp(x - largest), axis=0)) - chosen)


@triton.jit
def matmul_split(
    a_ptr, b_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr, SPLIT: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(tl.program_id(2) * BLOCK, k, SPLIT * BLOCK):
        inner = start + lanes
        a_inside = (rows[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.atomic_add(c_ptr + rows[:, None] * n + columns[None, :], total, mask=inside)


@triton.jit
def matmul_by_sums(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for inner in range(k):
        b = tl.load(b_ptr + inner * n + columns, mask=columns < n, other=0.0)
        total += tl.load(a_ptr + row * k + inner) * b
    tl.store(c_ptr + row * n + columns, total, mask=columns < n)


@triton.jit
def matmul_transposed(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_inside = (inner[:, None] < k) & (rows[None, :] < m)
        b_inside = (columns[:, None] < n) & (inner[None, :] < k)
        a = tl.load(a_ptr + rows[None, :] * k + inner[:, None], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[None, :] * n + columns[:, None], mask=b_inside, other=0.0)
        total += tl.dot(b, a)
    inside = (columns[:, None] < n) & (rows[None, :] < m)
    tl.store(c_ptr + rows[None, :] * n + columns[:, None], total, mask=inside)


@triton.jit
def linear_fused(a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(bias_ptr + columns, mask=columns < n, other=0.0)
    total = tl.zeros((BLOCK, BLOCK), tl.float32) + bias[None, :]
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_inside = (rows[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_inside, other=0.0)
        total += tl.dot(a, b)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    c = tl.maximum(total, 0.0) * 0.5
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=inside)


@triton.jit
def norm_one_pass(x_ptr, w_ptr, b_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row + start + lanes, mask=start + lanes < n, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n - mean * mean + eps)
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside)
        w = tl.load(w_ptr + start + lanes, mask=inside)
        b = tl.load(b_ptr + start + lanes, mask=inside)
        tl.store(out_ptr + row + start + lanes, (x - mean) * scale * w + b, mask=inside)


@triton.jit
def variance_by_welford(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mean = 0.0
    squares = 0.0
    for start in range(0, n, BLOCK):
        count = tl.minimum(n - start, BLOCK)
        x = tl.load(x_ptr + row * n + start + lanes, mask=start + lanes < n, other=0.0)
        here = tl.sum(x, axis=0) / count
        off = tl.where(start + lanes < n, x - here, 0.0)
        away = here - mean
        squares += tl.sum(off * off, axis=0) + away * away * start * count / (start + count)
        mean += away * count / (start + count)
    tl.store(out_ptr + row, squares / (n - 1))


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + lanes, mask=lanes < n, other=0.0)
    w = tl.load(w_ptr + lanes, mask=lanes < n, other=0.0)
    root = tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(out_ptr + row + lanes, w * x / root, mask=lanes < n)


@triton.jit
def norm_gradient(x_ptr, dy_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    dy = tl.load(dy_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    w = tl.load(w_ptr + lanes, mask=lanes < n, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    normal = tl.where(lanes < n, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    weighted = w * dy
    along = tl.sum(normal * weighted, axis=0) / n
    dx = (weighted - normal * along - tl.sum(weighted, axis=0) / n) * rstd
    tl.store(dx_ptr + row * n + lanes, dx, mask=lanes < n)


@triton.jit
def group_norm(x_ptr, w_ptr, out_ptr, n, eps, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(1)
    size = n // GROUPS
    start = tl.program_id(0) * n + group * size
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + lanes, mask=lanes < size, other=0.0)
    mean = tl.sum(x, axis=0) / size
    off = tl.where(lanes < size, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, axis=0) / size + eps)
    w = tl.load(w_ptr + group * size + lanes, mask=lanes < size)
    tl.store(out_ptr + start + lanes, off * scale * w, mask=lanes < size)


@triton.jit
def attention_flash(
    q_ptr, k_ptr, v_ptr, out_ptr, m, n, scale,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.arange(0, HEAD)
    q = tl.load(q_ptr + rows[:, None] * HEAD + head[None, :], mask=rows[:, None] < m, other=0.0)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    out = tl.zeros((BLOCK, HEAD), tl.float32)
    for start in range(0, n, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        places = keys[:, None] * HEAD + head[None, :]
        k = tl.load(k_ptr + places, mask=keys[:, None] < n, other=0.0)
        v = tl.load(v_ptr + places, mask=keys[:, None] < n, other=0.0)
        seen = keys[None, :] < n
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        rescale = tl.exp(largest - now)
        total = total * rescale + tl.sum(weights, axis=1)
        out = out * rescale[:, None] + tl.dot(weights, v)
        largest = now
    out = out / total[:, None]
    tl.store(out_ptr + rows[:, None] * HEAD + head[None, :], out, mask=rows[:, None] < m)


@triton.jit
def attention_gradient(
    q_ptr, k_ptr, v_ptr, do_ptr, sums_ptr, delta_ptr, dq_ptr, m, n, scale,
    HEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.arange(0, HEAD)
    places = rows[:, None] * HEAD + head[None, :]
    q = tl.load(q_ptr + places, mask=rows[:, None] < m, other=0.0)
    do = tl.load(do_ptr + places, mask=rows[:, None] < m, other=0.0)
    sums = tl.load(sums_ptr + rows, mask=rows < m, other=0.0)
    delta = tl.load(delta_ptr + rows, mask=rows < m, other=0.0)
    dq = tl.zeros((BLOCK, HEAD), tl.float32)
    for start in range(0, n, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        inside = keys[:, None] < n
        k = tl.load(k_ptr + keys[:, None] * HEAD + head[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * HEAD + head[None, :], mask=inside, other=0.0)
        weights = tl.exp(tl.dot(q, tl.trans(k)) * scale - sums[:, None])
        weights = tl.where(keys[None, :] < n, weights, 0.0)
        ds = weights * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq += tl.dot(ds, k) * scale
    tl.store(dq_ptr + places, dq, mask=rows[:, None] < m)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + at, x * (1.0 - 1.0 / (1.0 + tl.exp(2.0 * inner))), mask=at < n)


@triton.jit
def swiglu(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x * y / (1.0 + tl.exp(-x)), mask=at < n)


@triton.jit
def polynomial(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, ((0.25 * x - 1.5) * x + 2.0) * x + 0.1, mask=at < n)


@triton.jit
def scaled_sum(x_ptr, y_ptr, out_ptr, n, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.fma(x, a, y), mask=at < n)


@triton.jit
def total_by_atomics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


@triton.jit
def running_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    before = 0.0
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=0.0)
        tl.store(out_ptr + row + start + lanes, before + tl.cumsum(x, axis=0), mask=inside)
        before += tl.sum(x, axis=0)


@triton.jit
def compose(a_first, b_first, a_second, b_second):
    return a_first * a_second, b_first * a_second + b_second


@triton.jit
def recurrence_by_scan(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row + lanes, mask=lanes < n, other=0.0)
    b = tl.load(b_ptr + row + lanes, mask=lanes < n, other=0.0)
    _, h = tl.associative_scan((a, b), 0, compose)
    tl.store(out_ptr + row + lanes, h, mask=lanes < n)


@triton.jit
def recurrence_by_steps(a_ptr, b_ptr, out_ptr, n):
    row = tl.program_id(0) * n
    h = 0.0
    for at in range(n):
        h = tl.load(a_ptr + row + at) * h + tl.load(b_ptr + row + at)
        tl.store(out_ptr + row + at, h)


@triton.jit
def column_sums(x_ptr, out_ptr, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, m, ROWS):
        rows = start + tl.arange(0, ROWS)[:, None]
        inside = (rows < m) & (columns < n)
        total += tl.load(x_ptr + rows * n + columns, mask=inside, other=0.0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sum(total, axis=0), mask=at < n)


@triton.jit
def largest_of_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row * n + start + lanes, mask=inside, other=-float("inf"))
        largest = tl.maximum(largest, x)
    tl.store(out_ptr + row, tl.max(largest, axis=0))


@triton.jit
def cosine(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    y = tl.load(y_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    lengths = tl.sqrt(tl.sum(x * x, axis=0) * tl.sum(y * y, axis=0))
    tl.store(out_ptr + row, tl.sum(x * y, axis=0) / lengths)


@triton.jit
def transpose(x_ptr, out_ptr, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=inside)
    places = columns[:, None] * m + rows[None, :]
    tl.store(out_ptr + places, tl.trans(x), mask=tl.trans(inside))


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, n, HALF: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, HALF)
    inside = lanes < n // 2
    x = tl.load(x_ptr + row + lanes, mask=inside)
    y = tl.load(x_ptr + row + n // 2 + lanes, mask=inside)
    cos = tl.load(cos_ptr + lanes, mask=inside)
    sin = tl.load(sin_ptr + lanes, mask=inside)
    tl.store(out_ptr + row + lanes, x * cos - y * sin, mask=inside)
    tl.store(out_ptr + row + n // 2 + lanes, y * cos + x * sin, mask=inside)


@triton.jit
def convolution(x_ptr, w_ptr, out_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(WIDTH):
        place = at + tap - WIDTH // 2
        x = tl.load(x_ptr + place, mask=(place >= 0) & (place < n), other=0.0)
        total += x * tl.load(w_ptr + tap)
    tl.store(out_ptr + at, total, mask=at < n)


@triton.jit
def distances(x_ptr, y_ptr, out_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for inner in range(k):
        x = tl.load(x_ptr + rows * k + inner, mask=rows < m, other=0.0)
        y = tl.load(y_ptr + columns * k + inner, mask=columns < n, other=0.0)
        off = x[:, None] - y[None, :]
        total += off * off
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total, mask=inside)


@triton.jit
def attention_softcap(
    q_ptr, k_ptr, v_ptr, out_ptr, m, n, scale, cap, HEAD: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.arange(0, HEAD)
    q = tl.load(q_ptr + rows[:, None] * HEAD + head[None, :], mask=rows[:, None] < m, other=0.0)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    out = tl.zeros((BLOCK, HEAD), tl.float32)
    for start in range(0, n, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        places = keys[:, None] * HEAD + head[None, :]
        k = tl.load(k_ptr + places, mask=keys[:, None] < n, other=0.0)
        v = tl.load(v_ptr + places, mask=keys[:, None] < n, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * (scale / cap)
        scores = cap * (2.0 * tl.sigmoid(2.0 * scores) - 1.0)
        scores = tl.where(keys[None, :] < n, scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        rescale = tl.exp(largest - now)
        total = total * rescale + tl.sum(weights, axis=1)
        out = out * rescale[:, None] + tl.dot(weights, v)
        largest = now
    out = out / total[:, None]
    tl.store(out_ptr + rows[:, None] * HEAD + head[None, :], out, mask=rows[:, None] < m)


@triton.jit
def merged(mean, squares, count, other_mean, other_squares, other_count):
    total = count + other_count
    part = tl.where(total == 0.0, 0.0, other_count / total)
    off = other_mean - mean
    return mean + off * part, squares + other_squares + off * off * count * part, total


@triton.jit
def variance_by_reduce(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    count = tl.where(lanes < n, 1.0, 0.0)
    _, squares, total = tl.reduce((x, x * 0.0, count), 0, merged)
    tl.store(out_ptr + row, squares / total)


@triton.jit
def log_softmax_halves(x_ptr, out_ptr, n, HALF: tl.constexpr):
    row = tl.program_id(0) * n
    lanes = tl.arange(0, HALF)
    a = tl.load(x_ptr + row + lanes, mask=lanes < n, other=-float("inf"))
    b = tl.load(x_ptr + row + HALF + lanes, mask=HALF + lanes < n, other=-float("inf"))
    first = tl.max(a, axis=0)
    second = tl.max(b, axis=0)
    first_sum = first + tl.log(tl.sum(tl.exp(a - first), axis=0))
    second_sum = second + tl.log(tl.sum(tl.exp(b - second), axis=0))
    both = tl.maximum(first_sum, second_sum)
    all = both + tl.log(tl.exp(first_sum - both) + tl.exp(second_sum - both))
    tl.store(out_ptr + row + lanes, a - all, mask=lanes < n)
    tl.store(out_ptr + row + HALF + lanes, b - all, mask=HALF + lanes < n)


@triton.jit
def rotary_of_pairs(x_ptr, cos_ptr, sin_ptr, out_ptr, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    pairs = tl.arange(0, HALF)
    inside = 2 * pairs < n
    even = tl.load(x_ptr + row * n + 2 * pairs, mask=inside)
    odd = tl.load(x_ptr + row * n + 2 * pairs + 1, mask=inside)
    cos = tl.load(cos_ptr + row * (n // 2) + pairs, mask=inside)
    sin = tl.load(sin_ptr + row * (n // 2) + pairs, mask=inside)
    tl.store(out_ptr + row * n + 2 * pairs, even * cos - odd * sin, mask=inside)
    tl.store(out_ptr + row * n + 2 * pairs + 1, odd * cos + even * sin, mask=inside)


@triton.jit
def matmul_stream(a_ptr, b_ptr, c_ptr, m, n, k, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    steps = tl.cdiv(k, BLOCK)
    wide = tl.cdiv(n, BLOCK)
    all = tl.cdiv(m, BLOCK) * wide * steps
    share = tl.cdiv(all, PROGRAMS)
    first = tl.program_id(0) * share
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for work in range(first, tl.minimum(first + share, all), 1):
        tile = work // steps
        rows = tile // wide * BLOCK + tl.arange(0, BLOCK)
        columns = tile % wide * BLOCK + tl.arange(0, BLOCK)
        inner = work % steps * BLOCK + tl.arange(0, BLOCK)
        a_inside = (rows[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_inside, other=0.0)
        total += tl.dot(a, b)
        if (work + 1) % steps == 0 or work + 1 == tl.minimum(first + share, all):
            inside = (rows[:, None] < m) & (columns[None, :] < n)
            tl.atomic_add(c_ptr + rows[:, None] * n + columns[None, :], total, mask=inside)
            total = tl.zeros((BLOCK, BLOCK), tl.float32)


@triton.jit
def swiglu_gradient(x_ptr, y_ptr, dz_ptr, dx_ptr, dy_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    dz = tl.load(dz_ptr + at, mask=at < n)
    gate = 1.0 / (1.0 + tl.exp(-x))
    tl.store(dy_ptr + at, dz * x * gate, mask=at < n)
    tl.store(dx_ptr + at, dz * y * gate * (1.0 + x * (1.0 - gate)), mask=at < n)


@triton.jit
def paged_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    pages_ptr,
    out_ptr,
    n,
    scale,
    PAGE: tl.constexpr,
    HEAD: tl.constexpr,
    TURNS: tl.constexpr,
):
    row = tl.program_id(0)
    head = tl.arange(0, HEAD)
    lanes = tl.arange(0, PAGE)
    q = tl.load(q_ptr + row * HEAD + head)
    largest = -float("inf")
    total = 0.0
    out = tl.zeros((HEAD,), tl.float32)
    for turn in range(TURNS):
        page = tl.load(pages_ptr + row * TURNS + turn)
        places = page * PAGE * HEAD + lanes[:, None] * HEAD + head[None, :]
        seen = turn * PAGE + lanes < n
        k = tl.load(k_ptr + places, mask=seen[:, None], other=0.0)
        v = tl.load(v_ptr + places, mask=seen[:, None], other=0.0)
        scores = tl.where(seen, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=0))
        weights = tl.exp(scores - now)
        rescale = tl.exp(largest - now)
        total = total * rescale + tl.sum(weights, axis=0)
        out = out * rescale + tl.sum(weights[:, None] * v, axis=0)
        largest = now
    tl.store(out_ptr + row * HEAD + head, out / total)
