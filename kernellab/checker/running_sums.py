"""Where a kernel adds up in floats of 16 bits: around a loop, or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.shadow.finite import is_float
from kernellab.checker.slices import behind, function_of
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.ir import arith, math, tt
from kernellab.ir.traits import PointerAccess, trait_of
from kernellab.ir.types import dtype


@dataclass(frozen=True)
class Addition:
    """An addition whose result comes back as one of its operands.

    Attributes:
        position: of that operand.
        rounding: what rounds the result to 16 bits: the addition itself, or a conversion after it.
    """

    position: int
    rounding: Operation


def running_additions(op: Operation) -> Mapping[Operation, Addition]:
    """Those of the function that an operation stands in."""
    return _additions(function_of(op))


@lru_cache(maxsize=32)
def _additions(function: Operation) -> Mapping[Operation, Addition]:
    found: dict[Operation, Addition] = {}
    returning = _Returning(function)
    for op in function.walk():
        rounding = _rounding(op)
        if rounding is None:
            continue
        for position, operand in enumerate(op.operands):
            is_product = isinstance(op, math.FmaOp) and position < 2
            if not is_product and returning.comes_back(rounding.results[0], operand):
                found[op] = Addition(position, rounding)
                break
    return found


def _rounding(op: Operation) -> Operation | None:
    """What rounds the result of an addition to 16 bits."""
    if not isinstance(op, arith.AddFOp | arith.SubFOp | math.FmaOp):
        return None
    if is_half(op.results[0]):
        return op
    users = [use.operation for use in op.results[0].uses]
    if len(users) == 1 and isinstance(users[0], arith.TruncFOp) and is_half(users[0].results[0]):
        return users[0]
    return None


def is_half(value: SSAValue) -> bool:
    """True for floats of 16 bits."""
    return is_float(value) and dtype(value.type).itemsize == 2


class _Returning:
    """Which results come back as operands, around loops and through memory."""

    def __init__(self, function: Operation) -> None:
        self._function = function
        self._stores = list(_stores_of_halves(function))
        self._objects = underlying_objects(function) if isinstance(function, tt.FuncOp) else {}

    def comes_back(self, result: SSAValue, operand: SSAValue) -> bool:
        if not _is_of_halves(operand, result):
            return False
        sources = behind((operand,), self._function)
        if result in sources:
            return True
        loaded = {
            self._objects.get(one.op.pointer)
            for one in sources
            if isinstance(one, OpResult) and isinstance(one.op, tt.LoadOp)
        }
        return any(
            self._objects.get(pointer) in loaded - {None}
            and result in behind((value,), self._function)
            for pointer, value in self._stores
        )


def _is_of_halves(operand: SSAValue, result: SSAValue) -> bool:
    """Whether an operand has 16 bits of its own; of a sum in fp32 that is rounded afterwards, one
    that was widened.
    """
    if dtype(operand.type) == dtype(result.type):
        return True
    return isinstance(operand, OpResult) and isinstance(operand.op, arith.ExtFOp)


def _stores_of_halves(function: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(pointer, value) of each plain store of such floats."""
    for op in function.walk():
        if isinstance(op, tt.StoreOp) and trait_of(op, PointerAccess) and is_half(op.value):
            yield op.pointer, op.value
