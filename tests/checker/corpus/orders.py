"""Results that depend on the order of the programs, kernels that wait for ever, and loops that do not end."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


def counters(n: int = 1) -> torch.Tensor:
    return zeros(n, dtype=torch.int32)


@triton.jit
def appends_by_ticket(x_ptr, count_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    place = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + place, x)  # fault: order-dependence


@triton.jit
def last_one_wins(out_ptr, N: tl.constexpr):
    tl.atomic_xchg(out_ptr, tl.program_id(0))  # fault: order-dependence


@triton.jit
def reads_a_count_that_goes_on(count_ptr, out_ptr, N: tl.constexpr):
    tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + tl.program_id(0), tl.load(count_ptr))  # fault: order-dependence


@triton.jit
def sums_of_large_and_small(x_ptr, out_ptr, N: tl.constexpr):
    """Sums of floats by atomics round differently in every order: that is no fault."""
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_add(out_ptr + tl.arange(0, N), x)


@triton.jit
def multiplies_by_compare_and_swap(x_ptr, out_ptr, N: tl.constexpr):
    """Twice the total plus its own number: no two orders agree."""
    mine = tl.program_id(0) + 1
    seen = tl.load(out_ptr, volatile=True)
    done = 0
    while done == 0:
        was = tl.atomic_cas(out_ptr, seen, 2 * seen + mine)  # fault: order-dependence
        done = (was == seen).to(tl.int32)
        seen = was


@triton.jit
def lock_that_is_not_released(lock_ptr, total_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # fault: deadlock
        pass
    tl.store(total_ptr, tl.load(total_ptr) + 1)
    if tl.program_id(0) != 2:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def barrier_of_too_many(count_ptr, x_ptr, out_ptr, EXPECTED: tl.constexpr):
    program = tl.program_id(0)
    tl.store(out_ptr + program, tl.load(x_ptr + program))
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < EXPECTED:  # fault: deadlock
        pass


@triton.jit
def flag_that_nobody_sets(flag_ptr, out_ptr):
    program = tl.program_id(0)
    seen = 0
    while seen == 0:  # fault: deadlock
        seen = tl.load(flag_ptr + program + 1, volatile=True)
    tl.store(out_ptr + program, seen)


@triton.jit
def forgets_its_step(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start, total = 0, 0.0
    while start < n:  # fault: endless-loop
        lanes = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0))
    tl.store(out_ptr, total)


@triton.jit
def steps_the_wrong_way(out_ptr, n):
    i, steps = 0, 0
    while i < n:  # fault: endless-loop
        i -= 1
        steps += 1
    tl.store(out_ptr + tl.program_id(0), steps)


@triton.jit
def goes_round(out_ptr, n):
    i = 0
    while i != n + tl.program_id(0):  # fault: endless-loop
        i = (i + 1) % n
    tl.store(out_ptr + tl.program_id(0), i)


@triton.jit
def odd_numbers_never_end(out_ptr, n):
    """Program 1 halves an odd number for ever."""
    left = n + tl.program_id(0)
    while left != 1:  # fault: endless-loop
        left = tl.where(left % 2 == 0, left // 2, left)
    tl.store(out_ptr + tl.program_id(0), left)


def numbers(n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.int32)


PAIRS = [
    pair(appends_by_ticket, {"place = tl": "tl", "+ place": "+ tl.program_id(0)"}, (6,), lambda: (numbers(6), counters(), counters(6)), N=6),
    pair(last_one_wins, {"tl.atomic_xchg(out_ptr, tl.program_id(0))": "tl.atomic_max(out_ptr, tl.program_id(0))"}, (6,), lambda: (counters(),), N=6),
    pair(reads_a_count_that_goes_on, {"tl.store(out_ptr + tl.program_id(0), tl.load(count_ptr))": "while tl.atomic_add(count_ptr, 0) < N:\n        pass\n    tl.store(out_ptr + tl.program_id(0), tl.load(count_ptr))"}, (6,), lambda: (counters(), counters(6)), N=6),
    Pair(
        faulty=Launch(multiplies_by_compare_and_swap, (5,), lambda: (counters(), counters()), {"N": 1}),
        clean=Launch(sums_of_large_and_small, (64,), lambda: (1e6 * normal(64 * 16) ** 3, zeros(16)), {"N": 16}),
    ),
    pair(lock_that_is_not_released, {"if tl.program_id(0) != 2:\n        tl.atomic_xchg(lock_ptr, 0)": "tl.atomic_xchg(lock_ptr, 0)"}, (5,), lambda: (counters(), zeros(1))),
    Pair(
        faulty=Launch(barrier_of_too_many, (4,), lambda: (counters(), numbers(4), counters(4)), {"EXPECTED": 5}),
        clean=Launch(barrier_of_too_many, (4,), lambda: (counters(), numbers(4), counters(4)), {"EXPECTED": 4}),
    ),
    pair(flag_that_nobody_sets, {"seen = 0": "tl.atomic_xchg(flag_ptr + program + 1, 1)\n    seen = 0"}, (3,), lambda: (counters(4), counters(3))),
    pair(forgets_its_step, {"total += tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0))": "total += tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0))\n        start += BLOCK"}, (1,), lambda: (normal(100), zeros(1), 100), BLOCK=32, most_turns=300),
    pair(steps_the_wrong_way, {"i -= 1": "i += 1"}, (2,), lambda: (counters(2), 10), most_turns=300),
    pair(goes_round, {"i = (i + 1) % n": "i = i + 1"}, (2,), lambda: (counters(2), 7)),
    pair(odd_numbers_never_end, {"2, left": "2, 3 * left + 1"}, (2,), lambda: (counters(2), 4)),
]
