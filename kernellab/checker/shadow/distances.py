"""How far indices are from the exact ones: where each operation that wraps does so first,
and what it leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.shadow.values import (
    Array,
    Shadow,
    Shadows,
    moved,
    reach,
)
from kernellab.checker.shadow.wrapping import exact_result, integers, may_wrap
from kernellab.ir import arith
from kernellab.ir.traits import MovesElements, has
from kernellab.ir.types import dtype, shape


@dataclass
class Wrap:
    """Where an operation wrapped first, and in which programs it did.

    Attributes:
        computed: its values then.
        exact: what it should have given, programs first.
        lane: the first of those that wrapped, the program's place first.
        programs: linear ids of all.
        count: elements.
    """

    computed: Computed
    exact: Array
    lane: tuple[int, ...]
    programs: set[int] = field(default_factory=set)
    count: int = 0


class Distances(Shadows):
    """How far each integer, offset and truth value is from the exact one: exact minus actual.

    Attributes:
        wraps: the operations that wrapped, in the order in which they first did.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wraps: dict[Operation, Wrap] = {}

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """As `Shadows.computed`."""
        op = computed.operation
        if has(op, MovesElements):
            return moved(computed, operands)
        if len(op.results) != 1:
            return [None] * len(op.results)
        return [self._of_one(computed, operands)]

    def _of_one(self, computed: Computed, operands: Sequence[Shadow]) -> Shadow:
        op = computed.operation
        inexact = any(shadow is not None for shadow in operands)
        exact = exact_result(computed, operands) if inexact or may_wrap(op) else None
        if exact is None:
            return None
        rank = len(shape(op.results[0].type))
        distance: Array = exact - integers(computed.results[0], rank)
        if isinstance(op, arith.ExtUIOp):
            distance = _unsigned_distance(op, computed, distance, rank)
        if not distance.any():
            return None
        if may_wrap(op):
            self._note(computed, operands, exact, distance)
        return distance

    def _note(
        self, computed: Computed, operands: Sequence[Shadow], exact: Array, distance: Array
    ) -> None:
        """Lanes whose operands are exact and whose result is not: here it begins."""
        fresh = distance != 0
        for position, shadow in enumerate(operands):
            if shadow is not None:
                fresh = fresh & ~reach(computed.operation, position, shadow != 0)
        rank = len(shape(computed.operation.results[0].type))
        if computed.active is not None:
            fresh = fresh & computed.active.reshape((-1,) + (1,) * rank)
        if not fresh.any():
            return
        op = computed.operation
        if op not in self.wraps:
            lane = tuple(int(i) for i in numpy.argwhere(fresh)[0])
            self.wraps[op] = Wrap(computed, exact, lane)
        wrap = self.wraps[op]
        each = len(fresh) > 1
        ids = computed.linear_ids(fresh.reshape(len(fresh), -1).any(axis=1) if each else None)
        wrap.programs.update(ids.tolist())
        wrap.count += int(fresh.sum()) * (1 if each else max(len(ids), 1))


def _unsigned_distance(op: arith.ExtUIOp, computed: Computed, distance: Array, rank: int) -> Array:
    """None of its own for an operand that is read as unsigned: 3e9 is not -1294967296 then."""
    bits = 8 * dtype(op.operand.type).itemsize
    lanes = integers(computed.operands[0], rank)
    as_signed = numpy.where(lanes < 0, 1 << bits, 0)
    return numpy.where(distance == -as_signed, 0, distance)
