"""Negative remainders: in Triton `%` has the sign of C, not of Python."""

from __future__ import annotations

from xdsl.ir import SSAValue

from kernellab.checker.checked_run import Access
from kernellab.checker.naming import name_of
from kernellab.checker.records import Proposal
from kernellab.interpreter.analyses.index_values import all_parts_of, lane_of
from kernellab.interpreter.analyses.source_expressions import expression_of
from kernellab.interpreter.execution.lane_values import LaneValues, constant_of
from kernellab.ir import arith


def negative_remainder(
    access: Access, place: tuple[int, ...], program: int
) -> tuple[str, tuple[Proposal, ...]] | None:
    """Return why an index is negative that comes from a signed `%`, and what may be written
    instead; None if it does not, as far as the values are still known.

    Args:
        access: the access with the negative index.
        place: the element's position in its tile.
        program: the position of its program in the batch.
    """
    values = LaneValues(access.frame, program, access.run.code, access.run.call)
    for part in all_parts_of(access.operation, place):
        op = part.value.owner
        if not isinstance(op, arith.RemSIOp):
            continue
        remainder, lane = values.at(part.value, part.lane), lane_of(op, op.operands[0], part.lane)
        dividend = None if lane is None else values.at(op.operands[0], lane)
        value = dividend if remainder is None else remainder
        if value is None or value >= 0:
            continue
        x, n = (
            name_of(operand, op) or _written(operand) or other
            for operand, other in zip(op.operands, ("x", "n"))
        )
        shown = "" if dividend is None else f" (here {dividend})"
        new = f"({x} % {n} + {n}) % {n}"
        hint = (
            f"In Triton, as in C, % has the sign of its first operand{shown}; in tl.uint32, as for "
            "a hash, it is never negative."
        )
        return hint, (Proposal(f"Write {new}.", f"{x} % {n}", new),)
    return None


def _written(value: SSAValue) -> str | None:
    """Return a constant, or the source of an expression without a name: "(i - shift)"."""
    if isinstance(value.owner, arith.ConstantOp):
        number = constant_of(value.owner)
        return None if number is None else str(number)
    text = expression_of(value)
    return None if text is None else f"({text})"
