"""Kernels that promise the compiler what their values do not keep, and their clean twins."""

import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def row_start(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    start = tl.multiple_of(pid * stride, 16)  # fault: broken-hint
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * BLOCK + lanes, tl.load(x_ptr + start + lanes))


@triton.jit
def block_of_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The hints of many matrix products, which a size that is not a multiple of a vector breaks."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    offsets = (pid * BLOCK + lanes) % n
    offsets = tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)  # fault: broken-hint
    tl.store(out_ptr + pid * BLOCK + lanes, tl.load(x_ptr + offsets))


@triton.jit
def groups(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    group = lanes // 4
    group = tl.max_constancy(group, 8)  # fault: broken-hint
    tl.store(out_ptr + lanes, tl.load(x_ptr + group))


@triton.jit
def assumed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n % 16 == 0)  # fault: broken-hint
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, mask=inside), mask=inside)


@triton.jit
def assumed_of_programs(x_ptr, out_ptr, programs, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(pid < programs)  # fault: broken-hint
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def assumed_in_a_branch(x_ptr, out_ptr, programs, BLOCK: tl.constexpr):
    """Programs for which it would be false do not come to the assumption."""
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    if pid < programs:
        tl.assume(pid < programs)
        tl.store(out_ptr + pid * BLOCK + lanes, tl.load(x_ptr + pid * BLOCK + lanes))


@triton.jit
def starts_from_memory(x_ptr, starts_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = tl.load(starts_ptr + pid)
    start = tl.multiple_of(start, 8)  # fault: broken-hint
    tl.store(out_ptr + pid * BLOCK + lanes, tl.load(x_ptr + start + lanes))


@triton.jit
def aligned_pointer(x_ptr, out_ptr, skip, BLOCK: tl.constexpr):
    """A hint on pointers counts bytes."""
    lanes = tl.arange(0, BLOCK)
    start = x_ptr + skip
    start = tl.multiple_of(start, 16)  # fault: broken-hint
    tl.store(out_ptr + lanes, tl.load(start + lanes))


@triton.jit
def contiguous_indices(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.max_contiguous(tl.load(index_ptr + lanes), 8)  # fault: broken-hint
    tl.store(out_ptr + lanes, tl.load(x_ptr + index))


@triton.jit
def in_a_loop(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        place = tl.multiple_of(start * step, 16)  # fault: broken-hint
        total += tl.load(x_ptr + place + lanes)
    tl.store(out_ptr + lanes, total)


@triton.jit
def carried(x_ptr, out_ptr, first, step, turns, BLOCK: tl.constexpr):
    """The last value that is handed on is not used any more: it may be anything."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    place = first
    for turn in range(turns):
        place = tl.multiple_of(place, 8)  # fault: broken-hint
        total += tl.load(x_ptr + place + lanes)
        place += tl.where(turn == turns - 1, 1, step)
    tl.store(out_ptr + lanes, total)


@triton.jit
def tile_of_two(x_ptr, out_ptr, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, COLUMNS)[None, :]
    index = rows * stride + columns
    index = tl.multiple_of(index, (1, 8))  # fault: broken-hint
    tl.store(out_ptr + rows * COLUMNS + columns, tl.load(x_ptr + index))


PAIRS = [
    pair(row_start, {"start = tl.multiple_of(pid * stride, 16)": "start = tl.multiple_of(pid * stride, 4)"}, (4,), lambda: (normal(100), zeros(32), 20), BLOCK=8),
    Pair(
        faulty=Launch(block_of_rows, (4,), lambda: (normal(126), zeros(128), 126), {"BLOCK": 32}),
        clean=Launch(block_of_rows, (4,), lambda: (normal(96), zeros(128), 96), {"BLOCK": 32}),
    ),
    pair(groups, {"group = tl.max_constancy(group, 8)": "group = tl.max_constancy(group, 4)"}, (1,), lambda: (normal(8), zeros(16)), BLOCK=16),
    pair(assumed, {"tl.assume(n % 16 == 0)": "tl.assume(n > 0)"}, (1,), lambda: (normal(20), zeros(20), 20), BLOCK=32),
    Pair(
        faulty=Launch(assumed_of_programs, (4,), lambda: (normal(32), zeros(32), 3), {"BLOCK": 8}),
        clean=Launch(assumed_in_a_branch, (4,), lambda: (normal(32), zeros(32), 3), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(starts_from_memory, (3,), lambda: (normal(64), indices(0, 12, 16), zeros(24)), {"BLOCK": 8}),
        clean=Launch(starts_from_memory, (3,), lambda: (normal(64), indices(0, 8, 16), zeros(24)), {"BLOCK": 8}),
    ),
    pair(aligned_pointer, {"start = tl.multiple_of(start, 16)": "start = tl.multiple_of(start, 4)"}, (1,), lambda: (normal(32), zeros(8), 3), BLOCK=8),
    pair(contiguous_indices, {"load(index_ptr + lanes), 8": "load(index_ptr + lanes), 4"}, (1,), lambda: (normal(32), indices(4, 5, 6, 7, 12, 13, 14, 15), zeros(8)), BLOCK=8),
    pair(in_a_loop, {"place = tl.multiple_of(start * step, 16)": "place = tl.multiple_of(start * step, BLOCK)"}, (1,), lambda: (normal(256), zeros(8), 24, 3), BLOCK=8),
    Pair(
        faulty=Launch(carried, (1,), lambda: (normal(64), zeros(8), 8, 12, 3), {"BLOCK": 8}),
        clean=Launch(carried, (1,), lambda: (normal(64), zeros(8), 8, 16, 3), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(carried, (1,), lambda: (normal(64), zeros(8), 4, 8, 3), {"BLOCK": 8}),
        clean=Launch(carried, (1,), lambda: (normal(64), zeros(8), 0, 8, 3), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(tile_of_two, (1,), lambda: (normal(64), zeros(32), 12), {"ROWS": 4, "COLUMNS": 8}),
        clean=Launch(tile_of_two, (1,), lambda: (normal(64), zeros(32), 16), {"ROWS": 4, "COLUMNS": 8}),
    ),
]
