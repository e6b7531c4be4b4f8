"""Results of a call against fp64, and scripts of graphs that need torch only."""

import functools
from typing import Any

import pytest
import torch
from torch import nn

import kernellab
from kernellab.errors import ArgumentError


def cancelling(x: torch.Tensor) -> torch.Tensor:
    y = x + 1000
    return (y - 1000).sum(-1)


def exact(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)


def rounding(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float().square()


def breaking(x: torch.Tensor) -> torch.Tensor:
    y = x + 1000.0
    torch._dynamo.graph_break()
    return y - 1000.0


def overflowing(x: torch.Tensor) -> torch.Tensor:
    return (x.half() * 300).square().sqrt()


def opened(function: Any, x: torch.Tensor) -> kernellab.GraphReport:
    return kernellab.graph(function, x, levels=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("function", "target", "right"),
    [
        (cancelling, "operator.sub", lambda x: x.sum(-1)),
        (rounding, "bfloat16", lambda x: x**2),
        (breaking, "operator.sub", lambda x: x),
        (exact, None, None),
        (overflowing, "square", lambda x: x * 300),
    ],
)
def test_the_operation_that_loses_accuracy_is_named(function: Any, target: Any, right: Any) -> None:
    x = torch.rand(16, 32)
    found: Any = opened(function, x).accuracy("aten")
    (result,) = found.results
    assert found.error == ""
    if target is None:
        assert found.cause is None
        assert found.units <= 1
        return
    assert (found.cause.target, found.cause.cancels) == (target, target == "operator.sub")
    assert found.cause.position is not None
    away = (function(x).double() - right(x.double())).abs().max().item()
    assert result.eager == pytest.approx(away, rel=1e-3)
    assert result.largest == pytest.approx(right(x.double()).max().item())
    assert str(found.cause) in str(found)


@pytest.mark.slow
def test_generated_code_rounds_less_often_than_eager_torch() -> None:
    found = opened(cancelling, torch.rand(16, 32).bfloat16()).accuracy()
    (result,) = found.results
    assert result.eager is not None
    assert result.compiled is not None
    assert result.compiled < result.eager / 10, "it keeps fp32 between the operations"
    assert result.apart > result.eager / 2


def test_a_script_has_what_a_node_is_computed_from(raised, capsys, monkeypatch) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.GELU())
    (graph,) = kernellab.graph(model, torch.rand(4, 8), levels=False, backend="eager").graphs
    target = next(node.name for node in graph.fx.nodes if "batch_norm" in node.target)
    text = graph.script(target)
    assert "gelu" not in text
    assert "kernellab" not in text
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    exec(text, {})  # noqa: S102
    assert "largest difference: 0.0" in capsys.readouterr().out
    raised(ArgumentError, graph.script, "input_9", match="input_9")
