"""Trees of scopes: what is below each added up, some of them left out, and all of it as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.common.argument_checks import check_whole, is_real
from kernellab.common.formatting import shown, visible
from kernellab.errors import OptionError
from kernellab.profiling.profiles.metrics import Metric, Place, Totals
from kernellab.profiling.profiles.records import ProfileRecord, Scope
from kernellab.records.showing import plot

MOST_LEVELS = 200
"""Scopes within each other that a file may have."""


def totals_of(root: Scope) -> Mapping[int, Totals]:
    """`id` of each scope -> its metrics, and those of all below it, added up."""
    totals: dict[int, dict[str, float]] = {}
    for scope in reversed(list(root.walk())):  # children come before their parents
        total = dict(scope.metrics)
        for child in scope.children:
            for name, number in totals[id(child)].items():
                total[name] = total.get(name, 0) + number
        totals[id(scope)] = total
    return totals


@dataclass(frozen=True)
class Row:
    """A scope of a tree that is shown."""

    scope: Scope
    depth: int
    """0 for the root."""
    values: tuple[float, ...]
    """Of the metrics that were asked for; NaN for none."""
    totals: Totals
    lines: str
    """What is drawn before it: "│  ├─ "."""


@dataclass(frozen=True)
class Filter:
    """Which scopes of a tree are shown; None everywhere for all."""

    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    threshold: float | None = None
    depth: int | None = None


def filter_of(include: Any, exclude: Any, threshold: Any, depth: Any) -> Filter:
    """A filter of what somebody gave.

    Raises:
        OptionError: `include` or `exclude` is not a pattern, or `threshold` or `depth` is not a
            number.
    """
    if threshold is not None:
        if not is_real(threshold) or threshold != threshold:
            raise OptionError(
                f"threshold must be a number, got {shown(threshold)}.",
                advice="Give the smallest value of the first metric: threshold=0.1.",
            )
    if depth is not None:
        check_whole("depth", depth)
    return Filter(_pattern("include", include), _pattern("exclude", exclude), threshold, depth)


def _pattern(name: str, given: Any) -> re.Pattern[str] | None:
    if given is None:
        return None
    try:
        if not isinstance(given, str):
            raise ValueError("not a string")
        return re.compile(given)
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise OptionError(
            f"{name} must be a regular expression, got {shown(given)}: {error}.",
            advice=f'Pass a part of the names: {name}="matmul".',
        ) from error


def rows(record: ProfileRecord, metrics: Sequence[Metric], keep: Filter) -> list[Row]:
    """The scopes that are shown, from the root down."""
    root = filtered(record, metrics, keep)
    totals = totals_of(root)
    whole, devices = totals[id(root)], record.machine.devices
    listed: list[Row] = []
    waiting = [(root, 0, "", "")]
    while waiting:
        scope, depth, lines, below = waiting.pop()
        place = Place(scope, totals[id(scope)], whole, devices)
        values = tuple(metric.of(place) for metric in metrics)
        listed.append(Row(scope, depth, values, place.totals, lines))
        for number, child in enumerate(reversed(scope.children)):
            drawn = f"{below}{'└─ ' if number == 0 else '├─ '}"
            waiting.append((child, depth + 1, drawn, f"{below}{'   ' if number == 0 else '│  '}"))
    return listed


def filtered(record: ProfileRecord, metrics: Sequence[Metric], keep: Filter) -> Scope:
    """The tree without what a filter leaves out. What a pattern leaves out is gone; what is below
    a threshold or too deep counts in the scope above it.
    """
    root = record.root
    if keep == Filter():
        return root
    totals = totals_of(root)
    whole, devices = totals[id(root)], record.machine.devices

    def is_large(scope: Scope) -> bool:
        if keep.threshold is None or not metrics:
            return True
        return metrics[0].of(Place(scope, totals[id(scope)], whole, devices)) >= keep.threshold

    def kept(scope: Scope, depth: int, is_inside: bool) -> Scope | None:
        """The scope with what is kept below it; None where it goes. `is_inside` says whether a
        scope above it is included.
        """
        if keep.exclude is not None and keep.exclude.search(scope.name):
            return None
        is_inside = is_inside or keep.include is None or bool(keep.include.search(scope.name))
        inner, metrics = [], dict(scope.metrics)
        for child in scope.children:
            inside = kept(child, depth + 1, is_inside)
            if inside is None:
                continue
            is_deep = keep.depth is not None and depth + 1 > keep.depth
            if is_deep or not (inside.children or is_large(child)):
                for name, number in totals_of(inside)[id(inside)].items():
                    metrics[name] = metrics.get(name, 0) + number
            else:
                inner.append(inside)
        if not is_inside and not inner:
            return None
        return replace(scope, metrics=metrics, children=tuple(inner))

    return kept(root, 0, False) or replace(root, metrics={}, children=())


class TreeText(str):
    """The scopes of a profile as text, which a cell shows as it is; `.plot()` draws them."""

    __slots__ = ("_metric", "_record")

    _record: ProfileRecord
    _metric: str | None

    @classmethod
    def of(cls, record: ProfileRecord, metrics: Sequence[Metric], keep: Filter) -> TreeText:
        """The text of some scopes, with their metrics before them."""
        text = cls("\n".join(map(_line, rows(record, metrics, keep))))
        text._record = replace(record, root=filtered(record, metrics, keep))
        text._metric = metrics[0].text if metrics else None
        return text

    def plot(self) -> Any:
        """The flame graph of what the text says."""
        return plot(self._record, metric=self._metric)

    def __repr__(self) -> str:
        return str(self)


def _line(row: Row) -> str:
    numbers = " ".join(f"{value:.3f}" for value in row.values)
    return f"{row.lines}{numbers}{' ' if numbers else ''}{visible(row.scope.name)}"
