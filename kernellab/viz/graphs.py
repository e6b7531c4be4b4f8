"""The cards and live views of torch.compile: reports, comparisons, speedups."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from kernellab.common.text import counted, format_bytes
from kernellab.errors import KernelLabError
from kernellab.errors.sources import SourcePosition
from kernellab.graphs.kernels import (
    GeneratedKernel,
    GraphComparison,
    KernelChange,
    ReportDifference,
)
from kernellab.graphs.records import (
    Ablation,
    Accuracy,
    NodeDifference,
    ResultError,
    Speedups,
    times_text,
)
from kernellab.graphs.report import GraphReport, ReportGraph
from kernellab.records.graphs import Fusion, GraphCapture, Level, with_origins
from kernellab.viz.graph_data import GraphView
from kernellab.viz.graph_levels import Levels
from kernellab.viz.kit.data import At, Link, Tab, TabGroup, Tile
from kernellab.viz.kit.view import Card, CardView, Table, View, card_of, view_of

_MOST_ROWS = 12
"""Of a table; the report has all."""


@card_of.register
def graph_card(report: GraphReport) -> Card:
    """What was captured, where it broke, what is launched, and what was not fused."""
    made = report.capture
    return Card(
        title=made.name,
        subtitle=f"torch.compile for {_device(made)}, torch {made.torch_version}",
        tables=(
            Table(
                "Graph breaks",
                ("", "line", "", "because", "afterwards"),
                _shortened(_break_rows(report)),
            ),
            Table(
                "Graphs",
                ("", "FX", "ATen", "primitive", "buffers", "fused", "calls", "bytes moved"),
                [_graph_row(graph) for graph in report.graphs],
                numbers=(1, 2, 3, 4, 6, 7),
            ),
            Table(
                "Compiled again",
                ("function", "guard that failed", "values", "line", "to change"),
                _shortened(_recompilation_rows(report)),
            ),
            Table(
                "Symbolic sizes",
                ("", "size", "when compiled", "only if", "to change"),
                _shortened(_symbol_rows(report)),
            ),
            Table(
                "Calls, in order",
                ("", "bytes moved", "FLOPs", "lines of the model"),
                _shortened(_call_rows(report)),
                numbers=(1, 2),
            ),
            Table(
                "Written by your own kernels",
                ("kernel", "parameter", "tensor", "lines of the model"),
                _shortened(_mutation_rows(report)),
            ),
            Table(
                "Not fused",
                ("pair", "bytes it would save", "because"),
                _shortened(_unfused_rows(report)),
                numbers=(1,),
            ),
        ),
        notes=tuple(_notes(report)),
        tiles=tuple(_tiles(report)),
    )


def _tiles(report: GraphReport) -> Iterator[Tile]:
    """What is launched and moved, what was fused, and where the graph broke."""
    made = report.capture
    launches = [launch for graph in made.lowered for launch in graph.launches]
    if launches:
        own = sum(launch.is_generated for launch in launches)
        yield Tile("calls", str(len(launches)), f"{counted(own, 'generated kernel')} of them")
        moved = [launch.moved_bytes for launch in launches if launch.moved_bytes is not None]
        if moved:
            yield Tile("bytes moved", format_bytes(sum(moved)), "counted by Inductor")
    pairs = [fusion.fused for graph in made.lowered for fusion in graph.fusions]
    if pairs:
        yield Tile("fused", f"{sum(pairs)} of {counted(len(pairs), 'pair')}", share=mean(pairs))
    if made.frames or made.breaks:  # not if the capture failed before
        yield Tile(
            "graph breaks",
            str(len(made.breaks)),
            f"{counted(len(made.frames), 'Dynamo graph')}, {counted(len(made.guards), 'guard')}, "
            f"{counted(len(made.recompilations), 'recompilation')}",
            "warn" if made.breaks else "pass",
        )


def _device(made: GraphCapture) -> str:
    return f"{made.gpu} ({made.target})" if made.gpu and made.target else made.gpu or made.target


def _notes(report: GraphReport) -> Iterator[str]:
    made = report.capture
    if made.error:
        yield f"It stopped: {made.error}"
    for graph_break in made.breaks:
        yield from (f"{graph_break.position}: {hint}" for hint in graph_break.hints[:1])
    count = sum(len(graph.lowered.candidates) for graph in report.graphs)
    if count:
        yield (
            f"max-autotune would choose from {counted(count, 'candidate')}, which graph.candidates "
            "compiles; nothing is timed here, and the first template of each choice is taken."
        )
    for graph in report.graphs:
        if graph.error:
            yield f"The {graph.direction} graph {graph.lowered.number} stopped: {graph.error}"


def _graph_row(graph: ReportGraph) -> tuple[str, ...]:
    lowered = graph.lowered
    fused = sum(fusion.fused for fusion in lowered.fusions)
    moved = [launch.moved_bytes for launch in lowered.launches]
    return (
        f"{graph.direction} {lowered.number}",
        _size(graph.fx),
        _size(graph.aten),
        _size(graph.prims),
        str(len(lowered.loops) or ""),
        f"{fused} of {counted(len(lowered.fusions), 'pair')}" if lowered.fusions else "",
        str(len(lowered.launches)),
        _number(None if None in moved else sum(amount for amount in moved if amount is not None)),
    )


def _size(level: Level) -> str:
    """How many nodes a level has; "" of one that is not there."""
    return "" if level.error else str(len(level.nodes))


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _call_rows(report: GraphReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for graph in report.graphs:
        for launch in graph.lowered.launches:
            lines = graph.positions(launch.name) if launch.is_generated else ()
            where = ", ".join(str(position.line) for position in lines)
            rows.append((launch.name, _number(launch.moved_bytes), _number(launch.flops), where))
    return rows


def _break_rows(report: GraphReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, each in enumerate(report.breaks):
        inner = each.stack[-1] if each.stack else each.position
        where = "" if inner == each.position else f", in {inner}"
        line = _line(report.capture.sources, each.position)
        rest = each.rest or "Python runs the line, and another graph begins."
        rows.append((str(number), str(each.position or ""), line, f"{each.reason}{where}", rest))
    return rows


def _recompilation_rows(report: GraphReport) -> list[tuple[str, ...]]:
    return [
        (
            f"{recompilation.function} {recompilation.frame}",
            f"{failure.frame}: {failure.condition}" if failure.frame else failure.condition,
            failure.values,
            str(failure.position or ""),
            failure.advice,
        )
        for recompilation in report.recompilations
        for failure in recompilation.failures
    ]


def _symbol_rows(report: GraphReport) -> list[tuple[str, ...]]:
    return [
        (
            f"{symbol.frame} {symbol.name}",
            symbol.source or "depends on values",
            symbol.value,
            symbol.conditions,
            symbol.advice,
        )
        for symbol in report.symbols
    ]


def _mutation_rows(report: GraphReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for graph in report.graphs:
        positions = {node.name: node.position for node in graph.post_grad.nodes}
        for launch in graph.lowered.launches:
            for parameter, node in launch.mutated.items():
                position = positions.get(node)
                rows.append((launch.name, parameter, node, str(position.line) if position else ""))
    return rows


def _unfused_rows(report: GraphReport) -> list[tuple[str, ...]]:
    pairs = [
        (fusion, graph.lowered.loops)
        for graph in report.graphs
        for fusion in graph.lowered.fusions
        if not fusion.fused and fusion.saved_bytes > 0
    ]
    pairs = [(pair, loops) for pair, loops in pairs if not any(_within(pair, o) for o, _ in pairs)]
    pairs.sort(key=lambda pair: -pair[0].saved_bytes)
    return [
        (
            f"{with_origins(fusion.first, loops)}, {with_origins(fusion.second, loops)}",
            f"{fusion.saved_bytes:,}",
            fusion.reason,
        )
        for fusion, loops in pairs
    ]


def _within(pair: Fusion, other: Fusion) -> bool:
    """Whether another pair has the same operations and more: they were fused with others first."""
    first, second = ({*each.first.split("_"), *each.second.split("_")} for each in (pair, other))
    return first < second


def _shortened(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    if len(rows) <= _MOST_ROWS:
        return rows
    rest = f"and {len(rows) - _MOST_ROWS} more"
    return [*rows[:_MOST_ROWS], (rest, *[""] * (len(rows[0]) - 1))]


def _line(sources: Mapping[str, str], position: SourcePosition | None) -> str:
    """A line as the report has it: its file may be another's by now, or on another machine."""
    lines = sources.get(position.file, "").splitlines() if position else []
    return lines[position.line - 1].strip() if position and position.line <= len(lines) else ""


