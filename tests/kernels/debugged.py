"""Kernels with `breakpoint()` and `print(x)`, as a cell may hold them."""

import triton
import triton.language as tl

from kernellab import TileKernel


@TileKernel
def stops(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    breakpoint()
    x = tl.load(x_ptr + offsets)
    if pid == 1:
        breakpoint()
    tl.store(y_ptr + offsets, x + 1)


@TileKernel
def prints(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    print(x)
    print("n is", n, "and twice that", n * 2)
    print(f"x + {n} = {x + n}")
    print("done")


@TileKernel
def plain_prints(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.device_print("x", x)
    tl.device_print("n is", n)
    tl.device_print("and twice that", n * 2)
    tl.device_print("x +", n, x + n)
    tl.device_print("done")


@triton.jit
def leaves(x_ptr, y_ptr, far, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = x * 2
    tl.store(y_ptr + tl.arange(0, BLOCK), x)
    tl.store(y_ptr + tl.arange(0, BLOCK) + far, y)


@triton.jit
def takes_program(y_ptr, program):
    doubled = program * 2
    tl.store(y_ptr, doubled)


@triton.jit
def plain(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    print(x)
    breakpoint()
    tl.store(y_ptr + tl.arange(0, BLOCK), x)


@triton.jit
def raised(a):
    more = a + 1
    return more  # noqa: RET504 - a line to stop at


@triton.jit
def without_pid(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = raised(x)
    tl.store(y_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def prints_without_end(x_ptr):
    print(tl.load(x_ptr), end="")
