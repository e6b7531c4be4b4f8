"""What a faulty kernel says: line, program, lane, argument, index, values; nothing was written."""

import pickle
import traceback
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import KernelFault, OutOfBounds
from kernellab.interpreter.execution.grid import batches
from tests.kernels.interp import calls, faults, first_faults
from tests.support import versions
from tests.support.source_lines import marked_line, position_of

ones, zeros = torch.ones, torch.zeros


def fault(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> Any:
    """Run a kernel that has to fail; its error must end on one line of the kernel's."""
    with pytest.raises(KernelFault) as caught:
        kernellab.run(kernel, grid, *arguments, **constants)
    error = caught.value
    last = traceback.extract_tb(error.__traceback__)[-1]
    position = position_of(error)
    assert (last.filename, last.lineno) == (faults.__file__, position.line)
    assert position.file == faults.__file__
    return error


def assert_says(error: KernelFault, mark: str, *parts: str) -> None:
    assert position_of(error).line == marked_line(faults, f"FAULT: {mark}")
    for part in parts:
        assert part in error.problem, error.problem


def made_of(error: KernelFault) -> str:
    """What the error says of the values that made an index or a condition."""
    (line,) = [line for line in error.problem.splitlines() if " was computed from " in line]
    return line.partition(" was computed from ")[2]


def integers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


TILE = {"BLOCK_M": 4, "BLOCK_N": 8}
FAULTS: list[tuple[tuple[Any, ...], dict[str, Any], str, list[str]]] = [
    # kernel, grid, arguments; constants; what made the index; what else the error says
    (
        (faults.load_before, (1,), ones(8), zeros(8)), {"BLOCK": 8},
        "lanes = 0, BLOCK = 8", ["x_ptr[-3]", "element 0 of the tile", "3 elements"],
    ),
    (
        (faults.tile_2d, (2,), zeros(5, 8), 6, 8), TILE,
        "columns = 0, rows = 5, n = 8, tl.program_id(0) = 1, BLOCK_M = 4, BLOCK_N = 8",
        ["x_ptr[40]", "program (1, 0, 0)", "element (1, 0) of the tile", "8 elements"],
    ),
    (
        (faults.tile_2d, (1,), zeros(8, 6).T[1:], 4, 16), TILE,
        "columns = 0, rows = 3, n = 16, tl.program_id(0) = 0, BLOCK_M = 4, BLOCK_N = 8",
        ["x_ptr[48]", "elements -1 to 46", "shape (5, 8)", "element (3, 0) of the tile"],
    ),
    (
        (faults.gathered_load, (1,), ones(8), integers(0, 100, 7, 8, -1, 100, 2, 3), zeros(8)),
        {"BLOCK": 8},
        "index = 8", ["x_ptr[8]", "element 3 of the tile", "2 elements"],
    ),
    (
        (faults.atomic, (2,), zeros(10)), {"BLOCK": 8},
        "lanes = 5, BLOCK = 8", ["atomic out of bounds: x_ptr[10]", "element 5 of the tile"],
    ),
    ((faults.compare_and_swap, (2,), integers(0, 0, 0, 0)), {}, "", ["x_ptr[4]"]),
    (
        (faults.in_a_branch, (6,), zeros(4), zeros(6), 4), {},
        "n = 4", ["x_ptr[4]", "program (3, 0, 0) of grid (6, 1, 1)"],
    ),
    (
        (faults.in_a_loop, (4,), zeros(10), zeros(4), 8), {},
        "i = 10", ["x_ptr[10]", "program (3, 0, 0)"],
    ),
    # 8 rows of 6: the last row of program (0, 1) starts at 42, its third step 8 further on.
    (
        (faults.walks_too_far, (1, 2), ones(8, 6), zeros(4), 5, 6), {"STEP": 2},
        "step = 2, first = 7, stride = 6, lanes = 3, tl.program_id(1) = 1",
        ["x_ptr[50]", "program (0, 1, 0)", "element (3, 0) of the tile"],
    ),
    (
        (faults.looked_up, (3,), ones(20), integers(1, 2, 9), zeros(8), 5), {},
        "the value loaded = 9, base = 5", ["x_ptr[24]", "program (2, 0, 0)"],
    ),
    (
        (faults.load_1d, (1,), ones(0), zeros(8), 8),
        {"BLOCK": 8},
        "offsets = 0, tl.program_id(0) = 0, BLOCK = 8",
        ["x_ptr[0]", "whose storage is empty", "shape (0,)"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("launch", "constants", "made", "parts"), FAULTS, ids=[one[0][0].__name__ for one in FAULTS]
)
def test_a_fault_names_its_place(launch, constants, made, parts) -> None:
    error = fault(*launch, **constants)
    assert_says(error, launch[0].__name__, *parts)
    assert not made or made_of(error) == made


def test_a_fault_inside_a_helper_function() -> None:
    error = fault(faults.through_helper, (5,), ones(3, 8), zeros(8), BLOCK=8)
    assert_says(
        error, "helper", "x_ptr[24]", "program (3, 0, 0) of grid (5, 1, 1), element 0 of the tile"
    )
    assert made_of(error) == "columns = 0, tl.program_id(0) = 3, BLOCK = 8"


def test_the_message_and_its_data(messages) -> None:
    """Program 96 begins at element 768, the tensor ends at 770: lanes from 2 on are outside."""
    error = fault(faults.load_1d, (97,), ones(770), zeros(20), 20, BLOCK=8)
    assert_says(
        error,
        "load_1d",
        "load out of bounds: x_ptr[770]",
        "storage holds elements 0 to 769 (float32, shape (770,))",
        "in program (96, 0, 0) of grid (97, 1, 1), element 2 of the tile",
        "6 elements",
    )
    assert made_of(error) == "offsets = 770, tl.program_id(0) = 96, BLOCK = 8"
    line = marked_line(faults, "FAULT: load_1d")
    source = "    x = tl.load(x_ptr + offsets)  # FAULT: load_1d"
    column = source.index("tl.load" if versions.LOCATES_WHOLE_CALLS else "x_ptr") + 1
    lines = str(error).splitlines()
    assert lines[3] == f"  at {faults.__file__}:{line}:{column}"
    assert lines[4:6] == [f"{line:>5} | {source}", " " * (7 + column) + "^"]
    assert error.advice == messages
    assert "mask" in error.advice

    assert type(error) is OutOfBounds
    assert (error.action, error.tensor, error.index) == ("load", "x_ptr", 770)
    assert (error.program, error.grid, error.lane) == ((96, 0, 0), (97, 1, 1), (2,))
    assert error.programs == ((96, 0, 0),)
    assert (error.count, error.values["offsets"], error.values["BLOCK"]) == (6, 770, 8)
    assert (error.dtype, error.shape, error.held) == ("float32", (770,), range(770))
    assert error.bounds == "storage"
    diagnostic = error.diagnostic
    assert (diagnostic.severity, diagnostic.kind) == ("error", "out-of-bounds")
    assert diagnostic.position == error.position
    assert diagnostic.what == error.problem.splitlines()[0]
    assert (diagnostic.facts["lane"], diagnostic.facts["index"]) == ([2], 770)


def test_data_and_words_survive_another_process() -> None:
    """As the worker process sends an error: pickled."""
    error = fault(faults.tile_2d, (2,), zeros(5, 8), 6, 8, **TILE)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is OutOfBounds
    assert str(again) == str(error)
    assert again.args == error.args == (error.problem,)
    assert again.diagnostic == error.diagnostic


def test_what_is_not_touched_may_be_anywhere() -> None:
    """Lanes that are off, and what no program of the launch reaches."""
    out = zeros(20, dtype=torch.int32)
    kernellab.run(faults.store_1d, (3,), out, 20, BLOCK=8)
    assert out.tolist() == list(range(20))
    index, out = integers(0, 100, 7, 100, 0, 100, 2, 3), zeros(8)
    kernellab.run(faults.gathered_load, (1,), ones(8), index, out, BLOCK=8)
    assert out[[0, 2, 6, 7]].tolist() == [1.0] * 4
    kernellab.run(faults.in_a_branch, (3,), zeros(4), zeros(6), 4)


@pytest.mark.parametrize("programs_together", [True, False])
def test_a_store_beyond_the_end_writes_nothing(programs_together, monkeypatch) -> None:
    if not programs_together:
        monkeypatch.setattr(
            "kernellab.interpreter.execution.launcher.batches",
            lambda grid, _, order, seed: batches(grid, 1, order, seed),
        )
    out = torch.full((20,), -1, dtype=torch.int32)
    error = fault(faults.store_1d, (3,), out, 22, BLOCK=8)
    assert_says(
        error, "store_1d", "store out of bounds: out_ptr[20]", "program (2, 0, 0)",
        "element 4 of the tile",
    )  # fmt: skip
    assert out.tolist() == [*range(16), *[-1] * 4]
    x = zeros(10)
    fault(faults.atomic, (2,), x, BLOCK=8)
    assert not x.any()


def test_a_view_may_be_left_but_not_its_storage() -> None:
    """As on a GPU: three elements before a view that starts at element 3 are there to read."""
    memory, out = torch.arange(11.0), zeros(8)
    kernellab.run(faults.load_before, (1,), memory[3:], out, BLOCK=8)
    assert out.tolist() == list(range(8))
    error = fault(faults.load_before, (1,), memory[2:], out, BLOCK=8)
    assert_says(
        error, "load_before", "x_ptr[-3]", "elements -2 to 8", "shape (9,)", "element 0 of the tile"
    )
    assert "1 elements" not in error.problem


def test_memory_that_is_read_only() -> None:
    x, y, out = np.zeros(16, np.int32), np.zeros(16, np.float32), np.ones(16, np.float32)
    x.flags.writeable = y.flags.writeable = False
    error = fault(faults.store_1d, (2,), x, 16, BLOCK=8)
    assert_says(error, "store_1d", "'out_ptr'", "read-only")
    assert "out_ptr.copy()" in error.advice
    assert_says(fault(faults.atomic, (1,), y, BLOCK=8), "atomic", "read-only")
    kernellab.run(faults.load_1d, (2,), y, out, 16, BLOCK=8)
    assert not out.any()


def test_device_assert() -> None:
    """Left out unless debugging, as by Triton itself."""
    x = torch.arange(24.0)
    error = fault(faults.asserted, (3,), x, 21.0, BLOCK=8, debug=True)
    assert_says(
        error, "asserted", "device_assert failed: x is small", "program (2, 0, 0)",
        "element 5 of the tile",
    )  # fmt: skip
    assert "3 elements" in error.problem
    assert made_of(error) == "x = 21.0, limit = 21.0, BLOCK = 8"
    kernellab.run(faults.asserted, (3,), x, 24.0, BLOCK=8, debug=True)
    assert x.tolist() == list(range(1, 25))
    kernellab.run(faults.asserted, (3,), x, 0.0, BLOCK=8)
    assert x.tolist() == list(range(2, 26))


def test_device_assert_in_a_branch() -> None:
    error = fault(faults.asserted_scalar, (4,), zeros(1), debug=True)
    assert_says(error, "asserted_scalar", "the first is positive", "program (2, 0, 0)")
    kernellab.run(faults.asserted_scalar, (2,), zeros(1), debug=True)


def test_a_gather_from_beyond_its_tile() -> None:
    """Only programs that gather can be at fault."""
    index = torch.arange(24, dtype=torch.int32) % 8
    index[8:16] = 100
    x, out = torch.arange(8.0), zeros(3, 8)
    kernellab.run(faults.gathered_tile, (3,), x, index, out)
    assert out[2].tolist() == x.tolist()
    index[21] = -1
    error = fault(faults.gathered_tile, (3,), x, index, out)
    assert_says(
        error, "gathered_tile", "element -1", "0 to 7", "program (2, 0, 0)", "element 5 of the tile"
    )


def test_a_fault_in_a_called_function_shows_the_call() -> None:
    with pytest.raises(OutOfBounds, match=r"x_ptr\[9\]") as caught:
        kernellab.run(calls.calls_too_far, (4,), zeros(7), zeros(4))
    assert caught.value.program == (3, 0, 0)
    lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__)[-2:]]
    assert lines == [marked_line(calls, "CALL: too_far"), marked_line(calls, "FAULT: too_far")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", [calls.searched, calls.searched_by_some])
def test_a_fault_in_a_function_of_elements_names_program_and_lane(kernel) -> None:
    """A table that is shorter than the search believes; only keys beyond it find out."""
    table, keys = torch.arange(10, dtype=torch.int32), zeros(32, dtype=torch.int32)
    keys[27] = 60
    kernellab.run(kernel, (2,), table, keys, torch.zeros_like(keys), 10, N=16)
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, (2,), table, keys, torch.zeros_like(keys), 19, N=16)
    assert position_of(caught.value).line == marked_line(calls, "FAULT: lower_bound")
    assert "program (1, 0, 0) of grid (2, 1, 1), element 11 of the tile" in caught.value.problem


N, BLOCK = 160, 16


def told(entry_point: str, kernel: object, *tensors: torch.Tensor) -> tuple[object, int, int]:
    """The first program at fault, its line, and how many more are."""
    if entry_point == "check":
        first = min(kernellab.check(kernel, (10,), *tensors, BLOCK=BLOCK), key=lambda f: f.programs)
        return first.programs[0], position_of(first).line, 0
    if entry_point == "trace":
        trace = kernellab.trace(kernel, (10,), *tensors, BLOCK=BLOCK)
        return trace.steps[-1].frame.program, position_of(trace.fault).line, 0
    options = {"stage": "ttgir"} if entry_point == "ttgir" else {}
    launch = kernellab.accesses if entry_point == "accesses" else kernellab.run
    with pytest.raises(OutOfBounds) as caught:
        launch(kernel, (10,), *tensors, BLOCK=BLOCK, **options)
    return caught.value.program, position_of(caught.value).line, caught.value.more


@pytest.mark.parametrize("entry_point", ["run", "accesses", "ttgir", "trace", "check"])
def test_an_earlier_program_that_is_at_fault_on_a_later_line_is_told(entry_point) -> None:
    # Programs 8 and 9 leave x on the first line, 6 to 9 leave y on the second.
    program, line, more = told(entry_point, first_faults.copied, ones(N - 30), zeros(N - 60))
    assert program == (6, 0, 0)
    assert line == marked_line(first_faults, "FAULT: copied")
    assert more == (3 if entry_point in ("run", "accesses", "ttgir") else 0)


def test_what_would_not_do_the_same_twice_does_not_run_again() -> None:
    x = ones(N)
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(first_faults.counted, (10,), x, zeros(N - 60), BLOCK=BLOCK)
    assert caught.value.program == (6, 0, 0)
    assert x[0] == 11


@triton.jit
def count_by(x_ptr, n, step):
    for i in range(0, n, step):
        tl.store(x_ptr + i, 1.0)


@triton.jit
def count_by_each(x_ptr, steps_ptr, n):
    program = tl.program_id(0)
    for i in range(0, n, tl.load(steps_ptr + program)):
        tl.store(x_ptr + program * n + i, 1.0)


@pytest.mark.parametrize(
    ("n", "step", "stored"), [(8, 3, [1, 0, 0, 1, 0, 0, 1, 0]), (0, 0, [0] * 8), (-3, -1, [0] * 8)]
)
def test_steps_of_loops_that_end(n, step, stored) -> None:
    x = zeros(8)
    kernellab.run(count_by, (1,), x, n, step)
    assert x.tolist() == stored


@pytest.mark.parametrize("step", [0, -2])
def test_a_step_that_never_ends(step, raised) -> None:
    error = raised(KernelFault, kernellab.run, count_by, (1,), zeros(8), 8, step)
    assert position_of(error).file == __file__
    assert "at least 1" in error.advice
    with pytest.raises(KernelFault, match="never ends"):
        kernellab.check(count_by, (1,), zeros(8), 8, step)
    trace = kernellab.trace(count_by, (1,), zeros(8), 8, step)
    assert "never ends" in str(trace.fault)


def test_the_program_whose_step_never_ends() -> None:
    with pytest.raises(KernelFault, match="never ends") as caught:
        kernellab.run(count_by_each, (4,), zeros(4, 8), integers(1, 2, 0, 4), 8)
    assert "(2, 0, 0)" in str(caught.value)
