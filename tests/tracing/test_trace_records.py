"""Traces of hand-made events: time travel, search, history, difference, what was not kept."""

import dataclasses
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kernellab.errors import ArgumentError, NotRecorded
from kernellab.launch.results import Tolerances
from kernellab.tracing import values
from kernellab.tracing.differences import difference_of_values
from kernellab.tracing.origins import NoSuchVariable, State
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import AffineLanes, TracedArgument
from tests.support.trace_events import Events

STEPS_PER_ITERATION = 5


def expected_acc(turns: int) -> numpy.ndarray:
    """`acc` after so many turns, in plain NumPy."""
    acc = numpy.zeros(8)
    for k in range(turns):
        acc = (acc + numpy.arange(8 * k, 8 * k + 8)) * 2
    return acc


def ran(folder: Path, largest: int = 1 << 16, again: Any = None, **run: Any) -> Trace:
    events = Events(folder, largest)
    events.run(**run)
    return events.trace(compute_again=again) if again else events.trace()


def test_steps_are_the_lines_in_the_order_in_which_they_end(trace: Trace) -> None:
    iteration = [3, 4, 9, 10, 5]
    assert [step.line for step in trace] == [2, *iteration * 3, 3, 6]
    assert [step.number for step in trace] == list(range(len(trace)))


def test_a_line_of_a_helper_knows_the_line_that_called_it(trace: Trace) -> None:
    inside = trace[3]
    assert (inside.line, inside.function) == (9, "double")
    assert [(call.line, Path(call.file).name) for call in inside.calls] == [(5, "total.py")]
    caller: Any = trace.at(3).caller
    assert caller["k"] == 0
    assert trace[0].calls == ()


def test_turns_count_the_iterations_of_the_loops_around_a_line(trace, messages) -> None:
    assert trace[0].turns == ()
    assert [
        (iteration.line, iteration.number) for iteration in trace[2 + 2 * STEPS_PER_ITERATION].turns
    ] == [(3, 2)]
    assert trace[2].turns[0].header == messages
    end = trace[1 + 3 * STEPS_PER_ITERATION].turns[0]  # the header, asked once more
    assert (end.number, end.is_over) == (3, True)
    assert end.text() == messages
    assert [iteration.is_over for iteration in trace[1].turns] == [False]
    assert [iteration.number for iteration in trace[3].turns] == [
        0
    ]  # of a helper, called in the first turn
    assert trace[-1].turns == ()


def test_a_step_knows_what_it_accessed(trace: Trace) -> None:
    load = trace[2 + STEPS_PER_ITERATION].accesses[0]
    assert load.text() == "load of x_ptr: elements 8 to 15 (8 of 8 tile elements)"
    store = trace[-1].accesses[0]
    assert store.text() == "store of z_ptr: elements 0 to 6 (7 of 8 tile elements)"
    numpy.testing.assert_array_equal(store.written(), expected_acc(3)[:7])


def test_all_variables_at_a_step_forwards_and_backwards(trace: Trace) -> None:
    forwards = [{name: trace.at(n)[name] for name in trace.at(n)} for n in range(len(trace))]
    for number in reversed(range(len(trace))):
        again = trace.at(number)
        assert list(again) == list(forwards[number])
        for name, value in forwards[number].items():
            numpy.testing.assert_array_equal(again[name], value)
    for iteration in range(3):
        numpy.testing.assert_array_equal(
            trace.at(STEPS_PER_ITERATION * (iteration + 1)).acc, expected_acc(iteration + 1)
        )


def test_a_variable_that_is_not_there_yet(trace: Trace, raised) -> None:
    raised(NoSuchVariable, lambda: trace.at(1).x)
    assert "x" not in trace.at(1)
    assert "x" in trace.at(2)
    assert not hasattr(trace.at(0), "k")


