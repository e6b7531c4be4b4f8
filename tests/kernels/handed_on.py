"""Gluon kernels in which parts of memory, several barriers and groups of warps meet, after Triton's
tests of its concurrency sanitizer and CUTracer's patterns of bugs, and the ways to break each, in
the way of `asynchronous`.
"""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from tests.cases.case import normal
from tests.corpus.gluon_kernels import copy_to_shared, described, tma_load

TILES = 5

# fmt: off


@gluon.jit
def late_wait(a, b, out_ptr, TILES: gl.constexpr):
    """A product whose operands have a barrier each."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    tile_a = gl.allocate_shared_memory(a.dtype, [64, 64], a.layout)
    tile_b = gl.allocate_shared_memory(b.dtype, [64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(filled.index(0), count=1)
    mbarrier.init(filled.index(1), count=1)
    sums = gl.zeros((64, 64), gl.float32, layout)
    for number in range(TILES):
        mbarrier.expect(filled.index(0), a.block_type.nbytes)
        tma_load(a, [0, number * 64], filled.index(0), tile_a)
        mbarrier.expect(filled.index(1), b.block_type.nbytes)
        tma_load(b, [number * 64, 0], filled.index(1), tile_b)
        mbarrier.wait(filled.index(0), number & 1)  # A removed
        mbarrier.wait(filled.index(1), number & 1)  # B removed
        sums = warpgroup_mma(tile_a, tile_b, sums, is_async=True)  # missing-wait with A, B
        sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))
        pass  # A pass -> mbarrier.wait(filled.index(0), number & 1)  # noqa: PIE790
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + columns[None, :], sums + 1.0)


@gluon.jit
def halves__store(x_ptr, tile, layout: gl.constexpr):
    tile.slice(0, 256).store(gl.load(x_ptr + gl.arange(0, 256, layout=layout)))  # A slice(0, 256) -> slice(256, 256)


@gluon.jit
def halves__load(out_ptr, tile, layout: gl.constexpr):
    high = tile.slice(256, 256).load(layout)  # B slice(256, 256) -> slice(0, 256); missing-wait with A, B
    gl.store(out_ptr + 256 + gl.arange(0, 256, layout=layout), 2 * high)


@gluon.jit
def halves(x_ptr, out_ptr, TILES: gl.constexpr):
    """Two groups of warps that use halves of a tile, and need not wait for each other."""
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=gl.BlockedLayout([4], [32], [4], [0]))
    tile = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]), gl.load(x_ptr + lanes))
    gl.warp_specialize([(halves__load, (out_ptr, tile, layout)), (halves__store, (x_ptr, tile, layout))], [4], [128])
    gl.store(out_ptr + gl.arange(0, 256, layout=layout), 2 * tile.slice(0, 256).load(layout))


@gluon.jit
def copied__copy(x_ptr, stages, filled, layout: gl.constexpr):
    lanes = gl.arange(0, 512, layout=layout)
    copy_to_shared(stages.index(0), x_ptr + lanes)
    async_copy.commit_group()
    copy_to_shared(stages.index(1), x_ptr + 512 + lanes)
    async_copy.commit_group()
    async_copy.wait_group(1)  # B (1) -> (2)
    mbarrier.arrive(filled.index(0), count=1)
    async_copy.wait_group(0)
    mbarrier.arrive(filled.index(1), count=1)  # C removed; D =1 -> =2; extra-arrival with D


@gluon.jit
def copied__load(out_ptr, stages, filled, layout: gl.constexpr):
    lanes = gl.arange(0, 512, layout=layout)
    mbarrier.wait(filled.index(0), 0)
    first = stages.index(0).load(layout)  # A index(0) -> index(1); missing-wait with A, B
    mbarrier.wait(filled.index(1), 0)  # endless-wait with C
    gl.store(out_ptr + lanes, 2 * first)
    gl.store(out_ptr + 512 + lanes, 2 * stages.index(1).load(layout))


@gluon.jit
def copied(x_ptr, out_ptr, TILES: gl.constexpr):
    """A group of warps that uses what another one has copied and waited for."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    stages = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(filled.index(0), count=1)
    mbarrier.init(filled.index(1), count=1)
    gl.warp_specialize([(copied__load, (out_ptr, stages, filled, layout)), (copied__copy, (x_ptr, stages, filled, layout))], [4], [128])


@gluon.jit
def tensor_barriers(a, b, out_ptr, TILES: gl.constexpr):
    """Two products at once, with barriers of their own, and operands that are allocated again."""
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (64, 64), tensor_layout, 4)
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    done = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(3):
        mbarrier.init(done.index(number), count=1)
    sums = blackwell.allocate_tensor_memory(gl.float32, [2, 64, 64], tensor_layout)
    for number in range(TILES):
        tile_a = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, rank=2), gl.load(a + rows * (64 * TILES) + number * 64 + columns))  # missing-wait with A
        tile_b = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, rank=2), gl.load(b + (number * 64 + rows) * 64 + columns))
        blackwell.tcgen05_mma(tile_a, tile_b, sums.index(0), use_acc=number > 0, mbarriers=[done.index(0), done.index(1)], mbarrier_preds=[False, True])
        blackwell.tcgen05_mma(tile_a, tile_b, sums.index(1), use_acc=number > 0, mbarriers=[done.index(2)])
        mbarrier.wait(done.index(1), number & 1)  # B index(1) -> index(0); endless-wait with B
        total = gl.convert_layout(sums.index(0).load(registers), layout)  # C sums.index(0) -> sums.index(1); missing-wait with C
        mbarrier.wait(done.index(2), number & 1)  # A removed
        gl.store(out_ptr + rows * 64 + columns, total + 1.0)


@gluon.jit
def misused(out_ptr, before: gl.constexpr, use: gl.constexpr, count: gl.constexpr):
    """What is wrong with a barrier alone."""
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    if before == "data":
        bar.store(gl.full([1], 1, gl.int64, gl.BlockedLayout([1], [32], [4], [0])))
    elif before != "nothing":
        mbarrier.init(bar, count=2)
    if before == "invalidated":
        mbarrier.invalidate(bar)
    if use == "arrive":
        mbarrier.arrive(bar, count=count)
    elif use == "expect":
        mbarrier.expect(bar, 64)
    elif use == "invalidate":
        mbarrier.invalidate(bar)
    elif use == "init":
        mbarrier.init(bar, count=count)
    elif use == "arrive twice":
        mbarrier.arrive(bar, count=count)
        mbarrier.arrive(bar, count=count)
    mbarrier.wait(bar, 0)
    gl.store(out_ptr, 1.0)


NAMES = ("late_wait", "halves", "copied", "tensor_barriers")


def launched(name: str) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """A kernel with its arguments, whose last one is the output, and what it should store."""
    if name in ("halves", "copied"):
        numbers = normal(512 if name == "halves" else 1024)
        return globals()[name], (numbers, torch.zeros_like(numbers)), 2 * numbers
    a, b = normal(64, 64 * TILES, dtype=torch.float16, seed=1), normal(64 * TILES, 64, dtype=torch.float16)
    operands = (a, b) if name == "tensor_barriers" else (described(a), described(b))
    return globals()[name], (*operands, torch.zeros(64, 64)), a.float() @ b.float() + 1
