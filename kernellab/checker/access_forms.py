"""How the kernel wrote an access to memory: each form has parameters, and so advice, of its own."""

from __future__ import annotations

from typing import Literal

from xdsl.ir import Operation

from kernellab.checker.slices import function_of
from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.traits import DescriptorAccess, GlobalAccess, KeepsElements, has, trait_of

Form = Literal["pointers", "block pointer", "descriptor"]


def form_of(op: Operation) -> Form:
    """What an access goes through.

    Triton makes plain pointers of a block pointer, in front of its first access, and their
    arithmetic stands at that access's own line and column; other pointers' has a column of its own.
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
    others = (one for one in function_of(op).walk() if isinstance(one, tt.LoadOp | tt.StoreOp))
    place = locate(made.location).frames
    is_block = any(locate(one.location).frames == place for one in others)
    return "block pointer" if is_block else "pointers"
