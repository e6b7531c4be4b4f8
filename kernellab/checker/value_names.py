"""The names of a kernel's values in messages."""

from __future__ import annotations

import ast
from functools import lru_cache

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.errors import source_lines
from kernellab.interpreter.codegen.indices import described, variable_of
from kernellab.ir import mlir, tt
from kernellab.ir.locations import Location, argument_name, locate
from kernellab.ir.operations import KeepsElements, RegionsOfElements, has


def name_of(value: SSAValue, user: Operation) -> str | None:
    """Return the kernel's name for an operand of `user`, such as "stride", or the call that it is,
    such as "tl.program_id(0)"; None for a part of an expression.

    All operations of an assignment carry the name of its target, which is not the name of an
    operand.
    """
    here = locate(user.location)
    while not isinstance(value, BlockArgument):
        assert isinstance(value, OpResult)
        name = variable_of(value, len(here.frames))
        is_own = not (name == here.name and _is_on_the_way(value.op, here))
        if name is not None and is_own and not _is_part_of(name, value):
            return name
        if not _keeps_values(value.op):
            of_grid = isinstance(value.owner, tt.GetProgramIdOp | tt.GetNumProgramsOp)
            return described(value) if of_grid else None
        value = value.op.operands[0]
    return argument_name(value)


def _is_part_of(name: str, value: OpResult) -> bool:
    """Return whether a value has the name of what is assigned, and is a part of the expression: the
    scalar of `u = s / cap` becomes a tile that has the name u.
    """
    if not has(value.op, KeepsElements):
        return False
    return any(
        locate(use.operation.location).name == name and _is_on_the_way(value.op, place)
        for use in value.uses
        if (place := locate(use.operation.location)).name == name
    )


def _is_on_the_way(op: Operation, user: Location) -> bool:
    """Return whether an operation belongs to the same statement as its user."""
    if op.regions and not has(op, RegionsOfElements):
        return False  # a loop or a branch is a separate statement
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
    statements = (node for node in ast.walk(tree) if isinstance(node, simple))
    return tuple((node.lineno, node.end_lineno or node.lineno) for node in statements)


def _first_line(source: str, line: int) -> int:
    """Return the first line of the statement at a line."""
    return max(
        (first for first, last in _statements(source) if first <= line <= last), default=line
    )


def _keeps_values(op: Operation) -> bool:
    """Return whether an operation does not change values."""
    return has(op, KeepsElements) or isinstance(op, mlir.ExtSIOp | mlir.ExtFOp)
