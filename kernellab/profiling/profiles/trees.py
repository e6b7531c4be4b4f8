"""Trees of scopes, and the metrics of each scope by expression."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.common.arguments import check_whole, is_real, listed
from kernellab.common.system import OutOfTime, limited
from kernellab.common.text import shown
from kernellab.errors import OptionError, nearest, visible
from kernellab.profiling.profiles.records import COUNT, Device, ProfileRecord, Scope
from kernellab.records.display import plot

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "g": 1e9, "t": 1e12}

_TIME = re.compile(r"(?P<average>avg_)?(?P<name>(cpu_)?time)/(?P<unit>s|ms|us|ns)")
_RATE = re.compile(r"(?P<prefix>[gt]?)(?P<what>flop|byte)(?P<width>8|16|32|64|)/s")
_MEASURED = re.compile(r"(?P<name>.*?)\s*\((?P<unit>[^()]*)\)")
"""A metric with its unit, as Proton names it: "time (ns)"."""

WIDTHS = (8, 16, 32, 64)
"""Bits of the operands that floating-point operations are counted by."""

_MOST_ASKED = 100

_MOST_SECONDS = 5
"""To match the names of a tree with the user's patterns: the names may be another's."""


@dataclass(frozen=True)
class Place:
    """A scope, and what its metrics are computed from."""

    scope: Scope
    root: Scope
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Metric:
    """A metric that was asked for.

    Attributes:
        of: its value for a scope; NaN if it has none.
    """

    text: str
    of: Callable[[Place], float]


def read(given: Any, root: Scope, *, first_alone: bool = False) -> tuple[Metric, ...]:
    """The metrics that somebody asks for, by what the tree has.

    Args:
        given: a text with commas, or a list; None for all, or with `first_alone` the main one.

    Raises:
        OptionError: a metric that there is not.
    """
    names = tuple(root.totals)
    if given is None:
        usual = _usual(names)
        return tuple(_metric(metric, names) for metric in (usual[:1] if first_alone else usual))
    return tuple(_metric(text, names) for text in _texts(given))


def _texts(given: Any) -> list[str]:
    parts: list[Any]
    if isinstance(given, str):
        parts = given.split(",")
    else:
        is_list = isinstance(given, Iterable) and not isinstance(given, bytes | Mapping)
        parts = listed("metrics", given, _MOST_ASKED) if is_list else []
    texts = [part.strip() for part in parts if isinstance(part, str)]
    if not texts or len(texts) != len(parts) or not all(texts):
        raise OptionError(
            f"metrics must name metrics, got {shown(given)}.",
            advice='Pass names or expressions: metrics=["time/ms", "tflop/s"].',
        )
    return texts


def _usual(names: tuple[str, ...]) -> list[str]:
    first = [f"{base(name)[0]}/ms" for name in names if base(name)[0] in ("time", "cpu_time")]
    first.sort(key=lambda metric: metric != "time/ms")
    rest = [name for name in names if base(name)[0] not in ("time", "cpu_time")]
    rest.sort(key=lambda name: name not in (COUNT, "cycles", "num_samples"))
    return [*dict.fromkeys([*first, *rest])]


def base(name: str) -> tuple[str, str]:
    """A metric's name and unit: "time (ns)" is "time" and "ns"."""
    match = _MEASURED.fullmatch(name)
    return (match["name"].lower(), match["unit"]) if match else (name.lower(), "")


def _metric(text: str, names: tuple[str, ...]) -> Metric:
    wanted_name = text.lower()
    if (match := _TIME.fullmatch(wanted_name)) is not None:
        seconds = _seconds(match["name"], text, names)
        unit, average = SECONDS[match["unit"]], bool(match["average"])
        return Metric(
            text, lambda at: _over(seconds(at), unit * (_total(at, COUNT) if average else 1))
        )
    if (match := _RATE.fullmatch(wanted_name)) is not None:
        amount = _amount(match["what"], match["width"], text, names)
        seconds, scale = _seconds("time", text, names), _PREFIXES[match["prefix"]]
        return Metric(text, lambda at: _over(amount(at), seconds(at) * scale))
    if wanted_name == "util":
        seconds = _seconds("time", text, names)
        return Metric(text, lambda at: _over(_least_seconds(at), seconds(at)))
    if wanted_name.endswith("/%"):
        name = _known(wanted_name.removesuffix("/%"), text, names)
        return Metric(text, lambda at: 100 * _over(_total(at, name), at.root.totals.get(name, 0)))
    name = _known(wanted_name, text, names)
    return Metric(text, lambda at: _total(at, name))


def _known(wanted_name: str, text: str, names: tuple[str, ...]) -> str:
    for name in names:
        if wanted_name in (name.lower(), base(name)[0]):
            return name
    known = [base(name)[0] for name in names]
    there = f"It has: {', '.join(dict.fromkeys(known))}." if known else "It has none at all."
    raise OptionError(
        f"The profile has no metric {text!r}.", advice=nearest(wanted_name, known) or there
    )


def _seconds(name: str, text: str, names: tuple[str, ...]) -> Callable[[Place], float]:
    for each in names:
        known, unit = base(each)
        if known == name and unit in SECONDS:
            return lambda at: _total(at, each) * SECONDS[unit]
    raise OptionError(
        f"The profile has no metric {text!r}: no {name} was measured.",
        advice=f"It has: {', '.join(names) or 'none at all'}.",
    )


