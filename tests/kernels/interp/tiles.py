"""Tiles made, shaped, combined along an axis, and multiplied."""

import triton
import triton.language as tl


@triton.jit
def tile_of(rows, columns, COLUMNS: tl.constexpr):
    return rows[:, None] * COLUMNS + columns[None, :]


@triton.jit
def reduced_rows(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    """One value a row of an (M, N) tile."""
    x = tl.load(x_ptr + tile_of(tl.arange(0, M), tl.arange(0, N), N))
    if HOW == "sum":
        y = tl.sum(x, axis=1)
    elif HOW == "max":
        y = tl.max(x, axis=1)
    elif HOW == "min":
        y = tl.min(x, axis=1)
    elif HOW == "argmax":
        y = tl.argmax(x, axis=1)
    elif HOW == "argmin":
        y = tl.argmin(x, axis=1)
    elif HOW == "xor":
        y = tl.xor_sum(x, axis=1)
    elif HOW == "or":
        y = tl.reduce_or(x, axis=1)
    tl.store(out_ptr + tl.arange(0, M), y)


@triton.jit
def reduced_columns(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tile_of(tl.arange(0, M), tl.arange(0, N), N))
    columns = tl.arange(0, N)
    kept = tl.max(x, axis=0, keep_dims=True)
    tl.store(out_ptr + columns[None, :], kept)
    tl.store(out_ptr + N + columns, tl.sum(x - kept, axis=0))
    value, index = tl.min(x, axis=0, return_indices=True)
    tl.store(out_ptr + 2 * N + columns, value)
    tl.store(out_ptr + 3 * N + columns, index.to(tl.float32))
    value, index = tl.max(x, axis=0, return_indices=True, return_indices_tie_break_left=False)
    tl.store(out_ptr + 4 * N + columns, value)
    tl.store(out_ptr + 5 * N + columns, tl.sum(x).to(tl.float32) + columns)


@triton.jit
def reduced_3d(
    x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr
):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(x_ptr + a[:, None, None] * (B * C) + b[None, :, None] * C + c[None, None, :])
    y = tl.sum(x, axis=AXIS, keep_dims=True)
    if AXIS == 0:
        where = b[None, :, None] * C + c[None, None, :]
    elif AXIS == 1:
        where = a[:, None, None] * C + c[None, None, :]
    else:
        where = a[:, None, None] * B + b[None, :, None]
    tl.store(out_ptr + where, y)


@triton.jit
def larger_magnitude(a, b):
    """With a branch that computes, so that no select replaces it: it must choose element by element."""
    if a * a > b * b:
        larger = tl.abs(a)
    else:
        larger = tl.abs(b)
    return larger


@triton.jit
def product_and_count(value, count, other_value, other_count):
    return value * other_value, count + other_count


@triton.jit
def custom_reductions(x_ptr, out_ptr, count_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tile_of(tl.arange(0, M), tl.arange(0, N), N))
    rows = tl.arange(0, M)
    tl.store(out_ptr + rows, tl.reduce(x, 1, larger_magnitude))
    product, count = tl.reduce((x, (x > 0).to(tl.int32)), 1, product_and_count)
    tl.store(out_ptr + M + rows, product)
    tl.store(count_ptr + rows, count)


@triton.jit
def linear_recurrence(a, b, next_a, next_b):
    """Two steps of h = a * h + b as one."""
    return a * next_a, next_a * b + next_b


@triton.jit
def scanned(a_ptr, x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    tile = tile_of(tl.arange(0, M), tl.arange(0, N), N)
    a, x = tl.load(a_ptr + tile), tl.load(x_ptr + tile)
    tl.store(out_ptr + tile, tl.cumsum(x, axis=1, reverse=REVERSE))
    tl.store(out_ptr + M * N + tile, tl.cumprod(x, axis=0, reverse=REVERSE))
    _, h = tl.associative_scan((a, x), 1, linear_recurrence, reverse=REVERSE)
    tl.store(out_ptr + 2 * M * N + tile, h)


@triton.jit
def scanned_whatever(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes, tl.cumsum(tl.load(x_ptr + lanes), 0))


@triton.jit
def shaped(x_ptr, out_ptr):
    """An (4, 8) tile, turned and cut in every way; each result is 32 elements of `out`."""
    lanes = tl.arange(0, 32)
    x = tl.load(x_ptr + tile_of(tl.arange(0, 4), tl.arange(0, 8), 8))
    y = x + 100.0
    tl.store(out_ptr + lanes, tl.reshape(x, (32,)))
    tl.store(out_ptr + 32 + tile_of(tl.arange(0, 8), tl.arange(0, 4), 4), tl.trans(x))
    cube = tl.reshape(x, (2, 2, 8))
    tl.store(out_ptr + 64 + lanes, tl.ravel(tl.permute(cube, (2, 0, 1))))
    tl.store(out_ptr + 96 + lanes, tl.ravel(tl.join(x, y).split()[1]))
    even, odd = tl.split(tl.reshape(x, (16, 2)))
    half = tl.arange(0, 16)
    tl.store(out_ptr + 128 + half, even)
    tl.store(out_ptr + 144 + half, odd)
    tl.store(out_ptr + 160 + lanes, tl.interleave(even, odd + 0.5))
    tl.store(out_ptr + 192 + lanes, tl.cat(even, odd, can_reorder=True))
    tl.store(out_ptr + 224 + lanes, tl.flip(tl.ravel(x), 0))
    wide = tl.broadcast_to(tl.arange(0, 4)[:, None].to(tl.float32), (4, 8))
    tl.store(out_ptr + 256 + lanes, tl.ravel(wide))
    tl.store(out_ptr + 288 + lanes, tl.ravel(tl.trans(tl.join(wide, x).split()[0])))


@triton.jit
def scalar_of_tile(x_ptr, out_ptr):
    one = tl.load(x_ptr + tl.program_id(0) + tl.arange(0, 1))
    tl.store(out_ptr + tl.program_id(0), one.item() * 2)


@triton.jit
def one_wide(x_ptr, out_ptr, ONE: tl.constexpr, N: tl.constexpr):
    """A range of one element beside a wider one."""
    narrow = tl.program_id(0) + tl.arange(0, ONE)
    both = narrow + tl.arange(0, N)
    tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), tl.load(x_ptr + both))


@triton.jit
def ordered(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    tile = tile_of(tl.arange(0, M), tl.arange(0, N), N)
    x = tl.load(x_ptr + tile)
    tl.store(out_ptr + tile, tl.sort(x))
    tl.store(out_ptr + M * N + tile, tl.sort(x, descending=True))


@triton.jit
def gathered(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    tile = tile_of(tl.arange(0, M), tl.arange(0, N), N)
    offset = tl.program_id(0) * M * N
    x = tl.load(x_ptr + tile)
    index = tl.load(index_ptr + offset + tile)
    tl.store(out_ptr + offset + tile, tl.gather(x, index, AXIS))


@triton.jit
def counted(x_ptr, out_ptr, n, N: tl.constexpr, BINS: tl.constexpr):
    lanes = tl.arange(0, N)
    program = tl.program_id(0)
    x = tl.load(x_ptr + program * N + lanes)
    bins = tl.arange(0, BINS)
    tl.store(out_ptr + program * 2 * BINS + bins, tl.histogram(x, BINS))
    tl.store(out_ptr + (program * 2 + 1) * BINS + bins, tl.histogram(x, BINS, mask=lanes < n))
