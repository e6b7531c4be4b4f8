"""Kernels of the pairs that no rule and no fit has seen."""

# ruff: noqa: ARG001

import triton
import triton.language as tl
from triton.language.extra import libdevice


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


@triton.jit
def channels_last_by_pixel(x, out, PIXELS, CHANNELS: tl.constexpr):
    """[batch, channel, pixel] to [batch, pixel, channel]; a program has one pixel."""
    pixel, channel = tl.program_id(0), tl.arange(0, CHANNELS)
    image = tl.program_id(1) * PIXELS * CHANNELS
    value = tl.load(x + image + channel * PIXELS + pixel)
    tl.store(out + image + pixel * CHANNELS + channel, value)


@triton.jit
def channels_last_by_tile(x, out, PIXELS, CHANNELS, TALL: tl.constexpr, WIDE: tl.constexpr):
    """The same; a program has TALL pixels of WIDE channels."""
    pixel = tl.program_id(0) * TALL + tl.arange(0, TALL)
    channel = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    image = tl.program_id(1) * PIXELS * CHANNELS
    value = tl.load(x + image + channel[:, None] * PIXELS + pixel[None, :])
    tl.store(out + image + pixel[:, None] * CHANNELS + channel[None, :], tl.trans(value))


@triton.jit
def complex_by_part(z, w, out, BLOCK: tl.constexpr):
    """Products of complex numbers, the two parts of each next to each other."""
    at = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    a, b = tl.load(z + at), tl.load(z + at + 1)
    c, d = tl.load(w + at), tl.load(w + at + 1)
    tl.store(out + at, a * c - b * d)
    tl.store(out + at + 1, a * d + b * c)


@triton.jit
def complex_by_number(z, w, out, BLOCK: tl.constexpr):
    """The same; both parts are loaded at once, then split."""
    at = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] + tl.arange(0, 2)[None, :]
    a, b = tl.split(tl.load(z + at))
    c, d = tl.split(tl.load(w + at))
    tl.store(out + at, tl.join(a * c - b * d, a * d + b * c))


