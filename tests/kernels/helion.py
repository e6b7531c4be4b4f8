"""Kernels that Helion 1.5.1 generated of an online softmax, a matmul and a layer norm, for 6 x 100,
40 x 52 x 24 and 6 x 100 elements, without its comments and the functions that launch them; and the
helpers of Helion and Inductor that they call. The layer norm, of `torch.var_mean`, is wrong: no mask
keeps the squares of padded elements out of the sum.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

_BLOCK_SIZE_0 = _BLOCK_SIZE_1 = _BLOCK_SIZE_2 = tl.constexpr(16)


@triton.jit
def _maximum_propagate_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def max_propagate_nan(x, dim: tl.constexpr):
    return tl.reduce(x, dim, _maximum_propagate_nan)


@triton.jit
def maximum(a, b):
    mask = a > b
    mask |= a != a
    return tl.where(mask, a, b)


# fmt: off
@triton.jit
def _helion_softmax(x, out):
    pid_0 = tl.program_id(0)
    offset_0 = pid_0 * _BLOCK_SIZE_0
    indices_0 = (offset_0 + tl.arange(0, _BLOCK_SIZE_0)).to(tl.int32)
    mask_0 = indices_0 < 6
    largest = tl.full([_BLOCK_SIZE_0], float('-inf'), tl.float32)
    total = tl.full([_BLOCK_SIZE_0], 0.0, tl.float32)
    for offset_1 in tl.range(0, 100, _BLOCK_SIZE_1):
        indices_1 = offset_1 + tl.arange(0, _BLOCK_SIZE_1).to(tl.int32)
        mask_1 = indices_1 < 100
        largest_copy = largest
        total_copy = total
        largest_copy_0 = largest_copy
        total_copy_0 = total_copy
        values = tl.load(x + (indices_0[:, None] * 100 + indices_1[None, :] * 1), mask_0[:, None] & mask_1[None, :], other=0)
        _mask_to = tl.where(mask_0[:, None] & mask_1[None, :], values, tl.full([], float('-inf'), tl.float32))
        amax = tl.cast(max_propagate_nan(_mask_to, 1), tl.float32)
        v_0 = maximum(largest_copy_0, amax)
        v_1 = largest_copy_0 - v_0
        v_2 = libdevice.exp(v_1)
        v_3 = total_copy_0 * v_2
        subscript = v_0[:, None]
        v_4 = values - subscript
        v_5 = libdevice.exp(v_4)
        _mask_to_1 = tl.where(mask_0[:, None] & mask_1[None, :], v_5, tl.full([], 0, tl.float32))
        sum_1 = tl.cast(tl.sum(_mask_to_1.to(tl.float32), 1), tl.float32)
        total = v_3 + sum_1
        largest = v_0
    for offset_2 in tl.range(0, 100, _BLOCK_SIZE_2):
        indices_2 = offset_2 + tl.arange(0, _BLOCK_SIZE_2).to(tl.int32)
        mask_2 = indices_2 < 100
        largest_copy_1 = largest
        total_copy_1 = total
        largest_copy_1_0 = largest_copy_1
        total_copy_1_0 = total_copy_1
        load = tl.load(x + (indices_0[:, None] * 100 + indices_2[None, :] * 1), mask_0[:, None] & mask_2[None, :], other=0)
        subscript_1 = largest_copy_1_0[:, None]
        v_7 = load - subscript_1
        v_8 = libdevice.exp(v_7)
        subscript_2 = total_copy_1_0[:, None]
        v_9 = v_8 / subscript_2
        tl.store(out + (indices_0[:, None] * 100 + indices_2[None, :] * 1), v_9, mask_0[:, None] & mask_2[None, :])


@triton.jit
def _helion_matmul(a, b, out):
    num_pid_m = tl.cdiv(40, _BLOCK_SIZE_0)
    num_pid_n = tl.cdiv(24, _BLOCK_SIZE_1)
    inner_2d_pid = tl.program_id(0)
    num_pid_in_group = 2 * num_pid_n
    group_id = inner_2d_pid // num_pid_in_group
    first_pid_m = group_id * 2
    group_size_m = min(num_pid_m - first_pid_m, 2)
    pid_0 = first_pid_m + inner_2d_pid % num_pid_in_group % group_size_m
    pid_1 = inner_2d_pid % num_pid_in_group // group_size_m
    offset_0 = pid_0 * _BLOCK_SIZE_0
    indices_0 = (offset_0 + tl.arange(0, _BLOCK_SIZE_0)).to(tl.int32)
    mask_0 = indices_0 < 40
    offset_1 = pid_1 * _BLOCK_SIZE_1
    indices_1 = (offset_1 + tl.arange(0, _BLOCK_SIZE_1)).to(tl.int32)
    mask_1 = indices_1 < 24
    sums = tl.full([_BLOCK_SIZE_0, _BLOCK_SIZE_1], 0.0, tl.float32)
    for offset_2 in tl.range(0, 52, _BLOCK_SIZE_2):
        indices_2 = offset_2 + tl.arange(0, _BLOCK_SIZE_2).to(tl.int32)
        mask_2 = indices_2 < 52
        sums_copy = sums
        sums_copy_0 = sums_copy
        load = tl.load(a + (indices_0[:, None] * 52 + indices_2[None, :] * 1), mask_0[:, None] & mask_2[None, :], other=0)
        load_1 = tl.load(b + (indices_2[:, None] * 24 + indices_1[None, :] * 1), mask_2[:, None] & mask_1[None, :], other=0)
        sums = tl.dot(tl.cast(load, tl.float32), tl.cast(load_1, tl.float32), acc=sums_copy_0, input_precision='tf32', out_dtype=tl.float32)
    tl.store(out + (indices_0[:, None] * 24 + indices_1[None, :] * 1), sums, mask_0[:, None] & mask_1[None, :])


@triton.jit
def _helion_layer_norm(x, w, b, out, _RDIM_SIZE_1: tl.constexpr):
    pid_0 = tl.program_id(0)
    offset_0 = pid_0 * _BLOCK_SIZE_0
    indices_0 = (offset_0 + tl.arange(0, _BLOCK_SIZE_0)).to(tl.int32)
    mask_0 = indices_0 < 6
    indices_1 = tl.arange(0, _RDIM_SIZE_1).to(tl.int32)
    mask_1 = indices_1 < 100
    values = tl.load(x + (indices_0[:, None] * 100 + (0 + indices_1)[None, :] * 1), mask_0[:, None] & mask_1[None, :], other=0)
    var_mean_extra = tl.cast(tl.reshape(tl.sum(values.to(tl.float32), 1), [_BLOCK_SIZE_0, 1]), tl.float32)
    v_0 = 100
    v_1 = tl.cast(v_0, tl.float32)
    v_2 = var_mean_extra / v_1
    _mask_to_1 = tl.where(tl.broadcast_to(mask_0[:, None], [_BLOCK_SIZE_0, 1]), v_2, tl.full([], 0, tl.float32))
    v_3 = values - _mask_to_1
    v_4 = v_3 * v_3
    var_mean_extra_2 = tl.cast(tl.reshape(tl.sum(v_4.to(tl.float32), 1), [_BLOCK_SIZE_0, 1]), tl.float32)
    v_5 = 100
    v_6 = tl.cast(v_5, tl.float32)
    v_7 = var_mean_extra_2 / v_6
    v_8 = values - v_2
    v_9 = tl.full([], 1e-05, tl.float32)
    v_10 = v_7 + v_9
    v_11 = libdevice.rsqrt(v_10)
    v_12 = v_8 * v_11
    load_1 = tl.load(w + (0 + indices_1) * 1, mask_1, other=0)
    v_13 = load_1[None, :]
    v_14 = v_12 * v_13
    load_2 = tl.load(b + (0 + indices_1) * 1, mask_1, other=0)
    v_15 = load_2[None, :]
    v_16 = v_14 + v_15
    tl.store(out + (indices_0[:, None] * 100 + (0 + indices_1)[None, :] * 1), v_16, mask_0[:, None] & mask_1[None, :])
