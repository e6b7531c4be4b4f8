"""Kernels for what is said of layouts: one that changes a tile's layout, one with a tile that is optimized away."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def change_layout(x_ptr, out_ptr, BEFORE: gl.constexpr, AFTER: gl.constexpr):
    """One 32x32 tile, loaded in one layout and stored in another."""
    row = gl.arange(0, 32, layout=gl.SliceLayout(1, BEFORE))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, BEFORE))
    x = gl.load(x_ptr + row[:, None] * 32 + column[None, :])
    y = gl.convert_layout(x, AFTER)
    row = gl.arange(0, 32, layout=gl.SliceLayout(1, AFTER))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, AFTER))
    gl.store(out_ptr + row[:, None] * 32 + column[None, :], y)


@triton.jit
def unused_tile(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Works out a tile that nothing needs."""
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    doubled = x * 2
    tl.store(out_ptr + offsets, x)
