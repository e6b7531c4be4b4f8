"""Kernels of the pairs that no rule and no fit has seen."""

# ruff: noqa: ARG001

import triton
import triton.language as tl


@triton.jit
def rotated_by_token(x, angle, out, HALF, BLOCK: tl.constexpr):
    """Rotary embedding; lanes are tokens, and each program has one pair of features."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.program_id(1)
    at = token * 2 * HALF + feature
    first, second = tl.load(x + at), tl.load(x + at + HALF)
    turn = tl.load(angle + token * HALF + feature)
    tl.store(out + at, first * tl.cos(turn) - second * tl.sin(turn))
    tl.store(out + at + HALF, second * tl.cos(turn) + first * tl.sin(turn))


@triton.jit
def rotated_by_feature(x, angle, out, HALF, BLOCK: tl.constexpr):
    """The same; lanes are features, and each program has one token."""
    token = tl.program_id(0)
    feature = tl.arange(0, BLOCK)
    at = token * 2 * HALF + feature
    first, second = tl.load(x + at), tl.load(x + at + HALF)
    turn = tl.load(angle + token * HALF + feature)
    tl.store(out + at, first * tl.cos(turn) - second * tl.sin(turn))
    tl.store(out + at + HALF, second * tl.cos(turn) + first * tl.sin(turn))


@triton.jit
def bags_by_lane(index, table, out, BAGS, WIDTH, SIZE, BLOCK: tl.constexpr):
    """Sums of SIZE rows of a table; lanes are bags."""
    bag = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    feature = tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for number in range(SIZE):
        row = tl.load(index + number * BAGS + bag)
        total += tl.load(table + row * WIDTH + feature)
    tl.store(out + bag * WIDTH + feature, total)


@triton.jit
def bags_by_feature(index, table, out, BAGS, SIZE, WIDTH: tl.constexpr):
    """The same; lanes are features."""
    bag, feature = tl.program_id(0), tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for number in range(SIZE):
        row = tl.load(index + number * BAGS + bag)
        total += tl.load(table + row * WIDTH + feature)
    tl.store(out + bag * WIDTH + feature, total)


@triton.jit
def blended(a, b, out, BLOCK: tl.constexpr):
    """The mean of two images of bytes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.load(a + at).to(tl.int16) + tl.load(b + at).to(tl.int16)
    tl.store(out + at, (both >> 1).to(tl.uint8))


@triton.jit
def gated(gate, up, out, n, BLOCK: tl.constexpr):
    """silu(gate) * up."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(gate + at, mask=inside).to(tl.float32)
    y = tl.load(up + at, mask=inside).to(tl.float32)
    tl.store(out + at, (x * tl.sigmoid(x) * y).to(tl.float16), mask=inside)


@triton.jit
def log_softmax(x, out, CLASSES: tl.constexpr):
    """Logarithms of the softmax of each row."""
    at = tl.program_id(0) * CLASSES + tl.arange(0, CLASSES)
    score = tl.load(x + at)
    score -= tl.max(score, 0)
    tl.store(out + at, score - tl.log(tl.sum(tl.exp(score), 0)))


@triton.jit
def dot_of_vectors(x, y, out, n, BLOCK: tl.constexpr):
    """The dot product of two long vectors."""
    total = tl.zeros((BLOCK,), tl.float32)
    step = tl.num_programs(0) * BLOCK
    for first in tl.range(tl.program_id(0) * BLOCK, n, step, num_stages=4):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + at) * tl.load(y + at)
    tl.atomic_add(out, tl.sum(total), sem="relaxed")


@triton.jit
def forces_in_bands(x, out, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """What all earlier bodies do to each one; a program has BLOCK bodies next to each other."""
    body = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + body)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, (tl.program_id(0) + 1) * BLOCK, WIDE):
        other = first + tl.arange(0, WIDE)
        apart = here[:, None] - tl.load(x + other)[None, :]
        force = apart * tl.rsqrt(apart * apart + 0.01)
        total += tl.sum(tl.where(other[None, :] < body[:, None], force, 0.0), 1)
    tl.store(out + body, total)


@triton.jit
def forces_from_both_ends(x, out, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The same; a program has half as many bodies of the beginning, and as many of the end."""
    half: tl.constexpr = BLOCK // 2
    for end in range(2):
        opposite = 2 * tl.num_programs(0) - 1 - tl.program_id(0)
        place = tl.program_id(0) if end == 0 else opposite
        body = place * half + tl.arange(0, half)
        here = tl.load(x + body)
        total = tl.zeros((half,), tl.float32)
        for first in range(0, (place + 1) * half, WIDE):
            other = first + tl.arange(0, WIDE)
            apart = here[:, None] - tl.load(x + other)[None, :]
            force = apart * tl.rsqrt(apart * apart + 0.01)
            total += tl.sum(tl.where(other[None, :] < body[:, None], force, 0.0), 1)
        tl.store(out + body, total)


