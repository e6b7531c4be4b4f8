"""A graph run node by node, each on the right values of what it takes; and what is too far off."""

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
"""Half a unit in the last place, of one."""

TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.bfloat16: 1.6e-2,
    torch.float16: 1e-3,
}
"""By dtype, relative to an element, and to the largest right one: sums are rounded by what they
sum. Those of half precision are torch.testing's; interpreted functions are not bit for bit torch's,
which its 1.3e-6 for single precision would find.
"""

_NOISE = 32.0
"""How many times what one rounding in each operation changes is still taken for rounding."""


@dataclass(frozen=True)
class Distance:
    """How far values are from right ones, where that is too far."""

    index: tuple[int, ...]
    found: float
    right: float
    largest: float
    allowed: float
    wrong: int
    size: int


def distance(found: torch.Tensor, right: torch.Tensor, noise: float = 0.0) -> Distance | None:
    """How far, or None where it is near enough.

    Args:
        found, right: of one shape.
        noise: the largest difference that rounding makes.
    """
    wide = torch.complex128 if right.is_complex() else torch.float64
    one, other = found.detach().to(wide), right.detach().to(wide)
    finite = other[torch.isfinite(other)].abs()
    largest_right = float(finite.max()) if finite.numel() else 0.0
    relative = TOLERANCES.get(right.dtype, 0.0)
    allowed = relative * (other.abs().nan_to_num(0, 0, 0) + largest_right) + _NOISE * noise
    away = (one - other).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    off = ~same & ~(away <= allowed)
    if not bool(off.any()):
        return None
    place = off.flatten().nonzero()[0].item()
    index = tuple(int(part) for part in torch.unravel_index(torch.tensor(place), off.shape))
    return Distance(
        index=index,
        found=float(one[index].real),
        right=float(other[index].real),
        largest=float(away[off].nan_to_num(float("inf")).max()),
        allowed=float(allowed[index]),
        wrong=int(off.sum()),
        size=off.numel(),
    )


class NodeRun(torch.fx.Interpreter):
    """A graph node by node."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        settled: Callable[[torch.fx.Node, torch.Tensor], torch.Tensor],
        *,
        dithered: bool = False,
    ) -> None:
        """Nothing has run yet. Afterwards `computed` has what each node gave, `values` what nodes
        that take it were given.

        Args:
            module: on the CPU.
            settled: given each node's tensor, what nodes that take it are given.
            dithered: whether every value is off by up to one rounding, at random.
        """
        super().__init__(module, garbage_collect_values=True)
        self._settled, self._dithered = settled, dithered
        self.values: dict[str, torch.Tensor] = {}
        self.computed: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node."""
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
    """Off by one rounding, up or down."""
    unit = _ROUNDING.get(value.dtype, 0.0)
    wide = value.detach().to(torch.float64)
    signs = torch.randint(0, 2, wide.shape, generator=_GENERATOR).to(torch.float64) * 2 - 1
    moved = (wide * (1 + 2 * unit * signs)).to(value.dtype)
    return torch.empty_like(value).copy_(moved)


_GENERATOR = torch.Generator().manual_seed(7)
"""Its own: what a graph draws is as it would be."""


def right_instead(value: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The right value, laid out as the other one; itself where it is right already."""
    if torch.equal(value, right) or 0 in value.stride():
        return value
    made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return made.copy_(right)


def noises(
    module: torch.fx.GraphModule, args: list[Any], run: NodeRun, kept: Collection[str]
) -> dict[str, float]:
    """Of each node of a graph, how far it is off where every value that it is computed from is off
    by one rounding.

    Args:
        module, args: the graph, on the CPU, and its inputs.
        run: without that.
        kept: nodes that are as they were, but for their own rounding, whatever they are computed
            from: what lies between two of them adds up.
    """

    def settled(node: torch.fx.Node, value: torch.Tensor) -> torch.Tensor:
        known = run.values.get(node.name)
        if node.name not in kept or known is None or known.shape != value.shape:
            return value
        return right_instead(value, known)

    off = NodeRun(module, settled, dithered=True)
    off.run(*args)
    found = {}
    for name, value in off.computed.items():
        known = run.computed[name]
        if known.shape == value.shape and value.is_floating_point():
            away = (value.double() - known.double()).abs().nan_to_num(0, 0, 0)
            found[name] = float(away.max()) if away.numel() else 0.0
    return found
