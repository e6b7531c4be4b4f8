"""Profiles from files: our own form, Proton's, Chrome's."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import Any, Literal, cast

import numpy

from kernellab.common.saved_files import (
    BadFile,
    RecordReader,
    SavedData,
    SchemaError,
    json_in,
    reading,
    text_in,
)
from kernellab.common.text import shown
from kernellab.profiling.profiles import records
from kernellab.profiling.profiles.profile import FORMAT, Profile
from kernellab.profiling.profiles.trees import MOST_LEVELS

_MOST_MICROSECONDS = 1e12
"""Of a time: it is counted in nanoseconds, in 64 bits."""


def chrome_in(content: bytes, measured_by: str) -> Profile:
    """The profile in the bytes of a file: complete events, and those that begin and end.

    Raises:
        BadFile: they are not JSON, or larger than any trace.
        SchemaError: they are not a trace.
    """
    document = json_in(text_in(content), len(content))
    given = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(given, list):
        raise SchemaError(f"traceEvents must be a list, got {shown(given)}")
    intervals = list(_intervals(given))
    notes = () if intervals else ("The trace has no event that lasts.",)
    return Profile(measured_by, nested(intervals), notes=notes, events=_events_of_chrome(intervals))


@dataclass(frozen=True)
class Interval:
    """An event that lasts, in nanoseconds."""

    name: str
    track: tuple[int, int]
    """Process and thread: events of two nest in none of the other's."""
    start: int
    end: int
    kind: records.ScopeKind = "scope"


def nested(intervals: Iterable[Interval]) -> records.Scope:
    """The tree of intervals; equal names in one scope add up, less what those inside have."""
    root = records.GrowingScope("ROOT", "root")
    ordered = sorted(
        intervals, key=lambda interval: (interval.track, interval.start, -interval.end)
    )
    for _, track in groupby(ordered, lambda interval: interval.track):
        above: list[tuple[Interval, records.GrowingScope]] = []
        for interval in track:
            while (above and above[-1][0].end < interval.end) or len(above) > MOST_LEVELS - 10:
                above.pop()
            inside = above[-1][1] if above else root
            scope = inside.child(interval.name, interval.kind)
            scope.add({records.TIME: interval.end - interval.start, records.COUNT: 1})
            if above:
                inside.add({records.TIME: interval.start - interval.end})
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
        kind: records.ScopeKind = "kernel" if event.get("cat") == "kernel" else "scope"
        if event["ph"] == "X":
            yield Interval(name, place, start, start + _nanoseconds(event.get("dur", 0)), kind)
        elif event["ph"] == "B":
            begun[place].append((name, start))
        elif begun[place]:
            name, first = begun[place].pop()
            yield Interval(name, place, first, max(start, first), kind)


def _number(value: Any, otherwise: int) -> int:
    """A process's or a thread's number; that of its name if it has none."""
    return value if type(value) is int and 0 <= value < 2**31 else otherwise


def _nanoseconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"ts and dur of an event must be numbers, got {shown(value)}")
    if abs(value) > _MOST_MICROSECONDS * 1000:
        raise BadFile("is damaged: the time of an event is out of range")
    return round(value * 1000)


def _events_of_chrome(intervals: list[Interval]) -> records.Events | None:
    if not intervals:
        return None
    places: Mapping[str, int] = {
        name: place
        for place, name in enumerate(dict.fromkeys(interval.name for interval in intervals))
    }
    rows = [(*each.track, places[each.name], each.start, each.end) for each in intervals]
    program, warp, scope, start, end = numpy.array(rows, numpy.int64).T
    return records.Events(program, warp, scope, start, end, tuple(places), "ns")


# Proton's profiles: the JSON that llnl-hatchet reads as a literal, a list of trees, the second
# of which has the devices.

_METADATA = "__proton_launch_metadata"
"""Proton's scope of a kernel's `launch_metadata`; proton-viewer leaves it out too."""

_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d{1,9})(@(?P<function>[^:]*))?")
"""A frame of Python, or a line of a kernel: "k.py:12@matmul"."""

SAMPLES = "num_samples"
_LARGEST = 1e300


