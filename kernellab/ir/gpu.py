"""The one operation of the `gpu` dialect that Triton's front end puts into TTIR,
up to Triton 3.6.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, traits_def

from kernellab.ir.traits import Ordered


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """`tl.debug_barrier`: all threads of the program wait for each other."""

    name = "gpu.barrier"
    traits = traits_def(Ordered())
    address_spaces = opt_prop_def()


GPU = Dialect("gpu", [BarrierOp])
