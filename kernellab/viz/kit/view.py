"""Views: one object with every representation, of which the front end takes the best
that it can show.

A live notebook gets the widget, a saved one the still, a terminal the text;
`to_html` writes a page that needs no kernel and no network.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, singledispatch
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import check_place, save_whole
from kernellab.errors import ArgumentError
from kernellab.records.display import described
from kernellab.viz.kit.card import Card, card_of
from kernellab.viz.kit.data import ViewData, packed
from kernellab.viz.kit.place import in_notebook
from kernellab.viz.kit.requests import Handler
from kernellab.viz.kit.tabs import TabGroup

_SENT_AT_ONCE = 1_000_000
"""Bytes of packed data that a widget sends; of more, the largest texts stay here until somebody
asks for them."""


_numbers = itertools.count()


class View:
    """Something to look at, made of data that the widget, the page and the still share."""

    def __init__(
        self, title: str, make_data: Callable[[], ViewData], still: Callable[[], Sequence[Card]]
    ) -> None:
        """
        Args:
            title: one line.
            make_data: makes what is drawn: a data class of its folder's `data.py`.
            still: makes the cards that stand for the view where nothing can be drawn.
        """
        self.title = title
        self._make_data = make_data
        self._make_still = still
        self._widget: Any = None
        self.number = next(_numbers)
        self.tab_id = ""
        """What other views of the same launch call this one."""
        self.tab_group: TabGroup | None = None
        """Those views, where there are any."""

    @cached_property
    def data(self) -> Any:
        """What is drawn: a data class of its folder's `data.py`."""
        return self._make_data()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What answers the requests of the live view, by their kinds."""
        return {}

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data as a widget sends it: where it would be more than so many bytes, what can
        be asked for later stays behind.
        """
        del most_bytes  # most views are small
        return packed(self.data)

    @cached_property
    def still(self) -> tuple[Card, ...]:
        """The view as cards: tables and text."""
        return tuple(self._make_still())

    @property
    def widget(self) -> Any:
        """The live view, an anywidget: the same one each time, until it is closed.
        It works on when this notebook's kernel is gone.
        """
        from kernellab.viz.kit.widget import ViewWidget, is_closed

        if self._widget is None or is_closed(self._widget):
            self._widget = ViewWidget(
                self.sent(), self.handlers, self.tab_id, self.number, self.tab_group
            )
        return self._widget

    def sent(self) -> bytes:
        """The packed data, as a widget sends it."""
        return self.lightened(_SENT_AT_ONCE)

    def to_html(self, path: str | os.PathLike[str], tabs: Sequence[str] | None = None) -> Path:
        """Write the view as one HTML file: no network, every interaction alive, every text in it.

        Args:
            path: the file's.
            tabs: the views of the same launch that are below it and are linked with it, as
                their bar names them: "ir", "steps", ... None for those that were opened.

        Returns the file's path.

        Raises:
            KernelLabError: the file cannot be written, or there is no such view.
        """
        from kernellab.viz.kit import page  # with pandas, which takes a while

        check_place(path)  # before the work of making it
        others = [] if self.tab_group is None else self.tab_group.chosen(tabs)
        sections = [page.Section("", self, ())]
        sections += [page.Section(tab.words, view, ()) for tab, view in others if view is not self]
        return save_whole(path, page.page_of_views(self.title, sections).encode())

    def still_html(self) -> str:
        """The still as HTML: tables and `pre`, no script."""
        return "\n".join(card.html() for card in self.still)

    def packed_data(self) -> bytes:
        """All data as a page embeds it."""
        return packed(self.data)

    def _ipython_display_(self) -> None:
        """Send a notebook two outputs: the still, and the widget,
        whose style sheet hides the still before it.

        One output with both types would be saved with the widget's type on top,
        and a front end without its model shows an error instead of the still.
        """
        if not in_notebook():
            raise NotImplementedError  # IPython then calls `_repr_mimebundle_`
        from IPython.display import publish_display_data

        live = self.widget._repr_mimebundle_()
        data, metadata = live if isinstance(live, tuple) else (live, {})
        hint = "Run the cell for the live view."
        publish_display_data({"text/plain": repr(self), "text/html": _STILL % self.still_html()})
        publish_display_data({**data, "text/plain": hint}, metadata)

    def _display_(self) -> Any:
        """What marimo shows, which takes a widget and asks for no other form."""
        return self.widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude  # IPython picks from what is given
        return {"text/plain": repr(self), "text/html": self.still_html()}

    def __repr__(self) -> str:
        return "\n\n".join(card.text() for card in self.still)


class CardView(View):
    """A card that is alive: its rows lead to other views."""

    def __init__(self, card: Card) -> None:
        super().__init__(card.title, card.data, lambda: (card,))


@singledispatch
def view_of(record: object) -> View | Card:
    """Return the view of a record, by its class; the card of a record that has no view.

    Functions that are registered here may take more: annotations, and options by name.

    Raises:
        ArgumentError: nothing shows it.
    """
    card = card_of(record)
    if card is not None:
        return card
    if hasattr(record, "fn") and hasattr(record, "arg_names"):
        name = getattr(record, "__name__", "kernel")
        raise ArgumentError(
            f"{name} is a kernel, which has no view before it is compiled or launched.",
            advice=f"kernellab.compile({name}, ...).explore() shows its compilation, as does "
            f"%tileir {name} in a notebook; kernellab.trace({name}, grid, ...) its steps.",
        )
    raise ArgumentError(f"There is no view of {described(record)}.", advice=_SHOWN)


_SHOWN = (
    "Views show what kernellab.compile, compare, trace, check, accesses, bisect, tune and load "
    "give, layouts, and the error of a compilation that failed."
)


_STILL = """<div class="kl-still"><style>
.jp-OutputArea-child:has(.kl-still) + .jp-OutputArea-child:not(:has(.kl-root, [data-mime-type])) { display: none; }
.jp-NotebookPanel .kl-still { animation: kl-still-waits 0.4s; }
@keyframes kl-still-waits { from, to { visibility: hidden; } }
</style>
%s
</div>"""
"""The still as a notebook saves it. Of the widget after it, which Jupyter has no model for, "model
not found" need not be read; and before a widget that does come, the still need not flash up. Where
styles are stripped nothing else changes."""
