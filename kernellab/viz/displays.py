"""How notebooks and terminals show the lab's records, registered by name so that nothing is imported before it is shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_CARDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("kernellab.records.compilations", "Compilation"): ("kernellab.viz.card", "compilation_card"),
    ("kernellab.records.launches", "Launch"): ("kernellab.viz.card", "launch_card"),
    ("kernellab.records.machine_code", "Resources"): ("kernellab.viz.card", "resources_card"),
    ("kernellab.records.launches", "Run"): ("kernellab.viz.card", "run_card"),
    ("kernellab.checker.records", "Findings"): ("kernellab.viz.findings_card", "findings_card"),
    ("kernellab.findings", "Bisection"): ("kernellab.viz.bisection_card", "bisection_card"),
    ("kernellab.findings", "Conversions"): ("kernellab.viz.layout_card", "conversions_card"),
    ("kernellab.findings", "Layouts"): ("kernellab.viz.layout_card", "layouts_card"),
    ("kernellab.findings", "TileLayout"): ("kernellab.viz.layout_card", "tile_card"),
    ("kernellab.tuning.tuning", "Tuning"): ("kernellab.viz.tuning_card", "tuning_card"),
    ("kernellab.tuning.tunings", "Tunings"): ("kernellab.viz.tuning_card", "tunings_card"),
    ("kernellab.memory_costs.records", "Accesses"): ("kernellab.viz.access_card", "accesses_card"),
    ("kernellab.layouts.kinds", "RegisterLayout"): ("kernellab.viz.layout_card", "layout_card"),
    ("kernellab.layouts.kinds", "SharedLayout"): ("kernellab.viz.layout_card", "layout_card"),
    ("kernellab.layouts.kinds", "TensorMemoryLayout"): ("kernellab.viz.layout_card", "layout_card"),
    ("kernellab.compiler.comparison", "Comparison"): ("kernellab.viz.comparison_card", "comparison_card"),
}  # fmt: skip
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
