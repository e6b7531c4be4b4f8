"""What `kernellab.graph` gives: every level between Python and the machine code of a GPU."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernellab.common.formatting import counted
from kernellab.errors import SourcePosition
from kernellab.graphs.calls import CapturedCall, call_of
from kernellab.graphs.candidates import candidate_kernels
from kernellab.graphs.generated import GeneratedKernel
from kernellab.records.graphs import (
    Bytecode,
    Fusion,
    GraphBreak,
    GraphCapture,
    GraphPass,
    Guard,
    Level,
    LoweredGraph,
    Recompilation,
)
from kernellab.records.showing import PrintsAsCard, show
from kernellab.records.tables import RowSequence

if TYPE_CHECKING:
    import pandas

    from kernellab.graphs.comparison import GraphComparison
    from kernellab.records.graph_results import Ablation, Speedups

T = TypeVar("T")


class Rows(RowSequence[T]):
    """Records, as a list and as a table."""

    _rows = "records"

    def __init__(self, rows: Sequence[T]) -> None:
        self.records = tuple(rows)

    def table(self) -> pandas.DataFrame:
        """One row a record."""
        import pandas

        return pandas.DataFrame([vars(row) for row in self])

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "none"


@dataclass(frozen=True, eq=False)
class ReportGraph:
    """One graph of a report, from Dynamo to kernels.

    Attributes:
        lowered: all that is recorded of it.
        fx: the graph as Dynamo captured it.
        joint: that and its gradient, before they are parted; None for a graph without.
        kernels: those that Inductor wrote for it.
        candidate_kernels: the templates among what max-autotune would choose from, each in its
            config, in the order of `lowered.candidates`.
    """

    lowered: LoweredGraph
    fx: Level
    joint: Level | None
    kernels: tuple[GeneratedKernel, ...]
    candidate_kernels: tuple[GeneratedKernel, ...] = ()

    @property
    def direction(self) -> str:
        """ "forward", "backward" or "inference"."""
        return self.lowered.direction

    @property
    def aten(self) -> Level:
        """As AOTAutograd gives it to Inductor, with Inductor's decompositions applied."""
        return self.lowered.aten

    @property
    def prims(self) -> Level:
        """In torch's primitive operations."""
        return self.lowered.prims

    @property
    def post_grad(self) -> Level:
        """After Inductor's passes: what is lowered to loops."""
        return self.lowered.post_grad

    @property
    def passes(self) -> tuple[GraphPass, ...]:
        """Inductor's FX passes, in order."""
        return self.lowered.passes

    @property
    def loop_ir(self) -> str:
        """Inductor's define-by-run IR of every buffer, before fusion."""
        return "\n\n".join(buffer.text for buffer in self.lowered.loops)

    @property
    def wrapper(self) -> str:
        """The code that allocates buffers and launches the kernels."""
        return self.lowered.wrapper

    @functools.cached_property
    def fusions(self) -> pandas.DataFrame:
        """The pairs that the scheduler considered: first, second, fused, reason, saved_bytes."""
        import pandas

        columns = list(Fusion.__dataclass_fields__)
        return pandas.DataFrame([vars(fusion) for fusion in self.lowered.fusions], columns=columns)

    @functools.cached_property
    def candidates(self) -> pandas.DataFrame:
        """What max-autotune would time for each product and attention of the graph: templates in
        each config, compiled, with registers, spills, shared memory and occupancy, and torch's own
        operation. They are compiled on first access; nothing is timed, and Inductor takes the
        first template. Empty unless `mode="max-autotune"`.
        """
        from kernellab.graphs.candidates import table_of

        return table_of(self.lowered.candidates, self.candidate_kernels)

    @functools.cached_property
    def launches(self) -> pandas.DataFrame:
        """What is launched, in order: name, is_generated, operations, moved_bytes, flops."""
        import pandas

        return pandas.DataFrame([vars(launch) for launch in self.lowered.launches])

    @property
    def error(self) -> str:
        """Where compilation stopped and why, or ""."""
        return self.lowered.error

    def positions(self, kernel: GeneratedKernel | str) -> tuple[SourcePosition, ...]:
        """Return the lines of the model that a kernel computes, where torch knows them.

        Args:
            kernel: a kernel of this graph, or its name.
        """
        name = kernel if isinstance(kernel, str) else kernel.name
        origins = {node for owned in self.kernels if owned.name == name for node in owned.origins}
        nodes = [node for node in self.post_grad.nodes if node.name in origins]
        positions = [node.position for node in nodes if node.position is not None]
        return tuple(dict.fromkeys(positions))

    def __repr__(self) -> str:
        kernels = counted(len(self.kernels), "kernel")
        return f"ReportGraph({self.direction}, {len(self.aten.nodes)} ATen nodes, {kernels})"


