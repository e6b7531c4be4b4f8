"""What a kernel asserts of its values, and is false."""

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
    """Lanes in which a `tl.device_assert` does not hold; the run goes on."""

    kinds = ("failed-assertion",)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Assertions."""
        return isinstance(operation, tt.AssertOp)

    def computed(self, computed: Computed) -> None:
        """See whether it holds in every active program."""
        op = computed.operation
        assert isinstance(op, tt.AssertOp)
        failed = ~numpy.asarray(computed.operands[0], numpy.bool_)
        rank = len(shape(op.condition.type))
        if computed.active is not None:
            failed = failed & computed.active.reshape((-1,) + (1,) * rank)
        if not failed.any():
            return

        def facts_of(_place: tuple[int, ...], _program: int) -> Mapping[str, Any]:
            said = f": {op.message.data}" if op.message.data else ""
            return {"kind": "failed-assertion", "message": f"an assertion is false{said}"} | _ADVICE

        self.collector.report(computed, failed, rank, facts_of)


_ADVICE = {
    "advice": (
        "Look at the values that made the condition. Launched with debug=True (or TRITON_DEBUG=1) "
        "a GPU stops here; without it, Triton leaves the assertion out and the kernel goes on."
    )
}
