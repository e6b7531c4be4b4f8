"""Kernels with an operation that the interpreter does not know, on the line marked with a comment."""

import triton
import triton.language as tl
from triton.language import core

# fmt: off


@triton.jit
def inline_assembly(x_ptr):
    lanes = tl.arange(0, 8)
    x = tl.load(x_ptr + lanes)
    y = tl.inline_asm_elementwise("wonder.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)  # UNSUPPORTED: the PTX instruction 'wonder.b32'
    tl.store(x_ptr + lanes, y)


@core.extern
def twice(x, _semantic=None):
    """A function of a device library of somebody's own."""
    known = {(core.dtype("fp32"),): ("__mine_twice", core.dtype("fp32"))}
    return core.extern_elementwise("", "", [x], known, is_pure=True, _semantic=_semantic)


@triton.jit
def device_library(x_ptr):
    lanes = tl.arange(0, 8)
    x = twice(tl.load(x_ptr + lanes))  # UNSUPPORTED: the device function '__mine_twice'
    tl.store(x_ptr + lanes, x)


@triton.jit
def numbered(x):
    return x + tl.program_id(0)  # UNSUPPORTED: tl.program_id in a function of elements


@triton.jit
def program_of_element(x_ptr):
    lanes = tl.arange(0, 8)
    x = tl.map_elementwise(numbered, tl.load(x_ptr + lanes))
    tl.store(x_ptr + lanes, x)


@triton.jit
def reversed_four(a, b, c, d):
    return d, c, b, a


@triton.jit
def packed_too_high(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 2))
    (x,) = tl.map_elementwise(reversed_four, x, pack=4)  # UNSUPPORTED: tl.map_elementwise with pack=4
    tl.store(x_ptr + tl.arange(0, 2), x)


@triton.jit
def turns_until_set(flag_ptr):
    turns = 0
    while tl.load(flag_ptr) == 0:  # UNSUPPORTED: a loop that waits for other programs
        turns += 1
    return turns


@triton.jit
def waiting_element(x_ptr):
    x = tl.map_elementwise(turns_until_set, x_ptr + tl.arange(0, 8))
    tl.store(x_ptr + tl.arange(0, 8), x)
