"""Traces of kernels that write tiles larger than what is kept of a variable; and traces with wrong
results, which open where the first wrong element was written.
"""

import functools
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import ArgumentError, NotRecorded
from kernellab.tracing import launches
from kernellab.tracing.records import Trace
from kernellab.tracing.values import ValueStore
from kernellab.viz.stepper_steps import still_view
from tests.kernels import expected as kernels
from tests.kernels import traced
from tests.support.messages import Raised
from tests.support.source_lines import marked_line

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
def test_what_large_tiles_write_is_known(trace: Trace, from_file: bool, tmp_path: Path) -> None:
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
def test_the_stepper_follows_large_writes(trace: Trace, from_file: bool, tmp_path: Path) -> None:
    if from_file:
        trace = kernellab.load(trace.save(tmp_path / "a.trace"))
    page = trace.show().to_html(tmp_path / "steps.html")
    assert page.stat().st_size > SIZE
    steps = trace.show().still_data["steps"]
    ranges = [
        next(one["value"] for one in step["arguments"] if one["name"] == "out_ptr")
        for step in steps
    ]
    assert ranges[FIRST_STORE - 1] == "0"
    assert ranges[FIRST_STORE] == ranges[ATOMIC] != ranges[LAST_STORE]
    assert "store of out_ptr: " in trace.show(LAST_STORE).text()
    assert "<input" in trace.show(LAST_STORE).html()


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("from_file", [False, True], ids=["live", "from a file"])
def test_beyond_the_room_it_is_said_since_when_memory_is_not_known(
    from_file: bool, tmp_path: Path, messages: SnapshotAssertion, raised: Raised
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
    assert re.search(rf"\b{FIRST_STORE}\b.*out_ptr", text)
    assert f"out_ptr: {SIZE:,} " in text
    assert text == messages
    trace.show().to_html(tmp_path / "steps.html")
    (out,) = (
        one
        for one in trace.show().still_data["steps"][LAST_STORE]["arguments"]
        if one["name"] == "out_ptr"
    )
    assert out["value"].startswith("0 ")
    assert f" {FIRST_STORE} " in out["value"]
    assert out["value"] == messages


@pytest.mark.usefixtures("little_room")
def test_the_option_that_the_error_names_keeps_it() -> None:
    trace = trace_of(exact_bytes=SIZE * 8)
    for name, left in launched().items():
        numpy.testing.assert_array_equal(trace.memory(name), left)


@pytest.mark.usefixtures("little_room")
def test_a_window_after_what_was_not_kept_says_so() -> None:
    view = still_view(trace_of(), LAST_STORE, 2)
    assert view.first == LAST_STORE - 1
    assert any(f"From step {FIRST_STORE} on, the contents of" in note for note in view.notes)


# Wrong results


N, BLOCK = 64, 16


def added_up(grid: int = 4, **options: Any) -> kernellab.Trace:
    x, y = torch.arange(1.0, N + 1), torch.full((N,), 3.0)
    args = (kernels.added_up_to_40, (grid,), x, y, torch.zeros(N))
    return kernellab.trace(*args, BLOCK=BLOCK, **options)


@pytest.mark.parametrize(
    "expect", [torch.add, lambda x_ptr, y_ptr: x_ptr + y_ptr, {"z_ptr": torch.arange(4.0, N + 4)}]
)
def test_it_opens_where_the_first_wrong_element_was_written(
    expect: Any, messages: SnapshotAssertion
) -> None:
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


def test_an_element_that_nobody_writes(messages: SnapshotAssertion) -> None:
    trace = added_up(2, expect=torch.add)
    assert trace.first_shown is None
    assert "z_ptr[32] is 0, expected 36" in trace.notices[0]
    assert trace.notices[0] == messages


def test_right_results_are_not_told() -> None:
    right = torch.cat([torch.arange(4.0, 44), torch.arange(38.0, 62)])
    assert added_up(expect={"z_ptr": right}).notices == ()


def test_what_fits_no_argument_is_refused(raised: Raised) -> None:
    raised(ArgumentError, added_up, match="'z'", expect={"z": torch.zeros(N)})
