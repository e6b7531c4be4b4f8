"""The one operation of Proton's dialect, which a profile puts into TTGIR: read the clock."""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr, StringAttr, UnitAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def

from kernellab.ir.traits import Ordered


@irdl_op_definition
class RecordOp(IRDLOperation):
    """Each warp notes the clock, under a name; there is a start and an end of each name."""

    name = "proton.record"
    traits = traits_def(Ordered())
    scope = prop_def(StringAttr, prop_name="name")
    is_start = opt_prop_def(UnitAttr, prop_name="isStart")

    def __init__(self, scope: str, is_start: bool, location: LocationAttr) -> None:
        start = {"isStart": UnitAttr()} if is_start else {}
        super().__init__(properties={"name": StringAttr(scope), **start})
        self.location = location


PROTON = Dialect("proton", [RecordOp])
