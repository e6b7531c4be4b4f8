"""Asynchronous pipelines as real kernels have them: in Gluon, with the structure of Triton's
tutorials, a matmul for Ampere, a persistent one for Blackwell, and attention for Hopper; in Triton,
with that of triton_kernels, a matmul of experts, whose pipeline the compiler makes.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.cases.case import normal
from tests.corpus.gluon_kernels import copy_to_shared, described, tma_load, tma_store

# fmt: off


@gluon.jit
def copied_matmul__copy(a, b, a_stages, b_stages, N, K, number):
    """Copy the blocks of a and b that step `number` along K needs; none after the last."""
    if number < K // 64:
        copy_to_shared(a_stages.index(number % a_stages.shape[0]), a + number * 64)
        copy_to_shared(b_stages.index(number % a_stages.shape[0]), b + number * 64 * N)
    async_copy.commit_group()  # A async_copy.commit_group() -> if number < K // 64: async_copy.commit_group()


@gluon.jit
def copied_matmul(a, b, c, N, K, STAGES: gl.constexpr):
    """c = a @ b by cp.async: copies run STAGES - 1 blocks ahead of the product."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    m, n = gl.program_id(0) // (N // 64) * 64, gl.program_id(0) % (N // 64) * 64
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    a_tile, b_tile = a + (m + rows) * K + columns, b + rows * N + n + columns
    a_stages = gl.allocate_shared_memory(gl.float16, [STAGES, 64, 64], shared)
    b_stages = gl.allocate_shared_memory(gl.float16, [STAGES, 64, 64], shared)
    for number in gl.static_range(STAGES - 1):
        copied_matmul__copy(a_tile, b_tile, a_stages, b_stages, N, K, number)
    sums = gl.zeros((64, 64), gl.float32, sums_layout)
    for number in range(K // 64):
        async_copy.wait_group(STAGES - 2)
        left = a_stages.index(number % STAGES).load(gl.DotOperandLayout(0, sums_layout, 2))  # missing-wait with A
        right = b_stages.index(number % STAGES).load(gl.DotOperandLayout(1, sums_layout, 2))  # missing-wait with A
        copied_matmul__copy(a_tile, b_tile, a_stages, b_stages, N, K, number + STAGES - 1)
        sums = mma_v2(left, right, sums)
    total = gl.convert_layout(sums, layout).to(gl.float16)
    gl.store(c + (m + rows) * N + n + columns, total)


@gluon.jit
def matmul__load(a, b, a_stages, b_stages, filled, emptied, N, K, blocks):
    STAGES: gl.constexpr = a_stages.shape[0]
    count = 0
    for number in range(gl.program_id(0), blocks, gl.num_programs(0)):
        m, n = number // (N // 64) * 64, number % (N // 64) * 64
        for k in range(0, K, 64):
            stage = count % STAGES
            mbarrier.wait(emptied.index(stage), (count // STAGES & 1) ^ 1)
            mbarrier.expect(filled.index(stage), a.block_type.nbytes + b.block_type.nbytes)
            tma_load(a, [m, k], filled.index(stage), a_stages.index(stage))
            tma_load(b, [k, n], filled.index(stage), b_stages.index(stage))
            count += 1


@gluon.jit
def matmul__multiply(a_stages, b_stages, sums, filled, emptied, done, read, K, blocks):
    STAGES: gl.constexpr = a_stages.shape[0]
    count = 0
    for number in range(gl.program_id(0), blocks, gl.num_programs(0)):
        block = number // gl.num_programs(0)
        mbarrier.wait(read.index(block % 2), (block // 2 & 1) ^ 1)  # D (block // 2 & 1) -> (block & 1)
        for k in range(0, K, 64):
            stage = count % STAGES
            mbarrier.wait(filled.index(stage), count // STAGES & 1)
            tile_a, tile_b = a_stages.index(stage), b_stages.index(stage)
            blackwell.tcgen05_mma(tile_a, tile_b, sums.index(block % 2), use_acc=k > 0)  # missing-wait with C
            blackwell.tcgen05_commit(emptied.index(stage))
            count += 1
        blackwell.tcgen05_commit(done.index(block % 2))  # A done.index -> read.index


@gluon.jit
def matmul__store(c, sums, done, read, N, blocks, registers: gl.constexpr):
    result = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    for number in range(gl.program_id(0), blocks, gl.num_programs(0)):
        block = number // gl.num_programs(0)
        mbarrier.wait(done.index(block % 2), block // 2 & 1)  # endless-wait with A, D
        total = sums.index(block % 2).load(registers)  # C total = sums.index(block % 2).load(registers) -> mbarrier.arrive(read.index(block % 2), count=1)
        mbarrier.arrive(read.index(block % 2), count=1)  # C mbarrier.arrive(read.index(block % 2), count=1) -> total = sums.index(block % 2).load(registers)
        tma.store_wait(0)  # B (0) -> (1)
        result.store(total.to(c.dtype))  # missing-wait with B
        fence_async_shared()
        tma_store(c, [number // (N // 64) * 64, number % (N // 64) * 64], result)
    tma.store_wait(0)


@gluon.jit
def matmul(a, b, c, M, N, K, STAGES: gl.constexpr):
    """c = a @ b: one warp loads, one multiplies, four store while the next block is multiplied."""
    layout: gl.constexpr = blackwell.TensorMemoryLayout([64, 64], col_stride=1)
    registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (64, 64), layout, 4)
    a_stages = gl.allocate_shared_memory(a.dtype, [STAGES, 64, 64], a.layout)
    b_stages = gl.allocate_shared_memory(b.dtype, [STAGES, 64, 64], b.layout)
    filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    read = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    for stage in gl.static_range(2):
        mbarrier.init(done.index(stage), count=1)
        mbarrier.init(read.index(stage), count=1)
    sums = blackwell.allocate_tensor_memory(gl.float32, [2, 64, 64], layout)
    blocks = (M // 64) * (N // 64)
    gl.warp_specialize([(matmul__store, (c, sums, done, read, N, blocks, registers)), (matmul__load, (a, b, a_stages, b_stages, filled, emptied, N, K, blocks)), (matmul__multiply, (a_stages, b_stages, sums, filled, emptied, done, read, K, blocks))], [1, 1], [24, 24])


@gluon.jit
def attention__load(q, k, v, tiles, barriers, N):
    q_tile, k_stages, v_stages = tiles
    q_filled, k_filled, v_filled, emptied = barriers
    mbarrier.expect(q_filled, q.block_type.nbytes)
    tma_load(q, [gl.program_id(0) * 64, 0], q_filled, q_tile)
    STAGES: gl.constexpr = k_stages.shape[0]
    for count in range(N // 64):
        stage = count % STAGES
        mbarrier.wait(emptied.index(stage), (count // STAGES & 1) ^ 1)
        mbarrier.expect(k_filled.index(stage), k.block_type.nbytes)
        tma_load(k, [count * 64, 0], k_filled.index(stage), k_stages.index(stage))
        mbarrier.expect(v_filled.index(stage), v.block_type.nbytes)  # C nbytes -> nbytes // 2
        tma_load(v, [count * 64, 0], v_filled.index(stage), v_stages.index(stage))


@gluon.jit
def attention__attend(out, tiles, barriers, scale, N):
    q_tile, k_stages, v_stages = tiles
    q_filled, k_filled, v_filled, emptied = barriers
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    STAGES: gl.constexpr = k_stages.shape[0]
    largest = gl.full((64,), float("-inf"), gl.float32, gl.SliceLayout(1, layout))
    total = gl.zeros((64,), gl.float32, gl.SliceLayout(1, layout))
    sums = warpgroup_mma_init(gl.zeros((64, 64), gl.float32, layout))
    mbarrier.wait(q_filled, 0)
    for count in range(N // 64):
        stage = count % STAGES
        mbarrier.wait(k_filled.index(stage), count // STAGES & 1)  # A // STAGES & 1 -> & 1
        scores = gl.zeros((64, 64), gl.float32, layout)
        keys = k_stages.index(stage).permute((1, 0))
        scores = warpgroup_mma(q_tile, keys, scores, is_async=True)  # missing-wait with A
        sums = warpgroup_mma_wait(num_outstanding=1, deps=(sums,))
        mbarrier.arrive(emptied.index((count + STAGES - 1) % STAGES), count=1, pred=count > 0)
        scores = warpgroup_mma_wait(num_outstanding=0, deps=(scores,))
        new_largest = gl.maximum(largest, gl.max(scores, 1) * scale)
        weights = gl.exp2(scores * scale - new_largest[:, None])
        correction = gl.exp2(largest - new_largest)
        total = total * correction + gl.sum(weights, 1)
        sums = sums * correction[:, None]
        largest = new_largest
        weights = gl.convert_layout(weights.to(gl.float16), operand)
        mbarrier.wait(v_filled.index(stage), count // STAGES & 1)  # B v_filled -> k_filled; endless-wait with C
        sums = warpgroup_mma(weights, v_stages.index(stage), sums, is_async=True)  # missing-wait with B
    sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))
    q_tile.store((sums / total[:, None]).to(gl.float16))
    fence_async_shared()
    tma_store(out, [gl.program_id(0) * 64, 0], q_tile)
    tma.store_wait(0)


@gluon.jit
def attention(q, k, v, out, scale, N, STAGES: gl.constexpr):
    """softmax(q @ k.T * scale) @ v, by powers of two: one warp loads, four compute."""
    q_tile = gl.allocate_shared_memory(q.dtype, [64, 64], q.layout)
    k_stages = gl.allocate_shared_memory(k.dtype, [STAGES, 64, 64], k.layout)
    v_stages = gl.allocate_shared_memory(v.dtype, [STAGES, 64, 64], v.layout)
    q_filled = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_filled, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_filled.index(stage), count=1)
        mbarrier.init(v_filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=1)
    tiles = (q_tile, k_stages, v_stages)
    barriers = (q_filled, k_filled, v_filled, emptied)
    gl.warp_specialize([(attention__attend, (out, tiles, barriers, scale, N)), (attention__load, (q, k, v, tiles, barriers, N))], [1], [24])


@triton.jit
def swiglu(sums, alpha, limit):
    gate, linear = sums.reshape(sums.shape[0], sums.shape[1] // 2, 2).split()
    gate, linear = tl.minimum(gate, limit), tl.clamp(linear, -limit, limit)
    return (gate / (1 + tl.exp2(-1.4426950408889634 * alpha * gate)) * (linear + 1)).to(tl.float16)


@triton.jit
def experts(
    x, x_rows, rows_ptr, w, out, bias_ptr, schedule_ptr, counts_ptr, starts_ptr, blocks, N, K, alpha, limit,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GATHERS: tl.constexpr, SPECIALIZE: tl.constexpr,
):
    """The tokens of each expert times its weights, and a SwiGLU; one persistent program."""
    for tile in tl.range(0, blocks * (N // BLOCK_N), 1, flatten=not SPECIALIZE, warp_specialize=SPECIALIZE):
        block, column = tile // (N // BLOCK_N), tile % (N // BLOCK_N) * BLOCK_N
        scheduled = tl.load(schedule_ptr + block)
        expert, lanes = scheduled & 0xFFFF, (scheduled >> 16) * BLOCK_M + tl.arange(0, BLOCK_M)
        inside = lanes < tl.load(counts_ptr + expert)
        rows = tl.load(rows_ptr + tl.load(starts_ptr + expert) + lanes, mask=inside, other=0)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            if GATHERS:
                tokens = x_rows.gather(rows, k)
            else:
                at = k + tl.arange(0, BLOCK_K)[None, :]
                tokens = tl.load(x + rows[:, None] * K + at, mask=at < K, other=0.0)
            sums = tl.dot(tokens, w.load([expert, k, column]).reshape(BLOCK_K, BLOCK_N), sums)
        sums += tl.load(bias_ptr + expert * N + column + tl.arange(0, BLOCK_N))[None, :]
        left, right = sums.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
        out.store([block * BLOCK_M, column // 2], swiglu(left, alpha, limit))
        out.store([block * BLOCK_M, column // 2 + BLOCK_N // 4], swiglu(right, alpha, limit))


def launched_experts(k: int, **how: bool) -> tuple[tuple[Any, ...], dict[str, Any], torch.Tensor]:
    """Arguments and keywords of `experts`, the descriptor `out` at 4, and what it should store."""
    counts, of_block = torch.tensor((70, 0, 130), dtype=torch.int32), TensorDescriptor.from_tensor
    starts = (counts.cumsum(0) - counts).to(torch.int32)
    x, w = normal(90, 192, dtype=torch.float16), normal(3, 192, 128, dtype=torch.float16, seed=1) / 8
    rows, bias = (torch.arange(200, dtype=torch.int32) * 37 + 11) % 90, normal(3, 128, seed=2)
    tiles = [(0, 0), (2, 0), (2, 1)]
    schedule = torch.tensor([expert | block << 16 for expert, block in tiles], dtype=torch.int32)
    out, right = torch.zeros(3 * 128, 64, dtype=torch.float16), torch.zeros(3, 128, 64)
    for number, (expert, block) in enumerate(tiles):
        lanes = block * 128 + torch.arange(128)
        chosen = torch.where(lanes < counts[expert], rows[(starts[expert] + lanes).clamp(max=199)], 0)
        sums = x[chosen.long()].float()[:, :k] @ w[expert].float()[:k] + bias[expert]
        gate, linear = sums[:, 0::2].clamp(max=7.0), sums[:, 1::2].clamp(-7, 7)
        right[number] = gate * torch.sigmoid(1.7 * gate) * (linear + 1)
    described_out, weights = of_block(out, [128, 32]), of_block(w, [1, 64, 128])
    schedules = (schedule, counts, starts, len(tiles), 128, k, 1.7, 7.0)
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_stages": 3}
    arguments = x, of_block(x, [1, 64]), rows, weights, described_out, bias, *schedules
    return arguments, {**blocks, **how}, right.view(-1, 64)


NAMES = ("copied_matmul", "matmul", "attention")


def target_of(name: str) -> str:
    """The GPU that a kernel is for."""
    return {"copied_matmul": "sm_80", "matmul": "sm_100", "attention": "sm_90"}[name]


def launched(name: str) -> tuple[Any, int, tuple[Any, ...], torch.Tensor, torch.Tensor]:
    """A kernel, its number of programs, its arguments, the output and what it should hold."""
    half = torch.float16
    if name == "attention":
        q, k, v = (normal(size, 64, dtype=half, seed=size) for size in (128, 256, 257))
        v, out = v[:256], torch.zeros_like(q)
        right = torch.softmax(q.float() @ k.float().T / 8, 1) @ v.float()
        scale = 0.125 * 1.4426950408889634
        return attention, 2, (*map(described, (q, k, v, out)), scale, len(k), 2), out, right
    a, b = normal(128, 256, dtype=half, seed=1), normal(256, 128, dtype=half, seed=2)
    out, right = torch.zeros(128, 128, dtype=half), a.float() @ b.float()
    if name == "matmul":
        return matmul, 1, (*map(described, (a, b, out)), 128, 128, 256, 2), out, right
    return copied_matmul, 4, (a, b, out, 128, 256, 3), out, right
