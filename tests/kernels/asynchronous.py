"""Gluon kernels with asynchronous operations, and the ways to break each.

A comment says what to change for a fault, "A removed" or "B (1) -> (2)", and on which line a check
finds it, "missing-wait with A, B". `tests/support/broken_kernels.py` makes the broken kernels.
"""

from typing import Any

import torch
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd.cdna4 import async_copy as direct
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

import kernellab
from tests.cases.case import normal
from tests.corpus.gluon_kernels import copy_to_shared, described, tma_load, tma_store

TILES = 5

# fmt: off


@gluon.jit
def copies(x_ptr, out_ptr, TILES: gl.constexpr):
    """Two stages of cp.async."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    stages = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    copy_to_shared(stages.index(0), x_ptr + lanes)
    async_copy.commit_group()  # A removed
    for number in range(1, TILES):
        stage = stages.index(number % 2)  # B number -> (number + 1)
        copy_to_shared(stage, x_ptr + number * 512 + lanes)  # missing-wait with B
        async_copy.commit_group()  # C removed
        async_copy.wait_group(1)  # D removed; E (1) -> (2)
        last = stages.index((number - 1) % 2).load(layout)  # missing-wait with A, B, C, D, E
        gl.store(out_ptr + (number - 1) * 512 + lanes, 2 * last)
    async_copy.wait_group(0)  # F removed; G (0) -> (1)
    last = stages.index((TILES - 1) % 2).load(layout)  # missing-wait with C, F, G
    gl.store(out_ptr + (TILES - 1) * 512 + lanes, 2 * last)


@gluon.jit
def direct_loads(x_ptr, out_ptr, TILES: gl.constexpr):
    """Two stages of direct loads to LDS, by pointers and by buffer instructions."""
    layout: gl.constexpr = gl.BlockedLayout([4], [64], [4], [0])
    lanes = gl.arange(0, 1024, layout=layout)
    stages = gl.allocate_shared_memory(gl.float32, [2, 1024], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    direct.global_load_to_shared(stages.index(0), x_ptr + lanes)
    direct.commit_group()  # E removed
    for number in range(1, TILES):
        direct.buffer_load_to_shared(stages.index(number % 2), x_ptr, number * 1024 + lanes)
        direct.commit_group()  # F removed
        direct.wait_group(1)  # A removed; B (1) -> (2)
        last = stages.index((number - 1) % 2).load(layout)  # missing-wait with A, B, E, F
        gl.store(out_ptr + (number - 1) * 1024 + lanes, 2 * last)
    direct.wait_group(0)  # C removed; D (0) -> (1)
    last = stages.index((TILES - 1) % 2).load(layout)  # missing-wait with C, D, F
    gl.store(out_ptr + (TILES - 1) * 1024 + lanes, 2 * last)


@gluon.jit
def direct_products(a_ptr, b_ptr, out_ptr, TILES: gl.constexpr):
    """Three stages of operands by direct loads to LDS, two of them in flight, for MFMA."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0])
    result: gl.constexpr = gl.amd.AMDMFMALayout(4, [32, 32, 16], True, [2, 2])
    left: gl.constexpr = gl.DotOperandLayout(0, result, 8)
    right: gl.constexpr = gl.DotOperandLayout(1, result, 8)
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    stages_a = gl.allocate_shared_memory(gl.float16, [3, 64, 64], shared)
    stages_b = gl.allocate_shared_memory(gl.float16, [3, 64, 64], shared)
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    for number in gl.static_range(2):
        direct.buffer_load_to_shared(stages_a.index(number), a_ptr, row * (64 * TILES) + number * 64 + column)
        direct.global_load_to_shared(stages_b.index(number), b_ptr + (number * 64 + row) * 64 + column)
        direct.commit_group()  # A removed
    sums = gl.zeros((64, 64), gl.float32, result)
    for number in range(TILES):
        ahead = number + 2  # B + 2 -> + 3
        inside = (row >= 0) & (column >= 0) & (ahead < TILES)
        direct.buffer_load_to_shared(stages_a.index(ahead % 3), a_ptr, row * (64 * TILES) + ahead * 64 + column, mask=inside)  # C % 3 -> % 2; missing-wait with B, C
        direct.global_load_to_shared(stages_b.index(ahead % 3), b_ptr + (ahead * 64 + row) * 64 + column, mask=inside)  # missing-wait with B
        direct.commit_group()  # D removed
        direct.wait_group(2)  # E removed; F (2) -> (3)
        tile_a = direct.load_shared_relaxed(stages_a.index(number % 3), left)  # G number % 3 -> (number + 1) % 3; missing-wait with A, B, C, D, E, F, G
        tile_b = direct.load_shared_relaxed(stages_b.index(number % 3), right)  # missing-wait with A, B, D, E, F
        sums = gl.amd.cdna4.mfma(tile_a, tile_b, sums)
    row = gl.arange(0, 64, layout=gl.SliceLayout(1, result))[:, None]
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, result))[None, :]
    gl.store(out_ptr + row * 64 + column, sums + 1.0)


