"""What `report.compare()` gives: where eager torch and what is compiled part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.errors import NotRecorded
from kernellab.graphs.generated import GeneratedKernel
from kernellab.records.graph_comparisons import ComparedGraph, Difference, WrongLaunch
from kernellab.records.showing import HasCard, text_of
from kernellab.records.tables import column_names, data_frame

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace


@dataclass(frozen=True, eq=False)
class GraphComparison(HasCard):
    """A call, eager and compiled, node by node.

    Attributes:
        name: of the function or module.
        target: the GPU that the code is for: "sm_90".
        run: "triton": generated kernels on the interpreter; "aten": the graphs' operations alone.
        graphs: what was compared.
        differences: in the order in which the graphs run; of each graph FX, passes, kernels.
        launch: of the first kernel among them; None where there is none.
        error: what ended the comparison; "" where nothing did.
    """

    name: str
    target: str
    run: str
    graphs: tuple[ComparedGraph, ...]
    differences: tuple[Difference, ...]
    launch: WrongLaunch | None
    error: str = ""

    @property
    def first(self) -> Difference | None:
        """The first difference; None where there is none."""
        return self.differences[0] if self.differences else None

    def table(self) -> Any:
        """One row a difference, as a pandas DataFrame."""
        return data_frame(self.differences, column_names(Difference))

    def trace(self, **options: Any) -> Trace:
        """The launch of the first kernel that gave a wrong value, step by step; the stepper opens
        where the first wrong element was written.

        Args:
            options: those of `kernellab.trace`.

        Raises:
            NotRecorded: no kernel gave one.
        """
        if self.launch is None:
            raise NotRecorded(
                "no generated kernel gave a wrong value, so that there is no launch to trace",
                advice="comparison.differences has what else differs, and on which node.",
            )
        from kernellab.tracing.tracing_run import trace

        kernel = GeneratedKernel(self.launch.kernel, self.target)
        given = {"expect": dict(self.launch.expected), "target": self.target, **options}
        return trace(kernel.tuner, None, *self.launch.arguments, **given)

    def __str__(self) -> str:
        return text_of(self)
