"""The `cf` dialect: jumps between blocks."""

from __future__ import annotations

import sys

from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    successor_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, NoMemoryEffect

from kernellab.ir.operation import dialect


@irdl_op_definition
class BranchOp(IRDLOperation):
    """An unconditional jump."""

    name = "cf.br"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    arguments = var_operand_def()
    successor = successor_def()


@irdl_op_definition
class ConditionalBranchOp(IRDLOperation):
    """A jump to one of two blocks."""

    name = "cf.cond_br"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    condition = operand_def()
    true_arguments = var_operand_def()
    false_arguments = var_operand_def()
    true_successor = successor_def()
    false_successor = successor_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


CF = dialect("cf", sys.modules[__name__])