@card_of.register
def comparison_card(record: GraphComparison) -> Card:
    """The first difference in words, all of them, and what was compared."""
    how = "generated kernels, interpreted" if record.run == "triton" else "ATen operations"
    return Card(
        title=record.name,
        subtitle=f"eager torch and {how}, for {record.target}, node by node",
        tables=(
            Table(
                "Differences",
                ("node", "level", "line", "eager", "compiled", "wrong", "kernel"),
                [_difference_row(difference) for difference in record.differences[:_MOST_ROWS]],
            ),
            Table(
                "Compared",
                ("graph", "FX values and gradients", "nodes after passes", "buffers"),
                [
                    (
                        f"{each.direction} {each.number}",
                        *map(str, (each.fx, each.passes, each.buffers)),
                    )
                    for each in record.graphs
                ],
                numbers=(1, 2, 3),
            ),
        ),
        notes=tuple(_comparison_notes(record)),
    )


def _comparison_notes(record: GraphComparison) -> Iterator[str]:
    if record.error:
        yield f"It stopped: {record.error}"
    for graph in record.graphs:
        if graph.obstacle:
            which = f"The {graph.direction} graph {graph.number}"
            yield f"{which} was not compared whole: {graph.obstacle}"
    if record.first is not None:
        yield f"The first of {counted(len(record.differences), 'difference')}: {record.first}"
        if record.launch is not None:
            yield "comparison.trace().show() opens the kernel's launch at the first wrong element."
    elif record.graphs:
        yield "No value differs by more than rounding explains."
    else:
        yield "Nothing was compiled, so that nothing was compared."


