"""`kernellab.tracers`: torch's tracers on the five functions of docs/torch_compile.md."""

import random
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError
from tests.support.source_files import ROOT

calls: list[int] = []


def branching(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def looping(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[1])
    for row in range(x.shape[0]):
        total = total + x[row] * row
    return total


def choosing(x: torch.Tensor, *, scale: float = 1.0, flip: bool = False) -> dict[str, Any]:
    result = {"scaled": x * scale}
    if flip:
        result["flipped"] = x.flip(0)
    return result


def noting(x: torch.Tensor) -> torch.Tensor:
    calls.append(len(calls))
    print("called")
    return x.sin()


def writing(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * random.random()


TRACERS = ["jit.trace", "jit.script", "fx.symbolic_trace", "lazy tensors", "export", "compile"]

EXPECTED = {
    branching: "wrong whole refused parts refused parts",
    looping: "wrong whole refused refused fixed whole",
    choosing: "refused refused refused whole fixed whole",
    noting: "wrong refused wrong parts fixed parts",
    writing: "wrong refused wrong whole fixed parts",
}
"""What each tracer makes of each function, in the order of TRACERS; with other versions of torch
some are newly captured, and none newly wrong."""


def test_the_page_has_the_outcomes() -> None:
    page = (ROOT / "docs/torch_compile.md").read_text()
    for place, tracer in enumerate(TRACERS):
        cells = [outcomes.split()[place] for outcomes in EXPECTED.values()]
        name = tracer if tracer == "lazy tensors" else f"`{tracer}`"
        assert f"| {name} | {' | '.join(cells)} |" in page


KEYWORDS = {choosing: {"scale": 3.0, "flip": True}}


@pytest.mark.slow
@pytest.mark.parametrize("function", list(EXPECTED))
def test_what_tracers_make_of(function: Any) -> None:
    x, y = torch.ones(3, 4), -3 * torch.ones(5, 4)
    found = kernellab.tracers(function, x, again=(y,), **KEYWORDS.get(function, {}))
    assert list(found.tracer) == TRACERS
    outcomes = dict(zip(TRACERS, EXPECTED[function].split(), strict=True))
    here = dict(zip(found.tracer, found.outcome, strict=True))
    if torch.__version__.startswith("2.13"):
        assert here == outcomes
    assert all(here[name] != "wrong" for name in ("jit.script", "export", "compile"))
    assert all(found[found.outcome.isin(["wrong", "refused", "fixed"])].says.str.len() > 0)
    assert torch.equal(x, torch.ones(3, 4))
    assert calls == []
    words = dict(zip(found.tracer, found.says, strict=True))
    if function is branching:
        assert "Converting a tensor to a Python boolean" in words["jit.trace"]
        assert "Data-dependent branching" in words["compile"]
    if function is noting:
        assert words["jit.trace"] == "prints 1 lines instead of 2"


@pytest.mark.slow
def test_what_cannot_be_traced_is_named(messages, raised) -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        return x.view(7, 7)

    raised(ArgumentError, kernellab.tracers, failing, torch.ones(3))
    raised(ArgumentError, kernellab.tracers, 5, torch.ones(3))
    raised(ArgumentError, kernellab.tracers, torch.sin, torch.ones(3), again=torch.ones(3))
