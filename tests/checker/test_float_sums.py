"""What is said of floats that depend on the order of the programs: numbers that differ."""

import re

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.common.text import number_texts
from tests.checker.launches import normal, zeros
from tests.kernels.interp import waiting


@triton.jit
def exchanges(x_ptr, out_ptr):
    tl.atomic_xchg(out_ptr, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def collides(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes // 2, tl.load(x_ptr + lanes))


def neighbors() -> torch.Tensor:
    """-1.52137 and the next number of fp32: with six digits they look alike."""
    one = numpy.float32(-1.52137)
    return torch.tensor([one, numpy.nextafter(one, numpy.float32(0))])


def test_numbers_that_differ_in_their_last_bit_are_told_apart() -> None:
    x = neighbors()
    ordered = kernellab.check(exchanges, (2,), x, torch.zeros(1))
    lanes = kernellab.check(collides, (1,), x, torch.zeros(1), BLOCK=2)
    for (finding,), kind in ((ordered, "order-dependence"), (lanes, "lane-collision")):
        assert finding.kind == kind
        told = {float(one) for one in re.findall(r"-1\.52\d+", finding.message)}
        assert len(told) == 2
        for number, expected in zip(sorted(told), sorted(x.tolist())):
            assert number == pytest.approx(expected, rel=5e-8)


def test_six_digits_are_enough_where_they_differ() -> None:
    assert number_texts(1.0, 2.5) == ("1", "2.5")
    assert number_texts(0.1, 0.1) == ("0.1", "0.1")
    assert number_texts(float("inf"), 3.0) == ("inf", "3")
    assert number_texts(0.0, -0.0) == ("0", "-0")
    assert number_texts(1 / 3, 1 / 3 + 1e-9) == ("0.333333333", "0.333333334")
    assert number_texts(7, 8) == ("7", "8")


@triton.jit
def adds_and_sums(x_ptr, lock_ptr, total_ptr, out_ptr, LOCKED: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    if LOCKED:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(total_ptr, tl.load(total_ptr) + x)
        tl.atomic_xchg(lock_ptr, 0)
    else:
        tl.atomic_add(total_ptr, x)


@pytest.mark.parametrize("locked", [True, False], ids=["under-a-lock", "by-atomics"])
def test_a_sum_that_overflows_on_the_way_in_one_order_is_told(locked, messages) -> None:
    lock = torch.zeros(1, dtype=torch.int32)
    total = torch.zeros(1, dtype=torch.float16)
    for numbers, depends in (([40_000, 40_000, -40_000], True), ([8_000, 9_000, -4_000], False)):
        x = torch.tensor(numbers, dtype=torch.float16)
        with numpy.errstate(over="ignore"):
            ends = [numpy.add.accumulate(one)[-1] for one in (x.numpy(), x.numpy()[::-1])]
        assert depends == (numpy.isfinite(ends[0]) != numpy.isfinite(ends[1]))
        found = kernellab.check(adds_and_sums, (3,), x, lock, total, total, LOCKED=locked)
        told = found.of_kind("order-dependence")
        assert len(told) == depends, str(found)
        for one in told:
            assert one.message == messages
            assert "fp32" in one.advice


@pytest.mark.slow
def test_how_far_a_scan_looks_back_is_a_matter_of_rounding() -> None:
    counters = torch.zeros(16, dtype=torch.int32)
    arguments = normal(16 * 8), zeros(16 * 8), counters, zeros(32)
    assert not kernellab.check(waiting.look_back, (16,), *arguments, N=8)


@triton.jit
def adds_rows(x_ptr, total_ptr, lock_ptr, WIDTH: tl.constexpr, GROUPS: tl.constexpr):
    """As the tutorial's layer norm: the first program of a group stores, the others add."""
    row, lanes = tl.program_id(0), tl.arange(0, WIDTH)
    lock = lock_ptr + row % GROUPS
    places = total_ptr + row % GROUPS * WIDTH + lanes
    part = tl.load(x_ptr + row * WIDTH + lanes)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(lock + GROUPS) == 0:
        tl.atomic_xchg(lock + GROUPS, 1)
    else:
        part += tl.load(places)
    tl.store(places, part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("content", [float("nan"), float("inf"), 0.0, 1.0])
def test_what_memory_held_before_the_first_number_of_a_sum_is_no_part_of_it(content) -> None:
    totals = torch.full((3, 16), content)
    locks = torch.zeros(6, dtype=torch.int32)
    assert not kernellab.check(adds_rows, (12,), normal(12, 16), totals, locks, WIDTH=16, GROUPS=3)
