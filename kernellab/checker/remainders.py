"""Negative remainders: `%` has C's sign in Triton, not Python's."""

from __future__ import annotations

from xdsl.ir import SSAValue

from kernellab.checker.checked_run import Access
from kernellab.checker.naming import name_of
from kernellab.interpreter.analyses.index_values import all_parts_of, lane_of
from kernellab.interpreter.analyses.source_expressions import expression_of
from kernellab.interpreter.execution.lane_values import LaneValues, constant_of
from kernellab.ir import arith


def negative_remainder(access: Access, place: tuple[int, ...], program: int) -> str | None:
    """What to say of a negative index that a lane of a program has from a signed `%`;
    None where its index has none from there, as far as the values are still known.
    """
    values = LaneValues(access.frame, program, access.run.code, access.run.call)
    for part in all_parts_of(access.operation, place):
        op = part.value.owner
        if not isinstance(op, arith.RemSIOp):
            continue
        found, lane = values.at(part.value, part.lane), lane_of(op, op.operands[0], part.lane)
        dividend = None if lane is None else values.at(op.operands[0], lane)
        value = dividend if found is None else found
        if value is None or value >= 0:
            continue
        x, n = (
            name_of(operand, op) or _written(operand) or other
            for operand, other in zip(op.operands, ("x", "n"))
        )
        shown = "" if dividend is None else f" (here of {dividend})"
        return (
            f"% has the sign of its first operand in Triton, as in C{shown}: write "
            f"({x} % {n} + {n}) % {n}, or compute a hash in tl.uint32, whose % is never negative."
        )
    return None


def _written(value: SSAValue) -> str | None:
    """A number, or what stands in the source for one that has no name: "(i - shift)"."""
    if isinstance(value.owner, arith.ConstantOp):
        number = constant_of(value.owner)
        return None if number is None else str(number)
    text = expression_of(value)
    return None if text is None else f"({text})"