@gluon.jit
def tma_copies(source, out, TILES: gl.constexpr):
    """Two stages of TMA loads with an mbarrier each, and TMA stores from a third tile."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(source.dtype, [2, 64, 64], source.layout)
    result = gl.allocate_shared_memory(source.dtype, [64, 64], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(filled.index(0), count=1)  # I =1 -> =2
    mbarrier.init(filled.index(1), count=1)  # K removed
    mbarrier.expect(filled.index(0), source.block_type.nbytes)
    tma_load(source, [0, 0], filled.index(0), stages.index(0))
    for number in range(1, TILES + 1):
        stage = number % 2
        if number < TILES:
            mbarrier.expect(filled.index(stage), source.block_type.nbytes)  # B removed; C nbytes -> nbytes // 2; invalid-barrier with K
            tma_load(source, [number * 64, 0], filled.index(stage), stages.index(stage))  # A index(stage)) -> index(0)); missing-wait with A
        last = number - 1
        mbarrier.wait(filled.index(last % 2), last // 2 & 1)  # D removed; E & 1 -> & 1 ^ 1; F (last % 2) -> (number % 2); endless-wait with B, C, F, I
        tile = stages.index(last % 2).load(layout)  # missing-wait with A, D, E, F
        tma.store_wait(0)  # G removed; H (0) -> (1)
        result.store(tile + tile)  # missing-wait with G, H
        fence_async_shared()
        tma_store(out, [last * 64, 0], result)  # missing-wait with J
    tma.store_wait(0)  # J removed


@gluon.jit
def products(a, b, out_ptr, TILES: gl.constexpr):
    """Two stages of operands, of whose products one is in flight while the next tile is loaded."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    stages_a = gl.allocate_shared_memory(a.dtype, [2, 64, 64], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [2, 64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(filled, count=1)
    sums = gl.zeros((64, 64), gl.float32, layout)
    for number in range(TILES):
        mbarrier.expect(filled, a.block_type.nbytes + b.block_type.nbytes)  # E removed; F a.block_type.nbytes + -> 1 *
        tma_load(a, [0, number * 64], filled, stages_a.index(number % 2))  # missing-wait with C
        tma_load(b, [number * 64, 0], filled, stages_b.index(number % 2))
        mbarrier.wait(filled, number & 1)  # A removed; B & 1 -> & 0; endless-wait with E, F
        tile_a, tile_b = stages_a.index(number % 2), stages_b.index(number % 2)
        sums = warpgroup_mma(tile_a, tile_b, sums, is_async=True)  # missing-wait with A, B, F
        sums = warpgroup_mma_wait(num_outstanding=1, deps=(sums,))  # C =1 -> =2
    sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))  # D =0 -> =1
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    total = sums + 1.0  # missing-wait with D
    gl.store(out_ptr + rows[:, None] * 64 + columns[None, :], total)


