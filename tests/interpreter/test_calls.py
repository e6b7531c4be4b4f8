"""What goes wrong in a called function, and in a function of elements,
is said in terms of the kernel.
"""

from __future__ import annotations

import traceback

import pytest
import torch

import kernellab
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import OutOfBounds
from kernellab.interpreter.execution.program import make_program
from tests.kernels.interp import calls
from tests.support.source_lines import marked_line


def test_a_fault_in_a_called_function_shows_the_call() -> None:
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(calls.calls_too_far, (4,), torch.zeros(7), torch.zeros(4))
    error = caught.value
    assert "x_ptr[9]" in error.problem
    assert "program (3, 0, 0)" in error.problem
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)[-2:]]
    assert lines == [marked_line(calls, "CALL: too_far"), marked_line(calls, "FAULT: too_far")]


@pytest.mark.parametrize("active_programs", ["all", "some"])
def test_a_fault_in_a_function_of_elements_names_program_and_lane(active_programs: str) -> None:
    """A table that is shorter than the search believes; only keys beyond it find out."""
    table, keys = torch.arange(10, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    keys[27] = 60
    kernel = calls.searched if active_programs == "all" else calls.searched_by_some
    kernellab.run(kernel, (2,), table, keys, torch.zeros_like(keys), 10, N=16)
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, (2,), table, keys, torch.zeros_like(keys), 19, N=16)
    error = caught.value
    assert error.position is not None
    assert error.position.line == marked_line(calls, "FAULT: lower_bound")
    assert "program (1, 0, 0) of grid (2, 1, 1), lane 11" in error.problem


def test_functions_that_kernels_share_are_called_with_each_one_s_arguments() -> None:
    """A pointer of one argument stays one in each call: no address is taken."""

    call = bind(calls.calls_too_far, (torch.zeros(7), torch.zeros(4)), {}, DEFAULT_TARGET)
    source = make_program(calls.calls_too_far, call, DEFAULT_TARGET).source
    assert "AddressSpace" not in source
