"""The kernels that Inductor writes: as kernels of KernelLab, the candidates of max-autotune, how
they run on the CPU, the comparison of their values with eager torch, and how those of two reports
differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.common.consent import cannot_request, is_trusted, request_consent
from kernellab.common.progress import ProgressBar
from kernellab.errors import KernelLabError, NotRecorded, OptionError
from kernellab.graphs.records import ComparedGraph, NodeDifference, WrongLaunch
from kernellab.records.display import PrintsAsCard, column_names, data_frame
from kernellab.records.graphs import Candidate, GraphCapture, GraphLaunch, KernelCode, LoweredGraph

if TYPE_CHECKING:
    import pandas

    from kernellab.compiler.compilations import Compilation
    from kernellab.compiler.targets import Gpu
    from kernellab.graphs.report import GraphReport, ReportGraph
    from kernellab.profiling.diagnosis.diagnose import Asked
    from kernellab.profiling.diagnosis.records import Diagnosis
    from kernellab.torch_api.capture import Made, Run
    from kernellab.tracing.records import Trace


# The kernels of a report: as Inductor writes them, and as kernels of KernelLab.


@dataclass(frozen=True, eq=False)
class GeneratedKernel:
    """A kernel that Inductor wrote, or the user's own, in the module that Inductor wrote for it.

    Attributes:
        code: the record of the kernel.
        target: the GPU that it was written for: "sm_90".
        is_written_here: whether this machine's Inductor wrote it for the user. A module from a file
            runs only with consent.
    """

    code: KernelCode
    target: str
    is_written_here: bool = False

    @property
    def name(self) -> str:
        """The function's name, or that of its variable in the code that launches it, where the
        graph has several kernels of that function.
        """
        return self.code.name

    @property
    def source(self) -> str:
        """The module as Inductor writes it, decorators included."""
        return self.code.source

    @property
    def origins(self) -> tuple[str, ...]:
        """The nodes of the post-grad graph that it computes."""
        return self.code.origins

    def diagnosed(self, request: Asked) -> Diagnosis:
        """Return why the kernel, compiled for its GPU, is slow; for `kernellab.diagnose`."""
        from kernellab.profiling.diagnosis.diagnose import diagnosis_of  # takes a second
        from kernellab.profiling.diagnosis.evidence import Evidence

        request.takes_nothing_of_a_launch("one of Inductor's kernels")
        return diagnosis_of(Evidence(self.compilation))

    @functools.cached_property
    def tuner(self) -> Any:
        """Inductor's own object, a `CachingAutotuner`, which every function of KernelLab accepts as
        a kernel. The first access executes its module; if that is from a file, it needs the
        reader's consent.

        Raises:
            OptionError: it is not a Triton kernel.
            ArgumentError: the module is from a file, and there is no consent to run it.
        """
        if not self.code.is_triton:
            raise OptionError(
                f"{self.name} is C++ for a CPU, not a Triton kernel.",
                advice="Read its text in kernel.source.",
            )
        if not self.is_written_here:
            request_consent(
                (self.source,), self.source, name=self.name, call=_CALL, trusting=_TRUSTING
            )
        from kernellab.torch_api.generated_code import kernel_in

        return kernel_in(self.source, self.code.function)

    def check_runs_unasked(self) -> None:
        """Raise ArgumentError if the module needs consent to run: a view cannot request it."""
        if not self.is_written_here and not is_trusted(self.source):
            raise cannot_request(
                self.name, _CALL, f"{_TRUSTING} report.kernels[0].tuner requests your consent."
            )

    @functools.cached_property
    def kernel(self) -> Any:
        """The kernel as a `TileKernel`: compile, run, trace, check, tune it."""
        from kernellab.launch.tile_kernel import TileKernel

        return TileKernel(self.tuner.fn.fn)

    @functools.cached_property
    def compilation(self) -> Compilation:
        """The kernel, compiled for its GPU with the first config that Inductor would try."""
        from kernellab.compiler.pipeline import compile as compile_kernel

        compilation = compile_kernel(self.tuner, target=self.target)
        assert not isinstance(compilation, dict)
        return compilation

    def __repr__(self) -> str:
        return f"GeneratedKernel({self.name})"


_CALL = "a kernel of this report"
_TRUSTING = "If you trust the file, open it by kernellab.load(path, trust=True)."


# The candidates of max-autotune, compiled for a GPU that this machine need not have.


_CHOICE = ("operation", "place", "name", "config", "is_template", "is_taken")
_MEASURED = ("registers", "spills", "shared_bytes", "occupancy", "error")


def candidate_kernels(
    graph: LoweredGraph, target: str, is_written_here: bool
) -> tuple[GeneratedKernel, ...]:
    """Return the templates among a graph's candidates as kernels of KernelLab."""
    templates = (each for each in graph.candidates if each.is_template)
    codes = (KernelCode(each.name, each.source, (), (), ()) for each in templates)
    return tuple(GeneratedKernel(code, target, is_written_here) for code in codes)


