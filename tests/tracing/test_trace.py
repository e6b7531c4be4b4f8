"""`kernellab.trace`: values against the source run by Python, and all that can go wrong."""

from __future__ import annotations

import functools
import gc
import importlib
import re
import sys
import types
import weakref
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab
from kernellab.errors import ArgumentError, GridError, NotRecorded, OptionError
from kernellab.records.launches import DEFAULT, split_keywords
from kernellab.tracing import launches
from kernellab.tracing.records import Trace
from kernellab.tracing.values import TilePointer, ValueStore
from kernellab.viz.stepper_steps import step_view
from tests.cases.every import CASES
from tests.kernels import basic, stepped, traced
from tests.kernels import expected as kernels
from tests.support.source_lines import line_of, marked_line

# An independent run: the kernels' source as plain Python, with NumPy for `tl`


class Memory:
    """A pointer into an array, or a tile of them."""

    def __init__(self, array: numpy.ndarray, offsets: Any = 0) -> None:
        self.array, self.offsets = array, offsets

    def __add__(self, more: Any) -> Memory:
        return Memory(self.array, self.offsets + more)


class PlainLanguage:
    """What the kernels need of `tl`, in NumPy."""

    constexpr = int
    float32 = numpy.float32

    def __init__(self, program: int) -> None:
        self.program = program

    def program_id(self, _axis: int) -> int:
        return self.program

    def arange(self, start: int, end: int) -> numpy.ndarray:
        return numpy.arange(start, end)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> numpy.ndarray:
        return numpy.zeros(shape, dtype)

    def load(self, pointer: Memory, mask: numpy.ndarray, other: float) -> numpy.ndarray:
        places = numpy.where(mask, pointer.offsets, 0)
        return numpy.where(mask, pointer.array[places], numpy.float32(other))

    def store(self, pointer: Memory, value: numpy.ndarray, mask: numpy.ndarray) -> None:
        pointer.array[pointer.offsets[mask]] = value[mask]


Line = tuple[str, int, dict[str, Any]]


