"""How a record finds its card, its view and its figure: by its class.

Each subject has a file of this package, with its card and its live view. What a large view draws is
in a separate file `NAME_data.py`, and figures are in separate files, because they import
matplotlib. Functions say by the type of their first argument which records they are for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import ArgumentError, OptionError, suggestion
from kernellab.records.display import described
from kernellab.viz.kit.view import Card, View, card_of, view_of


def _import_cards() -> None:
    """Cards are registered when the first is asked for: figures need none of what they import."""
    import kernellab.viz.diagnostics
    import kernellab.viz.kernels
    import kernellab.viz.layouts  # noqa: F401


def _import_views() -> None:
    """Views are registered when the first is asked for, and with them the card of a sweep: other
    cards need neither xDSL nor the interpreter, whose import takes longer than a card.
    """
    _import_cards()
    import kernellab.viz.exercises
    import kernellab.viz.explorer
    import kernellab.viz.graphs
    import kernellab.viz.performance
    import kernellab.viz.profiles
    import kernellab.viz.stepper
    import kernellab.viz.sweeps  # noqa: F401


def card(record: Any) -> Card | None:
    """The card of a record; None if it has none."""
    _import_cards()
    if card_of.dispatch(type(record)) is card_of.dispatch(object):
        _import_views()
    return card_of(record)


def view(record: Any, *annotations: Any, **options: Any) -> View | Card:
    """The view of a record by itself; its card if it has no view."""
    _import_views()
    maker = view_of.dispatch(type(record))
    if annotations and not _takes_annotations(maker):
        takers = (
            kind.__name__ for kind, its in view_of.registry.items() if _takes_annotations(its)
        )
        raise ArgumentError(
            f"The view of {type(record).__name__} takes no evidence.",
            advice=f"Views that do: {', '.join(sorted(takers))}.",
        )
    _check_options(record, maker, options)
    made: View | Card = maker(record, *annotations, **options)
    return made


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    _import_views()
    has_view = view_of.dispatch(type(record)) is not view_of.dispatch(object)
    return has_view or card_of(record) is not None


def plot(record: Any, **options: Any) -> Any:
    """See `kernellab.records.display.plot`."""
    from kernellab.viz.kit.figure import figure_of

    maker = none = figure_of.dispatch(object)
    for name in ("layout_figure", "allocation_figure", "performance_figures"):  # by their imports
        if maker is none:
            importlib.import_module(f"kernellab.viz.{name}")
            maker = figure_of.dispatch(type(record))
    if maker is none:
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
                f"The {what} of {type(record).__name__} has no option {name!r}.",
                advice=suggestion(name, taken, "Its options are") if taken else f"Remove {name}=.",
            )
