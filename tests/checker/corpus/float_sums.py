"""Floats that programs add up in memory: they round in every order, and that is no fault; they do not overflow in every order."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def overflows_in_some_order(x_ptr, out_ptr):
    """60,000 + 60,000 - 60,000 in fp16: infinite, unless the last comes second."""
    tl.atomic_add(out_ptr, tl.load(x_ptr + tl.program_id(0)))  # fault: order-dependence


@triton.jit
def added_under_a_lock(x_ptr, lock_ptr, count_ptr, out_ptr, N: tl.constexpr):
    """As the tutorial's layer norm does: the first program stores, the others add."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + lanes).to(tl.float32)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(count_ptr) == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        x += tl.load(out_ptr + lanes)
    tl.store(out_ptr + lanes, x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_under_a_lock(x_ptr, lock_ptr, count_ptr, out_ptr, N: tl.constexpr):
    """Each adds to what lies one further, and stores it here: no sum."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + lanes).to(tl.float32)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    x += tl.load(out_ptr + (lanes + 1) % N)
    tl.store(out_ptr + lanes, x)  # fault: order-dependence
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def halved_under_a_lock(x_ptr, lock_ptr, count_ptr, out_ptr, N: tl.constexpr):
    """A running mean weighs the last the most."""
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + lanes).to(tl.float32)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr + lanes, 0.5 * (x + tl.load(out_ptr + lanes)))  # fault: order-dependence
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def halves(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float16)


def locked(kind: torch.dtype, scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    flags = zeros(1, dtype=torch.int32), zeros(1, dtype=torch.int32)
    return scale * normal(12 * 16) ** 3, *flags, zeros(16, dtype=kind)


PAIRS = [
    Pair(
        faulty=Launch(overflows_in_some_order, (3,), lambda: (halves(60_000, -60_000, 60_000), zeros(1, dtype=torch.float16))),
        clean=Launch(overflows_in_some_order, (3,), lambda: (halves(20_000, -20_000, 20_000), zeros(1, dtype=torch.float16))),
    ),
    Pair(
        faulty=Launch(overflows_in_some_order, (3,), lambda: (halves(40_000, 40_000, -40_000), zeros(1, dtype=torch.float16))),
        clean=Launch(overflows_in_some_order, (3,), lambda: (torch.tensor([float("inf"), 1.0, 2.0]), zeros(1))),
    ),
    pair(last_under_a_lock, added_under_a_lock, (12,), lambda: locked(torch.float32), N=16),
    pair(halved_under_a_lock, added_under_a_lock, (12,), lambda: locked(torch.float16), N=16),
    pair(halved_under_a_lock, added_under_a_lock, (12,), lambda: locked(torch.bfloat16, 1e6), N=16),
]