@triton.jit
def standardized(x, out, COLUMNS: tl.constexpr):
    """Each row with mean 0 and variance 1; a row is one tile."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    value = tl.load(x + at)
    value -= tl.sum(value, 0) / COLUMNS
    tl.store(out + at, value * tl.rsqrt(tl.sum(value * value, 0) / COLUMNS + 1e-5))


@triton.jit
def scores_by_sums(q, k, out, N, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr):
    """q @ k.T of each head, as sums of broadcast products."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN
    column += tl.arange(0, BN)
    along, head = tl.arange(0, WIDTH), tl.program_id(2) * N
    x = tl.load(q + (head + row)[:, None] * WIDTH + along[None, :]).to(tl.float32)
    y = tl.load(k + (head + column)[:, None] * WIDTH + along[None, :]).to(tl.float32)
    score = tl.sum(x[:, None, :] * y[None, :, :], 2)
    tl.store(out + (head + row)[:, None] * N + column[None, :], score)


@triton.jit
def scores_by_dot(q, k, out, N, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr):
    """The same by tl.dot."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN
    column += tl.arange(0, BN)
    along, head = tl.arange(0, WIDTH), tl.program_id(2) * N
    x = tl.load(q + (head + row)[:, None] * WIDTH + along[None, :])
    y = tl.load(k + (head + column)[:, None] * WIDTH + along[None, :])
    tl.store(out + (head + row)[:, None] * N + column[None, :], tl.dot(x, tl.trans(y)))


@triton.jit
def linear(
    x, weight, bias, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """x @ weight.T + bias; with WIDE, of operands that are converted to fp32."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        a = tl.load(x + row[:, None] * K + first + depth[None, :])
        b = tl.load(weight + column[None, :] * K + first + depth[:, None])
        if WIDE:
            total += tl.dot(a.to(tl.float32), b.to(tl.float32))
        else:
            total += tl.dot(a, b)
    total += tl.load(bias + column)[None, :]
    tl.store(out + row[:, None] * N + column[None, :], total.to(tl.bfloat16))


@triton.jit
def norm_in_three_passes(x, out, COLUMNS, BLOCK: tl.constexpr):
    """Layer norm of long rows: the mean, the variance, then the result."""
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        total += tl.load(x + row + first + tl.arange(0, BLOCK))
    mean = tl.sum(total) / COLUMNS
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        apart = tl.load(x + row + first + tl.arange(0, BLOCK)) - mean
        squares += apart * apart
    scale = tl.rsqrt(tl.sum(squares) / COLUMNS + 1e-5)
    for first in range(0, COLUMNS, BLOCK):
        at = row + first + tl.arange(0, BLOCK)
        tl.store(out + at, (tl.load(x + at) - mean) * scale)


