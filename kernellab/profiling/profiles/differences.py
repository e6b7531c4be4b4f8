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
from kernellab.profiling.profiles.metrics import Metric
from kernellab.profiling.profiles.records import ProfileRecord, Scope
from kernellab.profiling.profiles.trees import Filter
from kernellab.profiling.profiles.trees import rows as rows_of
from kernellab.records.showing import PrintsAsCard, described
from kernellab.records.tables import frame_of

Path = tuple[str, ...]
"""The names of a scope and of those it is in, from the root down."""


@dataclass(frozen=True)
class DifferenceRow:
    """A scope of either profile, with a metric in both."""

    path: Path
    first: tuple[float, ...]
    """The metrics in the first profile; NaN where it has no such scope."""
    second: tuple[float, ...]

    @property
    def difference(self) -> tuple[float, ...]:
        """First less second; a scope that is missing in one of them counts 0 there."""
        return tuple(
            _or_zero(a) - _or_zero(b) for a, b in zip(self.first, self.second, strict=True)
        )


@dataclass(frozen=True)
class ProfileDifference(PrintsAsCard):
    """What `a - b` gives: the first profile's numbers less the second's, scope by scope. Rates and
    averages are computed in each, and then compared.
    """

    first: ProfileRecord
    second: ProfileRecord

    @classmethod
    def of(cls, first: ProfileRecord, second: Any) -> ProfileDifference:
        """Two profiles side by side.

        Raises:
            ArgumentError: the second is not a profile.
        """
        if not isinstance(second, ProfileRecord):
            raise ArgumentError(
                f"A profile is compared with another profile, got {described(second)}.",
                advice="Subtract results of kernellab.profile or kernellab.load: a - b.",
            )
        return cls(first, second)

    @property
    def caution(self) -> str:
        """What makes the two incomparable; "" where nothing does."""
        if self.first.measured_by == self.second.measured_by:
            return ""
        return (
            f"The first is measured by {self.first.measured_by}, the second by "
            f"{self.second.measured_by}: their times are not of one kind."
        )

    def rows(self, metrics: Any = None) -> tuple[tuple[str, ...], list[DifferenceRow]]:
        """The names of the metrics, and the scopes of both, the first one's order first.

        Raises:
            OptionError: a metric that neither has.
        """
        both = Scope("", "root", {}, (self.first.root, self.second.root))
        chosen = expressions.read(metrics, both, first_alone=metrics is None)
        here, there = (_values(record, chosen) for record in (self.first, self.second))
        nothing = (math.nan,) * len(chosen)
        rows = [
            DifferenceRow(path, here.get(path, nothing), there.get(path, nothing))
            for path in dict.fromkeys([*here, *there])
        ]
        return tuple(metric.text for metric in chosen), rows

    def table(self, metrics: Any = None) -> Any:
        """One row per scope, as a pandas DataFrame: for each metric the difference, and both sides.

        Args:
            metrics: as for `Profile.table`; the first that there is by default.

        Raises:
            OptionError: a metric that neither has.
        """
        names, rows = self.rows(metrics)
        columns = [
            column for name in names for column in (name, f"{name}, first", f"{name}, second")
        ]
        cells = [
            [
                row.path[-1],
                len(row.path) - 1,
                *(x for triple in zip(row.difference, row.first, row.second) for x in triple),
            ]
            for row in rows
        ]
        return frame_of(cells, ["name", "depth", *columns])

    def tree(self, metrics: Any = None) -> str:
        """The differences as text, a line for each scope.

        Raises:
            OptionError: as `table`.
        """
        _, rows = self.rows(metrics)
        return "\n".join(
            f"{'   ' * (len(row.path) - 1)}{' '.join(f'{x:+.3f}' for x in row.difference)} "
            f"{visible(row.path[-1])}"
            for row in rows
        )


def _values(record: ProfileRecord, metrics: tuple[Metric, ...]) -> Mapping[Path, tuple[float, ...]]:
    """The metrics of every scope by its path."""
    values: dict[Path, tuple[float, ...]] = {}
    times: Counter[Path] = Counter()
    path: Path = ()
    for row in rows_of(record, metrics, Filter()):
        path = (*path[: row.depth], row.scope.name if row.depth else "ROOT")
        times[path] += 1
        if times[path] > 1:  # siblings may have one name
            path = (*path[:-1], f"{path[-1]} ({times[path]})")
        values[path] = row.values
    return values


def _or_zero(number: float) -> float:
    return 0.0 if math.isnan(number) else number
