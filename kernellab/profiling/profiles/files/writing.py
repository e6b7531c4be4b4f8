"""Profiles to files: all of one in our own form, its tree in Proton's and in speedscope's."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy

from kernellab.common.saved_json import kernellab_version, save_whole, saved_path
from kernellab.errors import ArchiveError
from kernellab.profiling.profiles.metrics import SECONDS, base
from kernellab.profiling.profiles.records import Events, ProfileRecord, Scope
from kernellab.profiling.profiles.timeline import Timeline, chrome_trace

FORMAT = "kernellab.profile"
VERSION = 1

COLUMNS = ("program", "warp", "scope", "start", "end")
"""Of events, each as base64 of its little-endian integers of 64 bits."""

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def save(record: ProfileRecord, path: str | os.PathLike[str]) -> Path:
    """See `Profile.save`."""
    file = saved_path(path, ArchiveError)
    write = next((write for end, write in _FORMS.items() if file.name.endswith(end)), _whole)
    return save_whole(file, write(record), ArchiveError)


# Our own


def _whole(record: ProfileRecord) -> bytes:
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kernellab": kernellab_version(),
        "profile": plain(record),
    }
    return gzip.compress(json.dumps(data).encode(), mtime=0)


def plain(record: ProfileRecord) -> dict[str, Any]:
    """A profile in types that JSON has; compilations stay where they are."""
    kernels = [
        {
            field.name: getattr(kernel, field.name)
            for field in dataclasses.fields(kernel)
            if field.name not in ("compile", "options")
        }
        | {"options": {name: _plain_value(value) for name, value in kernel.options.items()}}
        for kernel in record.kernels
    ]
    return {
        "name": record.name,
        "measured_by": record.measured_by,
        "machine": dataclasses.asdict(record.machine),
        "kernels": kernels,
        "notes": list(record.notes),
        "scopes": _scopes(record.root),
        "lines": [dataclasses.asdict(line) for line in record.line_records],
        "events": None if record.events is None else _events(record.events),
        "perturbation": (
            None if record.perturbation is None else dataclasses.asdict(record.perturbation)
        ),
    }


def _plain_value(value: Any) -> Any:
    """An option's value: JSON's own kinds as they are, anything else as it is written."""
    return value if type(value) in (bool, int, float, str, type(None)) else str(value)


def _scopes(root: Scope) -> list[dict[str, Any]]:
    """The tree as a list, each scope with the place of the one it is in: trees may be deep."""
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[Scope, int | None]] = [(root, None)]
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


def _events(events: Events) -> dict[str, Any]:
    columns = {
        name: base64.b64encode(
            numpy.ascontiguousarray(getattr(events, name), dtype="<i8").tobytes()
        ).decode()
        for name in COLUMNS
    }
    return {"unit": events.unit, "names": list(events.names), **columns}


# Proton's


def _hatchet(record: ProfileRecord) -> bytes:
    """The list that Proton writes and llnl-hatchet reads: the tree, and the devices."""
    names = dict.fromkeys(name for scope in record.root.walk() for name in scope.metrics)
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


def _literal(scope: Scope) -> dict[str, Any]:
    metrics: Mapping[str, Any] = {**scope.metrics, **scope.labels}
    return {
        "children": [_literal(child) for child in scope.children],
        "frame": {"name": scope.name, "type": "function"},
        "metrics": dict(metrics),
    }


# speedscope's


def _speedscope(record: ProfileRecord) -> bytes:
    """A profile for each metric that adds up: stacks, as wide as each has of it."""
    names = dict.fromkeys(name for scope in record.root.walk() for name in scope.metrics)
    frames: dict[str, int] = {}
    profiles = [_stacks(record.root, name, frames) for name in names]
    data = {
        "$schema": _SCHEMA,
        "name": record.name or record.measured_by,
        "exporter": f"kernellab {kernellab_version()}",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [profile for profile in profiles if profile["samples"]],
    }
    return json.dumps(data).encode()


def _stacks(root: Scope, metric: str, frames: dict[str, int]) -> dict[str, Any]:
    samples, weights = [], []
    waiting: list[tuple[Scope, tuple[int, ...]]] = [(root, ())]
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


# Chrome's


_FORMS: Mapping[str, Callable[[ProfileRecord], bytes]] = {
    ".hatchet": _hatchet,
    ".speedscope.json": _speedscope,
    ".trace.json": lambda record: chrome_trace(Timeline.of(record).events).encode(),
}
"""The end of a file's name -> what writes it."""
