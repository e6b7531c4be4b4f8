"""Kernels of which a check, a count and a profile each have something to say."""

import triton
import triton.language as tl

# fmt: off


@triton.jit
def every_other(x_ptr, i, STEP: tl.constexpr):
    return tl.load(x_ptr + i * STEP)  # strided, and beyond the end


@triton.jit
def thinned(x_ptr, y_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = every_other(x_ptr, i, STEP)  # the call
    tl.store(y_ptr + i, x, mask=i < n)  # the store
