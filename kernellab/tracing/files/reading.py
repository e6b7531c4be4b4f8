"""Traces read from files."""

from __future__ import annotations

import base64
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import cast

from kernellab.common.saved_json import (
    Misfit,
    SavedData,
    kernellab_version,
    value_of,
    why_unreadable,
)
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.tracing.files.writing import DOCUMENT, FORMAT, VALUES, VERSION
from kernellab.tracing.records import Trace
from kernellab.tracing.sources import changed_sources
from kernellab.tracing.steps import (
    Access,
    AccessKind,
    AffineLanes,
    Checkpoint,
    Frame,
    LoopIteration,
    Program,
    SourceText,
    Step,
    TracedArgument,
    TracedFault,
    TraceFacts,
)
from kernellab.tracing.summaries import Summary
from kernellab.tracing.values import (
    Kind,
    StoredValue,
    ValueStore,
    decompressed,
    dtype_named,
)


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `Trace.save` wrote.

    Where the source of a function is there and has changed since, a notice of the trace says so.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of
            another version.
    """
    file = Path(path)
    try:
        with zipfile.ZipFile(file) as archive:
            document, heap = archive.read(DOCUMENT), archive.read(VALUES)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ArchiveError(f"{str(file)!r} is cut off or damaged: {error}.") from error
    except KeyError as error:
        raise ArchiveError(
            f"{str(file)!r} is a zip file, but no trace that KernelLab saved."
        ) from error
    except OSError as error:
        raise ArchiveError(why_unreadable(file, error)) from error
    return _from_document(document, heap, str(file))


def _from_document(document: bytes, heap: bytes, name: str) -> Trace:
    try:
        data = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(f"{name!r} is no trace that KernelLab saved.")
    if data.get("version") != VERSION:
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r} of the format; this KernelLab "
            f"({kernellab_version()}) reads version {VERSION}.",
            advice=f"It was written by KernelLab {data.get('kernellab')}: load it with that one.",
        )
    try:
        return _trace(SavedData(data), heap)
    except (Misfit, ValueError, TypeError) as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error


def _trace(data: SavedData, heap: bytes) -> Trace:
    distinct = [_value(one, heap) for one in data["values"].items()]
    places = [one.integer() for one in data["places"].items()]
    if not all(0 <= place < len(distinct) for place in places):
        raise data["places"].misfit(f"numbers below {len(distinct)}")
    values = ValueStore.restored(distinct, places)
    frames: list[Frame] = []
    for one in data["frames"].items():
        frames.append(_frame(one, frames, values))
    sources = [_source(one) for one in data["sources"].items()]
    arguments = [_argument(one) for one in data["arguments"].items()]
    return Trace(
        _facts(data["facts"]),
        [_step(one, number, frames, values) for number, one in enumerate(data["steps"].items())],
        frames,
        values,
        {one.name: one for one in arguments},
        [_checkpoint(one, values) for one in data["checkpoints"].items()],
        sources,
        _fault(data["fault"]),
        [*(one.text() for one in data["notices"].items()), *changed_sources(sources)],
    )


def _parts(data: SavedData, count: int) -> list[SavedData]:
    parts = data.items()
    if len(parts) != count:
        raise data.misfit(f"a list of {count}")
    return parts


def _integers(data: SavedData) -> tuple[int, ...]:
    return tuple(one.integer() for one in data.items())


def _program(data: SavedData) -> Program:
    x, y, z = (one.integer() for one in _parts(data, 3))
    return x, y, z


def _numbered(data: SavedData, values: ValueStore) -> dict[str, int]:
    return {name: _number(data[name], values) for name in data.names()}


def _number(data: SavedData, values: ValueStore) -> int:
    number = data.integer()
    if not 0 <= number < len(values):
        raise data.misfit(f"a number below {len(values)}")
    return number


def _number_or_none(data: SavedData, values: ValueStore) -> int | None:
    return None if data.is_null() else _number(data, values)


def _facts(data: SavedData) -> TraceFacts:
    return TraceFacts(
        kernel=data["kernel"].text(),
        grid=_program(data["grid"]),
        target=data["target"].text(),
        programs=tuple(_program(one) for one in data["programs"].items()),
        operations=data["operations"].boolean(),
        constants={name: data["constants"][name].text() for name in data["constants"].names()},
        options={name: data["options"][name].text() for name in data["options"].names()},
        largest_exact=data["largest_exact"].integer(),
    )


def _source(data: SavedData) -> SourceText:
    return SourceText(
        data["file"].text(),
        data["function"].text(),
        data["first_line"].integer(),
        tuple(one.text() for one in data["lines"].items()),
    )


def _argument(data: SavedData) -> TracedArgument:
    dtype_named(data["dtype"].text())
    return TracedArgument(
        data["name"].text(),
        data["dtype"].text(),
        _integers(data["shape"]),
        _integers(data["strides"]),
        data["storage"].integer(),
        data["start"].integer(),
    )


def _frame(data: SavedData, before: list[Frame], values: ValueStore) -> Frame:
    function, file, program, caller, call_line, given = _parts(data, 6)
    return Frame(
        len(before),
        function.text(),
        file.text(),
        _program(program),
        None if caller.is_null() else caller.place_in(before),
        call_line.integer(),
        _numbered(given, values),
    )


def _step(data: SavedData, number: int, frames: list[Frame], values: ValueStore) -> Step:
    frame, line, turns, changed, accesses, operation = _parts(data, 6)
    return Step(
        number,
        frame.place_in(frames),
        line.integer(),
        tuple(_iteration(one) for one in turns.items()),
        _numbered(changed, values),
        tuple(_access(one, values) for one in accesses.items()),
        values,
        operation.text(),
    )


def _iteration(data: SavedData) -> LoopIteration:
    line, header, number, *over = data.items()
    return LoopIteration(line.integer(), header.text(), number.integer(), bool(over))


def _access(data: SavedData, values: ValueStore) -> Access:
    kind, argument, itemsize, lanes, mask, written = _parts(data, 6)
    return Access(
        cast(AccessKind, kind.one_of("load", "store", "atomic")),
        argument.text(),
        itemsize.integer(),
        _lanes(lanes, values),
        _number_or_none(mask, values),
        _number_or_none(written, values),
        values,
    )


def _lanes(data: SavedData, values: ValueStore) -> AffineLanes | int:
    if isinstance(data.plain(), int):
        return _number(data, values)
    start, strides, extents = _parts(data, 3)
    return AffineLanes(start.integer(), _integers(strides), _integers(extents))


def _checkpoint(data: SavedData, values: ValueStore) -> Checkpoint:
    step, contents = _parts(data, 2)
    return Checkpoint(step.integer(), _numbered(contents, values))


def _fault(data: SavedData) -> TracedFault | None:
    if data.is_null():
        return None
    position, step = data["position"], data["step"]
    place = None
    if not position.is_null():
        file, line, column = _parts(position, 3)
        place = SourcePosition(file.text(), line.integer(), column.integer())
    return TracedFault(
        data["kind"].text(),
        data["message"].text(),
        place,
        None if step.is_null() else step.integer(),
    )


def _value(data: SavedData, heap: bytes) -> StoredValue:
    digest = base64.b64decode(data["digest"].text())
    kind: Kind = data["kind"].one_of("tile", "pointer", "constant")
    if kind == "constant":
        return StoredValue(kind, digest, "", (), constant=value_of(data["constant"]))
    dtype, shape, argument = data["dtype"].text(), _integers(data["shape"]), data["argument"].text()
    dtype_named(dtype)
    if data.has("data"):
        content = _cut(heap, *_integers(data["data"]))
        return StoredValue(kind, digest, dtype, shape, argument, data=content)
    begin, length, *sides = _integers(data["thumbnail"])
    thumbnail = decompressed(_cut(heap, begin, length), "float32", tuple(sides))
    summary = _summary(data["summary"], shape, dtype)
    return StoredValue(kind, digest, dtype, shape, argument, summary=summary, thumbnail=thumbnail)


def _summary(data: SavedData, shape: tuple[int, ...], dtype: str) -> Summary:
    low, high, mean = (value_of(data[name]) for name in ("low", "high", "mean"))
    return Summary(
        shape, dtype, low, high, mean, data["nans"].integer(), data["infinities"].integer()
    )


def _cut(heap: bytes, begin: int, length: int) -> bytes:
    if begin < 0 or begin + length > len(heap):
        raise Misfit("a value lies beyond the end of the file")
    return heap[begin : begin + length]
