"""How a kernel wrote an access to memory, because the advice depends on it."""

from __future__ import annotations

from typing import Literal

from xdsl.ir import Operation

from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.operations import (
    DescriptorAccess,
    GlobalAccess,
    KeepsElements,
    has,
    parents,
    trait_of,
)

Form = Literal["pointers", "block pointer", "descriptor"]


def function_of(op: Operation) -> Operation:
    """Return the function that contains an operation."""
    return next(outer for outer in (op, *parents(op)) if isinstance(outer, tt.FuncOp))


def form_of(op: Operation) -> Form:
    """Return how the kernel wrote an access.

    Triton turns a block pointer into plain pointers in front of its first access, and gives their
    arithmetic the line and column of that access; the arithmetic of other pointers has a different
    column.
    """
    access = trait_of(op, GlobalAccess)
    if isinstance(access, DescriptorAccess):
        return "descriptor"
    if access is None or not isinstance(op, tt.LoadOp | tt.StoreOp):
        return "pointers"
    made = access.indices_of(op)[0].owner
    while isinstance(made, Operation) and has(made, KeepsElements):
        made = made.operands[0].owner
    if not isinstance(made, tt.AddPtrOp):
        return "pointers"
    others = (o for o in function_of(op).walk() if isinstance(o, tt.LoadOp | tt.StoreOp))
    place = locate(made.location).frames
    is_block = any(locate(other.location).frames == place for other in others)
    return "block pointer" if is_block else "pointers"