def test_a_variable_hides_a_method_of_the_same_name(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.recorder.turn_of((0, 0, 0))
    events.recorder.enter("total", events.file, 1, {"values": numpy.float32(7), "step": 3})
    events.recorder.line(2)
    state = events.trace().at(0)
    assert [getattr(state, name) for name in ("values", "step")] == [7, 3]
    assert dict(state) == {"values": 7, "step": 3}


def test_a_step_that_does_not_exist(trace: Trace) -> None:
    with pytest.raises(IndexError, match=r"no step 18: this trace has steps 0 to 17"):
        trace.at(18)
    assert trace.at(-1).step.number == 17


def test_memory_at_a_step(trace: Trace, raised) -> None:
    numpy.testing.assert_array_equal(trace.memory("z_ptr", 0), numpy.zeros(8))
    numpy.testing.assert_array_equal(trace.memory("z_ptr"), [*expected_acc(3)[:7], 0])
    numpy.testing.assert_array_equal(trace.memory("x_ptr"), numpy.arange(24))
    raised(ArgumentError, trace.memory, "zptr", match="zptr")


def test_find_goes_both_ways(trace: Trace) -> None:
    first: Any = trace.find(lambda v: v.acc.max() > 7)
    beyond = trace.find(lambda v: v.k == 1, after=first)
    last = trace.find(lambda v: v.k == 1, backwards=True)
    numbers = [step and step.number for step in (first, beyond, last)]
    assert numbers == [STEPS_PER_ITERATION, STEPS_PER_ITERATION + 1, 2 * STEPS_PER_ITERATION]
    assert first.line == 5
    assert trace.find(lambda v: numpy.isnan(v.acc).any()) is None


def test_find_of_a_name_that_nobody_has(trace: Trace, raised) -> None:
    raised(ArgumentError, trace.find, lambda v: v.ac.any())


def test_history_is_every_value_in_turn(trace: Trace, raised) -> None:
    history = trace.history("acc")
    assert [change.step and change.step.line for change in history] == [2, 5, 5, 5]
    for turns, change in enumerate(history):
        numpy.testing.assert_array_equal(change.value, expected_acc(turns))
    table = history.table()
    assert list(table["high"]) == [expected_acc(turns).max() for turns in range(4)]
    assert list(trace.history("v")[0].value) == list(range(8))
    raised(ArgumentError, trace.history, "accu", match="acc")


def changed_in_turn_two(k: int, tile: numpy.ndarray) -> numpy.ndarray:
    if k == 2:
        tile[5] += 0.5
    return tile


def test_diff_finds_the_first_value_that_differs(tmp_path: Path) -> None:
    first, second = ran(tmp_path), ran(tmp_path, change=changed_in_turn_two)
    found: Any = first.diff(second)
    assert found
    assert (found.kind, found.name, found.index) == ("value", "x", (5,))
    assert (found.actual, found.expected, found.count, found.size) == (21, 21.5, 1, 8)
    assert (found.step.line, found.step.turns[0].number) == (4, 2)
    words = "they part at x[5]: 21 here, 21.5 there (1 of 8 elements differ, by up to 0.5)"
    assert words in repr(found)
    assert not first.diff(second, atol=100.0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (3, 4),
        (True, False),
        (numpy.float32(1.5), numpy.float32(2.5)),
        (numpy.uint64(2**63 + 1), numpy.uint64(2**63)),
        (numpy.array(1.5, ml_dtypes.bfloat16), numpy.array(2.5, ml_dtypes.bfloat16)),
    ],
)
def test_a_scalar_that_differs_has_no_index(ours: Any, theirs: Any) -> None:
    assert difference_of_values("n", ours, ours, Tolerances(0.0, 0.0)) is None
    apart: Any = difference_of_values("n", ours, theirs, Tolerances(0.0, 0.0))
    assert (apart.element, apart.actual, apart.expected) == ("n", ours, theirs)


def test_diff_that_is_false_says_what_was_compared(trace, messages) -> None:
    """Equal runs, of one program and of the whole grid; and runs of which nothing is compared."""
    contents = trace.arguments, trace.checkpoints, trace.sources
    facts = dataclasses.replace(trace.facts, grid=(1, 1, 1))
    whole = Trace(facts, trace.steps, trace.frames, trace.values, *contents)
    empty = Trace(trace.facts, (), (), trace.values, *contents[:2], ())
    zeros = {"x_ptr": numpy.zeros(trace.arguments["x_ptr"].shape)}
    assert not trace.diff(trace)
    found = trace.diff(trace), whole.diff(whole), trace.diff(zeros), trace.diff(empty)
    assert [repr(one) for one in found] == messages


def test_diff_tells_where_the_ways_part(tmp_path: Path) -> None:
    found = ran(tmp_path, turns=2).diff(ran(tmp_path, turns=3))
    assert (found.kind, found.actual, found.expected) == ("path", "line 6", "line 4")


def test_diff_allows_for_coarser_types(tmp_path: Path) -> None:
    ours = ran(tmp_path, turns=1, change=lambda _, tile: tile / 3)
    coarse = ml_dtypes.bfloat16
    theirs = ran(tmp_path, turns=1, change=lambda _, tile: (tile / 3).astype(coarse))
    assert not ours.diff(theirs)
    assert ours.diff(theirs, rtol=0.0, atol=0.0).name == "x"


