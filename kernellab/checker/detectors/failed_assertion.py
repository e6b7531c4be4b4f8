"""Find assertions of a kernel that are false."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.detector import Detector
from kernellab.ir import tt
from kernellab.ir.types import shape


class FailedAssertion(Detector):
    """Report elements for which a `tl.device_assert` is false; the run continues."""

    kinds = ("failed-assertion",)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is an assertion."""
        return isinstance(operation, tt.AssertOp)

    def computed(self, computed: Computed) -> None:
        """Check the assertion in every active program."""
        op = computed.operation
        assert isinstance(op, tt.AssertOp)
        rank = len(shape(op.condition.type))
        failed = ~numpy.asarray(computed.operands[0], numpy.bool_) & computed.taking_part(rank)
        if not failed.any():
            return

        def facts_of(_place: tuple[int, ...], _program: int) -> Mapping[str, Any]:
            message = "this assertion is false"
            if op.message.data:
                message += f": {op.message.data}"
            return {"kind": "failed-assertion", "message": message} | _ADVICE

        self.collector.report(computed, failed, rank, facts_of)


_ADVICE = {
    "advice": (
        "Check the values in the condition. With debug=True (or TRITON_DEBUG=1), a GPU stops here; "
        "without it, Triton removes the assertion and the kernel continues."
    )
}
