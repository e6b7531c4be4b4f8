"""What the addresses and masks of a kernel's accesses are computed from, and which memory it may
write. Nothing here runs the kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedRun
from kernellab.errors import source_lines
from kernellab.interpreter.codegen.indices import described, function_of, variable_of
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import (
    EVERYTHING,
    Arguments,
    ProgramCode,
    memory_effects,
    per_code,
)
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import (
    GlobalAccess,
    KeepsElements,
    Location,
    RegionsOfElements,
    argument_name,
    has,
    locate,
    trait_of,
)
from kernellab.ir.types import dtype
from kernellab.launch.argument_copies import ALIGNMENT

# What the addresses and masks of a kernel's accesses are computed from.


def placing(op: Operation) -> list[SSAValue]:
    """The operands that say where an operation accesses memory: pointers, or indices of
    a descriptor, then a mask if there is one.
    """
    access = trait_of(op, GlobalAccess)
    if access is None:
        return []
    mask = access.mask_of(op)
    return [*access.indices_of(op), *([] if mask is None else [mask])]


def mask_of(op: Operation) -> SSAValue | None:
    """The mask of an access, where it has one."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.mask_of(op)


def makes_addresses(op: Operation) -> bool:
    """Whether an address or a mask is computed from a result of `op`."""
    values = _behind_accesses(function_of(op))
    return any(result in values for result in op.results)


def stored_value(op: Operation) -> SSAValue | None:
    """What an operation writes to global memory, where it does."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.value_of(op)


def stored_integers(op: Operation) -> SSAValue | None:
    """The integers that an operation writes to global memory, where it does."""
    stored = stored_value(op)
    return stored if stored is not None and dtype(stored.type).kind == "i" else None


@lru_cache(maxsize=32)
def _behind_accesses(function: Operation) -> frozenset[SSAValue]:
    """What addresses and masks are computed from; where some of that was loaded, also what
    integers in memory are computed from.
    """
    operations = list(function.walk())
    placed = [value for op in operations for value in placing(op)]
    values = behind(placed)
    stored = [value for op in operations if (value := stored_integers(op)) is not None]
    return behind([*placed, *stored]) if stored and any(map(was_loaded, values)) else values


def behind(values: Iterable[SSAValue]) -> frozenset[SSAValue]:
    """`values` and what they are computed from, back to arguments and to what was loaded."""
    return frozenset(flow.backward(values, was_loaded))


def was_loaded(value: SSAValue) -> bool:
    """Whether a value comes out of global memory."""
    return isinstance(value, OpResult) and has(value.op, GlobalAccess)


# Find the memory that a kernel may write, before it runs.


def storages_of(run: CheckedRun, arguments: Arguments) -> frozenset[str | int]:
    """Return the storages of arguments (see `CheckedRun.storage_of`)."""
    names = argument_names(run.call, run.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    tensors = [run.tensors[names[n]] for n in numbers if names[n] in run.tensors]
    return frozenset(map(run.storage_of, tensors))


def unchanged_storages(launch: CheckedRun) -> frozenset[int]:
    """Return the addresses of storages that the kernel cannot write. If results may depend on
    addresses, only storages that are aligned as memory of a GPU is.
    """
    effects = memory_effects(launch.code)
    if effects.stored is EVERYTHING or effects.updated is EVERYTHING:
        return frozenset()
    written = storages_of(launch, effects.stored | effects.updated)
    starts = {
        tensor.untyped_storage().data_ptr()
        for tensor in launch.tensors.values()
        if launch.storage_of(tensor) not in written
    }
    if _shows_addresses(launch.code):
        starts = {start for start in starts if start % ALIGNMENT == 0}
    return frozenset(starts)


@per_code
def _shows_addresses(code: ProgramCode) -> bool:
    """Return whether a finding or a result may depend on the addresses of arguments."""
    return any(map(_shows_address, code.module.walk()))


def _shows_address(op: Operation) -> bool:
    return isinstance(op, tt.PtrToIntOp | tt.MakeTensorDescOp) or any(
        "divisibility" in name for name in op.attributes
    )


# The names of a kernel's values in messages.


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
