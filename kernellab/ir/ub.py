"""The `ub` dialect: values that do not matter."""

from __future__ import annotations

import sys

from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect

from kernellab.ir.operation import dialect


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """A value that no correct program uses."""

    name = "ub.poison"
    traits = traits_def(NoMemoryEffect())
    value = opt_prop_def()
    result = result_def()


UB = dialect("ub", sys.modules[__name__])
