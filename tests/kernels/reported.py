"""Gluon kernels with mistakes of issues of CUTLASS and Triton, and the PTX ISA's rules."""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from tests.cases.case import normal
from tests.corpus.gluon_kernels import described, tma_load, tma_store

TILES = 5

# fmt: off


@gluon.jit
def reused(a, b, out, TILES: gl.constexpr):
    """A product for each tile, whose result is sent from the memory of its operand."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    tile_a = gl.allocate_shared_memory(a.dtype, [64, 64], a.layout)
    tile_b = gl.allocate_shared_memory(b.dtype, [64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(filled, count=1)
    mbarrier.expect(filled, b.block_type.nbytes)
    tma_load(b, [0, 0], filled, tile_b)
    mbarrier.wait(filled, 0)  # A removed
    for number in range(TILES):
        mbarrier.expect(filled, a.block_type.nbytes)  # F nbytes -> nbytes * 2; extra-arrival with A
        tma_load(a, [number * 64, 0], filled, tile_a)  # missing-wait with E
        mbarrier.wait(filled, (number + 1) & 1)  # B (number + 1) -> number; C removed; endless-wait with F
        sums = warpgroup_mma(tile_a, tile_b, gl.zeros((64, 64), gl.float32, layout), is_async=True)  # missing-wait with B, C
        sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))  # D =0 -> =1
        tile_a.store(sums.to(gl.float16))  # missing-wait with D
        fence_async_shared()
        tma_store(out, [number * 64, 0], tile_a)  # missing-wait with E
        tma.store_wait(0)  # E removed


@gluon.jit
def same_place(x_ptr, out, TILES: gl.constexpr):
    """Two tiles of each step, which the compiler puts in one place, since one is sent before the other is made."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    place = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None] * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    for number in range(TILES):
        x = gl.load(x_ptr + number * 4096 + place)
        doubled = gl.allocate_shared_memory(out.dtype, [64, 64], out.layout, x + x)  # missing-wait with B
        fence_async_shared()
        tma_store(out, [number * 128, 0], doubled)
        tma.store_wait(0)  # A removed
        tripled = gl.allocate_shared_memory(out.dtype, [64, 64], out.layout)
        tripled.store(x + x + x)  # missing-wait with A
        fence_async_shared()
        tma_store(out, [number * 128 + 64, 0], tripled)  # missing-wait with B
        tma.store_wait(0)  # B removed


@gluon.jit
def read_back(x_ptr, out, out_ptr, TILES: gl.constexpr):
    """What is stored by TMA, with what was there behind it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    place = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None] * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    tile = gl.allocate_shared_memory(out.dtype, [64, 64], out.layout)
    for number in range(TILES):
        tile.store(gl.load(x_ptr + number * 4096 + place))
        fence_async_shared()
        tma_store(out, [number * 128, 0], tile)
        tma.store_wait(0)
        x = gl.load(out_ptr + number * 8192 + 4096 + place)  # A + 4096 -> + 2048; missing-wait with A
        gl.store(out_ptr + number * 8192 + 4096 + place, x + 1.0)


@gluon.jit
def ping_pong__first(tile, turn, out_ptr, layout: gl.constexpr, TILES: gl.constexpr):
    lanes = gl.arange(0, 512, layout=layout)
    for number in range(TILES):
        mbarrier.wait(turn.index(0), (number & 1) ^ 1)  # A ^ 1 -> ^ 0; endless-wait with A, B, D, E
        tile.store((lanes + number).to(gl.float32))
        gl.store(out_ptr + number * 1024 + lanes, tile.load(layout))
        mbarrier.arrive(turn.index(1), count=1)  # B removed; C turn.index(1) -> turn.index(0)


@gluon.jit
def ping_pong__second(tile, turn, out_ptr, layout: gl.constexpr, TILES: gl.constexpr):
    lanes = gl.arange(0, 512, layout=layout)
    for number in range(TILES):
        mbarrier.wait(turn.index(1), number & 1)  # D & 1 -> & 1 ^ 1; endless-wait with C
        tile.store((2 * lanes + number).to(gl.float32))
        gl.store(out_ptr + number * 1024 + 512 + lanes, tile.load(layout))
        mbarrier.arrive(turn.index(0), count=1)  # E removed


@gluon.jit
def ping_pong(out_ptr, TILES: gl.constexpr):
    """Two groups of warps that use one tile in turns."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    tile = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    turn = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(turn.index(0), count=1)
    mbarrier.init(turn.index(1), count=1)
    gl.warp_specialize([(ping_pong__first, (tile, turn, out_ptr, layout, TILES)), (ping_pong__second, (tile, turn, out_ptr, layout, TILES))], [4], [128])


