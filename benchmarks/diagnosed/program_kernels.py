"""Kernels that are slow, or not, by how their work is divided among programs, warps and lanes."""

# ruff: noqa: ARG001

import triton
import triton.language as tl

# Elements that masks switch off


@triton.jit
def sums_of_all_blocks(x, out, LENGTH, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of the exponentials of padded rows; the loop goes through the padding too."""
    at = x + tl.program_id(0) * STRIDE
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, STRIDE, BLOCK):
        column = first + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(at + column, mask=column < LENGTH, other=float("-inf")))
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def sums_of_used_blocks(x, out, LENGTH, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The same; the loop ends with the row."""
    at = x + tl.program_id(0) * STRIDE
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, LENGTH, BLOCK):
        column = first + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(at + column, mask=column < LENGTH, other=float("-inf")))
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def steps_of_images(x, out, SIZE, TURNS, SIDE: tl.constexpr):
    """A tile for each image, of the next power of two in both dimensions."""
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    at = tl.program_id(0) * SIZE * SIZE + row * SIZE + column
    inside = (row < SIZE) & (column < SIZE)
    value = tl.load(x + at, mask=inside, other=0.0)
    for _ in range(TURNS):
        value = value * 0.999 + 0.001
        value = value * value * 0.5 + 0.1
    tl.store(out + at, value, mask=inside)


@triton.jit
def steps_of_elements(x, out, n, TURNS, BLOCK: tl.constexpr):
    """The same for all images as one row of elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    for _ in range(TURNS):
        value = value * 0.999 + 0.001
        value = value * value * 0.5 + 0.1
    tl.store(out + at, value, mask=at < n)


# Programs that have more to do than others


@triton.jit
def triangle_in_bands(x, out, SIZE, BLOCK: tl.constexpr):
    """Sums of the blocks of each row up to the diagonal; a program takes rows in a band."""
    each = SIZE // tl.num_programs(0)
    for number in range(each):
        row = tl.program_id(0) * each + number
        total = tl.zeros((BLOCK,), tl.float32)
        for first in tl.range(0, row + 1, BLOCK, num_stages=4):
            total += tl.load(x + row * SIZE + first + tl.arange(0, BLOCK))
        tl.store(out + row, tl.sum(total))


@triton.jit
def triangle_in_turns(x, out, SIZE, BLOCK: tl.constexpr):
    """The same; programs take rows in turns."""
    each = SIZE // tl.num_programs(0)
    for number in range(each):
        row = tl.program_id(0) + number * tl.num_programs(0)
        total = tl.zeros((BLOCK,), tl.float32)
        for first in tl.range(0, row + 1, BLOCK, num_stages=4):
            total += tl.load(x + row * SIZE + first + tl.arange(0, BLOCK))
        tl.store(out + row, tl.sum(total))


@triton.jit
def steps_by_place(x, out, TURNS, BLOCK: tl.constexpr):
    """Steps of tiles, more for each tile than for the one before."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(TURNS * tl.program_id(0)):
        value = value * 0.999 + 0.001
        value = value * value * 0.5 + 0.1
    tl.store(out + at, value)


@triton.jit
def steps_by_opposite_places(x, out, TURNS, BLOCK: tl.constexpr):
    """The same; a program takes half of a tile, and half of the one at the other end."""
    last = tl.num_programs(0) - 1
    for which in range(2):
        tile = tl.program_id(0) + which * (last - 2 * tl.program_id(0))
        at = tile * BLOCK + which * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
        value = tl.load(x + at)
        for _ in range(TURNS * tile):
            value = value * 0.999 + 0.001
            value = value * value * 0.5 + 0.1
        tl.store(out + at, value)


# The order of programs


