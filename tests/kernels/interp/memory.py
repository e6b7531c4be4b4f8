"""Loads, stores and atomics, of every shape."""

import triton
import triton.language as tl


@triton.jit
def copy_1d(x_ptr, out_ptr, n, x_start, x_stride, out_stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + x_start + offsets * x_stride, mask=offsets < n)
    tl.store(out_ptr + offsets * out_stride, x, mask=offsets < n)


@triton.jit
def copy_2d(
    x_ptr, out_ptr, m, n, x_row, x_column, out_row, out_column, fill,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LOWER_M: tl.constexpr, LOWER_N: tl.constexpr,
):  # fmt: skip
    """out = x inside LOWER <= index < size along both axes, `fill` elsewhere in whole blocks."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (rows >= LOWER_M) & (rows < m) & (columns < n) & (columns > LOWER_N - 1)
    x = tl.load(x_ptr + rows * x_row + columns * x_column, mask=inside, other=fill)
    tl.store(out_ptr + rows * out_row + columns * out_column, x)


@triton.jit
def sum_rows(x_ptr, out_ptr, m, n, row_stride, column_stride, BLOCK: tl.constexpr):
    """Each program sums one row, a block at a time."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + columns * column_stride, mask=columns < n, other=0)
        total += x.to(tl.float64)
    tl.store(out_ptr + row, tl.sum(total, 0))


