"""What is said of floats that depend on the order of the programs: numbers that differ."""

import re

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.common.text import number_texts
from tests.checker.corpus.dot_precision import balanced, long_product, product, shifted
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


# What a product is said to lose, beside float64 and a rounding written with torch


M, K, N = 16, 32, 16


def in_tf32(x: torch.Tensor) -> torch.Tensor:
    """Without the low 13 bits of the fraction, in float64."""
    return (x.view(torch.int32) & -(1 << 13)).view(torch.float32).double()


def test_the_numbers_are_those_of_the_product() -> None:
    a, b = shifted(M, K), balanced(K, N)
    (finding,) = kernellab.check(product, (1,), a, b, torch.zeros(M, N), M=M, K=K, N=N)
    exact, lossy = a.double() @ b.double(), in_tf32(a) @ in_tf32(b)
    part = ((lossy - exact).norm() / exact.norm()).item()
    found = re.search(r"by ([\d.]+)% of its norm; element \((\d+), (\d+)\) is ([-\d.e+]+) instead of ([-\d.e+]+);", finding.message)  # fmt: skip
    assert found is not None, finding.message
    percent, row, column, gives, instead = map(float, found.groups())
    assert percent / 100 == pytest.approx(part, rel=0.02)
    lane = int(row), int(column)
    assert lane == divmod(int((lossy - exact).abs().argmax()), N)
    # fp32 sums of 32 products around 500 are off by at most about 32 * 500 * 2**-24 = 1e-3.
    assert gives == pytest.approx(lossy[lane].item(), abs=2e-3)
    assert instead == pytest.approx(exact[lane].item(), abs=2e-3)


@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["around-500", "around-0"])
@pytest.mark.parametrize("depth", [32, 4096])
def test_rounding_alone_is_far_from_a_finding(spread, depth) -> None:
    """The documented 0.1 %, a tenth of what is tolerated, with numbers of one sign and of both, in float64."""
    offset = 500.0 * (1.0 - spread)
    a, b = normal(M, depth) + offset, normal(depth, N, seed=1) + offset
    exact, lossy = a.double() @ b.double(), in_tf32(a) @ in_tf32(b)
    assert ((lossy - exact).norm() / exact.norm()).item() < 0.001
    found = kernellab.check(long_product, (1,), a, b, torch.zeros(M, N), depth, M=M, K=K, N=N)
    assert not found, str(found)


@triton.jit
def turns_of_its_own(a_ptr, b_ptr, out_ptr, depth, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):  # fmt: skip
    """Program p adds up p turns: after one the sum is exact enough, after two it has cancelled."""
    pid = tl.program_id(0)
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, pid * K, K):
        a = tl.load(a_ptr + m[:, None] * depth + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * N + n[None, :])
        c = tl.dot(a, b, c)
    tl.store(out_ptr + pid * M * N + m[:, None] * N + n[None, :], c)


def test_each_program_counts_its_own_turns() -> None:
    weights = normal(K, N, seed=1).abs()
    a = shifted(M, 3 * K)
    b = torch.cat([weights, -weights + 1e-3, weights])
    out = torch.zeros(4, M, N)
    (finding,) = kernellab.check(turns_of_its_own, (4,), a, b, out, 3 * K, M=M, K=K, N=N)
    exact = [a.double()[:, : p * K] @ b.double()[: p * K] for p in range(4)]
    lossy = [in_tf32(a)[:, : p * K] @ in_tf32(b)[: p * K] for p in range(4)]
    loses = [p for p in range(1, 4) if (lossy[p] - exact[p]).norm() > 0.01 * exact[p].norm()]
    assert loses == [2], "the values try too little"
    assert finding.programs == ((2, 0, 0),)


def test_numbers_that_tf32_holds_lose_nothing() -> None:
    a = torch.arange(M * K).reshape(M, K).float()
    b = torch.eye(K)[:, :N] - torch.eye(K).roll(1, 0)[:, :N]
    assert not kernellab.check(product, (1,), a, b, torch.zeros(M, N), M=M, K=K, N=N)


# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def split_k(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
    tl.atomic_add(out_ptr + lanes, x)


@triton.jit
def copies(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@triton.jit
def divides(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, x / x)


def uninitialized(*shape: int) -> torch.Tensor:
    y = zeros(*shape)
    y[..., 3:] = torch.nan
    return y


def nan_notes(*launch, **options) -> list[str]:
    return [note for note in kernellab.check(*launch, **options).notes if "holds NaN" in note]


def test_atomics_on_memory_that_was_not_initialized(messages) -> None:
    (note,) = nan_notes(split_k, (4,), normal(256), uninitialized(64), BLOCK=64)
    assert note == messages
    assert "out_ptr[3]" in note
    assert not nan_notes(split_k, (4,), normal(256), zeros(64), BLOCK=64)


def test_elements_that_no_program_writes(messages) -> None:
    (note,) = nan_notes(copies, (1,), normal(8), uninitialized(2, 4), 7, BLOCK=8)
    assert "y_ptr holds NaN in 1 of its 8 elements" in note
    assert "y_ptr[1, 3]" in note
    assert note == messages
    assert not nan_notes(copies, (1,), normal(8), uninitialized(2, 4), 8, BLOCK=8)


def test_nan_from_an_argument_and_nan_that_are_a_finding(messages) -> None:
    (note,) = nan_notes(copies, (1,), uninitialized(8), zeros(8), 8, BLOCK=8)
    assert note == messages
    assert not nan_notes(divides, (1,), zeros(8), zeros(8), BLOCK=8)
    assert "nan" in kernellab.check(divides, (1,), zeros(8), zeros(8), BLOCK=8).kinds


def test_memory_that_is_marked_as_uninitialized_may_hold_anything() -> None:
    out = kernellab.uninitialized(uninitialized(64))
    found = kernellab.check(split_k, (4,), normal(256), out, BLOCK=64)
    assert "uninitialized-read" in found.kinds
    assert not any("holds NaN" in note for note in found.notes)
