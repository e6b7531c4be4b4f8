"""What cannot be captured, or not whole: a report that says how far it came and why."""

import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import kernellab
from kernellab.graphs.report import GraphReport
from kernellab.records.graphs import GraphBreak

_HAS_STAND_IN = importlib.util.find_spec("torch._dynamo.variables.object_protocol") is not None
"""Whether Dynamo traces with something in place of a tensor's address, as since torch 2.12."""

seen: list[int] = []


def opened(function: Callable[..., Any], *args: Any) -> GraphReport:
    report = kernellab.graph(function, *args, levels=False)
    assert report.capture.name in str(report)
    return report


@torch.compiler.disable
def _disabled(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def left_alone(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = _disabled(x)
    return result


def no_tensors(x: torch.Tensor) -> int:
    return x.dim() + 1


def indexed(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    x.view(2, 2)[:, place] = 0
    return x + 1


def with_effects(x: torch.Tensor) -> torch.Tensor:
    seen.append(1)
    print("hi")
    return x.sin()


def valued(x: torch.Tensor) -> torch.Tensor:
    return x.repeat(int(x.sum().item()) % 3 + 1)


def without_decomposition(x: torch.Tensor) -> torch.Tensor:
    values: torch.Tensor = torch.linalg.eigvals(x)
    return values.abs() * 2


def leaving(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    sys.exit(3)
    return y


def aborting(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    os.abort()
    return y


@pytest.mark.slow
def test_a_function_of_which_nothing_is_captured() -> None:
    cases: list[Any] = [(left_alone,), (no_tensors,), (indexed, torch.tensor(1))]
    for function, *more in cases:
        report = opened(function, torch.rand(4), *more)
        assert report.graphs == ()
        assert "no graph was captured" in report.error
        assert function is not indexed or "_local_scalar_dense" in report.error
        assert "It stopped" in str(report)


@pytest.mark.slow
def test_values_and_effects_break_a_graph_with_their_lines() -> None:
    for function, line in ((with_effects, 'print("hi")'), (valued, "return x.repeat")):
        report: Any = opened(function, torch.ones(4))
        assert report.error == ""
        assert report.kernels or function is valued
        assert not report.breaks[0].reason.startswith("Encountered graph break")
        assert len(set(report.breaks[0].hints)) == len(report.breaks[0].hints)
        place = report.breaks[0].position.line
        with open(__file__, encoding="utf-8") as file:
            assert line in file.read().splitlines()[place - 1]
    assert seen == []


def test_a_break_names_the_exception_that_stopped_dynamo() -> None:
    def aligned(x: torch.Tensor) -> torch.Tensor:
        return x.clone() if x.data_ptr() % 16 else x + 1

    (one,) = opened(aligned, torch.rand(4)).breaks
    assert one.reason != "Observed exception"
    assert aligned.__code__.co_firstlineno + 1 in one.uncompiled


def _logs(x: torch.Tensor) -> torch.Tensor:
    logging.getLogger(__name__).warning("%s", x.shape)
    return x[x.nonzero()[:, 0]]


@pytest.mark.slow
def test_a_break_in_the_standard_library_is_on_the_users_line() -> None:
    breaks = opened(_logs, torch.rand(4)).breaks
    lines = {one.position.line - _logs.__code__.co_firstlineno for one in breaks if one.position}
    assert lines == {1, 2}
    assert breaks[-1].reason.endswith(": aten.nonzero.default")


def _tests_a_pointer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    if x.sum().item() > 0:
        x = x + 1
    if x.data_ptr() % 16 != 0:
        x = x.clone()
    return torch.softmax(x @ w, -1)


def _prints_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for number in range(2):
        x = x.sin()
        print(number)
    return x


def _prints(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    print("between")
    return x.cos()


def _lines(function: Callable[..., Any], one: GraphBreak) -> tuple[int, ...]:
    return tuple(line - function.__code__.co_firstlineno for line in one.uncompiled)


@pytest.mark.slow
def test_lines_without_a_graph_after_a_break() -> None:
    item, pointer = opened(_tests_a_pointer, torch.rand(8, 16), torch.rand(16, 4)).breaks
    assert item.resumes
    assert not pointer.resumes
    assert _lines(_tests_a_pointer, item) == ()
    assert _lines(_tests_a_pointer, pointer) == (2, 3, 4, 5)
    if _HAS_STAND_IN:
        assert "pointer" in pointer.reason
        assert "data_ptr()" in pointer.reason
        assert not any("may result in an error" in hint for hint in pointer.hints)
    assert "User code traceback" in pointer.text
    (whole,) = opened(_prints_in_a_loop, torch.rand(4)).breaks
    assert _lines(_prints_in_a_loop, whole) == (1, 2, 3, 4)
    (resumed,) = opened(_prints, torch.rand(4)).breaks
    assert resumed.resumes
    assert "print" in str(resumed), "the headline alone does not name it"


@pytest.mark.slow
def test_a_break_in_a_function_of_torchs_has_the_users_line_and_stack() -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        sample: torch.Tensor = torch.distributions.Normal(x, x.exp(), validate_args=True).rsample()
        return sample

    def recurrent(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = lstm(x.sin())[0]
        return result

    (one,) = opened(drawn, torch.rand(4)).breaks
    line = drawn.__code__.co_firstlineno + 1
    assert one.position is not None
    assert (one.position.file, one.position.line) == (__file__, line)
    assert [place.line for place in one.stack if place.file == __file__] == [line]
    assert "torch" in one.stack[-1].file
    assert "kernellab" not in one.text.partition("User code traceback")[2]
    lstm = torch.nn.LSTM(4, 4)
    (whole,) = opened(recurrent, torch.rand(4, 4)).breaks
    assert _lines(recurrent, whole) == (1, 2), "Dynamo first tries to go on in another graph"


def test_an_operation_without_decomposition_is_a_call_of_torchs() -> None:
    report = opened(without_decomposition, torch.rand(4, 4))
    (graph,) = report.graphs
    assert graph.error == ""
    assert any("eigvals" in name for name in graph.launches.name) or graph.kernels


@pytest.mark.slow
def test_what_ends_its_process_is_a_report_and_the_next_call_works() -> None:
    report = opened(leaving, torch.rand(4))
    assert "SystemExit: 3" in report.error
    report = opened(aborting, torch.rand(4))
    assert "SIGABRT" in report.error
    assert report.graphs == ()
    assert opened(torch.sin, torch.rand(4)).kernels
