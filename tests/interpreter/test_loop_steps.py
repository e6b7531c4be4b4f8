"""Loops whose step is known only at run time."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from syrupy.assertion import SnapshotAssertion

import kernellab


@triton.jit
def count_by(x_ptr, n, step):
    for i in range(0, n, step):
        tl.store(x_ptr + i, 1.0)


@triton.jit
def count_by_each(x_ptr, steps_ptr, n):
    program = tl.program_id(0)
    for i in range(0, n, tl.load(steps_ptr + program)):
        tl.store(x_ptr + program * n + i, 1.0)


def counted(step: int) -> list[float]:
    x = torch.zeros(8)
    kernellab.run(count_by, (1,), x, 8, step)
    return x.tolist()


def test_a_positive_step() -> None:
    assert counted(3) == [1, 0, 0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("step", [0, -2])
def test_a_step_that_never_ends(step: int, messages: SnapshotAssertion) -> None:
    with pytest.raises(kernellab.KernelFault) as fault:
        counted(step)
    assert fault.value == messages
    assert fault.value.position is not None
    assert fault.value.position.file == __file__
    assert "at least 1" in fault.value.advice
    with pytest.raises(kernellab.KernelFault, match="never ends"):
        kernellab.check(count_by, (1,), torch.zeros(8), 8, step)
    trace = kernellab.trace(count_by, (1,), torch.zeros(8), 8, step)
    assert "never ends" in str(trace.fault)


def test_without_an_iteration_no_step_counts() -> None:
    x = torch.zeros(8)
    kernellab.run(count_by, (1,), x, 0, 0)
    kernellab.run(count_by, (1,), x, -3, -1)
    assert not x.any()


def test_the_program_whose_step_never_ends() -> None:
    x, steps = torch.zeros(4, 8), torch.tensor([1, 2, 0, 4], dtype=torch.int32)
    with pytest.raises(kernellab.KernelFault, match="never ends") as fault:
        kernellab.run(count_by_each, (4,), x, steps, 8)
    assert "(2, 0, 0)" in str(fault.value)