class GraphReport(PrintsAsCard):
    """Everything that torch.compile made of one call.

    Attributes:
        capture: the record, as it was captured or read from a file.
        call: the call that was captured; None of a report that was read from a file, or that a
            backend left.
    """

    def __init__(self, capture: GraphCapture, call: CapturedCall | None = None) -> None:
        """The report of a record."""
        self.capture = capture
        self.call = call

    @functools.cached_property
    def graphs(self) -> tuple[ReportGraph, ...]:
        """The graphs that were compiled, in the order in which they were."""
        frames = {frame.number: frame for frame in self.capture.frames}
        nothing = Level("fx", "", (), "not recorded")
        graphs = []
        for lowered in self.capture.lowered:
            frame = frames.get(lowered.number)
            kernels = tuple(
                GeneratedKernel(kernel_code, self.capture.target) for kernel_code in lowered.kernels
            )
            fx = frame.fx if frame is not None else nothing
            joint = frame.joint if frame is not None else None
            templates = candidate_kernels(lowered, self.capture.target)
            graphs.append(ReportGraph(lowered, fx, joint, kernels, templates))
        return tuple(graphs)

    @property
    def kernels(self) -> tuple[GeneratedKernel, ...]:
        """The kernels of all graphs."""
        return tuple(kernel for graph in self.graphs for kernel in graph.kernels)

    @property
    def breaks(self) -> Rows[GraphBreak]:
        """Where Dynamo stopped and went on in another graph: reason, line, what to change."""
        return Rows(self.capture.breaks)

    @property
    def guards(self) -> Rows[Guard]:
        """The conditions under which the code holds."""
        return Rows(self.capture.guards)

    @property
    def recompilations(self) -> Rows[Recompilation]:
        """What was compiled again, and why."""
        return Rows(self.capture.recompilations)

    @property
    def bytecode(self) -> Rows[Bytecode]:
        """Each function's bytecode, before and after Dynamo; resume functions too."""
        return Rows(self.capture.bytecode)

    @property
    def error(self) -> str:
        """What ended the capture before its end; "" where nothing did."""
        return self.capture.error

    def compare(
        self,
        run: str = "triton",
        *,
        kernels: Mapping[str, str] | None = None,
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> GraphComparison:
        """Run the call eager and compiled on the CPU, and say which node's value is the first that
        is off by more than rounding explains.

        Each node is given eager's values, so that it is judged by itself. Random numbers are drawn
        as eager torch draws them, also in the compiled code.

        Args:
            run: "triton": down to the generated kernels, on the interpreter; "aten": the graphs'
                operations alone, which is quicker.
            kernels: sources to try instead of Inductor's, by the kernel's name.
            decompositions: what to write operations out as instead, by "aten.gelu.default".

        Raises:
            ArgumentError: there is no such kernel or operation.
            NotRecorded: the report does not hold its call.
        """
        return call_of(self.call, "compare").compare(self.kernels, run, kernels, decompositions)

    def ablation(self, rounds: int = 7) -> Ablation:
        """The call compiled with all optimizations, without fusion, without inlining, with neither:
        kernels, launches, bytes moved, and, where this machine has a GPU, times on it.

        Args:
            rounds: turns of each on the GPU, of which the median counts.

        Raises:
            NotRecorded: the report does not hold its call.
        """
        return call_of(self.call, "ablation").ablation(rounds)

    def speedup(self, rounds: int = 7) -> Speedups:
        """The call's times on this machine's GPU: eager, aot_eager, Inductor without and with CUDA
        graphs, by turns.

        Args:
            rounds: turns of each, of which the median counts.

        Raises:
            NoGpu: this machine has none.
            NotRecorded: the report does not hold its call.
        """
        return call_of(self.call, "speedup").speedup(rounds)

    def explore(self) -> Any:
        """The view of every level: graphs drawn, texts linked line by line from the model to the
        kernels, the pairs that were fused or not. As the last expression of a cell it is displayed;
        its `to_html` writes a page.
        """
        return show(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to a file, which `kernellab.load` reads.

        Raises:
            ArchiveError: the file cannot be written.
        """
        from kernellab.graphs.files import save

        return save(self.capture, path)

    def __repr__(self) -> str:
        return f"GraphReport({self.capture.name}, {counted(len(self.graphs), 'graph')})"
