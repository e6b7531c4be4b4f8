"""Kernels that are slow, or not, by how they go to memory."""

import triton
import triton.language as tl


@triton.jit
def scale_down_columns(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """Each program takes a part of one column of a row-major matrix."""
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row * COLUMNS + tl.program_id(0)
    value = tl.load(x + at, mask=row < ROWS)
    tl.store(out + at, value * 2, mask=row < ROWS)


@triton.jit
def scale_along_rows(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):  # noqa: ARG001
    """Each program takes a part of one row."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1) * COLUMNS + column
    value = tl.load(x + at, mask=column < COLUMNS)
    tl.store(out + at, value * 2, mask=column < COLUMNS)


@triton.jit
def sums_by_lane(x, out, COLUMNS, BLOCK: tl.constexpr):
    """Each lane adds up a row, one element an iteration."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for column in range(COLUMNS):
        total += tl.load(x + row * COLUMNS + column)
    tl.store(out + row, total)


@triton.jit
def sums_by_tile(x, out, COLUMNS, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Tiles of a few rows, added up along the columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        total += tl.load(x + row[:, None] * COLUMNS + start + column[None, :])
    tl.store(out + row, tl.sum(total, 1))


@triton.jit
def transpose_by_rows(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """A part of a row becomes a part of a column."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(1) * COLUMNS + column)
    tl.store(out + column * ROWS + tl.program_id(1), value)


@triton.jit
def transpose_by_tiles(x, out, ROWS, COLUMNS, BLOCK: tl.constexpr):
    """A square tile, turned on the chip."""
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column[:, None] * ROWS + row[None, :], tl.trans(tile))


@triton.jit(do_not_specialize=["step"])
def double_by_steps_unspecialized(x, out, step, BLOCK: tl.constexpr):
    """Twice each element, by a stride of which the compiler knows nothing."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def double_by_steps(x, out, step, BLOCK: tl.constexpr):
    """The same, by a stride that it may specialize on."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def embed_by_lane(index, table, out, WIDTH, BLOCK: tl.constexpr):
    """Each lane takes one element of a row of its own."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + at)
    value = tl.load(table + row * WIDTH + tl.program_id(1))
    tl.store(out + at * WIDTH + tl.program_id(1), value)


@triton.jit
def embed_by_row(index, table, out, WIDTH: tl.constexpr):
    """Each program takes a whole row."""
    row = tl.load(index + tl.program_id(0))
    along = tl.arange(0, WIDTH)
    value = tl.load(table + row * WIDTH + along)
    tl.store(out + tl.program_id(0) * WIDTH + along, value)


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    """Twice each element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def double_from(x, out, start, BLOCK: tl.constexpr):
    """The same, from an element on that memory says."""
    at = tl.load(start) + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def double_from_multiple(x, out, start, BLOCK: tl.constexpr):
    """The same, where that is promised to be a multiple of 16."""
    first = tl.multiple_of(tl.load(start), 16)
    at = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def row_sums(x, out, COLUMNS, BLOCK: tl.constexpr):
    """A program adds up a row, a block an iteration."""
    start = x + tl.program_id(0) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        total += tl.load(start + first + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def row_sums_ahead(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The same, pipelined."""
    start = x + tl.program_id(0) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, COLUMNS, BLOCK, num_stages=4):
        total += tl.load(start + first + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def softmax(x, out, COLUMNS: tl.constexpr):
    """A row that is one tile."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    value = tl.load(x + at)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + at, power / tl.sum(power, 0))


@triton.jit
def normalize(x, weight, out, COLUMNS: tl.constexpr):
    """RMS norm of a row that is one tile."""
    along = tl.arange(0, COLUMNS)
    at = tl.program_id(0) * COLUMNS + along
    value = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / COLUMNS + 1e-6)
    tl.store(out + at, (value * scale * tl.load(weight + along)).to(tl.float16))


@triton.jit
def squares_one_by_one(x, out, COLUMNS):
    """A sum of squares, an element an iteration."""
    total = 0.0
    for column in range(COLUMNS):
        value = tl.load(x + tl.program_id(0) * COLUMNS + column)
        total += value * value
    tl.store(out + tl.program_id(0), total)


@triton.jit
def squares(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The same, a tile an iteration."""
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + tl.program_id(0) * COLUMNS + first + tl.arange(0, BLOCK))
        total += value * value
    tl.store(out + tl.program_id(0), tl.sum(total))


@triton.jit
def largest_one_by_one(x, out, COLUMNS):
    """A maximum, an element an iteration."""
    best = float("-inf")
    for column in range(COLUMNS):
        best = tl.maximum(best, tl.load(x + tl.program_id(0) * COLUMNS + column))
    tl.store(out + tl.program_id(0), best)


@triton.jit
def largest(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The same, a tile an iteration."""
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(x + tl.program_id(0) * COLUMNS + first + tl.arange(0, BLOCK))
        best = tl.maximum(best, value)
    tl.store(out + tl.program_id(0), tl.max(best))


@triton.jit
def copy_in_turns(x, out, n, BLOCK: tl.constexpr):
    """As many programs as there are go through all blocks."""
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def column_sums(x, out, ROWS, COLUMNS, TALL: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of columns: a program takes a block of them, and an equal part of the rows."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = ROWS // tl.num_programs(1)
    row = tl.program_id(1) * part + tl.arange(0, TALL)
    total = tl.zeros((TALL, BLOCK), tl.float32)
    for first in range(0, part, TALL):
        total += tl.load(x + (first + row[:, None]) * COLUMNS + column[None, :])
    tl.atomic_add(out + column, tl.sum(total, 0))


@triton.jit
def bias_reloaded(x, bias, out, ROWS, COLUMNS: tl.constexpr, BIASES: tl.constexpr):
    """Rows in turn, each with the same biases, loaded again for each."""
    along = tl.arange(0, COLUMNS)
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        value = tl.load(x + row * COLUMNS + along).to(tl.float32)
        for which in tl.static_range(BIASES):
            value += tl.load(bias + which * COLUMNS + along)
        tl.store(out + row * COLUMNS + along, value.to(tl.float16))


@triton.jit
def bias_kept(x, bias, out, ROWS, COLUMNS: tl.constexpr, BIASES: tl.constexpr):
    """The same, loaded once."""
    along = tl.arange(0, COLUMNS)
    added = tl.zeros((COLUMNS,), tl.float32)
    for which in tl.static_range(BIASES):
        added += tl.load(bias + which * COLUMNS + along)
    for row in range(tl.program_id(0), ROWS, tl.num_programs(0)):
        value = tl.load(x + row * COLUMNS + along).to(tl.float32) + added
        tl.store(out + row * COLUMNS + along, value.to(tl.float16))


# Updates of few elements by many


@triton.jit
def total_by_elements(x, out, BLOCK: tl.constexpr):
    """An atomic for each element, all of one number."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at * 0, tl.load(x + at))


@triton.jit
def total_by_programs(x, out, BLOCK: tl.constexpr):
    """An atomic for each program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at)))


@triton.jit
def total_by_few(x, out, n, BLOCK: tl.constexpr):
    """An atomic for each of a few programs, that go through all."""
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        total += tl.load(x + first + tl.arange(0, BLOCK))
    tl.atomic_add(out, tl.sum(total))


@triton.jit
def column_totals_by_rows(x, out, COLUMNS: tl.constexpr):
    """Each program adds its row to the same totals."""
    along = tl.arange(0, COLUMNS)
    tl.atomic_add(out + along, tl.load(x + tl.program_id(0) * COLUMNS + along))


@triton.jit
def counts_in_order(index, out, BLOCK: tl.constexpr):
    """How often each number occurs; each atomic is a release and an acquire too."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + at), 1)


@triton.jit
def counts_in_any_order(index, out, BLOCK: tl.constexpr):
    """The same, of which no order is asked."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + at), 1, sem="relaxed")


@triton.jit
def gradients_in_order(index, x, out, COUNT, WIDTH: tl.constexpr):
    """Rows added to the rows that their indices name."""
    along = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0), COUNT, tl.num_programs(0)):
        to = tl.load(index + row)
        tl.atomic_add(out + to * WIDTH + along, tl.load(x + row * WIDTH + along))


@triton.jit
def gradients_in_any_order(index, x, out, COUNT, WIDTH: tl.constexpr):
    """The same."""
    along = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0), COUNT, tl.num_programs(0)):
        to = tl.load(index + row)
        value = tl.load(x + row * WIDTH + along)
        tl.atomic_add(out + to * WIDTH + along, value, sem="relaxed")


@triton.jit
def total_by_lock(x, out, lock, BLOCK: tl.constexpr):
    """Each program adds its sum while it holds a lock."""
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + part)
    tl.atomic_xchg(lock, 0)


@triton.jit
def column_totals_by_lock(x, out, lock, ROWS, COLUMNS: tl.constexpr):
    """Each program adds the sums of its rows while it holds a lock."""
    along = tl.arange(0, COLUMNS)
    part = tl.zeros((COLUMNS,), tl.float32)
    for row in range(ROWS):
        part += tl.load(x + (tl.program_id(0) * ROWS + row) * COLUMNS + along)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + along, tl.load(out + along) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def column_totals_by_atomics(x, out, lock, ROWS, COLUMNS: tl.constexpr):  # noqa: ARG001
    """The same by atomics."""
    along = tl.arange(0, COLUMNS)
    part = tl.zeros((COLUMNS,), tl.float32)
    for row in range(ROWS):
        part += tl.load(x + (tl.program_id(0) * ROWS + row) * COLUMNS + along)
    tl.atomic_add(out + along, part, sem="relaxed")


# Rows that are read again


@triton.jit
def variances_in_two_passes(x, out, COLUMNS, BLOCK: tl.constexpr):
    """The mean of a long row first, then the squares of the differences."""
    at = x + tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        total += tl.load(at + first + tl.arange(0, BLOCK))
    mean = tl.sum(total) / COLUMNS
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        apart = tl.load(at + first + tl.arange(0, BLOCK)) - mean
        squares += apart * apart
    tl.store(out + tl.program_id(0), tl.sum(squares) / COLUMNS)


@triton.jit
def variances_in_one_pass(x, out, COLUMNS, BLOCK: tl.constexpr):
    """Both sums in one loop."""
    at = x + tl.program_id(0).to(tl.int64) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(at + first + tl.arange(0, BLOCK))
        total += value
        squares += value * value
    mean = tl.sum(total) / COLUMNS
    tl.store(out + tl.program_id(0), tl.sum(squares) / COLUMNS - mean * mean)


@triton.jit
def extremes_in_two_passes(x, low, high, COLUMNS, BLOCK: tl.constexpr):
    """The smallest of a long row, then the largest."""
    at = x + tl.program_id(0).to(tl.int64) * COLUMNS
    least = tl.full((BLOCK,), float("inf"), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        least = tl.minimum(least, tl.load(at + first + tl.arange(0, BLOCK)))
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        most = tl.maximum(most, tl.load(at + first + tl.arange(0, BLOCK)))
    tl.store(low + tl.program_id(0), tl.min(least, 0))
    tl.store(high + tl.program_id(0), tl.max(most, 0))


@triton.jit
def extremes_in_one_pass(x, low, high, COLUMNS, BLOCK: tl.constexpr):
    """Both in one loop."""
    at = x + tl.program_id(0).to(tl.int64) * COLUMNS
    least = tl.full((BLOCK,), float("inf"), tl.float32)
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        value = tl.load(at + first + tl.arange(0, BLOCK))
        least, most = tl.minimum(least, value), tl.maximum(most, value)
    tl.store(low + tl.program_id(0), tl.min(least, 0))
    tl.store(high + tl.program_id(0), tl.max(most, 0))


@triton.jit
def shifted_through_memory(x, scratch, out, n, BLOCK: tl.constexpr):
    """A tile goes to memory and comes back."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(scratch + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    tl.debug_barrier()
    tl.store(out + at, tl.load(scratch + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def shifted_in_registers(x, scratch, out, n, BLOCK: tl.constexpr):  # noqa: ARG001
    """The same without."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2 + 1, mask=at < n)
