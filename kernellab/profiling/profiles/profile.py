"""`Profile`: what was measured of launches, the ways to look at it, and the files it writes."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy

from kernellab.common.saved_files import Format, fields_of, kernellab_version
from kernellab.common.system import save_whole, saved_path
from kernellab.errors import ArchiveError, ArgumentError, visible
from kernellab.profiling.profiles import records, trees
from kernellab.profiling.profiles.trees import SECONDS, Filter, Metric, base
from kernellab.profiling.profiles.trees import rows as rows_of
from kernellab.records.display import PrintsAsCard, described, frame_of, plot, show

FORMAT = Format("kernellab.profile", "profile")

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def _scopes(root: records.Scope) -> list[dict[str, Any]]:
    """The tree as a list, each scope with the position of its parent: trees may be deep."""
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[records.Scope, int | None]] = [(root, None)]
    while waiting:
        scope, inside = waiting.pop()
        place = len(nodes)
        nodes.append(
            {
                "name": scope.name,
                "kind": scope.kind,
                "in": inside,
                "metrics": dict(scope.metrics),
                "labels": dict(scope.labels),
            }
        )
        waiting += [(child, place) for child in reversed(scope.children)]
    return nodes


def _events(events: records.Events) -> dict[str, Any]:
    """The columns as base64 of their little-endian integers of 64 bits."""
    columns = {
        name: base64.b64encode(
            numpy.ascontiguousarray(getattr(events, name), dtype="<i8").tobytes()
        ).decode()
        for name in records.COLUMNS
    }
    return {"unit": events.unit, "names": list(events.names), **columns}


def _hatchet(record: records.ProfileRecord) -> bytes:
    """The list that Proton writes and llnl-hatchet reads: the tree, and the devices."""
    names = record.root.totals
    tree = _literal(record.root)
    # proton-viewer reads from the root which metrics add up.
    tree["metrics"] = {**dict.fromkeys(names, 0), **tree["metrics"]}
    tree["frame"] |= {"name": "ROOT", "measured_by": record.measured_by}  # not Proton's own
    devices: dict[str, dict[str, Any]] = {}
    for device in record.machine.devices:
        devices.setdefault(device.kind, {})[device.index] = {
            "arch": device.arch,
            "num_sms": device.multiprocessors,
            "clock_rate": device.clock_khz,
            "memory_clock_rate": device.memory_clock_khz,
            "bus_width": device.bus_bits,
        }
    return json.dumps([tree, devices], indent=1).encode()


def _literal(scope: records.Scope) -> dict[str, Any]:
    return {
        "children": [_literal(child) for child in scope.children],
        "frame": {"name": scope.name, "type": "function"},
        "metrics": {**scope.metrics, **scope.labels},
    }


def _speedscope(record: records.ProfileRecord) -> bytes:
    """A profile for each metric that adds up: stacks, whose widths are the metric."""
    frames: dict[str, int] = {}
    profiles = [_stacks(record.root, name, frames) for name in record.root.totals]
    data = {
        "$schema": _SCHEMA,
        "name": record.name or record.measured_by,
        "exporter": f"kernellab {kernellab_version()}",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [profile for profile in profiles if profile["samples"]],
    }
    return json.dumps(data).encode()


def _stacks(root: records.Scope, metric: str, frames: dict[str, int]) -> dict[str, Any]:
    samples, weights = [], []
    waiting: list[tuple[records.Scope, tuple[int, ...]]] = [(root, ())]
    while waiting:
        scope, above = waiting.pop()
        stack = above if scope is root else (*above, frames.setdefault(scope.name, len(frames)))
        if stack and scope.metrics.get(metric, 0) > 0:
            samples.append(list(stack))
            weights.append(scope.metrics[metric])
        waiting += [(child, stack) for child in reversed(scope.children)]
    name, unit = base(metric)
    units = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    return {
        "type": "sampled",
        "name": name,
        "unit": units[unit] if unit in SECONDS else "bytes" if name == "bytes" else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


_FORMS: Mapping[str, Callable[[Profile], bytes]] = {
    ".hatchet": _hatchet,
    ".speedscope.json": _speedscope,
    ".trace.json": lambda record: records.chrome_trace(records.Timeline.of(record).events).encode(),
    ".json": lambda record: FORMAT.text(profile=record.to_dict()),
    "": lambda record: FORMAT.packed(profile=record.to_dict()),
}
"""The end of a file's name -> its writer; the first that fits is used."""

ScopePath = tuple[str, ...]
"""The names of a scope and of those it is in, from the root down."""


@dataclass(frozen=True)
class DifferenceRow:
    """A scope of either profile, with a metric in both."""

    path: ScopePath
    first: tuple[float, ...]
    """The metrics in the first profile; NaN if it has no such scope."""
    second: tuple[float, ...]

    @property
    def difference(self) -> tuple[float, ...]:
        """First minus second; a scope that is missing in one of them counts 0 there."""
        return tuple(
            _or_zero(a) - _or_zero(b) for a, b in zip(self.first, self.second, strict=True)
        )


