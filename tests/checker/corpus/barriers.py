"""Values that one thread of a program stores and another one loads, with and without a barrier."""

from typing import Any

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
def passes_through(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    """Each thread loads what it has stored."""
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i) * 2)
    tl.store(y_ptr + i, tl.load(t_ptr + i) + 1)


@triton.jit
def shifts(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    for turn in range(2):
        tl.store(t_ptr + i, tl.load(x_ptr + i) + turn)  # fault: missing-barrier
        left = tl.load(t_ptr + (i + 1) % N)  # fault: missing-barrier
        tl.store(y_ptr + turn * N + i, left)


@triton.jit
def rolls(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    """For transposed elements, Triton has each thread load what it has stored."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(t_ptr + i * N + j, tl.load(x_ptr + i * N + j))
    tl.store(y_ptr + i * N + j, tl.load(t_ptr + (i + 1) % N * N + j))  # fault: missing-barrier


@triton.jit
def stores_twice(x_ptr, t_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(t_ptr + i, tl.load(x_ptr + i))
    x = tl.load(t_ptr + i)
    tl.store(t_ptr + N + i, x + 1)
    tl.store(y_ptr + i, tl.load(t_ptr + N + i))


@triton.jit
def adds_under_a_lock(x_ptr, sum_ptr, lock_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr + i, tl.load(sum_ptr + i) + x)
    if BARRIER:
        tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)  # fault: missing-barrier


@triton.jit
def last_one_sums(x_ptr, parts_ptr, count_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    place = parts_ptr + tl.program_id(0) * N + i
    tl.store(place, 2 * tl.load(x_ptr + tl.program_id(0) * N + i))
    if BARRIER:
        tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:  # fault: missing-barrier
        total = tl.zeros((N,), tl.float32)
        for program in range(tl.num_programs(0)):
            total += tl.load(parts_ptr + program * N + i)
        tl.store(x_ptr + i, total)


@triton.jit
def waits_for_a_flag(x_ptr, t_ptr, flag_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.store(t_ptr + i, tl.load(x_ptr + i) + 1)
        if BARRIER:
            tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")  # fault: missing-barrier
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(x_ptr + N + i, tl.load(t_ptr + i))


@triton.jit
def passes_a_grid_barrier(x_ptr, t_ptr, count_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    program, programs, i = tl.program_id(0), tl.num_programs(0), tl.arange(0, N)
    tl.store(t_ptr + program * N + i, tl.load(x_ptr + program * N + i))
    if BARRIER:
        tl.debug_barrier()
    tl.atomic_add(count_ptr, 1)  # fault: missing-barrier
    while tl.atomic_add(count_ptr, 0) < programs:
        pass
    tl.store(x_ptr + program * N + i, tl.load(t_ptr + (program + 1) % programs * N + i))


@triton.jit
def turns_in_place(x_ptr, y_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x_ptr + N - 1 - i, x)  # fault: missing-barrier
    tl.store(y_ptr + i, x)


@triton.jit
def rolls_in_place(x_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x_ptr + (i + 9) % N * N + j, x)  # fault: missing-barrier


@triton.jit
def counts_after_zeros(x_ptr, count_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(count_ptr + i, tl.zeros((N,), tl.float32))
    if BARRIER:
        tl.debug_barrier()
    tl.atomic_add(count_ptr + (i * 7 + 5) % N, tl.load(x_ptr + i))  # fault: missing-barrier


@triton.jit
def fills_then_scatters(x_ptr, y_ptr, N: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))
    if BARRIER:
        tl.debug_barrier()
    tl.store(y_ptr + (i * 5 + 3) % N, 1.0, mask=i < N // 2)  # fault: missing-barrier


def vectors(n: int) -> list[torch.Tensor]:
    return [normal(n), zeros(2 * n), zeros(2 * n)]


def squares(n: int) -> list[torch.Tensor]:
    return [normal(n, n), zeros(n, n), zeros(n, n)]


def shared(n: int) -> list[torch.Tensor]:
    return [normal(3 * n), zeros(3 * n), zeros(1, dtype=torch.int32)]


_WITH_AND_WITHOUT: list[Any] = [
    (adds_under_a_lock, (3,), 256, lambda: shared(256)),
    (last_one_sums, (3,), 256, lambda: shared(256)),
    (waits_for_a_flag, (2,), 256, lambda: shared(256)),
    (passes_a_grid_barrier, (3,), 256, lambda: shared(256)),
    (turns_in_place, (1,), 128, lambda: vectors(128)[:2]),
    (rolls_in_place, (1,), 32, lambda: squares(32)[:1]),
    (counts_after_zeros, (1,), 128, lambda: vectors(128)[:2]),
    (fills_then_scatters, (1,), 128, lambda: vectors(128)[:2]),
]
"""Kernels that are launched without a barrier and with it; their grids, sizes and arguments."""


PAIRS: list[Pair] = [
    pair(turns, {"tl.store(y_ptr + i, tl.load(t_ptr + N - 1 - i))": "tl.debug_barrier()\n    tl.store(y_ptr + i, tl.load(t_ptr + N - 1 - i))"}, (1,), lambda: vectors(512), N=512),
    Pair(
        Launch(turns, (1,), lambda: vectors(128), {"N": 128}),
        Launch(passes_through, (1,), lambda: vectors(512), {"N": 512}),
    ),
    Pair(
        Launch(shifts, (1,), lambda: vectors(256), {"N": 256}),
        Launch(stores_twice, (1,), lambda: vectors(256), {"N": 256}),
    ),
    pair(rolls, {"(i + 1) % N * N + j": "j * N + i"}, (1,), lambda: squares(32), N=32),
    *(
        Pair(*(Launch(kernel, grid, make, {"N": n, "BARRIER": has}) for has in (False, True)))
        for kernel, grid, n, make in _WITH_AND_WITHOUT
    ),
]
