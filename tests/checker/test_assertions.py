"""Assertions count in a check, a trace and a debugger, whatever the launch says of debugging."""

import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import KernelFault


@triton.jit
def is_share(x):
    tl.device_assert(x <= 1, "a share is at most 1")
    return x


@triton.jit
def shares(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    assert n > 0, "nothing to add"
    tl.atomic_add(total_ptr, tl.sum(is_share(x)))


@triton.jit
def hashed(x_ptr, BLOCK: tl.constexpr):
    numbers = tl.arange(0, BLOCK) * 2654435
    numbers = numbers * numbers * 31  # wraps, and may
    tl.device_assert(numbers == numbers)
    tl.store(x_ptr + tl.arange(0, BLOCK), (numbers & 7).to(tl.float32))


def faulty() -> torch.Tensor:
    x = torch.full((40,), 0.5)
    x[[21, 35]] = 2
    return x


def test_a_check_finds_what_is_asserted_and_goes_on(messages) -> None:
    x, total = faulty(), torch.zeros(1)
    found = kernellab.check(shares, (5,), x, total, 40, BLOCK=8)
    assert found.kinds == ("failed-assertion",)
    one = found[0]
    assert one.message == messages
    assert one.position is not None
    assert "device_assert" in one.position.excerpt()
    assert [call.excerpt().count("is_share(x)") for call in one.calls] == [1]
    assert (one.programs, one.lane, one.count) == (((2, 0, 0), (4, 0, 0)), (5,), 2)
    assert one.values["x"] == 2.0
    assert not kernellab.check(shares, (5,), torch.full((40,), 0.5), total, 40, BLOCK=8)


def test_an_assert_statement_counts(messages) -> None:
    found = kernellab.check(shares, (1,), torch.zeros(0), torch.zeros(1), 0, BLOCK=8)
    assert [one.message for one in found] == messages


def test_a_trace_ends_where_it_fails() -> None:
    trace = kernellab.trace(shares, (5,), faulty(), torch.zeros(1), 40, BLOCK=8, programs=2)
    assert "a share is at most 1" in str(trace.fault)


def test_a_launch_leaves_assertions_out_as_triton_does(raised) -> None:
    total = torch.zeros(1)
    kernellab.run(shares, (5,), faulty(), total, 40, BLOCK=8)
    assert total.item() == 23
    assert not kernellab.check(shares, (5,), faulty(), total, 40, BLOCK=8, debug=False)
    raised(KernelFault, kernellab.run, shares, (5,), faulty(), total, 40, BLOCK=8, debug=True)


def test_triton_checks_of_overflow_stay_off() -> None:
    assert not kernellab.check(hashed, (1,), torch.zeros(64), BLOCK=64)


def test_what_a_finding_opens_is_the_launch_as_it_was_written() -> None:
    found = kernellab.check(shares, (5,), faulty(), torch.zeros(1), 40, BLOCK=8)
    assert found.subject is not None
    assert found.subject.options["debug"] is False
