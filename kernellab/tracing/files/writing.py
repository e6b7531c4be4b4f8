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
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.tracing.steps import (
    Access,
    AffineLanes,
    Checkpoint,
    Frame,
    LoopIteration,
    Step,
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
    document = json.dumps(
        _to_json(trace, heap), default=_plain, separators=(",", ":"), ensure_ascii=False
    )
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
        "facts": trace.facts,
        "sources": trace.sources,
        "arguments": list(trace.arguments.values()),
        "frames": [_row(frame, "number") for frame in trace.frames],
        "steps": trace.steps,
        "checkpoints": trace.checkpoints,
        "fault": trace.fault,
        "notices": list(trace.notices),
        "places": trace.values.places(),
        "values": [_value_to_json(value, heap) for value in trace.values.distinct()],
    }


def _row(record: Any, *left_out: str) -> list[Any]:
    """A record as the list of its fields' values; see `RecordReader.row`."""
    return [
        getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in left_out
    ]


def _plain(record: Any) -> Any:
    """A record in types that JSON has, or that this function takes."""
    match record:
        case Frame():
            return record.number
        case Step():
            return _row(record, "number", "values")
        case Access():
            return _row(record, "values")
        case LoopIteration():
            return _row(record, *([] if record.is_over else ["is_over"]))
        case AffineLanes() | Checkpoint() | SourcePosition():
            return _row(record)
        case _:
            return vars(record)


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
