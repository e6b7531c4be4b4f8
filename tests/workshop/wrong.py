"""Kernels that are no right answers, each in its own way; the exercise is in the name."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tests.workshop import solutions


@triton.jit
def add_of_512(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < 512
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, total, mask=mask)


@triton.jit
def add_without_mask(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets))


@triton.jit
def add_of_one_block(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.load(y_ptr + offsets, mask=mask)
    if BLOCK > 512:
        y = y * 2
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + y, mask=mask)


@triton.jit
def add_of_zeros(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.zeros((BLOCK,), tl.float32), mask=offsets < n)


@triton.jit
def add_in_float16(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float16)
    y = tl.load(y_ptr + offsets, mask=offsets < n).to(tl.float16)
    tl.store(z_ptr + offsets, x + y, mask=offsets < n)


@triton.jit
def add_of_nothing(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.load(x_ptr)


@triton.jit
def add_that_reads_its_result(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(z_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def add_that_does_not_compile(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, n)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def add_of_the_solution(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    solutions.add(x_ptr, y_ptr, z_ptr, n, BLOCK)


@triton.jit
def add_without_end(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    turn = 0
    while turn < n:
        turn = tl.maximum(turn - 1, 0)
        tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def dot_product_by_lanes(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offsets < n
    products = tl.load(x_ptr + offsets, mask=m) * tl.load(y_ptr + offsets, mask=m)
    tl.atomic_add(z_ptr + tl.zeros((BLOCK,), tl.int32), products, mask=m)


@triton.jit
def gather_rows_that_scatters(ids_ptr, table_ptr, z_ptr, width, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(table_ptr + row * width + lanes, mask=lanes < width)
    tl.store(z_ptr + tl.load(ids_ptr + row) * width + lanes, x, mask=lanes < width)


@triton.jit
def dot_product_that_races(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(z_ptr, tl.load(z_ptr) + tl.sum(x * y, axis=0))


@triton.jit
def max_rows_of_zeros_beyond(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
    tl.store(z_ptr + row, tl.max(x, axis=0))


@triton.jit
def max_rows_without_other(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns)
    tl.store(z_ptr + row, tl.max(x, axis=0))


@triton.jit
def log_softmax_that_overflows(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + lanes, mask=lanes < columns, other=-float("inf"))
    total = tl.sum(tl.exp(x), axis=0)
    tl.store(z_ptr + row + lanes, x - tl.log(total), mask=lanes < columns)


@triton.jit
def online_softmax_in_three_passes(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = -float("inf")
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf"))
        total += tl.sum(tl.exp(x - largest), axis=0)
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        mask = lanes < columns
        x = tl.load(x_ptr + row * columns + lanes, mask=mask)
        tl.store(z_ptr + row * columns + lanes, tl.exp(x - largest) / total, mask=mask)


@triton.jit
def dot_of_tiles_without_dot(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(SIZE):
        a = tl.load(a_ptr + lanes * SIZE + k).to(tl.float32)
        b = tl.load(b_ptr + k * SIZE + lanes).to(tl.float32)
        acc += a[:, None] * b[None, :]
    tl.store(c_ptr + lanes[:, None] * SIZE + lanes[None, :], acc)


@triton.jit
def transpose_of_small_ones(x_ptr, z_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    far = tl.where(rows * columns > 10_000, 1_000_000_000, 0)
    solutions.transpose(x_ptr + far, z_ptr, rows, columns, ROWS, COLUMNS)


@gluon.jit
def turned(x_ptr, z_ptr, SIZE: gl.constexpr, WIDTH: gl.constexpr, PHASES: gl.constexpr):
    wide: gl.constexpr = gl.BlockedLayout([1, WIDTH], [4, 8], [4, 1], [1, 0])
    tall: gl.constexpr = gl.BlockedLayout([WIDTH, 1], [8, 4], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, PHASES, [1, 0])
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, wide))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, wide))
    tile = gl.load(x_ptr + row[:, None] * SIZE + column[None, :])
    turned = gl.allocate_shared_memory(tile.dtype, [SIZE, SIZE], shared, tile).load(tall)
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, tall))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, tall))
    gl.store(z_ptr + column[None, :] * SIZE + row[:, None], turned)


@gluon.jit
def turn_vectors_by_floats(x_ptr, z_ptr, SIZE: gl.constexpr):
    turned(x_ptr, z_ptr, SIZE, 1, 32)


@gluon.jit
def turn_vectors_with_conflicts(x_ptr, z_ptr, SIZE: gl.constexpr):
    turned(x_ptr, z_ptr, SIZE, 4, 1)


@gluon.jit
def three_stages_without_copies(x_ptr, z_ptr, TILES: gl.constexpr):
    i = gl.arange(0, 512, layout=gl.BlockedLayout([4], [32], [4], [0]))
    for number in range(TILES):
        gl.store(z_ptr + number * 512 + i, 2 * gl.load(x_ptr + number * 512 + i))