@triton.jit
def paged_by_token(q, keys, table, out, PAGES, WIDTH, BLOCK: tl.constexpr):
    """q @ keys.T of a cache in pages of 16 tokens; lanes are tokens."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    page = tl.load(table + tl.program_id(1) * PAGES + token // 16)
    at = (page * 16 + token % 16) * WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for along in range(WIDTH):
        one = tl.load(q + tl.program_id(1) * WIDTH + along).to(tl.float32)
        total += one * tl.load(keys + at + along)
    tl.store(out + tl.program_id(1) * PAGES * 16 + token, total)


@triton.jit
def paged_by_row(q, keys, table, out, PAGES, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The same; lanes run along the rows of the pages."""
    token, along = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    page = tl.load(table + tl.program_id(1) * PAGES + token // 16)
    at = (page * 16 + token % 16) * WIDTH
    one = tl.load(q + tl.program_id(1) * WIDTH + along).to(tl.float32)
    key = tl.load(keys + at[:, None] + along[None, :])
    tl.store(out + tl.program_id(1) * PAGES * 16 + token, tl.sum(key * one[None, :], 1))


@triton.jit
def padded(x, out, COLUMNS, STRIDE, PAD, BLOCK: tl.constexpr):
    """Rows with PAD elements in front of them."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(1) * COLUMNS + column)
    tl.store(out + tl.program_id(1) * STRIDE + PAD + column, value)


@triton.jit
def padded_by_constant(x, out, COLUMNS, STRIDE, PAD: tl.constexpr, BLOCK: tl.constexpr):
    """The same, where the compiler knows PAD."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(1) * COLUMNS + column)
    tl.store(out + tl.program_id(1) * STRIDE + PAD + column, value)


@triton.jit
def rms_norm(x, weight, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """RMS norm of ROWS rows."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = row[:, None] * COLUMNS + column[None, :]
    value = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 1) / COLUMNS + 1e-6)
    value = value * scale[:, None] * tl.load(weight + column)[None, :]
    tl.store(out + at, value.to(tl.float16))


@triton.jit
def experts_of_tokens(logits, gate, expert, TOKENS: tl.constexpr, EXPERTS: tl.constexpr):
    """The best expert of each token, and its softmax."""
    token, at = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    score = tl.load(logits + token[:, None] * EXPERTS + at[None, :])
    most, best = tl.max(score, 1, return_indices=True)
    tl.store(gate + token, 1 / tl.sum(tl.exp(score - most[:, None]), 1))
    tl.store(expert + token, best)


@triton.jit
def running_sums_one_by_one(x, out, COLUMNS):
    """Running sums of a row."""
    row, total = tl.program_id(0) * COLUMNS, 0.0
    for column in range(COLUMNS):
        total += tl.load(x + row + column)
        tl.store(out + row + column, total)


@triton.jit
def running_sums(x, out, COLUMNS: tl.constexpr):
    """The same as a scan of the whole row."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def group_statistics(x, out, COUNT, BLOCK: tl.constexpr):
    """The sum of each group and of its squares; the second axis of the grid divides a group."""
    group, part = tl.program_id(0), COUNT // tl.num_programs(1)
    first = group * COUNT + tl.program_id(1) * part
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for step in tl.range(0, part, BLOCK, num_stages=4):
        value = tl.load(x + first + step + tl.arange(0, BLOCK))
        total += value
        squares += value * value
    tl.atomic_add(out + 2 * group, tl.sum(total), sem="relaxed")
    tl.atomic_add(out + 2 * group + 1, tl.sum(squares), sem="relaxed")


@triton.jit
def matrix_by_vector(a, x, out, COLUMNS, BM: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    """a @ x; a program has BM rows."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for first in tl.range(0, COLUMNS, BK, num_stages=STAGES):
        column = first + tl.arange(0, BK)
        tile = tl.load(a + row[:, None] * COLUMNS + column[None, :])
        total += tl.sum(tile.to(tl.float32) * tl.load(x + column).to(tl.float32)[None, :], 1)
    tl.store(out + row, total)


@triton.jit
def distances_loading_points(
    x, centers, out, POINTS, CENTERS, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """How far each point is from each center; the points are loaded for each center."""
    point, along = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    for center in range(CENTERS):
        here = tl.load(x + point[:, None] * WIDTH + along[None, :])
        apart = here - tl.load(centers + center * WIDTH + along)[None, :]
        tl.store(out + center * POINTS + point, tl.sum(apart * apart, 1))


@triton.jit
def distances_keeping_points(
    x, centers, out, POINTS, CENTERS, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """The same; the points are loaded once."""
    point, along = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    here = tl.load(x + point[:, None] * WIDTH + along[None, :])
    for center in range(CENTERS):
        apart = here - tl.load(centers + center * WIDTH + along)[None, :]
        tl.store(out + center * POINTS + point, tl.sum(apart * apart, 1))


@triton.jit
def gated_products(x, gate, up, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """silu(x @ gate) * (x @ up)."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    gates = tl.zeros((BM, BN), tl.float32)
    ups = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        depth = first + tl.arange(0, BK)
        tile = tl.load(x + row[:, None] * K + depth[None, :])
        gates = tl.dot(tile, tl.load(gate + depth[:, None] * N + column[None, :]), gates)
        ups = tl.dot(tile, tl.load(up + depth[:, None] * N + column[None, :]), ups)
    result = gates * tl.sigmoid(gates) * ups
    tl.store(out + row[:, None] * N + column[None, :], result.to(tl.float16))


@triton.jit
def covariance(x, out, ROWS, COLUMNS, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    """x.T @ x."""
    row = tl.program_id(0) * BN + tl.arange(0, BN)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BN, BN), tl.float32)
    for first in range(0, ROWS, BK):
        depth = (first + tl.arange(0, BK)) * COLUMNS
        left = tl.load(x + depth[None, :] + row[:, None])
        right = tl.load(x + depth[:, None] + column[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(out + row[:, None] * COLUMNS + column[None, :], total)


@triton.jit
def linear_attention_by_token(q, k, v, out, N, WIDTH: tl.constexpr):
    """Causal linear attention; each token updates the state of its head."""
    head, along = tl.program_id(0) * N * WIDTH, tl.arange(0, WIDTH)
    state = tl.zeros((WIDTH, WIDTH), tl.float32)
    for token in range(N):
        at = head + token * WIDTH + along
        key, value = tl.load(k + at).to(tl.float32), tl.load(v + at).to(tl.float32)
        state += key[:, None] * value[None, :]
        found = tl.sum(tl.load(q + at).to(tl.float32)[:, None] * state, 0)
        tl.store(out + at, found.to(tl.float16))


@triton.jit
def linear_attention_by_chunk(q, k, v, out, N, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """The same; chunks of tokens update it, by tl.dot."""
    head, along, token = tl.program_id(0) * N * WIDTH, tl.arange(0, WIDTH), tl.arange(0, CHUNK)
    state = tl.zeros((WIDTH, WIDTH), tl.float32)
    for first in range(0, N, CHUNK):
        at = head + (first + token[:, None]) * WIDTH + along[None, :]
        asked, key, value = tl.load(q + at), tl.load(k + at), tl.load(v + at)
        score = tl.where(token[:, None] >= token[None, :], tl.dot(asked, tl.trans(key)), 0.0)
        found = tl.dot(score.to(tl.float16), value) + tl.dot(asked, state.to(tl.float16))
        state += tl.dot(tl.trans(key), value)
        tl.store(out + at, found.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr, WIDE: tl.constexpr, LONG_FIRST: tl.constexpr,
):  # fmt: skip
    """Attention of heads of N rows; with WIDE, of operands that are converted to fp32."""
    block = tl.num_programs(1) - 1 - tl.program_id(1) if LONG_FIRST else tl.program_id(1)
    row, column = block * BM + tl.arange(0, BM), tl.arange(0, BN)
    along, head = tl.arange(0, WIDTH), tl.program_id(0) * N * WIDTH
    x = tl.load(q + head + row[:, None] * WIDTH + along[None, :])
    most = tl.full((BM,), float("-inf"), tl.float32)
    sums = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, WIDTH), tl.float32)
    for first in range(0, (block + 1) * BM if CAUSAL else N, BN):
        at = head + (first + column[:, None]) * WIDTH + along[None, :]
        y, z = tl.load(k + at), tl.load(v + at)
        if WIDE:
            score = tl.dot(x.to(tl.float32), tl.trans(y.to(tl.float32))) * 0.18
        else:
            score = tl.dot(x, tl.trans(y)) * 0.18
        if CAUSAL:
            score = tl.where(row[:, None] >= first + column[None, :], score, float("-inf"))
        now = tl.maximum(most, tl.max(score, 1))
        power, less = tl.exp2(score - now[:, None]), tl.exp2(most - now)
        sums = sums * less + tl.sum(power, 1)
        total *= less[:, None]
        if WIDE:
            total = tl.dot(power, z.to(tl.float32), total)
        else:
            total = tl.dot(power.to(tl.float16), z, total)
        most = now
    at = head + row[:, None] * WIDTH + along[None, :]
    tl.store(out + at, (total / sums[:, None]).to(tl.float16))


@triton.jit
def grouped_scores(
    q, keys, out, TOKENS, HEADS, GROUP_FIRST: tl.constexpr, GROUP: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Scores of one token of each query head; GROUP of them share the keys of a head."""
    if GROUP_FIRST:
        member, block, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    else:
        block, head, member = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    token, along = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    asked = tl.load(q + (head * GROUP + member) * WIDTH + along).to(tl.float32)
    key = tl.load(keys + (head * TOKENS + token)[:, None].to(tl.int64) * WIDTH + along[None, :])
    score = tl.sum(key.to(tl.float32) * asked[None, :], 1)
    tl.store(out + (head * GROUP + member) * TOKENS + token, score)


@triton.jit
def segments_by_element(x, out, BLOCK: tl.constexpr):
    """Sums of segments of 256 elements, by an atomic for each element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at // 256, tl.load(x + at), sem="relaxed")


@triton.jit
def segments_by_row(x, out, ROWS: tl.constexpr):
    """The same; each row of a tile is a segment."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    value = tl.load(x + row[:, None] * 256 + tl.arange(0, 256)[None, :])
    tl.store(out + row, tl.sum(value, 1))


@triton.jit
def softmax_in_three_passes(x, out, COLUMNS, BLOCK: tl.constexpr):
    """Softmax of a long row: its maximum, its sum, then the result."""
    row = tl.program_id(0) * COLUMNS + tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        highest = tl.maximum(highest, tl.load(x + row + first))
    most = tl.max(highest, 0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        sums += tl.exp(tl.load(x + row + first) - most)
    total = tl.sum(sums, 0)
    for first in range(0, COLUMNS, BLOCK):
        tl.store(out + row + first, tl.exp(tl.load(x + row + first) - most) / total)


@triton.jit
def softmax_of_a_tile(x, out, COLUMNS: tl.constexpr):
    """The same; the row stays in registers."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    value = tl.load(x + at)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + at, power / tl.sum(power, 0))


@triton.jit
def sinkhorn(x, out, TURNS, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows and columns of a matrix that in turns are divided by their sums."""
    at = tl.program_id(0) * ROWS * COLUMNS
    at += tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.exp(tl.load(x + at))
    for _ in range(TURNS):
        value = value * (1 / tl.sum(value, 1))[:, None]
        value = value * (1 / tl.sum(value, 0))[None, :]
    tl.store(out + at, value)


@triton.jit
def convolution(
    x, weight, out, SIDE, OUTPUTS, CHANNELS, TAPS, DEPTH, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Convolution of images in channels-last format as a matmul; each row is a pixel."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    output = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = SIDE - TAPS + 1
    image, y, x_of = row // (inner * inner), row // inner % inner, row % inner
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, DEPTH, BK):
        depth = first + tl.arange(0, BK)
        channel, tap = depth % CHANNELS, depth // CHANNELS
        above, left = tap // TAPS, tap % TAPS
        pixel = ((image * SIDE + y) * SIDE + x_of)[:, None] + (above * SIDE + left)[None, :]
        tile = tl.load(x + pixel * CHANNELS + channel[None, :])
        total = tl.dot(tile, tl.load(weight + depth[:, None] * OUTPUTS + output[None, :]), total)
    tl.store(out + row[:, None] * OUTPUTS + output[None, :], total.to(tl.float16))


@triton.jit
def convolution_by_tap(
    x, weight, out, SIDE, OUTPUTS, CHANNELS: tl.constexpr, TAPS: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """The same; each iteration has all channels of one tap."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    output = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = SIDE - TAPS + 1
    image, y, x_of = row // (inner * inner), row // inner % inner, row % inner
    channel = tl.arange(0, CHANNELS)
    total = tl.zeros((BM, BN), tl.float32)
    for tap in range(TAPS * TAPS):
        pixel = (image * SIDE + y + tap // TAPS) * SIDE + x_of + tap % TAPS
        tile = tl.load(x + pixel[:, None] * CHANNELS + channel[None, :])
        depth = tap * CHANNELS + channel
        total = tl.dot(tile, tl.load(weight + depth[:, None] * OUTPUTS + output[None, :]), total)
    tl.store(out + row[:, None] * OUTPUTS + output[None, :], total.to(tl.float16))


@triton.jit
def density_by_division(x, samples, out, COUNT, width, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The density at each point: a Gauss curve around each sample."""
    here = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    total = tl.zeros((BLOCK, WIDE), tl.float32)
    for first in range(0, COUNT, WIDE):
        apart = here[:, None] - tl.load(samples + first + tl.arange(0, WIDE))[None, :]
        apart = apart / width
        total += tl.exp2(-apart * apart)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.sum(total, 1))


@triton.jit
def density_by_product(x, samples, out, COUNT, width, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The same by the reciprocal of the width."""
    here = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    total = tl.zeros((BLOCK, WIDE), tl.float32)
    narrow = 1 / width
    for first in range(0, COUNT, WIDE):
        apart = here[:, None] - tl.load(samples + first + tl.arange(0, WIDE))[None, :]
        apart = apart * narrow
        total += tl.exp2(-apart * apart)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.sum(total, 1))


@triton.jit
def gelu(x, out, POWER: tl.constexpr, BLOCK: tl.constexpr):
    """The approximation of GELU by tanh; with POWER, its cube is a call of pow."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(tl.float32)
    if POWER:
        cube = libdevice.pow(value, 3.0)
    else:
        cube = value * value * value
    result = value * tl.sigmoid(1.5957691 * (value + 0.044715 * cube))
    tl.store(out + at, result.to(tl.float16))


@triton.jit
def sums_of_exponentials(x, lengths, out, STRIDE, SKIPS: tl.constexpr, BLOCK: tl.constexpr):
    """Of padded rows; with SKIPS, the loop ends with the row."""
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, length if SKIPS else STRIDE, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row.to(tl.int64) * STRIDE + at, mask=at < length, other=float("-inf"))
        total += tl.exp(value.to(tl.float32))
    tl.store(out + row, tl.sum(total, 0))


@triton.jit
def best_two_by_sort(x, out, WIDTH: tl.constexpr):
    """The sum of the two largest numbers of a row."""
    at = tl.arange(0, WIDTH)
    value = tl.sort(tl.load(x + tl.program_id(0) * WIDTH + at), descending=True)
    tl.store(out + tl.program_id(0), tl.sum(tl.where(at < 2, value, 0.0), 0))


@triton.jit
def best_two_by_max(x, out, WIDTH: tl.constexpr):
    """The same by two maxima."""
    at = tl.arange(0, WIDTH)
    value = tl.load(x + tl.program_id(0) * WIDTH + at)
    first, place = tl.max(value, 0, return_indices=True)
    second = tl.max(tl.where(at == place, float("-inf"), value), 0)
    tl.store(out + tl.program_id(0), first + second)


@triton.jit
def blurred(x, out, STRIDE, WIDTH, CACHE: tl.constexpr, BLOCK: tl.constexpr):
    """Means of 5 x 5 pixels."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for down in tl.static_range(5):
        for right in tl.static_range(5):
            at = (tl.program_id(1) + down) * STRIDE + column + right
            total += tl.load(x + at, cache_modifier=CACHE)
    tl.store(out + tl.program_id(1) * WIDTH + column, total / 25)


@triton.jit
def norm_gradients_by_row(x, slope, scale, shift, COLUMNS: tl.constexpr):
    """Gradients of a layer norm's weights; each row adds its own to them."""
    column = tl.arange(0, COLUMNS)
    at = tl.program_id(0) * COLUMNS + column
    value, above = tl.load(x + at).to(tl.float32), tl.load(slope + at).to(tl.float32)
    value -= tl.sum(value, 0) / COLUMNS
    value *= tl.rsqrt(tl.sum(value * value, 0) / COLUMNS + 1e-5)
    tl.atomic_add(scale + column, above * value, sem="relaxed")
    tl.atomic_add(shift + column, above, sem="relaxed")


@triton.jit
def norm_gradients_by_program(x, slope, scale, shift, ROWS, COLUMNS: tl.constexpr):
    """The same; a program adds up its rows first."""
    column = tl.arange(0, COLUMNS)
    scales = tl.zeros((COLUMNS,), tl.float32)
    shifts = tl.zeros((COLUMNS,), tl.float32)
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        at = row * COLUMNS + column
        value, above = tl.load(x + at).to(tl.float32), tl.load(slope + at).to(tl.float32)
        value -= tl.sum(value, 0) / COLUMNS
        value *= tl.rsqrt(tl.sum(value * value, 0) / COLUMNS + 1e-5)
        scales += above * value
        shifts += above
    tl.atomic_add(scale + column, scales, sem="relaxed")
    tl.atomic_add(shift + column, shifts, sem="relaxed")


@triton.jit
def softmax_loading_twice(x, out, COLUMNS, BLOCK: tl.constexpr):
    """Softmax of a long row; the first loop has the maximum and the sum."""
    row = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + row + first)
        now = tl.maximum(most, value)
        sums = sums * tl.exp(most - now) + tl.exp(value - now)
        most = now
    highest = tl.max(most, 0)
    total = tl.sum(sums * tl.exp(most - highest), 0)
    for first in range(0, COLUMNS, BLOCK):
        tl.store(out + row + first, tl.exp(tl.load(x + row + first) - highest) / total)


@triton.jit
def transposed(x, out, ROWS, COLUMNS, TALL: tl.constexpr, WIDE: tl.constexpr):
    """x.T by tiles that turn through shared memory."""
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)
    column = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    value = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column[:, None] * ROWS + row[None, :], tl.trans(value))


@triton.jit
def embedded_by_token(ids, table, out, WIDTH, BLOCK: tl.constexpr):
    """Rows of a table; lanes are tokens, and a loop goes over the features."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(ids + token)
    for feature in range(WIDTH):
        tl.store(out + token * WIDTH + feature, tl.load(table + row * WIDTH + feature))


@triton.jit
def embedded_by_row(ids, table, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The same; lanes are features."""
    token, feature = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    row = tl.load(ids + token)
    value = tl.load(table + row[:, None] * WIDTH + feature[None, :])
    tl.store(out + token[:, None] * WIDTH + feature[None, :], value)


@triton.jit
def best_by_argmax(x, out, COUNT, WIDTH: tl.constexpr):
    """The COUNT largest elements of each row, one after the other."""
    at = tl.arange(0, WIDTH)
    value = tl.load(x + tl.program_id(0) * WIDTH + at)
    for number in range(COUNT):
        most, place = tl.max(value, 0, return_indices=True)
        tl.store(out + tl.program_id(0) * COUNT + number, most)
        value = tl.where(at == place, float("-inf"), value)


@triton.jit
def own_bins_by_element(x, out, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """How often each byte occurs; each program has bins of its own, in memory."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int32)
    tl.atomic_add(out + tl.program_id(0) * BINS + value, 1, sem="relaxed")


@triton.jit
def own_bins_by_tile(x, out, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """The same; the bins are on the chip until they are stored."""
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int32)
    bins = tl.program_id(0) * BINS + tl.arange(0, BINS)
    tl.store(out + bins, tl.histogram(value, BINS))


@triton.jit
def convolved_in_time(
    x, weight, out, INPUTS, OUTPUTS, TAPS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Convolution of a sequence in channels-last format: a matmul for each tap."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    output, depth = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, TAPS * INPUTS, BK):
        tap, first = step // INPUTS, step % INPUTS
        tile = tl.load(x + (row + tap)[:, None] * INPUTS + first + depth[None, :])
        part = tl.load(weight + (step + depth)[:, None] * OUTPUTS + output[None, :])
        total = tl.dot(tile, part, total)
    tl.store(out + row[:, None] * OUTPUTS + output[None, :], total.to(tl.float16))


@triton.jit
def times_packed(
    x, packed, scale, out, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """x times a matrix of which an int32 has eight numbers of four bits."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column, along = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    of_column = tl.load(scale + column)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        depth = first + along
        tile = tl.load(x + row[:, None] * K + depth[None, :])
        word = tl.load(packed + (depth // 8)[:, None] * N + column[None, :])
        number = ((word >> (depth % 8 * 4)[:, None]) & 15) - 8
        if WIDE:
            part = number.to(tl.float32) * of_column[None, :].to(tl.float32)
            total = tl.dot(tile.to(tl.float32), part, total)
        else:
            total = tl.dot(tile, number.to(tl.float16) * of_column[None, :], total)
    tl.store(out + row[:, None] * N + column[None, :], total.to(tl.float16))


@triton.jit
def turned_by_partner(x, cosine, sine, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Rotary embedding of interleaved pairs; each element loads its partner."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    angle = at // WIDTH * (WIDTH // 2) + at % WIDTH // 2
    here, there = tl.load(x + at).to(tl.float32), tl.load(x + (at ^ 1)).to(tl.float32)
    there = tl.where(at % 2 == 0, -there, there)
    turned = here * tl.load(cosine + angle) + there * tl.load(sine + angle)
    tl.store(out + at, turned.to(tl.float16))


@triton.jit
def turned_by_pair(x, cosine, sine, out, BLOCK: tl.constexpr):
    """The same; a pair is loaded at once, then split."""
    angle = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
    at = 2 * angle[:, None] + tl.arange(0, 2)[None, :]
    first, second = tl.split(tl.load(x + at).to(tl.float32))
    c, s = tl.load(cosine + angle), tl.load(sine + angle)
    turned = tl.join(first * c - second * s, second * c + first * s)
    tl.store(out + at, turned.to(tl.float16))


@triton.jit
def cross_entropy(logits, label, out, COLUMNS, BLOCK: tl.constexpr):
    """The loss of each row over a large vocabulary."""
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(logits + row + first + tl.arange(0, BLOCK)).to(tl.float32)
        now = tl.maximum(most, value)
        sums = sums * tl.exp(most - now) + tl.exp(value - now)
        most = now
    highest = tl.max(most, 0)
    total = highest + tl.log(tl.sum(sums * tl.exp(most - highest), 0))
    right = tl.load(logits + row + tl.load(label + tl.program_id(0))).to(tl.float32)
    tl.store(out + tl.program_id(0), total - right)


@triton.jit
def persistent_matmul(
    a, b, c, M, N, K, ROWS_FIRST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """c = a @ b; each program takes tiles in turns."""
    down, across = M // BM, N // BN
    for tile in range(tl.program_id(0), down * across, tl.num_programs(0)):
        if ROWS_FIRST:
            above, left = tile % down, tile // down
        else:
            above, left = tile // across, tile % across
        row, column = above * BM + tl.arange(0, BM), left * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for first in range(0, K, BK):
            depth = first + tl.arange(0, BK)
            x = tl.load(a + row[:, None] * K + depth[None, :])
            y = tl.load(b + depth[:, None] * N + column[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + row[:, None] * N + column[None, :], total.to(tl.float16))


@triton.jit
def split_matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c += a @ b; the third axis of the grid divides the depth."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    part = K // tl.num_programs(2)
    begin = tl.program_id(2) * part
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(begin, begin + part, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + depth[None, :])
        total = tl.dot(x, tl.load(b + depth[:, None] * N + column[None, :]), total)
    tl.atomic_add(c + row[:, None] * N + column[None, :], total, sem="relaxed")


@triton.jit
def groups_one_by_one(x, out, PIXELS, CHANNELS, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of groups of channels in channels-last format; a program has one group."""
    group, image = tl.program_id(0), tl.program_id(1)
    channel = group * EACH + tl.arange(0, EACH)
    total = tl.zeros((BLOCK, EACH), tl.float32)
    squares = tl.zeros((BLOCK, EACH), tl.float32)
    for first in range(0, PIXELS, BLOCK):
        pixel = image * PIXELS + first + tl.arange(0, BLOCK)
        value = tl.load(x + pixel[:, None] * CHANNELS + channel[None, :]).to(tl.float32)
        total += value
        squares += value * value
    at = 2 * (image * tl.num_programs(0) + group)
    tl.atomic_add(out + at, tl.sum(total), sem="relaxed")
    tl.atomic_add(out + at + 1, tl.sum(squares), sem="relaxed")


@triton.jit
def groups_side_by_side(
    x, out, PIXELS, CHANNELS: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr
):
    """The same; a program has all channels of a part of the pixels."""
    image, part = tl.program_id(1), PIXELS // tl.num_programs(0)
    channel = tl.arange(0, CHANNELS)
    total = tl.zeros((BLOCK, CHANNELS), tl.float32)
    squares = tl.zeros((BLOCK, CHANNELS), tl.float32)
    for first in range(0, part, BLOCK):
        pixel = image * PIXELS + tl.program_id(0) * part + first + tl.arange(0, BLOCK)
        value = tl.load(x + pixel[:, None] * CHANNELS + channel[None, :]).to(tl.float32)
        total += value
        squares += value * value
    groups: tl.constexpr = CHANNELS // EACH
    at = out + 2 * (image * groups + tl.arange(0, groups))
    sums = tl.sum(tl.reshape(tl.sum(total, 0), (groups, EACH)), 1)
    tl.atomic_add(at, sums, sem="relaxed")
    sums = tl.sum(tl.reshape(tl.sum(squares, 0), (groups, EACH)), 1)
    tl.atomic_add(at + 1, sums, sem="relaxed")


@triton.jit
def depthwise_by_image(x, weight, out, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Depthwise convolution with 3 x 3 taps; a tile is an image, padded to a power of two."""
    y, along = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    image = tl.program_id(0) * SIDE * SIDE
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for tap in tl.static_range(9):
        above, left = y + tap // 3 - 1, along + tap % 3 - 1
        inside = (above >= 0) & (above < SIDE) & (left >= 0) & (left < SIDE)
        value = tl.load(x + image + above * SIDE + left, mask=inside, other=0.0)
        total += value * tl.load(weight + tl.program_id(0) * 9 + tap)
    tl.store(out + image + y * SIDE + along, total, mask=(y < SIDE) & (along < SIDE))


@triton.jit
def depthwise_by_pixel(x, weight, out, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The same; a tile is a part of the pixels, row after row."""
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y, along = pixel // SIDE, pixel % SIDE
    image = tl.program_id(0) * SIDE * SIDE
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(9):
        above, left = y + tap // 3 - 1, along + tap % 3 - 1
        inside = (above >= 0) & (above < SIDE) & (left >= 0) & (left < SIDE)
        value = tl.load(x + image + above * SIDE + left, mask=inside, other=0.0)
        total += value * tl.load(weight + tl.program_id(0) * 9 + tap)
    tl.store(out + image + pixel, total, mask=y < SIDE)


@triton.jit
def columns_one_by_one(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """The sum of each column; a program has one column."""
    column, row = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, ROWS, BLOCK):
        total += tl.load(x + (first + row) * COLUMNS + column)
    tl.atomic_add(out + column, tl.sum(total), sem="relaxed")


@triton.jit
def columns_side_by_side(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The same; a program has WIDE columns of a part of the rows."""
    column, part = tl.program_id(0) * WIDE + tl.arange(0, WIDE), ROWS // tl.num_programs(1)
    total = tl.zeros((BLOCK, WIDE), tl.float32)
    for first in range(0, part, BLOCK):
        row = tl.program_id(1) * part + first + tl.arange(0, BLOCK)
        total += tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.atomic_add(out + column, tl.sum(total, 0), sem="relaxed")
