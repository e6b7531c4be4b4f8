"""Gluon kernels that take descriptors which the host makes, or that multiply."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # 3.9, before
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def gluon_copy(source, target):
    """Copies one tile through shared memory."""
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, source.block_type.nbytes)
    tma_load(source, [0, 0], loaded, tile)
    mbarrier.wait(loaded, 0)
    mbarrier.invalidate(loaded)
    tma_store(target, [0, 0], tile)
    tma.store_wait(0)


@gluon.jit
def gluon_matmul(x_ptr, y_ptr, z_ptr):
    """One matmul of 64 x 32 x 32 by Hopper's instruction."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
    loads: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    x_rows = gl.arange(0, 64, layout=gl.SliceLayout(1, loads))
    y_rows = gl.arange(0, 32, layout=gl.SliceLayout(1, loads))
    columns = gl.arange(0, 32, layout=gl.SliceLayout(0, loads))
    x = gl.load(x_ptr + x_rows[:, None] * 32 + columns[None, :])
    y = gl.load(y_ptr + y_rows[:, None] * 32 + columns[None, :])
    x_tile = gl.allocate_shared_memory(gl.float16, [64, 32], shared, x)
    y_tile = gl.allocate_shared_memory(gl.float16, [32, 32], shared, y)
    fence_async_shared()
    z = warpgroup_mma(x_tile, y_tile, gl.zeros([64, 32], gl.float32, sums), is_async=False)
    z_rows = gl.arange(0, 64, layout=gl.SliceLayout(1, sums))
    z_columns = gl.arange(0, 32, layout=gl.SliceLayout(0, sums))
    gl.store(z_ptr + z_rows[:, None] * 32 + z_columns[None, :], z)
