"""How a record finds its card, its view and its figure: by its class, as each folder takes it.

Every folder has the same parts: `data.py`, what the live view draws; `view.py`, the live view;
`card.py`, the card, or still; `figure.py`, the figure. Functions say by the type of their first
argument which records they are for. A record without a part has no such module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

# Imported for what they register.
import kernellab.viz.accesses.card
import kernellab.viz.bisections.card
import kernellab.viz.comparisons.card
import kernellab.viz.diagnostics.card
import kernellab.viz.equality.card
import kernellab.viz.kernels.card
import kernellab.viz.layouts.card  # noqa: F401
from kernellab.errors import ArgumentError, OptionError, suggestion
from kernellab.records.display import described
from kernellab.viz.kit.card import Card, card_of
from kernellab.viz.kit.place import in_notebook
from kernellab.viz.kit.view import View, view_of


def _import_views() -> None:
    """Views are registered when the first is asked for, and with them the card of a sweep: other
    cards need neither xDSL nor the interpreter, whose import takes longer than a card.
    """
    import kernellab.viz.comparisons.view
    import kernellab.viz.estimates.card
    import kernellab.viz.exercises.card
    import kernellab.viz.explorer.view
    import kernellab.viz.graphs.card
    import kernellab.viz.graphs.view
    import kernellab.viz.layouts.view
    import kernellab.viz.profiles.card
    import kernellab.viz.stepper.view
    import kernellab.viz.sweeps.card
    import kernellab.viz.sweeps.view  # noqa: F401


def _import_figures() -> None:
    """Figures are registered when the first is asked for: matplotlib takes long to import."""
    import kernellab.viz.allocations.figure
    import kernellab.viz.estimates.figure
    import kernellab.viz.layouts.figure
    import kernellab.viz.profiles.figure
    import kernellab.viz.sweeps.figure  # noqa: F401


def card(record: Any) -> Card | None:
    """The card of a record; None where it has none."""
    if card_of.dispatch(type(record)) is card_of.dispatch(object):
        _import_views()
    return card_of(record)


def show(record: Any, *annotations: Any, **options: Any) -> View | Card:
    """See `kernellab.records.display.show`."""
    _import_views()
    maker = view_of.dispatch(type(record))
    if annotations and not _takes_annotations(maker):
        takers = [
            name.__name__ for name, its in view_of.registry.items() if _takes_annotations(its)
        ]
        raise ArgumentError(
            f"The view of {type(record).__name__} takes no evidence.",
            advice=f"Views that do: {', '.join(sorted(takers))}.",
        )
    _check_options(record, maker, options)
    view = maker(record, *annotations, **options)
    return view if isinstance(view, Card) else _joined(view, record)


def plain_view(record: Any, *annotations: Any) -> Any:
    """The view of a record by itself: who joins views to each other asks for it."""
    _import_views()
    return view_of(record, *annotations)


def _joined(view: View, record: Any) -> View:
    """A view that leads to others of the same launch, where there are some."""
    from kernellab.viz.launch_tabs import tab_of, tabs_for

    tabs = tabs_for(record)
    return view if tabs is None else tabs.add(tab_of(record), view)


def displayed(record: Any) -> View | None:
    """The live card of a record that leads to other views; None where a notebook shows the card
    as it is, or nothing shows widgets.
    """
    if not in_notebook():
        return None
    from kernellab.graphs.report import GraphReport

    if isinstance(record, GraphReport):
        from kernellab.viz.graphs.view import displayed as displayed_report

        return displayed_report(record)
    from kernellab.viz.launch_tabs import displayed

    return displayed(record)


def beside(view: View, record: Any) -> View:
    """A view of something that belongs to a record, with the record's other views beside it."""
    from kernellab.viz.launch_tabs import tabs_for

    tabs = tabs_for(record)
    return view if tabs is None else tabs.add("layouts", view)


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    _import_views()
    has_view = view_of.dispatch(type(record)) is not view_of.dispatch(object)
    return has_view or card_of(record) is not None


def plot(record: Any, **options: Any) -> Any:
    """See `kernellab.records.display.plot`."""
    _import_figures()
    from kernellab.viz.kit.figure import figure_of

    maker = figure_of.dispatch(type(record))
    if maker is figure_of.dispatch(object):
        raise ArgumentError(f"There is no figure of {described(record)}.")
    _check_options(record, maker, options, "figure")
    return maker(record, **options)


def _takes_annotations(maker: Callable[..., Any]) -> bool:
    kinds = (parameter.kind for parameter in inspect.signature(maker).parameters.values())
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _check_options(
    record: Any, maker: Callable[..., Any], options: Mapping[str, Any], what: str = "view"
) -> None:
    """Refuse, in the words of the call, what the view of a record does not take."""
    taken = [
        parameter.name
        for parameter in list(inspect.signature(maker).parameters.values())[1:]
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    for name in options:
        if name not in taken:
            raise OptionError(
                f"The {what} of {type(record).__name__} takes no {name!r}.",
                advice=suggestion(name, taken, "It takes") if taken else "It takes no options.",
            )
