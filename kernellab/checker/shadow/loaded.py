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
        argument: the parameter; "" for memory that does not belong to an argument.
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

    def read(self, access: Access, loaded: Value) -> None:
        """Record the elements that an access has read."""
        index, values, on = numpy.broadcast_arrays(
            lifted(access.index, access.rank),
            lifted(loaded, access.rank),
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
        op = computed.operation
        if (access := trait_of(op, GlobalAccess)) is not None:
            return [self._loaded(op, access)] * len(op.results)
        if isinstance(op, arith.SelectOp):
            (chosen,) = moved(computed, operands)
            return [joined([chosen, _reaching(op, 0, operands[0])])]
        if has(op, MovesElements):
            return moved(computed, operands)
        sets = joined([_reaching(op, *operand) for operand in enumerate(operands)])
        return [sets] * len(op.results)

    def _loaded(self, op: Operation, access: GlobalAccess) -> Shadow:
        """Of what an access gives: what it has read, where from, and what stands in for lanes that
        are off.
        """
        values = [*access.indices_of(op), getattr(op, "other", None)]
        behind = [self[value] for value in values if value is not None]
        return joined([self._read.pop(op, None), *behind])

    def among(self, numbers: int) -> list[LoadedElement]:
        """The elements of a set, in the order in which they were read first."""
        return [element for number, element in enumerate(self.elements) if numbers >> number & 1]


def joined(shadows: Iterable[Shadow]) -> Shadow:
    """Return the union of sets, element by element."""
    union: Shadow = None
    for shadow in shadows:
        if shadow is not None:
            union = shadow if union is None else _with(union, shadow)
    return union


def _with(shadow: Array, other: Array) -> Array:
    """Return the union of two arrays of sets, element by element, broadcast to the larger rank."""
    rank = max(shadow.ndim, other.ndim)
    first, second = (a.reshape(a.shape + (1,) * (rank - a.ndim)) for a in (shadow, other))
    both: Array = numpy.bitwise_or(first, second)
    return both


def of_lane(shadow: Shadow, lane: Sequence[int], rank: int) -> int:
    """Return the set of one element of a tile of rank `rank`, both with the program first."""
    if shadow is None:
        return 0
    whole = shadow.reshape(shadow.shape + (1,) * (rank - shadow.ndim))
    return int(whole[tuple(min(at, size - 1) for at, size in zip(lane, whole.shape))])


def _reaching(op: Operation, position: int, shadow: Shadow) -> Shadow:
    """The sets of one operand, where the results of an operation have them."""
    return None if shadow is None else reach(op, position, shadow, numpy.bitwise_or)
