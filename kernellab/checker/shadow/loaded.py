"""Which elements of memory a value was computed from: beside each value goes a set of elements
that were loaded, as the bits of a whole number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, Computed
from kernellab.checker.shadow.values import Array, Shadow, Shadows, lifted, moved, reach
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith
from kernellab.ir.traits import GlobalAccess, MovesElements, has, trait_of


@dataclass(frozen=True)
class LoadedElement:
    """An element of an argument as a program has read it.

    Attributes:
        argument: the parameter; "" of memory that is no argument's.
        index: in the tensor.
        value: what was there.
    """

    argument: str
    index: tuple[int, ...]
    value: Any


class LoadedShadows(Shadows):
    """The elements behind each value, bit `n` for `elements[n]`: what a load has read, and what its
    addresses were computed from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[LoadedElement] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._read: dict[Operation, Shadow] = {}

    def read(self, access: Access, found: Value) -> None:
        """An access has read its elements."""
        index, values, on = numpy.broadcast_arrays(
            lifted(access.index, access.rank),
            lifted(found, access.rank),
            True if access.on is None else lifted(access.on, access.rank),
        )
        shadow = numpy.zeros(index.shape, object)
        for lane in zip(*numpy.nonzero(on)):
            shadow[lane] = 1 << self._number(access, int(index[lane]), values[lane])
        self._read[access.operation] = shadow

    def _number(self, access: Access, index: int, value: Any) -> int:
        buffer = access.buffer
        key = buffer.elements.__array_interface__["data"][0], buffer.itemsize, index
        if key not in self._numbers:
            self._numbers[key] = len(self.elements)
            place = access.coordinates(index)
            self.elements.append(LoadedElement(buffer.name, place, value.item()))
        return self._numbers[key]

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """As `Shadows.computed`."""
        op = computed.operation
        if (access := trait_of(op, GlobalAccess)) is not None:
            return [self._loaded(op, access)] * len(op.results)
        if isinstance(op, arith.SelectOp):
            (chosen,) = moved(computed, operands)
            return [joined([chosen, _reaching(op, 0, operands[0])])]
        if has(op, MovesElements):
            return moved(computed, operands)
        found = joined([_reaching(op, *one) for one in enumerate(operands)])
        return [found] * len(op.results)

    def _loaded(self, op: Operation, access: GlobalAccess) -> Shadow:
        """Of what an access gives: what it has read, where from, and what stands in for lanes that
        are off.
        """
        values = [*access.indices_of(op), getattr(op, "other", None)]
        behind = [self[value] for value in values if value is not None]
        return joined([self._read.pop(op, None), *behind])

    def among(self, numbers: int) -> list[LoadedElement]:
        """The elements of a set, in the order in which they were read first."""
        return [one for number, one in enumerate(self.elements) if numbers >> number & 1]


def joined(shadows: Iterable[Shadow]) -> Shadow:
    """What is in any of these sets, lane by lane."""
    found: Shadow = None
    for one in shadows:
        if one is not None:
            found = one if found is None else _with(found, one)
    return found


def _with(one: Array, other: Array) -> Array:
    """Both, lane by lane; the same for all lanes of a tile where one has none."""
    rank = max(one.ndim, other.ndim)
    first, second = (a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in (one, other))
    both: Array = numpy.bitwise_or(first, second)
    return both


def of_lane(shadow: Shadow, lane: Sequence[int], rank: int) -> int:
    """The set of one lane, the program's position first, of a tile of so many axes with it."""
    if shadow is None:
        return 0
    whole = shadow.reshape(shadow.shape + (1,) * (rank - shadow.ndim))
    return int(whole[tuple(min(at, size - 1) for at, size in zip(lane, whole.shape))])


def _reaching(op: Operation, position: int, shadow: Shadow) -> Shadow:
    """The sets of one operand, where the results of an operation have them."""
    return None if shadow is None else reach(op, position, shadow, numpy.bitwise_or)
