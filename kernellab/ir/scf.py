"""The `scf` dialect: loops and branches that nest."""

from __future__ import annotations

import sys

from xdsl.ir import Block
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoMemoryEffect, RecursiveMemoryEffect

from kernellab.ir.operation import dialect


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a region and hands its values on."""

    name = "scf.yield"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


@irdl_op_definition
class ConditionOp(IRDLOperation):
    """Ends the first region of `scf.while`: goes on while `condition` holds."""

    name = "scf.condition"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    condition = operand_def()
    values = var_operand_def()


@irdl_op_definition
class ForOp(IRDLOperation):
    """`for i in range(lower, upper, step)`, with values carried from iteration to iteration."""

    name = "scf.for"
    traits = traits_def(RecursiveMemoryEffect())
    lower = operand_def()
    upper = operand_def()
    step = operand_def()
    initial = var_operand_def()
    body = region_def("single_block")
    final = var_result_def()

    @property
    def block(self) -> Block:
        """The body; its first argument is the induction variable, the rest are carried."""
        return self.body.block


@irdl_op_definition
class IfOp(IRDLOperation):
    """A branch; the second region is empty where there is no `else`."""

    name = "scf.if"
    traits = traits_def(RecursiveMemoryEffect())
    condition = operand_def()
    then_region = region_def()
    else_region = region_def()
    final = var_result_def()


@irdl_op_definition
class WhileOp(IRDLOperation):
    """`before` computes the condition, `after` is the body."""

    name = "scf.while"
    traits = traits_def(RecursiveMemoryEffect())
    initial = var_operand_def()
    before = region_def("single_block")
    after = region_def("single_block")
    final = var_result_def()


SCF = dialect("scf", sys.modules[__name__])
