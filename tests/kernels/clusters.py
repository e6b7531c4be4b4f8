"""Gluon kernels of clusters of two CTAs, and the ways to break each; from Triton 3.7 on."""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.hopper import cluster, fence_async_shared, mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from tests.cases.case import normal
from tests.corpus.gluon_kernels import tma_load

TILES = 5

# fmt: off


@gluon.jit
def multicast(source, LAYOUT: gl.constexpr, out_ptr, TILES: gl.constexpr):
    """Each tile is loaded once for both CTAs, or half of it for each, as the descriptor says."""
    stages = gl.allocate_shared_memory(source.dtype, [2, 128, 64], source.layout)
    filled = mbarrier.allocate_mbarrier(batch=2)
    mbarrier.init(filled.index(0), count=1)  # A =1 -> =2
    mbarrier.init(filled.index(1), count=1)
    mbarrier.sync_cluster_init()  # F removed
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, LAYOUT))
    for number in range(TILES):
        stage = number % 2
        mbarrier.expect(filled.index(stage), source.nbytes_per_cta)  # B nbytes_per_cta -> nbytes_per_cta * 2; C removed; J nbytes_per_cta -> nbytes_per_cta // 2
        tma_load(source, [number * 128, 0], filled.index(stage), stages.index(stage), multicast=True)  # missing-wait with F, G, H, I
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # D removed; E & 1 -> & 1 ^ 1; endless-wait with A, B, C, J
        x = stages.index(stage).load(LAYOUT)  # missing-wait with D, E
        cluster.arrive(relaxed=False)  # G removed; H =False -> =True
        gl.store(out_ptr + number * 8192 + rows[:, None] * 64 + columns[None, :], x + x)
        cluster.wait()  # I removed


