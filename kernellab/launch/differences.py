"""The contents of tensors after a launch, and the differences between two launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernellab.common.text import counted, number_texts
from kernellab.launch.records import Difference

Contents = Mapping[str, torch.Tensor]
"""The contents of the tensor arguments after a run, by name."""


@dataclass(frozen=True)
class Within:
    """Expected contents of a tensor, with a tolerance for each element.

    Attributes:
        values: the expected elements.
        allowed: how far each may be off, float64, with the same shape.
    """

    values: torch.Tensor
    allowed: torch.Tensor


def is_within(actual: torch.Tensor, expected: Within) -> bool:
    """Return whether no element is farther off than it may be; NaN equals NaN."""
    got, want = actual.double(), expected.values.double()
    same = (got == want) | (got.isnan() & want.isnan())
    return bool((same | ((got - want).abs() <= expected.allowed)).all())


def wrong_words(element: str, actual: Any, expected: Any, count: int, size: int) -> str:
    """Return a sentence about a wrong element, and how many of its argument are wrong.

    Args:
        element: its name, "z_ptr[3]".
        actual, expected: its value, and the right one.
        count, size: the number of wrong elements of the argument, and of all its elements.
    """
    left, right = number_texts(actual, expected)
    off = f"{count:,} of its {counted(size, 'element')} {'is' if count == 1 else 'are'} off"
    return f"{element} is {left}, and {right} is expected; {off}"


UNWRITTEN = "No program writes it: look at the grid, the offsets and the store's mask."
"""The advice for a wrong element that the launch did not change."""


def differences_between(
    expected: Contents, actual: Contents, rtol: float, atol: float
) -> Iterator[Difference]:
    """Yield a Difference for each argument that differs by more than `atol + rtol * |expected|`, or
    by a bit if both tolerances are 0.
    """
    for name, right in expected.items():
        want, got = right.double(), actual[name].double()
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
                actual[name][place].item(),
            )
