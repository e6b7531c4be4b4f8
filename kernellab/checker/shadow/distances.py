"""How far indices are from the exact ones: where each operation that wraps does so first,
and what it leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.shadow.values import (
    Array,
    Shadow,
    Shadows,
    moved,
    reach,
)
from kernellab.checker.shadow.wrapping import exact_extremes, exact_result, integers, may_wrap
from kernellab.checker.signs import Values
from kernellab.ir import arith, tt
from kernellab.ir.traits import GlobalAccess, MovesElements, has
from kernellab.ir.types import is_pointer, shape


@dataclass
class Wrap:
    """Where an operation wrapped first, and in which programs it did.

    Attributes:
        computed: its values then.
        operands, result: these as the operation takes them, with a sign or without, programs first.
        exact: what it should have given, programs first.
        without_sign: True where it gives numbers without one.
        lane: the first of those that wrapped, the program's place first.
        programs: linear ids of all.
        count: elements.
    """

    computed: Computed
    operands: tuple[Array, ...]
    result: Array
    exact: Array
    without_sign: bool
    lane: tuple[int, ...]
    programs: ProgramSet = field(default_factory=ProgramSet)
    count: int = 0


class Distances(Shadows):
    """How far each integer, offset and truth value is from the exact one: exact minus actual.

    Attributes:
        unsigned: the integers that have no sign.
        wraps: the operations that wrapped, in the order in which they first did.
        read: of each operation that reads memory, the distances of what it read last.
    """

    def __init__(self, unsigned: Values) -> None:
        super().__init__()
        self.unsigned = unsigned
        self.wraps: dict[Operation, Wrap] = {}
        self.read: dict[Operation, Shadow] = {}

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """As `Shadows.computed`."""
        op = computed.operation
        if has(op, GlobalAccess):
            return [self.read.pop(op, None)] * len(op.results)
        if has(op, MovesElements):
            return moved(computed, operands)
        if isinstance(op, arith.BitcastOp | tt.BitcastOp):
            return [None if is_pointer(op.result.type) else operands[0]]
        if len(op.results) != 1:
            return self._of_several(computed, operands)
        return [self._of_one(computed, operands)]

    def _of_one(self, computed: Computed, operands: Sequence[Shadow]) -> Shadow:
        op = computed.operation
        inexact = any(shadow is not None for shadow in operands)
        exact = exact_result(computed, operands, self.unsigned) if inexact or may_wrap(op) else None
        if exact is None:
            return None
        rank = len(shape(op.results[0].type))
        found = integers(computed.results[0], rank, op.results[0] in self.unsigned)
        distance: Array = exact - found
        if not distance.any():
            return None
        if may_wrap(op):
            self._note(computed, operands, exact, distance)
        return distance

    def _of_several(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """Of a reduction that chooses an element and its place, where what it chooses among is
        inexact.
        """
        op, exact = computed.operation, None
        if any(shadow is not None for shadow in operands):
            exact = exact_extremes(computed, operands, self.unsigned)
        if exact is None:
            return [None] * len(op.results)
        found = (
            integers(value, len(shape(result.type)), result in self.unsigned)
            for value, result in zip(computed.results, op.results)
        )
        return [one - other for one, other in zip(exact, found)]

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
            self.wraps[op] = self._wrap(computed, exact, lane)
        wrap = self.wraps[op]
        each = len(fresh) > 1
        ids = computed.linear_ids(fresh.reshape(len(fresh), -1).any(axis=1) if each else None)
        wrap.programs.update(ids)
        wrap.count += int(fresh.sum()) * (1 if each else max(len(ids), 1))

    def _wrap(self, computed: Computed, exact: Array, lane: tuple[int, ...]) -> Wrap:
        op = computed.operation
        without_sign = op.results[0] in self.unsigned
        takes_so = without_sign and not isinstance(op, arith.TruncIOp)
        operands = tuple(
            integers(value, len(shape(operand.type)), takes_so)
            for value, operand in zip(computed.operands, op.operands)
        )
        result = integers(computed.results[0], len(shape(op.results[0].type)), without_sign)
        return Wrap(computed, operands, result, exact, without_sign, lane)
