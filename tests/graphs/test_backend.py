"""`torch.compile(..., backend="kernellab")`: on the CPU, in ATen or in the generated kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import OptionError
from kernellab.graphs.backend import kernellab_backend
from tests.support.graph_corpus import CASES

RUN = (
    "attention",
    "attention_causal_bf16",
    "cross_entropy",
    "embedding",
    "group_norm",
    "mlp",
    "reduction_dynamic",
    "softmax_bf16",
)
"""Graphs that are run through the interpreter here; the others are in docs/fidelity.md."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _step(function: Callable[..., Any], args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Results and gradients, with a fixed gradient coming in."""
    for one in args:
        one.grad = None
    result = function(*args)
    torch.manual_seed(1)
    result.backward(torch.randn(result.shape).to(result.dtype))
    return [result.detach(), *(one.grad for one in args if one.grad is not None)]


@pytest.mark.parametrize("name", RUN)
def test_generated_kernels_give_what_eager_torch_gives(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    function, args = case.make("cpu")
    expected = _step(function, args)
    compiled = torch.compile(
        function, backend=kernellab_backend, options={"run": "triton"}, dynamic=case.dynamic
    )
    for one, right in zip(_step(compiled, args), expected, strict=True):
        wide = 2e-2 if right.dtype == torch.bfloat16 else 2e-5
        torch.testing.assert_close(one, right, rtol=wide, atol=wide * float(right.abs().max()))


def test_aten_operations_give_what_eager_torch_gives_and_leave_a_report() -> None:
    torch.manual_seed(0)
    function, args = CASES["attention"].make("cpu")
    expected = _step(function, args)
    compiled = torch.compile(function, backend=kernellab_backend, options={"gpu": "a100"})
    for one, right in zip(_step(compiled, args), expected, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)
    report = kernellab.last_report()
    assert report.capture.target == "sm_80"
    assert [one.direction for one in report.graphs] == ["forward", "backward"]


def test_wrong_options_are_named() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"run": "cuda"}, "run"),
        ({"max_fusion_sise": 1}, "max_fusion_size"),
    ]
    for options, words in wrong:
        compiled = torch.compile(torch.sin, backend=kernellab_backend, options=options)
        with pytest.raises((OptionError, RuntimeError), match=words):
            compiled(torch.rand(4))


def test_torch_finds_the_backend_by_name() -> None:
    (entry,) = (
        one for one in entry_points(group="torch_dynamo_backends") if one.name == "kernellab"
    )
    assert entry.load() is kernellab_backend
