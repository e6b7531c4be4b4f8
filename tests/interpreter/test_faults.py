"""What a faulty kernel says: the line, the program, the lane, the argument, the index;
and that nothing was written.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import numpy as np
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import KernelFault, OutOfBounds
from tests.kernels.interp import faults
from tests.support import versions
from tests.support.source_lines import marked_line


def fault(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> KernelFault:
    """Run a kernel that has to fail; its error, whose position and traceback must end on one line
    of the kernel's.
    """
    with pytest.raises(KernelFault) as caught:
        kernellab.run(kernel, grid, *arguments, **constants)
    error = caught.value
    assert error.position is not None
    assert error.position.file == faults.__file__
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.lineno) == (faults.__file__, error.position.line)
    return error


def assert_says(error: KernelFault, mark: str, *parts: str) -> None:
    assert error.position is not None
    assert error.position.line == marked_line(faults, f"FAULT: {mark}")
    for part in parts:
        assert part in error.problem, error.problem


def test_a_load_beyond_the_end() -> None:
    x, out = torch.ones(20), torch.zeros(20)
    error = fault(faults.load_1d, (3,), x, out, 20, BLOCK=8)
    assert isinstance(error, OutOfBounds)
    assert_says(
        error,
        "load_1d",
        "load out of bounds: x_ptr[20]",
        "its storage holds elements 0 to 19 (x_ptr: float32, shape (20,))",
        "in program (2, 0, 0) of grid (3, 1, 1), lane 4",
        "4 elements",
    )
    assert "mask" in error.advice
    assert error.position is not None
    assert error.position.excerpt().splitlines()[1].index("^") > 0


def test_the_whole_message() -> None:
    """Column and caret included."""
    error = fault(faults.load_1d, (97,), torch.ones(770), torch.zeros(20), 20, BLOCK=8)
    line = marked_line(faults, "FAULT: load_1d")
    source = "    x = tl.load(x_ptr + offsets)  # FAULT: load_1d"
    column = source.index("tl.load" if versions.LOCATES_WHOLE_CALLS else "x_ptr") + 1
    assert str(error).splitlines() == [
        (
            "load out of bounds: x_ptr[770], but its storage holds elements 0 to 769 (x_ptr: "
            "float32, shape (770,))"
        ),
        (
            "  in program (96, 0, 0) of grid (97, 1, 1), lane 2; out of bounds in 6 elements of "
            "the programs that ran together"
        ),
        "  the index was made of offsets = 770, tl.program_id(0) = 96, BLOCK = 8",
        f"  at {faults.__file__}:{line}:{column}",
        f"{line:>5} | {source}",
        " " * (7 + column) + "^",
        (
            "x_ptr has 770 elements, and offsets is 770 there. Nothing bounds it, and the kernel "
            "knows no such size: give it a parameter, size = 770. Add mask=offsets < size. "
            "Nothing was written outside."
        ),
    ]


def test_what_an_error_says_is_there_as_data() -> None:
    """Program 96 of 97 begins at element 768, and the tensor ends at 770: lane 2 is the first
    outside, and 5 more follow it.
    """
    error = fault(faults.load_1d, (97,), torch.ones(770), torch.zeros(20), 20, BLOCK=8)
    assert isinstance(error, OutOfBounds)
    assert (error.action, error.tensor, error.index) == ("load", "x_ptr", 770)
    assert (error.program, error.grid, error.lane) == ((96, 0, 0), (97, 1, 1), (2,))
    assert error.programs == ((96, 0, 0),)
    assert (error.count, error.values["offsets"], error.values["BLOCK"]) == (6, 770, 8)
    assert (error.dtype, error.shape, error.held) == ("float32", (770,), range(770))
    assert error.bounds == "storage"
    for fact in (error.action, error.tensor, error.index, error.program, error.lane[0]):
        assert str(fact) in error.problem
    diagnostic = error.diagnostic
    assert (diagnostic.severity, diagnostic.kind) == ("error", "out-of-bounds")
    assert diagnostic.position == error.position
    assert diagnostic.what == error.problem.splitlines()[0]
    assert diagnostic.facts["lane"] == [2]
    assert diagnostic.facts["index"] == 770


def test_data_and_words_survive_another_process() -> None:
    """As the worker process sends an error: pickled."""
    error = fault(faults.tile_2d, (2,), torch.zeros(5, 8), 6, 8, BLOCK_M=4, BLOCK_N=8)
    assert isinstance(error, OutOfBounds)
    assert (error.program, error.lane) == ((1, 0, 0), (1, 0))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is OutOfBounds
    assert str(again) == str(error)
    assert again.args == error.args == (error.problem,)
    assert again.diagnostic == error.diagnostic


def made_of(error: KernelFault) -> str:
    """What the error says of the values that made an index or a condition."""
    (line,) = [line for line in error.problem.splitlines() if " was made of " in line]
    return line.partition(" was made of ")[2]


def test_the_values_that_made_an_index() -> None:
    """Each at the faulty lane, however the access got from the value to the lane."""
    error = fault(faults.tile_2d, (2,), torch.zeros(5, 8), 6, 8, BLOCK_M=4, BLOCK_N=8)
    assert made_of(error) == (
        "columns = 0, rows = 5, n = 8, tl.program_id(0) = 1, BLOCK_M = 4, BLOCK_N = 8"
    )
    index = torch.tensor([0, 1, 7, 8, -1, 3, 2, 3], dtype=torch.int32)
    error = fault(faults.gathered_load, (1,), torch.ones(8), index, torch.zeros(8), BLOCK=8)
    assert made_of(error) == "index = 8"
    error = fault(faults.atomic, (2,), torch.zeros(10), BLOCK=8)
    assert made_of(error) == "lanes = 5, BLOCK = 8"
    error = fault(faults.in_a_loop, (4,), torch.zeros(10), torch.zeros(4), 8)
    assert made_of(error) == "i = 10"
    error = fault(faults.through_helper, (5,), torch.ones(3, 8), torch.zeros(8), BLOCK=8)
    assert made_of(error) == "columns = 0, tl.program_id(0) = 3, BLOCK = 8"


def test_the_values_behind_a_pointer_that_walks() -> None:
    """8 rows of 6: the last row of program (0, 1) starts at 42, and its third step 8 further on."""
    error = fault(faults.walks_too_far, (1, 2), torch.ones(8, 6), torch.zeros(4), 5, 6, STEP=2)
    assert_says(error, "walks_too_far", "x_ptr[50]", "program (0, 1, 0)", "lane (3, 0)")
    assert made_of(error) == ("step = 2, first = 7, stride = 6, lanes = 3, tl.program_id(1) = 1")


def test_a_value_that_was_loaded_and_has_no_name(messages: SnapshotAssertion) -> None:
    index = torch.tensor([1, 2, 9], dtype=torch.int32)
    error = fault(faults.looked_up, (3,), torch.ones(20), index, torch.zeros(8), 5)
    assert_says(error, "looked_up", "x_ptr[24]", "program (2, 0, 0)")
    assert made_of(error) == messages


def test_lanes_that_are_off_may_point_anywhere() -> None:
    out = torch.zeros(20, dtype=torch.int32)
    kernellab.run(faults.store_1d, (3,), out, 20, BLOCK=8)
    assert out.tolist() == list(range(20))


@pytest.mark.parametrize("programs_together", [True, False])
def test_a_store_beyond_the_end_writes_nothing(programs_together, monkeypatch) -> None:
    if not programs_together:
        monkeypatch.setattr("kernellab.interpreter.execution.launcher.batches", one_by_one)
    out = torch.full((20,), -1, dtype=torch.int32)
    error = fault(faults.store_1d, (3,), out, 22, BLOCK=8)
    assert_says(
        error, "store_1d", "store out of bounds: out_ptr[20]", "program (2, 0, 0)", "lane 4"
    )
    assert out.tolist() == [*range(16), *[-1] * 4]


def one_by_one(grid: Any, size: int, order: str, seed: int) -> Any:
    from kernellab.interpreter.execution.grid import batches

    return batches(grid, 1, order, seed)


def test_an_index_below_zero() -> None:
    error = fault(faults.load_before, (1,), torch.ones(8), torch.zeros(8), BLOCK=8)
    assert_says(error, "load_before", "x_ptr[-3]", "lane 0", "3 elements")


def test_a_view_may_be_left_but_not_its_storage() -> None:
    """As on a GPU: three elements before a view that starts at element 3
    of its storage are there to read.
    """
    memory, out = torch.arange(11.0), torch.zeros(8)
    kernellab.run(faults.load_before, (1,), memory[3:], out, BLOCK=8)
    assert out.tolist() == list(range(8))
    error = fault(faults.load_before, (1,), memory[2:], out, BLOCK=8)
    assert_says(error, "load_before", "x_ptr[-3]", "elements -2 to 8", "shape (9,)", "lane 0")
    assert "1 elements" not in error.problem


def test_a_fault_inside_a_helper_function() -> None:
    error = fault(faults.through_helper, (5,), torch.ones(3, 8), torch.zeros(8), BLOCK=8)
    assert_says(error, "helper", "x_ptr[24]", "program (3, 0, 0) of grid (5, 1, 1), lane 0")


def test_a_tile_of_two_dimensions() -> None:
    x = torch.zeros(5, 8)
    error = fault(faults.tile_2d, (2,), x, 6, 8, BLOCK_M=4, BLOCK_N=8)
    assert_says(error, "tile_2d", "x_ptr[40]", "program (1, 0, 0)", "lane (1, 0)", "8 elements")
    assert not x[4:].any()


def test_a_view_that_is_not_contiguous() -> None:
    x = torch.zeros(8, 6).T[1:]
    error = fault(faults.tile_2d, (1,), x, 4, 16, BLOCK_M=4, BLOCK_N=8)
    assert_says(error, "tile_2d", "x_ptr[48]", "elements -1 to 46", "shape (5, 8)", "lane (3, 0)")


def test_gathered_addresses() -> None:
    index = torch.tensor([0, 100, 7, 8, -1, 100, 2, 3], dtype=torch.int32)
    x, out = torch.ones(8), torch.zeros(8)
    error = fault(faults.gathered_load, (1,), x, index, out, BLOCK=8)
    assert_says(error, "gathered_load", "x_ptr[8]", "lane 3", "2 elements")
    kernellab.run(
        faults.gathered_load, (1,), x, index.clamp(min=0).where(index != 8, 100), out, BLOCK=8
    )
    assert out[[0, 2, 6, 7]].tolist() == [1.0] * 4


def test_an_atomic() -> None:
    x = torch.zeros(10)
    error = fault(faults.atomic, (2,), x, BLOCK=8)
    assert_says(error, "atomic", "atomic out of bounds: x_ptr[10]", "program (0, 0, 0)", "lane 5")
    assert not x.any()
    assert_says(
        fault(faults.compare_and_swap, (2,), torch.zeros(4, dtype=torch.int32)),
        "compare_and_swap",
        "x_ptr[4]",
    )


def test_a_branch_names_a_program_that_took_it() -> None:
    """Though every program would load the same element."""
    error = fault(faults.in_a_branch, (6,), torch.zeros(4), torch.zeros(6), 4)
    assert_says(error, "in_a_branch", "x_ptr[4]", "program (3, 0, 0) of grid (6, 1, 1)")
    kernellab.run(faults.in_a_branch, (3,), torch.zeros(4), torch.zeros(6), 4)


def test_a_loop_names_the_program_that_goes_too_far() -> None:
    error = fault(faults.in_a_loop, (4,), torch.zeros(10), torch.zeros(4), 8)
    assert_says(error, "in_a_loop", "x_ptr[10]", "program (3, 0, 0)")


def test_an_empty_tensor() -> None:
    error = fault(faults.load_1d, (1,), torch.ones(0), torch.zeros(8), 8, BLOCK=8)
    assert_says(error, "load_1d", "x_ptr[0]", "its storage is empty", "shape (0,)")


def test_memory_that_is_read_only() -> None:
    x = np.zeros(16, np.int32)
    x.flags.writeable = False
    error = fault(faults.store_1d, (2,), x, 16, BLOCK=8)
    assert_says(error, "store_1d", "'out_ptr'", "read-only")
    assert "out_ptr.copy()" in error.advice
    y = np.zeros(16, np.float32)
    y.flags.writeable = False
    assert_says(fault(faults.atomic, (1,), y, BLOCK=8), "atomic", "read-only")
    out = np.ones(16, np.float32)
    kernellab.run(faults.load_1d, (2,), y, out, 16, BLOCK=8)
    assert not out.any()


def test_device_assert() -> None:
    x = torch.arange(24.0)
    error = fault(faults.asserted, (3,), x, 21.0, BLOCK=8, debug=True)
    assert_says(
        error, "asserted", "device_assert failed: x is small", "program (2, 0, 0)", "lane 5"
    )
    assert "3 elements" in error.problem
    assert made_of(error) == "x = 21.0, limit = 21.0, BLOCK = 8"
    kernellab.run(faults.asserted, (3,), x, 24.0, BLOCK=8, debug=True)
    assert x.tolist() == list(range(1, 25))


def test_device_assert_is_left_out_unless_debugging() -> None:
    """As by Triton itself; launches with and without do not share code."""
    x = torch.arange(8.0)
    fault(faults.asserted, (1,), x, 0.0, BLOCK=8, debug=True)
    kernellab.run(faults.asserted, (1,), x, 0.0, BLOCK=8)
    assert x.tolist() == list(range(1, 9))


def test_device_assert_in_a_branch() -> None:
    error = fault(faults.asserted_scalar, (4,), torch.zeros(1), debug=True)
    assert_says(error, "asserted_scalar", "the first is positive", "program (2, 0, 0)")
    kernellab.run(faults.asserted_scalar, (2,), torch.zeros(1), debug=True)


def test_a_gather_from_beyond_its_tile() -> None:
    """Only programs that gather can be at fault."""
    index = torch.arange(24, dtype=torch.int32) % 8
    index[8:16] = 100
    x, out = torch.arange(8.0), torch.zeros(3, 8)
    kernellab.run(faults.gathered_tile, (3,), x, index, out)
    assert out[2].tolist() == x.tolist()
    index[21] = -1
    error = fault(faults.gathered_tile, (3,), x, index, out)
    assert_says(error, "gathered_tile", "element -1", "0 to 7", "program (2, 0, 0)", "lane 5")