def _difference_row(difference: NodeDifference) -> tuple[str, ...]:
    name = f"gradient of {difference.node}" if difference.is_gradient else difference.node
    line = "" if difference.position is None else str(difference.position.line)
    kernel = f"{difference.kernel}:{difference.line}" if difference.line else difference.kernel
    share = f"{difference.count:,} of {difference.size:,}"
    actual, expected = difference.texts
    return name, difference.level, line, expected, actual, share, kernel


@card_of.register
def accuracy_card(record: Accuracy) -> Card:
    """Each result against fp64, and the nodes at which the error grows most."""
    grown = sorted(record.nodes, key=lambda node: -node.growth)
    return Card(
        title=record.name,
        subtitle="eager torch and the compiled call, against fp64",
        tables=(
            Table(
                "Results",
                _RESULT_COLUMNS,
                [_result_row(result) for result in record.results[:_MOST_ROWS]],
            ),
            Table(
                "Where the error grows",
                ("node", "line", "calls", "error", "times its inputs' error"),
                [
                    (
                        node.node,
                        str(node.position or ""),
                        node.target,
                        f"{node.error:.2g}",
                        times_text(node.growth),
                    )
                    for node in grown[:_MOST_ROWS]
                    if node.growth > 1
                ],
                numbers=(3, 4),
            ),
        ),
        notes=tuple(_accuracy_notes(record)),
    )


_RESULT_COLUMNS = (
    "", "dtype", "largest element", "eager's error", "compiled", "between them", "ulp",
)  # fmt: skip


