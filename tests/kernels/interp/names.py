"""Kernels whose names and variables collide with each other and with Python's."""

import triton
import triton.language as tl


@triton.jit
def range(x_ptr, range, out_ptr, N: tl.constexpr):
    """Named like one of Python's functions, as is its argument."""
    map = tl.arange(0, N)
    numpy = tl.load(x_ptr + map)
    for _k in tl.range(tl.program_id(0)):
        numpy += range
    tl.store(out_ptr + tl.program_id(0) * N + map, numpy)


@triton.jit
def offsets(x_ptr, out_ptr, N: tl.constexpr):
    """Named like one of its own variables, which no program changes."""
    offsets = tl.arange(0, N) * 2
    first = tl.load(x_ptr + offsets)
    tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), first + offsets)
