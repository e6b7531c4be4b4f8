"""Views over which the launch lays a stride of its own: what they read of their storage
is no fault, and what other views read beside themselves still is.
"""

import pytest
import torch
import triton
import triton.language as tl

import kernellab


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
