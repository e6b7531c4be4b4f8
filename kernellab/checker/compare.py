"""What two runs of one launch left in its tensors, side by side."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab.checker.arguments import LazyCopies
from kernellab.common.text import element_text, number_texts
from kernellab.launch.differences import tolerance

Piece = tuple[slice, ...]
"""A part of a tensor that is compared at a time."""

Allowed = Callable[[Piece, torch.Tensor], torch.Tensor]
"""How far elements of a piece may be apart, given what one run has there: a tensor of its shape."""

Tolerance = Callable[[str, torch.Tensor, torch.Tensor], Allowed | None]
"""How far elements of the argument of a name may be apart, given both tensors, as far as the runs
have touched them; None where every bit counts."""


@dataclass(frozen=True)
class ElementDifference:
    """An argument in which two runs differ.

    Attributes:
        index: the index of the first element that differs.
        value, other: the element in the first and in the second run.
        count: how many elements differ.
    """

    name: str
    index: tuple[int, ...]
    value: Any
    other: Any
    count: int

    @property
    def element(self) -> str:
        """The first element as text: "out_ptr[3, 4]"."""
        return element_text(self.name, self.index)

    @property
    def value_text(self) -> str:
        """`value`, with enough digits to distinguish it from `other`."""
        return number_texts(self.value, self.other)[0]

    @property
    def other_text(self) -> str:
        """`other`, with enough digits to distinguish it from `value`."""
        return number_texts(self.value, self.other)[1]


def exactly(name: str, actual: torch.Tensor, other: torch.Tensor) -> None:
    """Return no tolerance: every bit counts."""
    del name, actual, other


def within(
    rtol: float | None, atol: float | None, stated: Mapping[str, torch.Tensor] | None = None
) -> Tolerance:
    """Return the tolerance of `launch.differences.tolerance`, around the second of two tensors, or
    what is stated for the elements of an argument.
    """

    def allowed_for(name: str, actual: torch.Tensor, other: torch.Tensor) -> Allowed:
        del actual
        if stated is not None and name in stated:
            elements = stated[name]
            return lambda piece, _mine: elements[piece]
        relative, absolute = tolerance(other, rtol, atol)

        def allowed(piece: Piece, _mine: torch.Tensor) -> torch.Tensor:
            return absolute + relative * other[piece].double().abs()

        return allowed

    return allowed_for


@dataclass(frozen=True)
class Results:
    """What a run has left in its tensors.

    Attributes:
        tensors: by the names of the arguments.
        copies: the memory that they lie in.
    """

    tensors: Mapping[str, torch.Tensor]
    copies: LazyCopies


def differences(
    results: Results, other: Results, tolerance: Tolerance = exactly
) -> Iterator[ElementDifference]:
    """Yield the arguments in which two results differ. NaN equals NaN, and `tolerance` applies only
    to finite numbers.
    """
    for name, mine in results.tensors.items():
        theirs = other.tensors[name]
        if mine.data_ptr() == theirs.data_ptr():
            continue  # memory that the kernel cannot change

        @functools.cache
        def allowed(
            name: str = name, mine: torch.Tensor = mine, theirs: torch.Tensor = theirs
        ) -> Allowed | None:
            return tolerance(name, mine, theirs)

        first: tuple[int, ...] | None = None
        count = 0
        for piece in pieces(tuple(mine.shape)):
            here, there = mine[piece], theirs[piece]
            if not _have_the_same(here, there, results.copies, other.copies):
                continue
            apart = _apart(here, there, allowed, piece)
            if apart is None:
                continue
            count += int(apart.sum())
            if first is None:
                inside = (int(i) for i in apart.nonzero()[0])
                first = tuple(along.start + i for along, i in zip(piece, inside))
        if first is not None:
            yield ElementDifference(name, first, mine[first].item(), theirs[first].item(), count)


def _apart(
    mine: torch.Tensor,
    theirs: torch.Tensor,
    allowed: Callable[[], Allowed | None],
    piece: Piece,
) -> torch.Tensor | None:
    """Where a piece of an argument differs, given what is allowed in all of it;
    None where nowhere.
    """
    apart = _bits(mine) != _bits(theirs)
    if not apart.any():
        return None
    if mine.dtype.is_floating_point:
        apart &= ~(mine.double().isnan() & theirs.double().isnan())
        far = allowed()
        if far is not None:
            distance = (mine.double() - theirs.double()).abs()
            apart &= ~(distance.isfinite() & (distance <= far(piece, mine)))
    return apart if apart.any() else None


_PIECE = 1 << 22
"""So many elements are compared together: what is computed of them on the way takes memory."""


def pieces(shape: tuple[int, ...]) -> Iterator[Piece]:
    """The parts of a tensor that are compared together, in the order of their elements."""
    whole = tuple(slice(0, size) for size in shape)
    if math.prod(shape) <= _PIECE:
        yield whole
        return
    row = math.prod(shape[1:])
    if row > _PIECE:
        for place in range(shape[0]):
            for rest in pieces(shape[1:]):
                yield slice(place, place + 1), *rest
        return
    rows = max(1, _PIECE // max(row, 1))
    for start in range(0, shape[0], rows):
        yield slice(start, min(start + rows, shape[0])), *whole[1:]


def _have_the_same(
    mine: torch.Tensor, theirs: torch.Tensor, ours: LazyCopies, others: LazyCopies
) -> bool:
    """Make pieces of two runs comparable: memory that neither has touched is zero in both, and the
    original contents are copied for a run without a copy. Return False if neither touched anything.
    """
    copy, other = ours.of(mine), others.of(theirs)
    extent = _extent(mine)
    if copy is None or other is None:
        for alone in filter(None, (copy, other)):  # the other run has not made a copy
            alone.fetch(*(numpy.array([end]) for end in extent))
        return True
    return other.match(copy, *extent) | copy.match(other, *extent)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of its storage between which a tensor lies."""
    size, first = tensor.element_size(), int(tensor.storage_offset())
    steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
    return first * size, (first + steps + 1) * size if tensor.numel() else first * size


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers."""
    if not tensor.dtype.is_floating_point:
        return tensor
    return tensor.view(_WHOLE[tensor.element_size()])
