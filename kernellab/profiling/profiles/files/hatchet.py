"""Proton's profiles: the JSON that llnl-hatchet reads as a literal, a list of trees, the second
of which has the devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from kernellab.common.saved_files import BadFile, json_in, text_in
from kernellab.common.saved_json import Misfit
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import (
    COUNT,
    TIME,
    Device,
    Machine,
    ProfiledLine,
    Scope,
    ScopeKind,
)
from kernellab.profiling.profiles.trees import MOST_LEVELS

_METADATA = "__proton_launch_metadata"
"""Proton's scope of a kernel's `launch_metadata`; proton-viewer leaves it out too."""

_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d{1,9})(@(?P<function>[^:]*))?")
"""A frame of Python, or a line of a kernel: "k.py:12@matmul"."""

SAMPLES = "num_samples"
_LARGEST = 1e300


def is_hatchet(content: bytes) -> bool:
    """Whether the bytes of a file begin as Proton's profiles do."""
    start = content[:4096].lstrip()
    return start.startswith(b"[") and (b'"frame"' in start or b'"children"' in start)


def hatchet_in(content: bytes, measured_by: str) -> Profile:
    """The profile in the bytes of a file.

    Raises:
        BadFile: they are not JSON, or larger than any profile.
        Misfit: they are not a profile.
    """
    document = json_in(text_in(content), len(content))
    trees = document if isinstance(document, list) else []
    roots = [tree for tree in trees if isinstance(tree, dict) and "frame" in tree]
    others = [tree for tree in trees if isinstance(tree, dict) and "frame" not in tree]
    if not roots:
        raise Misfit("it should be a list with a tree of frames")
    scopes = [_scope(root, 0, None) for root in roots]
    kept = [scope for scope in scopes if scope is not None]
    several = len(roots) > 1 or not kept
    root = Scope("ROOT", "root", {}, tuple(kept)) if several else kept[0]
    # Proton writes 0 in the root for all metrics that add up.
    metrics = {name: number for name, number in root.metrics.items() if number}
    root = replace(root, kind="root", metrics=metrics)
    said = roots[0]["frame"].get("measured_by")  # in files that this lab wrote
    measured_by = said if isinstance(said, str) and said else measured_by
    machine = Machine(devices=tuple(_devices(others[0] if others else {})))
    return Profile(measured_by, root, machine, line_records=tuple(_lines(root)))


def _scope(node: Any, level: int, above: ScopeKind | None) -> Scope | None:
    """A node and all below it; None for what is Proton's own."""
    if level > MOST_LEVELS:
        raise BadFile(
            f"is not a valid profile: its scopes are nested deeper than {MOST_LEVELS} levels"
        )
    if not isinstance(node, dict) or not isinstance(node.get("frame"), dict):
        raise Misfit("a node of its tree should be an object with a frame")
    name, given = node["frame"].get("name", ""), node.get("metrics", {})
    inner = node.get("children", [])
    if not isinstance(name, str) or not isinstance(given, dict) or not isinstance(inner, list):
        raise Misfit("a node of its tree should have a name, metrics and a list of children")
    if name == _METADATA:
        return None
    metrics, labels = _metrics(given)
    kind: ScopeKind = "root" if level == 0 else _kind(name, metrics, labels, above)
    scopes = (_scope(node, level + 1, kind) for node in inner)
    children = tuple(scope for scope in scopes if scope is not None)
    if level and not children and (inner or not (metrics or labels)):
        return None  # as proton-viewer: nothing was measured in it
    return Scope(name, kind, metrics, children, labels)


def _kind(
    name: str, metrics: Mapping[str, float], labels: Mapping[str, str], above: ScopeKind | None
) -> ScopeKind:
    if above in ("kernel", "line"):
        return "line"
    if "device_id" in labels or (TIME in metrics and COUNT in metrics):
        return "kernel"
    return "frame" if _PLACE.fullmatch(name) else "scope"


def _metrics(given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers, and what is none. Of a vector the sum counts, as its parts would in a tree."""
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
            raise BadFile(f"is damaged: {name[:40]!r} is {value:.3g}, which was never measured")
        else:
            plain = name.replace("(inc)", "").replace("(exc)", "").strip()
            numbers[plain] = numbers.get(plain, 0) + value
    return numbers, labels


def _devices(given: Mapping[str, Any]) -> list[Device]:
    listed = []
    for kind, devices in given.items():
        for index, facts in devices.items() if isinstance(devices, dict) else ():
            if isinstance(facts, dict):
                listed.append(
                    Device(
                        kind,
                        index,
                        str(facts.get("arch", ""))[:40],
                        *(
                            _whole(facts.get(name))
                            for name in ("num_sms", "clock_rate", "memory_clock_rate", "bus_width")
                        ),
                    )
                )
    return listed


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _lines(root: Scope) -> list[ProfiledLine]:
    """What was sampled of kernels' lines, those of one line of one kernel together."""
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
        ProfiledLine(
            file=file,
            line=line,
            operation="",
            share=max(metrics[SAMPLES] / whole[kernel], 0) if whole[kernel] else 0.0,
            kernel=kernel,
            metrics=metrics,
        )
        for (kernel, file, line), metrics in lines.items()
    ]
