"""The live view: an anywidget that finds the bundle, sent once for all views of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import ipywidgets
import traitlets

from kernellab.viz.kit.data import (
    DIGEST,
    LOADER,
    SCRIPT,
    STYLE,
    Answer,
    Handler,
    TabGroup,
    answer,
    as_json,
)


class SharedBundle(ipywidgets.Widget):
    """A model without a view: it holds the bundle that all views of this kernel are drawn by."""

    source = traitlets.Unicode(SCRIPT).tag(sync=True)
    style = traitlets.Unicode(STYLE).tag(sync=True)

    _current: SharedBundle | None = None

    @classmethod
    def current(cls) -> SharedBundle:
        """This kernel's bundle, made for its first view and after all widgets were closed."""
        if cls._current is None or is_closed(cls._current):
            cls._current = cls()
        return cls._current


def is_closed(widget: ipywidgets.Widget) -> bool:
    """Whether a widget was closed, by `close` or `Widget.close_all`."""
    return widget.comm is None


class ViewWidget(anywidget.AnyWidget):
    """A view in a notebook. Its data is sent once; what was left out is sent on request.

    A request has a kind and a number. It is first answered with `{"kind": "heard"}`, because a busy
    kernel receives it late, and then with the same kind and number and the result of that kind's
    handler.
    """

    _esm = LOADER
    bundle = traitlets.Instance(SharedBundle).tag(sync=True, **ipywidgets.widget_serialization)
    digest = traitlets.Unicode(DIGEST).tag(sync=True)
    data = traitlets.Bytes().tag(sync=True)
    tab_id = traitlets.Unicode().tag(sync=True)
    number = traitlets.Int(-1).tag(sync=True)
    tabs: Any = traitlets.List().tag(sync=True)

    def __init__(
        self,
        data: bytes,
        handlers: Mapping[str, Handler],
        tab_id: str = "",
        number: int = -1,
        group: TabGroup | None = None,
    ) -> None:
        """
        Args:
            handlers: what answers the requests of this kind of view; those for the bundle are
                answered here, those for other views of the same launch by `group`.
            number: the number of this view.
            group: the views of the same launch; None if there are no others.
        """
        others = {} if group is None else group.handlers
        self._handlers = {"bundle": _bundle, **handlers, **others}
        tabs = as_json([] if group is None else list(group.tabs))
        bundle = SharedBundle.current()
        super().__init__(data=data, bundle=bundle, tab_id=tab_id, number=number, tabs=tabs)
        self.on_msg(self._answer)

    def close(self) -> None:
        """Close it, and its layout, which is a widget that ipywidgets would keep forever."""
        if not is_closed(self):
            self.layout.close()
        super().close()

    def _answer(self, _: Any, request: Any, __: Any) -> None:
        if not isinstance(request, dict) or request.get("kind") not in self._handlers:
            return
        self.send({"kind": "heard", "request": request.get("request")})
        answered = answer(self._handlers, request)
        if answered is not None:
            labels = {"kind": request["kind"], "request": request.get("request")}
            self.send({**answered.content, **labels}, list(answered.buffers))


def _bundle(_: Mapping[str, Any]) -> Answer:
    """The bundle, for a front end that does not show a view the model that holds it."""
    return Answer({"source": SCRIPT, "style": STYLE})
