"""What launches leave in their tensors, and how far two of them are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from kernellab.common.formatting import counted
from kernellab.records.bisections import Difference

Contents = Mapping[str, torch.Tensor]
"""What a run left in the tensors among its arguments, by name."""


_TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
"""How far results of one kernel may lie apart with other tile sizes:
sums in another order, rounded a step or two apart."""
_COARSEST = 0.13  # fp8, e5m2: a quarter of a step


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


def wrong_words(element: str, found: str, expected: str, count: int, size: int) -> str:
    """That an element is not what it should be, and so are others of its argument.

    Args:
        element: its name, "z_ptr[3]".
        found, expected: what it is, and should be.
        count, size: how many elements of the argument are off, and how many it has.
    """
    off = f"{count:,} of its {counted(size, 'element')} {'is' if count == 1 else 'are'} off"
    return f"{element} is {found}, and {expected} is expected; {off}"


UNWRITTEN = "No program writes it: look at the grid, the offsets and the store's mask."
"""What is said where a wrong element is as the launch found it."""


def differences_between(
    expected: Contents, found: Contents, rtol: float, atol: float
) -> Iterator[Difference]:
    """One Difference for each argument that is off by more than it may be:
    `atol + rtol * |expected|`; by a bit where both are 0.
    """
    for name, right in expected.items():
        want, got = right.double(), found[name].double()
        same = (want == got) & (want.signbit() == got.signbit()) | (want.isnan() & got.isnan())
        distance = (got - want).abs()
        off = ~same & ~(distance <= atol + rtol * want.abs()) if rtol or atol else ~same
        if off.any():
            flat = torch.where(off, distance.nan_to_num(nan=torch.inf), -1.0).argmax()
            place = tuple(int(index) for index in torch.unravel_index(flat, off.shape))
            yield Difference(
                name,
                int(off.sum()),
                off.numel(),
                float(distance[place]),
                place,
                right[place].item(),
                found[name][place].item(),
            )
