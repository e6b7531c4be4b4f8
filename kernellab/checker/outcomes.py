"""What two runs of one launch left in its tensors, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Tolerance = Callable[[str, torch.Tensor, torch.Tensor], torch.Tensor | None]
"""How far elements of the argument of a name may be apart, given both tensors:
a tensor of their shape; None where every bit counts."""


@dataclass(frozen=True)
class Apart:
    """An argument in which two runs differ.

    Attributes:
        index: of the first element that does.
        one, other: what the two runs left there.
        count: how many elements do.
    """

    name: str
    index: tuple[int, ...]
    one: Any
    other: Any
    count: int

    @property
    def element(self) -> str:
        """ "out_ptr[3, 4]"."""
        return f"{self.name}[{', '.join(map(str, self.index))}]"

    @property
    def one_text(self) -> str:
        """`one`, with as many digits as tell it from `other`."""
        return texts(self.one, self.other)[0]

    @property
    def other_text(self) -> str:
        """`other`, with as many digits as tell it from `one`."""
        return texts(self.one, self.other)[1]


def exactly(name: str, one: torch.Tensor, other: torch.Tensor) -> None:
    """The tolerance where every bit counts."""
    del name, one, other


def differences(
    one: Mapping[str, torch.Tensor],
    other: Mapping[str, torch.Tensor],
    tolerance: Tolerance = exactly,
) -> Iterator[Apart]:
    """Arguments in which the two differ; NaN equals NaN. `tolerance` is for finite numbers:
    one that is none is another result.
    """
    for name, mine in one.items():
        theirs = other[name]
        apart = _bits(mine) != _bits(theirs)
        if not apart.any():
            continue
        if mine.dtype.is_floating_point:
            apart &= ~(mine.double().isnan() & theirs.double().isnan())
            allowed = tolerance(name, mine, theirs)
            if allowed is not None:
                distance = (mine.double() - theirs.double()).abs()
                apart &= ~(distance.isfinite() & (distance <= allowed))
        if apart.any():
            index = tuple(int(i) for i in apart.nonzero()[0])
            yield Apart(name, index, mine[index].item(), theirs[index].item(), int(apart.sum()))


def as_text(value: Any, digits: int = 6) -> str:
    """A number as messages have it: floats with so many digits."""
    number = value.item() if hasattr(value, "item") else value
    return f"{number:.{digits}g}" if isinstance(number, float) else str(number)


def texts(one: Any, other: Any) -> tuple[str, str]:
    """Two numbers, floats with six digits, or as many as tell them apart; equal ones alike."""
    for digits in range(6, 18):
        both = as_text(one, digits), as_text(other, digits)
        if both[0] != both[1]:
            return both
    return as_text(one), as_text(other)


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers."""
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.view(_WHOLE[tensor.element_size()])