@triton.jit
def masks(x_ptr, flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Masks that are boxes, holes, stripes, data, per program, empty, whole, and of another shape than the pointers."""
    lanes = tl.arange(0, BLOCK)
    program = tl.program_id(0)
    base = out_ptr + program * 10 * BLOCK + lanes
    pointers = x_ptr + lanes
    tl.store(base, tl.load(pointers, mask=lanes < n, other=-1.0))
    tl.store(base + BLOCK, tl.load(pointers, mask=(lanes < 2) | (lanes > 5), other=-2.0))
    tl.store(base + 2 * BLOCK, tl.load(pointers, mask=lanes % 2 == 0, other=-3.0))
    flags = tl.load(flag_ptr + program * BLOCK + lanes)
    tl.store(base + 3 * BLOCK, tl.load(pointers, mask=flags, other=-4.0))
    tl.store(base + 4 * BLOCK, tl.load(pointers, mask=lanes < program * 2, other=program * -1.0))
    tl.store(base + 5 * BLOCK, tl.load(pointers, mask=lanes < 0, other=-lanes.to(tl.float32)))
    tl.store(base + 6 * BLOCK, tl.load(pointers, mask=lanes < BLOCK), mask=flags)
    tl.store(base + 7 * BLOCK, lanes.to(tl.float32), mask=(lanes > program) & (lanes <= n))
    tl.store(base + 8 * BLOCK, tl.load(x_ptr + 2, mask=program > 1, other=9.0), mask=lanes < 3)
    tl.store(out_ptr + (program * 10 + 9) * BLOCK, tl.load(x_ptr + program), mask=program % 2 == 1)


@triton.jit
def broadcast_stores(out_ptr, value, M: tl.constexpr, N: tl.constexpr):
    """One scalar, one row, one column into whole tiles; all programs to one place, the last one wins."""
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tile = rows * N + columns
    program = tl.program_id(0)
    tl.store(out_ptr + program * M * N + tile, value + program)
    shared = out_ptr + tl.num_programs(0) * M * N
    tl.store(shared + tile, rows + program.to(tl.float32))
    tl.store(shared + M * N + tile, columns * 1.0)
    tl.store(shared + 2 * M * N + columns + 0 * rows, rows * 10.0 + columns)
    tl.store(
        shared + 3 * M * N + program + tl.arange(0, N),
        program * 1.0,
        mask=tl.arange(0, N) < program + 2,
    )


@triton.jit
def scattered(x_ptr, index_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + index, tl.load(x_ptr + lanes))
    tl.store(out_ptr + N + lanes, tl.load(x_ptr + index))
    tl.store(out_ptr + 2 * N + lanes, tl.load(x_ptr + (N - 1 - lanes)))
    tl.store(out_ptr + 4 * N - 1 - lanes, tl.load(x_ptr + lanes))
    tl.store(out_ptr + 4 * N + lanes, tl.load(x_ptr + lanes * lanes % N))


@triton.jit
def block_pointers(x_ptr, out_ptr, m, n, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start = tl.program_id(0) * BLOCK_M
    x = tl.make_block_ptr(x_ptr, (m, n), (row_stride, 1), (start, 0), (BLOCK_M, BLOCK_N), (1, 0))
    out = tl.make_block_ptr(out_ptr, (m, n), (n, 1), (start, 0), (BLOCK_M, BLOCK_N), (1, 0))
    for _ in range(0, n, BLOCK_N):
        tile = tl.load(x, boundary_check=(0, 1), padding_option="zero")
        tl.store(out, tile * 2, boundary_check=(0, 1))
        x = tl.advance(x, (0, BLOCK_N))
        out = tl.advance(out, (0, BLOCK_N))


@triton.jit
def descriptors(x_ptr, out_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    out = tl.make_tensor_descriptor(out_ptr, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    for start in range(0, n, BLOCK_N):
        out.store(
            [tl.program_id(0) * BLOCK_M, start], x.load([tl.program_id(0) * BLOCK_M, start]) + 1
        )


@triton.jit
def updated(x_ptr, index_ptr, found_ptr, HOW: tl.constexpr, N: tl.constexpr):
    """Every program updates x at the same, colliding places, except where lanes are masked off."""
    lanes = tl.arange(0, N)
    program = tl.program_id(0)
    where = x_ptr + tl.load(index_ptr + lanes)
    value = ((lanes * 7 + program * 3) % 11 - 4).to(x_ptr.dtype.element_ty)
    mask = lanes != program
    if HOW == "add":
        found = tl.atomic_add(where, value, mask=mask)
    elif HOW == "max":
        found = tl.atomic_max(where, value, mask=mask)
    elif HOW == "min":
        found = tl.atomic_min(where, value, mask=mask)
    elif HOW == "and":
        found = tl.atomic_and(where, value, mask=mask)
    elif HOW == "or":
        found = tl.atomic_or(where, value, mask=mask)
    elif HOW == "xor":
        found = tl.atomic_xor(where, value, mask=mask)
    elif HOW == "xchg":
        found = tl.atomic_xchg(where, value, mask=mask)
    tl.store(found_ptr + program * N + lanes, found, mask=mask)


@triton.jit
def tallied(
    x_ptr,
    index_ptr,
    value_ptr,
    HOW: tl.constexpr,
    SEM: tl.constexpr,
    SCOPE: tl.constexpr,
    N: tl.constexpr,
):
    """Colliding updates whose results no one asks for, in every order and scope that memory knows."""
    lanes = tl.program_id(0) * N + tl.arange(0, N)
    where = x_ptr + tl.load(index_ptr + lanes)
    value = tl.load(value_ptr + lanes)
    if HOW == "add":
        tl.atomic_add(where, value, mask=lanes % 7 != 3, sem=SEM, scope=SCOPE)
    elif HOW == "max":
        tl.atomic_max(where, value, sem=SEM, scope=SCOPE)
    else:
        tl.atomic_xchg(where, value, sem=SEM, scope=SCOPE)


@triton.jit
def counters(count_ptr, order_ptr, total_ptr, n):
    """Scalar atomics, some only in some programs."""
    program = tl.program_id(0)
    ticket = tl.atomic_add(count_ptr, 1)
    tl.store(order_ptr + program, ticket)
    if program % 2 == 1:
        tl.atomic_add(total_ptr, program * 1.0)
        if program > n:
            tl.atomic_max(total_ptr + 1, program * 1.0)
    else:
        tl.atomic_min(total_ptr + 2, -program * 1.0)


@triton.jit
def swapped(x_ptr, found_ptr, N: tl.constexpr):
    """Only the program whose number stands in x may count it up: a chain that needs the programs' order."""
    program = tl.program_id(0)
    tl.store(found_ptr + program, tl.atomic_cas(x_ptr, program, program + 1))
    lanes = tl.arange(0, N)
    found = tl.atomic_cas(x_ptr + 1 + lanes // 2, lanes % 2, program * N + lanes + 2)
    tl.store(found_ptr + tl.num_programs(0) + program * N + lanes, found)


@triton.jit
def locked(lock_ptr, count_ptr, x_ptr, total_ptr, N: tl.constexpr):
    """A spin lock around a read and a write, as in Triton's layer norm tutorial."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + lanes)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        x += tl.load(total_ptr + lanes)
    tl.store(total_ptr + lanes, x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_one_sums(x_ptr, partial_ptr, ticket_ptr, out_ptr, N: tl.constexpr, PROGRAMS: tl.constexpr):
    """The program that finishes last adds up what the others left."""
    program = tl.program_id(0)
    x = tl.load(x_ptr + program * N + tl.arange(0, N))
    tl.store(partial_ptr + program, tl.sum(x))
    if tl.atomic_add(ticket_ptr, 1) == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def reloaded(x_ptr, out_ptr, n):
    """What a program has just stored is what it loads, in a loop too, at an address that no program changes."""
    program = tl.program_id(0)
    for step in range(n):
        before = tl.load(x_ptr)
        tl.store(x_ptr, before * 2 + 1)
        after = tl.load(x_ptr)
        tl.store(out_ptr + step, after - before)


@triton.jit
def walking_pointers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Pointers that are carried through a loop, chosen by a condition, and stepped by a helper."""
    pointers = x_ptr + tl.arange(0, BLOCK)
    back = x_ptr + n * BLOCK - BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(n):
        chosen = pointers if step % 2 == 0 else back
        total += tl.load(chosen) * (step + 1)
        pointers += BLOCK
        back -= BLOCK
    tl.store(out_ptr + tl.arange(0, BLOCK), total)


@triton.jit
def bits_of(x_ptr, out_ptr, N: tl.constexpr):
    """A pointer cast to another pointee of the same width."""
    lanes = tl.arange(0, N)
    pointer = x_ptr.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(out_ptr + lanes, tl.load(pointer + lanes) & 0x7F800000)
