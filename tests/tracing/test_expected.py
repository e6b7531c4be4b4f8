"""A trace with wrong results opens where the first wrong element was written."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.errors import ArgumentError
from tests.kernels import expected as kernels
from tests.support.messages import Raised
from tests.support.source_lines import marked_line

N, BLOCK = 64, 16


def traced(grid: int = 4, **options: Any) -> kernellab.Trace:
    x, y = torch.arange(1.0, N + 1), torch.full((N,), 3.0)
    args = (kernels.added_up_to_40, (grid,), x, y, torch.zeros(N))
    return kernellab.trace(*args, BLOCK=BLOCK, **options)


@pytest.mark.parametrize(
    "expect", [torch.add, lambda x_ptr, y_ptr: x_ptr + y_ptr, {"z_ptr": torch.arange(4.0, N + 4)}]
)
def test_it_opens_where_the_first_wrong_element_was_written(
    expect: Any, messages: SnapshotAssertion
) -> None:
    trace = traced(expect=expect)
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
    trace = traced(expect=torch.add, programs=(2, 0, 0))
    assert trace.facts.programs == ((2, 0, 0),)
    assert trace.first_shown == len(trace) - 1


def test_an_element_that_nobody_writes(messages: SnapshotAssertion) -> None:
    trace = traced(2, expect=torch.add)
    assert trace.first_shown is None
    assert "z_ptr[32] is 0, and 36 is expected" in trace.notices[0]
    assert trace.notices[0] == messages


def test_right_results_are_not_told() -> None:
    right = torch.cat([torch.arange(4.0, 44), torch.arange(38.0, 62)])
    assert traced(expect={"z_ptr": right}).notices == ()


def test_what_fits_no_argument_is_refused(raised: Raised) -> None:
    raised(ArgumentError, traced, match="'z'", expect={"z": torch.zeros(N)})
