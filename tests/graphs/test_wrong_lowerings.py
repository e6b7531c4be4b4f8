"""Sixty wrong lowerings: `report.compare()` finds each, and raises no alarm for the right ones."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

import kernellab

pytestmark = pytest.mark.slow

Lowering = Callable[[torch.Tensor], torch.Tensor]

OPERATIONS: dict[str, tuple[Lowering, Lowering]] = {
    "aten.gelu.default": (F.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5))),
    "aten.silu.default": (F.silu, lambda x: x / (1 + torch.exp(-x))),
    "aten.tanh.default": (torch.tanh, lambda x: 1 - 2 / (torch.exp(2 * x) + 1)),
    "aten.softplus.default": (F.softplus, lambda x: torch.log(1 + torch.exp(x))),
    "aten.sigmoid.default": (torch.sigmoid, lambda x: 1 / (1 + torch.exp(-x))),
}
"""Name -> the operation, and how it may be written out in fp32."""


def _one_element(y: torch.Tensor) -> torch.Tensor:
    place = torch.arange(y.numel(), device=y.device).reshape(y.shape)
    return torch.where(place == 37, y * 1.5, y)


WRONG: dict[str, Lowering] = {
    "a tenth too large": lambda y: y * 1.1,
    "an offset": lambda y: y + 0.1,
    "another sign": lambda y: -y,
    "one element": _one_element,
}

VALUES = torch.linspace(0.5, 2.0, 64)


def _is_found(report: kernellab.GraphReport, name: str, wrong: Lowering) -> bool:
    def lowering(x: torch.Tensor) -> torch.Tensor:
        return wrong(OPERATIONS[name][1](x.float())).to(x.dtype)

    compared: Any = report.compare("aten", decompositions={name: lowering})
    assert compared.error == ""
    return bool(compared.differences)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_wrong_lowering_is_found(dtype: torch.dtype, name: str) -> None:
    operation = OPERATIONS[name][0]
    report = kernellab.graph(lambda x: operation(x) + 1, VALUES.to(dtype), levels=False)
    assert [what for what, wrong in WRONG.items() if not _is_found(report, name, wrong)] == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_right_lowerings_raise_no_alarm(dtype: torch.dtype) -> None:
    def all_of(x: torch.Tensor) -> list[torch.Tensor]:
        return [operation(x) for operation, _ in OPERATIONS.values()]

    def right(written_out: Lowering) -> Lowering:
        return lambda x: written_out(x.float()).to(x.dtype)

    lowerings = {name: right(written_out) for name, (_, written_out) in OPERATIONS.items()}
    report = kernellab.graph(all_of, VALUES.to(dtype), levels=False)
    compared: Any = report.compare("aten", decompositions=lowerings)
    assert compared.error == ""
    assert compared.differences == ()


def _beside_thresholds(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    z = x * 1.7 + y
    return [
        torch.where(z > 0.5, z * 3, -z),
        torch.sign(x * 1.1 + y) * x,
        F.layer_norm(x * y + x, (x.shape[-1],)).relu(),
        torch.round(z * 4) / 4,
        x * (z == z.amax(-1, keepdim=True)),
    ]


def test_rounding_beside_a_threshold_raises_no_alarm() -> None:
    """A kernel computes in fp32 what eager torch rounds to bf16, before it decides."""
    torch.manual_seed(1)
    x, y = (torch.randn(128, 256, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    report = kernellab.graph(_beside_thresholds, x, y, backward=True, levels=False)
    compared: Any = report.compare()
    assert [graph.obstacle for graph in compared.graphs] == ["", ""]
    assert compared.differences == ()
