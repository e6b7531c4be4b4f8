"""Kernels that do what their launch does not allow, each on the line marked with a comment."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def load_1d(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # FAULT: load_1d
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def store_1d(out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, offsets, mask=offsets < n)  # FAULT: store_1d


@triton.jit
def load_before(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes - 3))  # FAULT: load_before


@triton.jit
def row_of(x_ptr, row, stride, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    return tl.load(x_ptr + row * stride + columns)  # FAULT: helper


@triton.jit
def through_helper(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = row_of(x_ptr, tl.program_id(0), BLOCK, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), row)


@triton.jit
def tile_2d(x_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    where = x_ptr + rows * n + columns
    tl.store(where, 1.0, mask=(rows < m) & (columns < BLOCK_N))  # FAULT: tile_2d


@triton.jit
def strided_2d(x_ptr, m, n, row_stride, column_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    where = x_ptr + rows * row_stride + columns * column_stride
    tl.store(where, 1.0, mask=(rows < m) & (columns < n))


@triton.jit
def gathered_load(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index, mask=index != 100))  # FAULT: gathered_load


@triton.jit
def atomic(x_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + lanes * 2, 1.0, mask=lanes < 6)  # FAULT: atomic


@triton.jit
def compare_and_swap(x_ptr):
    tl.atomic_cas(x_ptr + 4, 0, 1)  # FAULT: compare_and_swap


@triton.jit
def in_a_branch(x_ptr, out_ptr, n):
    program = tl.program_id(0)
    if program > 2:
        value = tl.load(x_ptr + n)  # FAULT: in_a_branch
        tl.store(out_ptr + program, value)


@triton.jit
def in_a_loop(x_ptr, out_ptr, n):
    total = 0.0
    for i in range(n + tl.program_id(0)):
        total += tl.load(x_ptr + i)  # FAULT: in_a_loop
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def asserted(x_ptr, limit, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
    tl.device_assert(x < limit, "x is small")  # FAULT: asserted
    tl.store(x_ptr + tl.program_id(0) * BLOCK + lanes, x + 1)


@triton.jit
def asserted_scalar(x_ptr):
    program = tl.program_id(0)
    if program > 1:
        tl.device_assert(tl.load(x_ptr) > 0, "the first is positive")  # FAULT: asserted_scalar


@triton.jit
def gathered_tile(x_ptr, index_ptr, out_ptr):
    program = tl.program_id(0)
    lanes = tl.arange(0, 8)
    x = tl.load(x_ptr + lanes)
    index = tl.load(index_ptr + program * 8 + lanes)
    if program != 1:
        y = tl.gather(x, index, 0)  # FAULT: gathered_tile
        tl.store(out_ptr + program * 8 + lanes, y)


@triton.jit
def walks_too_far(x_ptr, out_ptr, rows, stride, STEP: tl.constexpr):
    lanes = tl.arange(0, 4)
    first = tl.program_id(1) * 4 + lanes
    where = x_ptr + first[:, None] * stride + tl.arange(0, STEP)[None, :]
    total = tl.zeros((4, STEP), tl.float32)
    for step in range(rows):
        total += tl.load(where) * step  # FAULT: walks_too_far
        where += STEP * 2
    tl.store(out_ptr + lanes, tl.sum(total, axis=1))


@triton.jit
def looked_up(x_ptr, index_ptr, out_ptr, base):
    program = tl.program_id(0)
    lanes = tl.arange(0, 8)
    offset = base * 3
    tl.store(out_ptr + lanes, tl.load(x_ptr + offset + tl.load(index_ptr + program)))  # FAULT: looked_up
