"""Whether a config computed what is right."""

from __future__ import annotations

import torch

from kernellab.launch.differences import Contents, differences_between
from kernellab.records.bisections import Difference


class WrongResult(Exception):
    """The results differ from those expected."""


_TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
"""How far results of one kernel may lie apart with other tile sizes:
sums in another order, rounded a step or two apart."""
_COARSEST = 0.13  # fp8, e5m2: a quarter of a step


def check_results(
    found: Contents, expected: Contents, compared_with: str, rtol: float | None, atol: float | None
) -> None:
    """Compare tensors with those expected, by name; `compared_with` says whose these are.

    Raises:
        WrongResult: one differs by more than it may.
    """
    for name, want in expected.items():
        allowed = tolerance(want, rtol, atol)
        for one in differences_between({name: want}, {name: found[name]}, *allowed):
            raise WrongResult(_format_difference(one, compared_with))


def tolerance(want: torch.Tensor, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """How far elements of a result may be off: what was asked for, else by dtype,
    relative to the element and to the tensor's size.

    The absolute part is the relative one times the root mean square
    of the tensor's finite elements: elements near 0 are sums of larger ones.
    """
    if not want.is_floating_point() or rtol is not None or atol is not None:
        return rtol or 0.0, atol or 0.0
    part = _TOLERANCES.get(want.dtype, _COARSEST)
    numbers = want.double()
    finite = numbers[numbers.isfinite()]
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    return part, part * size


def _format_difference(one: Difference, compared_with: str) -> str:
    place = f"[{', '.join(map(str, one.index))}]" if one.index else ""
    share = f"{one.elements:,} of {one.size:,} elements"
    return (
        f"{one.argument} differs from that of {compared_with} in {share}; most at "
        f"{one.argument}{place}: {one.found:g} where {one.expected:g} is expected"
    )
