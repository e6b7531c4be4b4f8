"""The gallery's kernels: short ones as a tutorial has them, and the fastest that were found."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

# Triton 3.9 has shorter names for these; before, it has none of them.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@triton.jit
def short_matmul(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """c = a @ b, by tensor descriptors: one block of c a program, in groups of GROUP rows."""
    in_group = GROUP * tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // in_group * GROUP
    rows = min(tl.cdiv(M, BLOCK_M) - first, GROUP)
    m = (first + tl.program_id(0) % in_group % rows) * BLOCK_M
    n = tl.program_id(0) % in_group // rows * BLOCK_N
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        accumulator = tl.dot(a.load([m, k]), b.load([k, n]), accumulator)
    c.store([m, n], accumulator.to(tl.float16))


@triton.jit
def corner(number, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Where a block of c begins, counted in groups of GROUP rows of blocks."""
    in_group = GROUP * tl.cdiv(N, BLOCK_N)
    first = number // in_group * GROUP
    rows = min(tl.cdiv(M, BLOCK_M) - first, GROUP)
    m = (first + number % in_group % rows) * BLOCK_M
    return m, number % in_group // rows * BLOCK_N


@triton.jit
def persistent_matmul(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """`short_matmul` with one program a multiprocessor: each takes every so-manieth block."""
    blocks = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for number in tl.range(
        tl.program_id(0), blocks, tl.num_programs(0), flatten=FLATTEN, warp_specialize=SPECIALIZE
    ):
        m, n = corner(number, M, N, BLOCK_M, BLOCK_N, GROUP)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            accumulator = tl.dot(a.load([m, k]), b.load([k, n]), accumulator)
        c.store([m, n], accumulator.to(tl.float16))


@gluon.jit
def gluon_corner(number, M, N, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, GROUP: gl.constexpr):
    """`corner` in Gluon."""
    in_group = GROUP * gl.cdiv(N, BLOCK_N)
    first = number // in_group * GROUP
    rows = gl.minimum(gl.cdiv(M, BLOCK_M) - first, GROUP)
    m = (first + number % in_group % rows) * BLOCK_M
    return m, number % in_group // rows * BLOCK_N


@gluon.jit
def load_halves(
    a, b, a_stages, b_stages, filled, emptied, M, N, K,
    BLOCK_N: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """The warp that copies: a block of a, in two halves, and one of b, once a stage is empty."""
    HALF: gl.constexpr = a.block_type.shape[0]
    BLOCK_K: gl.constexpr = a.block_type.shape[1]
    count = 0
    blocks = gl.cdiv(M, 2 * HALF) * gl.cdiv(N, BLOCK_N)
    for number in range(gl.program_id(0), blocks, gl.num_programs(0)):
        m, n = gluon_corner(number, M, N, 2 * HALF, BLOCK_N, GROUP)
        for k in range(0, K, BLOCK_K):
            stage = count % STAGES
            mbarrier.wait(emptied.index(stage), (count // STAGES & 1) ^ 1)
            mbarrier.expect(filled.index(stage), 2 * a.block_type.nbytes + b.block_type.nbytes)
            tma_load(a, [m, k], filled.index(stage), a_stages.index(2 * stage))
            tma_load(a, [m + HALF, k], filled.index(stage), a_stages.index(2 * stage + 1))
            tma_load(b, [k, n], filled.index(stage), b_stages.index(stage))
            count += 1


@gluon.jit
def multiply_half(
    c, a_stages, b_stages, c_stages, filled, emptied, M, N, K,
    SIDE: gl.constexpr, STAGES: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """Four warps that multiply half of a's rows; while they write, the other half multiplies."""
    HALF: gl.constexpr = a_stages.shape[1]
    BLOCK_K: gl.constexpr = a_stages.shape[2]
    BLOCK_N: gl.constexpr = b_stages.shape[2]
    WIDTH: gl.constexpr = c_stages.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    narrow: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    c_stage = c_stages.index(SIDE)
    count = 0
    blocks = gl.cdiv(M, 2 * HALF) * gl.cdiv(N, BLOCK_N)
    for number in range(gl.program_id(0), blocks, gl.num_programs(0)):
        m, n = gluon_corner(number, M, N, 2 * HALF, BLOCK_N, GROUP)
        accumulator = gl.zeros((HALF, BLOCK_N), gl.float32, layout=layout)
        for k in range(0, K, BLOCK_K):
            stage = count % STAGES
            mbarrier.wait(filled.index(stage), count // STAGES & 1)
            accumulator = hopper.warpgroup_mma(
                a_stages.index(2 * stage + SIDE), b_stages.index(stage), accumulator,
                use_acc=k > 0, is_async=True,
            )  # fmt: skip
            accumulator = hopper.warpgroup_mma_wait(1, [accumulator])
            mbarrier.arrive(emptied.index((count + STAGES - 1) % STAGES), count=1, pred=k > 0)
            count += 1
        result = hopper.warpgroup_mma_wait(0, [accumulator]).to(gl.float16)
        mbarrier.arrive(emptied.index((count + STAGES - 1) % STAGES), count=1)
        m += SIDE * HALF
        if WIDTH == BLOCK_N:
            tma.store_wait(0)
            c_stage.store(result)
            hopper.fence_async_shared()
            tma_store(c, [m, n], c_stage)
        else:
            parts = result.reshape([HALF, 2, WIDTH]).permute(0, 2, 1)
            left, right = gl.split(parts)
            tma.store_wait(0)
            c_stage.store(gl.convert_layout(left, narrow))
            hopper.fence_async_shared()
            tma_store(c, [m, n], c_stage)
            tma.store_wait(0)
            c_stage.store(gl.convert_layout(right, narrow))
            hopper.fence_async_shared()
            tma_store(c, [m, n + WIDTH], c_stage)
    tma.store_wait(0)


@gluon.jit
def halves_matmul(a, b, c, M, N, K, STAGES: gl.constexpr, GROUP: gl.constexpr):
    """c = a @ b in Gluon: one warp copies blocks, two groups of four warps multiply a half each."""
    BLOCK_N: gl.constexpr = b.block_type.shape[1]
    a_stages = gl.allocate_shared_memory(gl.float16, [2 * STAGES] + a.block_type.shape, a.layout)
    b_stages = gl.allocate_shared_memory(gl.float16, [STAGES] + b.block_type.shape, b.layout)
    c_stages = gl.allocate_shared_memory(gl.float16, [2] + c.block_type.shape, c.layout)
    filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    emptied = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(filled.index(stage), count=1)
        mbarrier.init(emptied.index(stage), count=2)
    gl.warp_specialize(
        [
            (
                multiply_half,
                (c, a_stages, b_stages, c_stages, filled, emptied, M, N, K, 0, STAGES, GROUP),
            ),
            (
                multiply_half,
                (c, a_stages, b_stages, c_stages, filled, emptied, M, N, K, 1, STAGES, GROUP),
            ),
            (
                load_halves,
                (a, b, a_stages, b_stages, filled, emptied, M, N, K, BLOCK_N, STAGES, GROUP),
            ),
        ],
        [4, 1],
        [240, 24],
    )


@triton.jit
def attend(accumulator, total, largest, q, k, v, scale, rows, columns, MASKED: tl.constexpr):
    """Take one block of keys and values into a block of queries' running softmax.

    FlashAttention-2, arXiv:2307.08691. `scale` includes log2(e): probabilities are powers of two.
    Where MASKED, keys after a query's own place do not count.
    """
    scores = tl.dot(q, k.T)
    if MASKED:
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
    new_largest = tl.maximum(largest, tl.max(scores, 1) * scale)
    probabilities = tl.math.exp2(scores * scale - new_largest[:, None])
    correction = tl.math.exp2(largest - new_largest)
    total = total * correction + tl.sum(probabilities, 1)
    accumulator = tl.dot(probabilities.to(tl.float16), v, accumulator * correction[:, None])
    return accumulator, total, new_largest


@triton.jit
def attention_forward(
    q_rows, k_rows, v_rows, out_rows, sums_ptr, scale, length,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """softmax(q @ k.T * scale) @ v for a block of queries, and log2 of each row's sum.

    Rows are the tokens of all heads, head after head; lengths are multiples of the blocks.
    """
    # Where rows are of unequal length, the long ones begin first.
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    head = tl.program_id(1) * length
    rows = first + tl.arange(0, BLOCK_M)
    scale *= 1.4426950408889634  # log2(e)
    q = q_rows.load([head + first, 0])
    accumulator = tl.zeros((BLOCK_M, HEAD), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    for start in range(0, first if CAUSAL else length, BLOCK_N):
        k = k_rows.load([head + start, 0])
        v = v_rows.load([head + start, 0])
        accumulator, total, largest = attend(
            accumulator, total, largest, q, k, v, scale, rows, rows, False
        )
    if CAUSAL:
        for start in range(first, first + BLOCK_M, BLOCK_N):  # keys on the diagonal
            k = k_rows.load([head + start, 0])
            v = v_rows.load([head + start, 0])
            columns = start + tl.arange(0, BLOCK_N)
            accumulator, total, largest = attend(
                accumulator, total, largest, q, k, v, scale, rows, columns, True
            )
    tl.store(sums_ptr + head + rows, largest + tl.math.log2(total))
    out_rows.store([head + first, 0], (accumulator / total[:, None]).to(tl.float16))


@triton.jit
def attention_deltas(out_rows, grad_rows, deltas_ptr, ROWS: tl.constexpr):
    """Each row's sum of output times gradient: the way back takes it off each score's gradient."""
    row = tl.program_id(0) * ROWS
    out = out_rows.load([row, 0]).to(tl.float32)
    grad = grad_rows.load([row, 0]).to(tl.float32)
    tl.store(deltas_ptr + row + tl.arange(0, ROWS), tl.sum(out * grad, 1))


@triton.jit
def into_keys(
    dk, dv, k, v, q_rows, grad_rows, sums_ptr, deltas_ptr, scale, start, row, columns,
    BLOCK_M: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add what one block of queries gives to the gradients of a block of keys and values."""
    rows = tl.arange(0, BLOCK_M)
    q = q_rows.load([row, 0])
    grad = grad_rows.load([row, 0])
    sums = tl.load(sums_ptr + row + rows)
    probabilities = tl.math.exp2(tl.dot(k, q.T) * scale - sums[None, :])
    if MASKED:
        probabilities = tl.where(start + rows[None, :] >= columns[:, None], probabilities, 0.0)
    dv = tl.dot(probabilities.to(tl.float16), grad, dv)
    deltas = tl.load(deltas_ptr + row + rows)
    scores = probabilities * (tl.dot(v, grad.T) - deltas[None, :])
    dk = tl.dot(scores.to(tl.float16), q, dk)
    return dk, dv


@triton.jit
def attention_keys(
    q_rows, k_rows, v_rows, grad_rows, dk_rows, dv_rows, sums_ptr, deltas_ptr, scale, length,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradients of one block of keys and values, over all queries that see them."""
    first = tl.program_id(0) * BLOCK_N
    head = tl.program_id(1) * length
    columns = first + tl.arange(0, BLOCK_N)
    k = k_rows.load([head + first, 0])
    v = v_rows.load([head + first, 0])
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    powers = scale * 1.4426950408889634  # log2(e)
    after = 0
    if CAUSAL:
        after = first + BLOCK_N
        for start in range(first, after, BLOCK_M):  # queries on the diagonal
            dk, dv = into_keys(
                dk, dv, k, v, q_rows, grad_rows, sums_ptr, deltas_ptr, powers, start, head + start,
                columns, BLOCK_M, True,
            )  # fmt: skip
    for start in range(after, length, BLOCK_M):
        dk, dv = into_keys(
            dk, dv, k, v, q_rows, grad_rows, sums_ptr, deltas_ptr, powers, start, head + start,
            columns, BLOCK_M, False,
        )  # fmt: skip
    dk_rows.store([head + first, 0], (dk * scale).to(tl.float16))
    dv_rows.store([head + first, 0], dv.to(tl.float16))


@triton.jit
def into_queries(dq, q, grad, k, v, sums, deltas, scale, rows, columns, MASKED: tl.constexpr):
    """Add what one block of keys and values gives to the gradient of a block of queries."""
    probabilities = tl.math.exp2(tl.dot(q, k.T) * scale - sums[:, None])
    if MASKED:
        probabilities = tl.where(rows[:, None] >= columns[None, :], probabilities, 0.0)
    scores = probabilities * (tl.dot(grad, v.T) - deltas[:, None])
    return tl.dot(scores.to(tl.float16), k, dq)


@triton.jit
def attention_queries(
    q_rows, k_rows, v_rows, grad_rows, dq_rows, sums_ptr, deltas_ptr, scale, length,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradient of one block of queries, over all keys that they see."""
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    head = tl.program_id(1) * length
    rows = first + tl.arange(0, BLOCK_M)
    q = q_rows.load([head + first, 0])
    grad = grad_rows.load([head + first, 0])
    sums = tl.load(sums_ptr + head + rows)
    deltas = tl.load(deltas_ptr + head + rows)
    dq = tl.zeros((BLOCK_M, HEAD), tl.float32)
    powers = scale * 1.4426950408889634  # log2(e)
    for start in range(0, first if CAUSAL else length, BLOCK_N):
        k = k_rows.load([head + start, 0])
        v = v_rows.load([head + start, 0])
        dq = into_queries(dq, q, grad, k, v, sums, deltas, powers, rows, rows, False)
    if CAUSAL:
        for start in range(first, first + BLOCK_M, BLOCK_N):  # keys on the diagonal
            k = k_rows.load([head + start, 0])
            v = v_rows.load([head + start, 0])
            columns = start + tl.arange(0, BLOCK_N)
            dq = into_queries(dq, q, grad, k, v, sums, deltas, powers, rows, columns, True)
    dq_rows.store([head + first, 0], (dq * scale).to(tl.float16))