@triton.jit
def norm_in_two_passes(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The same; the first loop has both sums."""
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + row + first + tl.arange(0, BLOCK))
        total += value
        squares += value * value
    mean = tl.sum(total) / COLUMNS
    scale = tl.rsqrt(tl.sum(squares) / COLUMNS - mean * mean + 1e-5)
    for first in range(0, COLUMNS, BLOCK):
        at = row + first + tl.arange(0, BLOCK)
        tl.store(out + at, (tl.load(x + at) - mean) * scale)


@triton.jit
def bins_by_element(x, out, BLOCK: tl.constexpr):
    """How often each of 64 numbers occurs: an atomic for each element."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out + value, 1, sem="relaxed")


@triton.jit
def bins_by_program(x, out, BLOCK: tl.constexpr):
    """The same; a program counts its own elements first."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out + tl.arange(0, 64), tl.histogram(value, 64), sem="relaxed")


@triton.jit
def activated_by_where(x, out, kind, BLOCK: tl.constexpr):
    """An activation that is solved by Newton's method, or relu."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    root = value
    for _ in range(20):
        power = tl.exp(root)
        root -= (root * power - value) / (power * (root + 1.0) + 1.0)
    tl.store(out + at, tl.where(kind == 1, root, tl.maximum(value, 0.0)))


@triton.jit
def activated_by_if(x, out, kind, BLOCK: tl.constexpr):
    """The same; only the activation that is asked for is computed."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if kind == 1:
        root = value
        for _ in range(20):
            power = tl.exp(root)
            root -= (root * power - value) / (power * (root + 1.0) + 1.0)
    else:
        root = tl.maximum(value, 0.0)
    tl.store(out + at, root)


@triton.jit
def shifted_by_shape(x, shift, scale, out, n, CHANNELS, WIDTH, BLOCK: tl.constexpr):
    """x of [batch, channel, width]: a shift of each channel, and a scale of each column."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, column = (at // WIDTH) % CHANNELS, at % WIDTH
    value = tl.load(x + at, mask=at < n) * tl.load(scale + column, mask=at < n)
    tl.store(out + at, value + tl.load(shift + channel, mask=at < n), mask=at < n)


@triton.jit
def shifted_by_grid(x, shift, scale, out, n, CHANNELS, WIDTH, BLOCK: tl.constexpr):
    """The same; the grid has the channels and the batch."""
    column = tl.arange(0, BLOCK)
    at = (tl.program_id(1) * CHANNELS + tl.program_id(0)) * WIDTH + column
    inside = column < WIDTH
    value = tl.load(x + at, mask=inside) * tl.load(scale + column, mask=inside)
    tl.store(out + at, value + tl.load(shift + tl.program_id(0)), mask=inside)


@triton.jit
def log_sums_block_by_block(x, out, COLUMNS, BLOCK: tl.constexpr):
    """log(sum(exp(x))) of long rows, with one maximum and one sum that each block updates."""
    row = tl.program_id(0) * COLUMNS
    most, total = float("-inf"), 0.0
    for first in tl.range(0, COLUMNS, BLOCK, num_stages=3):
        value = tl.load(x + row + first + tl.arange(0, BLOCK))
        now = tl.maximum(most, tl.max(value, 0))
        total = total * tl.exp(most - now) + tl.sum(tl.exp(value - now), 0)
        most = now
    tl.store(out + tl.program_id(0), most + tl.log(total))


@triton.jit
def log_sums_lane_by_lane(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The same with a maximum and a sum for each place of the block, combined at the end."""
    row = tl.program_id(0) * COLUMNS
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, COLUMNS, BLOCK, num_stages=3):
        value = tl.load(x + row + first + tl.arange(0, BLOCK))
        now = tl.maximum(most, value)
        total = total * tl.exp(most - now) + tl.exp(value - now)
        most = now
    last = tl.max(most, 0)
    tl.store(out + tl.program_id(0), last + tl.log(tl.sum(total * tl.exp(most - last), 0)))


@triton.jit
def band_times(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, REACH: tl.constexpr,
    SKIPS: tl.constexpr,
):  # fmt: skip
    """c = a @ b, of the elements of a that are at most REACH from its diagonal."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    begin = max(tl.program_id(0) * BM - REACH, 0) if SKIPS else 0
    end = min(tl.program_id(0) * BM + BM + REACH, K) if SKIPS else K
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(begin, end, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + column[None, :])
        near = tl.abs(row[:, None] - depth[None, :]) <= REACH
        total = tl.dot(tl.where(near, x, 0.0), y, total)
    tl.store(c + row[:, None] * N + column[None, :], total.to(tl.float16))


@triton.jit
def distances_to_centers(
    x, centers, out, POINTS, CENTERS_FIRST: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """How far each point is from each center; an axis of the grid for both."""
    block, center = tl.program_id(0), tl.program_id(1)
    if CENTERS_FIRST:
        block, center = tl.program_id(1), tl.program_id(0)
    point, along = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    apart = tl.load(x + point[:, None] * WIDTH + along[None, :])
    apart -= tl.load(centers + center * WIDTH + along)[None, :]
    tl.store(out + center * POINTS + point, tl.sqrt(tl.sum(apart * apart, 1)))
