"""The tabs above a view: they lead to the other views of the same launch.

A live view sends {"kind": "open", "tab": "ir", "at": {"stage": "ptx"}}. The reply holds the data of
that tab's view and the place to show in it, because a place may have to be looked up first: the
step of a finding, for example. Later requests of the view arrive as {"kind": "within", "tab": "ir",
"inner": {...}} and go to the handlers of that view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kernellab.common.arguments import listed
from kernellab.common.text import shown
from kernellab.errors import KernelLabError, OptionError, suggestion
from kernellab.viz.kit.data import At, Tab, as_json
from kernellab.viz.kit.requests import Answer, Handler, answer

if TYPE_CHECKING:
    from kernellab.viz.kit.view import View

V = TypeVar("V", bound="View")


class TabGroup:
    """The views of one launch, linked with each other. A subclass defines which there are."""

    def __init__(self) -> None:
        self._views: dict[str, Any] = {}
        self._opened: dict[str, Any] = {}

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs, in the order in which the bar shows them."""
        raise NotImplementedError

    def add(self, tab_id: str, view: V) -> V:
        """Let a view be that of a tab."""
        view.tab_id, view.tab_group = tab_id, self
        self._views[tab_id] = view
        return view

    def enter(self, tab_id: str, at: At) -> tuple[Any, At]:
        """Return the view of a tab and the place in it that `at` refers to.

        The view is the same object as before, unless `at` needs more than it has.

        Raises:
            KernelLabError: there is no such view, or it cannot be made.
        """
        raise NotImplementedError

    def chosen(self, tab_ids: Sequence[str] | None) -> list[tuple[Tab, Any]]:
        """Return tabs with their views, in the order of the bar.

        Args:
            tab_ids: which tabs; None for those that were opened.

        Raises:
            OptionError: a tab does not exist.
            KernelLabError: a view cannot be made.
        """
        known = [tab.id for tab in self.tabs]
        names = self._opened if tab_ids is None else listed("tabs", tab_ids)
        for name in names:
            if name not in known:
                raise OptionError(
                    f"This view has no tab {shown(name)}.",
                    advice=suggestion(name, known, "There are"),
                )
        return [(tab, self.enter(tab.id, {})[0]) for tab in self.tabs if tab.id in names]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The functions that answer requests for other tabs, by kind."""
        return {"open": self._open, "within": self._within}

    def _open(self, request: Mapping[str, Any]) -> Answer:
        tab_id = str(request.get("tab"))
        if tab_id not in {tab.id for tab in self.tabs}:
            raise KernelLabError(f"This view has no tab {tab_id!r}.")
        view, place = self.enter(tab_id, _plain(request.get("at")))
        self._opened[tab_id] = view
        buffers = [] if request.get("shown") == view.number else [view.sent()]
        return Answer({"view": view.number, "at": as_json(place)}, buffers)

    def _within(self, request: Mapping[str, Any]) -> Answer:
        view = self._opened.get(str(request.get("tab")))
        reply = None if view is None else answer(view.handlers, request.get("inner"))
        if reply is None:
            raise KernelLabError("The view that this request is for is not open.")
        return reply


def _plain(at: Any) -> At:
    """Return a place that a front end sent with tuples for lists, and without invalid values."""
    if not isinstance(at, dict):
        return {}
    place: dict[str, int | str | tuple[int, ...]] = {}
    for name, value in at.items():
        if isinstance(value, list) and all(type(number) is int for number in value):
            place[str(name)] = tuple(value)
        elif type(value) in (int, str):
            place[str(name)] = value
    return place