@gluon.jit
def prefetched(source, out_ptr, TILES: gl.constexpr):
    """Two stages of TMA loads, with a condition for the load beyond the last tile."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    place = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None] * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    stages = gl.allocate_shared_memory(source.dtype, [2, 64, 64], source.layout)
    filled = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(filled.index(0), count=1)
    mbarrier.init(filled.index(1), count=1)
    for number in range(TILES + 1):
        more = number < TILES  # A number < TILES -> number <= TILES
        mbarrier.expect(filled.index(number % 2), source.block_type.nbytes, pred=more)  # B pred=more -> pred=number + 1 < TILES; C removed
        tma_load(source, [number * 64, 0], filled.index(number % 2), stages.index(number % 2), pred=more)  # missing-wait with A
        if number > 0:
            mbarrier.wait(filled.index((number - 1) % 2), (number - 1) // 2 & 1)  # D // 2 & 1 -> & 1; endless-wait with B, C
            x = stages.index((number - 1) % 2).load(layout)  # missing-wait with D
            gl.store(out_ptr + (number - 1) * 4096 + place, x + x)


@gluon.jit
def tensor_copies(x_ptr, out_ptr, TILES: gl.constexpr):
    """Tiles that go to tensor memory by tcgen05.cp."""
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([128, 32], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (128, 32), tensor_layout, 4)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    place = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))[:, None] * 32 + gl.arange(0, 32, layout=gl.SliceLayout(0, layout))[None, :]
    stages = gl.allocate_shared_memory(gl.float32, [2, 128, 32], gl.NVMMASharedLayout(128, 32, rank=2))
    copied = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(copied, count=1)  # D =1 -> =2
    held = blackwell.allocate_tensor_memory(gl.float32, [128, 32], tensor_layout)
    for number in range(TILES):
        stage = number % 2
        stages.index(stage).store(gl.load(x_ptr + number * 4096 + place))
        fence_async_shared()
        blackwell.tcgen05_copy(stages.index(stage), held)
        blackwell.tcgen05_commit(copied)  # A removed
        pass  # E pass -> stages.index(stage).store(gl.full((128, 32), 0.0, gl.float32, layout)); missing-wait with E  # noqa: PIE790
        mbarrier.wait(copied, number & 1)  # B removed; C & 1 -> & 1 ^ 1; endless-wait with A, D
        tile = gl.convert_layout(held.load(registers), layout)  # missing-wait with B, C
        gl.store(out_ptr + number * 4096 + place, 2 * tile)


@gluon.jit
def tensor_slices(a_ptr, b_ptr, out_ptr, TILES: gl.constexpr):
    """Two products in slices of one allocation, a third one whose operand is a slice of another type."""
    tensor_layout: gl.constexpr = blackwell.TensorMemoryLayout([128, 128], col_stride=1)
    half_layout: gl.constexpr = blackwell.TensorMemoryLayout([128, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (128, 64), half_layout, 4)
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2)
    tile_a = gl.allocate_shared_memory(gl.float16, [128, 64], shared, gl.load(a_ptr + rows * 64 + columns))
    inner = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None]
    tile_b = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(b_ptr + inner * 64 + columns))
    fence_async_shared()
    done = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(3):
        mbarrier.init(done.index(number), count=1)
    whole = blackwell.allocate_tensor_memory(gl.float32, [128, 128], tensor_layout)
    left = whole.slice(0, 64)  # A slice(0, 64) -> slice(32, 64)
    right = whole.slice(64, 64)
    weights = whole.slice(0, 32)._reinterpret(gl.float16, [128, 64], half_layout)  # B slice(0, 32) -> slice(96, 32)
    for number in range(TILES):
        blackwell.tcgen05_mma(tile_a, tile_b, left, use_acc=False, mbarriers=[done.index(0)])
        blackwell.tcgen05_mma(tile_a, tile_b, right, use_acc=False, mbarriers=[done.index(1)])
        mbarrier.wait(done.index(0), number & 1)  # C removed
        sums = left.load(registers)  # missing-wait with A, C
        weights.store(sums.to(gl.float16))  # missing-wait with B
        mbarrier.wait(done.index(1), number & 1)  # D done.index(1) -> done.index(2); endless-wait with D
        blackwell.tcgen05_mma(weights, tile_b, right, use_acc=True, mbarriers=[done.index(2)])
        mbarrier.wait(done.index(2), number & 1)  # E removed; F (2) -> (1); G & 1 -> & 1 ^ 1
        total = gl.convert_layout(right.load(registers), layout)  # missing-wait with E, F, G
        gl.store(out_ptr + rows * 64 + columns, total)


NAMES = ("reused", "same_place", "read_back", "ping_pong", "prefetched", "tensor_copies", "tensor_slices")


def launched(name: str) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """A kernel with its arguments, whose last one is the output, and what it should store."""
    half, kernel = torch.float16, globals()[name]
    match name:
        case "reused":
            a, b = normal(64 * TILES, 64, dtype=half, seed=1), normal(64, 64, dtype=half)
            return kernel, (described(a), described(b), described(torch.zeros_like(a))), a.float() @ b.float()
        case "same_place":
            x = normal(TILES, 64, 64, dtype=half)
            right = torch.cat((x + x, x + x + x), 1).view(-1, 64)
            return kernel, (x, described(torch.zeros_like(right))), right
        case "read_back":
            x, out = normal(TILES, 64, 64, dtype=half), torch.zeros(TILES, 2, 64, 64, dtype=half)
            right = torch.stack((x, torch.ones_like(x)), 1)
            return kernel, (x, described(out.view(-1, 64)), out), right
        case "ping_pong":
            numbers = torch.arange(512.0)
            right = torch.stack([torch.cat((numbers + each, 2 * numbers + each)) for each in range(TILES)])
            return kernel, (torch.zeros(TILES, 1024),), right
        case "tensor_slices":
            a, b = normal(128, 64, dtype=half, seed=1), normal(64, 64, dtype=half) / 8
            product = a.float() @ b.float()
            return kernel, (a, b, torch.zeros(128, 64)), product + product.to(half).float() @ b.float()
        case "prefetched":
            x = normal(64 * TILES, 64, dtype=half)
            return kernel, (described(x), torch.zeros_like(x)), x + x
    numbers = normal(4096 * TILES)
    return kernel, (numbers, torch.zeros_like(numbers)), 2 * numbers
