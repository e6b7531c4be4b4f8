"""Gluon kernels with the patterns of published pipelines, and mistakes that issues report."""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from tests.cases.case import normal
from tests.corpus.gluon_kernels import copy_to_shared, described, tma_load, tma_store

TILES = 5

# fmt: off


@gluon.jit
def copies_ring(x_ptr, out_ptr, TILES: gl.constexpr):
    """Four stages of cp.async; the loop commits an empty group where nothing is left to copy."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    stages = gl.allocate_shared_memory(gl.float32, [4, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    for number in gl.static_range(3):
        copy_to_shared(stages.index(number), x_ptr + number * 512 + lanes)
        async_copy.commit_group()
    for number in range(TILES):
        async_copy.wait_group(2)  # B (2) -> (3)
        tile = stages.index(number % 4).load(layout)  # C number % 4 -> (number + 1) % 4; missing-wait with A, B, C, D
        ahead = number + 3
        if ahead < TILES:
            copy_to_shared(stages.index(ahead % 4), x_ptr + ahead * 512 + lanes)  # D ahead % 4 -> (number + 2) % 4; missing-wait with D
        if number >= 0:  # A number >= 0 -> ahead < TILES
            async_copy.commit_group()
        gl.store(out_ptr + number * 512 + lanes, 2 * tile)


@gluon.jit
def copies_keys_values(k_ptr, v_ptr, out_ptr, TILES: gl.constexpr):
    """Keys and values have a group each: the keys are used while the values still come."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    keys = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    values = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    copy_to_shared(keys, k_ptr + lanes)
    async_copy.commit_group()
    for number in range(TILES):
        copy_to_shared(values, v_ptr + number * 512 + lanes)  # A copy_to_shared(values -> copy_to_shared(keys; missing-wait with A
        async_copy.commit_group()  # B removed
        async_copy.wait_group(1)  # C removed
        key = keys.load(layout)  # missing-wait with A, B, C
        if number + 1 < TILES:
            copy_to_shared(keys, k_ptr + (number + 1) * 512 + lanes)
        async_copy.commit_group()
        async_copy.wait_group(1)  # D (1) -> (2)
        gl.store(out_ptr + number * 512 + lanes, key * values.load(layout))  # missing-wait with B, D


@gluon.jit
def counted__copy(x_ptr, stages, filled, emptied, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)  # A removed; endless-wait with D
        copy_to_shared(stages.index(stage), x_ptr + number * 512 + lanes)  # missing-wait with A
        async_copy.mbarrier_arrive(filled.index(stage), increment_count=False)  # B async_copy.mbarrier_arrive(filled.index(stage), increment_count=False) -> mbarrier.arrive(filled.index(stage), count=128); extra-arrival with A, C


@gluon.jit
def counted__use(out_ptr, stages, filled, emptied, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # D removed; endless-wait with E
        tile = stages.index(stage).load(layout)  # missing-wait with B, D
        mbarrier.arrive(emptied.index(stage), count=1)  # E removed
        gl.store(out_ptr + number * 512 + lanes, 2 * tile)


@gluon.jit
def counted(x_ptr, out_ptr, TILES: gl.constexpr):
    """A group of warps copies by cp.async, which mbarriers count: each thread arrives."""
    stages = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=128)  # C =128 -> =1
        mbarrier.init(emptied.index(stage), count=1)
    gl.warp_specialize([(counted__use, (out_ptr, stages, filled, emptied, TILES)), (counted__copy, (x_ptr, stages, filled, emptied, TILES))], [4], [128])


