"""A check of a launch on a large tensor takes memory for what the launch touches of it."""

import subprocess
import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.arguments import LazyCopy
from kernellab.checker.records import Findings

SIZE = 80 * 1024 * 1024


@triton.jit
def here_and_there(x_ptr, step):
    tl.store(x_ptr + tl.program_id(0) * step, 7)


@triton.jit
def two_at_one_place(x_ptr, step):
    tl.store(x_ptr + tl.program_id(0) // 2 * step, tl.program_id(0).to(tl.int8))  # fault


@triton.jit
def holds_the_remainders(
    x_ptr, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr, HOW: tl.constexpr
):
    rows = tl.arange(0, ROWS)[:, None] * (columns // ROWS)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    if HOW == "rows":
        place = rows + at
    elif HOW == "gathered":
        place = (rows + at * 97) % columns
    else:
        place = columns - 1 - rows - at * 2
    tl.device_assert(tl.load(x_ptr + place) == (place % 101).to(tl.int8), "not what was passed")
    tl.store(x_ptr + place, (place % 101).to(tl.int8))


@triton.jit
def counts_and_stores(x_ptr, ticket_ptr, step):
    ticket = tl.atomic_add(ticket_ptr, 1)
    tl.store(x_ptr + tl.program_id(0) * step, ticket.to(tl.int8))


def check(kernel: Any, *args: Any, **keywords: Any) -> Findings:
    found = kernellab.check(kernel, (16,), *args, **keywords)
    assert not any(" failed: " in note for note in found.notes), found.notes
    return found


def remainders() -> torch.Tensor:
    return torch.arange(101, dtype=torch.int8).repeat(SIZE // 101 + 1)[:SIZE].clone()


@pytest.mark.parametrize("how", ["rows", "gathered", "backwards"])
def test_a_run_reads_what_the_caller_passed_wherever_it_looks(how) -> None:
    x = remainders()
    constants: dict[str, Any] = {"ROWS": 4, "BLOCK": 256, "HOW": how}
    assert not check(holds_the_remainders, x, SIZE, **constants)
    x[-1 - 2 * 300] += 1
    x[97 * 300] += 1
    x[300] += 1
    (found,) = check(holds_the_remainders, x, SIZE, **constants)
    assert "not what was passed" in found.message


def test_faults_in_a_large_tensor_are_found_and_it_stays_as_it_was() -> None:
    x = remainders()
    assert [one.kind for one in check(two_at_one_place, x, SIZE // 16)] == ["race"]
    assert torch.equal(x, remainders())


@pytest.mark.slow
def test_results_of_runs_in_other_orders_are_compared_where_either_has_stored(messages) -> None:
    x, ticket = remainders(), torch.zeros(1, dtype=torch.int32)
    found = check(counts_and_stores, x, ticket, SIZE // 16, outputs="x_ptr")
    assert [one.kind for one in found] == ["unwritten-output", "order-dependence"]
    (order,) = found.of_kind("order-dependence")
    assert order.index == (0,)
    assert order.message == messages
    (unwritten,) = found.of_kind("unwritten-output")
    assert unwritten.index == (1,)
    assert unwritten.count == SIZE - 16


def test_a_large_storage_is_copied_page_by_page() -> None:
    original = remainders()[: SIZE - 100].clone()
    copy = LazyCopy(original.untyped_storage())
    made = torch.empty(0, dtype=torch.int8).set_(copy.storage)
    for first, last in ((5, 6), (8190, 8194), (100_000, 300_000), (SIZE - 101, SIZE - 100)):
        starts, stops = torch.tensor([first]).numpy(), torch.tensor([last]).numpy()
        copy.fetch(starts, stops)
        assert torch.equal(made[first:last], original[first:last])
    everywhere = torch.arange(0, SIZE - 200, 9_001).numpy()
    copy.fetch(everywhere, everywhere + 150)
    for first in everywhere[::50].tolist():
        assert torch.equal(made[first : first + 150], original[first : first + 150])


GROWTH = """
import resource, torch, kernellab
from tests.checker.test_large_tensors import *

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

x = torch.ones(6 * SIZE, dtype=torch.int8)
for kernel in here_and_there, two_at_one_place:
    check(kernel, torch.ones(64, dtype=torch.int8), 4)
before = peak()
check(here_and_there, x, 6 * SIZE // 16, outputs="x_ptr")
check(two_at_one_place, x, 6 * SIZE // 16)
print((peak() - before) / (6 * SIZE))
"""


@pytest.mark.slow
def test_a_store_into_a_large_tensor_takes_little_more_than_the_tensor() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.25


# Views over which the launch lays a stride of its own


@triton.jit
def gathers(x_ptr, out_ptr, x_stride, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes * x_stride))


@triton.jit
def sums_rows(x_ptr, out_ptr, stride_x, stride_out, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + tl.program_id(0) * stride_x + columns)
    tl.store(out_ptr + tl.program_id(0) * stride_out, tl.sum(x))


@triton.jit
def scatters(x_ptr, out_ptr, out_stride, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes * out_stride, tl.load(x_ptr + lanes))


@triton.jit
def counts_rows(crow_ptr, out_ptr, stride):
    row = tl.program_id(0)
    begin = tl.load(crow_ptr + row * stride)
    end = tl.load(crow_ptr + row * stride + stride)
    tl.store(out_ptr + row, end - begin)


@triton.jit
def moves_rows(crow_ptr, stride):
    row = tl.program_id(0)
    begin = tl.load(crow_ptr + row * stride)
    tl.store(crow_ptr + row * stride + stride, begin)


FLAT = torch.arange(256.0)
SQUARE = FLAT.view(16, 16)


class Flipped:
    """A tensor from its last element on, with a negative stride, which torch does not have."""

    def __init__(self, base: torch.Tensor) -> None:
        self.base, self.dtype, self.shape = base, base.dtype, base.shape

    def data_ptr(self) -> int:
        return self.base[-1:].data_ptr()

    def stride(self) -> tuple[int, ...]:
        return (-1,)


@pytest.mark.parametrize(
    ("x", "stride"),
    [
        (FLAT.as_strided((16,), (1,)), 8), (SQUARE.as_strided((16,), (1,)), 17), (SQUARE[0], 16),
        (torch.ones(16, 16).as_strided((16,), (2,)), 16), (FLAT[240:], -16),
        (Flipped(FLAT[:16]), -1),
    ],
)  # fmt: skip
def test_a_stride_of_the_launchs_own_reads_the_storage(x, stride) -> None:
    out = torch.empty(16)
    assert not kernellab.check(gathers, (1,), x, out, stride, N=16).findings
    found = kernellab.check(gathers, (1,), x, torch.empty(32), 37 * stride, N=32)
    assert [one.kind for one in found.findings] == ["out-of-bounds"], "beyond the storage"


def test_overlapping_windows_read_the_storage() -> None:
    windows = FLAT.as_strided((5, 4), (3, 1))
    assert not kernellab.check(sums_rows, (5,), windows, torch.empty(5), 3, 1, COLUMNS=16).findings


@pytest.mark.parametrize(
    ("x", "stride"),
    [
        (SQUARE[:, :8], 16),  # its own stride, and too many columns
        (SQUARE[:, :8], 8),  # the stride that it would have, were it contiguous
        (SQUARE[2:4], 16),
    ],
)
def test_a_read_beside_a_view_is_still_a_fault(x, stride) -> None:
    found = kernellab.check(
        sums_rows, (5,), x, torch.zeros(5, 4)[:, 0], stride, 4, COLUMNS=16
    ).findings
    assert [one.kind for one in found] == ["out-of-bounds"]


def test_a_stride_named_after_another_tensor_says_nothing_of_this_one() -> None:
    found = kernellab.check(sums_rows, (5,), FLAT[:16], torch.zeros(64), 1, 8, COLUMNS=32).findings
    assert [one.argument for one in found] == ["x_ptr"]


def test_a_store_beside_a_view_is_a_fault() -> None:
    out = torch.zeros(256)
    found = kernellab.check(scatters, (1,), FLAT[:16], out[:16], 8, N=16).findings
    assert [one.argument for one in found] == ["out_ptr"]


def test_the_neighbor_of_the_last_element_of_a_view(messages) -> None:
    """As rows of a sparse matrix are counted; the storage ends with the view that has a fault."""
    crow = torch.tensor([0, 2, 3, 5, 8])
    found = kernellab.check(counts_rows, (4,), crow[:-1], torch.zeros(4, dtype=torch.int64), 1)
    assert not found
    (note,) = found.notes
    assert "crow_ptr" in note
    assert note == messages
    found = kernellab.check(counts_rows, (5,), crow, torch.zeros(5, dtype=torch.int64), 1)
    assert [(one.kind, one.severity) for one in found] == [("out-of-bounds", "error")]
    found = kernellab.check(counts_rows, (5,), crow[:-1], torch.zeros(5, dtype=torch.int64), 1)
    assert {(one.kind, one.severity) for one in found} == {
        ("out-of-bounds", "error"), ("out-of-bounds", "warning")
    }  # fmt: skip
    found = kernellab.check(moves_rows, (4,), crow[:-1], 1)
    assert ("out-of-bounds", "error") in [(one.kind, one.severity) for one in found]
    found = kernellab.check(sums_rows, (5,), FLAT[:16], torch.zeros(64), 1, 8, COLUMNS=32)
    assert [(one.kind, one.severity) for one in found] == [("out-of-bounds", "warning")]
