"""What messages call the values of a kernel."""

from __future__ import annotations

import ast
from functools import lru_cache

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.errors import source_lines
from kernellab.interpreter.analyses.index_values import described
from kernellab.interpreter.analyses.variable_names import variable_of
from kernellab.ir import arith, tt
from kernellab.ir.locations import Location, argument_name, locate
from kernellab.ir.traits import KeepsElements, RegionsOfElements, has


def name_of(value: SSAValue, user: Operation) -> str | None:
    """The kernel's name for an operand of `user`, "stride", or what it is, "tl.program_id(0)";
    None for a part of an expression.

    All operations of one assignment carry the name that is assigned to:
    it is no name of an operand.
    """
    here = locate(user.location)
    while not isinstance(value, BlockArgument):
        assert isinstance(value, OpResult)
        name = variable_of(value, len(here.frames))
        if name is not None and not (name == here.name and _is_on_the_way(value.op, here)):
            return name
        if not _keeps_values(value.op):
            of_grid = isinstance(value.owner, tt.GetProgramIdOp | tt.GetNumProgramsOp)
            return described(value) if of_grid else None
        value = value.op.operands[0]
    return argument_name(value)


def _is_on_the_way(op: Operation, user: Location) -> bool:
    """Whether an operation belongs to the statement that another of the same name stands in."""
    if op.regions and not has(op, RegionsOfElements):
        return False  # a loop or a branch, and so a statement of its own
    frames = locate(op.location).frames[-len(user.frames) :]
    if not frames or not user.frames or frames[0].file != user.frames[0].file:
        return True
    position = user.frames[0]
    return frames[0].line >= _first_line("".join(source_lines(position.file)), position.line)


@lru_cache(maxsize=8)
def _statements(source: str) -> tuple[tuple[int, int], ...]:
    """The first and the last line of each simple statement of a file."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with magics, say
        return ()
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
    found = (node for node in ast.walk(tree) if isinstance(node, simple))
    return tuple((node.lineno, node.end_lineno or node.lineno) for node in found)


def _first_line(source: str, line: int) -> int:
    """Of the statement that stands on a line."""
    return max(
        (first for first, last in _statements(source) if first <= line <= last), default=line
    )


def _keeps_values(op: Operation) -> bool:
    """Whether a value is still what it was after an operation."""
    return has(op, KeepsElements) or isinstance(op, arith.ExtSIOp | arith.ExtFOp)


def name_of_result(value: SSAValue) -> str | None:
    """The variable that the kernel keeps a value in, or is on the way to;
    None for a part of an expression.
    """
    return variable_of(value)
