"""Pointers that are more than an offset into one argument, and accesses that such pointers do not allow."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def chosen(x_ptr, y_ptr, out_ptr, flag, N: tl.constexpr):
    """Between two arguments: by program, by an argument, by lane, and through a tile of both."""
    program = tl.program_id(0)
    lanes = tl.arange(0, N)
    by_program = x_ptr
    if program % 2 == 1:
        by_program = y_ptr + 1
    by_flag = x_ptr if flag > 0 else y_ptr
    by_lane = tl.where(lanes < program, x_ptr + lanes, y_ptr + 2 * lanes)
    both = tl.join(x_ptr + lanes, y_ptr + lanes)
    first, second = tl.split(both)
    rows = tl.permute(both, (1, 0))
    out = out_ptr + program * 7 * N + lanes
    tl.store(out, tl.load(by_program + lanes))
    tl.store(out + N, tl.load(by_flag + lanes, mask=lanes > program, other=-1))
    tl.store(out + 2 * N, tl.load(by_lane))
    tl.store(out + 3 * N, tl.load(by_lane, mask=lanes % 3 == 0, other=lanes))
    tl.store(out + 4 * N, tl.load(first) - tl.load(second))
    across = tl.arange(0, 2)[:, None] * N + lanes[None, :]
    tl.store(out_ptr + program * 7 * N + 5 * N + across, tl.load(rows))


@triton.jit
def ping_pong(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Two buffers that change places every turn; a loop of another length in every program."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source, target = x_ptr, y_ptr
    for _turn in range(n):
        tl.store(target + lanes, tl.load(source + lanes) + 1)
        source, target = target, source
    turn = 0
    while turn < tl.program_id(0):
        tl.store(target + lanes, tl.load(source + lanes) * 2)
        source, target = target, source
        turn += 1


@triton.jit
def larger(x_ptr, y_ptr, at):
    if tl.load(x_ptr + at) > tl.load(y_ptr + at):
        return x_ptr
    return y_ptr


@triton.jit
def returned(x_ptr, y_ptr, out_ptr):
    """A helper with two ways out, and an argument on each."""
    program = tl.program_id(0)
    where = larger(x_ptr, y_ptr, program) + program
    tl.store(out_ptr + program, tl.load(where))
    tl.store(where, 0)


@triton.jit
def grouped_add(table_ptr, size_ptr, BLOCK: tl.constexpr):
    """One program a tensor: addresses and sizes come from memory."""
    pointer = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    size = tl.load(size_ptr + tl.program_id(0))
    for start in range(0, size, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(pointer + lanes, mask=lanes < size)
        tl.store(pointer + lanes, x + tl.program_id(0), mask=lanes < size)


@triton.jit
def gathered(table_ptr, out_ptr, N: tl.constexpr):
    """One lane a tensor; a table entry of zero is left alone."""
    lanes = tl.arange(0, N)
    addresses = tl.load(table_ptr + lanes)
    pointers = addresses.to(tl.pointer_type(tl.int32))
    there = addresses != 0
    tl.store(out_ptr + lanes, tl.load(pointers + lanes, mask=there, other=-1))
    tl.store(pointers, lanes * 100, mask=there)


@triton.jit
def kept(x_ptr, y_ptr, table_ptr, out_ptr, N: tl.constexpr):
    """Pointers of two arguments, stored and loaded again, and what they are as numbers."""
    lanes = tl.arange(0, N)
    table = table_ptr.to(tl.pointer_type(tl.pointer_type(tl.float32)), bitcast=True)
    tl.store(table, x_ptr)
    tl.store(table + 1, y_ptr)
    tl.debug_barrier()
    second = tl.load(table + 1)
    tl.store(out_ptr + lanes, tl.load(tl.load(table) + lanes) + tl.load(second + lanes))
    distance = (second + 3).to(tl.int64) - tl.load(table_ptr + 1)
    tl.store(out_ptr + N, distance.to(tl.float32))


@triton.jit
def rounded_down(x_ptr, out_ptr):
    """A pointer becomes a number, and a number a pointer."""
    address = (x_ptr + 3).to(tl.int64) & -8
    tl.store(out_ptr, tl.load(address.to(tl.pointer_type(tl.float32))))


@triton.jit
def narrowed(x_ptr, out_ptr, N: tl.constexpr):
    """The bytes of floats, and bytes read four at a time."""
    lanes = tl.arange(0, N)
    x_bytes = x_ptr.to(tl.pointer_type(tl.uint8), bitcast=True)
    tl.store(out_ptr + lanes, tl.load(x_bytes + lanes))
    words = (out_ptr + N).to(tl.pointer_type(tl.uint32), bitcast=True)
    tl.store(words + tl.arange(0, N // 4), tl.arange(0, N // 4) * 0x01010101)


@triton.jit
def atomics(x_ptr, y_ptr, found_ptr, N: tl.constexpr):
    """On two arguments at once: every lane of every program adds, then compares and swaps."""
    program = tl.program_id(0)
    lanes = tl.arange(0, N)
    where = tl.where(lanes % 2 == 0, x_ptr + lanes // 4, y_ptr + lanes // 4)
    found = tl.atomic_add(where, lanes + program, mask=lanes != program)
    tl.store(found_ptr + program * 2 * N + lanes, found, mask=lanes != program)
    found = tl.atomic_cas(where + N // 4, lanes * 0, program * N + lanes + 1)
    tl.store(found_ptr + program * 2 * N + N + lanes, found)


@triton.jit
def printing(x_ptr):
    tl.device_print("at", x_ptr + 1 + tl.arange(0, 2), 7)


@triton.jit
def read_at(address: tl.int64, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x = tl.load(address.to(tl.pointer_type(tl.int32)) + lanes)  # FAULT: read_at
    tl.store(out_ptr + lanes, x)


@triton.jit
def write_everywhere(table_ptr, N: tl.constexpr):
    pointers = tl.load(table_ptr + tl.arange(0, N)).to(tl.pointer_type(tl.int32))
    tl.store(pointers + tl.program_id(0), 7)  # FAULT: write_everywhere


@triton.jit
def write_chosen(x_ptr, y_ptr):
    where = tl.where(tl.arange(0, 4) < 2, x_ptr + tl.arange(0, 4), y_ptr + tl.arange(0, 4))
    tl.store(where, 7)  # FAULT: write_chosen
