"""Values that one thread of a program stores and another one loads, with and without a barrier."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def turns(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i))
    tl.store(y_ptr + i, tl.load(t_ptr + N - 1 - i))  # fault: missing-barrier


@triton.jit
def turns_with_a_barrier(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i))
    tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(t_ptr + N - 1 - i))


@triton.jit
def passes_through(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    """Each thread loads what it has stored."""
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i) * 2)
    tl.store(y_ptr + i, tl.load(t_ptr + i) + 1)


@triton.jit
def shifts(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    for turn in range(2):
        tl.store(t_ptr + i, tl.load(x_ptr + i) + turn)
        left = tl.load(t_ptr + (i + 1) % N)  # fault: missing-barrier
        tl.store(y_ptr + turn * N + i, left)


@triton.jit
def rolls(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(t_ptr + i * N + j, tl.load(x_ptr + i * N + j))
    tl.store(y_ptr + i * N + j, tl.load(t_ptr + (i + 1) % N * N + j))  # fault: missing-barrier


@triton.jit
def transposes(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    """Triton gives the load a transposed layout: each thread loads what it has stored."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(t_ptr + i * N + j, tl.load(x_ptr + i * N + j))
    tl.store(y_ptr + i * N + j, tl.load(t_ptr + j * N + i))


@triton.jit
def stores_twice(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i))
    x = tl.load(t_ptr + i)
    tl.store(t_ptr + N + i, x + 1)
    tl.store(y_ptr + i, tl.load(t_ptr + N + i))


def vectors(n: int) -> list[torch.Tensor]:
    return [normal(n), zeros(2 * n), zeros(2 * n)]


def squares(n: int) -> list[torch.Tensor]:
    return [normal(n, n), zeros(n, n), zeros(n, n)]


PAIRS: list[Pair] = [
    pair(turns, turns_with_a_barrier, (1,), lambda: vectors(512), N=512),
    Pair(
        Launch(turns, (1,), lambda: vectors(128), {"N": 128}),
        Launch(passes_through, (1,), lambda: vectors(512), {"N": 512}),
    ),
    Pair(
        Launch(shifts, (1,), lambda: vectors(256), {"N": 256}),
        Launch(stores_twice, (1,), lambda: vectors(256), {"N": 256}),
    ),
    pair(rolls, transposes, (1,), lambda: squares(32), N=32),
]
