"""The views of records as a notebook displays them: a view leads to the others of its launch."""

from __future__ import annotations

from typing import Any

from kernellab.viz import registry
from kernellab.viz.kit.progress_bar import in_notebook
from kernellab.viz.kit.view import Card, View


def show(record: Any, *annotations: Any, **options: Any) -> View | Card:
    """See `kernellab.records.display.show`."""
    view = registry.view(record, *annotations, **options)
    return view if isinstance(view, Card) else _joined(view, record)


def _joined(view: View, record: Any) -> View:
    """A view that leads to others of the same launch, where there are some."""
    from kernellab.viz.launch_tabs import tab_of, tabs_for

    tabs = tabs_for(record)
    return view if tabs is None else tabs.add(tab_of(record), view)


def displayed(record: Any) -> View | None:
    """The live view of a profile, or the live card of a record that leads to other views; None
    where a notebook shows the card as it is, or nothing shows widgets.
    """
    if not in_notebook():
        return None
    # Imported here: a card outside a notebook, which most are, needs none of it.
    from kernellab.graphs.report import GraphReport
    from kernellab.profiling.profiles.profile import Profile
    from kernellab.viz import launch_tabs

    if isinstance(record, Profile):
        view = registry.view(record)
        assert isinstance(view, View), "a profile has one"
        return view

    if isinstance(record, GraphReport):
        from kernellab.viz.graphs import displayed as displayed_report

        return displayed_report(record)
    return launch_tabs.displayed(record)


def beside(view: View, record: Any) -> View:
    """A view of something that belongs to a record, with the record's other views beside it."""
    from kernellab.viz.launch_tabs import tabs_for

    tabs = tabs_for(record)
    return view if tabs is None else tabs.add("layouts", view)
