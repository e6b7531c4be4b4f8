"""Which results of two computations should be equal, and where they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import torch

from kernellab.common.formatting import counted
from kernellab.equality.agreement import agreement
from kernellab.equality.sides import KernelSide, Side
from kernellab.errors import ArgumentError

Results = Mapping[str, torch.Tensor]


class ResultPair:
    """A result of each computation, and what is known of their elements after some seeds.

    Attributes:
        names: what the two are called.
        differs, decided: a bool for each element.
    """

    def __init__(self, names: tuple[str, str], shape: tuple[int, ...]) -> None:
        self.names = names
        self.differs = numpy.zeros(shape, numpy.bool_)
        self.decided = numpy.zeros(shape, numpy.bool_)

    def note(self, of_first: Results, of_second: Results) -> None:
        """Compare the results of one more seed."""
        first, second = of_first[self.names[0]], of_second[self.names[1]]
        same, known = agreement(first.numpy(), second.numpy())
        self.differs |= known & ~same
        self.decided |= known


def paired(
    first: Side, second: Side, of_first: Results, of_second: Results
) -> tuple[ResultPair, ...]:
    """The pairs: of the same tensor, of tensors of one name, or in order.

    Raises:
        ArgumentError: the two have another number of results, or of other shapes.
    """
    pairs = []
    for left, right in _matched(first, second):
        shapes = tuple(of_first[left].shape), tuple(of_second[right].shape)
        if shapes[0] != shapes[1]:
            raise ArgumentError(
                f"{first.name} writes {left} of shape {shapes[0]}, and the result of "
                f"{second.name} has shape {shapes[1]}.",
                advice="Compare results of one shape: reshape them in the function.",
            )
        pairs.append(ResultPair((left, right), shapes[0]))
    return tuple(pairs)


def _matched(first: Side, second: Side) -> list[tuple[str, str]]:
    written = first.written(), second.written()
    if isinstance(first, KernelSide) and isinstance(second, KernelSide):
        same = second.names_of(first)
        pairs = [
            (name, other)
            for name, other in same.items()
            if name in written[0] or other in written[1]
        ]
        if pairs:
            return pairs
    if len(written[0]) != len(written[1]) or not written[0]:
        raise ArgumentError(
            f"{first.name} has {counted(len(written[0]), 'result')} ({', '.join(written[0])}), and "
            f"{second.name} has {len(written[1])}.",
            advice="A function returns what the kernel writes, in the order of its parameters.",
        )
    return list(zip(written[0], written[1]))
