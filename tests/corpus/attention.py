"""FlashAttention-2 (Dao, 2023, arXiv:2307.08691), forward and backward, block by block."""

import triton
import triton.language as tl


@triton.jit
def attend(
    accumulator, total, largest, q, k_ptrs, v_ptrs, first, last, rows, stride_token, scale,
    length, CAUSAL: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One walk over the keys first..last; where CAUSAL, keys after a row's own position do not count."""
    for start in range(first, last, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptrs + start * stride_token, mask=columns[None, :] < length, other=0.0)
        scores = tl.dot(q, k) * scale
        visible = columns[None, :] < length
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = tl.where(visible, scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        probabilities = tl.math.exp2(scores - new_largest[:, None])
        correction = tl.math.exp2(largest - new_largest)
        total = total * correction + tl.sum(probabilities, axis=1)
        accumulator = accumulator * correction[:, None]
        v = tl.load(v_ptrs + start * stride_token, mask=columns[:, None] < length, other=0.0)
        accumulator = tl.dot(probabilities.to(v.dtype), v, accumulator)
        largest = new_largest
    return accumulator, total, largest


@triton.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, log_sum_ptr, softmax_scale, stride_head, stride_token, length,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention of one block of queries: the keys before the block without a mask, then those on the diagonal."""
    block = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64) * stride_head
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    lanes = tl.arange(0, HEAD)
    q_ptrs = q_ptr + head + rows[:, None] * stride_token + lanes[None, :]
    k_ptrs = k_ptr + head + columns[None, :] * stride_token + lanes[:, None]
    v_ptrs = v_ptr + head + columns[:, None] * stride_token + lanes[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < length, other=0.0)

    scale = softmax_scale * 1.44269504  # exp(x) = 2 ** (x * log2(e))
    accumulator = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    diagonal = block * BLOCK_M
    accumulator, total, largest = attend(
        accumulator, total, largest, q, k_ptrs, v_ptrs, 0, diagonal, rows, stride_token, scale,
        length, False, BLOCK_N,
    )  # fmt: skip
    accumulator, total, largest = attend(
        accumulator, total, largest, q, k_ptrs, v_ptrs, diagonal, diagonal + BLOCK_M, rows,
        stride_token, scale, length, True, BLOCK_N,
    )  # fmt: skip

    out_ptrs = out_ptr + head + rows[:, None] * stride_token + lanes[None, :]
    out = accumulator / total[:, None]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)
    log_sum = largest + tl.math.log2(total)
    tl.store(log_sum_ptr + tl.program_id(1) * length + rows, log_sum, mask=rows < length)


@triton.jit
def gradients_of_keys(
    dk, dv, k, v, q_ptr, do_ptr, log_sum_ptr, delta_ptr, columns, lanes, first, length, stride_token,
    scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """One walk over the queries from `first` on, for the gradients of one block of keys and values."""
    for start in range(first, length, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        inside = rows < length
        tile = rows[:, None] * stride_token + lanes[None, :]
        q = tl.load(q_ptr + tile, mask=inside[:, None], other=0.0)
        do = tl.load(do_ptr + tile, mask=inside[:, None], other=0.0)
        log_sum = tl.load(log_sum_ptr + rows, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + rows, mask=inside, other=0.0)
        scores = tl.dot(k, tl.trans(q)) * scale
        probabilities = tl.math.exp2(scores - log_sum[None, :])
        visible = (rows[None, :] >= columns[:, None]) & inside[None, :]
        probabilities = tl.where(visible, probabilities, 0.0)
        dv = tl.dot(probabilities.to(do.dtype), do, dv)
        dp = tl.dot(v, tl.trans(do))
        ds = (probabilities * (dp - delta[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk)
    return dk, dv


@triton.jit
def gradients_of_queries(
    dq, q, do, log_sum, delta, k_ptr, v_ptr, rows, lanes, last, stride_token, scale,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One walk over the keys up to `last`, for the gradient of one block of queries."""
    for start in range(0, last, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        tile = columns[None, :] * stride_token + lanes[:, None]
        k = tl.load(k_ptr + tile, mask=columns[None, :] < last, other=0.0)
        v = tl.load(v_ptr + tile, mask=columns[None, :] < last, other=0.0)
        probabilities = tl.math.exp2(tl.dot(q, k) * scale - log_sum[:, None])
        probabilities = tl.where(rows[:, None] >= columns[None, :], probabilities, 0.0)
        dp = tl.dot(do, v)
        ds = (probabilities * (dp - delta[:, None])).to(k.dtype)
        dq = tl.dot(ds, tl.trans(k), dq)
    return dq


@triton.jit
def attention_backward(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, log_sum_ptr, delta_ptr,
    softmax_scale, stride_head, stride_token, length,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Gradients of causal attention for one block of keys, then for the block of queries at the same place."""
    head = tl.program_id(1).to(tl.int64) * stride_head
    row_of_head = tl.program_id(1) * length
    start = tl.program_id(0) * BLOCK
    tokens = start + tl.arange(0, BLOCK)
    lanes = tl.arange(0, HEAD)
    tile = head + tokens[:, None] * stride_token + lanes[None, :]
    inside = tokens[:, None] < length
    scale = softmax_scale * 1.44269504

    k = tl.load(k_ptr + tile, mask=inside, other=0.0)
    v = tl.load(v_ptr + tile, mask=inside, other=0.0)
    dk = tl.zeros((BLOCK, HEAD), dtype=tl.float32)
    dv = tl.zeros((BLOCK, HEAD), dtype=tl.float32)
    dk, dv = gradients_of_keys(
        dk, dv, k, v, q_ptr + head, do_ptr + head, log_sum_ptr + row_of_head, delta_ptr + row_of_head,
        tokens, lanes, start, length, stride_token, scale, HEAD, STEP,
    )  # fmt: skip
    tl.store(dk_ptr + tile, (dk * softmax_scale).to(dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + tile, dv.to(dv_ptr.dtype.element_ty), mask=inside)

    q = tl.load(q_ptr + tile, mask=inside, other=0.0)
    do = tl.load(do_ptr + tile, mask=inside, other=0.0)
    log_sum = tl.load(log_sum_ptr + row_of_head + tokens, mask=tokens < length, other=0.0)
    delta = tl.load(delta_ptr + row_of_head + tokens, mask=tokens < length, other=0.0)
    dq = tl.zeros((BLOCK, HEAD), dtype=tl.float32)
    dq = gradients_of_queries(
        dq, q, do, log_sum, delta, k_ptr + head, v_ptr + head, tokens, lanes,
        tl.minimum(start + BLOCK, length), stride_token, scale, STEP,
    )  # fmt: skip
    tl.store(dq_ptr + tile, (dq * softmax_scale).to(dq_ptr.dtype.element_ty), mask=inside)
