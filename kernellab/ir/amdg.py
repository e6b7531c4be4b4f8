"""The `amdg` dialect: what only AMD's GPUs have: buffer instructions, direct loads to LDS (TTGIR)."""

from __future__ import annotations

import sys
from abc import ABC

from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
)

from kernellab.ir.operation import dialect


class BufferAccess(IRDLOperation, ABC):
    """An access at scalar `pointer` + tile of `offsets`, in elements; the hardware checks the range."""

    cache = opt_prop_def()
    contiguity = opt_prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class BufferLoadOp(BufferAccess):
    """Global memory to registers."""

    name = "amdg.buffer_load"
    pointer = operand_def()
    offsets = operand_def()
    stride = opt_operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()


@irdl_op_definition
class BufferLoadToLocalOp(BufferAccess):
    """Global memory to LDS past the registers."""

    name = "amdg.buffer_load_to_local"
    memory = operand_def()
    pointer = operand_def()
    offsets = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    stride = opt_operand_def()
    token = result_def()


@irdl_op_definition
class BufferStoreOp(BufferAccess):
    """Registers to global memory."""

    name = "amdg.buffer_store"
    value = operand_def()
    pointer = operand_def()
    offsets = operand_def()
    stride = opt_operand_def()
    mask = opt_operand_def()


AMDG = dialect("amdg", sys.modules[__name__])
