"""The result of `report.compare()`: where eager torch and the compiled call differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.errors import NotRecorded
from kernellab.graphs.generated import GeneratedKernel
from kernellab.records.graph_results import ComparedGraph, Difference, WrongLaunch
from kernellab.records.showing import PrintsAsCard
from kernellab.records.tables import column_names, data_frame

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace


@dataclass(frozen=True, eq=False)
class GraphComparison(PrintsAsCard):
    """A comparison of a call, eager and compiled, node by node.

    Attributes:
        name: the name of the function or module.
        target: the GPU that the code is for: "sm_90".
        run: "triton" for generated kernels on the interpreter; "aten" for the graphs' operations
            alone.
        graphs: the graphs that were compared.
        differences: the differences in the order in which the graphs run; for each graph, first
            those of FX, then of the passes, then of the kernels.
        launch: the launch of the first kernel with a wrong value, or None.
        error: the error that ended the comparison, or "".
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
        """The first difference, or None."""
        return self.differences[0] if self.differences else None

    def table(self) -> Any:
        """Return one row per difference, as a pandas DataFrame."""
        return data_frame(self.differences, column_names(Difference))

    def trace(self, **options: Any) -> Trace:
        """Trace the launch of the first kernel that computed a wrong value; the stepper opens where
        the first wrong element was written.

        Args:
            options: those of `kernellab.trace`.

        Raises:
            NotRecorded: no kernel computed a wrong value.
        """
        if self.launch is None:
            raise NotRecorded(
                "no generated kernel computed a wrong value, so there is no launch to trace",
                advice="comparison.differences shows the other differences and their nodes.",
            )
        from kernellab.tracing.tracing_run import trace

        kernel = GeneratedKernel(self.launch.kernel, self.target)
        given = {"expect": dict(self.launch.expected), "target": self.target, **options}
        return trace(kernel.tuner, None, *self.launch.arguments, **given)