def plain_run(program: int, *args: Any) -> list[Line]:
    """(function, line, variables afterwards) of every line of `accumulate`, as lines end."""
    scope: dict[str, Any] = {"tl": PlainLanguage(program)}
    for kernel in (traced.smoothed, traced.accumulate):
        scope[kernel.__name__] = types.FunctionType(kernel.fn.__code__, scope)
    done: list[Line] = []
    last: dict[Any, int] = {}

    def watch(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != traced.__file__:
            return None
        if frame in last:
            done.append((frame.f_code.co_name, last[frame], dict(frame.f_locals)))
        if event == "line":
            last[frame] = frame.f_lineno
        return watch

    sys.settrace(watch)
    try:
        scope["accumulate"](*args)
    finally:
        sys.settrace(None)
    return done


@settings(max_examples=12)
@given(st.integers(2, 40), st.integers(0, 4), st.integers(0, 2), st.integers(0, 9))
def test_every_step_is_what_plain_python_does(n: int, rounds: int, program: int, seed: int) -> None:
    block = 16
    x = torch.from_numpy(numpy.random.default_rng(seed).normal(size=n * 4 + 64)).float()
    y = torch.zeros(n)
    out = y.numpy().copy()
    found = kernellab.trace(traced.accumulate, (3,), x, y, n, rounds, BLOCK=block, programs=program)
    plain = plain_run(program, Memory(x.numpy()), Memory(out), n, rounds, block)
    assert [(step.function, step.line) for step in found] == [line[:2] for line in plain]
    for number in [*range(len(plain)), *reversed(range(len(plain)))]:
        state, variables = found.at(number), plain[number][2]
        for name, value in variables.items():
            if isinstance(value, Memory):
                assert isinstance(state[name], TilePointer)
                continue
            numpy.testing.assert_array_equal(state[name], value, err_msg=f"{name} at {number}")
        assert set(state) == set(variables)
    on = slice(program * block, (program + 1) * block)
    numpy.testing.assert_array_equal(found.memory("y_ptr")[on], out[on])
    assert not y.any()  # it ran on copies


@pytest.mark.parametrize("kernel", [traced.words_alone, traced.dots_alone])
def test_a_kernel_without_a_statement_has_one_step(kernel: Any) -> None:
    assert len(kernellab.trace(kernel, (1,), torch.zeros(1))) == 1


def test_the_trace_of_a_matmul() -> None:
    a, b = torch.randn(64, 96).half(), torch.randn(96, 64).half()
    c = torch.zeros(64, 64)
    sizes = (64, 64, 96, 96, 1, 64, 1, 64, 1)
    blocks: dict[str, Any] = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    found = kernellab.trace(basic.matmul, (2, 2), a, b, c, *sizes, **blocks, programs=(1, 0))
    history = found.history("acc")
    assert len(history) == 4
    for k, change in enumerate(history):
        expected = a[32:, : 32 * k].float() @ b[: 32 * k, :32].float()
        torch.testing.assert_close(torch.tensor(change.value), expected)
    last = found[-1].accesses[0]
    where = "1,024 elements between 2048 and 4063 (1,024 of 1,024 tile elements)"
    assert last.text() == f"store of c_ptr: {where}"
    whole = a.float() @ b.float()
    assert not found.diff({"c_ptr": whole}, rtol=1e-3, atol=1e-3)
    whole[40, 3] += 1
    parted = found.diff({"c_ptr": whole}, rtol=1e-3, atol=1e-3)
    assert (parted.index, parted.count, parted.size) == ((40, 3), 1, 1024)


SOME_CASES = [
    case
    for case in {id(case.kernel): case for case in CASES}.values()
    if split_keywords(dict(case.options), ())[2].stage == DEFAULT.stage
][::10]


@pytest.mark.sampled(12)
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("operations", [False, True])
@pytest.mark.parametrize("case", SOME_CASES, ids=[case.name for case in SOME_CASES])
def test_traced_kernels_compute_what_they_should(case, operations: bool) -> None:
    arguments: dict[str, Any] = case.make()
    x, y, z = (*case.grid, 1, 1)[:3]
    programs = [(0, 0, 0), (x - 1, y - 1, z - 1)]
    options: Any = {"programs": programs, "in_place": True, "operations": operations}
    found = kernellab.trace(case.kernel, case.grid, **options, **arguments, **case.options)
    case.check(arguments)
    assert found.fault is None
    assert found.show(len(found) // 2).text()
    assert not found.diff(found)


def beyond(outputs: int = 64, grid: int = 4, **options: Any) -> Trace:
    """y = 2 x, in programs of 16 elements."""
    x, y = torch.arange(16.0 * grid), torch.zeros(outputs)
    return kernellab.trace(traced.beyond, (grid,), x, y, BLOCK=16, **options)


def accumulated(x: torch.Tensor, **options: Any) -> Trace:
    return kernellab.trace(traced.accumulate, (1,), x, torch.zeros(16), 16, 4, BLOCK=16, **options)


def test_programs_can_be_named_in_every_way() -> None:
    def programs(meant: Any) -> list[tuple[int, int, int]]:
        found = beyond(programs=meant)
        assert len(found) == 4 * len(found.facts.programs)
        return list(found.facts.programs)

    assert programs((2, 0, 0)) == programs((2,)) == programs(2) == [(2, 0, 0)]
    assert programs([3, 1, 1]) == programs([(3, 0), numpy.int64(1)]) == [(1, 0, 0), (3, 0, 0)]
    assert programs("all") == programs(range(4)) == [(n, 0, 0) for n in range(4)]
    assert beyond().facts.programs == ((0, 0, 0),)


@pytest.mark.parametrize("programs", [4, (0, 1, 0), [0, -1], "some", [], (0, 0, 0, 0), 1.5])
def test_a_program_that_does_not_exist(programs: Any, raised) -> None:
    raised(OptionError, beyond, programs=programs)


def test_programs_that_are_not_traced_run_before_and_after() -> None:
    total, seen = torch.zeros(1, dtype=torch.int32), torch.full((6,), -1, dtype=torch.int32)
    found = kernellab.trace(
        traced.count_programs, (6,), total, seen, programs=[2, 4], in_place=True
    )
    assert [state.before for state in (found.at(0), found.at(2))] == [2, 4]
    assert found[0].accesses[0].kind == "atomic"
    assert found.memory("total_ptr", 0).tolist() == [3]
    assert found.memory("seen_ptr", 1).tolist() == [0, 1, 2, -1, -1, -1]
    assert found.memory("seen_ptr", 2).tolist() == [0, 1, 2, 3, -1, -1]
    assert (int(total), seen.tolist()) == (6, [0, 1, 2, 3, 4, 5])
    assert found.final_memory("total_ptr").tolist() == [6]
    assert not found.diff({"total_ptr": total, "seen_ptr": seen})


def test_an_order_is_kept_to() -> None:
    total, seen = torch.zeros(1, dtype=torch.int32), torch.zeros(6, dtype=torch.int32)
    found = kernellab.trace(traced.count_programs, (6,), total, seen, programs=1, order="reversed")
    assert (found.at(0).before, found.facts.options) == (4, {"order": "reversed"})


def test_programs_that_wait_for_each_other() -> None:
    n = 3
    order, turn, lock = (torch.zeros(size, dtype=torch.int32) for size in (n, 1, 1))
    found = kernellab.trace(stepped.in_turn, (n,), order, turn, lock, n, programs="all")
    counts = {
        step.program[0]: int(found.at(step)["count"]) for step in found if "count" in step.changed
    }
    assert counts == {0: 2, 1: 1, 2: 0}
    assert {step.program for step in found if step.function == "take"} == set(found.facts.programs)
    assert found.memory("order_ptr").tolist() == [2, 1, 0]


def test_operations_of_the_ir(messages) -> None:
    x, y = torch.arange(32.0), torch.zeros(32)
    found = kernellab.trace(
        traced.accumulate, (2,), x, y, 16, 2, BLOCK=16, programs=0, operations=True
    )
    lines = kernellab.trace(traced.accumulate, (2,), x, y, 16, 2, BLOCK=16, programs=0)
    assert len(found) > len(lines)
    assert repr(found) == messages
    loads = [step for step in found if step.operation == "tt.load"]
    assert [step.accesses[0].text() for step in loads] == [
        "load of x_ptr: elements 0 to 15 (16 of 16 tile elements)",
        "load of x_ptr: elements 16 to 31 (16 of 16 tile elements)",
    ]
    assert all(
        not step.accesses
        for step in found
        if "load" not in step.operation and "store" not in step.operation
    )
    assert [step.turns[0].number for step in loads] == [0, 1]
    numpy.testing.assert_array_equal(found.at(-1).acc, lines.at(-1).acc)


def test_helpers_of_the_library_are_not_looked_into() -> None:
    x, out = torch.arange(32.0), torch.zeros(1)
    found = kernellab.trace(traced.summed, (1,), x, out, BLOCK=32)
    assert [step.function for step in found] == ["summed"] * 3
    assert found.at(1).total == 496


def test_operations_whose_result_nobody_wants() -> None:
    total = torch.zeros(1, dtype=torch.int32)
    found = kernellab.trace(traced.counted, (3,), total, programs=1, operations=True)
    assert [step.operation for step in found][-1] == "tt.atomic_rmw"
    assert found[-1].accesses[0].kind == "atomic"


def test_parameters_with_names_of_options() -> None:
    x, y = torch.arange(16.0), torch.zeros(16)
    tensors: dict[str, Any] = {"target": x, "programs": y}
    found = kernellab.trace(traced.named_as_options, (1,), **tensors, BLOCK=16)
    assert found.facts.programs == ((0, 0, 0),)
    assert found.memory("programs").tolist() == list(range(16))
    assert sorted(dict(found.at(-1))) == ["BLOCK", "keys", "programs", "target"]
    assert found.at(-1)["keys"].tolist() == list(range(16))


def test_accesses_through_descriptors() -> None:
    source, target = torch.arange(128.0).reshape(16, 8), torch.zeros(16, 8)
    arguments = [TensorDescriptor.from_tensor(one, [4, 8]) for one in (source, target)]
    found = kernellab.trace(traced.through_descriptors, (4,), *arguments, BLOCK=4, programs=2)
    assert [access.text() for step in found for access in step.accesses] == [
        "load of source: elements 64 to 95 (32 of 32 tile elements)",
        "store of target: elements 64 to 95 (32 of 32 tile elements)",
    ]
    numpy.testing.assert_array_equal(found.memory("target")[8:12], source[8:12].numpy() + 1)
    given = {name: found.values[number] for name, number in found.frames[0].given.items()}
    assert given["source"].type_text() == "descriptor"
    assert repr(given["source"]).startswith("<descriptor of source: float32[16, 8]")
    loads = [step for step in found if step.accesses and step.accesses[0].kind == "load"]
    assert [repr(value) for step in loads for value in step.changed.values()] == [
        "<float32[4, 8]: 64 .. 95>"
    ]


def test_accesses_through_chosen_pointers() -> None:
    x, y, z = torch.arange(8.0), -torch.arange(8.0), torch.zeros(8)
    found = kernellab.trace(traced.chosen, (1,), x, y, z, BLOCK=8)
    load, store = found[2].accesses
    assert (load.argument, store.argument) == ("", "z_ptr")
    assert found.memory("z_ptr").tolist() == [0, -1, 2, -3, 4, -5, 6, -7]
    pointers = found.at(1).source
    assert pointers.argument == ""
    assert pointers.offsets[1] != pointers.offsets[0]


def test_a_kernel_without_a_line_of_effect() -> None:
    found = kernellab.trace(traced.nothing, (1,), torch.zeros(1))
    assert [step.line for step in found] == [line_of(traced, "    pass")]
    assert "nothing" in found.show().text()


def test_where_the_first_nan_comes_from() -> None:
    x, y, z = torch.ones(32), torch.ones(32), torch.zeros(32)
    x[20] = y[20] = 0
    found = kernellab.trace(traced.divided, (4,), x, y, z, 32, BLOCK=8, programs="all")
    first: Any = found.find(lambda v: numpy.isnan(v.ratio).any())
    assert (first.line, first.program) == (line_of(traced, "ratio = x / y"), (2, 0, 0))
    assert first.changed["ratio"].summary.nans == 1
    assert list(found.history("ratio").table()["nans"]) == [0, 0, 1, 0]


def test_diff_of_two_kernels_finds_the_line() -> None:
    x, y = torch.ones(64), torch.zeros(16)
    traces = [
        kernellab.trace(kernel, (1,), x, y, 16, 4, BLOCK=16)
        for kernel in (traced.accumulate, traced.accumulate_otherwise)
    ]
    parted: Any = traces[0].diff(traces[1])
    assert (parted.kind, parted.name) == ("value", "scaled")
    assert parted.step.calls[0].line == line_of(traced, "acc = smoothed(acc, x, 3)")
    assert parted.other_step.calls[0].line == line_of(traced, "acc = smoothed(acc, x, 3)", 1)
    assert parted.step.turns[0].number == parted.other_step.turns[0].number == 1
    assert (parted.actual, parted.expected) == (3, 6)


def test_diff_of_two_inputs_finds_the_load() -> None:
    x, other = torch.ones(64), torch.ones(64)
    other[40] = 7
    parted: Any = accumulated(x).diff(accumulated(other))
    assert (parted.name, parted.index, parted.actual, parted.expected) == ("x", (8,), 1, 7)
    assert parted.step.line == line_of(traced, "x = tl.load(x_ptr + k")
    assert parted.step.turns[0].number == 2


def test_diff_of_two_dtypes_allows_for_the_coarser() -> None:
    x = torch.rand(64)
    fine, coarse = accumulated(x), accumulated(x.half())
    assert not fine.diff(coarse)
    assert fine.diff(coarse, rtol=1e-7, atol=1e-7).name == "x"


def large(exact_bytes: int = 64) -> Trace:
    return accumulated(torch.arange(64.0), exact_bytes=exact_bytes - 1)


def test_large_tiles_are_summaries_and_come_back_exactly(tmp_path) -> None:
    small, exact = large(), large(65)
    assert not small.history("acc")[1].stored.is_exact
    assert small.at(3).summaries == exact.at(3).summaries
    for number in range(len(exact)):
        for name in exact.at(number):
            numpy.testing.assert_array_equal(small.at(number)[name], exact.at(number)[name])
    assert not small.diff(exact)
    found: Any = small.find(lambda v: v.acc.max() > 200)
    same: Any = exact.find(lambda v: v.acc.max() > 200)
    assert found.number == same.number
    loaded = kernellab.load(small.save(tmp_path / "trace"))
    with pytest.raises(NotRecorded, match="exact_bytes=64"):
        _ = loaded.history("acc")[1].value


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.arange(32.0)
    found = kernellab.trace(traced.talkative, (1,), x, BLOCK=32, exact_bytes=8)
    assert capsys.readouterr().out.count("doubled") == 1
    assert found.at(-1).doubled.max() == 62
    assert not capsys.readouterr().out


def test_arguments_may_change_after_the_trace() -> None:
    x = torch.arange(64.0)
    found = accumulated(x, exact_bytes=8)
    x.fill_(-1)
    assert found.at(-1).acc.max() > 0
    assert found.memory("x_ptr").tolist() == list(range(64))


def test_a_fault_ends_the_trace_and_is_in_it() -> None:
    found: Any = beyond(40, programs=[1, 2, 3])
    assert found[-1].line == line_of(traced, "tl.store(y_ptr + offsets, doubled)")
    assert len(found) == 8
    assert (found.fault.kind, found.fault.step) == ("OutOfBounds", 7)
    assert "store out of bounds: y_ptr[40]" in found.fault.message
    assert "in program (2, 0, 0)" in found.fault.message
    assert found.at(-1).doubled.tolist() == [2 * n for n in range(32, 48)]
    assert found[-1].changed == {}
    text = found.show().text()
    assert "stopped by a fault" in text
    assert "step 7, the fault (steps 0 to 7)" in text


def test_a_fault_behind_a_helper_is_on_the_line_that_called_it() -> None:
    found: Any = kernellab.trace(traced.asserted, (1,), torch.arange(8), BLOCK=8, debug=True)
    assert found.fault.kind == "KernelFault"
    assert found.fault.step is not None
    line = line_of(traced, "tl.device_assert(smoothed(x, x, 1) < 14")
    assert found[found.fault.step].line == line
    assert [step.function for step in found] == ["asserted", *["smoothed"] * 3, "asserted"]


def test_a_fault_of_a_program_that_nobody_chose_is_traced_too() -> None:
    x, y = torch.arange(64.0), torch.zeros(40)
    found = kernellab.trace(traced.beyond, (4,), x, y, BLOCK=16, programs=[0, 3], in_place=True)
    assert found.facts.programs == ((0, 0, 0), (3, 0, 0), (2, 0, 0))
    assert found.fault is not None
    assert found.fault.step == len(found) - 1
    assert found[-1].program == (2, 0, 0)
    assert found[-1].line == line_of(traced, "tl.store(y_ptr + offsets, doubled)")
    assert {step.program for step in found} == {(0, 0, 0), (2, 0, 0)}
    # The launch's own tensors have what one run leaves: programs 0 and 1 stored, 2 stopped.
    numpy.testing.assert_array_equal(y.numpy()[:32], 2 * x.numpy()[:32])
    assert not y[32:].any()
    text = found.show().text()
    assert "Program (2, 0, 0) is traced too: the fault is in it" in text
    assert f"step {len(found) - 1}, the fault (steps 0 to {len(found) - 1})" in text
    assert "program (2, 0, 0) · " in text


def test_programs_beyond_the_fault_are_said_not_to_have_run() -> None:
    text = beyond(40, 6, programs=[1, 4, 5]).show().text()
    assert (
        "Programs (4, 0, 0), (5, 0, 0) did not run: the fault stopped the launch before their turn."
    ) in text
    assert "steps of 2 programs" in text


def test_other_programs_of_the_same_launch_are_traced_with_what_it_began_with() -> None:
    x, y = torch.arange(64.0), torch.zeros(64)
    found = kernellab.trace(traced.beyond, (4,), x, y, BLOCK=16)
    x.fill_(-1)
    more = found.of_programs([2, 3])
    assert more.facts.programs == ((2, 0, 0), (3, 0, 0))
    assert more.history("doubled", (3, 0, 0))[0].value.tolist() == [2.0 * n for n in range(48, 64)]
    with pytest.raises(OptionError):
        found.of_programs([9])


def test_what_a_kernel_prints_before_a_fault_is_printed_once(capsys) -> None:
    found = kernellab.trace(traced.printing_beyond, (4,), torch.zeros(40), BLOCK=16, programs=0)
    assert found[-1].program == (2, 0, 0)
    assert capsys.readouterr().out.count("begins") == 4


def test_in_place_changes_the_arguments() -> None:
    x, y = torch.arange(64.0), torch.zeros(64)
    found = kernellab.trace(traced.beyond, (4,), x, y, BLOCK=16, in_place=True)
    assert torch.equal(y, 2 * x)
    assert found.memory("y_ptr").tolist() == [2 * n for n in range(16)] + [0] * 48


def test_numpy_arrays_and_memory_that_is_read_only() -> None:
    x, y = numpy.arange(64, dtype=numpy.float32), numpy.zeros(64, numpy.float32)
    x.flags.writeable = False
    found: Any = kernellab.trace(traced.beyond, (4,), x, y, BLOCK=16, in_place=True)
    numpy.testing.assert_array_equal(y, 2 * x)
    assert found.fault is None
    y.flags.writeable = False
    found = kernellab.trace(traced.beyond, (4,), x, y, BLOCK=16, in_place=True)
    assert "read-only" in found.fault.message


def test_arguments_that_share_memory_share_it_in_a_trace() -> None:
    x = torch.arange(64.0)
    found = kernellab.trace(traced.beyond, (2,), x[:32], x[16:48], BLOCK=16, programs="all")
    stored = [2 * n for n in range(16)]
    assert found.memory("y_ptr", 3)[:16].tolist() == stored
    assert found.memory("x_ptr", 3).tolist() == [*range(16), *stored]
    right = numpy.array([*range(16), *stored], numpy.float32)
    right[20] = -1
    parted: Any = found.diff({"x_ptr": right})  # it was written through the other one
    assert (parted.index, parted.actual, parted.step.number, parted.size) == ((20,), 8, 3, 16)
    assert found.at(5).x.tolist() == [2 * n for n in range(16)]  # what program 0 stored
    assert x.tolist() == list(range(64))


def test_what_launches_refuse_traces_refuse(raised) -> None:
    with pytest.raises(ArgumentError, match="y_ptr"):
        kernellab.trace(traced.beyond, (4,), torch.zeros(64), BLOCK=16)
    with pytest.raises(GridError):
        beyond(grid=0)
    raised(OptionError, beyond, stage="ttgir", match="ttgir")
    for size in (-1, "64K", True):
        raised(OptionError, beyond, exact_bytes=size, match="exact_bytes")
    with pytest.raises(OptionError, match="opperations"):
        beyond(opperations=True)


def test_a_trace_that_is_let_go_takes_its_values_with_it() -> None:
    gc.disable()
    try:
        found = beyond()
        values = weakref.ref(found.values)
        del found
        assert values() is None
    finally:
        gc.enable()


def test_a_kernel_that_was_defined_anew_is_told(tmp_path, monkeypatch, messages) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "kernels_of_today.py"
    source = (
        "import triton, triton.language as tl\n\n"
        "@triton.jit\n"
        "def one(x_ptr):\n    tl.store(x_ptr, {})\n"
    )
    file.write_text(source.format(1))
    module = importlib.import_module("kernels_of_today")
    trace = kernellab.trace(module.one, (1,), torch.zeros(1))
    assert trace.notices_now() == ()
    importlib.reload(module)  # the same again
    assert trace.notices_now() == ()
    file.write_text(source.format(22))
    importlib.reload(module)
    (notice,) = trace.notices_now()
    assert notice == messages
    text = trace.show().text()
    assert notice in text
    assert "tl.store(x_ptr, 1)" in text
    monkeypatch.setattr(module, "one", None)
    assert trace.notices_now()[0] == messages


SIDE = 256
SIZE = SIDE * SIDE
FIRST_STORE, ATOMIC, LAST_STORE = 3, 5, 6
"""Steps of the kernel that write."""


def arguments() -> tuple[Any, ...]:
    torch.manual_seed(0)
    x, index = torch.rand(SIZE) * 8, torch.randperm(SIZE)
    return x, index, torch.zeros(SIZE), torch.ones(SIZE), SIZE - 5


def trace_of(**options: Any) -> Trace:
    return kernellab.trace(traced.large_writes, (1,), *arguments(), SIDE=SIDE, **options)


def launched() -> dict[str, numpy.ndarray]:
    given = arguments()
    kernellab.run(traced.large_writes, (1,), *given, SIDE=SIDE)
    return {"out_ptr": given[2].numpy(), "count_ptr": given[3].numpy()}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_of()


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for the four arguments, and for none of the large writes."""
    for_arguments = 3 * SIZE * 4 + SIZE * 8
    monkeypatch.setattr(launches, "ValueStore", functools.partial(ValueStore, memory=for_arguments))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("from_file", [False, True], ids=["live", "from a file"])
def test_what_large_tiles_write_is_known(trace: Trace, from_file: bool, tmp_path) -> None:
    if from_file:
        trace = kernellab.load(trace.save(tmp_path / "a.trace"))
    for name, left in launched().items():
        numpy.testing.assert_array_equal(trace.memory(name), left)
        assert (trace.memory(name, FIRST_STORE - 1) == (name == "count_ptr")).all()
    numpy.testing.assert_array_equal(
        trace.memory("out_ptr", FIRST_STORE), trace.memory("x_ptr") * 2
    )
    assert not trace.diff(launched())
    wrong = launched()
    wrong["out_ptr"][7] = -1
    found = trace.diff(wrong)
    assert (found.name, found.index, found.expected) == ("out_ptr", (7,), -1)
    assert [access.text() for access in trace[ATOMIC].accesses] == [
        access.text() for access in trace_of(exact_bytes=1 << 30)[ATOMIC].accesses
    ]
    numpy.testing.assert_array_equal(trace.at(-1).doubled.ravel(), trace.memory("x_ptr") * 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("from_file", [False, True], ids=["live", "from a file"])
def test_the_stepper_follows_large_writes(trace: Trace, from_file: bool, tmp_path) -> None:
    if from_file:
        trace = kernellab.load(trace.save(tmp_path / "a.trace"))
    page = trace.show().to_html(tmp_path / "steps.html")
    assert page.stat().st_size > SIZE
    texts = [trace.show(step).text() for step in (FIRST_STORE - 1, FIRST_STORE, ATOMIC, LAST_STORE)]
    before, *ranges = (
        word for text in texts for word in re.findall(r"^ +out_ptr +\S+ +(.*)$", text, re.M)
    )
    assert before == "0"
    assert ranges[0] == ranges[1] != ranges[2]
    assert "store of out_ptr: " in texts[-1]


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("from_file", [False, True], ids=["live", "from a file"])
def test_beyond_the_room_it_is_said_since_when_memory_is_not_known(
    from_file: bool, tmp_path, messages, raised
) -> None:
    trace = trace_of()
    if from_file:
        trace = kernellab.load(trace.save(tmp_path / "a.trace"))
    assert not trace.memory("out_ptr", FIRST_STORE - 1).any()
    assert (trace.memory("count_ptr", ATOMIC - 1) == 1).all()
    for step in (FIRST_STORE, -1):
        caught = raised(NotRecorded, trace.memory, "out_ptr", step)
        assert f"trace.memory('out_ptr', {FIRST_STORE - 1})" in caught.advice
        assert f"exact_bytes={SIZE * 4}" in caught.advice
    raised(NotRecorded, trace.diff, {"count_ptr": torch.zeros(SIZE)})
    raised(NotRecorded, lambda: trace[ATOMIC].accesses[0].elements)
    numpy.testing.assert_array_equal(trace.memory("x_ptr"), arguments()[0])
    text = trace.show(LAST_STORE).text()
    assert re.search(rf"out_ptr.*\b{FIRST_STORE}\b", text)
    assert f"out_ptr: {SIZE:,} " in text
    assert text == messages
    trace.show().to_html(tmp_path / "steps.html")


@pytest.mark.usefixtures("little_room")
def test_the_option_that_the_error_names_keeps_it() -> None:
    trace = trace_of(exact_bytes=SIZE * 8)
    for name, left in launched().items():
        numpy.testing.assert_array_equal(trace.memory(name), left)


@pytest.mark.usefixtures("little_room")
def test_a_window_after_what_was_not_kept_says_so() -> None:
    view = step_view(trace_of(), LAST_STORE, 2)
    assert view.first == LAST_STORE - 1
    assert any(f"From step {FIRST_STORE} on, the contents of" in note for note in view.notes)


N, BLOCK = 64, 16


def added_up(grid: int = 4, **options: Any) -> kernellab.Trace:
    x, y = torch.arange(1.0, N + 1), torch.full((N,), 3.0)
    args = (kernels.added_up_to_40, (grid,), x, y, torch.zeros(N))
    return kernellab.trace(*args, BLOCK=BLOCK, **options)


@pytest.mark.parametrize(
    "expect", [torch.add, lambda x_ptr, y_ptr: x_ptr + y_ptr, {"z_ptr": torch.arange(4.0, N + 4)}]
)
def test_it_opens_where_the_first_wrong_element_was_written(expect, messages) -> None:
    trace = added_up(expect=expect)
    (told,) = trace.notices
    assert told == messages
    assert trace.first_shown is not None
    step = trace[trace.first_shown]
    assert step.program == (2, 0, 0)
    assert step.line == marked_line(kernels, "writes z")
    assert re.findall(r"(?:Step|line) (\d+)", told) == [str(step.number), str(step.line)]
    assert f"->{step.line:>5} |" in trace.show().text()
    assert trace.facts.programs == ((0, 0, 0), (2, 0, 0))


def test_a_program_that_was_chosen_is_traced_once() -> None:
    trace = added_up(expect=torch.add, programs=(2, 0, 0))
    assert trace.facts.programs == ((2, 0, 0),)
    assert trace.first_shown == len(trace) - 1


def test_an_element_that_nobody_writes(messages) -> None:
    trace = added_up(2, expect=torch.add)
    assert trace.first_shown is None
    assert "z_ptr[32] is 0, expected 36" in trace.notices[0]
    assert trace.notices[0] == messages


def test_right_results_are_not_told() -> None:
    right = torch.cat([torch.arange(4.0, 44), torch.arange(38.0, 62)])
    assert added_up(expect={"z_ptr": right}).notices == ()


def test_what_fits_no_argument_is_refused(raised) -> None:
    raised(ArgumentError, added_up, match="'z'", expect={"z": torch.zeros(N)})
