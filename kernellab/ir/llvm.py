"""The one operation of the `llvm` dialect that Triton's front end puts into TTIR."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, traits_def

from kernellab.ir.traits import Ordered


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """`tl.assume`: what the compiler may take for true."""

    name = "llvm.intr.assume"
    traits = traits_def(Ordered())
    condition = operand_def()
    op_bundle_sizes = opt_prop_def()
    op_bundle_tags = opt_prop_def()


LLVM = Dialect("llvm", [AssumeOp])
