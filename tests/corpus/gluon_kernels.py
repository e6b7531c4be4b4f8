"""Gluon kernels: they state their layouts and their memory, and start at TTGIR."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Triton 3.9 has shorter names for these; before, it has none of them.
copy_to_shared = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def transpose_through_shared(
    x_ptr, out_ptr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, LANES: gl.constexpr
):
    """One tile, transposed through swizzled shared memory."""
    rows_first: gl.constexpr = gl.BlockedLayout([1, 4], [LANES // 8, 8], [4, 1], [1, 0])
    columns_first: gl.constexpr = gl.BlockedLayout([4, 1], [8, LANES // 8], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(4, 2, 8, [1, 0])
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, rows_first))
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, rows_first))
    x = gl.load(x_ptr + row[:, None] * COLUMNS + column[None, :])
    tile = gl.allocate_shared_memory(x.dtype, [ROWS, COLUMNS], shared, x)
    y = tile.load(columns_first)
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, columns_first))
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, columns_first))
    gl.store(out_ptr + column[None, :] * ROWS + row[:, None], y)


@gluon.jit
def copy_async(x_ptr, out_ptr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """One tile copied asynchronously into shared memory, and out again."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    tile = row[:, None] * COLUMNS + column[None, :]
    staged = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [ROWS, COLUMNS], swizzled)
    copy_to_shared(staged, x_ptr + tile)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out_ptr + tile, staged.load(layout))


@gluon.jit
def copy_padded(x_ptr, out_ptr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """One tile through padded shared memory: four elements are left free after each row."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 16], [4, 1], [1, 0])
    padded: gl.constexpr = gl.PaddedSharedLayout.with_identity_for(
        [[COLUMNS, 4]], [ROWS, COLUMNS], [1, 0]
    )
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    tile = row[:, None] * COLUMNS + column[None, :]
    x = gl.load(x_ptr + tile)
    staged = gl.allocate_shared_memory(x.dtype, [ROWS, COLUMNS], padded, x)
    gl.store(out_ptr + tile, staged.load(layout))


@gluon.jit
def tma_copy(source, destination, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """One tile in and out through TMA, with a barrier of its own."""
    staged = gl.allocate_shared_memory(source.dtype, [ROWS, COLUMNS], source.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    row = gl.program_id(0) * ROWS
    mbarrier.expect(arrived, source.block_type.nbytes)
    tma_load(source, [row, 0], arrived, staged)
    mbarrier.wait(arrived, 0)
    mbarrier.invalidate(arrived)
    tma_store(destination, [row, 0], staged)
    tma.store_wait(0)


def described(tensor: torch.Tensor) -> TensorDescriptor:
    """A descriptor of a matrix of fp16 in swizzled blocks of 64 by 64."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [64, 64], layout)
