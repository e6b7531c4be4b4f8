"""The live views of a report of torch.compile: all levels, linked, and its card."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from html import escape

from kernellab.graphs.report import GraphReport
from kernellab.viz.graphs.card import graph_card
from kernellab.viz.graphs.data import GraphView
from kernellab.viz.graphs.levels import Levels
from kernellab.viz.graphs.rooms import CARD, GRAPH, GraphRooms, Maker
from kernellab.viz.kit.card import Table
from kernellab.viz.kit.data import Link
from kernellab.viz.kit.view import CardView, View, view_of


@view_of.register
def report_view(report: GraphReport) -> View:
    """Every level of a report, drawn and as text."""
    rooms = GraphRooms(report, _MAKERS)
    return rooms.add(GRAPH.room, levels_view(report, rooms))


class LevelsView(View):
    """The levels of a report, whose kernels lead to rooms; its still is the card, and a picture of
    the first graph.
    """

    def __init__(self, report: GraphReport, rooms: GraphRooms) -> None:
        """
        Args:
            report: what is shown.
            rooms: where its kernels are.
        """
        self._card = graph_card(report)
        self._levels = Levels(report, rooms.room_of)
        super().__init__(self._card.title, self._made, lambda: (self._card,))

    def _made(self) -> GraphView:
        found = self._levels.collect()
        return GraphView(
            kind="graph",
            title=self._card.title,
            subtitle=self._card.subtitle,
            notes=tuple(self._card.notes),
            texts=tuple(found.texts),
            levels=tuple(found.levels),
            chains=tuple(found.chains),
        )

    def still_html(self) -> str:
        """The card, and the graph as a picture."""
        return super().still_html() + self._picture()

    def _picture(self) -> str:
        from kernellab.viz.graphs.figure import MOST_BOXES, GraphPicture  # with matplotlib

        for chain in self.data.chains[:1]:
            for name in ("aten", "fx"):
                levels = (self.data.levels[number] for number in chain.levels)
                level = next((one for one in levels if one.name == name and one.names), None)
                if level is None:
                    continue
                drawn = GraphPicture(f"{self.title}, {chain.name}", level)
                if not 0 < len(drawn.outline.words) <= MOST_BOXES:
                    return ""
                source = base64.b64encode(drawn.png()).decode("ascii")
                return (
                    f'\n<img alt="{escape(drawn.alternative)}" style="max-width:100%" '
                    f'src="data:image/png;base64,{source}">'
                )
        return ""


def levels_view(report: GraphReport, rooms: GraphRooms) -> View:
    """The levels, whose kernels lead to rooms."""
    return LevelsView(report, rooms)


def card_view(report: GraphReport, rooms: GraphRooms) -> View:
    """The card of a report, with a way to its levels."""
    del rooms  # its links name them
    card = graph_card(report)
    way = Link(-1, "Explore", GRAPH.title, GRAPH.room, {})
    first, *others = card.tables or (Table("Graphs", (), ()),)
    return CardView(
        dataclasses.replace(card, tables=[dataclasses.replace(first, links=[way]), *others])
    )


def displayed(report: GraphReport) -> View:
    """The card as a notebook shows it."""
    rooms = GraphRooms(report, _MAKERS)
    return rooms.add(CARD.room, card_view(report, rooms))


_MAKERS: Mapping[str, Maker] = {CARD.room: card_view, GRAPH.room: levels_view}