@gluon.jit
def tensor_products(a, b, out_ptr, TILES: gl.constexpr):
    """Two stages of operands, of whose products one is in flight while the next tile is loaded."""
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (64, 64), tensor_layout, 4)
    stages_a = gl.allocate_shared_memory(a.dtype, [2, 64, 64], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [2, 64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(filled, count=1)
    mbarrier.init(done, count=1)  # E =1 -> =2
    sums = blackwell.allocate_tensor_memory(gl.float32, [64, 64], tensor_layout)
    for number in range(TILES):
        mbarrier.expect(filled, a.block_type.nbytes + b.block_type.nbytes)
        tma_load(a, [0, number * 64], filled, stages_a.index(number % 2))  # A % 2 -> % 1; missing-wait with A, C
        tma_load(b, [number * 64, 0], filled, stages_b.index(number % 2))
        mbarrier.wait(filled, number & 1)  # B removed
        if number > 0:
            mbarrier.wait(done, (number - 1) & 1)  # C removed; endless-wait with E, F
        tile_a, tile_b = stages_a.index(number % 2), stages_b.index(number % 2)
        blackwell.tcgen05_mma(tile_a, tile_b, sums, use_acc=number > 0)  # missing-wait with B
        blackwell.tcgen05_commit(done)  # F removed
    mbarrier.wait(done, (TILES - 1) & 1)  # D removed
    total = gl.convert_layout(sums.load(registers), layout)  # missing-wait with C, D
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + columns[None, :], total + 1.0)


@gluon.jit
def specialized__produce(source, stages, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)  # A removed; B ^ 1 -> ^ 0; endless-wait with C
        mbarrier.expect(filled.index(stage), source.block_type.nbytes)  # extra-arrival with A
        tma_load(source, [number * 64, 0], filled.index(stage), stages.index(stage))


@gluon.jit
def specialized__consume(stages, filled, emptied, out_ptr, layout: gl.constexpr, TILES: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # C removed; D & 1 -> & 0; endless-wait with B, E
        tile = stages.index(stage).load(layout)  # missing-wait with C, D
        mbarrier.arrive(emptied.index(stage), count=1)  # E removed
        place = out_ptr + number * 4096 + rows[:, None] * 64 + columns[None, :]
        gl.store(place, tile + tile)


@gluon.jit
def specialized(source, out_ptr, TILES: gl.constexpr):
    """One group of warps loads, another one computes."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(source.dtype, [2, 64, 64], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    gl.warp_specialize(
        [
            (specialized__consume, (stages, filled, emptied, out_ptr, layout, TILES)),
            (specialized__produce, (source, stages, filled, emptied, TILES)),
        ],
        [1], [24],
    )


@gluon.jit
def handed_over__produce(source, stages, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)
        mbarrier.expect(filled.index(stage), source.block_type.nbytes)
        tma_load(source, [number * 64, 0], filled.index(stage), stages.index(stage))


@gluon.jit
def handed_over__double(stages, filled, emptied, out_ptr, layout: gl.constexpr, TILES: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # A removed; endless-wait with C, D
        tile = stages.index(stage).load(layout)  # missing-wait with A, B, C
        mbarrier.arrive(emptied.index(stage), count=1)
        place = out_ptr + number * 4096 + rows[:, None] * 64 + columns[None, :]
        gl.store(place, tile + tile)


@gluon.jit
def handed_over__triple(stages, filled, emptied, out_ptr, layout: gl.constexpr, TILES: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # B removed; endless-wait with A
        tile = stages.index(stage).load(layout)  # missing-wait with B, C
        mbarrier.arrive(emptied.index(stage), count=1)  # D removed
        place = out_ptr + (number + TILES) * 4096 + rows[:, None] * 64 + columns[None, :]
        gl.store(place, tile + tile + tile)


@gluon.jit
def handed_over(source, out_ptr, TILES: gl.constexpr):
    """Two groups of warps use what one has loaded; each of them has to wait for it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(source.dtype, [2, 64, 64], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=2)  # C =2 -> =1
    gl.warp_specialize(
        [
            (handed_over__double, (stages, filled, emptied, out_ptr, layout, TILES)),
            (handed_over__triple, (stages, filled, emptied, out_ptr, layout, TILES)),
            (handed_over__produce, (source, stages, filled, emptied, TILES)),
        ],
        [4, 1], [128, 24],
    )


@gluon.jit
def sent__make(x_ptr, stages, filled, emptied, layout: gl.constexpr, TILES: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        stage = number % 2
        tile = gl.load(x_ptr + number * 4096 + rows[:, None] * 64 + columns[None, :])
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)  # B removed; endless-wait with C, D
        stages.index(stage).store(tile + tile)  # missing-wait with E
        fence_async_shared()  # A removed
        mbarrier.arrive(filled.index(stage), count=1)  # C removed


@gluon.jit
def sent__send(out, stages, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # D removed; endless-wait with B
        tma_store(out, [number * 64, 0], stages.index(stage))  # missing-fence with A; missing-wait with E
        tma.store_wait(0)  # E removed
        mbarrier.arrive(emptied.index(stage), count=1)


@gluon.jit
def sent(x_ptr, out, TILES: gl.constexpr):
    """One group of warps stores to shared memory what another one sends by TMA."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(out.dtype, [2, 64, 64], out.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    gl.warp_specialize(
        [
            (sent__make, (x_ptr, stages, filled, emptied, layout, TILES)),
            (sent__send, (out, stages, filled, emptied, TILES)),
        ],
        [1], [24],
    )


@gluon.jit
def passed_on__store(x_ptr, stages, filled, emptied, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    for number in range(TILES):
        stage = number % 2
        tile = gl.load(x_ptr + number * 512 + lanes)
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)  # A removed
        mbarrier.wait(emptied.index(2 + stage), (number // 2 & 1) ^ 1)  # B removed
        stages.index(stage).store(tile)  # missing-wait with A, B
        mbarrier.arrive(filled.index(stage), count=1)  # C removed


@gluon.jit
def passed_on__double(out_ptr, stages, filled, emptied, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    lanes = gl.arange(0, 256, layout=layout)
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # D removed; endless-wait with A, C, E, F, G, H
        low = stages.index(stage).slice(0, 256).load(layout)  # missing-wait with D
        mbarrier.arrive(emptied.index(stage), count=1)  # E removed
        gl.store(out_ptr + number * 512 + lanes, low + low)


@gluon.jit
def passed_on__triple(out_ptr, stages, filled, emptied, TILES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    lanes = gl.arange(0, 256, layout=layout)
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # F & 1 -> & 1 ^ 1; endless-wait with D
        high = stages.index(stage).slice(256, 256).load(layout)
        mbarrier.arrive(emptied.index(2 + stage), count=1)  # G (2 + stage) -> (stage)
        gl.store(out_ptr + number * 512 + 256 + lanes, high + high + high)


@gluon.jit
def passed_on(x_ptr, out_ptr, TILES: gl.constexpr):
    """One group of warps stores tiles, of which two others load a half each."""
    stages = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)  # H =1 -> =2
        mbarrier.init(emptied.index(stage), count=1)
        mbarrier.init(emptied.index(2 + stage), count=1)
    gl.warp_specialize(
        [
            (passed_on__double, (out_ptr, stages, filled, emptied, TILES)),
            (passed_on__triple, (out_ptr, stages, filled, emptied, TILES)),
            (passed_on__store, (x_ptr, stages, filled, emptied, TILES)),
        ],
        [4, 4], [128, 128],
    )


@gluon.jit
def tensor_groups__load(a, b, stages_a, stages_b, filled, emptied, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(emptied.index(stage), (number // 2 & 1) ^ 1)  # A removed
        mbarrier.expect(filled.index(stage), a.block_type.nbytes + b.block_type.nbytes)  # extra-arrival with A, B
        tma_load(a, [0, number * 64], filled.index(stage), stages_a.index(stage))
        tma_load(b, [number * 64, 0], filled.index(stage), stages_b.index(stage))  # F removed


@gluon.jit
def tensor_groups__multiply(stages_a, stages_b, sums, filled, emptied, done, TILES: gl.constexpr):
    for number in range(TILES):
        stage = number % 2
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # B removed
        blackwell.tcgen05_mma(stages_a.index(stage), stages_b.index(stage), sums, use_acc=number > 0)  # missing-wait with B, E
        blackwell.tcgen05_commit(emptied.index(stage))  # C removed
    blackwell.tcgen05_commit(done)  # D removed


@gluon.jit
def tensor_groups__store(sums, done, out_ptr, layout: gl.constexpr, registers: gl.constexpr):
    mbarrier.wait(done, 0)  # E removed; endless-wait with C, D, F
    total = gl.convert_layout(sums.load(registers), layout)
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + columns[None, :], total + 1.0)


@gluon.jit
def tensor_groups(a, b, out_ptr, TILES: gl.constexpr):
    """One group of warps loads, one multiplies, one stores."""
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (64, 64), tensor_layout, 4)
    stages_a = gl.allocate_shared_memory(a.dtype, [2, 64, 64], a.layout)
    stages_b = gl.allocate_shared_memory(b.dtype, [2, 64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    for stage in gl.static_range(2):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    sums = blackwell.allocate_tensor_memory(gl.float32, [64, 64], tensor_layout)
    gl.warp_specialize(
        [
            (tensor_groups__store, (sums, done, out_ptr, layout, registers)),
            (tensor_groups__load, (a, b, stages_a, stages_b, filled, emptied, TILES)),
            (tensor_groups__multiply, (stages_a, stages_b, sums, filled, emptied, done, TILES)),
        ],
        [1, 1], [24, 24],
    )


@gluon.jit
def fresh_barriers(source, out_ptr, TILES: gl.constexpr):
    """A barrier that is initialized for each tile, and invalidated afterwards."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(source.dtype, [64, 64], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    for number in range(TILES):
        mbarrier.init(filled, count=1)  # A removed; B =1 -> =2; invalid-barrier with F
        mbarrier.expect(filled, source.block_type.nbytes)  # C nbytes -> nbytes * 2; invalid-barrier with A
        tma_load(source, [number * 64, 0], filled, tile)
        mbarrier.wait(filled, 0)  # D removed; E 0 -> 1; endless-wait with B, C
        mbarrier.invalidate(filled)  # F removed; invalid-barrier with D, E
        place = out_ptr + number * 4096 + rows[:, None] * 64 + columns[None, :]
        x = tile.load(layout)
        gl.store(place, x + x)


@gluon.jit
def never_waits(x_ptr, times, KIND: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [64 if KIND == "direct" else 32], [4], [0])
    lanes = gl.arange(0, 512, layout=layout)
    tile = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    if KIND == "counted":
        mbarrier.init(arrived, count=128)
    for _ in range(times):
        if KIND == "direct":
            direct.global_load_to_shared(tile, x_ptr + lanes)
        else:
            copy_to_shared(tile, x_ptr + lanes)
        if KIND == "counted":
            async_copy.mbarrier_arrive(arrived, increment_count=False)
        else:
            async_copy.commit_group()


@gluon.jit
def never_waits_for_tma(x, times, KIND: gl.constexpr):
    tile = gl.allocate_shared_memory(x.dtype, [64, 64], x.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    for _ in range(times):
        if KIND == "load":
            tma_load(x, [0, 0], arrived, tile)
        else:
            tma_store(x, [0, 0], tile)


@gluon.jit
def never_waits_for_products(x_ptr, times, KIND: gl.constexpr):
    layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 16], col_stride=1)
    registers: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 16, 16])
    a = gl.allocate_shared_memory(gl.float16, [64, 16], gl.NVMMASharedLayout(32, 16, rank=2))
    b = gl.allocate_shared_memory(gl.float16, [16, 16], gl.NVMMASharedLayout(32, 16, rank=2))
    if KIND == "tcgen05":
        sums = blackwell.allocate_tensor_memory(gl.float32, [64, 16], layout)
    else:
        sums = warpgroup_mma_init(gl.zeros((64, 16), gl.float32, registers))
    for _ in range(times):
        if KIND == "tcgen05":
            blackwell.tcgen05_mma(a, b, sums)
        else:
            sums = warpgroup_mma(a, b, sums, is_async=True)
    if KIND == "wgmma":
        total = gl.max(warpgroup_mma_wait(num_outstanding=0, deps=(sums,)), 1)
        gl.store(x_ptr + gl.arange(0, 64, layout=gl.SliceLayout(1, registers)), total)


