"""What is said of races: through which argument, and what would order the two."""

import sys

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.launches import normal, zeros
from tests.support.source_lines import marked_line

# fmt: off


@triton.jit
def takes_the_right_neighbor(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    right = tl.load(x_ptr + lanes + 1, mask=lanes + 1 < n, other=0.0)
    tl.store(y_ptr + lanes, right, mask=lanes < n)


@triton.jit
def writes_before_it_reads(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """The store comes first: the load of another program is seen after it."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, 1.0, mask=lanes < n)
    left = tl.load(x_ptr + lanes - 1, mask=(lanes > 0) & (lanes < n), other=0.0)
    tl.store(y_ptr + lanes, left + 1, mask=(lanes < n) & (left > 5.0))


@triton.jit
def hands_over(data_ptr, flag_ptr, out_ptr, SET: tl.constexpr, SEEN: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data_ptr, 42)  # store
        tl.atomic_xchg(flag_ptr, 1, sem=SET)  # set
    else:
        while tl.atomic_add(flag_ptr, 0, sem=SEEN) == 0:  # seen
            pass
        tl.store(out_ptr, tl.load(data_ptr))


@triton.jit
def counts_beside_a_race(total_ptr, count_ptr):
    """The relaxed counter would order nothing either if it acquired and released."""
    tl.store(total_ptr, tl.program_id(0))
    tl.atomic_add(count_ptr, 1, sem="relaxed")


@triton.jit
def counts_in_its_own_block(data_ptr, count_ptr, out_ptr, PROGRAMS: tl.constexpr):
    tl.store(data_ptr + tl.program_id(0), tl.program_id(0))
    if tl.atomic_add(count_ptr, 1, scope="cta") == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(data_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def last_one_by_tickets(x_ptr, y_ptr):
    y = tl.atomic_xchg(y_ptr, tl.program_id(0))
    tl.atomic_max(x_ptr + 1, y)


# fmt: on


def counters(n: int = 1) -> torch.Tensor:
    return zeros(n, dtype=torch.int32)


@triton.jit
def sets_a_flag(x_ptr, flag_ptr, value, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    if tl.sum((x != x).to(tl.int32)) > 0:
        tl.store(flag_ptr, value)


@triton.jit
def saves_the_row_sum(x_ptr, y_ptr, sums_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    """All programs of a row store its sum."""
    row, lanes = tl.program_id(1), tl.arange(0, N)
    sums = tl.sum(tl.load(x_ptr + row * N + lanes))
    part = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + row * N + part, tl.load(x_ptr + row * N + part) / sums)
    tl.store(sums_ptr + row, sums)


@triton.jit
def flags_and_looks(x_ptr, flag_ptr, y_ptr):
    """Whether a program sees the flag depends on the order."""
    tl.store(y_ptr + tl.program_id(0), tl.load(flag_ptr))
    tl.store(flag_ptr, 1)  # looked at


@triton.jit
def stores_what_it_loads(x_ptr, flag_ptr):
    """The same bits, if x holds the same numbers."""
    tl.store(flag_ptr, tl.load(x_ptr + tl.program_id(0)))  # chance


def test_stores_of_the_same_bits_are_a_note(messages) -> None:
    x, flag = torch.full((32,), torch.nan), zeros(1, dtype=torch.int32)
    found = kernellab.check(sets_a_flag, (4,), x, flag, 7, N=8)
    assert not found
    (note,) = found.notes
    assert note == messages
    x, y, sums = normal(4, 32), zeros(4, 32), zeros(4)
    found = kernellab.check(saves_the_row_sum, (4, 4), x, y, sums, N=32, BLOCK=8)
    assert not found
    assert any("to sums_ptr[0]" in note for note in found.notes)


def test_stores_of_the_same_bits_by_chance_or_beside_a_read_are_a_race() -> None:
    flag = zeros(1)
    found = kernellab.check(stores_what_it_loads, (4,), torch.ones(4), flag)
    assert [(one.kind, one.line) for one in found] == [
        ("race", marked_line(sys.modules[__name__], "chance"))
    ]
    found = kernellab.check(flags_and_looks, (4,), zeros(1), flag, zeros(4))
    assert ("race", marked_line(sys.modules[__name__], "looked at")) in [
        (one.kind, one.line) for one in found
    ]


def test_arguments_that_share_memory_are_said_to() -> None:
    memory = normal(200)
    x, y = memory[:100], memory[50:150]
    found = kernellab.check(takes_the_right_neighbor, (2,), x, y, 100, BLOCK=64)
    (race,) = found.of_kind("race")
    assert race.argument == "y_ptr"
    assert race.index is not None
    (place,) = race.index
    assert f"writes y_ptr[{place}]" in race.message
    assert f"reads x_ptr[{place + 50}]" in race.message
    assert "share memory" in race.message
    assert "x_ptr" in race.advice
    assert "y_ptr" in race.advice
    assert not kernellab.check(takes_the_right_neighbor, (2,), x, normal(100), 100, BLOCK=64)


def test_the_store_is_told_by_its_own_argument_where_it_comes_first() -> None:
    memory = zeros(100)
    found = kernellab.check(writes_before_it_reads, (2,), memory, memory, 100, BLOCK=64)
    (race,) = found.of_kind("race")
    assert (race.argument, race.index) == ("y_ptr", (63,))
    assert "writes y_ptr[63] = 1" in race.message
    assert "reads x_ptr[63]" in race.message


def test_a_result_that_another_name_wrote_is_said_to_share_its_memory(messages) -> None:
    memory = counters(2)
    found = kernellab.check(last_one_by_tickets, (4,), memory, memory)
    (one,) = found.of_kind("order-dependence")
    assert "x_ptr" in one.message
    assert one.message == messages


@pytest.mark.parametrize(
    ("set_by", "seen_by", "blamed"),
    [
        ("relaxed", "relaxed", ("relaxed", ("set", "seen"))),
        ("relaxed", "acq_rel", ("relaxed", ("set",))),
        ("acq_rel", "relaxed", ("relaxed", ("seen",))),
        ("acquire", "acquire", ("acquire", ("set",))),
    ],
)
def test_a_relaxed_atomic_is_named(set_by, seen_by, blamed) -> None:
    arguments = (counters(), counters(), counters())
    found = kernellab.check(hands_over, (2,), *arguments, SET=set_by, SEEN=seen_by)
    (race,) = found
    sem, marks = blamed
    assert race.line == marked_line(sys.modules[__name__], "store")
    for mark in marks:
        line = marked_line(sys.modules[__name__], mark)
        assert f'the atomic on line {line} with sem="{sem}"' in race.message
    assert f'Remove sem="{sem}"' in race.advice


@pytest.mark.parametrize(("set_by", "seen_by"), [("acq_rel", "acq_rel"), ("release", "acquire")])
def test_atomics_that_release_and_acquire_order_it(set_by, seen_by) -> None:
    arguments = (counters(), counters(), counters())
    assert not kernellab.check(hands_over, (2,), *arguments, SET=set_by, SEEN=seen_by)


def test_the_scope_of_a_block_is_named() -> None:
    arguments = (counters(4), counters(), counters())
    found = kernellab.check(counts_in_its_own_block, (4,), *arguments, PROGRAMS=4)
    (race,) = found.of_kind("race")
    assert 'scope="cta"' in race.message
    assert 'Remove scope="cta"' in race.advice


def test_a_relaxed_atomic_that_would_order_nothing_is_not_blamed() -> None:
    (race,) = kernellab.check(counts_beside_a_race, (4,), counters(), counters()).of_kind("race")
    assert "relaxed" not in race.message + race.advice
