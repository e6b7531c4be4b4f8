"""Two profiles side by side: what one of them has more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.formatting import visible
from kernellab.errors import ArgumentError
from kernellab.profiling.profiles import metrics as expressions
from kernellab.profiling.profiles.metrics import Metric, Place
from kernellab.profiling.profiles.records import ProfileRecord, Scope
from kernellab.profiling.profiles.trees import totals_of
from kernellab.records.showing import HasCard, described, text_of
from kernellab.records.tables import frame_of

Path = tuple[str, ...]
"""The names of a scope and of those it is in, from the root down."""


@dataclass(frozen=True)
class DifferenceRow:
    """A scope of either profile, with a metric in both."""

    path: Path
    one: tuple[float, ...]
    """The metrics in the first profile; NaN where it has no such scope."""
    other: tuple[float, ...]

    @property
    def difference(self) -> tuple[float, ...]:
        """First less second; a scope that one of them lacks counts 0 there."""
        return tuple(_or_zero(a) - _or_zero(b) for a, b in zip(self.one, self.other, strict=True))


@dataclass(frozen=True)
class ProfileDifference(HasCard):
    """What `a - b` gives: the first profile's numbers less the second's, scope by scope. Rates and
    averages are computed in each, and then compared.
    """

    one: ProfileRecord
    other: ProfileRecord

    @classmethod
    def of(cls, one: ProfileRecord, other: Any) -> ProfileDifference:
        """Two profiles side by side.

        Raises:
            ArgumentError: the other is no profile.
        """
        if not isinstance(other, ProfileRecord):
            raise ArgumentError(
                f"a profile is compared with another, and this is {described(other)}",
                advice="Give what kernellab.profile or kernellab.load gave: a - b.",
            )
        return cls(one, other)

    @property
    def caution(self) -> str:
        """What makes the two incomparable; "" where nothing does."""
        if self.one.measured_by == self.other.measured_by:
            return ""
        return (
            f"The first is measured by {self.one.measured_by}, the second by "
            f"{self.other.measured_by}: their times are not of one kind."
        )

    def rows(self, metrics: Any = None) -> tuple[tuple[str, ...], list[DifferenceRow]]:
        """The names of the metrics, and the scopes of both, the first one's order first.

        Raises:
            OptionError: a metric that neither has.
        """
        both = Scope("", "root", {}, (self.one.root, self.other.root))
        asked = expressions.read(metrics, both, first_alone=metrics is None)
        here, there = (_values(one, asked) for one in (self.one, self.other))
        nothing = (math.nan,) * len(asked)
        found = [
            DifferenceRow(path, here.get(path, nothing), there.get(path, nothing))
            for path in dict.fromkeys([*here, *there])
        ]
        return tuple(one.text for one in asked), found

    def table(self, metrics: Any = None) -> Any:
        """One row per scope, as a pandas DataFrame: for each metric the difference, and both sides.

        Args:
            metrics: as for `Profile.table`; the first that there is by default.

        Raises:
            OptionError: a metric that neither has.
        """
        names, found = self.rows(metrics)
        columns = [
            column for name in names for column in (name, f"{name}, first", f"{name}, second")
        ]
        cells = [
            [
                one.path[-1],
                len(one.path) - 1,
                *(x for triple in zip(one.difference, one.one, one.other) for x in triple),
            ]
            for one in found
        ]
        return frame_of(cells, ["name", "depth", *columns])

    def tree(self, metrics: Any = None) -> str:
        """The differences as text, a line for each scope.

        Raises:
            OptionError: as `table`.
        """
        _, found = self.rows(metrics)
        return "\n".join(
            f"{'   ' * (len(one.path) - 1)}{' '.join(f'{x:+.3f}' for x in one.difference)} "
            f"{visible(one.path[-1])}"
            for one in found
        )

    def __str__(self) -> str:
        return text_of(self)


def _values(record: ProfileRecord, asked: tuple[Metric, ...]) -> Mapping[Path, tuple[float, ...]]:
    """The metrics of every scope by its path."""
    totals = totals_of(record.root)
    whole, devices = totals[id(record.root)], record.machine.devices
    found: dict[Path, tuple[float, ...]] = {}
    times: Counter[Path] = Counter()
    waiting: list[tuple[Scope, Path]] = [(record.root, ("ROOT",))]
    while waiting:
        scope, path = waiting.pop()
        place = Place(scope, totals[id(scope)], whole, devices)
        times[path] += 1
        if times[path] > 1:  # siblings may have one name
            path = (*path[:-1], f"{path[-1]} ({times[path]})")
        found[path] = tuple(one.of(place) for one in asked)
        waiting += [(child, (*path, child.name)) for child in reversed(scope.children)]
    return found


def _or_zero(number: float) -> float:
    return 0.0 if math.isnan(number) else number
