"""Where a kernel adds up in floats of 16 bits: around a loop, also one that the compiler has
unrolled, or in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.numerics.finite import is_float
from kernellab.checker.slices import behind, function_of
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.ir import arith, math, tt
from kernellab.ir.locations import locate
from kernellab.ir.types import dtype


@dataclass(frozen=True)
class Addition:
    """An addition whose result comes back as one of its operands.

    Attributes:
        operation: which one.
        position: of that operand.
        rounding: what rounds the result to 16 bits: the addition itself, or a conversion after it.
        place: the operation; of the turns of an unrolled loop, their line and the calls to it.
    """

    operation: Operation
    position: int
    rounding: Operation
    place: Hashable


def running_additions(op: Operation) -> Mapping[Operation, Addition]:
    """Return the running additions of the function that contains an operation."""
    return _additions(function_of(op))


def addition_of(op: Operation) -> Addition | None:
    """The running addition that an operation is, or whose result it rounds."""
    function = function_of(op)
    return _additions(function).get(op) or _by_rounding(function).get(op)


@lru_cache(maxsize=32)
def _by_rounding(function: Operation) -> Mapping[Operation, Addition]:
    return {addition.rounding: addition for addition in _additions(function).values()}


@lru_cache(maxsize=32)
def _additions(function: Operation) -> Mapping[Operation, Addition]:
    additions: dict[Operation, Addition] = {}
    returning, turns = _Returning(function), _Turns(function)
    for op in function.walk():
        rounding = _rounding(op)
        if rounding is None:
            continue
        for position, operand in enumerate(op.operands):
            is_product = isinstance(op, math.FmaOp) and position < 2
            result = rounding.results[0]
            if not is_product and (
                returning.comes_back(result, operand) or turns.comes_from(operand, result)
            ):
                additions[op] = Addition(op, position, rounding, turns.place(rounding) or op)
                break
    return additions


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


_UNROLLED = 8
"""So many additions at one place are turns of a loop that was unrolled."""


class _Turns:
    """Additions that follow each other at one place of the source."""

    def __init__(self, function: Operation) -> None:
        self._results: dict[Hashable, set[SSAValue]] = defaultdict(set)
        for op in function.walk():
            rounding = _rounding(op)
            if rounding is not None and (frames := locate(rounding.location).frames):
                self._results[frames].add(rounding.results[0])

    def place(self, rounding: Operation) -> Hashable | None:
        """Return a key for an addition in an unrolled loop; None if the loop is not unrolled."""
        frames = locate(rounding.location).frames
        return frames if len(self._results.get(frames, ())) >= _UNROLLED else None

    def comes_from(self, operand: SSAValue, result: SSAValue) -> bool:
        """Whether an operand is the result of another turn."""
        assert isinstance(result, OpResult)
        place = self.place(result.op)
        if place is None or not _is_of_halves(operand, result):
            return False
        if isinstance(operand, OpResult) and isinstance(operand.op, arith.ExtFOp):
            operand = operand.op.operands[0]
        return operand in self._results[place]


class _Returning:
    """Which results come back as operands, around loops and through memory."""

    def __init__(self, function: Operation) -> None:
        self._function = function
        self._stores = [
            op for op in function.walk() if isinstance(op, tt.StoreOp) and is_half(op.value)
        ]
        self._objects = underlying_objects(function) if isinstance(function, tt.FuncOp) else {}

    def comes_back(self, result: SSAValue, operand: SSAValue) -> bool:
        if not _is_of_halves(operand, result):
            return False
        sources = behind((operand,), self._function)
        if result in sources:
            return True
        loaded = {
            self._objects.get(source.op.pointer)
            for source in sources
            if isinstance(source, OpResult) and isinstance(source.op, tt.LoadOp)
        }
        return any(
            self._objects.get(store.pointer) in loaded - {None}
            and result in behind((store.value,), self._function)
            for store in self._stores
        )


def _is_of_halves(operand: SSAValue, result: SSAValue) -> bool:
    """Return whether an operand has 16 bits, or was widened for a sum in fp32 that is rounded
    afterwards.
    """
    if dtype(operand.type) == dtype(result.type):
        return True
    return isinstance(operand, OpResult) and isinstance(operand.op, arith.ExtFOp)
