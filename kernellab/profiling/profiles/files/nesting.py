"""Intervals of time as a tree: those that lie in others are below them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from kernellab.profiling.profiles.growing import GrowingScope
from kernellab.profiling.profiles.records import COUNT, TIME, Scope, ScopeKind
from kernellab.profiling.profiles.trees import MOST_LEVELS


@dataclass(frozen=True)
class Interval:
    """An event that lasts, in nanoseconds."""

    name: str
    track: tuple[int, int]
    """Process and thread: events of two nest in none of the other's."""
    start: int
    end: int
    kind: ScopeKind = "scope"


def nested(intervals: Iterable[Interval]) -> Scope:
    """The tree of intervals: those of one name in one scope add up. A scope's own time is what none
    of those in it have.
    """
    root = GrowingScope("ROOT", "root")
    ordered = sorted(intervals, key=lambda one: (one.track, one.start, -one.end))
    for _, track in groupby(ordered, lambda one: one.track):
        above: list[tuple[Interval, GrowingScope]] = []
        for one in track:
            while (above and above[-1][0].end < one.end) or len(above) > MOST_LEVELS - 10:
                above.pop()
            inside = above[-1][1] if above else root
            scope = inside.child(one.name, one.kind)
            scope.add({TIME: one.end - one.start, COUNT: 1})
            if above:
                inside.add({TIME: one.start - one.end})
            above.append((one, scope))
    return root.grown()
