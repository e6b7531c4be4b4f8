"""`kernellab.check` and `%tilecheck`: what they give, what they leave alone, and what they refuse."""

import json
import re
from functools import partial
from typing import Any

import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from benchmarks.eleven_kernels import cleared, eleven_cases
from kernellab.checker.detectors import DETECTORS
from kernellab.errors import ArgumentError, CompileError, GridError, KernelFault, OptionError
from kernellab.interpreter.execution import scheduler
from kernellab.viz.diagnostics import findings_card
from tests.checker.corpus import orders, races
from tests.checker.corpus.lints import doubles, halves_into_integers, sums_rows
from tests.checker.launches import normal, zeros
from tests.kernels.equal import total_by_atomics
from tests.kernels.interp import waiting
from tests.support.compiled import source_line
from tests.support.source_files import ROOT
from tests.support.source_lines import marked_line


@triton.jit
def row_of(x_ptr, row, COLUMNS: tl.constexpr):
    return tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))


@triton.jit
def two_rows(x_ptr, out_ptr, n, COLUMNS: tl.constexpr):
    first = row_of(x_ptr, n, COLUMNS)
    second = row_of(x_ptr, n + 1, COLUMNS)
    tl.store(out_ptr + tl.arange(0, COLUMNS), first + second)


@triton.jit
def rows_at_a_stride(x_ptr, out_ptr, stride, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + rows * stride + columns, mask=(rows >= 0) & (columns < n))
    tl.store(out_ptr + tl.arange(0, ROWS), tl.sum(x, axis=1))


def test_lanes_switched_off_for_leaving_their_tensor_are_not_those_of_a_mask() -> None:
    x, out = torch.ones(4, 16), torch.zeros(4)
    found = kernellab.check(rows_at_a_stride, (1,), x, out, 17, 16, ROWS=4, COLUMNS=16)
    assert found.kinds == ("out-of-bounds",)
    assert (found[0].lane, found[0].count) == ((3, 13), 3)
    both = kernellab.check(rows_at_a_stride, (1,), x, out, 17, 15, ROWS=4, COLUMNS=16)
    assert set(both.kinds) == {"out-of-bounds", "missing-other"}
    (missing,) = both.of_kind("missing-other")
    assert (missing.lane, missing.count) == ((0, 15), 4)


def test_a_finding_tells_where_and_with_which_values() -> None:
    x, out = torch.arange(12.0), torch.zeros(4)
    found = kernellab.check(two_rows, (1,), x, out, 3, COLUMNS=4)
    (one,) = found  # two calls of the helper, one fault
    assert one.kind == "out-of-bounds"
    assert (
        source_line(one.position) == "return tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))"
    )
    assert [source_line(call) for call in one.calls] == ["first = row_of(x_ptr, n, COLUMNS)"]
    assert (one.argument, one.index, one.lane) == ("x_ptr", (12,), (0,))
    assert one.programs == ((0, 0, 0),)
    assert (one.count, one.values["n"]) == (8, 3)
    assert "x_ptr has elements 0 to 11 (float32, shape (12,))" in one.message
    assert torch.equal(x, torch.arange(12.0))
    assert not out.any(), "a check leaves the arguments as they are"


def test_findings_as_a_sequence_a_table_and_json() -> None:
    found = kernellab.check(two_rows, (1,), torch.zeros(4), torch.zeros(4), 3, COLUMNS=4)
    assert len(found) == 1
    assert found[:1] == found.of_kind("out-of-bounds") == (found[0],)
    assert found.kinds == ("out-of-bounds",)
    table = found.table()
    assert list(table["kind"]) == ["out-of-bounds"]
    plain = json.loads(json.dumps(found.to_dict()))
    assert (plain["findings"][0]["line"], plain["grid"]) == (found[0].line, [1, 1, 1])
    assert str(found).startswith("two_rows: 1 finding\n\nout-of-bounds: this load reads x_ptr[")


def test_the_card_says_what_the_finding_says_and_escapes_it() -> None:
    found = kernellab.check(two_rows, (1,), torch.zeros(4), torch.zeros(4), 3, COLUMNS=4)
    card = findings_card(found)
    for text in (card.text(), card.html()):
        assert found[0].message in text
        assert found[0].where in text
    assert "</code> is 12." in card.html()
    nothing = findings_card(kernellab.check(two_rows, (1,), torch.zeros(20), torch.zeros(4), 3, COLUMNS=4))  # fmt: skip
    assert "nothing found" in nothing.text()


