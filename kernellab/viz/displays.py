"""How notebooks and terminals show the lab's records, registered by name so that nothing is imported before it is shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_CARDS: Mapping[str, str] = {
    "Compilation": "compilation_card",
    "Launch": "launch_card",
    "Resources": "resources_card",
    "Run": "run_card",
}
"""Name of a record -> the function of `viz.card` that shows it."""


def register(formatters: Any) -> None:
    """Teach IPython's display formatter (`shell.display_formatter`) the records."""
    for record, function in _CARDS.items():
        formatters.formatters["text/html"].for_type_by_name(
            "kernellab.records", record, _as_html(function)
        )
        formatters.formatters["text/plain"].for_type_by_name(
            "kernellab.records", record, _as_text(function)
        )


def unregister(formatters: Any) -> None:
    """Take back `register`."""
    for record in _CARDS:
        for kind in ("text/html", "text/plain"):
            formatters.formatters[kind].pop(f"kernellab.records.{record}", None)


def _card(function: str, record: Any) -> Any:
    return getattr(importlib.import_module("kernellab.viz.card"), function)(record)


def _as_html(function: str) -> Callable[[Any], str]:
    def html(record: Any) -> str:
        return str(_card(function, record).html())

    return html


def _as_text(function: str) -> Callable[[Any, Any, bool], None]:
    def text(record: Any, printer: Any, cycle: bool) -> None:
        # Inside a list or dict a record stays on one line.
        alone = len(printer.stack) <= 1 and not cycle
        printer.text(_card(function, record).text() if alone else repr(record))

    return text
