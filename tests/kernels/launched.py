"""Kernels that the tests of TileKernel launch, wrapped in the ways that Triton offers."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def plus(x, y):
    return x + y


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, plus(x, y), mask=mask)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)],
    key=["n"],
    reset_to_zero=["total_ptr"],
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def count(total_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """Adds to `total_ptr[0]` the number of elements below n; each launch adds to what is there."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.atomic_add(total_ptr, BLOCK)
    else:
        tl.atomic_add(total_ptr, tl.sum((offsets < n).to(tl.int32)))


@gluon.jit
def gluon_copy(x_ptr, y_ptr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, N, layout=layout)
    gl.store(y_ptr + offsets, gl.load(x_ptr + offsets))
