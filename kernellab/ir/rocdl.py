"""The operations of the `rocdl` dialect that TTGIR for AMD's GPUs has:
hints to the scheduler of instructions, and waits.
"""

from __future__ import annotations

import sys

from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def

from kernellab.ir.operation import dialect
from kernellab.ir.traits import Ordered


@irdl_op_definition
class SchedBarrierOp(IRDLOperation):
    """Kinds of instructions in `mask` may move across it, others not."""

    name = "rocdl.sched.barrier"
    traits = traits_def(Ordered())
    mask = prop_def()


@irdl_op_definition
class SchedGroupBarrierOp(IRDLOperation):
    """So many instructions of a kind next."""

    name = "rocdl.sched.group.barrier"
    traits = traits_def(Ordered())
    mask = prop_def()
    size = prop_def()
    group = prop_def(prop_name="groupId")


@irdl_op_definition
class SetPriorityOp(IRDLOperation):
    """The warp's priority among those of its SIMD."""

    name = "rocdl.s.setprio"
    traits = traits_def(Ordered())
    priority = prop_def()


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All warps of the program wait for each other."""

    name = "rocdl.s.barrier"
    traits = traits_def(Ordered())


@irdl_op_definition
class WaitCountOp(IRDLOperation):
    """Waits until at most so many accesses are under way."""

    name = "rocdl.s.waitcnt"
    traits = traits_def(Ordered())
    counts = opt_prop_def(prop_name="bitfield")


ROCDL = dialect("rocdl", sys.modules[__name__])
