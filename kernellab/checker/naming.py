"""What messages call the values of a kernel."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.index_values import described
from kernellab.ir import arith, tt
from kernellab.ir.locations import argument_name, locate
from kernellab.ir.traits import KeepsElements, has


def name_of(value: SSAValue, user: Operation) -> str | None:
    """The kernel's name for an operand of `user`, "stride", or what it is, "tl.program_id(0)";
    None for a part of an expression.

    All operations of one assignment carry the name that is assigned to:
    it is no name of an operand.
    """
    assigned = locate(user.location).name
    while not isinstance(value, BlockArgument):
        assert isinstance(value, OpResult)
        name = locate(value.op.location).name
        if name is not None and name != assigned:
            return name
        if not _keeps_values(value.op):
            of_grid = isinstance(value.owner, tt.GetProgramIdOp | tt.GetNumProgramsOp)
            return described(value) if of_grid else None
        value = value.op.operands[0]
    return argument_name(value)


def _keeps_values(op: Operation) -> bool:
    """Whether a value is still what it was after an operation."""
    return has(op, KeepsElements) or isinstance(op, arith.ExtSIOp | arith.ExtFOp)


def name_of_result(value: SSAValue) -> str | None:
    """The variable that the kernel keeps a value in, or is on the way to;
    None for a part of an expression.
    """
    if isinstance(value, BlockArgument):
        return argument_name(value)
    assert isinstance(value, OpResult)
    return locate(value.op.location).name