def table_of(
    candidates: Sequence[Candidate], kernels: Sequence[GeneratedKernel]
) -> pandas.DataFrame:
    """Return one row per candidate, and compile the templates.

    Args:
        candidates: the candidates of a graph.
        kernels: the templates among them, in order.
    """
    import pandas

    rows, remaining = [], iter(kernels)
    with ProgressBar("candidates", len(candidates), "kernels") as work:
        for candidate in candidates:
            facts: dict[str, Any] = {name: getattr(candidate, name) for name in _CHOICE}
            rows.append(facts | (_measured(next(remaining)) if candidate.is_template else {}))
            work.advance()
    return pandas.DataFrame(rows, columns=[*_CHOICE, *_MEASURED])


def _measured(kernel: GeneratedKernel) -> dict[str, Any]:
    """Return the resources of a template's machine code, or why it does not compile; Inductor
    leaves such templates out too.
    """
    try:
        resources, occupancy = kernel.compilation.resources, kernel.compilation.occupancy()
    except KernelLabError as error:
        return {"error": str(error).partition("\n")[0]}
    return {
        "registers": resources.registers,
        "spills": resources.spills,
        "shared_bytes": resources.shared_bytes,
        "occupancy": occupancy.warps / occupancy.most_warps,
        "error": "",
    }


# Inductor's generated code on the CPU, its Triton kernels on the interpreter.


def run_code(made: Made) -> Run:
    """Return a function that runs the generated code of a graph on CPU tensors."""
    from kernellab.torch_api.generated_code import callable_in

    return callable_in(made.lowering.wrapper, launch)


def launch(kernel: Any, args: Sequence[Any]) -> None:
    """Launch one of Inductor's kernels with the arguments of the generated code."""
    from kernellab.launch.tile_kernel import run
    from kernellab.torch_api.inductor import parted

    grid, values = parted(kernel, args)
    run(kernel, grid, *values)


# The estimated time of each launch of a graph.


def estimated_launches(
    graph: LoweredGraph, kernels: Sequence[GeneratedKernel], capture: GraphCapture
) -> Iterator[float | None]:
    """Yield the estimated microseconds of each launch of a graph, in order; None if an operation
    that torch calls has no count. Such an operation counts with the time that its bytes or its
    FLOPs take at the GPU's peak rates. Raises NotRecorded: the code is from a file, or has sizes
    that are symbols.
    """
    if not all(kernel.is_written_here for kernel in kernels):
        raise NotRecorded("The generated code was read from a file, which is not run for times.")
    gpu = _gpu_of(capture)
    launched = iter(_recorded_launches(graph))
    known = {kernel.code.function: kernel for kernel in kernels}
    nodes = {node.name: node for node in graph.post_grad.nodes}
    loops = {loop.operation: loop for loop in graph.loops}
    for launch_record in graph.launches:
        if not launch_record.is_generated:
            origins = [n for name in launch_record.operations for n in loops[name].origins]
            kinds = [nodes[name].dtype for name in origins if name in nodes]
            yield _at_peak(launch_record, gpu, kinds)
            continue
        tuner, grid, values = next(launched)
        kernel = known[tuner.fn.fn.__name__]
        estimated = kernel.compilation.estimate(grid, *values, gpu=gpu.name.lower())
        yield float(estimated.microseconds)


def _gpu_of(capture: GraphCapture) -> Gpu:
    from kernellab.compiler.targets import GPUS, usual_gpu

    gpu = GPUS.get(capture.gpu.lower()) or usual_gpu(capture.target)
    if gpu is None:
        raise NotRecorded(f"There are no peak rates of {capture.gpu or 'the GPU'}.")
    return gpu


def _at_peak(launch: GraphLaunch, gpu: Gpu, kinds: Sequence[str | None]) -> float | None:
    if launch.moved_bytes is None:
        return None
    is_half = not {"bfloat16", "float16"}.isdisjoint(kinds)
    rate = gpu.peak("16" if is_half else "fp32")
    return max(launch.moved_bytes / gpu.dram, (launch.flops or 0) / rate)


