"""Kernels with an operation that the interpreter does not know, on the line marked with a comment."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

# fmt: off


@triton.jit
def inline_assembly(x_ptr):
    lanes = tl.arange(0, 8)
    x = tl.load(x_ptr + lanes)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)  # UNSUPPORTED: tt.elementwise_inline_asm
    tl.store(x_ptr + lanes, y)


@triton.jit
def device_library(x_ptr):
    lanes = tl.arange(0, 8)
    x = libdevice.tanh(tl.load(x_ptr + lanes))  # UNSUPPORTED: tt.extern_elementwise
    tl.store(x_ptr + lanes, x)


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def mapped(x_ptr):
    lanes = tl.arange(0, 8)
    x = tl.map_elementwise(doubled, tl.load(x_ptr + lanes))  # UNSUPPORTED: tt.map_elementwise
    tl.store(x_ptr + lanes, x)


@triton.jit(noinline=True)
def kept_apart(x_ptr):
    tl.store(x_ptr, 1.0)


@triton.jit
def call(x_ptr):
    kept_apart(x_ptr)  # UNSUPPORTED: tt.call


@triton.jit
def loops_in_combine(a, b):
    while a > b:  # UNSUPPORTED: a while loop in a function that combines elements
        a -= b
    return a


@triton.jit
def loop_in_combine(x_ptr):
    lanes = tl.arange(0, 8)
    tl.store(x_ptr, tl.reduce(tl.load(x_ptr + lanes), 0, loops_in_combine))
