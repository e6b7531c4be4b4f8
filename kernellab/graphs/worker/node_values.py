"""Run a graph node by node, each on the expected values of its inputs, and measure differences."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

_ROUNDING = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.bfloat16: 2.0**-9,
    torch.float16: 2.0**-12,
}
"""Half a unit in the last place of 1.0."""

TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.bfloat16: 1.6e-2,
    torch.float16: 1e-3,
}
"""Tolerances by dtype, relative to an element plus the largest expected element, since the rounding
of a sum depends on its terms. Those of half precision are torch.testing's. Its 1.3e-6 for single
precision is too small, as the interpreter's functions are not bit for bit torch's.
"""

_NOISE = 32.0
"""Differences up to this many times the effect of one rounding per operation count as rounding."""


@dataclass(frozen=True)
class Distance:
    """How far values are from the expected ones, if that exceeds the tolerance."""

    index: tuple[int, ...]
    computed: float
    right: float
    largest: float
    allowed: float
    wrong: int
    size: int


def distance(value: torch.Tensor, right: torch.Tensor, noise: float = 0.0) -> Distance | None:
    """Return how far a value is from the expected one, or None within the tolerance.

    Args:
        value, right: tensors of one shape.
        noise: the largest difference that rounding causes.
    """
    wide = torch.complex128 if right.is_complex() else torch.float64
    actual, expected = value.detach().to(wide), right.detach().to(wide)
    finite = expected[torch.isfinite(expected)].abs()
    largest_right = float(finite.max()) if finite.numel() else 0.0
    relative = TOLERANCES.get(right.dtype, 0.0)
    allowed = relative * (expected.abs().nan_to_num(0, 0, 0) + largest_right) + _NOISE * noise
    away = (actual - expected).abs()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    off = ~same & ~(away <= allowed)
    if not bool(off.any()):
        return None
    place = off.flatten().nonzero()[0].item()
    index = tuple(int(part) for part in torch.unravel_index(torch.tensor(place), off.shape))
    return Distance(
        index=index,
        computed=float(actual[index].real),
        right=float(expected[index].real),
        largest=float(away[off].nan_to_num(float("inf")).max()),
        allowed=float(allowed[index]),
        wrong=int(off.sum()),
        size=off.numel(),
    )


class NodeRun(torch.fx.Interpreter):
    """Runs a graph node by node."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        settled: Callable[[torch.fx.Node, torch.Tensor], torch.Tensor],
        *,
        dithered: bool = False,
    ) -> None:
        """Prepare to run. Afterwards `computed` has each node's result, and `values` has the
        tensors that its users received.

        Args:
            module: a graph on the CPU.
            settled: a function from a node and its result to the tensor that its users receive.
            dithered: whether to change every value by one rounding, at random.
        """
        super().__init__(module, garbage_collect_values=True)
        self._settled, self._dithered = settled, dithered
        self.values: dict[str, torch.Tensor] = {}
        self.computed: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node."""
        result = super().run_node(n)
        if n.op == "output" or not isinstance(result, torch.Tensor):
            return result
        if n.op != "placeholder":
            self.computed[n.name] = result.detach().clone()
            result = self._settled(n, result)
        if self._dithered and result.is_floating_point():
            result = _dithered(result)
        self.values[n.name] = result.detach().clone()
        return result


def _dithered(value: torch.Tensor) -> torch.Tensor:
    """Return the value changed by one rounding, randomly up or down."""
    unit = _ROUNDING.get(value.dtype, 0.0)
    wide = value.detach().to(torch.float64)
    signs = torch.randint(0, 2, wide.shape, generator=_GENERATOR).to(torch.float64) * 2 - 1
    moved = (wide * (1 + 2 * unit * signs)).to(value.dtype)
    return torch.empty_like(value).copy_(moved)


_GENERATOR = torch.Generator().manual_seed(7)
"""A separate generator, so that a graph draws the same random numbers as without dithering."""


def right_instead(value: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the expected value with the strides of `value`; `value` itself if it is equal."""
    if torch.equal(value, right) or 0 in value.stride():
        return value
    made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return made.copy_(right)


def noises(
    module: torch.fx.GraphModule, args: list[Any], run: NodeRun, kept: Collection[str]
) -> dict[str, float]:
    """Return how far each node's value changes if every value before it changes by one rounding.

    Args:
        module, args: the graph on the CPU, and its inputs.
        run: the run without that change.
        kept: the nodes whose values are restored, except for their own rounding; errors only add up
            between two of them.
    """

    def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
        known = run.values.get(node.name)
        if node.name not in kept or known is None or known.shape != value.shape:
            return value
        return right_instead(value, known)

    off = NodeRun(module, settled, dithered=True)
    off.run(*args)
    changes = {}
    for name, value in off.computed.items():
        known = run.computed[name]
        if known.shape == value.shape and value.is_floating_point():
            away = (value.double() - known.double()).abs().nan_to_num(0, 0, 0)
            changes[name] = float(away.max()) if away.numel() else 0.0
    return changes
