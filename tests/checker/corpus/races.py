"""Programs that touch one element with nothing that orders them, and kernels that order theirs."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


def counters(n: int = 1) -> torch.Tensor:
    return zeros(n, dtype=torch.int32)


@triton.jit
def all_store_to_one_place(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.store(out_ptr, tl.sum(x))  # fault: race


@triton.jit
def blocks_that_overlap(x_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * tl.program_id(0), mask=offsets < n)  # fault: race


@triton.jit
def shifts_in_place(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    right = tl.load(x_ptr + offsets + 1, mask=offsets + 1 < n, other=0.0)
    tl.store(x_ptr + offsets, right, mask=offsets < n)  # fault: race


@triton.jit
def counts_without_atomics(x_ptr, counts_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    count = tl.load(counts_ptr + x)
    tl.store(counts_ptr + x, count + 1)  # fault: race


@triton.jit
def forgets_an_axis_of_the_grid(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + tl.program_id(1) * BLOCK + lanes)
    tl.store(out_ptr + row * columns + lanes, x)  # fault: race


@triton.jit
def adds_under_a_lock_of_its_own(lock_ptr, total_ptr):
    """A lock each: none of them protects the total."""
    lock = lock_ptr + tl.program_id(0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = tl.load(total_ptr)
    tl.store(total_ptr, total + 1)  # fault: race
    tl.atomic_xchg(lock, 0)


@triton.jit
def adds_under_a_relaxed_lock(lock_ptr, total_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="relaxed") == 1:
        pass
    total = tl.load(total_ptr)
    tl.store(total_ptr, total + 1)  # fault: race
    tl.atomic_xchg(lock_ptr, 0, sem="relaxed")


@triton.jit
def last_block_adds_up(x_ptr, partial_ptr, count_ptr, out_ptr, PROGRAMS: tl.constexpr, N: tl.constexpr):
    """The program that finds all others done adds up what they left."""
    program = tl.program_id(0)
    tl.store(partial_ptr + program, tl.sum(tl.load(x_ptr + program * N + tl.arange(0, N))))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def last_block_counts_too_soon(x_ptr, partial_ptr, count_ptr, out_ptr, PROGRAMS: tl.constexpr, N: tl.constexpr):
    """It says that it is done before it is."""
    program = tl.program_id(0)
    done = tl.atomic_add(count_ptr, 1)
    tl.store(partial_ptr + program, tl.sum(tl.load(x_ptr + program * N + tl.arange(0, N))))  # fault: race
    if done == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def plain_reset_of_a_counter(count_ptr, out_ptr):
    if tl.program_id(0) == 0:
        tl.store(count_ptr, 0)  # fault: race
    tl.atomic_add(count_ptr, 1)


@triton.jit
def stores_through_addresses(addresses_ptr, N: tl.constexpr):
    """Every program to the tensor whose address it is given."""
    out_ptr = tl.load(addresses_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.arange(0, N), tl.program_id(0) + 0.5)  # fault: race


LISTED = [zeros(8), zeros(8)]
"""Tensors whose addresses are passed."""


def addresses(first: int, second: int) -> torch.Tensor:
    return torch.tensor([LISTED[first].data_ptr(), LISTED[second].data_ptr()])


PAIRS = [
    Pair(
        faulty=Launch(stores_through_addresses, (2,), lambda: (addresses(0, 0),), {"N": 8}),
        clean=Launch(stores_through_addresses, (2,), lambda: (addresses(0, 1),), {"N": 8}),
    ),
    pair(all_store_to_one_place, {"tl.store(out_ptr, tl.sum(x))": "tl.atomic_add(out_ptr, tl.sum(x))"}, (4,), lambda: (normal(64), zeros(1)), N=16),
    Pair(
        faulty=Launch(blocks_that_overlap, (4,), lambda: (normal(100), zeros(100), 100), {"STEP": 24, "BLOCK": 32}),
        clean=Launch(blocks_that_overlap, (4,), lambda: (normal(100), zeros(100), 100), {"STEP": 32, "BLOCK": 32}),
    ),
    pair(shifts_in_place, {"offsets + 1, mask=offsets + 1 < n": "offsets, mask=offsets < n", "offsets, right": "offsets, 2 * right"}, (4,), lambda: (normal(1000), 1000), BLOCK=256),
    pair(counts_without_atomics, {"count = tl.load(counts_ptr + x)\n    tl.store(counts_ptr + x, count + 1)": "tl.atomic_add(counts_ptr + x, 1)"}, (6,), lambda: (torch.tensor([0, 1, 2, 1, 3, 0], dtype=torch.int32), counters(4)), N=6),
    pair(forgets_an_axis_of_the_grid, {"arange": "program_id(1) * BLOCK + tl.arange", "tl.program_id(1) * BLOCK + lanes": "lanes"}, (3, 2), lambda: (normal(3, 32), zeros(3, 32), 32), BLOCK=16),
    pair(adds_under_a_lock_of_its_own, {"lock_ptr + tl.program_id(0)": "lock_ptr"}, (8,), lambda: (counters(8), zeros(1))),
    pair(adds_under_a_relaxed_lock, {'0, 1, sem="relaxed"': "0, 1", '0, sem="relaxed"': "0"}, (8,), lambda: (counters(), zeros(1))),
    pair(last_block_counts_too_soon, last_block_adds_up, (8,), lambda: (normal(64), zeros(8), counters(), zeros(1)), PROGRAMS=8, N=8),
    pair(plain_reset_of_a_counter, {"    if tl.program_id(0) == 0:\n        tl.store(count_ptr, 0)  # fault: race\n": ""}, (4,), lambda: (counters(), zeros(1))),
]
