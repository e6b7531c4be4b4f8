"""Metrics by expression, as proton-viewer has them: `time/ms`, `avg_time/us`, `tflop16/s`,
`gbyte/s`, `time/%`, `util`, or the name of one that was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.argument_checks import is_text, listed
from kernellab.common.formatting import shown
from kernellab.errors import OptionError, nearest
from kernellab.profiling.profiles.records import COUNT, Device, Scope

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "g": 1e9, "t": 1e12}

_TIME = re.compile(r"(?P<average>avg_)?(?P<name>(cpu_)?time)/(?P<unit>s|ms|us|ns)")
_RATE = re.compile(r"(?P<prefix>[gt]?)(?P<what>flop|byte)(?P<width>8|16|32|64|)/s")
_MEASURED = re.compile(r"(?P<name>.*?)\s*\((?P<unit>[^()]*)\)")
"""A metric with its unit, as Proton names it: "time (ns)"."""

WIDTHS = (8, 16, 32, 64)
"""Bits of the operands that floating-point operations are counted by."""

_MOST_ASKED = 100

Totals = Mapping[str, float]
"""Name of a metric -> its sum over a scope and all below it."""


@dataclass(frozen=True)
class Place:
    """A scope, and what its metrics are computed from."""

    scope: Scope
    totals: Totals
    whole: Totals
    """Those of the root."""
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Metric:
    """A metric that was asked for.

    Attributes:
        text: how.
        of: its value for a scope; NaN where it has none.
    """

    text: str
    of: Callable[[Place], float]


def read(given: Any, root: Scope, *, first_alone: bool = False) -> tuple[Metric, ...]:
    """The metrics that somebody asks for, by what the tree has.

    Args:
        given: a text, with commas between several, or a list; None for those that there are, or
            with `first_alone` the one that says most; none where there are none.

    Raises:
        OptionError: a metric that there is not.
    """
    names = tuple(dict.fromkeys(name for one in root.walk() for name in one.metrics))
    if given is None:
        usual = _usual(names)
        return tuple(_metric(one, names) for one in (usual[:1] if first_alone else usual))
    return tuple(_metric(one, names) for one in _texts(given))


def _texts(given: Any) -> list[str]:
    if is_text(given):
        found = given.split(",")
    else:
        is_list = isinstance(given, Iterable) and not isinstance(given, bytes | Mapping)
        found = listed("metrics", given, _MOST_ASKED) if is_list else []
    texts = [one.strip() for one in found if is_text(one)]
    if not texts or len(texts) != len(found) or not all(texts):
        raise OptionError(
            f"metrics={shown(given)} names no metrics.",
            advice='Give names or expressions: metrics=["time/ms", "tflop/s"].',
        )
    return texts


def _usual(names: tuple[str, ...]) -> list[str]:
    """What is shown unless somebody asks for more: time first."""
    first = [f"{base(name)[0]}/ms" for name in names if base(name)[0] in ("time", "cpu_time")]
    first.sort(key=lambda one: one != "time/ms")
    rest = [name for name in names if base(name)[0] not in ("time", "cpu_time")]
    rest.sort(key=lambda name: name not in (COUNT, "cycles", "num_samples"))
    return [*dict.fromkeys([*first, *rest])]


def base(name: str) -> tuple[str, str]:
    """A metric's name and unit: "time (ns)" is "time" and "ns"."""
    match = _MEASURED.fullmatch(name)
    return (match["name"].lower(), match["unit"]) if match else (name.lower(), "")


def _metric(text: str, names: tuple[str, ...]) -> Metric:
    asked = text.lower()
    if (match := _TIME.fullmatch(asked)) is not None:
        seconds = _seconds(match["name"], text, names)
        unit, average = SECONDS[match["unit"]], bool(match["average"])
        return Metric(text, lambda at: _over(seconds(at), unit * (_count(at) if average else 1)))
    if (match := _RATE.fullmatch(asked)) is not None:
        amount = _amount(match["what"], match["width"], text, names)
        seconds, scale = _seconds("time", text, names), _PREFIXES[match["prefix"]]
        return Metric(text, lambda at: _over(amount(at), seconds(at) * scale))
    if asked == "util":
        seconds = _seconds("time", text, names)
        return Metric(text, lambda at: _over(_least_seconds(at), seconds(at)))
    if asked.endswith("/%"):
        name = _known(asked.removesuffix("/%"), text, names)
        return Metric(text, lambda at: 100 * _over(_total(at, name), at.whole.get(name, 0)))
    name = _known(asked, text, names)
    return Metric(text, lambda at: _total(at, name))


def _known(asked: str, text: str, names: tuple[str, ...]) -> str:
    """The measured metric of that name, with its unit or without."""
    for name in names:
        if asked in (name.lower(), base(name)[0]):
            return name
    known = [base(name)[0] for name in names]
    there = f"It has: {', '.join(dict.fromkeys(known))}." if known else "It has none at all."
    raise OptionError(f"The profile has no metric {text!r}.", advice=nearest(asked, known) or there)


def _seconds(name: str, text: str, names: tuple[str, ...]) -> Callable[[Place], float]:
    for one in names:
        known, unit = base(one)
        if known == name and unit in SECONDS:
            return lambda at: _total(at, one) * SECONDS[unit]
    raise OptionError(
        f"The profile has no metric {text!r}: no {name} was measured.",
        advice=f"It has: {', '.join(names) or 'none at all'}.",
    )


def _amount(what: str, width: str, text: str, names: tuple[str, ...]) -> Callable[[Place], float]:
    """Bytes, or floating-point operations: those of one width, or of all."""
    if what == "byte":
        wanted = ["bytes"]
    else:
        wanted = [f"flops{width}"] if width else ["flops", *(f"flops{one}" for one in WIDTHS)]
    found = [one for one in wanted if one in names]
    if not found:
        _known(wanted[0], text, names)  # which is not there

    def amount(at: Place) -> float:
        there = [at.totals[one] for one in found if one in at.totals]
        return sum(there) if there else math.nan

    return amount


def _total(at: Place, name: str) -> float:
    return at.totals.get(name, math.nan)


def _count(at: Place) -> float:
    return at.totals.get(COUNT, math.nan)


def _over(number: float, divisor: float) -> float:
    return number / divisor if divisor else math.nan


def _least_seconds(at: Place) -> float:
    """What a kernel would take at the peaks of its GPU; NaN of anything else."""
    index = at.scope.labels.get("device_id")
    kind = at.scope.labels.get("device_type", "")
    device = next(
        (one for one in at.devices if one.index == index and kind in ("", one.kind)), None
    )
    if device is None:
        return math.nan
    flops = sum(
        at.totals[name] / peak
        for width in WIDTHS
        if (name := f"flops{width}") in at.totals and (peak := _peak(device, width))
    )
    peak_bytes = _peak(device, None)
    moving = at.totals.get("bytes", 0) / peak_bytes if peak_bytes else 0.0
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