def _amount(what: str, width: str, text: str, names: tuple[str, ...]) -> Callable[[Place], float]:
    """Bytes, or floating-point operations: those of one width, or of all."""
    if what == "byte":
        wanted = ["bytes"]
    else:
        wanted = [f"flops{width}"] if width else ["flops", *(f"flops{bits}" for bits in WIDTHS)]
    present = [name for name in wanted if name in names]
    if not present:
        _known(wanted[0], text, names)  # which is not there

    def amount(at: Place) -> float:
        totals = at.scope.totals
        there = [totals[name] for name in present if name in totals]
        return sum(there) if there else math.nan

    return amount


def _total(at: Place, name: str) -> float:
    return at.scope.totals.get(name, math.nan)


def _over(number: float, divisor: float) -> float:
    return number / divisor if divisor else math.nan


def _least_seconds(at: Place) -> float:
    """The time of a kernel at the peaks of its GPU; NaN of anything else."""
    index = at.scope.labels.get("device_id")
    kind = at.scope.labels.get("device_type", "")
    device = next(
        (device for device in at.devices if device.index == index and kind in ("", device.kind)),
        None,
    )
    if device is None:
        return math.nan
    totals = at.scope.totals
    flops = sum(
        totals[name] / peak
        for width in WIDTHS
        if (name := f"flops{width}") in totals and (peak := _peak(device, width))
    )
    peak_bytes = _peak(device, None)
    moving = totals.get("bytes", 0) / peak_bytes if peak_bytes else 0.0
    return max(flops, moving) or math.nan


def _peak(device: Device, width: int | None) -> float | None:
    """Operations of so many bits a second, or bytes, as Proton has them."""
    from kernellab.triton_api.proton import peak_per_second  # Triton takes long to import

    return peak_per_second(
        device.kind,
        device.arch,
        width,
        multiprocessors=device.multiprocessors,
        clock_khz=device.clock_khz,
        memory_clock_khz=device.memory_clock_khz,
        bus_bits=device.bus_bits,
    )


MOST_LEVELS = 200
"""Scopes within each other that a file may have."""


@dataclass(frozen=True)
class Row:
    """A scope of a tree that is shown."""

    scope: Scope
    depth: int
    """0 for the root."""
    values: tuple[float, ...]
    """Of the metrics that were asked for; NaN for none."""
    lines: str
    """The lines that are drawn before it: "│  ├─ "."""


@dataclass(frozen=True)
class Filter:
    """Which scopes of a tree are shown; None everywhere for all."""

    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    threshold: float | None = None
    depth: int | None = None


def filter_of(include: Any, exclude: Any, threshold: Any, depth: Any) -> Filter:
    """A filter of what somebody gave. Raises OptionError: a pattern or a number is not valid."""
    if threshold is not None and (not is_real(threshold) or threshold != threshold):
        raise OptionError(
            f"threshold must be a number, got {shown(threshold)}.",
            advice="Pass the smallest value of the first metric: threshold=0.1.",
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
            advice=f'Pass a pattern that matches kernel names, such as {name}="matmul". To match a '
            f'parenthesis, escape it: {name}=r"\\(".',
        ) from error


def rows(record: ProfileRecord, metrics: Sequence[Metric], keep: Filter) -> Iterator[Row]:
    """The scopes that are shown, from the root down."""
    root, devices = filtered(record, metrics, keep), record.machine.devices
    waiting = [(root, 0, "", "")]
    while waiting:
        scope, depth, lines, below = waiting.pop()
        place = Place(scope, root, devices)
        yield Row(scope, depth, tuple(metric.of(place) for metric in metrics), lines)
        for number, child in enumerate(reversed(scope.children)):
            drawn = f"{below}{'└─ ' if number == 0 else '├─ '}"
            waiting.append((child, depth + 1, drawn, f"{below}{'   ' if number == 0 else '│  '}"))


def filtered(record: ProfileRecord, metrics: Sequence[Metric], keep: Filter) -> Scope:
    """The tree without what a filter leaves out. What a pattern leaves out is gone; what is below a
    threshold or too deep counts in the scope above it. Raises OptionError: matching a pattern takes
    longer than 5 s, as `(a+)+$` does of some names.
    """
    root, devices = record.root, record.machine.devices
    if keep == Filter():
        return root

    def is_large(scope: Scope) -> bool:
        if keep.threshold is None or not metrics:
            return True
        return metrics[0].of(Place(scope, root, devices)) >= keep.threshold

    def kept(scope: Scope, depth: int, is_inside: bool) -> Scope | None:
        """The scope with what is kept below it, or None; `is_inside`: a scope above is included."""
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
                for name, number in inside.totals.items():
                    metrics[name] = metrics.get(name, 0) + number
            else:
                inner.append(inside)
        if not is_inside and not inner:
            return None
        return replace(scope, metrics=metrics, children=tuple(inner))

    given = {"include": keep.include, "exclude": keep.exclude}
    patterns = [f"{name}={shown(each.pattern)}" for name, each in given.items() if each is not None]
    try:
        with limited(_MOST_SECONDS if patterns else None):
            return kept(root, 0, False) or replace(root, metrics={}, children=())
    except OutOfTime as error:
        raise OptionError(
            f"{' and '.join(patterns)} took more than {_MOST_SECONDS} s to match.",
            advice="Use a pattern without nested repeats, or a part of the names.",
        ) from error


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
