"""The way from a record to its view: records name their view, and import none of it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import ArgumentError, OptionError, suggestion

_VIEWS: Mapping[str, tuple[str, str]] = {
    "kernellab.compiler.comparison.Comparison": ("kernellab.viz.explorer.view", "comparison_view"),
    "kernellab.errors.CompileError": ("kernellab.viz.explorer.view", "failure_view"),
    "kernellab.records.conversions.Conversion": ("kernellab.viz.layouts.view", "conversion_view"),
    "kernellab.records.tile_layouts.Layouts": ("kernellab.viz.layouts.view", "layouts_view"),
    "kernellab.records.tile_layouts.TileLayout": ("kernellab.viz.layouts.view", "tile_view"),
    "kernellab.records.layouts.kinds.Layout": ("kernellab.viz.layouts.view", "layout_view"),
    "kernellab.records.compilations.Compilation": (
        "kernellab.viz.explorer.view",
        "compilation_view",
    ),
    "kernellab.tracing.records.Trace": ("kernellab.viz.stepper.view", "stepper_of"),
    "kernellab.tuning.results.tuning.Tuning": ("kernellab.viz.sweeps.view", "tuning_view"),
    "kernellab.tuning.results.tunings.Tunings": ("kernellab.viz.sweeps.view", "tunings_view"),
}
"""A record's class -> module and name of the function that makes its view."""

_PLOTS: Mapping[str, tuple[str, str]] = {
    "kernellab.records.shared_memory.SharedMemory": (
        "kernellab.viz.allocations.figure",
        "allocation_plot",
    ),
    "kernellab.records.shared_memory.TensorMemory": (
        "kernellab.viz.allocations.figure",
        "allocation_plot",
    ),
    "kernellab.records.tile_layouts.TileLayout": ("kernellab.viz.layouts.figure", "tile_plot"),
    "kernellab.records.layouts.kinds.Layout": ("kernellab.viz.layouts.figure", "layout_plot"),
}
"""A record's class -> module and name of the function that makes its figure."""


_WITH_ANNOTATIONS = ("Compilation", "Comparison")
"""Records whose views take evidence."""


def show(record: Any, *annotations: Any, **options: Any) -> Any:
    """The view of a record: as the last expression of a cell it is displayed.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout`, a tile's
            or all of a compilation's, a `Conversion`, a `Tuning`, `Tunings`.
        annotations: of a compilation, or two: what `kernellab.check`, `kernellab.accesses`
            and `kernellab.read_ncu` give. The explorer shows findings in its margin and
            numbers as bars.
        options: what the view of such a record takes.

    A record that has no view of its own, such as what a check found, is shown as its card.

    Raises:
        ArgumentError: nothing shows it, or evidence is of something else.
        OptionError: its view takes no such option.
        ProfileError: a profile is of other machine code.
    """
    maker = _maker(_VIEWS, record) or _card_of
    if annotations and not _takes_annotations(record):
        raise ArgumentError(
            f"The view of {type(record).__name__} takes no evidence.",
            advice=f"Views that do: {', '.join(_WITH_ANNOTATIONS)}.",
        )
    _check_options(record, maker, options)
    return maker(record, *annotations, **options)


def can_show(record: Any) -> bool:
    """Whether `show` has a view, or a card, of such a record."""
    return _maker(_VIEWS, record) is not None or _card(record) is not None


def text_of(record: Any) -> str:
    """What `print` writes of a record that has a card: the card as text."""
    return str(_card(record).text())


def described(thing: Any) -> str:
    """What something is, by its class: "a Tensor", "an int"."""
    name = type(thing).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _card_of(record: Any) -> Any:
    card = _card(record)
    if card is not None:
        return card
    if hasattr(record, "fn") and hasattr(record, "arg_names"):
        name = getattr(record, "__name__", "kernel")
        raise ArgumentError(
            f"{name} is a kernel, which has no view before it is compiled or launched.",
            advice=(
                f"kernellab.compile({name}, ...).explore() shows its compilation, as does "
                f"%tileir {name} in a notebook; kernellab.trace({name}, grid, ...) its steps."
            ),
        )
    raise ArgumentError(f"There is no view of {described(record)}.", advice=_SHOWN)


_SHOWN = """Views show what kernellab.compile, compare, trace, check, accesses, bisect, tune and load give, layouts, \
and the error of a compilation that failed."""


def _card(record: Any) -> Any:
    """The card of a record, as a notebook displays it; None where it has none."""
    # By name, as views are: records and what is below them import no view.
    return importlib.import_module("kernellab.viz.displays").card_of(record)


def _check_options(record: Any, maker: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse, in the words of the call, what the view of a record does not take."""
    taken = [
        one.name
        for one in list(inspect.signature(maker).parameters.values())[1:]
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    for name in options:
        if name not in taken:
            raise OptionError(
                f"The view of {type(record).__name__} takes no {name!r}.",
                advice=suggestion(name, taken, "It takes") if taken else "It takes no options.",
            )


def _takes_annotations(record: Any) -> bool:
    return any(kind.__qualname__ in _WITH_ANNOTATIONS for kind in type(record).__mro__)


def plot(record: Any, **options: Any) -> Any:
    """The matplotlib figure of a record that has one:
    as the last expression of a cell it is displayed.

    Args:
        record: a `SharedMemory`, a `TensorMemory`, a `Layout` or a tile's.
        options: what the figure of such a record takes.
    """
    maker = _maker(_PLOTS, record)
    assert maker is not None, f"a {type(record).__name__} has no figure"
    return maker(record, **options)


def _maker(table: Mapping[str, tuple[str, str]], record: Any) -> Callable[..., Any] | None:
    """The function that a table names for a record's class, or for one that it derives from."""
    for kind in type(record).__mro__:
        found = table.get(f"{kind.__module__}.{kind.__qualname__}")
        if found is not None:
            module, name = found
            function: Callable[..., Any] = getattr(importlib.import_module(module), name)
            return function
    return None
