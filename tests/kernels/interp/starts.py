"""Kernels whose pointers begin at the start of their arguments, several at the same offsets."""

import triton
import triton.language as tl


@triton.jit
def three_at_the_same(x_ptr, y_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    """out = x + y for the first n elements, of y only the first m of these; the rest of a block of y is 100."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < m, other=100)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


@triton.jit
def carried(x_ptr, out_ptr, turns, BLOCK: tl.constexpr):
    """out = the sum of `turns` blocks of x; the offsets, and the pointers of the last turn, come out of the loop."""
    lanes = tl.arange(0, BLOCK)
    offsets = lanes
    pointers = x_ptr + lanes
    total = tl.zeros([BLOCK], tl.int32)
    for _ in range(turns):
        pointers = x_ptr + offsets
        total += tl.load(pointers)
        offsets += BLOCK
    tl.store(out_ptr + lanes, total)
    tl.store(out_ptr + offsets, tl.load(pointers))


@triton.jit
def where_it_starts(x_ptr, out_ptr, take, BLOCK: tl.constexpr):
    """Every lane reads the first element of x, or where `take` is on its own."""
    lanes = tl.arange(0, BLOCK)
    pointers = x_ptr + tl.zeros([BLOCK], tl.int32)
    if take:
        pointers = x_ptr + lanes
    tl.store(out_ptr + lanes, tl.load(pointers) + tl.load(x_ptr))


@triton.jit
def far_away(x_ptr, out_ptr, step, BLOCK: tl.constexpr):
    """Two steps of up to 2^31 - 1 elements each."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load((x_ptr + (step + lanes)) + step))


@triton.jit
def gathered_twice(index_ptr, x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """out = x[index] * y[index]."""
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index) * tl.load(y_ptr + index))


@triton.jit
def the_same_for_all(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Program p adds x up p times: all programs that take part read the same lanes, though the mask asks for their ids."""
    p = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for _ in range(p):
        total += tl.load(x_ptr + lanes, mask=(lanes < n) & (p >= 0), other=100)
    tl.store(out_ptr + p * BLOCK + lanes, total)
