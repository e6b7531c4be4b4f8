"""How notebooks and terminals show the lab's records, registered by name
so that nothing is imported before it is shown.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_CARDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("kernellab.records.compilations", "Compilation"): (
        "kernellab.viz.explorer.card",
        "compilation_card",
    ),
    ("kernellab.records.launches", "Launch"): ("kernellab.viz.explorer.card", "launch_card"),
    ("kernellab.records.machine_code", "Resources"): (
        "kernellab.viz.explorer.card",
        "resources_card",
    ),
    ("kernellab.records.launches", "Run"): ("kernellab.viz.explorer.card", "run_card"),
    ("kernellab.checker.records", "Findings"): ("kernellab.viz.checks.card", "findings_card"),
    ("kernellab.records.bisections", "Bisection"): (
        "kernellab.viz.bisections.card",
        "bisection_card",
    ),
    ("kernellab.records.conversions", "Conversions"): (
        "kernellab.viz.layouts.card",
        "conversions_card",
    ),
    ("kernellab.records.tile_layouts", "Layouts"): ("kernellab.viz.layouts.card", "layouts_card"),
    ("kernellab.records.tile_layouts", "TileLayout"): ("kernellab.viz.layouts.card", "tile_card"),
    ("kernellab.tuning.results.tuning", "Tuning"): ("kernellab.viz.sweeps.card", "tuning_card"),
    ("kernellab.tuning.results.tunings", "Tunings"): ("kernellab.viz.sweeps.card", "tunings_card"),
    ("kernellab.profiling.accesses.records", "Accesses"): (
        "kernellab.viz.accesses.card",
        "accesses_card",
    ),
    ("kernellab.records.layouts.kinds", "RegisterLayout"): (
        "kernellab.viz.layouts.card",
        "layout_card",
    ),
    ("kernellab.records.layouts.kinds", "SharedLayout"): (
        "kernellab.viz.layouts.card",
        "layout_card",
    ),
    ("kernellab.records.layouts.kinds", "TensorMemoryLayout"): (
        "kernellab.viz.layouts.card",
        "layout_card",
    ),
    ("kernellab.compiler.comparison", "Comparison"): (
        "kernellab.viz.explorer.comparison_card",
        "comparison_card",
    ),
}
"""Module and name of a record -> module and name of the function that makes its card."""


def register(formatters: Any) -> None:
    """Teach IPython's display formatter (`shell.display_formatter`) the records."""
    for (module, record), function in _CARDS.items():
        formatters.formatters["text/html"].for_type_by_name(module, record, _as_html(function))
        formatters.formatters["text/plain"].for_type_by_name(module, record, _as_text(function))


def unregister(formatters: Any) -> None:
    """Take back `register`."""
    for module, record in _CARDS:
        for kind in ("text/html", "text/plain"):
            formatters.formatters[kind].pop(f"{module}.{record}", None)


def card_of(record: Any) -> Any:
    """The card of a record; None where it has none."""
    for kind in type(record).__mro__:
        function = _CARDS.get((kind.__module__, kind.__qualname__))
        if function is not None:
            return _card(function, record)
    return None


def _card(function: tuple[str, str], record: Any) -> Any:
    module, name = function
    return getattr(importlib.import_module(module), name)(record)


def _as_html(function: tuple[str, str]) -> Callable[[Any], str]:
    def html(record: Any) -> str:
        return str(_card(function, record).html())

    return html


def _as_text(function: tuple[str, str]) -> Callable[[Any, Any, bool], None]:
    def text(record: Any, printer: Any, cycle: bool) -> None:
        # Inside a list or dict a record stays on one line.
        alone = len(printer.stack) <= 1 and not cycle
        printer.text(_card(function, record).text() if alone else repr(record))

    return text