@gluon.jit
def reduces(x_ptr, out_ptr, IS_MIN: gl.constexpr, ABS: gl.constexpr, NAN: gl.constexpr):
    """The extreme of each row, on the way out of tensor memory."""
    layout: gl.constexpr = blackwell.TensorMemoryLayout([128, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (128, 64), layout, 4)
    tile = blackwell.allocate_tensor_memory(gl.float32, [128, 64], layout)
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, registers))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, registers))
    tile.store(gl.load(x_ptr + rows[:, None] * 64 + columns[None, :]))
    nan: gl.constexpr = ir.PROPAGATE_NAN.ALL if NAN else ir.PROPAGATE_NAN.NONE
    if IS_MIN:
        _, extreme = tile.load_min(registers, ABS, nan)
    else:
        _, extreme = tile.load_max(registers, ABS, nan)
    gl.store(out_ptr + rows, extreme)


NAMES = (
    "copies", "direct_loads", "direct_products", "tma_copies", "products", "fresh_barriers", "tensor_products",
    "specialized", "handed_over", "sent", "passed_on", "tensor_groups",
)


def target_of(name: str) -> str:
    """The GPU that a kernel is for."""
    if name.startswith("copies"):
        return "sm_80"
    return "gfx950" if name.startswith("direct") else "sm_100" if "tensor" in name else "sm_90"


