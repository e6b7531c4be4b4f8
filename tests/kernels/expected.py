"""A kernel that is right up to an element."""

import triton
import triton.language as tl


@triton.jit
def added_up_to_40(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    z = tl.where(i < 40, x + y, x - y)
    tl.store(z_ptr + i, z)  # writes z