def _accuracy_notes(record: Accuracy) -> Iterator[str]:
    if record.error:
        yield f"It stopped: {record.error}"
    if record.units == math.inf:
        yield "Eager torch has an infinity or NaN in a result that is finite in fp64."
    elif record.results:
        yield (
            f"Eager torch is off by up to {times_text(record.units)} units in the last place (ulp) "
            "of a result's largest element."
        )
    if record.cause is not None:
        yield f"The error comes from {record.cause}."
    yield "Errors are those of the element that is furthest off; those of nodes are relative."


def _result_row(result: ResultError) -> tuple[str, ...]:
    errors = result.eager, result.compiled, result.apart
    return (
        str(result.result),
        result.dtype,
        f"{result.largest:.4g}",
        *("unknown" if error is None else f"{error:.3g}" for error in errors),
        f"{result.unit:.3g}",
    )


@card_of.register
def difference_card(record: ReportDifference) -> Card:
    """The kernels that differ, and the sums of all."""
    shown = [row for row in record.kernels if row.change != "same"]
    columns = ("", "graph", "before", "after", "launches", "bytes moved")
    has_times = any(row.microseconds_before or row.microseconds_after for row in record.kernels)
    rows = [_change_row(row)[: len(columns) + has_times] for row in shown[:_MOST_ROWS]]
    same = len(record.kernels) - len(shown)
    return Card(
        title=record.after,
        subtitle=f"compared with {record.before}",
        tables=(
            Table("Kernels", (*columns, "estimated us") if has_times else columns, rows),
            Table("Sums", ("", "before", "after"), list(_sum_rows(record))),
        ),
        notes=(*([f"{counted(same, 'kernel')} did not change."] if same else ()), *record.notes),
    )


def _change_row(change: KernelChange) -> tuple[str, ...]:
    return (
        change.change,
        change.graph,
        change.before,
        change.after,
        f"{change.launches_before} to {change.launches_after}",
        f"{_number(change.bytes_before)} to {_number(change.bytes_after)}",
        " to ".join(map(_microseconds, (change.microseconds_before, change.microseconds_after))),
    )


def _sum_rows(record: ReportDifference) -> Iterator[tuple[str, ...]]:
    for words, column in (("launches", "launches"), ("bytes moved", "bytes")):
        sums = [record.total(f"{column}_{when}") for when in ("before", "after")]
        yield words, *(_number(None if value is None else int(value)) for value in sums)
    sums = [record.total(f"microseconds_{when}") for when in ("before", "after")]
    if any(sums):
        yield "estimated us", *map(_microseconds, sums)


def _microseconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


@card_of.register
def speedups_card(record: Speedups) -> Card:
    """One row a mode."""
    return Card(
        title=record.name,
        subtitle=f"{record.direction} on {record.device}, torch {record.torch_version}",
        tables=(
            Table(
                "Time of a call",
                ("", "ms", "times as fast", "first call", "distance"),
                [
                    (
                        mode.mode,
                        _milliseconds(mode.milliseconds),
                        "" if mode.speedup is None else f"{mode.speedup:.2f}",
                        f"{mode.first_seconds:.1f} s",
                        "" if mode.distance is None else f"{mode.distance:.1e}",
                    )
                    for mode in record.modes
                ],
                numbers=(1, 2, 3, 4),
            ),
        ),
        notes=(
            f"Medians of {counted(record.rounds, 'turn')} each, one after the other. Distance: "
            "from eager's results, relative to their largest.",
            *(f"{mode.mode} failed: {mode.error}" for mode in record.modes if mode.error),
        ),
    )


