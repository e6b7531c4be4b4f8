"""Products that lose what matters in tf32, and their clean twins."""

from typing import Any

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def product(a_ptr, b_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b)  # fault: dot-precision
    tl.store(out_ptr + m[:, None] * N + n[None, :], c)


@triton.jit
def long_product(a_ptr, b_ptr, out_ptr, depth, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """Adds up along a loop; what cancels, cancels between its turns."""
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, depth, K):
        a = tl.load(a_ptr + m[:, None] * depth + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * N + n[None, :])
        c = tl.dot(a, b, c)  # fault: dot-precision
    tl.store(out_ptr + m[:, None] * N + n[None, :], c)


@triton.jit
def covariance(x_ptr, out_ptr, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The mean of products less the product of means: both are large where the mean is."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
    mean = tl.sum(x, axis=0) / n
    less = -n * (mean[:, None] * mean[None, :])
    c = tl.dot(tl.trans(x), x, less)  # fault: dot-precision
    tl.store(out_ptr + columns[:, None] * COLUMNS + columns[None, :], c / n)


def shifted(*size: int) -> torch.Tensor:
    """Numbers around 500."""
    return normal(*size) + 500.0


def balanced(rows: int, columns: int) -> torch.Tensor:
    """Weights whose columns add up to 0, but for rounding."""
    weights = normal(rows, columns, seed=1)
    return weights - weights.mean(dim=0)


def halves(depth: int, columns: int) -> torch.Tensor:
    """Weights of which the second half takes back what the first gives."""
    weights = normal(depth // 2, columns, seed=1)
    return torch.cat([weights, -weights + 0.001])


M_K_N: dict[str, Any] = {"M": 16, "K": 32, "N": 16}

PAIRS = [
    pair(product, {"c = tl.dot(a, b)": 'c = tl.dot(a, b, input_precision="ieee")'}, (1,), lambda: (shifted(16, 32), balanced(32, 16), zeros(16, 16)), **M_K_N),
    Pair(
        faulty=Launch(product, (1,), lambda: (shifted(16, 32), balanced(32, 16), zeros(16, 16)), M_K_N),
        clean=Launch(product, (1,), lambda: (normal(16, 32), normal(32, 16), zeros(16, 16)), M_K_N),
    ),
    pair(
        long_product, {"c = tl.dot(a, b, c)": 'c = tl.dot(a, b, c, input_precision="ieee")'}, (1,),
        lambda: (shifted(16, 256), halves(256, 16), zeros(16, 16), 256), **M_K_N,
    ),
    Pair(
        faulty=Launch(long_product, (1,), lambda: (shifted(16, 128), halves(128, 16), zeros(16, 16), 128), M_K_N),
        clean=Launch(long_product, (1,), lambda: (shifted(16, 2048), shifted(2048, 16), zeros(16, 16), 2048), M_K_N),
    ),
    pair(covariance, {"mean = tl.sum(x, axis=0) / n": "x -= tl.sum(x, axis=0)[None, :] / n", "    less = -n * (mean[:, None] * mean[None, :])\n": "", "x, less)": "x)"}, (1,), lambda: (shifted(64, 16), zeros(16, 16), 64), ROWS=64, COLUMNS=16),
]  # fmt: skip
