"""`kernellab.validate` finds wrong-code bugs of Triton's passes in the version that has them."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from packaging.specifiers import SpecifierSet

import kernellab
from tests.support.compiled import source_line
from tests.support.versions import TRITON


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


@triton.jit
def filled_bins(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    bins = tl.histogram(tl.load(x_ptr + at), N)
    tl.store(out_ptr + at, bins > 0)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


SQUARES = tuple(zeros(16, 16) for _ in range(3))

BUGS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str, str, str]] = {
    "#11656: an empty loop runs once, flattened": (empty_inner_loop,
        (torch.zeros(1, dtype=torch.int32), 4, 5, 3), {},
        "ttgir.fuse_nested_loops", "tl.range", "<3.9"),
    "#11519: an assumption of another branch": (assumption_elsewhere,
        (zeros(1), zeros(1), 4, 0), {}, "ttgir.fuse_nested_loops", "range", "<3.9"),
    "#11601: a bound is read before an empty loop": (bound_in_memory,
        (zeros(1), torch.zeros(0, dtype=torch.int32), zeros(1), 0), {},
        "ttgir.fuse_nested_loops", "range", ""),
    "#11836: a sum that its loop also stores": (stored_partial_sums,
        (zeros(4, 16, 256), zeros(4, 16), zeros(16)), {"STEPS": 4, "N": 256},
        "ttgir.optimize_thread_locality", "tl.sum", "<3.9"),
    "#10574: sums along other axes as a matmul": (products_summed, SQUARES,
        {"N": 16, "AXIS": 0}, "ttir.combine", "products =", "<3.8"),
    "#11246: counts are never above zero": (filled_bins,
        (torch.zeros(64).int(), torch.zeros(64).int()), {"N": 64, "target": "gfx942"},
        "ttgir.fold_true_cmpi", "bins > 0", ">=3.8,<3.9"),
}  # fmt: skip
"""With the pass, what its line holds, and which of the versions 3.6 to 3.9 have the bug."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_found_with_its_pass_and_line_where_a_version_has_it(bug: str) -> None:
    kernel, arguments, constants, label, line, versions = BUGS[bug]
    options = {"target": "sm_90", **constants}
    found = kernellab.validate(kernel, (1,), *arguments, **options)
    if TRITON not in SpecifierSet(versions):
        assert found, found
        return
    assert found.wrong is not None, found
    assert found.wrong.label == label
    assert any(line in source_line(position) for position in found.lines)
