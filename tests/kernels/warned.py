"""A kernel that Triton warns of."""

import triton
import triton.language as tl


@triton.jit
def masked(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < n and i > 2  # WARNED
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=inside), mask=inside)
