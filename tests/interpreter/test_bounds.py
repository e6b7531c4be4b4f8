"""What `bounds="view"` adds: a kernel must stay inside the tensor that it was given,
not only inside its storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import OutOfBounds
from tests.kernels.interp import faults
from tests.support.source_lines import marked_line


def fault(mark: str, kernel: Any, grid: tuple[int, ...], *arguments: Any, **keywords: Any) -> str:
    """What a launch says that has to leave a view, on the line with that mark;
    within the storage it is allowed.
    """
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, grid, *arguments, bounds="view", **keywords)
    assert caught.value.position is not None
    assert caught.value.position.line == marked_line(faults, f"FAULT: {mark}")
    assert 'bounds="storage"' in caught.value.advice
    kernellab.run(kernel, grid, *arguments, **keywords)
    return caught.value.problem


def test_before_a_view() -> None:
    problem = fault(
        "load_before", faults.load_before, (1,), torch.arange(11.0)[3:], torch.zeros(8), BLOCK=8
    )
    assert "x_ptr[-3], but the view holds elements 0 to 7" in problem
    assert "(x_ptr: float32, shape (8,), strides (1,))" in problem
    assert "lane 0" in problem


def test_beyond_a_view_writes_nothing(messages: SnapshotAssertion) -> None:
    """Nor does the program that would; those before it, in order, have run."""
    memory = torch.zeros(40, dtype=torch.int32)
    with pytest.raises(OutOfBounds, match=r"out_ptr\[20\]") as refused:
        kernellab.run(faults.store_1d, (3,), memory[:20], 24, BLOCK=8, bounds="view")
    assert refused.value == messages
    assert memory[:16].tolist() == list(range(16))
    assert not memory[16:].any()


def test_a_hole_between_rows(messages: SnapshotAssertion) -> None:
    """The kernel takes the matrix for a contiguous one; its rows lie ten apart."""
    matrix = torch.zeros(4, 10)[:, :8]
    problem = fault("tile_2d", faults.tile_2d, (1,), matrix, 4, 8, BLOCK_M=4, BLOCK_N=8)
    assert "x_ptr" in problem
    assert problem == messages
    assert "strides (10, 1)" in problem
    assert "lane (1, 0)" in problem


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda memory: memory[:40].view(5, 8),
    "rows apart": lambda memory: memory[:84].view(7, 12)[2:, 4:],
    "transposed": lambda memory: memory[:54].view(9, 6)[1:, 1:].T,
    "every second": lambda memory: memory[3:99].view(6, 16)[1:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_and_offsets(layout: str) -> None:
    """A kernel that uses the strides it is given stays inside,
    and touches every element of the view and no other.
    """
    memory, expected = torch.zeros(100), torch.zeros(100)
    x = LAYOUTS[layout](memory)
    LAYOUTS[layout](expected).fill_(1)
    blocks = {"BLOCK_M": 4, "BLOCK_N": 16, "bounds": "view"}
    kernellab.run(faults.strided_2d, (2,), x, 5, 8, *x.stride(), **blocks)
    assert torch.equal(memory, expected)
    with pytest.raises(OutOfBounds):
        kernellab.run(faults.strided_2d, (2,), x, 6, 8, *x.stride(), **blocks)


def test_a_tensor_whose_rows_are_one() -> None:
    row = torch.zeros(8)
    blocks = {"BLOCK_M": 4, "BLOCK_N": 8, "bounds": "view"}
    kernellab.run(faults.strided_2d, (2,), row.expand(5, 8), 5, 8, 0, 1, **blocks)
    assert row.tolist() == [1.0] * 8


def test_numpy_arrays() -> None:
    memory = np.zeros((9, 8), np.float32)
    kernellab.run(
        faults.strided_2d, (2,), memory[4:], 5, 8, 8, 1, BLOCK_M=4, BLOCK_N=8, bounds="view"
    )
    assert memory.sum(1).tolist() == [0] * 4 + [8] * 5


def test_an_atomic_in_a_hole(messages: SnapshotAssertion) -> None:
    x = torch.zeros(32)[::4]
    problem = fault("atomic", faults.atomic, (1,), x, BLOCK=8)
    assert "x_ptr" in problem
    assert problem == messages


@pytest.mark.parametrize("bounds", ["storage", "view"])
def test_empty_tensors(bounds: str, messages: SnapshotAssertion) -> None:
    """They may be passed, and must not be touched."""
    out = torch.zeros(0, dtype=torch.int32)
    kernellab.run(faults.store_1d, (2,), out, 0, BLOCK=8, bounds=bounds)
    with pytest.raises(OutOfBounds) as refused:
        kernellab.run(faults.store_1d, (2,), out, 1, BLOCK=8, bounds=bounds)
    assert refused.value == messages


def test_an_empty_view_of_a_storage_that_is_not(messages: SnapshotAssertion) -> None:
    memory = torch.zeros(16, dtype=torch.int32)
    kernellab.run(faults.store_1d, (1,), memory[4:4], 0, BLOCK=8, bounds="view")
    with pytest.raises(OutOfBounds) as refused:
        kernellab.run(faults.store_1d, (1,), memory[4:4], 2, BLOCK=8, bounds="view")
    assert refused.value == messages
    assert not memory.any()
    kernellab.run(faults.store_1d, (1,), memory[4:4], 2, BLOCK=8)
    assert memory.tolist() == [0] * 4 + [0, 1] + [0] * 10