def test_diff_with_what_another_launch_left(trace: Trace, raised) -> None:
    right = expected_acc(3).astype(numpy.float32)
    assert not trace.diff({"z_ptr": right})  # the last element was masked off
    right[2] = -1
    found: Any = trace.diff({"z_ptr": right})
    assert (found.kind, found.name, found.index, found.expected) == ("output", "z_ptr", (2,), -1)
    assert found.step.line == 6
    with pytest.raises(ArgumentError, match="shape"):
        trace.diff({"z_ptr": right[:4]})
    raised(ArgumentError, trace.diff, {"zz_ptr": right}, match="z_ptr")


@pytest.mark.parametrize("other", [5, torch.zeros(4)], ids=["a number", "a tensor"])
def test_diff_says_what_it_takes(trace: Trace, other: Any, raised) -> None:
    caught = raised(ArgumentError, trace.diff, other)
    assert repr(other) in caught.problem


@pytest.mark.parametrize("step", ["a", None, 1.5])
def test_what_is_no_step_is_refused(trace: Trace, step: Any, raised) -> None:
    raised(ArgumentError, trace.at, step)
    raised(ArgumentError, trace.find, lambda _: True, after=step)


def test_a_condition_gives_one_truth_value(trace: Trace, raised) -> None:
    raised(ArgumentError, trace.find, "x", match="'x'")
    conditions = [lambda v: v.x > 7, lambda v: bool(v.x > 7) and v.k > 0]
    for condition in conditions:
        caught = raised(ArgumentError, trace.find, condition)
        assert caught.position == trace[2].position
    caught = raised(ArgumentError, trace.find, _fails)
    assert isinstance(caught.__cause__, ValueError)


def _fails(_: State) -> bool:
    raise ValueError("mine")


def test_diff_needs_a_program_in_common(tmp_path: Path, raised) -> None:
    raised(ArgumentError, ran(tmp_path).diff, ran(tmp_path, program=(1, 0, 0)))


def test_what_is_too_large_is_a_summary_and_the_error_names_the_call(tmp_path: Path) -> None:
    trace = ran(tmp_path, largest=16)
    assert trace.at(STEPS_PER_ITERATION).summaries["acc"].high == 14
    with pytest.raises(NotRecorded) as caught:
        _ = trace.at(STEPS_PER_ITERATION).acc
    assert "'acc' was not recorded: float32[8], 0 .. 14, 32 bytes" in str(caught.value)
    call = "kernellab.trace(total, (2, 1, 1), ..., programs=(0, 0, 0), exact_bytes=32)"
    assert call in str(caught.value)


def test_what_is_too_large_is_computed_again(tmp_path: Path) -> None:
    asked = []

    def again(wanted: object) -> dict[tuple[int, str], numpy.ndarray]:
        asked.append(wanted)
        return {
            (STEPS_PER_ITERATION * turns, "acc"): expected_acc(turns).astype(numpy.float32)
            for turns in (1, 2, 3)
        }

    trace = ran(tmp_path, largest=16, again=again)
    for turns in (1, 2, 3):
        acc = trace.at(STEPS_PER_ITERATION * turns).acc
        numpy.testing.assert_array_equal(acc, expected_acc(turns))
    assert len(asked) == 1  # values that follow come along


def test_another_value_the_second_time_is_refused(tmp_path: Path, raised) -> None:
    wrong = {(STEPS_PER_ITERATION, "acc"): numpy.zeros(8, numpy.float32)}
    trace = ran(tmp_path, largest=16, again=lambda _: wrong)
    raised(NotRecorded, lambda: trace.at(STEPS_PER_ITERATION).acc)


def test_equal_values_are_kept_once() -> None:
    store = values.ValueStore()
    first, again = numpy.arange(6.0), numpy.arange(6.0)
    numbers = [store.add(first), store.add(again), store.add(first), store.add(again.reshape(2, 3))]
    assert store[numbers[0]] is store[numbers[1]] is store[numbers[2]]
    assert store[numbers[3]] is not store[numbers[0]]
    assert len(list(store.distinct())) == 2


