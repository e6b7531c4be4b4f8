"""The views of a report: its card, its levels, and the IR of each of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernellab.common import doors
from kernellab.errors import KernelLabError
from kernellab.graphs.generated import GeneratedKernel
from kernellab.graphs.report import GraphReport
from kernellab.viz.kit.data import At, Door
from kernellab.viz.kit.rooms import Rooms
from kernellab.viz.kit.view import View

CARD = Door("card", "Card", "Graphs, breaks, calls, and pairs that stayed apart")
GRAPH = Door("graph", "Graph", "Every level, drawn and as text, linked by provenance")


Maker = Callable[[GraphReport, "GraphRooms"], View]


class GraphRooms(Rooms):
    """A room for the card, one for the levels, one for each kernel, which a bar does not name.

    Args:
        report: what they are of.
        makers: of the views of card and levels, by room.
    """

    def __init__(self, report: GraphReport, makers: Mapping[str, Maker]) -> None:
        super().__init__()
        self.report = report
        self._makers = makers
        self._views: dict[str, View] = {}
        self._kernels: dict[str, GeneratedKernel] = {}
        self._names: dict[tuple[int, str], str] = {}
        for number, graph in enumerate(report.graphs):
            for kernel in graph.kernels:
                if not kernel.code.is_triton or not kernel.target:
                    continue
                name = (
                    kernel.name if kernel.name not in self._kernels else f"{kernel.name}@{number}"
                )
                self._kernels[name] = kernel
                self._names[number, kernel.name] = name

    def room_of(self, graph: int, kernel: str) -> str:
        """The room of a kernel's IR; "" where the report does not hold the kernel."""
        return self._names.get((graph, kernel), "")

    @property
    def doors(self) -> Sequence[Door]:
        named = [Door(name, name, "The kernel's IR", is_listed=False) for name in self._kernels]
        return [CARD, GRAPH, *named]

    def add(self, room: str, view: View) -> View:
        """Let a view be that of a room."""
        view.room, view.rooms = room, self
        self._views[room] = view
        return view

    def enter(self, room: str, at: At) -> tuple[Any, At]:
        if room not in self._views:
            self.add(room, self._made(room))
        return self._views[room], at

    def _made(self, room: str) -> View:
        if room in self._makers:
            return self._makers[room](self.report, self)
        kernel = self._kernels.get(room)
        if kernel is None:
            raise KernelLabError(f"The report has no kernel {room!r}.")
        view = doors.views().plain_view(kernel.compilation)
        assert isinstance(view, View), "a compilation has a view"
        return view
