"""Metrics by expression, as proton-viewer has them: `time/ms`, `avg_time/us`, `tflop16/s`,
`gbyte/s`, `time/%`, `util`, or the name of one that was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.argument_checks import listed
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
    names = tuple(dict.fromkeys(name for scope in root.walk() for name in scope.metrics))
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
            advice='Give names or expressions: metrics=["time/ms", "tflop/s"].',
        )
    return texts


def _usual(names: tuple[str, ...]) -> list[str]:
    """What is shown unless somebody asks for more: time first."""
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
        return Metric(text, lambda at: 100 * _over(_total(at, name), at.whole.get(name, 0)))
    name = _known(wanted_name, text, names)
    return Metric(text, lambda at: _total(at, name))


def _known(wanted_name: str, text: str, names: tuple[str, ...]) -> str:
    """The measured metric of that name, with its unit or without."""
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
        there = [at.totals[name] for name in present if name in at.totals]
        return sum(there) if there else math.nan

    return amount


def _total(at: Place, name: str) -> float:
    return at.totals.get(name, math.nan)


def _over(number: float, divisor: float) -> float:
    return number / divisor if divisor else math.nan


def _least_seconds(at: Place) -> float:
    """What a kernel would take at the peaks of its GPU; NaN of anything else."""
    index = at.scope.labels.get("device_id")
    kind = at.scope.labels.get("device_type", "")
    device = next(
        (device for device in at.devices if device.index == index and kind in ("", device.kind)),
        None,
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