@dataclass(frozen=True)
class ProfileDifference(PrintsAsCard):
    """The result of `a - b`: the first profile's numbers minus the second's, by scope. Rates and
    averages are computed in each, and then compared.
    """

    first: records.ProfileRecord
    second: records.ProfileRecord

    @classmethod
    def of(cls, first: records.ProfileRecord, second: Any) -> ProfileDifference:
        """Two profiles side by side; the second may be the session that measured it. Raises
        ArgumentError: the second is not a profile.
        """
        second = getattr(second, "profile", second)
        if not isinstance(second, records.ProfileRecord):
            raise ArgumentError(
                f"A profile is compared with another profile, got {described(second)}.",
                advice="Subtract results of kernellab.profile or kernellab.load: a - b.",
            )
        return cls(first, second)

    @property
    def caution(self) -> str:
        """The reason why the two cannot be compared, or ""."""
        if self.first.measured_by == self.second.measured_by:
            return ""
        return (
            f"The first is measured by {self.first.measured_by}, the second by "
            f"{self.second.measured_by}: their times cannot be compared."
        )

    def rows(self, metrics: Any = None) -> tuple[tuple[str, ...], list[DifferenceRow]]:
        """The names of the metrics, and the scopes of both, the first one's order first. Raises
        OptionError: a metric that neither has.
        """
        both = records.Scope("", "root", {}, (self.first.root, self.second.root))
        chosen = trees.read(metrics, both, first_alone=metrics is None)
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
        """The differences as text, a line for each scope. Raises OptionError: as `table`."""
        _, rows = self.rows(metrics)
        return "\n".join(
            f"{'   ' * (len(row.path) - 1)}{' '.join(f'{x:+.3f}' for x in row.difference)} "
            f"{visible(row.path[-1])}"
            for row in rows
        )


def _values(
    record: records.ProfileRecord, metrics: tuple[Metric, ...]
) -> Mapping[ScopePath, tuple[float, ...]]:
    values: dict[ScopePath, tuple[float, ...]] = {}
    times: Counter[ScopePath] = Counter()
    path: ScopePath = ()
    for row in rows_of(record, metrics, Filter()):
        path = (*path[: row.depth], row.scope.name if row.depth else "ROOT")
        times[path] += 1
        if times[path] > 1:  # siblings may have one name
            path = (*path[:-1], f"{path[-1]} ({times[path]})")
        values[path] = row.values
    return values


def _or_zero(number: float) -> float:
    return 0.0 if math.isnan(number) else number


LINE_COLUMNS = ("kernel", "line", "operation", "cycles", "share", "executions")