@pytest.mark.slow
@pytest.mark.parametrize("case", eleven_cases(), ids=lambda case: case.name)
def test_nothing_is_found_in_the_eleven_kernels(case) -> None:
    arguments = cleared(case, case.make_arguments())
    found = kernellab.check(
        case.kernel, case.grid, outputs=tuple(case.tolerance), **arguments, **case.constants, **case.options
    )  # fmt: skip
    assert not found, str(found)


def counters(n: int) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int32)


WAITING: list[tuple[Any, tuple[int, ...], tuple[torch.Tensor | int, ...], dict[str, int]]] = [
    (waiting.grid_barrier, (6,), (counters(2), counters(6) + 1, counters(12)), {"PHASES": 3}),
    (waiting.flags, (5,), (counters(5), counters(5)), {"PLAIN": False}),
    (waiting.flags, (5,), (counters(5), counters(5)), {"PLAIN": True}),
    (waiting.producer_consumer, (2,), (counters(1), counters(1), counters(4)), {"ITEMS": 4}),
    (waiting.look_back, (5,), (torch.ones(5 * 16), torch.zeros(5 * 16), counters(5), torch.zeros(10)), {"N": 16}),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("launch", WAITING, ids=lambda launch: launch[0].__name__)
def test_nothing_is_found_where_programs_wait_for_each_other_rightly(launch) -> None:
    kernel, grid, arguments, constants = launch
    found = kernellab.check(kernel, grid, *arguments, **constants)
    assert not found, str(found)


@pytest.mark.slow
def test_programs_that_wait_and_leave_their_tensors_are_not_waited_for_long() -> None:
    """One looks at flag after flag, beyond the last: it never comes back to where it was."""
    found = kernellab.check(waiting.faults_while_waiting, (2,), counters(2), 3)
    line = marked_line(waiting, "FAULT: faults_while_waiting")
    assert [(one.kind, one.line) for one in found] == [("out-of-bounds", line), ("deadlock", line)]
    assert found.of_kind("deadlock")[0].program_count == 2
    (rounds,) = re.findall(r"in ([\d,]+) rounds", str(found))
    assert int(rounds.replace(",", "")) < scheduler.SILENT_ROUNDS // 10


def test_programs_that_leave_their_tensors_may_give_up() -> None:
    """What comes after the wait is still looked at."""
    found = kernellab.check(waiting.gives_up_beyond_the_end, (3,), counters(1), counters(4), 50)
    assert {(one.kind, one.line) for one in found} == {
        ("out-of-bounds", marked_line(waiting, "FAULT: gives_up_beyond_the_end")),
        ("race", marked_line(waiting, "RACE: gives_up_beyond_the_end")),
    }


def test_uninitialized_is_the_tensor_itself_for_a_launch(raised) -> None:
    x, out = torch.arange(20.0), torch.zeros(4)
    kernellab.run(two_rows, (1,), x, kernellab.uninitialized(out), 3, COLUMNS=4)
    assert torch.equal(out, x[12:16] + x[16:20])
    array = numpy.zeros(4, numpy.float32)
    kernellab.run(two_rows, (1,), x, kernellab.uninitialized(array), 3, COLUMNS=4)
    assert numpy.array_equal(array, out.numpy())
    raised(ArgumentError, kernellab.uninitialized, [1.0])


def test_arguments_that_share_memory_share_it_in_the_check() -> None:
    """In place: what is read is what is written, by the same program."""
    x = torch.zeros(20)
    assert not kernellab.check(two_rows, (1,), x, x, 3, COLUMNS=4)


def test_memory_that_is_known_by_its_address_is_put_back() -> None:
    """It is no argument, so the check has no copy of it."""
    (out,) = races.LISTED[:1]
    found = kernellab.check(races.stores_through_addresses, (2,), races.addresses(0, 0), N=8)
    assert found.kinds == ("race",)
    assert not out.any()


def test_named_outputs_are_what_runs_are_compared_in() -> None:
    """A list in the order of arrival depends on the order; how many have arrived does not."""
    arguments = torch.arange(6, dtype=torch.int32), counters(1), counters(6)
    anything = kernellab.check(orders.appends_by_ticket, (6,), *arguments, N=6)
    assert anything.kinds == ("order-dependence",)
    assert not kernellab.check(orders.appends_by_ticket, (6,), *arguments, N=6, outputs="count_ptr")


@triton.jit
def normalizes_by_a_sum(x_ptr, sum_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_add(sum_ptr, tl.sum(x) + SCALE * tl.program_id(0) * tl.load(sum_ptr))


SCALE = tl.constexpr(0.5)


def test_float_sums_that_differ_by_more_than_rounding() -> None:
    """What is added depends on what is there: no rounding makes that much."""
    found = kernellab.check(normalizes_by_a_sum, (8,), torch.rand(64), torch.zeros(1), N=8)
    assert found.kinds == ("order-dependence",)


def test_what_is_refused(raised) -> None:
    x, out = torch.zeros(20), torch.zeros(4)
    check = partial(kernellab.check, two_rows, (1,), x, out, 3, COLUMNS=4)
    refused = raised(ArgumentError, check, outputs="out_prt", match="two_rows")
    assert refused.advice == "Did you mean 'out_ptr'? Its tensors are x_ptr, out_ptr."
    raised(ArgumentError, check, outputs=["n"], match="'n'")
    with pytest.raises(GridError):
        kernellab.check(two_rows, (-1,), x, out, 3, COLUMNS=4)
    raised(OptionError, check, order="reversed")
    raised(OptionError, check, most_turns=0, match="most_turns")
    with pytest.raises(ArgumentError):
        kernellab.check(two_rows, (1,), x.to("meta"), out, 3, COLUMNS=4)


@pytest.mark.usefixtures("no_fixes")
def test_a_grid_of_no_programs(messages) -> None:
    """As in a launch, nothing runs; the kernel compiles all the same."""
    x, out = torch.zeros(20), torch.ones(4)
    found = kernellab.check(two_rows, (2, 0), x, out, 3, COLUMNS=4, outputs="out_ptr")
    assert not found
    assert not found.notes
    assert str(found) == messages
    expect = {"out_ptr": torch.zeros(4)}
    found = kernellab.check(two_rows, (0,), x, out, 3, COLUMNS=4, expect=expect)
    assert found.kinds == ("wrong-result",)
    with pytest.raises(CompileError):
        kernellab.check(two_rows, (0,), x, out, 3, COLUMNS=5)


def test_an_interrupt_leaves_the_tensors_alone(monkeypatch) -> None:
    x, out = torch.arange(20.0), torch.zeros(4)

    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kernellab.checker.detectors.updates.LaneCollision.after", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kernellab.check(two_rows, (1,), x, out, 3, COLUMNS=4)
    assert not out.any()
    assert torch.equal(x, torch.arange(20.0))
    monkeypatch.undo()
    assert not kernellab.check(two_rows, (1,), x, out, 3, COLUMNS=4)


def test_every_kind_is_in_the_pages_table() -> None:
    page = (ROOT / "docs/checking.md").read_text()
    kinds = {kind for detector in DETECTORS for kind in detector.kinds} | {"deadlock"}
    assert not {kind for kind in kinds if f"`{kind}`" not in page}


CELL = """%%tilekernel --no-compile
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x, mask=offsets < n)
"""


@pytest.mark.slow
def test_tilecheck_in_a_notebook(notebook) -> None:
    session = notebook()
    session.run("%load_ext kernellab\nimport torch, triton, triton.language as tl")
    assert not session.run(CELL).error
    session.run("x, out = torch.ones(1000), torch.zeros(1000)")
    shown = session.run("%tilecheck --outputs out_ptr copy[(4,)](x, out, 1000, BLOCK=256)")
    for text in (shown.card["text/plain"], shown.card["text/html"]):
        assert "out-of-bounds, Cell In[2], line 5" in text
        assert "x = tl.load(x_ptr + offsets)" in text
    kept = session.run(
        "found = %tilecheck copy[(4,)](x, out, 1000, BLOCK=256)\nprint(found.kinds, out.sum())"
    )
    assert kept.streams["stdout"] == "('out-of-bounds',) tensor(0.)\n"
    refused = session.run("%tilecheck --output out_ptr copy[(4,)](x, out, 1000, BLOCK=256)")
    assert "--outputs" in refused.message


# Assertions count in a check, a trace and a debugger, whatever the launch says of debugging


@triton.jit
def is_share(x):
    tl.device_assert(x <= 1, "a share is at most 1")
    return x


@triton.jit
def shares(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    assert n > 0, "nothing to add"
    tl.atomic_add(total_ptr, tl.sum(is_share(x)))


@triton.jit
def hashed(x_ptr, BLOCK: tl.constexpr):
    numbers = tl.arange(0, BLOCK) * 2654435
    numbers = numbers * numbers * 31  # wraps, and may
    tl.device_assert(numbers == numbers)
    tl.store(x_ptr + tl.arange(0, BLOCK), (numbers & 7).to(tl.float32))


def faulty() -> torch.Tensor:
    x = torch.full((40,), 0.5)
    x[[21, 35]] = 2
    return x


def test_a_check_finds_what_is_asserted_and_goes_on(messages) -> None:
    x, total = faulty(), torch.zeros(1)
    found = kernellab.check(shares, (5,), x, total, 40, BLOCK=8)
    assert found.kinds == ("failed-assertion",)
    one: Any = found[0]
    assert one.message == messages
    assert "device_assert" in one.position.excerpt()
    assert [call.excerpt().count("is_share(x)") for call in one.calls] == [1]
    assert (one.programs, one.lane, one.count) == (((2, 0, 0), (4, 0, 0)), (5,), 2)
    assert one.values["x"] == 2.0
    assert not kernellab.check(shares, (5,), torch.full((40,), 0.5), total, 40, BLOCK=8)


def test_an_assert_statement_counts(messages) -> None:
    found = kernellab.check(shares, (1,), torch.zeros(0), torch.zeros(1), 0, BLOCK=8)
    assert [one.message for one in found] == messages


def test_a_trace_ends_where_it_fails() -> None:
    trace = kernellab.trace(shares, (5,), faulty(), torch.zeros(1), 40, BLOCK=8, programs=2)
    assert "a share is at most 1" in str(trace.fault)


def test_a_launch_leaves_assertions_out_as_triton_does(raised) -> None:
    total = torch.zeros(1)
    kernellab.run(shares, (5,), faulty(), total, 40, BLOCK=8)
    assert total.item() == 23
    assert not kernellab.check(shares, (5,), faulty(), total, 40, BLOCK=8, debug=False)
    raised(KernelFault, kernellab.run, shares, (5,), faulty(), total, 40, BLOCK=8, debug=True)


def test_triton_checks_of_overflow_stay_off() -> None:
    assert not kernellab.check(hashed, (1,), torch.zeros(64), BLOCK=64)


def test_what_a_finding_opens_is_the_launch_as_it_was_written() -> None:
    found: Any = kernellab.check(shares, (5,), faulty(), torch.zeros(1), 40, BLOCK=8)
    assert found.subject.options["debug"] is False


# What is said of launches that are no fault of memory's


def test_a_transposed_tensor_read_flat_is_told_with_its_strides_and_two_fixes(messages) -> None:
    x = normal(24, 32).T
    (found,) = kernellab.check(doubles, (12,), x, zeros(32, 24), x.numel(), BLOCK=64)
    assert found.message == messages
    assert ".contiguous()" in found.advice
    assert ".stride(0)" in found.advice
    rows = x.contiguous()
    assert not kernellab.check(doubles, (12,), rows, zeros(32, 24), x.numel(), BLOCK=64)


def test_an_expanded_tensor_is_told_as_that_and_not_as_out_of_bounds() -> None:
    x = normal(32).expand(24, 32)
    found = kernellab.check(doubles, (12,), x, zeros(24, 32), x.numel(), BLOCK=64)
    assert [one.kind for one in found] == ["ignored-strides"]


def test_a_row_stride_alone_does_not_tell_the_columns(messages) -> None:
    x = normal(32, 32).T
    (found,) = kernellab.check(sums_rows, (32,), x, zeros(32), x.stride(0), 32, BLOCK=32)
    assert found.advice == messages


def test_a_float_in_a_tensor_of_integers_is_told_with_both_numbers(messages) -> None:
    x, out = torch.arange(64.0), zeros(64, dtype=torch.int32)
    (found,) = kernellab.check(halves_into_integers, (2,), x, out, 64, BLOCK=32)
    assert found.message == messages
    assert "keeps 0" in found.message
    assert "half.to(tl.int32)" in found.advice
    assert not kernellab.check(halves_into_integers, (2,), x, zeros(64), 64, BLOCK=32)


def test_a_launch_of_which_no_lane_stores_says_so() -> None:
    found = kernellab.check(doubles, (2,), normal(64), zeros(64), 0, BLOCK=32)
    assert not found
    assert "stores nothing" in found.notes[0]


def test_nothing_found_says_that_atomics_add_to_what_was_there() -> None:
    x = torch.ones(64)
    launch = (total_by_atomics, (2,), x)
    found = kernellab.check(*launch, torch.empty(1), 64, BLOCK=32)
    assert not found
    assert "out_ptr" in found.notes[-1]
    found = kernellab.check(*launch, kernellab.uninitialized(torch.empty(1)), 64, BLOCK=32)
    assert found.kinds == ("uninitialized-read",)
    assert not found.notes
