"""Traces in Chrome's form, as Proton, torch's profiler and others write them: events over time, and
the tree that they nest in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from kernellab.common.saved_files import BadFile, json_in, text_in
from kernellab.common.saved_json import Misfit
from kernellab.profiling.profiles.files.nesting import Interval, nested
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import Events, ScopeKind

_MOST_MICROSECONDS = 1e12
"""Of a time: it is counted in nanoseconds, in 64 bits."""


def is_chrome(content: bytes) -> bool:
    """Whether the bytes of a file are a trace in Chrome's form."""
    start = content[:64].lstrip()
    return start.startswith(b"{") and b'"traceEvents"' in content


def chrome_in(content: bytes, measured_by: str) -> Profile:
    """The profile in the bytes of a file: complete events, and those that begin and end.

    Raises:
        BadFile: they are no JSON, or more than any trace.
        Misfit: they are no trace.
    """
    found = json_in(text_in(content), len(content))
    given = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(given, list):
        raise Misfit("traceEvents should be a list")
    intervals = list(_intervals(given))
    notes = () if intervals else ("The trace has no event that lasts.",)
    return Profile(measured_by, nested(intervals), notes=notes, events=_events(intervals))


@dataclass
class _Track:
    """Events of one thread that began and have not ended."""

    begun: list[tuple[str, int]] = field(default_factory=list)


def _intervals(given: list[Any]) -> Iterator[Interval]:
    tracks: dict[tuple[int, int], _Track] = {}
    numbers: dict[str, int] = {}
    for one in given:
        if not isinstance(one, dict) or one.get("ph") not in ("X", "B", "E"):
            continue
        where = tuple(
            numbers.setdefault(f"{name} {one.get(name)!s:.100}", len(numbers))
            for name in ("pid", "tid")
        )
        place = _number(one.get("pid"), where[0]), _number(one.get("tid"), where[1])
        name, start = str(one.get("name", ""))[:1000], _nanoseconds(one.get("ts"))
        track = tracks.setdefault(place, _Track())
        kind: ScopeKind = "kernel" if one.get("cat") == "kernel" else "scope"
        if one["ph"] == "X":
            yield Interval(name, place, start, start + _nanoseconds(one.get("dur", 0)), kind)
        elif one["ph"] == "B":
            track.begun.append((name, start))
        elif track.begun:
            name, begun = track.begun.pop()
            yield Interval(name, place, begun, max(start, begun), kind)


def _number(value: Any, otherwise: int) -> int:
    """A process's or a thread's number; that of its name where it has none."""
    return value if type(value) is int and 0 <= value < 2**31 else otherwise


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Misfit("ts and dur of an event should be numbers")
    if abs(value) > _MOST_MICROSECONDS * 1000:
        raise BadFile("is damaged: an event is of no sane time")
    return round(value * 1000)


def _events(intervals: list[Interval]) -> Events | None:
    if not intervals:
        return None
    places: Mapping[str, int] = {
        name: place for place, name in enumerate(dict.fromkeys(one.name for one in intervals))
    }
    columns = [
        numpy.array(column, numpy.int64)
        for column in (
            [one.track[0] for one in intervals],
            [one.track[1] for one in intervals],
            [places[one.name] for one in intervals],
            [one.start for one in intervals],
            [one.end for one in intervals],
        )
    ]
    program, warp, scope, start, end = columns
    return Events(program, warp, scope, start, end, tuple(places), "ns")
