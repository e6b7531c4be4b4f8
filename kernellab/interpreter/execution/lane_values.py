"""The value of one element of one program, while its code is stopped."""

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
        frame: of the generated code, at the position where it stopped.
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
        value_read = part.read(self.code.variables, self.frame.f_locals, self.program)
        if value_read is None and isinstance(value, BlockArgument) and part.is_argument:
            value_read = self.call.values.get(value.name_hint or "")
        if value_read is None and isinstance(value, OpResult) and depth < _DEEPEST:
            value_read = self._computed(value, lane, depth)
        return int(value_read) if isinstance(value_read, int) else None

    def _computed(self, value: OpResult, lane: Lane, depth: int) -> int | None:
        op = value.op
        if isinstance(op, arith.ConstantOp):
            return constant_of(op)
        if not (type(op) in _COMPUTED or _keeps_the_number(op)):
            return None
        lanes = [(operand, lane_of(op, operand, lane)) for operand in op.operands]
        known = [None if at is None else self.at(operand, at, depth + 1) for operand, at in lanes]
        numbers = [number for number in known if number is not None]
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
