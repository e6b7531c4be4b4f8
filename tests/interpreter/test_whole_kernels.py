"""Whole kernels over random sizes, strides, masks and grids, against torch."""

from typing import Any

import pytest
import torch
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

import kernellab
from kernellab.interpreter.execution import launcher
from kernellab.interpreter.execution.grid import batches
from tests.kernels.interp import memory

bounded = settings(max_examples=10, derandomize=True)
SMALL = st.integers(1, 40)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.int8])


@pytest.fixture(
    autouse=True, params=["together", pytest.param("alone", marks=pytest.mark.slow)], scope="module"
)
def programs_run(request) -> Any:
    """All programs of a launch in one batch, and each on its own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "alone":
            patch.setattr(launcher, "batches", lambda grid, *_: batches(grid, 1))
        yield


def matrix(draw: Any, m: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    """An (m, n) view into something larger: strides, an offset, a transposition."""
    row_gap, column_gap = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    before = draw(st.integers(0, 5))
    shape = (
        (n * column_gap, m * row_gap)
        if (turned := draw(st.booleans()))
        else (m * row_gap, n * column_gap)
    )
    numbers = torch.arange(before + shape[0] * shape[1]) * 7 % 101
    whole = numbers.to(dtype)[before:].view(shape)
    return (whole.T if turned else whole)[::row_gap, ::column_gap]


@bounded
@given(st.data())
def test_copies_of_vectors(data) -> None:
    n, start, block = (
        data.draw(SMALL),
        data.draw(st.integers(0, 5)),
        data.draw(st.sampled_from([4, 16])),
    )
    stride, out_stride = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    x = (torch.arange(start + n * stride) % 101).to(data.draw(DTYPES))
    out = torch.zeros(n * out_stride, dtype=x.dtype)
    programs = triton.cdiv(n, block) + data.draw(st.integers(0, 2))
    kernellab.run(memory.copy_1d, (programs,), x, out, n, start, stride, out_stride, BLOCK=block)
    expected = torch.zeros_like(out)
    expected[::out_stride] = x[start::stride][:n]
    assert torch.equal(out, expected)


@pytest.mark.slow
@bounded
@given(st.data())
def test_copies_of_matrices(data) -> None:
    m, n, dtype = data.draw(SMALL), data.draw(SMALL), data.draw(DTYPES)
    x = matrix(data.draw, m, n, dtype)
    grid = triton.cdiv(m, 4), triton.cdiv(n, 8)
    out = torch.zeros(grid[0] * 4, grid[1] * 8, dtype=dtype)
    out = out.T.contiguous().T if data.draw(st.booleans()) else out
    lower = data.draw(st.sampled_from([(0, 0), (3, 5)]))
    blocks = {"BLOCK_M": 4, "BLOCK_N": 8, "LOWER_M": lower[0], "LOWER_N": lower[1]}
    strides = *x.stride(), *out.stride()
    kernellab.run(memory.copy_2d, grid, x, out, m, n, *strides, -1, **blocks)
    expected = torch.full_like(out, -1)
    expected[lower[0] : m, lower[1] : n] = x[lower[0] :, lower[1] :]
    assert torch.equal(out, expected)


@pytest.mark.slow
@bounded
@given(st.data())
def test_sums_of_rows(data) -> None:
    m, n = data.draw(SMALL), data.draw(SMALL)
    x = matrix(data.draw, m, n, data.draw(DTYPES))
    out = torch.zeros(m, dtype=torch.float64)
    kernellab.run(
        memory.sum_rows, (m,), x, out, m, n, *x.stride(), BLOCK=data.draw(st.sampled_from([4, 16]))
    )
    assert torch.equal(out, x.double().sum(1))
