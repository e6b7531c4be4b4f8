"""Kernels with tensor descriptors, made in the kernel or on the host, and block pointers."""

import triton
import triton.language as tl


@triton.jit
def copied_by_descriptor(source, target, row, column, M: tl.constexpr, N: tl.constexpr):
    """One block a program: from (row, column) of `source` on, to the corner of `target`."""
    start = tl.program_id(0) * M
    target.store([start, 0], source.load([row + start, column]))


@triton.jit
def facts_of_descriptor(source, target, out_ptr):
    tl.store(out_ptr + 0, source.shape[0])
    tl.store(out_ptr + 1, source.shape[1])
    tl.store(out_ptr + 2, source.strides[0])
    tl.store(out_ptr + 3, target.strides[0])


@triton.jit
def one_a_program(x_ptr, out_ptr, rows_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Every program its own matrix: base, number of rows and stride differ."""
    program = tl.program_id(0)
    rows = tl.load(rows_ptr + program)
    stride = N * (1 + program % 2).to(tl.int64)
    x = tl.make_tensor_descriptor(x_ptr + program * M * N, [rows, N], [stride, 1], [M, N], padding_option="nan")  # fmt: skip
    out = tl.make_tensor_descriptor(out_ptr, [B, M, N], [M * N, N, 1], [1, M, N])
    out.store([program, 0, 0], x.load([0, 0]).reshape(1, M, N))


@triton.jit
def of_either(x_ptr, y_ptr, out_ptr, rows_ptr, M: tl.constexpr, N: tl.constexpr):
    """Which argument a descriptor is of differs from program to program."""
    program = tl.program_id(0)
    where = x_ptr
    if program % 2 == 1:
        where = y_ptr
    desc = tl.make_tensor_descriptor(where, [M, N - 2], [N, 1], [M, N])
    out = tl.make_tensor_descriptor(out_ptr, [4 * M, N], [N, 1], [M, N])
    out.store([program * M, 0], desc.load([1, 0]))
    rows = tl.make_tensor_descriptor(where, [M, N], [N, 1], [1, N])
    out.store([(program + 2) * M, 0], rows.gather(tl.load(rows_ptr + tl.arange(0, M)), 0))


@triton.jit
def carried(x_ptr, out_ptr, turns_ptr, M: tl.constexpr, N: tl.constexpr):
    """A descriptor that each turn of a loop replaces, in loops of different lengths, and chosen by a branch."""
    program = tl.program_id(0)
    turns = tl.load(turns_ptr + program)
    desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [M, N])
    for turn in range(turns):
        desc = tl.make_tensor_descriptor(x_ptr + (turn + 1) * M * N, [M, N], [N, 1], [M, N])
    if program == 2:
        desc = tl.make_tensor_descriptor(x_ptr, [M // 2, N], [N, 1], [M, N])
    out = tl.make_tensor_descriptor(out_ptr + program * M * N, [M, N], [N, 1], [M, N])
    out.store([0, 0], desc.load([0, 0]))


@triton.jit
def selected(x_ptr, out_ptr, flag, M: tl.constexpr, N: tl.constexpr):
    """Branches so short that Triton makes them selections: by the program's number, and by an argument."""
    program = tl.program_id(0)
    first = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [M, N])
    second = tl.make_tensor_descriptor(x_ptr + M * N, [M, N], [N, 1], [M, N])
    chosen, named = first, first
    if program % 2 == 1:
        chosen = second
    if flag > 0:
        named = second
    out = tl.make_tensor_descriptor(out_ptr + program * M * N, [M, N], [N, 1], [M, N])
    out.store([0, 0], chosen.load([0, 0]) + 10 * named.load([0, 0]))


@triton.jit
def fewer_dimensions(x, out_ptr, M: tl.constexpr, N: tl.constexpr):
    """A block of 1 x 1 x M x N as a tile of M x N."""
    program = tl.program_id(0)
    tile = x.load([program, 1, 1, 0]).reshape(M, N)
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + program * M * N + where, tile)


@triton.jit
def gathered_rows(x, out, rows_ptr, column, ROWS: tl.constexpr):
    start = tl.program_id(0) * ROWS
    rows = tl.load(rows_ptr + start + tl.arange(0, ROWS))
    out.store([start, 0], x.gather(rows, column))


@triton.jit
def scattered_rows(x_ptr, out, rows_ptr, column, ROWS: tl.constexpr, N: tl.constexpr):
    start = tl.program_id(0) * ROWS
    lanes = start + tl.arange(0, ROWS)
    tile = tl.load(x_ptr + lanes[:, None] * N + tl.arange(0, N)[None, :])
    out.scatter(tile, tl.load(rows_ptr + lanes), column)


@triton.jit
def reduced_into(x_ptr, out, row, HOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """All programs combine their block with one in memory, which begins before it."""
    where = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tl.program_id(0) * M * N + where)
    if HOW == "add":
        out.atomic_add([row, 0], x)
    elif HOW == "min":
        out.atomic_min([row, 0], x)
    elif HOW == "max":
        out.atomic_max([row, 0], x)
    elif HOW == "and":
        out.atomic_and([row, 0], x)
    elif HOW == "or":
        out.atomic_or([row, 0], x)
    else:
        out.atomic_xor([row, 0], x)


@triton.jit
def padded_blocks(x_ptr, out_ptr, m, n, PADDING: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Block pointers over a transposed matrix, from before its corner on; advanced both ways."""
    x = tl.make_block_ptr(x_ptr, (m, n), (1, m), (-2, -1), (M, N), (0, 1))
    x = tl.advance(x, (tl.program_id(0) * M, 0))
    out = tl.make_block_ptr(out_ptr, (2 * M, 3 * N), (3 * N, 1), (0, 0), (M, N), (1, 0))
    out = tl.advance(out, (tl.program_id(0) * M, 2 * N))
    x = tl.advance(x, (0, 2 * N))
    for _ in range(3):
        tl.store(out, tl.load(x, boundary_check=(0, 1), padding_option=PADDING))
        x, out = tl.advance(x, (0, -N)), tl.advance(out, (0, -N))


@triton.jit
def checked_along_one(x_ptr, out_ptr, n, N: tl.constexpr):
    """Whole along the first dimension, checked along the second alone; 3 dimensions, stored where they are in range."""
    x = tl.make_block_ptr(x_ptr, (2, n), (n, 1), (0, 0), (2, N), (1, 0))
    out = tl.make_block_ptr(out_ptr, (1, 2, n), (2 * n, n, 1), (0, 0, 0), (1, 2, N), (2, 1, 0))
    tile = tl.load(x, boundary_check=(1,), padding_option="zero")
    tl.store(out, tile.reshape(1, 2, N) + 1, boundary_check=(2,))


@triton.jit
def ragged(source, out_ptr, first, size, M: tl.constexpr, N: tl.constexpr):
    """Rows `first` to `first + size` of a matrix, as `triton.tools.ragged_tma` reaches them: the address goes round 2**64."""
    billion: tl.constexpr = 1 << 30
    x = source.load([billion, first + size, billion - size, 0])
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(out_ptr + rows * N + columns, x.reshape(M, N))