@card_of.register
def ablation_card(record: Ablation) -> Card:
    """One row for each choice of optimizations."""
    times = (
        f"Times on {record.device}; eager torch {_milliseconds(record.eager_milliseconds)} ms."
        if record.device
        else "There are no times: torch sees no GPU on this machine."
    )
    return Card(
        title=record.name,
        subtitle=f"{record.direction}, what fusion and inlining are worth on {record.gpu}",
        tables=(
            Table(
                "Optimizations",
                ("", "kernels", "launches", "torch's calls", "bytes moved", "ms"),
                [
                    (
                        row.optimizations,
                        str(row.kernels),
                        str(row.launches),
                        str(row.calls),
                        f"{row.moved_bytes:,}",
                        _milliseconds(row.milliseconds),
                    )
                    for row in record.rows
                ],
                numbers=(1, 2, 3, 4, 5),
            ),
        ),
        notes=(
            f"{times} Bytes are Inductor's own count. Without inlining a node's value is stored, "
            "and not computed again in the loops of its users; without fusion each loop is a "
            "kernel.",
            *(f"{row.optimizations} stopped: {row.error}" for row in record.rows if row.error),
        ),
    )


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


# The live views of a report of torch.compile: its card, all levels, linked, and the IR of each
# of its kernels.

CARD = Tab("card", "Card", "Graphs, breaks, calls, and pairs that stayed apart")
GRAPH = Tab("graph", "Graph", "Every level, drawn and as text, linked by provenance")


class GraphTabs(TabGroup):
    """A tab for the card, one for the levels, one for each kernel, which a bar does not name."""

    def __init__(self, report: GraphReport) -> None:
        super().__init__()
        self._report = report
        self._kernels: dict[str, GeneratedKernel] = {}
        self._names: dict[tuple[int, str], str] = {}
        for number, graph in enumerate(report.graphs):
            for kernel in graph.kernels:
                if kernel.code.is_triton and kernel.target:
                    is_known = kernel.name in self._kernels
                    name = f"{kernel.name}@{number}" if is_known else kernel.name
                    self._kernels[name] = kernel
                    self._names[number, kernel.name] = name

    def tab_of(self, graph: int, kernel: str) -> str:
        """The tab_id of a kernel's IR; "" if the report does not hold the kernel."""
        return self._names.get((graph, kernel), "")

    @property
    def tabs(self) -> Sequence[Tab]:
        named = [Tab(name, name, "The kernel's IR", is_listed=False) for name in self._kernels]
        return [CARD, GRAPH, *named]

    def enter(self, tab_id: str, at: At) -> tuple[View, At]:
        if tab_id not in self._views:
            self.add(tab_id, self._made(tab_id))
        return self._views[tab_id], at

    def _made(self, tab_id: str) -> View:
        if tab_id == GRAPH.id:
            return _levels_view(self._report, self)
        if tab_id == CARD.id:
            card = graph_card(self._report)
            way = Link(-1, "Explore", GRAPH.title, GRAPH.id, {})
            tables = [
                dataclasses.replace(table, links=[way]) if table.title == "Graphs" else table
                for table in card.tables
            ]
            return CardView(dataclasses.replace(card, tables=tables))
        kernel = self._kernels.get(tab_id)
        if kernel is None:
            raise KernelLabError(f"The report has no kernel {tab_id!r}.")
        kernel.check_runs_unasked()
        from kernellab.viz.explorer import compilation_view

        return compilation_view(kernel.compilation)


def _levels_view(report: GraphReport, tabs: GraphTabs) -> View:
    """The levels of a report, whose kernels lead to tabs; its still is the card."""
    card = graph_card(report)

    def made() -> GraphView:
        collected = Levels(report, tabs.tab_of).collect()
        return GraphView(
            kind="graph",
            title=card.title,
            subtitle=card.subtitle,
            notes=tuple(card.notes),
            texts=tuple(collected.texts),
            levels=tuple(collected.levels),
            chains=tuple(collected.chains),
        )

    return View(card.title, made, lambda: (card,))


@view_of.register
def report_view(report: GraphReport) -> View:
    """Every level of a report, drawn and as text."""
    return GraphTabs(report).enter(GRAPH.id, {})[0]


def displayed(report: GraphReport) -> View:
    """The card as a notebook shows it."""
    return GraphTabs(report).enter(CARD.id, {})[0]
