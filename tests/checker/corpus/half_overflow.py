"""Arithmetic in fp16 that overflows and leaves finite numbers in memory, and its clean twins."""

from typing import Any

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lanes < n
    x = tl.load(x_ptr + row * stride + lanes, mask=inside, other=0.0)
    squares = x * x  # fault: infinity
    mean = tl.sum(squares.to(tl.float32), axis=0) / n
    weight = tl.load(weight_ptr + lanes, mask=inside, other=0.0)
    normed = x.to(tl.float32) * tl.rsqrt(mean + eps) * weight.to(tl.float32)
    tl.store(out_ptr + row * stride + lanes, normed.to(tl.float16), mask=inside)


@triton.jit
def mean_of_rows(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Numbers around 100, a thousand of them in a row: their sum is none of fp16."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    total = tl.sum(x, axis=1)  # fault: infinity
    tl.store(out_ptr + rows, 1.0 / (total.to(tl.float32) / COLUMNS))


@triton.jit
def clipped_gradient(g_ptr, scale_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    """The norm is taken through a conversion that does not hold it."""
    lanes = tl.arange(0, BLOCK)
    g = tl.load(g_ptr + tl.program_id(0) * BLOCK + lanes).to(tl.float32)
    norm2 = tl.sum(g * g).to(tl.float16)  # fault: float-overflow
    factor = limit / tl.sqrt(norm2.to(tl.float32))
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lanes, g * tl.minimum(factor, 1.0))
    tl.store(scale_ptr + tl.program_id(0), factor)


@triton.jit
def share_of_total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Over a loop, in the accumulator."""
    x_ptr += tl.program_id(0) * n
    total = tl.zeros((BLOCK,), tl.float16)
    for start in range(0, n, BLOCK):
        total += 64 * tl.load(x_ptr + start + tl.arange(0, BLOCK))  # fault: infinity
    first = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), first / total.to(tl.float32))


@triton.jit
def saturated(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Cut to 100 afterwards: that is right also of infinity."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, tl.minimum(x * x, 100.0))


@triton.jit
def gate(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """x / (1 + x^4): where x^4 is infinite, so little is left that 0 will do."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    square = x * x
    tl.store(out_ptr + lanes, 1.0 / (1.0 + square * square))


def large(*size: int) -> torch.Tensor:
    """fp16 around 0, up to 2,000."""
    return normal(*size, dtype=torch.float16) * 500


def hundreds(*size: int) -> torch.Tensor:
    return (normal(*size) + 100).to(torch.float16)


NORM: dict[str, Any] = {"BLOCK": 128}

PAIRS = [
    pair(rms_norm, {"x * x": "x.to(tl.float32) * x"}, (3,), lambda: (large(3, 100), hundreds(100), zeros(3, 100, dtype=torch.float16), 100, 100, 1e-6), **NORM),
    Pair(
        faulty=Launch(rms_norm, (2,), lambda: (hundreds(2, 100) * 4, hundreds(100), zeros(2, 100, dtype=torch.float16), 100, 100, 1e-6), NORM),
        clean=Launch(rms_norm, (2,), lambda: (hundreds(2, 100), hundreds(100), zeros(2, 100, dtype=torch.float16), 100, 100, 1e-6), NORM),
    ),
    pair(mean_of_rows, {"sum(x": "sum(x.to(tl.float32)", "total.to(tl.float32)": "total"}, (2,), lambda: (hundreds(8, 1024), zeros(8)), ROWS=4, COLUMNS=1024),
    pair(clipped_gradient, {".to(tl.float16)": "", "norm2.to(tl.float32)": "norm2"}, (2,), lambda: (large(2, 256), zeros(2), zeros(2, 256), 1.0), BLOCK=256),
    Pair(
        faulty=Launch(share_of_total, (2,), lambda: (hundreds(2, 512), zeros(2, 32), 512), {"BLOCK": 32}),
        clean=Launch(saturated, (2,), lambda: (large(64), zeros(64, dtype=torch.float16)), {"BLOCK": 32}),
    ),
    Pair(
        faulty=Launch(share_of_total, (1,), lambda: (hundreds(2, 1024), zeros(64), 1024), {"BLOCK": 64}),
        clean=Launch(gate, (2,), lambda: (normal(64, dtype=torch.float16) * 20, zeros(64, dtype=torch.float16)), {"BLOCK": 32}),
    ),
]  # fmt: skip
