"""What tensors hold in runs with floats, which show what residues do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Make = Callable[[torch.Tensor, torch.dtype, Sequence[float]], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """What tensors hold in a run with floats.

    Attributes:
        words: what it is called in messages.
        why: what a difference that only this run shows comes from.
        floats, integers: make the elements of a tensor, from normal numbers of its shape, its
            dtype, and the numbers that the code compares with; None for those that are given.
        counts: which elements of two results count.
    """

    words: str
    why: str
    floats: Make | None = None
    integers: Make | None = None
    counts: Callable[[torch.Tensor, torch.Tensor], Any] = lambda *_: True


def _rank(normal: torch.Tensor) -> torch.Tensor:
    return normal.flatten().argsort().argsort().reshape(normal.shape)


def _sorted(normal: torch.Tensor) -> torch.Tensor:
    return normal.flatten().sort().values.reshape(normal.shape)


def _one_of(normal: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Each of the numbers in about as many places."""
    return torch.tensor(numbers)[_rank(normal) % len(numbers)]


def _among(normal: torch.Tensor, numbers: Sequence[float]) -> torch.Tensor:
    """Normal numbers, with one of the others in the first of every sixteen places."""
    rank = _rank(normal)
    others = torch.tensor(numbers, dtype=normal.dtype)[rank // 16 % len(numbers)]
    return torch.where(rank % 16 == 0, others, normal)


def _compared_with(normal: torch.Tensor, _: torch.dtype, constants: Sequence[float]) -> Any:
    """The constants of comparisons and their opposites, and the next numbers of each."""
    finite = [float(each) for each in constants if math.isfinite(each)] or [0.0]
    known = torch.tensor([*finite, *(-each for each in finite)])
    below, above = (torch.nextafter(known, factor * known) for factor in (0, 2))
    return _among(normal, [*known.tolist(), *below.tolist(), *above.tolist()])


def _whole_numbers(wide: bool) -> Make:
    """Integers but 0 and -1, by which a division may fail: all that the dtype has, or small ones
    and the constants of comparisons.
    """

    def make(normal: torch.Tensor, kind: torch.dtype, constants: Sequence[float]) -> torch.Tensor:
        if kind == torch.bool:
            return normal > 0
        low, high = torch.iinfo(kind).min + 1, min(torch.iinfo(kind).max, 2**63 - 1)
        drawn = (low + (normal.erf() + 1) / 2 * (high - low)).to(torch.int64)
        pool = [high, low, high // 2] if wide else [*range(-9, -1), *range(1, 10)]
        pool += [int(each) for each in constants if float(each).is_integer() and not wide]
        picked = _one_of(normal, [each for each in pool if low <= each <= high])
        made = torch.where(normal > 0.5, drawn, picked) if wide else picked
        return torch.where((made == 0) | (made == -1), 7, made)

    return make


GIVEN = Inputs(
    "the given floats",
    " by more than the usual rounding: by a race between programs (see kernellab.check), or by "
    "rounding",
    counts=lambda first, second: first.isfinite() & second.isfinite(),  # they may overflow
)
NORMAL = Inputs(
    "normal numbers",
    ": where a root, a logarithm or a division of integers meets a negative number, or by overflow",
    lambda normal, *_: normal,
    _whole_numbers(wide=True),
)
ORDERED = (
    Inputs("small floats", "", lambda normal, *_: normal / 32),
    Inputs("rising floats", "", lambda normal, *_: _sorted(normal)),
    Inputs("falling floats", "", lambda normal, *_: -_sorted(normal)),
)
SMALL = Inputs(
    "small whole numbers",
    ": where one is 0 or negative, or two are equal",
    lambda normal, *_: _one_of(normal, [-0.0, *map(float, range(-4, 5))]),
    _whole_numbers(wide=False),
)
ZEROS = Inputs("zeros", "", lambda normal, *_: normal * 0.0)
CONSTANTS = Inputs("constants that the code compares with", "", _compared_with)
NAN = Inputs("NaN among the inputs", "", lambda normal, *_: _among(normal, [math.nan]))
INFINITY = Inputs(
    "infinity among the inputs",
    "",
    lambda normal, *_: _among(normal, [math.inf, -math.inf]),
    counts=lambda first, second: ~first.isnan() & ~second.isnan(),  # inf - inf is overflow
)
