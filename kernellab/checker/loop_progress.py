"""How many iterations a loop still has, computed from its counter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.analyses.variable_names import variable_of
from kernellab.interpreter.execution.lane_values import LaneValues
from kernellab.ir import arith, scf

_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "ne": "ne"}
_SIGNS = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ne": "!="}


@dataclass(frozen=True)
class Counter:
    """A `while` loop whose condition compares one counter, which changes by the same step in each
    iteration, with a value that the loop does not change.

    Attributes:
        carried: the counter's number among the carried values.
        name: the counter's name; "the counter" if it has none.
        comparison: the condition: "slt" for counter < bound.
        subtracts: whether the step is subtracted.
        bits: the width of the counter.
    """

    carried: int
    name: str
    comparison: str
    bound: SSAValue
    step: SSAValue
    subtracts: bool
    bits: int

    def format(self, values: LaneValues) -> str:
        """Return, as text, how the counter changes: "i changes by -2 while i != 0"."""
        condition = f"{self.name} {_SIGNS[self.comparison]} {values.at(self.bound, ())}"
        return f"{self.name} changes by {self._step(values)} while {condition}"

    def iterations_left(self, now: int, values: LaneValues) -> float | None:
        """Return how many iterations the loop has left; infinity if the counter never ends it, None
        if that is not known. Integers wrap.
        """
        step, bound = self._step(values), values.at(self.bound, ())
        if step is None or bound is None:
            return None
        if self.comparison == "ne":
            return _until_equal(now, bound, step, self.bits)
        if self.comparison.startswith("sg"):  # as for the numbers with the other sign
            now, bound, step = -now, -bound, -step
        limit = bound + (self.comparison in ("sle", "sge"))
        if now >= limit:
            return 0
        if step == 0:
            return math.inf
        if step > 0:
            return -(-(limit - now) // step)
        return (now + (1 << (self.bits - 1))) // -step + 1  # below the least integer it wraps

    def _step(self, values: LaneValues) -> int | None:
        step = values.at(self.step, ())
        return -step if step is not None and self.subtracts else step


def counter_of(loop: scf.WhileOp) -> Counter | None:
    """Return the counter that alone decides whether a loop continues, if there is one."""
    condition, *passed = yielded(loop.before.block)
    if not isinstance(condition, OpResult) or not isinstance(condition.op, arith.CmpIOp):
        return None
    comparison = arith.INTEGER_PREDICATES[condition.op.predicate.value.data]
    first, second = condition.op.operands
    if _is_fixed(first, loop):
        first, second, comparison = second, first, _MIRRORED.get(comparison, "")
    if comparison not in _SIGNS or not _is_fixed(second, loop):
        return None
    if not isinstance(first, BlockArgument) or first.block is not loop.before.block:
        return None
    changed = yielded(loop.after.block)[first.index]
    if not isinstance(changed, OpResult) or not isinstance(changed.op, arith.AddIOp | arith.SubIOp):
        return None
    counter, step = changed.op.operands
    subtracts = isinstance(changed.op, arith.SubIOp)
    if not subtracts and _is_fixed(counter, loop):
        counter, step = step, counter
    if not isinstance(counter, BlockArgument) or counter.block is not loop.after.block:
        return None
    if passed[counter.index] is not first or not _is_fixed(step, loop):
        return None
    kind = first.type
    if not isinstance(kind, builtin.IntegerType):
        return None
    name = variable_of(changed) or variable_of(first) or "the counter"
    return Counter(first.index, name, comparison, second, step, subtracts, kind.width.data)


def trip_count(loop: scf.ForOp, values: LaneValues) -> int | None:
    """Return how many iterations a running `for` loop has in all; None if that is not known."""
    bounds = [values.at(value, ()) for value in (loop.lower, loop.upper, loop.step)]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds) or not known[2]:
        return None
    return len(range(*known))


def _is_fixed(value: SSAValue, loop: Operation) -> bool:
    """Return whether a loop does not change a value."""
    if isinstance(value, OpResult):
        return isinstance(value.op, arith.ConstantOp) or not loop.is_ancestor(value.op)
    parent = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return parent is not None and not loop.is_ancestor(parent)


def _until_equal(now: int, bound: int, step: int, bits: int) -> float:
    """Return the least k with now + k * step = bound modulo 2^bits; infinity if there is none."""
    size = 1 << bits
    distance, common = (bound - now) % size, math.gcd(step, size)
    if distance % common:
        return math.inf
    return distance // common * pow(step // common, -1, size // common) % (size // common)
