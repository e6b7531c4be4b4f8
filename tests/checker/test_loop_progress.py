"""Loops whose counter never ends them, or only after very many iterations."""

import itertools
import math
import time
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.detectors import loops
from kernellab.checker.records import Findings

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


@triton.jit
def looks_on(x_ptr, out_ptr, n, key):
    i = 0
    while tl.load(x_ptr + i) != key:  # endless
        i += 1
    tl.store(out_ptr, i)


@triton.jit
def goes_round(x_ptr, out_ptr, n, key):
    i = 0
    while tl.load(x_ptr + i * 7 % n) != key:  # endless
        i += 1
    tl.store(out_ptr, i)


@triton.jit
def tile_by_tile(x_ptr, out_ptr, n, key, BLOCK: tl.constexpr = 64):
    i = 0
    found = 0
    while found == 0:  # endless
        at = i + tl.arange(0, BLOCK)
        found = tl.max((tl.load(x_ptr + at, mask=at < n, other=0) == key).to(tl.int32), axis=0)
        i += BLOCK
    tl.store(out_ptr, i)


@triton.jit
def probes(x_ptr, out_ptr, n, key):
    i = key % n
    value = tl.load(x_ptr + i)
    while (value != key) & (value != -1):  # endless
        i = (i + 1) % n
        value = tl.load(x_ptr + i)
    tl.store(out_ptr, i)


@triton.jit
def bisects(x_ptr, out_ptr, n, key):
    low = 0
    high = n
    while low < high:  # endless
        middle = (low + high) // 2
        if tl.load(x_ptr + middle) < key:
            low = middle
        else:
            high = middle
    tl.store(out_ptr, low)


@triton.jit
def marks_until_all_are(x_ptr, out_ptr, n, key):
    i = 0
    while tl.load(x_ptr + i) < key:
        tl.store(x_ptr + i, key)
        i = (i + 1) % n
    tl.store(out_ptr, i)


@triton.jit
def adds_up(x_ptr, out_ptr, n, key):
    i = 0
    total = 0
    while total < key:
        total += tl.load(x_ptr + i % n)
        i += 1
    tl.store(out_ptr, i)


def check(kernel: Any, key: int, n: int = 600) -> Findings:
    x, out = torch.arange(n, dtype=torch.int32) + 1, torch.zeros(1, dtype=torch.int32)
    return kernellab.check(kernel, (2,), x, out, n, key)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kernel", [looks_on, goes_round, tile_by_tile, probes, bisects])
def test_a_search_that_never_ends_is_stopped_after_some_thousand_turns(kernel, messages) -> None:
    key = 300 if kernel is bisects else 100_000
    found = check(kernel, key)
    (endless,) = found.of_kind("endless-loop")
    lines = kernel.raw_src
    (line,) = [number for number, text in enumerate(lines) if "# endless" in text]
    assert endless.line == kernel.starting_line_number + line
    assert "100,000 iterations" not in endless.message
    if kernel in (looks_on, goes_round, tile_by_tile):
        assert endless.message == messages
    else:
        assert "never ends" in endless.message


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", [looks_on, goes_round, tile_by_tile, probes])
def test_a_search_that_finds_ends_of_itself(kernel) -> None:
    found = check(kernel, 599)
    assert not [one for one in found if one.kind != "race"], str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "key"), [(marks_until_all_are, 700), (adds_up, 2_000_000)])
def test_a_loop_that_changes_memory_or_counts_may_look_again(kernel, key) -> None:
    found = check(kernel, key)
    assert not found.of_kind("endless-loop"), str(found)