@gluon.jit
def tensor_pairs(a, b, LAYOUT: gl.constexpr, TENSOR: gl.constexpr, out_ptr, TILES: gl.constexpr):
    """A pair of CTAs multiplies together: the first waits for the tiles of both."""
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (256, 128), TENSOR, 4, cga_layout=[[1, 0]])
    rows = gl.arange(0, 256, layout=gl.SliceLayout(1, LAYOUT))[:, None]
    columns = gl.arange(0, 128, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    tile_a = gl.allocate_shared_memory(a.dtype, [256, 64], a.layout)
    tile_b = gl.allocate_shared_memory(b.dtype, [64, 128], b.layout)
    filled = mbarrier.allocate_mbarrier(two_ctas=True)  # A =True -> =False
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(filled, count=1)  # B =1 -> =2
    mbarrier.init(done, count=1)
    mbarrier.sync_cluster_init()  # C removed
    sums = blackwell.allocate_tensor_memory(gl.float32, [256, 128], TENSOR)
    for number in range(TILES):
        mbarrier.expect(filled, a.nbytes_per_cta + b.nbytes_per_cta)  # D a.nbytes_per_cta + -> 1 *; E removed
        tma_load(a, [0, number * 64], filled, tile_a)  # missing-wait with C, F
        tma_load(b, [number * 64, 0], filled, tile_b)  # missing-wait with C, F
        mbarrier.wait(filled, number & 1)  # G removed; H & 1 -> & 1 ^ 1; endless-wait with B, D, E
        pass  # I pass -> gl.store(out_ptr, gl.sum(gl.sum(tile_b.load(LAYOUT), 1), 0)); missing-wait with I  # noqa: PIE790
        blackwell.tcgen05_mma(tile_a, tile_b, sums, use_acc=number > 0, mbarriers=[done])  # missing-wait with A, C, G, H
        mbarrier.wait(done, number & 1)  # F removed
    total = gl.convert_layout(sums.load(registers), LAYOUT)  # missing-wait with F
    gl.store(out_ptr + rows * 128 + columns, total + 1.0)


@gluon.jit
def tensor_sharing(a, b, LAYOUT: gl.constexpr, TENSOR: gl.constexpr, out_ptr, TILES: gl.constexpr):
    """Each CTA multiplies its rows with a tile that one of them loads for both."""
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (256, 128), TENSOR, 4, cga_layout=[[1, 0]])
    rows = gl.arange(0, 256, layout=gl.SliceLayout(1, LAYOUT))[:, None]
    columns = gl.arange(0, 128, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    tile_a = gl.allocate_shared_memory(a.dtype, [256, 64], a.layout)
    tile_b = gl.allocate_shared_memory(b.dtype, [64, 128], b.layout)
    filled = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(filled, count=1)
    mbarrier.init(done, count=2)  # A =2 -> =1; B =2 -> =1
    mbarrier.sync_cluster_init()  # C removed
    sums = blackwell.allocate_tensor_memory(gl.float32, [256, 128], TENSOR)
    for number in range(TILES):
        mbarrier.expect(filled, a.nbytes_per_cta + b.nbytes_per_cta)
        tma_load(a, [0, number * 64], filled, tile_a)  # missing-wait with D
        tma_load(b, [number * 64, 0], filled, tile_b, multicast=True)  # missing-wait with A, C, D
        mbarrier.wait(filled, number & 1)
        blackwell.tcgen05_mma(tile_a, tile_b, sums, use_acc=number > 0)
        blackwell.tcgen05_commit(done, descs=[tile_a, tile_b])  # A descs=[tile_a, tile_b] -> pred=True; E descs=[tile_a, tile_b] -> pred=True; extra-arrival with B; missing-wait with C
        mbarrier.wait(done, number & 1)  # D removed; endless-wait with E
    total = gl.convert_layout(sums.load(registers), LAYOUT)  # missing-wait with D
    gl.store(out_ptr + rows * 128 + columns, total + 1.0)


@gluon.jit
def tensor_stores(a_ptr, b_ptr, LAYOUT: gl.constexpr, TENSOR: gl.constexpr, out_ptr, TILES: gl.constexpr):
    """Each CTA of a pair stores its part of the tiles that the first one multiplies."""
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (256, 128), TENSOR, 4, cga_layout=[[1, 0]])
    split: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    rows = gl.arange(0, 256, layout=gl.SliceLayout(1, LAYOUT))[:, None]
    inner = gl.arange(0, 64, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    place_b = gl.arange(0, 64, layout=gl.SliceLayout(1, split))[:, None] * 128 + gl.arange(0, 128, layout=gl.SliceLayout(0, split))[None, :]
    tile_a = gl.allocate_shared_memory(gl.float16, [256, 64], gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[[1, 0]]))
    tile_b = gl.allocate_shared_memory(gl.float16, [64, 128], gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[[0, 1]]))
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    mbarrier.sync_cluster_init()
    sums = blackwell.allocate_tensor_memory(gl.float32, [256, 128], TENSOR)
    for number in range(TILES):
        tile_a.store(gl.load(a_ptr + rows * (64 * TILES) + number * 64 + inner))  # missing-wait with B
        tile_b.store(gl.load(b_ptr + number * 64 * 128 + place_b))
        fence_async_shared(cluster=True)
        gl.barrier(cluster=True)  # A removed
        blackwell.tcgen05_mma(tile_a, tile_b, sums, use_acc=number > 0, mbarriers=[done])  # missing-wait with A
        mbarrier.wait(done, number & 1)  # B removed
    total = gl.convert_layout(sums.load(registers), LAYOUT)  # missing-wait with B
    columns = gl.arange(0, 128, layout=gl.SliceLayout(0, LAYOUT))[None, :]
    gl.store(out_ptr + rows * 128 + columns, total + 1.0)


NAMES: tuple[str, ...] = ("multicast",)
if "cta_split_num" in blackwell.TensorMemoryLayout.__dataclass_fields__:  # Triton 3.7
    NAMES = (*NAMES, "tensor_pairs", "tensor_sharing", "tensor_stores")
CTAS = 2
"""The kernels that are launched, and the CTAs of each program."""


def launched(name: str, *, splits: bool = False) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """A kernel with its arguments, the output last, and what it should store."""
    kernel, half = globals()[name], torch.float16
    parts = int(splits or name != "multicast")
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[parts, 0]])
    if name == "multicast":
        x = normal(128 * TILES, 64, dtype=half)
        return kernel, (_described(x, [128, 64], [parts, 0]), layout, torch.zeros_like(x)), x + x
    a, b = normal(256, 64 * TILES, dtype=half, seed=1), normal(64 * TILES, 128, dtype=half)
    is_pair = name != "tensor_sharing"
    tensor = blackwell.TensorMemoryLayout([128, 128], 1, cta_split_num=(2, 1), two_ctas=is_pair)
    if name == "tensor_stores":
        return kernel, (a, b, layout, tensor, torch.zeros(256, 128)), a.float() @ b.float() + 1
    operands = _described(a, [256, 64], [1, 0]), _described(b, [64, 128], [0, int(is_pair)])
    return kernel, (*operands, layout, tensor, torch.zeros(256, 128)), a.float() @ b.float() + 1


def _described(tensor: torch.Tensor, block: list[int], part: list[int]) -> TensorDescriptor:
    shared = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[part])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block, shared)
