"""Trees of scopes: what is below each added up, some of them left out, and all of it as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.common.argument_checks import check_whole, is_text
from kernellab.common.formatting import shown, visible
from kernellab.errors import OptionError
from kernellab.profiling.profiles.metrics import Metric, Place, Totals
from kernellab.profiling.profiles.records import ProfileRecord, Scope
from kernellab.records.showing import plot

MOST_LEVELS = 200
"""Scopes within each other that a file may have."""


def totals_of(root: Scope) -> Mapping[int, Totals]:
    """`id` of each scope -> its metrics, and those of all below it, added up."""
    found: dict[int, dict[str, float]] = {}
    for one in reversed(list(root.walk())):  # children come before their parents
        total = dict(one.metrics)
        for child in one.children:
            for name, number in found[id(child)].items():
                total[name] = total.get(name, 0) + number
        found[id(one)] = total
    return found


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
        OptionError: a pattern that is none, a threshold or a depth that is no number.
    """
    if threshold is not None:
        is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        if not is_number or math.isnan(threshold):
            raise OptionError(
                f"threshold={shown(threshold)} is no number.",
                advice="Give the least of the first metric: threshold=0.1.",
            )
    if depth is not None:
        check_whole("depth", depth)
    return Filter(_pattern("include", include), _pattern("exclude", exclude), threshold, depth)


def _pattern(name: str, given: Any) -> re.Pattern[str] | None:
    if given is None:
        return None
    try:
        if not is_text(given):
            raise ValueError("no text")
        return re.compile(given)
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise OptionError(
            f"{name}={shown(given)} is no regular expression: {error}.",
            advice=f'Give a part of the names that are meant: {name}="matmul".',
        ) from error


def rows(record: ProfileRecord, asked: Sequence[Metric], keep: Filter) -> list[Row]:
    """The scopes that are shown, from the root down."""
    root = filtered(record, asked, keep)
    totals = totals_of(root)
    whole, devices = totals[id(root)], record.machine.devices
    found: list[Row] = []
    waiting = [(root, 0, "", "")]
    while waiting:
        scope, depth, lines, below = waiting.pop()
        place = Place(scope, totals[id(scope)], whole, devices)
        values = tuple(one.of(place) for one in asked)
        found.append(Row(scope, depth, values, place.totals, lines))
        for number, child in enumerate(reversed(scope.children)):
            drawn = f"{below}{'└─ ' if number == 0 else '├─ '}"
            waiting.append((child, depth + 1, drawn, f"{below}{'   ' if number == 0 else '│  '}"))
    return found


def filtered(record: ProfileRecord, asked: Sequence[Metric], keep: Filter) -> Scope:
    """The tree without what a filter leaves out. What a pattern leaves out is gone; what is below
    a threshold or too deep counts in the scope above it.
    """
    root = record.root
    if keep == Filter():
        return root
    totals = totals_of(root)
    whole, devices = totals[id(root)], record.machine.devices

    def is_large(scope: Scope) -> bool:
        if keep.threshold is None or not asked:
            return True
        return asked[0].of(Place(scope, totals[id(scope)], whole, devices)) >= keep.threshold

    def kept(scope: Scope, depth: int, is_inside: bool) -> Scope | None:
        """The scope with what is kept below it; None where it goes. `is_inside` says whether a
        scope above it is included.
        """
        if keep.exclude is not None and keep.exclude.search(scope.name):
            return None
        is_inside = is_inside or keep.include is None or bool(keep.include.search(scope.name))
        inner, metrics = [], dict(scope.metrics)
        for child in scope.children:
            found = kept(child, depth + 1, is_inside)
            if found is None:
                continue
            is_deep = keep.depth is not None and depth + 1 > keep.depth
            if is_deep or not (found.children or is_large(child)):
                for name, number in totals_of(found)[id(found)].items():
                    metrics[name] = metrics.get(name, 0) + number
            else:
                inner.append(found)
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
    def of(cls, record: ProfileRecord, asked: Sequence[Metric], keep: Filter) -> TreeText:
        """The text of some scopes, with their metrics before them."""
        text = cls("\n".join(map(_line, rows(record, asked, keep))))
        text._record = replace(record, root=filtered(record, asked, keep))
        text._metric = asked[0].text if asked else None
        return text

    def plot(self) -> Any:
        """The flame graph of what the text says."""
        return plot(self._record, metric=self._metric)

    def __repr__(self) -> str:
        return str(self)


def _line(row: Row) -> str:
    numbers = " ".join(f"{value:.3f}" for value in row.values)
    return f"{row.lines}{numbers}{' ' if numbers else ''}{visible(row.scope.name)}"