def hatchet_in(content: bytes, measured_by: str) -> Profile:
    """The profile in the bytes of a file.

    Raises:
        BadFile: they are not JSON, or larger than any profile.
        SchemaError: they are not a profile.
    """
    document = json_in(text_in(content), len(content))
    trees = document if isinstance(document, list) else []
    roots = [tree for tree in trees if isinstance(tree, dict) and "frame" in tree]
    others = [tree for tree in trees if isinstance(tree, dict) and "frame" not in tree]
    if not roots:
        raise BadFile(
            "is not a valid Proton profile: it must be a JSON list whose first item is the root "
            f"frame, got {shown(document)}"
        )
    scopes = [_scope(root, 0, None) for root in roots]
    kept = [scope for scope in scopes if scope is not None]
    several = len(roots) > 1 or not kept
    root = records.Scope("ROOT", "root", {}, tuple(kept)) if several else kept[0]
    # Proton writes 0 in the root for all metrics that add up.
    metrics = {name: number for name, number in root.metrics.items() if number}
    root = replace(root, kind="root", metrics=metrics)
    said = roots[0]["frame"].get("measured_by")  # in files that this lab wrote
    measured_by = said if isinstance(said, str) and said else measured_by
    machine = records.Machine(devices=tuple(_devices(others[0] if others else {})))
    return Profile(measured_by, root, machine, line_records=tuple(_lines(root)))


def _scope(node: Any, level: int, above: records.ScopeKind | None) -> records.Scope | None:
    """A node and all below it; None for Proton's own nodes."""
    if level > MOST_LEVELS:
        raise BadFile(
            f"is not a valid profile: its scopes are nested deeper than {MOST_LEVELS} levels"
        )
    if not isinstance(node, dict) or not isinstance(node.get("frame"), dict):
        raise SchemaError(
            f"each node of its tree must be a JSON object with a frame, got {shown(node)}"
        )
    name, given = node["frame"].get("name", ""), node.get("metrics", {})
    inner = node.get("children", [])
    if not isinstance(name, str) or not isinstance(given, dict) or not isinstance(inner, list):
        raise SchemaError(
            "each node of its tree must have a name, metrics and a list of children, got "
            f"{shown(node)}"
        )
    if name == _METADATA:
        return None
    metrics, labels = _metrics(given)
    kind: records.ScopeKind = "root" if level == 0 else _kind(name, metrics, labels, above)
    scopes = (_scope(node, level + 1, kind) for node in inner)
    children = tuple(scope for scope in scopes if scope is not None)
    if level and not children and (inner or not (metrics or labels)):
        return None  # as proton-viewer: nothing was measured in it
    return records.Scope(name, kind, metrics, children, labels)


def _kind(
    name: str,
    metrics: Mapping[str, float],
    labels: Mapping[str, str],
    above: records.ScopeKind | None,
) -> records.ScopeKind:
    if above in ("kernel", "line"):
        return "line"
    if "device_id" in labels or (records.TIME in metrics and records.COUNT in metrics):
        return "kernel"
    return "frame" if _PLACE.fullmatch(name) else "scope"


