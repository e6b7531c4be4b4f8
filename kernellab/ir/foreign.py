"""The few operations of other dialects that Triton's front end puts into TTIR."""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """`tl.assume`: what the compiler may take for true."""

    name = "llvm.intr.assume"
    condition = operand_def()
    op_bundle_sizes = opt_prop_def()
    op_bundle_tags = opt_prop_def()


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """`tl.debug_barrier`: the threads of a program wait for each other."""

    name = "ttg.barrier"
    address_space = opt_prop_def(prop_name="addrSpace")


@irdl_op_definition
class GpuBarrierOp(IRDLOperation):
    """`tl.debug_barrier` up to Triton 3.6."""

    name = "gpu.barrier"


LLVM = Dialect("llvm", [AssumeOp])
TTG = Dialect("ttg", [BarrierOp])
GPU = Dialect("gpu", [GpuBarrierOp])
