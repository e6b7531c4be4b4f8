"""Loops whose counter never ends them, or only after very many iterations."""

import itertools
import math
import time

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.detectors import loops

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def counts_down(x_ptr, start):
    i = start
    total = 0.0
    while i != 0:
        total += tl.load(x_ptr + i % 8)
        i -= 2
    tl.store(x_ptr, total)


@triton.jit
def counts_away(x_ptr, end):
    i = tl.program_id(0)
    total = 0.0
    while i < end:
        total += i
        i -= 3
    tl.store(x_ptr + tl.program_id(0), total)


@triton.jit
def counts_far(x_ptr, end):
    total = 0.0
    for i in range(end):
        total += tl.load(x_ptr + i % 8)
    tl.store(x_ptr, total)


@triton.jit
def counts_far_without_memory(x_ptr, end):
    total = 0
    for i in range(0, end, 2):
        total ^= i
    tl.store(x_ptr, total * 1.0)


@pytest.mark.parametrize(
    ("kernel", "number"),
    [
        (counts_down, 7), (counts_down, -8), (counts_away, 9), (counts_far, 2**31 - 1),
        (counts_far_without_memory, 2**31 - 1),
    ],
)  # fmt: skip
def test_it_is_stopped_at_once(kernel, number, messages) -> None:
    kernellab.check(kernel, (1,), torch.zeros(8), 8)  # compiles it
    start = time.process_time()
    found = kernellab.check(kernel, (1,), torch.zeros(8), number)
    assert time.process_time() - start < 2
    (finding,) = found.of_kind("endless-loop")
    assert finding.message == messages


@pytest.mark.parametrize(
    ("kernel", "number"), [(counts_down, 4000), (counts_away, -1), (counts_far, 3000)]
)
def test_a_loop_that_ends_is_not_stopped(kernel, number) -> None:
    assert not kernellab.check(kernel, (1,), torch.zeros(8), number)


def test_most_turns_raises_the_limit() -> None:
    launch = counts_far, (1,), torch.zeros(8), 3000
    assert kernellab.check(*launch, most_turns=100).kinds == ("endless-loop",)
    assert not kernellab.check(*launch, most_turns=301)


def test_when_a_wrapping_counter_meets_a_value() -> None:
    """Every counter of 5 bits, counted out."""
    size = 32
    for now, bound, step in itertools.product(range(-16, 16), range(-16, 16), range(-5, 6)):
        counted = next((k for k in range(size) if (now + k * step - bound) % size == 0), math.inf)
        assert loops._until_equal(now, bound, step, 5) == counted