@triton.jit
def matmul_in_groups(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    """c = a @ b; programs that follow each other take a few rows of tiles."""
    tall, wide = M // BM, N // BN
    group, place = tl.program_id(0) // (GROUP * wide), tl.program_id(0) % (GROUP * wide)
    height = min(tall - group * GROUP, GROUP)
    row = (group * GROUP + place % height) * BM + tl.arange(0, BM)
    column = place // height * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    at_a = a + row[:, None] * K + depth[None, :]
    at_b = b + depth[:, None] * N + column[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        at_a += BK
        at_b += BK * N
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def counts_level_by_level(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """Elements of each row beyond some levels; all rows come before the next level."""
    row, level = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + row * COLUMNS + first + tl.arange(0, BLOCK))
        total += (value > level * 0.1 - 0.4).to(tl.int32)
    tl.store(out + level * ROWS + row, tl.sum(total))


@triton.jit
def counts_row_by_row(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """The same; all levels come before the next row."""
    row, level = tl.program_id(1), tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + row * COLUMNS + first + tl.arange(0, BLOCK))
        total += (value > level * 0.1 - 0.4).to(tl.int32)
    tl.store(out + level * ROWS + row, tl.sum(total))


# Blocks of which a mask leaves nothing


@triton.jit
def attention(
    q, k, v, out, N, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr, SKIPS: tl.constexpr,
):  # fmt: skip
    """softmax(q @ k.T / 8) @ v for heads of N rows; with CAUSAL, of the rows up to each one, and
    with SKIPS the loop ends there.
    """
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    along, head = tl.arange(0, WIDTH), tl.program_id(1) * N * WIDTH
    x = tl.load(q + head + row[:, None] * WIDTH + along[None, :])
    most = tl.full((BM,), float("-inf"), tl.float32)
    sums = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, WIDTH), tl.float32)
    end = (tl.program_id(0) + 1) * BM if SKIPS else N
    for first in range(0, end, BN):
        at = head + (first + column[:, None]) * WIDTH + along[None, :]
        score = tl.dot(x, tl.trans(tl.load(k + at))) * 0.18
        if CAUSAL:
            score = tl.where(row[:, None] >= first + column[None, :], score, float("-inf"))
        now = tl.maximum(most, tl.max(score, 1))
        power = tl.exp2(score - now[:, None])
        less = tl.exp2(most - now)
        sums = sums * less + tl.sum(power, 1)
        total = tl.dot(power.to(tl.float16), tl.load(v + at), total * less[:, None])
        most = now
    at = head + row[:, None] * WIDTH + along[None, :]
    tl.store(out + at, (total / sums[:, None]).to(tl.float16))


@triton.jit
def triangle_times_all(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = tril(a) @ b."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + column[None, :])
        total = tl.dot(tl.where(row[:, None] >= depth[None, :], x, 0.0), y, total)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def triangle_times_lower(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same; the loop ends at the diagonal, and only blocks on it are masked."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, tl.program_id(0) * BM, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + column[None, :])
        total = tl.dot(x, y, total)
    for first in range(tl.program_id(0) * BM, (tl.program_id(0) + 1) * BM, BK):
        depth = first + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + column[None, :])
        total = tl.dot(tl.where(row[:, None] >= depth[None, :], x, 0.0), y, total)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


# Both sides of a choice


@triton.jit
def rows_by_where(x, kinds, out, TURNS, BLOCK: tl.constexpr):
    """Steps of the tiles of one kind; those of the other are doubled."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    steps = value
    for _ in range(TURNS):
        steps = steps * 0.999 + 0.001
        steps = steps * steps * 0.5 + 0.1
    tl.store(out + at, tl.where(tl.load(kinds + tl.program_id(0)) == 1, steps, value * 2))


@triton.jit
def rows_by_if(x, kinds, out, TURNS, BLOCK: tl.constexpr):
    """The same; only they take the steps."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if tl.load(kinds + tl.program_id(0)) == 1:
        for _ in range(TURNS):
            value = value * 0.999 + 0.001
            value = value * value * 0.5 + 0.1
    else:
        value = value * 2
    tl.store(out + at, value)


@triton.jit
def mode_by_where(x, out, MODE, TURNS, BLOCK: tl.constexpr):
    """Steps in one mode; in the other, elements are doubled."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    steps = value
    for _ in range(TURNS):
        steps = tl.exp(steps) * 0.25
    tl.store(out + at, tl.where(MODE == 3, steps, value * 2))


@triton.jit
def mode_by_if(x, out, MODE, TURNS, BLOCK: tl.constexpr):
    """The same; the steps are taken in that mode alone."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if MODE == 3:
        for _ in range(TURNS):
            value = tl.exp(value) * 0.25
    else:
        value = value * 2
    tl.store(out + at, value)