def launched(name: str) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """A kernel with its arguments, whose last one is the output, and what it should store."""
    half = torch.float16
    x, out = normal(64 * TILES, 64, dtype=half), torch.zeros(64 * TILES, 64, dtype=half)
    match name:
        case "copies" | "direct_loads":
            numbers = normal((512 if name == "copies" else 1024) * TILES)
            kernel = copies if name == "copies" else direct_loads
            return kernel, (numbers, torch.zeros_like(numbers)), 2 * numbers
        case "tma_copies":
            return tma_copies, (described(x), described(out)), x + x
        case "products" | "tensor_products" | "tensor_groups":
            a = normal(64, 64 * TILES, dtype=half, seed=1)
            right = a.float() @ x.float() + 1
            return globals()[name], (described(a), described(x), torch.zeros(64, 64)), right
        case "direct_products":
            a = normal(64, 64 * TILES, dtype=half, seed=1)
            return direct_products, (a, x, torch.zeros(64, 64)), a.float() @ x.float() + 1
        case "sent":
            return sent, (x, described(out)), x + x
        case "passed_on":
            numbers = normal(512 * TILES)
            factors = torch.tensor((2.0, 3.0)).repeat_interleave(256).repeat(TILES)
            return passed_on, (numbers, torch.zeros_like(numbers)), numbers * factors
        case "handed_over":
            return handed_over, (described(x), torch.cat((out, out))), torch.cat((x + x, 3 * x))
    return globals()[name], (described(x), out), x + x


def launch_of(kernels: Any, name: str, programs: int = 1) -> tuple[Any, dict[str, Any]]:
    """A kernel of these or other modules with its grid and arguments, and its keywords."""
    kernel, arguments, _right = kernels.launched(name)
    clusters = {"num_ctas": kernels.CTAS} if hasattr(kernels, "CTAS") else {}
    keywords = {"TILES": kernels.TILES, "target": target_of(name), **clusters}
    return (kernel, (programs,), *arguments), keywords


def is_right(kernels: Any, name: str, completion: str, programs: int = 1, **options: Any) -> bool:
    """Whether a run of a kernel stores what it should."""
    (kernel, grid, *arguments), keywords = launch_of(kernels, name, programs)
    kernellab.run(kernel, grid, *arguments, **keywords, completion=completion, **options)
    out, right = arguments[-1], kernels.launched(name)[2]
    return torch.allclose(getattr(out, "base", out).float(), right.float(), rtol=1e-3, atol=1e-4)