def _recorded_launches(graph: LoweredGraph) -> list[tuple[Any, Any, list[Any]]]:
    """Return kernel, grid and arguments of each launch of a graph's kernels: the generated code
    runs on tensors without values, and launches nothing.
    """
    import torch

    from kernellab.torch_api.generated_code import callable_in
    from kernellab.torch_api.inductor import launch_grid, parted

    launches: list[tuple[Any, Any, list[Any]]] = []

    def noted(tuner: Any, args: Sequence[Any]) -> None:
        grid, values = parted(tuner, args)
        launches.append((tuner, grid or launch_grid(tuner, values), list(values)))

    inputs = [node for node in graph.post_grad.nodes if node.opcode == "placeholder"]
    shapes = [node.shape for node in inputs]
    if any(shape is None or not all(isinstance(size, int) for size in shape) for shape in shapes):
        raise NotRecorded("sizes of the graph are symbols, which have no time.")
    made = []
    for node in inputs:
        sizes, dtype = map(int, node.shape or ()), getattr(torch, node.dtype or "")
        made.append(torch.empty([*sizes], dtype=dtype, device="meta"))
    callable_in(graph.wrapper, noted, device="meta")(made)
    return launches


# The result of `report.compare()`: where eager torch and the compiled call differ.


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
    differences: tuple[NodeDifference, ...]
    launch: WrongLaunch | None
    error: str = ""

    @property
    def first(self) -> NodeDifference | None:
        """The first difference, or None."""
        return self.differences[0] if self.differences else None

    def table(self) -> Any:
        """Return one row per difference, as a pandas DataFrame."""
        return data_frame(self.differences, column_names(NodeDifference))

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
                "No generated kernel computed a wrong value, so there is no launch to trace.",
                advice="comparison.differences shows the other differences and their nodes.",
            )
        from kernellab.tracing.launches import trace

        kernel = GeneratedKernel(self.launch.kernel, self.target, is_written_here=True)
        given = {"expect": dict(self.launch.expected), "target": self.target, **options}
        return trace(kernel.tuner, None, *self.launch.arguments, **given)


@dataclass(frozen=True)
class KernelChange:
    """A kernel, or an operation that torch calls, in two reports.

    Attributes:
        change: "added", "gone", "changed", or "same".
        graph: direction and number of its graph: "forward 0".
        before, after: its name; "" if a report does not have it.
        launches_before, launches_after: how often it is launched.
        bytes_before, bytes_after: what all its launches move, by Inductor's count; None if it is
            unknown.
        microseconds_before, microseconds_after: the estimated time of all its launches; None if
            it was not requested or cannot be estimated.
    """

    change: str
    graph: str
    before: str
    after: str
    launches_before: int
    launches_after: int
    bytes_before: int | None
    bytes_after: int | None
    microseconds_before: float | None
    microseconds_after: float | None


@dataclass(frozen=True)
class ReportDifference(PrintsAsCard):
    """The kernels of two reports.

    Attributes:
        before, after: what each report is of: function, GPU and version of torch.
        kernels: every kernel and operation of both, graph by graph.
        notes: what could not be compared.
    """

    before: str
    after: str
    kernels: tuple[KernelChange, ...]
    notes: tuple[str, ...] = ()

    def total(self, column: str) -> float | None:
        """Return the sum of a column of numbers, such as "bytes_after"; None if one is unknown."""
        values = [getattr(row, column) for row in self.kernels]
        return None if None in values else sum(values)

    def table(self) -> Any:
        """One row for each kernel, as a pandas DataFrame."""
        return data_frame(self.kernels, column_names(KernelChange))


@dataclass(frozen=True)
class _Used:
    """A kernel of a graph, or an operation that torch calls there, with all its launches."""

    name: str
    kernel: GeneratedKernel | None
    launches: int
    moved_bytes: int | None
    microseconds: float | None

    @property
    def stem(self) -> str:
        """The name without its number in the graph, which follows from the operations."""
        return re.sub(r"_\d+$", "", self.name)

    @property
    def body(self) -> str:
        """The function without its name; "" of an operation that torch calls."""
        if self.kernel is None:
            return ""
        function = self.kernel.code.function
        _, separator, body = self.kernel.source.partition(f"def {function}(")
        return body if separator else self.kernel.source


