"""The way from a record to its view: records name their view, and import none of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_VIEWS: Mapping[str, tuple[str, str]] = {
    "kernellab.tracing.records.Trace": ("kernellab.viz.stepper", "stepper_of"),
}
"""A record's class -> module and name of the function that makes its view."""


def view_of(record: Any, **wishes: Any) -> Any:
    """The view of a record, made by the function that the table names for its class."""
    kind = type(record)
    module, name = _VIEWS[f"{kind.__module__}.{kind.__qualname__}"]
    return getattr(importlib.import_module(module), name)(record, **wishes)
