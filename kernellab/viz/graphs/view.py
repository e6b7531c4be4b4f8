"""The live views of a report of torch.compile: all levels, linked, and its card."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

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


def levels_view(report: GraphReport, rooms: GraphRooms) -> View:
    """The levels, whose kernels lead to rooms."""
    card = graph_card(report)

    def data() -> GraphView:
        found = Levels(report, rooms.room_of).collect()
        return GraphView(
            kind="graph",
            title=card.title,
            subtitle=card.subtitle,
            notes=tuple(card.notes),
            texts=tuple(found.texts),
            levels=tuple(found.levels),
            chains=tuple(found.chains),
        )

    return View(card.title, data, lambda: (card,))


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
