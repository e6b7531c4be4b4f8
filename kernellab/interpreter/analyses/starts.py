"""Pointers to the first element of an argument's tensor, where most accesses begin.

Such a pointer's offset is 0, so a pointer that is `offsets` further has these offsets,
and nothing needs to be added; accesses of several tensors at the same offsets then share one tile.
"""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from kernellab.ir import arith, tt
from kernellab.ir.traits import KeepsElements, has
from kernellab.ir.types import dtype, is_pointer, shape


def starts(function: tt.FuncOp) -> set[SSAValue]:
    """The pointers, and tiles of pointers, that are an argument as it was given."""
    entry = function.body.blocks.first
    assert entry is not None
    pointers: set[SSAValue] = {argument for argument in entry.args if is_pointer(argument.type)}
    for op in function.walk():
        if has(op, KeepsElements) and op.operands[0] in pointers and shape(op.results[0].type):
            pointers.update(op.results)
    return pointers


def widen_offsets(function: tt.FuncOp, of: set[SSAValue]) -> None:
    """Give the pointers `of` offsets of 64 bits, in place:
    each offset is widened once, where it is made, for all of them.
    """
    wide: dict[SSAValue, SSAValue] = {}
    for op in list(function.walk()):
        if isinstance(op, tt.AddPtrOp) and op.pointer in of and _is_narrow(op.offset):
            if op.offset not in wide:
                wide[op.offset] = _widened(op.offset, op)
            op.operands[1] = wide[op.offset]


def _is_narrow(offset: SSAValue) -> bool:
    kind = dtype(offset.type)
    return kind.kind == "i" and kind.itemsize < 8


def _widened(offset: SSAValue, user: Operation) -> SSAValue:
    """The offset in 64 bits, made right after it, at the place in the source of who needs it so."""
    wide: Attribute = builtin.i64
    if isinstance(offset.type, builtin.TensorType):
        wide = builtin.TensorType(builtin.i64, offset.type.shape, offset.type.encoding)
    op = arith.ExtSIOp.create(operands=[offset], result_types=[wide], location=user.location)
    owner = offset.owner
    place = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
    Rewriter.insert_op(op, place)
    return op.results[0]
