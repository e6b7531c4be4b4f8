"""Traces in Chrome's form, as Proton, torch's profiler and others write them: events over time, and
the tree that they nest in.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy

from kernellab.common.saved_files import BadFile, json_in, text_in
from kernellab.common.saved_json import Misfit
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import COUNT, TIME, Events, GrowingScope, Scope, ScopeKind
from kernellab.profiling.profiles.trees import MOST_LEVELS

_MOST_MICROSECONDS = 1e12
"""Of a time: it is counted in nanoseconds, in 64 bits."""


def is_chrome(content: bytes) -> bool:
    """Whether the bytes of a file are a trace in Chrome's form."""
    start = content[:64].lstrip()
    return start.startswith(b"{") and b'"traceEvents"' in content


def chrome_in(content: bytes, measured_by: str) -> Profile:
    """The profile in the bytes of a file: complete events, and those that begin and end.

    Raises:
        BadFile: they are not JSON, or larger than any trace.
        Misfit: they are not a trace.
    """
    document = json_in(text_in(content), len(content))
    given = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(given, list):
        raise Misfit("traceEvents should be a list")
    intervals = list(_intervals(given))
    notes = () if intervals else ("The trace has no event that lasts.",)
    return Profile(measured_by, nested(intervals), notes=notes, events=_events(intervals))


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
    ordered = sorted(
        intervals, key=lambda interval: (interval.track, interval.start, -interval.end)
    )
    for _, track in groupby(ordered, lambda interval: interval.track):
        above: list[tuple[Interval, GrowingScope]] = []
        for interval in track:
            while (above and above[-1][0].end < interval.end) or len(above) > MOST_LEVELS - 10:
                above.pop()
            inside = above[-1][1] if above else root
            scope = inside.child(interval.name, interval.kind)
            scope.add({TIME: interval.end - interval.start, COUNT: 1})
            if above:
                inside.add({TIME: interval.start - interval.end})
            above.append((interval, scope))
    return root.grown()


def _intervals(given: list[Any]) -> Iterator[Interval]:
    begun: defaultdict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    numbers: dict[str, int] = {}
    for event in given:
        if not isinstance(event, dict) or event.get("ph") not in ("X", "B", "E"):
            continue
        where = tuple(
            numbers.setdefault(f"{name} {event.get(name)!s:.100}", len(numbers))
            for name in ("pid", "tid")
        )
        place = _number(event.get("pid"), where[0]), _number(event.get("tid"), where[1])
        name, start = str(event.get("name", ""))[:1000], _nanoseconds(event.get("ts"))
        kind: ScopeKind = "kernel" if event.get("cat") == "kernel" else "scope"
        if event["ph"] == "X":
            yield Interval(name, place, start, start + _nanoseconds(event.get("dur", 0)), kind)
        elif event["ph"] == "B":
            begun[place].append((name, start))
        elif begun[place]:
            name, first = begun[place].pop()
            yield Interval(name, place, first, max(start, first), kind)


def _number(value: Any, otherwise: int) -> int:
    """A process's or a thread's number; that of its name where it has none."""
    return value if type(value) is int and 0 <= value < 2**31 else otherwise


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Misfit("ts and dur of an event should be numbers")
    if abs(value) > _MOST_MICROSECONDS * 1000:
        raise BadFile("is damaged: the time of an event is out of range")
    return round(value * 1000)


def _events(intervals: list[Interval]) -> Events | None:
    if not intervals:
        return None
    places: Mapping[str, int] = {
        name: place
        for place, name in enumerate(dict.fromkeys(interval.name for interval in intervals))
    }
    rows = [(*each.track, places[each.name], each.start, each.end) for each in intervals]
    program, warp, scope, start, end = numpy.array(rows, numpy.int64).T
    return Events(program, warp, scope, start, end, tuple(places), "ns")
