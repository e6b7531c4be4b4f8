"""Negative remainders: `%` has C's sign in Triton, not Python's."""

from __future__ import annotations

from kernellab.checker.checked_run import Access
from kernellab.checker.naming import name_of
from kernellab.interpreter.analyses.index_values import all_parts_of
from kernellab.ir import arith


def negative_remainder(access: Access, place: tuple[int, ...], program: int) -> str | None:
    """What to say of a negative index that a lane of a program has from a signed `%`;
    None where its index has none from there, as far as the values are still known.
    """
    variables, frame = access.run.code.variables, access.frame.f_locals
    parts = list(all_parts_of(access.operation, place))
    known = {part.value: part.read(variables, frame, program) for part in parts}
    for part in parts:
        op = part.value.owner
        if not isinstance(op, arith.RemSIOp):
            continue
        dividend = known.get(op.operands[0])
        value = dividend if known[part.value] is None else known[part.value]
        if value is None or value >= 0:
            continue
        x, n = (name_of(operand, op) or other for operand, other in zip(op.operands, ("x", "n")))
        shown = "" if dividend is None else f" (here of {dividend})"
        return (
            f"% has the sign of its first operand in Triton, as in C{shown}: write "
            f"({x} % {n} + {n}) % {n}, or compute a hash in tl.uint32, whose % is never negative."
        )
    return None
