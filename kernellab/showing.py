"""The way from a record to its view: records name their view, and import none of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import ArgumentError

_VIEWS: Mapping[str, tuple[str, str]] = {
    "kernellab.compiler.comparison.Comparison": ("kernellab.viz.explorer", "comparison_view"),
    "kernellab.errors.CompileError": ("kernellab.viz.explorer", "failure_view"),
    "kernellab.findings.Conversion": ("kernellab.viz.layout_view", "conversion_view"),
    "kernellab.findings.Layouts": ("kernellab.viz.layout_view", "layouts_view"),
    "kernellab.findings.TileLayout": ("kernellab.viz.layout_view", "tile_view"),
    "kernellab.layouts.kinds.Layout": ("kernellab.viz.layout_view", "layout_view"),
    "kernellab.records.Compilation": ("kernellab.viz.explorer", "compilation_view"),
    "kernellab.tracing.records.Trace": ("kernellab.viz.stepper", "stepper_of"),
    "kernellab.tuning.tunings.Tuning": ("kernellab.viz.tuning_view", "tuning_view"),
    "kernellab.tuning.tunings.Tunings": ("kernellab.viz.tuning_view", "tunings_view"),
}
"""A record's class -> module and name of the function that makes its view."""

_PLOTS: Mapping[str, tuple[str, str]] = {
    "kernellab.findings.SharedMemory": ("kernellab.viz.allocation_plot", "allocation_plot"),
    "kernellab.findings.TileLayout": ("kernellab.viz.layout_plot", "tile_plot"),
    "kernellab.layouts.kinds.Layout": ("kernellab.viz.layout_plot", "layout_plot"),
}
"""A record's class -> module and name of the function that makes its figure."""


_WITH_EVIDENCE = ("Compilation", "Comparison")
"""Records whose views take evidence."""


def show(record: Any, *evidence: Any, **wishes: Any) -> Any:
    """The view of a record: as the last expression of a cell it is displayed.

    Args:
        record: a `Compilation`, a `Comparison`, a `CompileError`, a `Trace`, a `Layout`, a tile's or all of a compilation's, a `Conversion`, a `Tuning`, `Tunings`.
        evidence: of a compilation, or two: what `kernellab.check`, `kernellab.accesses` and `kernellab.read_ncu` give. The explorer shows findings
            in its margin and numbers as bars.
        wishes: what the view of such a record takes.

    Raises:
        ArgumentError: nothing shows it, or evidence is of something else.
        ProfileError: a profile is of other machine code.
    """
    maker = _maker(_VIEWS, record)
    if maker is None:
        shown = ", ".join(name.rpartition(".")[2] for name in _VIEWS)
        raise ArgumentError(
            f"There is no view of a {type(record).__name__}.", advice=f"Views show: {shown}."
        )
    if evidence and not _takes_evidence(record):
        raise ArgumentError(
            f"The view of a {type(record).__name__} takes no evidence.",
            advice=f"Views that do: {', '.join(_WITH_EVIDENCE)}.",
        )
    return maker(record, *evidence, **wishes)


def _takes_evidence(record: Any) -> bool:
    return any(kind.__qualname__ in _WITH_EVIDENCE for kind in type(record).__mro__)


def plot(record: Any, **wishes: Any) -> Any:
    """The matplotlib figure of a record that has one: as the last expression of a cell it is displayed.

    Args:
        record: a `SharedMemory`, a `Layout` or a tile's.
        wishes: what the figure of such a record takes.
    """
    maker = _maker(_PLOTS, record)
    assert maker is not None, f"a {type(record).__name__} has no figure"
    return maker(record, **wishes)


def _maker(table: Mapping[str, tuple[str, str]], record: Any) -> Callable[..., Any] | None:
    """The function that a table names for a record's class, or for one that it derives from."""
    for kind in type(record).__mro__:
        found = table.get(f"{kind.__module__}.{kind.__qualname__}")
        if found is not None:
            module, name = found
            function: Callable[..., Any] = getattr(importlib.import_module(module), name)
            return function
    return None
