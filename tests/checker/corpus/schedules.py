"""Faults that show only in another order of programs, or between an atomic and what follows."""

from typing import Any

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, pair

# fmt: off

FAR = 1 << 20
"""Above all values."""


def counters(n: int = 1, fill: int = 0) -> torch.Tensor:
    return torch.full((n,), fill, dtype=torch.int32)


def values(n: int, seed: int = 0) -> torch.Tensor:
    """Distinct numbers in an order of their own."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(torch.int32)


# The least value, and where it is


@triton.jit
def argmin_in_two_steps(x_ptr, best_ptr, where_ptr):
    program = tl.program_id(0)
    mine = tl.load(x_ptr + program)
    if mine < tl.atomic_min(best_ptr, mine):
        tl.store(where_ptr, program)  # fault: race


@triton.jit
def argmin_under_a_lock(x_ptr, best_ptr, where_ptr, lock_ptr):
    program = tl.program_id(0)
    mine = tl.load(x_ptr + program)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if mine < tl.load(best_ptr):
        tl.store(best_ptr, mine)
        tl.store(where_ptr, program)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def argmin_looked_at_again(x_ptr, best_ptr, where_ptr):
    """The least so far writes its place, each of them."""
    program = tl.program_id(0)
    mine = tl.load(x_ptr + program)
    tl.atomic_min(best_ptr, mine)
    tl.store(where_ptr, program, mask=tl.load(best_ptr) == mine)  # fault: race


@triton.jit
def argmin_in_one_number(x_ptr, best_ptr, where_ptr):
    program = tl.program_id(0)
    both = tl.load(x_ptr + program).to(tl.int64) * 65536 + program
    tl.atomic_min(best_ptr, both)


@triton.jit
def argmin_by_exchanges(x_ptr, best_ptr, where_ptr):
    """No plain store: the places are exchanged, in another order than the values."""
    program = tl.program_id(0)
    mine = tl.load(x_ptr + program)
    if mine < tl.atomic_min(best_ptr, mine):
        tl.atomic_xchg(where_ptr, program)  # fault: order-dependence


# A ring of slots between a producer and a consumer


@triton.jit
def ring_without_back_pressure(x_ptr, ring_ptr, tail_ptr, out_ptr, N: tl.constexpr, SLOTS: tl.constexpr):
    """The producer does not ask whether a slot was read."""
    if tl.program_id(0) == 0:
        for i in range(N):
            tl.store(ring_ptr + i % SLOTS, tl.load(x_ptr + i))  # fault: race
            tl.atomic_xchg(tail_ptr, i + 1)
    else:
        for i in range(N):
            while tl.atomic_add(tail_ptr, 0) <= i:
                pass
            tl.store(out_ptr + i, tl.load(ring_ptr + i % SLOTS))


@triton.jit
def ring(x_ptr, ring_ptr, head_ptr, tail_ptr, out_ptr, N: tl.constexpr, SLOTS: tl.constexpr, AHEAD: tl.constexpr):
    if tl.program_id(0) == 0:
        for i in range(N):
            while i - tl.atomic_add(head_ptr, 0) >= AHEAD:
                pass
            tl.store(ring_ptr + i % SLOTS, tl.load(x_ptr + i))  # fault: race
            tl.atomic_xchg(tail_ptr, i + 1)
    else:
        for i in range(N):
            while tl.atomic_add(tail_ptr, 0) <= i:
                pass
            tl.store(out_ptr + i, tl.load(ring_ptr + i % SLOTS))
            tl.atomic_xchg(head_ptr, i + 1)


@triton.jit
def ring_freed_too_soon(x_ptr, ring_ptr, head_ptr, tail_ptr, out_ptr, N: tl.constexpr, SLOTS: tl.constexpr, AHEAD: tl.constexpr):
    """The consumer says that a slot is free, and reads it then."""
    if tl.program_id(0) == 0:
        for i in range(N):
            while i - tl.atomic_add(head_ptr, 0) >= AHEAD:
                pass
            tl.store(ring_ptr + i % SLOTS, tl.load(x_ptr + i))  # fault: race
            tl.atomic_xchg(tail_ptr, i + 1)
    else:
        for i in range(N):
            while tl.atomic_add(tail_ptr, 0) <= i:
                pass
            tl.atomic_xchg(head_ptr, i + 1)
            tl.store(out_ptr + i, tl.load(ring_ptr + i % SLOTS))


@triton.jit
def ring_of_flags(x_ptr, ring_ptr, full_ptr, out_ptr, N: tl.constexpr, SLOTS: tl.constexpr):
    """A flag for each slot: 1 where it is full."""
    if tl.program_id(0) == 0:
        for i in range(N):
            while tl.atomic_add(full_ptr + i % SLOTS, 0) != 0:
                pass
            tl.store(ring_ptr + i % SLOTS, tl.load(x_ptr + i))
            tl.atomic_xchg(full_ptr + i % SLOTS, 1)
    else:
        for i in range(N):
            while tl.atomic_add(full_ptr + i % SLOTS, 0) != 1:
                pass
            tl.store(out_ptr + i, tl.load(ring_ptr + i % SLOTS))
            tl.atomic_xchg(full_ptr + i % SLOTS, 0)


@triton.jit
def ring_of_flags_nobody_asks(x_ptr, ring_ptr, full_ptr, out_ptr, N: tl.constexpr, SLOTS: tl.constexpr):
    """The producer fills a slot whether it is empty or not; the slots go round twice."""
    if tl.program_id(0) == 0:
        for i in range(N):
            tl.store(ring_ptr + i % SLOTS, tl.load(x_ptr + i))  # fault: race
            tl.atomic_xchg(full_ptr + i % SLOTS, i + 1)
    else:
        for i in range(N):
            while tl.atomic_add(full_ptr + i % SLOTS, 0) < i + 1:
                pass
            tl.store(out_ptr + i, tl.load(ring_ptr + i % SLOTS))


@triton.jit
def ticket_lock_released_too_soon(ticket_ptr, serving_ptr, total_ptr):
    ticket = tl.atomic_add(ticket_ptr, 1)
    while tl.atomic_add(serving_ptr, 0) != ticket:
        pass
    total = tl.load(total_ptr)
    tl.atomic_add(serving_ptr, 1)
    tl.store(total_ptr, total + 1)  # fault: race


@triton.jit
def lock_taken_in_two_steps(lock_ptr, total_ptr):
    """Two programs may both see it free."""
    while tl.atomic_add(lock_ptr, 0) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 1)
    tl.store(total_ptr, tl.load(total_ptr) + 1)  # fault: race
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def two_locks(lock_ptr, total_ptr, CROSSED: tl.constexpr):
    """Each program takes both; crossed, in opposite orders."""
    first = tl.program_id(0) % 2 if CROSSED else 0
    while tl.atomic_cas(lock_ptr + first, 0, 1) == 1:
        pass
    while tl.atomic_cas(lock_ptr + 1 - first, 0, 1) == 1:  # fault: deadlock
        pass
    tl.store(total_ptr, tl.load(total_ptr) + 1)
    tl.atomic_xchg(lock_ptr + 1 - first, 0)
    tl.atomic_xchg(lock_ptr + first, 0)


@triton.jit
def made_once_without_acquire(flag_ptr, lock_ptr, table_ptr, out_ptr):
    """Who sees the flag without acquiring it may not see the table."""
    if tl.atomic_add(flag_ptr, 0, sem="relaxed") == 0:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        if tl.atomic_add(flag_ptr, 0) == 0:
            tl.store(table_ptr, 42)  # fault: race
            tl.atomic_xchg(flag_ptr, 1)
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(out_ptr + tl.program_id(0), tl.load(table_ptr))


@triton.jit
def made_once_and_flagged_first(flag_ptr, lock_ptr, table_ptr, out_ptr):
    if tl.atomic_add(flag_ptr, 0) == 0:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        if tl.atomic_add(flag_ptr, 0) == 0:
            tl.atomic_xchg(flag_ptr, 1)
            tl.store(table_ptr, 42)  # fault: race
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(out_ptr + tl.program_id(0), tl.load(table_ptr))


@triton.jit
def last_one_is_told_too_soon(x_ptr, partial_ptr, count_ptr, out_ptr, PROGRAMS: tl.constexpr):
    program = tl.program_id(0)
    x = tl.load(x_ptr + program)
    done = tl.atomic_add(count_ptr, 1)
    tl.store(partial_ptr + program, 2 * x)  # fault: race
    if done == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def pops_a_stale_head(queue_ptr, head_ptr, out_ptr):
    """Two programs may read one head, and pop one item."""
    head = tl.load(head_ptr)
    item = tl.load(queue_ptr + head)
    tl.atomic_add(head_ptr, 1)
    tl.store(out_ptr + item, item + 1)  # fault: race


@triton.jit
def pops_without_asking_again(queue_ptr, head_ptr, out_ptr):
    """Two programs may read one head; all that they share is updated by atomics."""
    head = tl.load(head_ptr)
    tl.atomic_xchg(head_ptr, head + 1)  # fault: order-dependence
    tl.atomic_add(out_ptr + tl.load(queue_ptr + head), 1)


@triton.jit
def pops_by_compare_and_swap(queue_ptr, head_ptr, out_ptr):
    head = tl.load(head_ptr)
    found = tl.atomic_cas(head_ptr, head, head + 1)
    while found != head:
        head = found
        found = tl.atomic_cas(head_ptr, head, head + 1)
    tl.atomic_add(out_ptr + tl.load(queue_ptr + head), 1)


# A pair of numbers under a version


@triton.jit
def version_not_looked_at_again(version_ptr, pair_ptr, out_ptr, N: tl.constexpr):
    """The writer keeps both numbers equal; a reader may see one of each version."""
    if tl.program_id(0) == 0:
        for i in range(1, N):
            tl.atomic_add(version_ptr, 1)
            tl.atomic_xchg(pair_ptr, i)
            tl.atomic_xchg(pair_ptr + 1, i)
            tl.atomic_add(version_ptr, 1)
    else:
        while tl.atomic_add(version_ptr, 0) % 2 == 1:
            pass
        first = tl.load(pair_ptr, volatile=True)
        tl.store(out_ptr + tl.program_id(0), tl.load(pair_ptr + 1, volatile=True) - first)  # fault: order-dependence


@triton.jit
def version_looked_at_again(version_ptr, pair_ptr, out_ptr, N: tl.constexpr):
    if tl.program_id(0) == 0:
        for i in range(1, N):
            tl.atomic_add(version_ptr, 1)
            tl.atomic_xchg(pair_ptr, i)
            tl.atomic_xchg(pair_ptr + 1, i)
            tl.atomic_add(version_ptr, 1)
    else:
        before, after, apart = 1, 2, 0
        while (before != after) | (before % 2 == 1):
            before = tl.atomic_add(version_ptr, 0)
            first = tl.load(pair_ptr, volatile=True)
            apart = tl.load(pair_ptr + 1, volatile=True) - first
            after = tl.atomic_add(version_ptr, 0)
        tl.store(out_ptr + tl.program_id(0), apart)


@triton.jit
def plain_pair_not_looked_at_again(version_ptr, pair_ptr, out_ptr, N: tl.constexpr):
    if tl.program_id(0) == 0:
        for i in range(1, N):
            tl.atomic_add(version_ptr, 1)
            tl.store(pair_ptr, i)  # fault: race
            tl.store(pair_ptr + 1, i)  # fault: race
            tl.atomic_add(version_ptr, 1)
    else:
        while tl.atomic_add(version_ptr, 0) % 2 == 1:
            pass
        first = tl.load(pair_ptr)
        tl.store(out_ptr + tl.program_id(0), tl.load(pair_ptr + 1) - first)


@triton.jit
def plain_pair_looked_at_again(version_ptr, pair_ptr, out_ptr, N: tl.constexpr):
    """What a reader loads while the writer stores comes to nothing: it looks again."""
    if tl.program_id(0) == 0:
        for i in range(1, N):
            tl.atomic_add(version_ptr, 1)
            tl.store(pair_ptr, i)
            tl.store(pair_ptr + 1, i)
            tl.atomic_add(version_ptr, 1)
    else:
        before, after, apart = 1, 2, 0
        while (before != after) | (before % 2 == 1):
            before = tl.atomic_add(version_ptr, 0)
            first = tl.load(pair_ptr)
            apart = tl.load(pair_ptr + 1) - first
            after = tl.atomic_add(version_ptr, 0)
        tl.store(out_ptr + tl.program_id(0), apart)


@triton.jit
def version_taken_while_odd(version_ptr, tile_ptr, out_ptr, N: tl.constexpr):
    """`|` asks both sides: a writer takes the version from another."""
    lanes = tl.arange(0, N)
    if tl.program_id(0) < 2:
        version = tl.atomic_add(version_ptr, 0)
        while (version % 2 == 1) | (tl.atomic_cas(version_ptr, version, version + 1) != version):
            version = tl.atomic_add(version_ptr, 0)
        tl.store(tile_ptr + lanes, tl.load(tile_ptr + lanes) + 1)  # fault: race
        tl.atomic_add(version_ptr, 1)
    else:
        before, after, spread = 1, 2, 0
        while (before != after) | (before % 2 == 1):
            before = tl.atomic_add(version_ptr, 0)
            tile = tl.load(tile_ptr + lanes)
            spread = tl.max(tile) - tl.min(tile)
            after = tl.atomic_add(version_ptr, 0)
        tl.store(out_ptr + tl.program_id(0), spread)


@triton.jit
def version_taken_while_even(version_ptr, tile_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    if tl.program_id(0) < 2:
        taken = 0
        while taken == 0:
            version = tl.atomic_add(version_ptr, 0)
            if version % 2 == 0:
                taken = (tl.atomic_cas(version_ptr, version, version + 1) == version).to(tl.int32)
        tl.store(tile_ptr + lanes, tl.load(tile_ptr + lanes) + 1)
        tl.debug_barrier()
        tl.atomic_add(version_ptr, 1)
    else:
        before, after, spread = 1, 2, 0
        while (before != after) | (before % 2 == 1):
            before = tl.atomic_add(version_ptr, 0)
            tile = tl.load(tile_ptr + lanes)
            spread = tl.max(tile) - tl.min(tile)
            after = tl.atomic_add(version_ptr, 0)
        tl.store(out_ptr + tl.program_id(0), spread)


# fmt: on


def launches(seed: int) -> list[Pair]:
    """The pairs, with values in an order that `seed` chooses."""

    def x(n: int) -> torch.Tensor:
        return values(n, seed)

    ring_of = {"N": 12, "SLOTS": 4}
    locked = Launch(
        argmin_under_a_lock,
        (6,),
        lambda: (x(6), counters(1, FAR), counters(1, -1), counters()),
        outputs=("best_ptr", "where_ptr"),
    )
    packed = Launch(
        argmin_in_one_number,
        (6,),
        lambda: (x(6), torch.full((1,), FAR, dtype=torch.int64) * 65536, counters()),
    )
    flags = Launch(
        ring_of_flags, (2,), lambda: (x(12), counters(4), counters(4), counters(12)), ring_of
    )

    def argmin(kernel: Any) -> Launch:
        return Launch(kernel, (6,), lambda: (x(6), counters(1, FAR), counters(1, -1)))

    def filled(kernel: Any, ahead: int) -> Launch:
        arguments = lambda: (x(12), counters(4), counters(), counters(), counters(12))  # noqa: E731
        return Launch(kernel, (2,), arguments, {**ring_of, "AHEAD": ahead})

    return [
        Pair(argmin(argmin_in_two_steps), locked),
        Pair(argmin(argmin_looked_at_again), packed),
        Pair(argmin(argmin_by_exchanges), packed),
        Pair(
            Launch(
                ring_without_back_pressure,
                (2,),
                lambda: (x(12), counters(4), counters(), counters(12)),
                ring_of,
            ),
            flags,
        ),
        Pair(filled(ring, ahead=5), filled(ring, ahead=4)),
        Pair(filled(ring_freed_too_soon, ahead=4), filled(ring, ahead=4)),
        Pair(Launch(ring_of_flags_nobody_asks, (2,), flags.arguments, ring_of), flags),
        pair(
            ticket_lock_released_too_soon,
            {
                "    tl.atomic_add(serving_ptr, 1)\n": "",
                "total + 1)": "total + 1)\n    tl.atomic_add(serving_ptr, 1)",
            },
            (6,),
            lambda: (counters(), counters(), counters()),
        ),
        pair(
            lock_taken_in_two_steps,
            {
                "while tl.atomic_add(lock_ptr, 0) == 1:": "while tl.atomic_xchg(lock_ptr, 1) == 1:",
                "    tl.atomic_xchg(lock_ptr, 1)\n": "",
            },
            (6,),
            lambda: (counters(), counters()),
        ),
        Pair(
            Launch(two_locks, (6,), lambda: (counters(2), counters()), {"CROSSED": True}),
            Launch(two_locks, (6,), lambda: (counters(2), counters()), {"CROSSED": False}),
        ),
        *(
            pair(kernel, clean, (6,), lambda: (counters(), counters(), counters(), counters(6)))
            for kernel, clean in (
                (made_once_without_acquire, {', sem="relaxed"': ""}),
                (
                    made_once_and_flagged_first,
                    {
                        "            tl.atomic_xchg(flag_ptr, 1)\n": "",
                        "ptr, 42)": "ptr, 42)\n            tl.atomic_xchg(flag_ptr, 1)",
                    },
                ),
            )
        ),
        pair(
            last_one_is_told_too_soon,
            {
                "done = tl.atomic_add(count_ptr, 1)": "tl.store(partial_ptr + program, 2 * x)\n    done = tl.atomic_add(count_ptr, 1)",
                "    tl.store(partial_ptr + program, 2 * x)  # fault: race\n": "",
            },
            (8,),
            lambda: (x(8), counters(8), counters(), counters()),
            PROGRAMS=8,
        ),
        pair(
            pops_a_stale_head,
            {
                "head = tl.load(head_ptr)": "head = tl.atomic_add(head_ptr, 1)",
                "    tl.atomic_add(head_ptr, 1)\n": "",
            },
            (6,),
            lambda: (x(6), counters(), counters(6)),
        ),
        pair(
            pops_without_asking_again,
            pops_by_compare_and_swap,
            (6,),
            lambda: (x(6), counters(), counters(6)),
        ),
        *(
            pair(faulty, clean, (3,), lambda: (counters(), counters(2), counters(3)), N=6)
            for faulty, clean in (
                (version_not_looked_at_again, version_looked_at_again),
                (plain_pair_not_looked_at_again, plain_pair_looked_at_again),
            )
        ),
        pair(
            version_taken_while_odd, version_taken_while_even, (4,),
            lambda: (counters(), counters(8), counters(4)), N=8,
        ),
    ]  # fmt: skip


PAIRS = launches(seed=0)
