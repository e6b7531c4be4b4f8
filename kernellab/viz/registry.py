"""How a record finds its card, its view and its figure: by its class.

Each subject has a file of this package, with its card and its live view. What a large view draws is
in a separate file `NAME_data.py`, and figures are in separate files, because they import
matplotlib. Functions say by the type of their first argument which records they are for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

# Imported for what they register.
import kernellab.viz.diagnostics
import kernellab.viz.kernels
import kernellab.viz.layouts  # noqa: F401
from kernellab.errors import ArgumentError, OptionError, suggestion
from kernellab.records.display import described
from kernellab.viz.kit.view import Card, View, card_of, view_of


def _import_views() -> None:
    """Views are registered when the first is asked for, and with them the card of a sweep: other
    cards need neither xDSL nor the interpreter, whose import takes longer than a card.
    """
    import kernellab.viz.exercises
    import kernellab.viz.explorer
    import kernellab.viz.graphs
    import kernellab.viz.performance
    import kernellab.viz.profiles
    import kernellab.viz.stepper
    import kernellab.viz.sweeps  # noqa: F401


def _import_figures() -> None:
    """Figures are registered when the first is asked for: matplotlib takes long to import."""
    import kernellab.viz.allocation_figure
    import kernellab.viz.layout_figure
    import kernellab.viz.performance_figures  # noqa: F401


def card(record: Any) -> Card | None:
    """The card of a record; None where it has none."""
    if card_of.dispatch(type(record)) is card_of.dispatch(object):
        _import_views()
    return card_of(record)


def view(record: Any, *annotations: Any, **options: Any) -> View | Card:
    """The view of a record by itself; its card where it has no view."""
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
    made: View | Card = maker(record, *annotations, **options)
    return made


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
