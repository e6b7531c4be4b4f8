"""Several calls of one function: what was compiled again and why, and symbolic sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError

ROWS = torch.rand(4, 3)


def captured(function: Callable[..., Any], *calls: Any) -> kernellab.GraphReport:
    """A report without code, which takes a fraction of the time."""
    report = kernellab.graph(function, calls=calls, backend="eager", levels=False)
    assert report.error == ""
    return report


def doubled(x: Any) -> Any:
    return x * 2


def scaled(x: torch.Tensor, n: Any) -> torch.Tensor:
    result: torch.Tensor = x * n
    return result


def summed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def applied(x: torch.Tensor, f: Any) -> torch.Tensor:
    result: torch.Tensor = f(x)
    return result


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([each.sum() for each in tensors]).sum()


def shifted(x: torch.Tensor, by: dict[str, Any] | None) -> torch.Tensor:
    return x * 2 if by is None else x + by.get("y", 1)


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 100:
        return x + 1
    return x * 2


CHANGES: dict[str, tuple[Callable[..., Any], Any, Any, str, str, str]] = {
    "size": (doubled, ROWS, torch.rand(8, 3), "4", "8", "mark_dynamic(x, 0)"),
    "size 1": (doubled, ROWS, torch.rand(4, 1), "3", "1", "pad x"),
    "dtype": (doubled, ROWS, ROWS.double(), "Float", "Double", "one dtype"),
    "strides": (doubled, ROWS, torch.rand(3, 4).t(), "3", "1", "contiguous()"),
    "dimensions": (doubled, ROWS, ROWS[None], "2", "3", "Reshape x"),
    "gradient": (doubled, ROWS, ROWS.clone().requires_grad_(), "False", "True", "detach()"),
    "no tensor": (doubled, ROWS, 3, "a tensor", "int", "as a tensor"),
    "number": (scaled, (ROWS, 2), (ROWS, 3), "2", "3", "torch.tensor(2)"),
    "keyword": (scaled, {"x": ROWS, "n": True}, {"x": ROWS, "n": False}, "True", "False", "value"),
    "type": (scaled, (ROWS, True), (ROWS, 2), "True", "2", "Each value of n"),
    "function": (applied, (ROWS, torch.sin), (ROWS, torch.cos), "sin", "cos", "object as f"),
    "code": (applied, (ROWS, doubled), (ROWS, branching), "doubled", "branching", "object as f"),
    "length": (total, ([ROWS] * 2,), ([ROWS] * 3,), "2", "3", "one length"),
    "none": (shifted, (ROWS, None), (ROWS, {}), "None", "", "always pass it, or never"),
    "key": (shifted, (ROWS, {}), (ROWS, {"y": 2}), "no such key", "'y'", "same keys"),
    "one tensor": (
        summed, (ROWS, ROWS), (ROWS, ROWS + 1), "the same object", "different objects", "x and y",
    ),
}  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("what", CHANGES)
def test_a_recompilation_has_both_values_the_line_and_what_to_change(what: str) -> None:
    function, first, second, old, new, advice = CHANGES[what]
    report = captured(function, first, second)
    (again,) = report.recompilations
    (failure,) = again.failures
    assert again.function == function.__name__
    assert (failure.old, failure.new) == (old, new)
    assert advice in failure.advice
    assert failure.position is not None
    first_line = function.__code__.co_firstlineno
    assert failure.position.line in (first_line, first_line + 1)


def test_a_module_of_torchs_has_its_name_and_no_line_of_dynamos_own() -> None:
    (again,) = captured(torch.nn.Sequential(torch.nn.Tanh()), ROWS, ROWS[:2]).recompilations
    assert (again.function, again.failures[0].position) == ("Sequential", None)


def test_a_symbolic_size_has_its_line_its_guard_and_what_to_mark() -> None:
    report = captured(branching, ROWS, torch.rand(8, 3), torch.rand(200, 3))
    line = branching.__code__.co_firstlineno + 1
    small, large = report.symbols
    assert (small.frame, small.source, small.value) == ("0/1", "x.shape[0]", "8")
    assert [guard.condition for guard in small.guards] == ["x.shape[0] <= 100"]
    assert [guard.condition for guard in large.guards] == ["x.shape[0] > 100"]
    assert small.guards[0].position is not None
    assert small.guards[0].position.line == line
    assert "mark_dynamic(x, 0)" in small.advice
    of_branch, of_size = report.recompilations[1].failures
    assert (of_branch.old, of_branch.new) == ("8", "200")
    assert of_branch.position == small.guards[0].position
    assert (of_size.old, of_size.new) == ("4", "200")


def test_a_line_that_fixes_a_marked_size_is_named(messages: Any) -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    x = torch.rand(8, 16)
    torch._dynamo.mark_dynamic(x, 1)
    report = kernellab.graph(product, x, torch.rand(16, 4), backend="eager", levels=False)
    assert "ConstraintViolation" in report.error
    (symbol,) = report.symbols
    assert symbol.fixed == "16"
    assert symbol.guards[-1].position is not None
    assert symbol.guards[-1].position.line == product.__code__.co_firstlineno + 1
    assert str(symbol) == messages


def test_a_marked_size_of_a_tensor_without_values_is_a_symbol(raised) -> None:
    x = torch.empty(8, 16, device="meta")
    torch._dynamo.mark_dynamic(x, 0)
    report = captured(doubled, x)
    assert [symbol.source for symbol in report.symbols] == ["x.shape[0]"]
    whole = kernellab.graph(doubled, x, levels=False)
    raised(ArgumentError, whole.compare, match="meta")


def test_calls_are_captured_for_a_gpu_and_saved(tmp_path: Any) -> None:
    report = kernellab.graph(branching, calls=[ROWS, torch.rand(8, 3)], levels=False)
    assert [graph.direction for graph in report.graphs] == ["inference"] * 2
    assert len(report.kernels) == 2
    text = str(report)
    assert "Compiled again" in text
    assert "was 4, is 8" in text
    loaded = kernellab.load(report.save(tmp_path / "report.klgraph"))
    assert loaded.capture == report.capture


@pytest.mark.parametrize("calls", [3, [], [ROWS]])
def test_calls_that_cannot_be_made(raised, calls: Any) -> None:
    args = (ROWS,) if calls == [ROWS] else ()
    raised(ArgumentError, kernellab.graph, doubled, *args, calls=calls, match="calls")
