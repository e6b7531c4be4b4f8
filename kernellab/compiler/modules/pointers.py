"""Pointers in a module: what accesses go by, what they point to, and the parameter they start
from.
"""

from __future__ import annotations

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from kernellab.compiler.modules.structure import arguments_toward, kind
from kernellab.ir.locations import argument_name
from kernellab.ir.types import PointerType, bit_width, element_type, is_pointer


def pointers_of(access: Operation) -> SSAValue:
    """The addresses of an access."""
    return next(operand for operand in access.operands if is_pointer(operand.type))


def pointee(pointers: SSAValue) -> Attribute:
    """What a pointer, or a tile of pointers, points to."""
    pointer = element_type(pointers.type)
    assert isinstance(pointer, PointerType)
    return pointer.pointee


def element_bytes(pointers: SSAValue) -> int:
    """Bytes of what a pointer, or a tile of pointers, points to."""
    pointer = element_type(pointers.type)
    assert isinstance(pointer, PointerType)
    return max(bit_width(pointer.pointee) // 8, 1)


def underlying_argument(value: SSAValue) -> str:
    """The parameter that a pointer starts from: through additions, splats and loops."""
    seen: set[SSAValue] = set()
    while value not in seen:
        seen.add(value)
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if parent is None or kind(parent) == "tt.func":
                return argument_name(value) or f"argument {value.index}"
            handed = [values for _, values in arguments_toward(value.block)]
            if not handed or value.index >= len(handed[0]):
                return ""
            value = handed[0][value.index]
        else:
            owner = value.owner
            assert isinstance(owner, Operation)
            nexts = [operand for operand in owner.operands if is_pointer(operand.type)]
            if not nexts:
                return ""
            value = nexts[0]
    return ""
