"""Sums in fp16 and bf16 that stall, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def mean_of_columns(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.bfloat16)
    for row in range(n):
        x = tl.load(x_ptr + row * stride + lanes)
        total += x  # fault: stalled-sum
    tl.store(out_ptr + lanes, total.to(tl.float32) / n)


@triton.jit
def mean_of_columns_compensated(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    """Kahan's sum: what an addition loses is added with the next number."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.bfloat16)
    missing = tl.zeros((BLOCK,), tl.bfloat16)
    for row in range(n):
        x = tl.load(x_ptr + row * stride + lanes) - missing
        new = total + x
        missing = (new - total) - x
        total = new
    tl.store(out_ptr + lanes, (total.to(tl.float32) - missing.to(tl.float32)) / n)


@triton.jit
def accepted(x_ptr, count_ptr, n, limit, BLOCK: tl.constexpr):
    """A counter in fp16, a scalar, which an fp32 sum is rounded to."""
    count = tl.full((), 0.0, tl.float16)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
        count = (count.to(tl.float32) + tl.sum((x < limit).to(tl.float32))).to(tl.float16)  # fault: stalled-sum
    tl.store(count_ptr, count)


@triton.jit
def votes(key_ptr, count_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + lanes)
    tl.atomic_add(count_ptr + key, tl.full((BLOCK,), 1.0, tl.float16))  # fault: stalled-sum


@triton.jit
def votes_in_int32(key_ptr, count_ptr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + lanes)
    tl.atomic_add(count_ptr + key, tl.full((BLOCK,), 1, tl.int32))


@triton.jit
def moving_average(x_ptr, mean_ptr, n, rate, BLOCK: tl.constexpr):
    """In memory, step by step: less than half a step of bf16 changes nothing."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(n):
        mean = tl.load(mean_ptr + lanes)
        x = tl.load(x_ptr + row * BLOCK * tl.num_programs(0) + lanes)
        step = ((x - mean).to(tl.float32) * rate).to(tl.bfloat16)
        mean += step  # fault: stalled-sum
        tl.store(mean_ptr + lanes, mean)


@triton.jit
def moving_average_in_fp32(x_ptr, mean_ptr, n, rate, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.load(mean_ptr + lanes).to(tl.float32)
    for row in range(n):
        x = tl.load(x_ptr + row * BLOCK * tl.num_programs(0) + lanes)
        mean += (x - mean) * rate
    tl.store(mean_ptr + lanes, mean.to(tl.bfloat16))


def uniform(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(5)).to(dtype)


def keys(count: int, among: int) -> torch.Tensor:
    return (torch.arange(count) % among).to(torch.int32)


def bf16(*size: int) -> torch.Tensor:
    return normal(*size, dtype=torch.bfloat16)


PAIRS = [
    pair(mean_of_columns, {"total = tl.zeros((BLOCK,), tl.bfloat16)": "total = tl.zeros((BLOCK,), tl.float32)", "tl.store(out_ptr + lanes, total.to(tl.float32) / n)": "tl.store(out_ptr + lanes, total / n)"}, (2,), lambda: (uniform(1024, 32), zeros(32), 1024, 32), BLOCK=16),
    pair(mean_of_columns, mean_of_columns_compensated, (2,), lambda: (uniform(1024, 32), zeros(32), 1024, 32), BLOCK=16),
    Pair(
        faulty=Launch(mean_of_columns, (1,), lambda: (torch.ones(600, 16).bfloat16(), zeros(16), 600, 16), {"BLOCK": 16}),
        clean=Launch(mean_of_columns, (1,), lambda: (bf16(256, 128), zeros(128), 256, 128), {"BLOCK": 128}),
    ),
    pair(accepted, {"0.0, tl.float16": "0, tl.int32", "count = (count.to(tl.float32) + tl.sum((x < limit).to(tl.float32))).to(tl.float16)": "count += tl.sum((x < limit).to(tl.int32))", "count_ptr, count)": "count_ptr, count.to(tl.float16))"}, (1,), lambda: (uniform(2200), zeros(1, dtype=torch.float16), 2200, 2.0), BLOCK=1),
    Pair(
        faulty=Launch(accepted, (1,), lambda: (uniform(2200), zeros(1, dtype=torch.float16), 2200, 2.0), {"BLOCK": 1}),
        clean=Launch(accepted, (1,), lambda: (uniform(8192), zeros(1, dtype=torch.float16), 8192, 0.5), {"BLOCK": 64}),
    ),
    Pair(
        faulty=Launch(votes, (10,), lambda: (keys(5120, 2), zeros(2, dtype=torch.float16)), {"BLOCK": 512}),
        clean=Launch(votes_in_int32, (10,), lambda: (keys(5120, 2), zeros(2, dtype=torch.int32)), {"BLOCK": 512}),
    ),
    Pair(
        faulty=Launch(votes, (10,), lambda: (keys(5120, 2), zeros(2, dtype=torch.float16)), {"BLOCK": 512}),
        clean=Launch(votes, (10,), lambda: (keys(5120, 8), zeros(8, dtype=torch.float16)), {"BLOCK": 512}),
    ),
    pair(moving_average, moving_average_in_fp32, (1,), lambda: (uniform(400, 32) + 4, torch.ones(32).bfloat16(), 400, 0.001), BLOCK=32),
]  # fmt: skip
