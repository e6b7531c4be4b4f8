"""Kernels whose programs leave their tensors on several lines."""

import triton
import triton.language as tl


@triton.jit
def copied(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x)  # FAULT: copied


@triton.jit
def counted(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr, 1.0)
    tl.store(y_ptr + i, 0.0)
