"""What a value of the kernel is at one lane of one program, while its code stands still."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.specialization.binding import BoundCall
from kernellab.interpreter.analyses.index_values import Lane, Part, lane_of
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import arith
from kernellab.ir.traits import KeepsElements, has

_COMPUTED: Mapping[type, Callable[[int, int], int]] = {
    arith.AddIOp: operator.add,
    arith.SubIOp: operator.sub,
    arith.MulIOp: operator.mul,
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
_DEEPEST = 60


@dataclass(frozen=True)
class LaneValues:
    """Integers of one program, by value and lane.

    Attributes:
        frame: of the generated code, where it stands.
        program: position of the program in the batch.
    """

    frame: types.FrameType
    program: int
    code: ProgramCode
    call: BoundCall

    def at(self, value: SSAValue, lane: Lane, depth: int = 0) -> int | None:
        """The value: out of the variables of the code, an argument, a constant, or computed from
        such; None where it is known no more.
        """
        part = Part("", value, lane, None)
        found = part.read(self.code.variables, self.frame.f_locals, self.program)
        if found is None and isinstance(value, BlockArgument) and part.is_argument:
            found = self.call.values.get(value.name_hint or "")
        if found is None and isinstance(value, OpResult) and depth < _DEEPEST:
            found = self._computed(value, lane, depth)
        return int(found) if isinstance(found, int) else None

    def _computed(self, value: OpResult, lane: Lane, depth: int) -> int | None:
        op = value.op
        if isinstance(op, arith.ConstantOp):
            return constant_of(op)
        if not (type(op) in _COMPUTED or _keeps_the_number(op)):
            return None
        lanes = [(one, lane_of(op, one, lane)) for one in op.operands]
        known = [None if at is None else self.at(one, at, depth + 1) for one, at in lanes]
        numbers = [one for one in known if one is not None]
        if len(numbers) < len(known):
            return None
        return _COMPUTED[type(op)](*numbers) if type(op) in _COMPUTED else numbers[0]


def _keeps_the_number(op: Operation) -> bool:
    match op:
        case arith.ExtSIOp() | arith.ExtUIOp() | arith.TruncIOp() | arith.IndexCastOp():
            return True
        case _:
            return has(op, KeepsElements)


def constant_of(op: arith.ConstantOp) -> int | None:
    """The integer that all elements of a constant are; None where it is none."""
    match op.value:
        case builtin.IntegerAttr() as one:
            return int(one.value.data)
        case builtin.DenseIntOrFPElementsAttr() as many if many.is_splat():
            first: object = many.get_values()[0]
            return first if isinstance(first, int) else None
        case _:
            return None