@gluon.jit
def staged_stores(x_ptr, out, TILES: gl.constexpr):
    """Two tiles that TMA sends in turns, each overwritten when the store before the last is done."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(out.dtype, [2, 64, 64], out.layout)
    place = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None] * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    for number in range(TILES):
        tile = gl.load(x_ptr + number * 4096 + place)
        tma.store_wait(1)  # A (1) -> (2); B removed
        stages.index(number % 2).store(tile + tile)  # C number % 2 -> number % 1; missing-wait with A, B, C
        fence_async_shared()
        tma_store(out, [number * 64, 0], stages.index(number % 2))  # C number % 2 -> number % 1; missing-wait with D
    tma.store_wait(0)  # D (0) -> (1)


@gluon.jit
def released__load(a, b, stages_a, stages_b, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 3
        mbarrier.wait(emptied.index(stage), (number // 3 & 1) ^ 1)
        mbarrier.expect(filled.index(stage), a.block_type.nbytes + b.block_type.nbytes)
        tma_load(a, [0, number * 64], filled.index(stage), stages_a.index(stage))  # missing-wait with A, B
        tma_load(b, [number * 64, 0], filled.index(stage), stages_b.index(stage))


@gluon.jit
def released__multiply(stages_a, stages_b, filled, emptied, out_ptr, TILES: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    sums = gl.zeros((64, 64), gl.float32, layout)
    for number in range(TILES):
        mbarrier.wait(filled.index(number % 3), number // 3 & 1)  # D number // 3 & 1 -> number & 1
        sums = warpgroup_mma(stages_a.index(number % 3), stages_b.index(number % 3), sums, is_async=True)  # missing-wait with D
        sums = warpgroup_mma_wait(num_outstanding=1, deps=(sums,))  # B =1 -> =2
        last = number - 1  # A number - 1 -> number
        mbarrier.arrive(emptied.index((last + 3) % 3), count=1, pred=last >= 0)
    sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))  # C =0 -> =1
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + columns[None, :], sums + 1.0)  # missing-wait with C


@gluon.jit
def released(a, b, out_ptr, TILES: gl.constexpr):
    """A stage is given back when the product after it is issued, and its own one is complete."""
    stages_a = gl.allocate_shared_memory(a.dtype, [3, 64, 64], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [3, 64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(3):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    gl.warp_specialize([(released__multiply, (stages_a, stages_b, filled, emptied, out_ptr, TILES)), (released__load, (a, b, stages_a, stages_b, filled, emptied, TILES))], [1], [24])


@gluon.jit
def tensor_epilogue__multiply(tile_a, tile_b, sums, ready, free, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(free.index(stage), (number // 2 & 1) ^ 1)  # A removed; endless-wait with B
        blackwell.tcgen05_mma(tile_a, tile_b, sums.index(stage), use_acc=False)  # missing-wait with A, C
        blackwell.tcgen05_commit(ready.index(stage))  # D ready.index(stage) -> ready.index(0); E removed


@gluon.jit
def tensor_epilogue__store(sums, ready, free, out_ptr, layout: gl.constexpr, registers: gl.constexpr, TILES: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(ready.index(stage), number // 2 & 1)  # B removed; endless-wait with D, E
        pass  # C pass -> mbarrier.arrive(free.index(stage), count=1)  # noqa: PIE790
        total = gl.convert_layout(sums.index(stage).load(registers), layout)  # missing-wait with B
        mbarrier.arrive(free.index(stage), count=1)  # C removed
        gl.store(out_ptr + number * 4096 + rows[:, None] * 64 + columns[None, :], total + 1.0)


@gluon.jit
def tensor_epilogue(a_ptr, b_ptr, out_ptr, TILES: gl.constexpr):
    """One group of warps stores an accumulator while another one multiplies into the other."""
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (64, 64), tensor_layout, 4)
    place = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None] * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    tile_a = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, rank=2), gl.load(a_ptr + place))
    tile_b = gl.allocate_shared_memory(gl.float16, [64, 64], gl.NVMMASharedLayout(128, 16, rank=2), gl.load(b_ptr + place))
    fence_async_shared()
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    sums = blackwell.allocate_tensor_memory(gl.float32, [2, 64, 64], tensor_layout)
    gl.warp_specialize([(tensor_epilogue__store, (sums, ready, free, out_ptr, layout, registers, TILES)), (tensor_epilogue__multiply, (tile_a, tile_b, sums, ready, free, TILES))], [1], [24])


NAMES = ("copies_ring", "copies_keys_values", "counted", "staged_stores", "released", "tensor_epilogue")


def launched(name: str) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """A kernel with its arguments, whose last one is the output, and what it should store."""
    half, kernel = torch.float16, globals()[name]
    match name:
        case "copies_ring" | "counted":
            numbers = normal(512 * TILES)
            return kernel, (numbers, torch.zeros_like(numbers)), 2 * numbers
        case "copies_keys_values":
            keys, values = (normal(512 * TILES, seed=seed) for seed in (0, 1))
            return kernel, (keys, values, torch.zeros_like(keys)), keys * values
        case "staged_stores":
            x = normal(64 * TILES, 64, dtype=half)
            return kernel, (x, described(torch.zeros_like(x))), x + x
        case "released":
            a, b = normal(64, 64 * TILES, dtype=half, seed=1), normal(64 * TILES, 64, dtype=half)
            return kernel, (described(a), described(b), torch.zeros(64, 64)), a.float() @ b.float() + 1
    a, b = normal(64, 64, dtype=half, seed=1), normal(64, 64, dtype=half)
    return kernel, (a, b, torch.zeros(TILES, 64, 64)), (a.float() @ b.float() + 1).expand(TILES, 64, 64)