def test_a_value_that_was_a_summary_is_kept_whole_when_memory_needs_it(raised) -> None:
    store = values.ValueStore(largest=8, memory=100)
    tile, other = numpy.arange(6.0), numpy.arange(7.0)
    first = store.add(tile)
    assert not store[first].is_exact
    again = store.add(tile.copy(), whole=True)
    assert store[first] is store[again]
    numpy.testing.assert_array_equal(store[first].exact(), tile)
    pending = store.add(other)
    assert store.add(other, whole=True) == pending
    assert not store[pending].is_exact  # 48 of the 100 bytes are gone, and it has 56
    raised(NotRecorded, store[pending].exact)
    small = numpy.arange(6)
    assert store.add(small) == store.add(small, whole=True)
    assert store[store.add(small)].is_exact


KINDS = ["float32", "float16", "int32", "int8", "bool", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


@given(st.data())
def test_packing_a_tile_loses_nothing(data: st.DataObject) -> None:
    kind = numpy.dtype(data.draw(st.sampled_from(KINDS)))
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    size = int(numpy.prod(shape)) * kind.itemsize
    raw = data.draw(st.binary(min_size=size, max_size=size))
    if kind.kind == "b":
        raw = bytes(one & 1 for one in raw)
    tile = numpy.frombuffer(raw, kind).reshape(shape)
    back = values.decompressed(values.compressed(tile), kind.name, shape)
    assert (back.dtype, back.shape, back.tobytes()) == (kind, shape, raw)


@given(
    arrays.arrays(
        numpy.float32, arrays.array_shapes(max_dims=3, max_side=9), elements=st.floats(width=32)
    )
)
def test_a_summary_is_what_numpy_says(tile: numpy.ndarray) -> None:
    found = values.summarize(tile)
    numbers = tile[~numpy.isnan(tile)]
    assert found.nans == tile.size - numbers.size
    assert found.infinities == int(numpy.isinf(tile).sum())
    if numbers.size:
        assert (found.low, found.high) == (float(numbers.min()), float(numbers.max()))
    else:
        assert found.low is found.high is found.mean is None


def test_summaries_of_what_is_odd() -> None:
    assert values.summarize(numpy.zeros((0, 4), numpy.float32)).range_text == "empty"
    assert values.summarize(numpy.float32("nan")).range_text == "all NaN"
    assert (
        values.summarize(numpy.array([1, numpy.nan, -numpy.inf])).range_text
        == "-inf .. 1, 1 NaN, 1 infinite"
    )
    assert values.summarize(numpy.array([True, False])).mean == 0.5
    assert values.summarize(numpy.int64(-(2**63))).low == -(2**63)
    assert values.summarize("relu").range_text == ""


def test_a_nan_shows_in_a_thumbnail_however_small() -> None:
    tile = numpy.zeros((512, 512), numpy.float32)
    tile[300, 100] = numpy.nan
    small = values.thumbnail_of(tile)
    assert small.shape == (64, 64)
    assert numpy.argwhere(numpy.isnan(small)).tolist() == [[37, 12]]
    assert values.thumbnail_of(numpy.arange(1000)).shape == (32, 32)
    assert values.thumbnail_of(numpy.zeros((0, 3))).size == 0


@given(st.integers(-5, 5), st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 4)), max_size=3))
def test_affine_lanes_are_all_sums(start: int, sides: list[tuple[int, int]]) -> None:
    lanes = AffineLanes(start, tuple(s for s, _ in sides), tuple(e for _, e in sides))
    found = lanes.indices()
    assert found.shape == lanes.extents
    for place in numpy.ndindex(*lanes.extents):
        assert found[place] == start + sum(s * i for s, i in zip(lanes.strides, place))


@given(st.permutations(range(3)), st.integers(1, 3))
def test_coordinates_of_storage_elements(order: list[int], gap: int) -> None:
    shape = (3, 4, 5)
    strides = [0, 0, 0]
    step = gap
    for axis in order:
        strides[axis] = step
        step *= shape[axis] + 1
    argument = TracedArgument("x", "float32", shape, tuple(strides), 0)
    places = numpy.indices(shape).reshape(3, -1)
    inside, found = argument.coordinates(strides @ places)
    assert inside.all()
    numpy.testing.assert_array_equal(found, places)
    inside, _ = argument.coordinates(numpy.array([-1, strides @ numpy.array(shape)]))
    assert not inside.any()


def test_a_pointer_shows_where_it_points() -> None:
    assert repr(values.TilePointer("x_ptr", numpy.array(3))) == "x_ptr + 3"
    assert repr(values.TilePointer("x_ptr", numpy.arange(3))) == "x_ptr + [0 1 2]"
