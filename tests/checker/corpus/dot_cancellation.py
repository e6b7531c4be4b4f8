"""Products in tf32 that cancel after the dot, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def distances(a_ptr, b_ptr, out_ptr, N: tl.constexpr, D: tl.constexpr):
    """||a||^2 + ||b||^2 - 2 a b, of points that lie near each other."""
    i, d = tl.arange(0, N), tl.arange(0, D)
    a = tl.load(a_ptr + tl.program_id(0) * N * D + i[:, None] * D + d[None, :])
    b = tl.load(b_ptr + i[:, None] * D + d[None, :])
    products = tl.dot(a, tl.trans(b))  # fault: dot-precision
    a2, b2 = tl.sum(a * a, axis=1), tl.sum(b * b, axis=1)
    squares = a2[:, None] + b2[None, :] - 2.0 * products
    tl.store(out_ptr + tl.program_id(0) * N * N + i[:, None] * N + i[None, :], squares)


@triton.jit
def nearest(a_ptr, b_ptr, out_ptr, depth, N: tl.constexpr, D: tl.constexpr):
    """The distance to the nearest, over a loop: most of the others are far away."""
    i, d = tl.arange(0, N), tl.arange(0, D)
    products = tl.zeros((N, N), tl.float32)
    a2, b2 = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32)
    for start in range(0, depth, D):
        a = tl.load(a_ptr + i[:, None] * depth + start + d[None, :])
        b = tl.load(b_ptr + i[:, None] * depth + start + d[None, :])
        products = tl.dot(a, tl.trans(b), products)  # fault: dot-precision
        a2 += tl.sum(a * a, axis=1)
        b2 += tl.sum(b * b, axis=1)
    squares = (b2[None, :] - 2.0 * products) + a2[:, None]
    tl.store(out_ptr + i, tl.sqrt(tl.maximum(tl.min(squares, axis=1), 0.0)))


@triton.jit
def residual(a_ptr, x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    """What is left of y when the product has explained it: a step of an iterative solver."""
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    explained = tl.dot(tl.load(a_ptr + tile), tl.load(x_ptr + tile))  # fault: dot-precision
    tl.store(out_ptr + tile, tl.load(y_ptr + tile) - explained)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, scale, N: tl.constexpr, D: tl.constexpr):
    """The largest is taken away from each row: what goes on is the exponential."""
    i, d = tl.arange(0, N), tl.arange(0, D)
    tile = i[:, None] * D + d[None, :]
    scores = tl.dot(tl.load(q_ptr + tile), tl.trans(tl.load(k_ptr + tile))) * scale
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    out = tl.dot(weights, tl.load(v_ptr + tile)) / tl.sum(weights, axis=1)[:, None]
    tl.store(out_ptr + tile, out)


def solved() -> tuple[torch.Tensor, ...]:
    a, x = normal(16, 16), normal(16, 16, seed=1)
    return a, x, a @ x + 1e-4 * normal(16, 16, seed=2), zeros(16, 16)


def near(*size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points, and others that lie beside them."""
    a = normal(*size)
    return a, a + 0.003 * normal(*size, seed=1)


def clustered(*size: int) -> torch.Tensor:
    return 10.0 + 0.1 * normal(*size)


PAIRS = [
    pair(distances, {"products = tl.dot(a, tl.trans(b))": 'products = tl.dot(a, tl.trans(b), input_precision="ieee")'}, (2,), lambda: (clustered(2, 16, 32), clustered(16, 32) + 0.01, zeros(2, 16, 16)), N=16, D=32),
    Pair(
        faulty=Launch(distances, (1,), lambda: (clustered(16, 64), clustered(16, 64) + 0.01, zeros(16, 16)), {"N": 16, "D": 64}),
        clean=Launch(distances, (1,), lambda: (normal(16, 64), normal(16, 64, seed=1), zeros(16, 16)), {"N": 16, "D": 64}),
    ),
    pair(nearest, {", products": ', products, input_precision="ieee"'}, (1,), lambda: (*near(16, 64), zeros(16), 64), N=16, D=32),
    Pair(
        faulty=Launch(nearest, (1,), lambda: (*near(32, 128), zeros(32), 128), {"N": 32, "D": 32}),
        clean=Launch(nearest, (1,), lambda: (normal(32, 128), normal(32, 128, seed=4), zeros(32), 128), {"N": 32, "D": 32}),
    ),
    pair(residual, {"load(x_ptr + tile)": 'load(x_ptr + tile), input_precision="ieee"'}, (1,), solved, N=16),
    Pair(
        faulty=Launch(residual, (1,), solved, {"N": 16}),
        clean=Launch(residual, (1,), lambda: (normal(16, 16), normal(16, 16, seed=1), normal(16, 16, seed=2), zeros(16, 16)), {"N": 16}),
    ),
    Pair(
        faulty=Launch(residual, (1,), solved, {"N": 16}),
        clean=Launch(attention, (1,), lambda: (normal(32, 32), normal(32, 32, seed=1), normal(32, 32, seed=2), zeros(32, 32), 32**-0.5), {"N": 32, "D": 32}),
    ),
]  # fmt: skip
