"""Two reports of torch.compile, kernel by kernel: what was added, is gone or changed, with bytes
and estimated times (`report.diff(other)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.common.progress import ProgressBar
from kernellab.errors import KernelLabError
from kernellab.graphs.kernels import GeneratedKernel, estimated_launches
from kernellab.records.display import PrintsAsCard, column_names, data_frame
from kernellab.records.graphs import GraphLaunch

if TYPE_CHECKING:
    from kernellab.graphs.report import GraphReport, ReportGraph


@dataclass(frozen=True)
class KernelChange:
    """A kernel, or an operation that torch calls, in two reports.

    Attributes:
        change: "added", "gone", "changed", or "same".
        graph: direction and number of its graph: "forward 0".
        before, after: its name; "" where a report does not have it.
        launches_before, launches_after: how often it is launched.
        bytes_before, bytes_after: what all its launches move, by Inductor's count; None where it is
            unknown.
        microseconds_before, microseconds_after: the estimated time of all its launches; None where
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
        """One row a kernel, as a pandas DataFrame."""
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
    pairs: list[tuple[_Used | None, _Used | None, str]] = []
    for alike, change in (
        (lambda known, other: (known.body or known.name) == (other.body or other.name), "same"),
        (lambda known, other: known.name == other.name, "changed"),
        (lambda known, other: known.stem == other.stem, "changed"),
        (lambda known, other: _overlap(known, other) > 0.5, "changed"),
    ):
        for known in [*before]:
            match = next((each for each in after if alike(known, each)), None)
            if match is not None:
                pairs.append((known, match, change))
                before.remove(known)
                after.remove(match)
    pairs += [(known, None, "gone") for known in before]
    pairs += [(None, other, "added") for other in after]
    order = ("added", "gone", "changed", "same")
    for first, second, change in sorted(pairs, key=lambda pair: order.index(pair[2])):
        differs = first and second and first.launches != second.launches
        yield KernelChange(
            "changed" if change == "same" and differs else change,
            graph,
            first.name if first else "",
            second.name if second else "",
            first.launches if first else 0,
            second.launches if second else 0,
            first.moved_bytes if first else 0,
            second.moved_bytes if second else 0,
            first.microseconds if first else _nothing(second),
            second.microseconds if second else _nothing(first),
        )


def _nothing(there: _Used | None) -> float | None:
    """Return the time of a kernel that only the other report has; None if times are unknown."""
    return None if there is None or there.microseconds is None else 0.0


def _overlap(known: _Used, other: _Used) -> float:
    """Return the share of the operations in the names of two kernels that both have."""
    parts = [set(each.stem.split("_")[2:]) if each.kernel else set() for each in (known, other)]
    return len(parts[0] & parts[1]) / max(len(parts[0] | parts[1]), 1)