def _metrics(given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers, and other values. A vector counts as its sum, as its parts would in a tree."""
    numbers: dict[str, float] = {}
    labels: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, list) and value and all(isinstance(item, Real) for item in value):
            value = sum(value)
        if isinstance(value, bool) or value is None or isinstance(value, list | dict):
            continue
        if isinstance(value, str):
            labels[name] = value
        elif abs(value) > _LARGEST:
            raise BadFile(f"is damaged: {name[:40]!r} is {value:.3g}, which is not a measured time")
        else:
            plain = name.replace("(inc)", "").replace("(exc)", "").strip()
            numbers[plain] = numbers.get(plain, 0) + value
    return numbers, labels


def _devices(given: Mapping[str, Any]) -> list[records.Device]:
    listed = []
    for kind, devices in given.items():
        for index, facts in devices.items() if isinstance(devices, dict) else ():
            if isinstance(facts, dict):
                numbers = (_whole(facts.get(name)) for name in _OF_DEVICES)
                arch = str(facts.get("arch", ""))[:40]
                listed.append(records.Device(kind, index, arch, *numbers))
    return listed


_OF_DEVICES = ("num_sms", "clock_rate", "memory_clock_rate", "bus_width")


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _lines(root: records.Scope) -> list[records.ProfiledLine]:
    lines: dict[tuple[str, str, int], dict[str, float]] = {}
    whole: dict[str, float] = {}
    for kernel in root.walk():
        if kernel.kind != "kernel":
            continue
        for scope in kernel.walk():
            place = _PLACE.fullmatch(scope.name)
            if scope is kernel or place is None or SAMPLES not in scope.metrics:
                continue
            total = lines.setdefault((kernel.name, place["file"], int(place["line"])), {})
            for name, number in scope.metrics.items():
                total[name] = total.get(name, 0) + number
            whole[kernel.name] = whole.get(kernel.name, 0) + scope.metrics[SAMPLES]
    return [
        records.ProfiledLine(
            file=file,
            line=line,
            operation="",
            share=max(metrics[SAMPLES] / whole[kernel], 0) if whole[kernel] else 0.0,
            kernel=kernel,
            metrics=metrics,
        )
        for (kernel, file, line), metrics in lines.items()
    ]


_READER = RecordReader()


def profile_in(content: bytes, file: Path) -> Profile | None:
    """Return the profile in a file's bytes, or None. Raises ArchiveError: it is damaged."""
    name = str(file)
    with reading(name):
        if FORMAT.begins(content):
            return _within_limits(_profile(FORMAT.unpacked(content, name)["profile"]))
        start = content[:4096].lstrip()
        if start.startswith(b"[") and (b'"frame"' in start or b'"children"' in start):
            return _within_limits(replace(hatchet_in(content, records.PROTON), name=file.name))
        if start.startswith(b"{") and b'"traceEvents"' in content:
            return replace(chrome_in(content, "a trace in Chrome's form"), name=file.name)
    return None


_MOST_METRICS, _MOST_KERNELS, _MOST_NOTES, _MOST_LINES = 300, 10_000, 300_000, 10_000
"""The most metrics, kernels, characters of notes, and lines (read within 2 s) of a profile."""


def _within_limits(profile: Profile) -> Profile:
    metrics = {name for scope in profile.root.walk() for name in scope.metrics}
    metrics.update(name for line in profile.line_records for name in line.metrics)
    if len(metrics) > _MOST_METRICS:
        raise SchemaError(f"it has {len(metrics):,} metrics, but at most {_MOST_METRICS} are read")
    if sum(map(len, profile.notes)) > _MOST_NOTES:
        raise SchemaError("its notes are longer than any that are written")
    return profile


def _profile(data: SavedData) -> Profile:
    read = _READER.read
    data["lines"].check_count(_MOST_LINES)
    data["kernels"].check_count(_MOST_KERNELS)
    scopes = [
        (
            _READER.record(records.Scope, item, ["in"]),
            None if (above := item["in"]).is_null() else above.count(),
        )
        for item in data["scopes"].items()
    ]
    return Profile(
        measured_by=data["measured_by"].text(),
        root=tree_of(scopes, data["scopes"]),
        machine=read(records.Machine, data["machine"]),
        kernels=read(tuple[records.ProfiledKernel, ...], data["kernels"]),
        notes=read(tuple[str, ...], data["notes"]),
        line_records=read(tuple[records.ProfiledLine, ...], data["lines"]),
        events=None if data["events"].is_null() else _events(data["events"]),
        perturbation=read(records.Perturbation | None, data["perturbation"]),
        name=data["name"].text(),
    )


def tree_of(flat: list[tuple[records.Scope, int | None]], data: SavedData) -> records.Scope:
    """The tree of scopes of which each names the place of the one that it is in: one before it.
    Raises SchemaError: they are not a tree, or the tree is too deep.
    """
    if not flat or flat[0][1] is not None:
        raise data.misfit("a list that begins with the root")
    levels: list[int] = [0]
    children: list[list[int]] = [[] for _ in flat]
    for place, (_, inside) in enumerate(flat[1:], 1):
        if inside is None or inside >= place:
            raise data.misfit("a list in which each scope is in one before it")
        levels.append(levels[inside] + 1)
        if levels[-1] > MOST_LEVELS:
            raise data.misfit(f"a tree of at most {MOST_LEVELS} levels")
        children[inside].append(place)
    made: list[records.Scope] = [flat[0][0]] * len(flat)
    for place in reversed(range(len(flat))):
        node = flat[place][0]
        inner = tuple(made[child] for child in children[place])
        made[place] = records.Scope(node.name, node.kind, node.metrics, inner, node.labels)
    return made[0]


def _events(data: SavedData) -> records.Events:
    names = tuple(item.text() for item in data["names"].items())
    columns = program, warp, scope, start, end = [_column(data[name]) for name in records.COLUMNS]
    if len({len(column) for column in columns}) != 1:
        raise data.misfit("columns of one length")
    if len(scope) and not (scope.min() >= 0 and scope.max() < len(names)):
        raise data.misfit("events of the scopes that it names")
    if any(
        len(column) and max(-int(column.min()), int(column.max())) > _LATEST for column in columns
    ):
        raise data.misfit("events with times in range")
    unit = cast(Literal["cycles", "ns"], data["unit"].one_of("cycles", "ns"))
    return records.Events(program, warp, scope, start, end, names, unit)


_LATEST = 2**62
"""Of a time: differences of two have 64 bits too."""


def _column(data: SavedData) -> numpy.ndarray:
    try:
        content = base64.b64decode(data.text(), validate=True)
        return numpy.frombuffer(content, dtype="<i8").astype(numpy.int64)
    except (binascii.Error, ValueError) as error:
        raise data.misfit("integers of 64 bits, as base64") from error
