"""`kernellab.validate` finds wrong-code bugs of Triton's passes in the version that has them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.support.compiled import source_line
from tests.support.versions import HAS_WRONG_PASSES

pytestmark = pytest.mark.skipif(not HAS_WRONG_PASSES, reason="fixed since Triton 3.8")


@triton.jit
def empty_inner_loop(out_ptr, count, first, last):
    total = 0
    for _ in tl.range(0, count, flatten=True):
        for _ in tl.range(first, last):
            total += 1
    tl.store(out_ptr, total)


@triton.jit
def assumption_elsewhere(x_ptr, out_ptr, m, n):
    total = 0.0
    if m == 0:
        tl.assume(n > 0)
        total = 1.0
    else:
        for _ in tl.range(0, m, flatten=True):
            for j in range(n):
                total += tl.load(x_ptr + j)
    tl.store(out_ptr, total)


@triton.jit
def bound_in_memory(x_ptr, bound_ptr, out_ptr, m):
    total = 0.0
    for _ in tl.range(0, m, flatten=True):
        for j in range(tl.load(bound_ptr)):
            total += tl.load(x_ptr + j)
    tl.store(out_ptr, total)


@triton.jit
def stored_partial_sums(x_ptr, sums_ptr, out_ptr, STEPS: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, 16), tl.arange(0, N)
    total = tl.zeros((16,), tl.float32)
    for step in range(STEPS):
        x = tl.load(x_ptr + (step * 16 + rows[:, None]) * N + columns)
        tl.store(sums_ptr + step * 16 + rows, total)
        total += tl.sum(x, axis=1)
    tl.store(out_ptr + rows, total)


@triton.jit
def products_summed(x_ptr, y_ptr, out_ptr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)
    products = tl.load(x_ptr + at)[:, :, None] * tl.load(y_ptr + at)[None, :, :]
    tl.store(out_ptr + at, tl.sum(products, axis=AXIS))


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


SQUARES = tuple(zeros(16, 16) for _ in range(3))

BUGS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str, str]] = {
    "#11656: an empty loop runs once, flattened": (empty_inner_loop,
        (torch.zeros(1, dtype=torch.int32), 4, 5, 3), {}, "ttgir.fuse_nested_loops", "tl.range"),
    "#11519: an assumption of another branch": (assumption_elsewhere,
        (zeros(1), zeros(1), 4, 0), {}, "ttgir.fuse_nested_loops", "range"),
    "#11601: a bound is read before an empty loop": (bound_in_memory,
        (zeros(1), torch.zeros(0, dtype=torch.int32), zeros(1), 0), {},
        "ttgir.fuse_nested_loops", "range"),
    "#11836: a sum that its loop also stores": (stored_partial_sums,
        (zeros(4, 16, 256), zeros(4, 16), zeros(16)), {"STEPS": 4, "N": 256},
        "ttgir.optimize_thread_locality", "tl.sum"),
    "#10574: sums along other axes as a matmul": (products_summed, SQUARES,
        {"N": 16, "AXIS": 0}, "ttir.combine", "products ="),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_with_its_pass_and_line(bug: str) -> None:
    kernel, arguments, constants, label, line = BUGS[bug]
    found = kernellab.validate(kernel, (1,), *arguments, target="sm_90", **constants)
    assert found.wrong is not None, found
    assert found.wrong.label == label
    assert any(line in source_line(position) for position in found.lines)


@pytest.mark.slow
def test_what_the_bugs_need() -> None:
    full = kernellab.validate(
        empty_inner_loop, (1,), torch.zeros(1, dtype=torch.int32), 4, 3, 5, target="sm_90"
    )
    matmul = kernellab.validate(products_summed, (1,), *SQUARES, N=16, AXIS=1, target="sm_90")
    assert full
    assert matmul
