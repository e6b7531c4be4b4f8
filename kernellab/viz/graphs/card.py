"""The card of a report of torch.compile: graphs, breaks, kernels, and pairs that stayed apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernellab.common.formatting import counted
from kernellab.errors.positions import SourcePosition
from kernellab.graphs.report import GraphReport, ReportGraph
from kernellab.records.graphs import GraphCapture, Level
from kernellab.viz.kit.card import Card, Table, card_of

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
                "Graphs",
                ("", "FX", "ATen", "primitive", "buffers", "fused", "calls", "bytes moved"),
                [_graph_row(graph) for graph in report.graphs],
            ),
            Table(
                "Graph breaks",
                ("line", "", "because"),
                [
                    (str(one.position or ""), _line(made.sources, one.position), one.reason)
                    for one in made.breaks[:_MOST_ROWS]
                ],
            ),
            Table(
                "Calls, in order",
                ("", "bytes moved", "FLOPs", "lines of the model"),
                _shortened(_call_rows(report)),
            ),
            Table(
                "Not fused",
                ("pair", "bytes it would save", "because"),
                _shortened(_unfused_rows(report)),
            ),
        ),
        notes=tuple(_notes(report)),
    )


def _device(made: GraphCapture) -> str:
    return f"{made.gpu} ({made.target})" if made.gpu and made.target else made.gpu or made.target


def _notes(report: GraphReport) -> Iterator[str]:
    made = report.capture
    if made.error:
        yield f"It stopped: {made.error}"
    if made.frames or made.breaks:  # a folder of Inductor's says nothing of Dynamo
        yield (
            f"{counted(len(made.frames), 'Dynamo graph')}, "
            f"{counted(len(made.breaks), 'graph break')}, {counted(len(made.guards), 'guard')}, "
            f"{counted(len(made.recompilations), 'recompilation')}."
        )
    if any(call.moved_bytes is not None for graph in made.lowered for call in graph.launches):
        yield "Bytes and FLOPs are Inductor's own counts."
    yield from (f"Compiled again: {one.reason}" for one in made.recompilations)
    for one in made.breaks:
        yield from (f"{one.position}: {hint}" for hint in one.hints[:1])
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
    fused = sum(one.fused for one in lowered.fusions)
    moved = [one.moved_bytes for one in lowered.launches]
    return (
        f"{graph.direction} {lowered.number}",
        _size(graph.fx),
        _size(graph.aten),
        _size(graph.prims),
        str(len(lowered.loops) or ""),
        f"{fused} of {counted(len(lowered.fusions), 'pair')}" if lowered.fusions else "",
        str(len(lowered.launches)),
        _number(None if None in moved else sum(one for one in moved if one is not None)),
    )


def _size(level: Level) -> str:
    """How many nodes a level has; "" of one that is not there."""
    return "" if level.error else str(len(level.nodes))


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _call_rows(report: GraphReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for graph in report.graphs:
        for one in graph.lowered.launches:
            lines = graph.positions(one.name) if one.is_generated else ()
            where = ", ".join(str(position.line) for position in lines)
            rows.append((one.name, _number(one.moved_bytes), _number(one.flops), where))
    return rows


def _unfused_rows(report: GraphReport) -> list[tuple[str, ...]]:
    pairs = [
        one
        for graph in report.graphs
        for one in graph.lowered.fusions
        if not one.fused and one.saved_bytes > 0
    ]
    pairs.sort(key=lambda one: -one.saved_bytes)
    return [(f"{one.first}, {one.second}", f"{one.saved_bytes:,}", one.reason) for one in pairs]


def _shortened(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    if len(rows) <= _MOST_ROWS:
        return rows
    rest = f"and {len(rows) - _MOST_ROWS} more"
    return [*rows[:_MOST_ROWS], (rest, *[""] * (len(rows[0]) - 1))]


def _line(sources: Mapping[str, str], position: SourcePosition | None) -> str:
    """A line as the report has it: its file may be another's by now, or on another machine."""
    lines = sources.get(position.file, "").splitlines() if position else []
    return lines[position.line - 1].strip() if position and position.line <= len(lines) else ""
