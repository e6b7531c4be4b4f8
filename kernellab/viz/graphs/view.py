"""The live views of a report of torch.compile: its card, all levels, linked, and the IR of each of
its kernels.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from html import escape
from typing import Any

from kernellab.common import upcalls
from kernellab.errors import KernelLabError
from kernellab.graphs.kernels import GeneratedKernel
from kernellab.graphs.report import GraphReport
from kernellab.viz.graphs.card import graph_card
from kernellab.viz.graphs.data import GraphView
from kernellab.viz.graphs.levels import Levels
from kernellab.viz.kit.card import Table
from kernellab.viz.kit.data import At, Link, Tab
from kernellab.viz.kit.tabs import TabGroup
from kernellab.viz.kit.view import CardView, View, view_of

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
        """The tab_id of a kernel's IR; "" where the report does not hold the kernel."""
        return self._names.get((graph, kernel), "")

    @property
    def tabs(self) -> Sequence[Tab]:
        named = [Tab(name, name, "The kernel's IR", is_listed=False) for name in self._kernels]
        return [CARD, GRAPH, *named]

    def enter(self, tab_id: str, at: At) -> tuple[Any, At]:
        if tab_id not in self._views:
            self.add(tab_id, self._made(tab_id))
        return self._views[tab_id], at

    def _made(self, tab_id: str) -> View:
        if tab_id == GRAPH.id:
            return LevelsView(self._report, self)
        if tab_id == CARD.id:
            return _card_view(self._report)
        kernel = self._kernels.get(tab_id)
        if kernel is None:
            raise KernelLabError(f"The report has no kernel {tab_id!r}.")
        view = upcalls.views().plain_view(kernel.compilation)
        assert isinstance(view, View), "a compilation has a view"
        return view


class LevelsView(View):
    """The levels of a report, whose kernels lead to tabs; its still is the card, and a picture of
    the first graph.
    """

    def __init__(self, report: GraphReport, tabs: GraphTabs) -> None:
        """
        Args:
            report: what is shown.
            tabs: where its kernels are.
        """
        self._card = graph_card(report)
        self._levels = Levels(report, tabs.tab_of)
        super().__init__(self._card.title, self._made, lambda: (self._card,))

    def _made(self) -> GraphView:
        collected = self._levels.collect()
        return GraphView(
            kind="graph",
            title=self._card.title,
            subtitle=self._card.subtitle,
            notes=tuple(self._card.notes),
            texts=tuple(collected.texts),
            levels=tuple(collected.levels),
            chains=tuple(collected.chains),
        )

    def still_html(self) -> str:
        """The card, and the graph as a picture."""
        return super().still_html() + self._picture()

    def _picture(self) -> str:
        from kernellab.viz.graphs.figure import MOST_BOXES, GraphPicture  # with matplotlib

        for chain in self.data.chains[:1]:
            for name in ("aten", "fx"):
                levels = (self.data.levels[number] for number in chain.levels)
                known = [level for level in levels if level.name == name and level.names]
                if not known:
                    continue
                drawn = GraphPicture(f"{self.title}, {chain.name}", known[0])
                if not 0 < len(drawn.outline.words) <= MOST_BOXES:
                    return ""
                source = base64.b64encode(drawn.png()).decode("ascii")
                return (
                    f'\n<img alt="{escape(drawn.alternative)}" style="max-width:100%" '
                    f'src="data:image/png;base64,{source}">'
                )
        return ""


def _card_view(report: GraphReport) -> View:
    """The card of a report, with a way to its levels."""
    card = graph_card(report)
    way = Link(-1, "Explore", GRAPH.title, GRAPH.id, {})
    first, *others = card.tables or (Table("Graphs", (), ()),)
    return CardView(
        dataclasses.replace(card, tables=[dataclasses.replace(first, links=[way]), *others])
    )


@view_of.register
def report_view(report: GraphReport) -> View:
    """Every level of a report, drawn and as text."""
    view: View = GraphTabs(report).enter(GRAPH.id, {})[0]
    return view


def displayed(report: GraphReport) -> View:
    """The card as a notebook shows it."""
    view: View = GraphTabs(report).enter(CARD.id, {})[0]
    return view
