"""A transpose through shared memory, in Gluon, by two layouts of it."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def transpose(x, out, N, SIZE: gl.constexpr, MOST: gl.constexpr):
    """Square tiles, turned in shared memory that is swizzled in MOST phases."""
    wide: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tall: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, MOST, [1, 0])
    first_row, first_column = gl.program_id(1) * SIZE, gl.program_id(0) * SIZE
    row = first_row + gl.arange(0, SIZE, layout=gl.SliceLayout(1, wide))
    column = first_column + gl.arange(0, SIZE, layout=gl.SliceLayout(0, wide))
    tile = gl.load(x + row[:, None] * N + column[None, :])
    staged = gl.allocate_shared_memory(tile.dtype, [SIZE, SIZE], shared, tile)
    turned = staged.load(tall)
    row = first_row + gl.arange(0, SIZE, layout=gl.SliceLayout(1, tall))
    column = first_column + gl.arange(0, SIZE, layout=gl.SliceLayout(0, tall))
    gl.store(out + column[None, :] * N + row[:, None], turned)