@dataclass(frozen=True)
class Profile(records.ProfileRecord, PrintsAsCard):
    """Measurements of launches, as a tree of scopes: the user's scopes, Python frames, kernels and
    their lines. A scope has its own metrics; tables and texts add up those of all scopes below it.
    """

    @property
    def is_of_gpu(self) -> bool:
        """Whether times and cycles are a GPU's."""
        return self.measured_by != records.INTERPRETER

    @property
    def origin(self) -> str:
        """ "proton, NVIDIA H200 (sm_90)"."""
        where = self.machine.device or self.machine.target
        if not self.is_of_gpu:
            emulated = self.machine.target
            return (
                f"{records.IS_INTERPRETER}; {emulated} emulated"
                if emulated
                else records.IS_INTERPRETER
            )
        both = self.machine.device and self.machine.target
        return ", ".join(
            part for part in (self.measured_by, f"{where} ({both})" if both else where) if part
        )

    @property
    def lines(self) -> Any:
        """The lines of the kernels, as a pandas DataFrame: kernel, line, operation, cycles, share,
        executions, and what else was measured of them, the largest share first.
        """
        lines = sorted(self.line_records, key=lambda line: (line.kernel, -line.share, line.line))
        others = list(dict.fromkeys(name for line in lines for name in line.metrics))
        rows = [
            [*(getattr(line, name) for name in LINE_COLUMNS), *map(line.metrics.get, others)]
            for line in lines
        ]
        return frame_of(rows, [*LINE_COLUMNS, *others])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that were measured: "time (ns)", "count", ..."""
        return tuple(self.root.totals)

    def kernel(self, name: str) -> records.ProfiledKernel | None:
        """The kernel whose scopes have this name; None if the profile has none. A launch
        with a name from `launch_metadata` belongs to the kernel with which its name begins.
        """
        begun = (named.get(name[:length]) for length, named in self._kernels.items())
        return next(filter(None, begun), None)

    @cached_property
    def _kernels(self) -> Mapping[int, Mapping[str, records.ProfiledKernel]]:
        """The first kernel of each name by the name's length, the longest names first."""
        kernels: dict[int, dict[str, records.ProfiledKernel]] = {}
        for kernel in sorted(self.kernels, key=lambda kernel: -len(kernel.name)):
            kernels.setdefault(len(kernel.name), {}).setdefault(kernel.name, kernel)
        return kernels

    @cached_property
    def kernel_times(self) -> Mapping[str, float]:
        """Nanoseconds of each kernel by its scopes' name, with what is below these."""
        times: dict[str, float] = {}
        for scope in self.root.walk():
            if scope.kind == "kernel":
                times[scope.name] = times.get(scope.name, 0.0) + scope.totals.get(records.TIME, 0.0)
        return times

    def table(
        self,
        metrics: Any = None,
        *,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        depth: int | None = None,
    ) -> Any:
        """One row per scope, as a pandas DataFrame: name, kind, depth and the metrics asked for.

        Args:
            metrics: names or expressions, as proton-viewer takes them: "time/ms", "avg_time/us",
                "tflop/s", "tflop16/s", "gbyte/s", "time/%", "util", "count"; a text with
                commas, or a list. None means all measured metrics.
            include: a regular expression: only paths through scopes whose names match it.
            exclude: a regular expression: no scopes whose names match it, and none below them.
            threshold: only scopes whose first metric is at least this.
            depth: only scopes at most this many levels below the root.

        Raises:
            OptionError: a metric does not exist, or a pattern is not valid.
        """
        chosen = trees.read(metrics, self.root)
        rows = trees.rows(self, chosen, trees.filter_of(include, exclude, threshold, depth))
        cells = [[row.scope.name, row.scope.kind, row.depth, *row.values] for row in rows]
        return frame_of(cells, ["name", "kind", "depth", *(metric.text for metric in chosen)])

    def tree(
        self,
        metrics: Any = None,
        *,
        include: str | None = None,
        exclude: str | None = None,
        threshold: float | None = None,
        depth: int | None = None,
    ) -> trees.TreeText:
        """The scopes as text, as proton-viewer prints them; `.plot()` is a flame graph.

        Args:
            metrics, include, exclude, threshold, depth: as for `table`.

        Raises:
            OptionError: as `table`.
        """
        chosen = trees.read(metrics, self.root, first_alone=True)
        keep = trees.filter_of(include, exclude, threshold, depth)
        return trees.TreeText.of(self, chosen, keep)

    def filter(
        self,
        include: str | None = None,
        exclude: str | None = None,
        *,
        threshold: float | None = None,
        metric: str | None = None,
        depth: int | None = None,
    ) -> Profile:
        """The profile with some of its scopes; omitted scopes still count in the scope above them.

        Args:
            include, exclude, depth: as for `table`.
            threshold, metric: the least value of a metric, by default of the first one.

        Raises:
            OptionError: as `table`.
        """
        keep = trees.filter_of(include, exclude, threshold, depth)
        chosen = trees.read(metric, self.root, first_alone=True)
        return replace(self, root=trees.filtered(self, chosen, keep))

    def timeline(self, program: int | None = None) -> records.Timeline:
        """The events of the profile over time: `.records`, `.plot()`, `.save("trace.json")`. Raises
        ProfileError: the profile has no events.
        """
        return records.Timeline.of(self, program)

    def diff(self, other: Profile) -> ProfileDifference:
        """Return the differences of this profile's numbers from another's. Raises ArgumentError:
        the other is not a profile.
        """
        return ProfileDifference.of(self, other)

    def __sub__(self, other: Profile) -> ProfileDifference:
        return self.diff(other)

    def show(self) -> Any:
        """The view of the profile."""
        return show(self)

    def plot(self, metric: str | None = None) -> Any:
        """The flame graph, whose widths show a metric, by default the first one."""
        return plot(self, metric=metric)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the profile; `kernellab.load` reads it. The end of the path selects the format:
        `.hatchet` is Proton's, `.speedscope.json` speedscope's, `.trace.json` Chrome's trace of
        events; any other has everything, compressed unless it ends in `.json`.

        Raises:
            ArchiveError: the file cannot be written, or its name is that of a page, `.html`.
            ProfileError: a trace is requested, but the profile has no events.
        """
        file = saved_path(path, ArchiveError)
        if file.suffix in (".html", ".htm"):
            raise ArchiveError(
                f"{file.name!r} names a page, and save writes a profile that kernellab.load reads.",
                advice=f"Write the page with profile.show().to_html({file.name!r}), or save it as "
                f"{file.with_suffix('.klprofile').name!r}.",
            )
        write = next(write for end, write in _FORMS.items() if file.name.endswith(end))
        return save_whole(file, write(self), ArchiveError)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except compilations in types that JSON has."""
        plain = (bool, int, float, str, type(None))
        kernels = [fields_of(kernel) for kernel in self.kernels]
        for kernel in kernels:
            del kernel["compile"]
            kernel["options"] = {
                name: value if type(value) in plain else str(value)
                for name, value in kernel["options"].items()
            }
        return {
            "name": self.name,
            "measured_by": self.measured_by,
            "machine": dataclasses.asdict(self.machine),
            "kernels": kernels,
            "notes": list(self.notes),
            "scopes": _scopes(self.root),
            "lines": [vars(line) | {"metrics": {**line.metrics}} for line in self.line_records],
            "events": None if self.events is None else _events(self.events),
            "perturbation": (
                None if self.perturbation is None else dataclasses.asdict(self.perturbation)
            ),
        }

    def __iter__(self) -> Iterator[records.Scope]:
        return self.root.walk()
