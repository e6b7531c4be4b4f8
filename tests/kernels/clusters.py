"""Gluon kernels whose programs are clusters of two CTAs, and the ways to break them, in the way of
`asynchronous`; from Triton 3.7 on.
"""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import cluster, mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from tests.cases.case import normal
from tests.corpus.gluon_kernels import tma_load

TILES = 5
"""What the launches have."""

# fmt: off


@gluon.jit
def multicast(source, out_ptr, LAYOUT: gl.constexpr, TILES: gl.constexpr):
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
        mbarrier.expect(filled.index(stage), source.nbytes_per_cta)  # B nbytes_per_cta -> nbytes_per_cta * 2; C removed
        tma_load(source, [number * 128, 0], filled.index(stage), stages.index(stage), multicast=True)  # missing-wait with F, G, H, I
        mbarrier.wait(filled.index(stage), number // 2 & 1)  # D removed; E & 1 -> & 1 ^ 1; endless-wait with A, B, C
        x = stages.index(stage).load(LAYOUT)  # missing-wait with D, E
        cluster.arrive(relaxed=False)  # G removed; H =False -> =True
        gl.store(out_ptr + number * 8192 + rows[:, None] * 64 + columns[None, :], x + x)
        cluster.wait()  # I removed


@gluon.jit
def paired(out_ptr):
    """The CTAs share a barrier."""
    filled = mbarrier.allocate_mbarrier(two_ctas=True)
    mbarrier.init(filled, count=1)
    gl.store(out_ptr, 1.0)


def launched(splits: bool) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    """`multicast` with its arguments, the output before the layout, and what it should store. Only
    tiles that are not split are loaded by one CTA for the other.
    """
    x = normal(128 * TILES, 64, dtype=torch.float16)
    shared = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=[[int(splits), 0]])
    source = TensorDescriptor(x, list(x.shape), list(x.stride()), [128, 64], shared)
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[int(splits), 0]])
    return multicast, (source, torch.zeros_like(x), layout), x + x
