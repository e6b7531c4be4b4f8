"""Traces written to files."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.common.saved_json import (
    kernellab_version,
    save_whole,
    saved_path,
    value_to_json,
)
from kernellab.errors import ArchiveError
from kernellab.tracing.steps import (
    Access,
    AffineLanes,
    Frame,
    Step,
    TracedFault,
)
from kernellab.tracing.values import (
    StoredValue,
    compressed,
)

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

FORMAT = "kernellab.trace"
VERSION = 1

DOCUMENT, VALUES = "trace.json", "values"
"""The two entries of the zip file."""


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write a trace; see `Trace.save`."""
    target = saved_path(path, ArchiveError)
    heap = _Heap()
    document = json.dumps(_to_json(trace, heap), separators=(",", ":"), ensure_ascii=False)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(_entry(DOCUMENT), document, zipfile.ZIP_DEFLATED)
        archive.writestr(_entry(VALUES), bytes(heap.content), zipfile.ZIP_STORED)
    return save_whole(target, content.getvalue(), ArchiveError)


def _entry(name: str) -> zipfile.ZipInfo:
    # Its date is always the same, so that equal traces make equal files.
    return zipfile.ZipInfo(name)


class _Heap:
    """Compressed tiles, one behind the other."""

    def __init__(self) -> None:
        self.content = bytearray()

    def place(self, data: bytes) -> list[int]:
        """Where the data was put: its beginning and its length."""
        self.content += data
        return [len(self.content) - len(data), len(data)]


def _to_json(trace: Trace, heap: _Heap) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kernellab": kernellab_version(),
        "facts": dataclasses.asdict(trace.facts),
        "sources": [dataclasses.asdict(one) for one in trace.sources],
        "arguments": [dataclasses.asdict(one) for one in trace.arguments.values()],
        "frames": [_frame_to_json(frame) for frame in trace.frames],
        "steps": [_step_to_json(step) for step in trace.steps],
        "checkpoints": [[one.step, dict(one.contents)] for one in trace.checkpoints],
        "fault": _fault_to_json(trace.fault),
        "notices": list(trace.notices),
        "places": trace.values.places(),
        "values": [_value_to_json(one, heap) for one in trace.values.distinct()],
    }


def _frame_to_json(frame: Frame) -> list[Any]:
    caller = None if frame.caller is None else frame.caller.number
    return [frame.function, frame.file, frame.program, caller, frame.call_line, frame.given]


def _step_to_json(step: Step) -> list[Any]:
    turns = [
        [iteration.line, iteration.header, iteration.number, *([True] if iteration.is_over else [])]
        for iteration in step.turns
    ]
    accesses = [_access_to_json(access) for access in step.accesses]
    return [step.frame.number, step.line, turns, step.changed_numbers, accesses, step.operation]


def _access_to_json(access: Access) -> list[Any]:
    lanes: Any = access.lanes
    if isinstance(lanes, AffineLanes):
        lanes = [lanes.start, lanes.strides, lanes.extents]
    return [
        access.kind,
        access.argument,
        access.itemsize,
        lanes,
        access.mask_number,
        access.written_number,
    ]


def _fault_to_json(fault: TracedFault | None) -> dict[str, Any] | None:
    if fault is None:
        return None
    position = fault.position
    place = None if position is None else [position.file, position.line, position.column]
    return {"kind": fault.kind, "message": fault.message, "position": place, "step": fault.step}


def _value_to_json(value: StoredValue, heap: _Heap) -> dict[str, Any]:
    digest = base64.b64encode(value.digest).decode()
    if value.kind == "constant":
        return {"kind": value.kind, "digest": digest, "constant": value_to_json(value.constant)}
    saved: dict[str, Any] = {
        "kind": value.kind,
        "digest": digest,
        "dtype": value.dtype,
        "shape": value.shape,
        "argument": value.argument,
    }
    data = value.packed()
    if data is not None:
        return {**saved, "data": heap.place(data)}
    numbers = dataclasses.asdict(value.summary)
    thumbnail = value.thumbnail
    picture = [*heap.place(compressed(thumbnail)), *thumbnail.shape]
    summary = {
        name: value_to_json(number)
        for name, number in numbers.items()
        if name not in ("shape", "dtype")
    }
    return {**saved, "summary": summary, "thumbnail": picture}