def difference(before: GraphReport, after: GraphReport, *, times: bool) -> ReportDifference:
    """Return the kernels of two reports, matched by code, then by name, then by operations.

    Args:
        before, after: the reports.
        times: whether to estimate the time of each launch, which takes about a second for each.
    """
    notes: dict[str, None] = {}
    known = [_graphs(report) for report in (before, after)]
    changes: list[KernelChange] = []
    for graph in dict.fromkeys([*known[0], *known[1]]):
        used = [
            list(_used(report, graphs[graph], times, notes)) if graph in graphs else []
            for report, graphs in zip((before, after), known, strict=True)
        ]
        changes += _matched(graph, *used)
    return ReportDifference(_title(before), _title(after), tuple(changes), tuple(notes))


def _title(report: GraphReport) -> str:
    made = report.capture
    return f"{made.name} for {made.gpu}, torch {made.torch_version}"


def _graphs(report: GraphReport) -> dict[str, ReportGraph]:
    """Return the graphs by direction and their number among those of that direction."""
    graphs: dict[str, ReportGraph] = {}
    for graph in report.graphs:
        number = sum(name.startswith(graph.direction) for name in graphs)
        graphs[f"{graph.direction} {number}"] = graph
    return graphs


def _used(
    report: GraphReport, graph: ReportGraph, times: bool, notes: dict[str, None]
) -> Iterator[_Used]:
    """Yield what a graph launches, each kernel and operation once."""
    launches = graph.lowered.launches
    took: Sequence[float | None] = [None] * len(launches)
    if times:
        try:
            took = _times(report, graph)
        except (KernelLabError, LookupError, RuntimeError) as problem:  # torch's are RuntimeErrors
            words = getattr(problem, "problem", None) or str(problem).partition("\n")[0]
            notes[f"No times of {_title(report)}, {graph.direction}: {words}"] = None
    kernels = {kernel.name: kernel for kernel in graph.kernels}
    groups: dict[str, list[tuple[GraphLaunch, float | None]]] = {}
    for launch, time in zip(launches, took, strict=True):
        groups.setdefault(launch.name, []).append((launch, time))
    for name, group in groups.items():
        moved = [launch.moved_bytes for launch, _ in group]
        spent = [time for _, time in group]
        yield _Used(
            name,
            kernels.get(name),
            len(group),
            None if None in moved else sum(each or 0 for each in moved),
            None if None in spent else sum(each or 0.0 for each in spent),
        )


def _times(report: GraphReport, graph: ReportGraph) -> list[float | None]:
    took = []
    with ProgressBar("estimate", len(graph.lowered.launches), "launches") as work:
        for time in estimated_launches(graph.lowered, graph.kernels, report.capture):
            took.append(time)
            work.advance()
    return took


def _matched(graph: str, before: list[_Used], after: list[_Used]) -> Iterator[KernelChange]:
    """Yield the kernels of a graph in two reports."""
    pairs: list[tuple[_Used, _Used, str]] = []
    for alike, change in (
        (lambda known, other: (known.body or known.name) == (other.body or other.name), "same"),
        (lambda known, other: known.name == other.name, "changed"),
        (lambda known, other: known.stem == other.stem, "changed"),
        (lambda known, other: _overlap(known, other) > 0.5, "changed"),
        (lambda known, other: _are_the_last(known, other, before, after), "changed"),
    ):
        for known in [*before]:
            match = next((each for each in after if alike(known, each)), None)
            if match is not None:
                pairs.append((known, match, change))
                before.remove(known)
                after.remove(match)
    pairs += [(known, _absent(known), "gone") for known in before]
    pairs += [(_absent(other), other, "added") for other in after]
    order = ("added", "gone", "changed", "same")
    for first, second, change in sorted(pairs, key=lambda pair: order.index(pair[2])):
        yield KernelChange(
            "changed" if change == "same" and first.launches != second.launches else change,
            graph,
            first.name,
            second.name,
            first.launches,
            second.launches,
            first.moved_bytes,
            second.moved_bytes,
            first.microseconds,
            second.microseconds,
        )


def _are_the_last(known: _Used, other: _Used, before: list[_Used], after: list[_Used]) -> bool:
    """Whether nothing else of the graph is left, as after an edit of one operation."""
    return [known] == before and [other] == after and bool(known.kernel) == bool(other.kernel)


def _absent(there: _Used) -> _Used:
    """Return what a report has in place of a kernel that only the other report has."""
    return _Used("", None, 0, 0, None if there.microseconds is None else 0.0)


def _overlap(known: _Used, other: _Used) -> float:
    """Return the share of the operations in the names of two kernels that both have."""
    parts = [set(each.stem.split("_")[2:]) if each.kernel else set() for each in (known, other)]
    return len(parts[0] & parts[1]) / max(len(parts[0] | parts[1]), 1)
