"""The code of a kernel that computes with residues: its module with another type for floats."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import builtin
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from kernellab.equality.lowering import rule_of
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.ir.reader import read_module
from kernellab.ir.types import MemDescType, PointerType, ResidueType, TensorDescType, dtype


def exact_code(text: str, kernel: Any) -> ProgramCode:
    """The code of a module in MLIR's generic form.

    Raises:
        UnsupportedOperation: an operation on floats that has no law and moves no elements; it names
            the kernel's line.
    """
    module = read_module(text)
    _replace_floats(module)
    return program_of_module(module, kernel, rules=rule_of)


def _replace_floats(module: ModuleOp) -> None:
    for op in module.walk():
        for result in op.results:
            _replace_type(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _replace_type(argument)


def _replace_type(value: SSAValue) -> None:
    value._type = _replaced(value.type)


def _replaced(type: Attribute) -> Attribute:
    match type:
        case PointerType():
            return PointerType(_replaced(type.pointee), type.address_space)
        case TensorDescType():
            return TensorDescType(_of_residues(type.block), type.spelling)
        case MemDescType():
            kept = (type.encoding, type.memory_space, type.mutability, type.allocation)
            return MemDescType(type.dimensions, _replaced(type.element_type), *kept)
        case builtin.TensorType():
            return _of_residues(type)
    return ResidueType(type) if _is_float(type) else type


def _of_residues(type: builtin.TensorType[Attribute]) -> builtin.TensorType[Attribute]:
    return builtin.TensorType(_replaced(type.get_element_type()), type.get_shape(), type.encoding)


def _is_float(type: Attribute) -> bool:
    try:
        return dtype(type).kind not in "iub"
    except KeyError:  # a type without elements
        return False
