"""Traces read from files: a zip file of `trace.json`, the steps and all that is short, and
`values`, the tiles, each compressed by itself.

A change that an older reader would misread gets a new version number.
"""

from __future__ import annotations

import base64
import io
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy

from kernellab.common.saved_files import (
    MOST_LINES_OF_FUNCTION,
    BadFile,
    Limits,
    RecordReader,
    SavedData,
    SchemaError,
    inflated_limit,
    json_in,
    reading,
    text_in,
    value_of,
)
from kernellab.errors import ArchiveError
from kernellab.tracing import values
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import (
    DOCUMENT,
    FORMAT,
    VALUES,
    Access,
    AffineLanes,
    AsyncOperation,
    Checkpoint,
    Dtype,
    Frame,
    Lanes,
    LoopIteration,
    Shape,
    SourceText,
    Step,
    TracedArgument,
    TracedFault,
    TraceFacts,
    ValueNumber,
    changed_sources,
)


def trace_in(content: bytes, file: Path) -> Trace:
    """The trace that the bytes of a file hold, which `Trace.save` wrote.

    Where the source of a function is there and has changed since, a notice of the trace says so.

    Raises:
        ArchiveError: it is not a trace, it is damaged, or of another version.
    """
    name = str(file)
    with reading(name):
        try:
            document, heap = _zip_members(content, DOCUMENT, VALUES)
        except KeyError as error:
            raise ArchiveError(
                f"{name!r} is a zip file, but not a trace that KernelLab saved.",
                advice="Pass a file that trace.save wrote.",
            ) from error
        data = FORMAT.parts(json_in(text_in(document), len(content)), name)
        try:
            return _Reader(data, heap).trace()
        except (ValueError, TypeError) as error:
            raise SchemaError(str(error)) from error


def _zip_members(content: bytes, *names: str) -> list[bytes]:
    """Entries of a zip file. Raises KeyError: there is no such entry; BadFile: damaged, encrypted,
    not deflated, or unpacks to more than `inflated_limit`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [archive.getinfo(name) for name in names]
            return [_member(archive, entry, len(content)) for entry in entries]
    except (KeyError, BadFile):
        raise
    except Exception as error:  # zipfile raises whatever its parts do
        words = str(error)[:200] or type(error).__name__
        raise BadFile(f"is cut off or damaged: {words}") from error


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, there: int) -> bytes:
    if entry.flag_bits & 0x1:
        raise BadFile(f"is damaged: its entry {entry.filename!r} is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadFile(
            f"is damaged: its entry {entry.filename!r} has the compression method "
            f"{entry.compress_type}, which traces do not use"
        )
    most = there if entry.compress_type == zipfile.ZIP_STORED else inflated_limit(there)
    if entry.file_size > most:
        raise BadFile(
            f"is not a valid file: its entry {entry.filename!r} must unpack to at most {most:,} "
            f"bytes, got {entry.file_size:,}"
        )
    with archive.open(entry) as opened:
        content = opened.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise BadFile(f"is cut off or damaged: its entry {entry.filename!r} is incomplete")
    return content


_MOST_LANES = 1 << 20
"""Of an access: Triton's own limit for the elements of a tile."""

_MOST_CALLS = 200
"""Functions that call each other, within each other."""

_MOST_DIMENSIONS = 16

_MOST_KEPT = values.TOTAL_EXACT + values.TOTAL_MEMORY
"""Bytes that all values of a trace may have, as many as a recorder keeps."""


class _Reader(RecordReader):
    """Reads the parts of one trace, which name its values and its frames by their numbers."""

    def __init__(self, data: SavedData, heap: bytes) -> None:
        super().__init__(
            {
                Access: self._access,
                AffineLanes: self._affine_lanes,
                Dtype: _dtype,
                Frame: lambda data: data.place_in(self._frames),
                Lanes: self._lanes,
                LoopIteration: partial(self.row, LoopIteration),
                Shape: _shape,
                ValueNumber: self._number,
            }
        )
        self._data = data
        self._heap = heap
        self._left = _MOST_KEPT
        distinct = [self._value(item) for item in data["values"].items()]
        places = list(self.read(tuple[int, ...], data["places"]))
        if not all(0 <= place < len(distinct) for place in places):
            raise data["places"].misfit(f"numbers below {len(distinct)}")
        self._values = values.ValueStore.restored(distinct, places)
        self._frames: list[Frame] = []

    def trace(self) -> Trace:
        data = self._data
        facts: TraceFacts = self.record(TraceFacts, data["facts"])
        if not facts.programs:
            raise data["facts"]["programs"].misfit("a list of one program or more")
        self._read_frames(data["frames"])
        for item in data["sources"].items():
            item["lines"].check_count(MOST_LINES_OF_FUNCTION)
        sources = self.read(tuple[SourceText, ...], data["sources"])
        arguments = {known.name: known for known in map(self._argument, data["arguments"].items())}
        steps = [
            self.row(Step, item, number=number, values=self._values)
            for number, item in enumerate(data["steps"].items())
        ]
        fault = self.read(TracedFault | None, data["fault"])
        if fault is not None and fault.step is not None and fault.step > max(len(steps) - 1, 0):
            raise data["fault"]["step"].misfit("the number of a step")
        return Trace(
            facts,
            steps,
            self._frames,
            self._values,
            arguments,
            self._checkpoints(data["checkpoints"], len(steps), arguments),
            sources,
            fault,
            [*self.read(tuple[str, ...], data["notices"]), *changed_sources(sources)],
            asynchronous=list(self._asynchronous(len(steps))),
        )

    def _asynchronous(self, steps: int) -> Iterator[AsyncOperation]:
        for item in self._data["asynchronous"].items():
            operation: AsyncOperation = self.row(AsyncOperation, item)
            if max(operation.issued, operation.completed or 0) >= steps:
                raise item.misfit("of steps of the trace")
            yield operation

    def _read_frames(self, data: SavedData) -> None:
        depths: list[int] = []
        for number, item in enumerate(data.items()):
            frame: Frame = self.row(Frame, item, number=number)
            depths.append(0 if frame.caller is None else 1 + depths[frame.caller.number])
            if depths[-1] > _MOST_CALLS:
                raise item.misfit(f"within {_MOST_CALLS} calls")
            self._frames.append(frame)

    def _argument(self, data: SavedData) -> TracedArgument:
        argument: TracedArgument = self.record(TracedArgument, data)
        if len(argument.strides) != len(argument.shape):
            raise data["strides"].misfit(f"a list of {len(argument.shape)}")
        return argument

    def _checkpoints(
        self, data: SavedData, steps: int, arguments: Mapping[str, TracedArgument]
    ) -> list[Checkpoint]:
        checkpoints = []
        missing = set(arguments)
        for item in data.items():
            checkpoint: Checkpoint = self.row(Checkpoint, item)
            checkpoints.append(checkpoint)
            if checkpoint.step > steps:
                raise item.misfit(f"of a step up to {steps}")
            if checkpoint.step == 0:
                missing.difference_update(checkpoint.contents)
            for name, number in checkpoint.contents.items():
                value = self._values[number]
                if name not in arguments:
                    raise item.misfit("of arguments of the launch")
                argument = arguments[name]
                same_size = math.prod(value.shape) == math.prod(argument.shape)
                if value.kind != "tile" or value.dtype != argument.dtype or not same_size:
                    raise item.misfit(f"for {name[:40]!r}, {argument.dtype}{list(argument.shape)}")
        if missing:
            raise data.misfit(f"what arguments hold at the beginning, {min(missing)!r} too")
        return checkpoints

    # Accesses

    def _access(self, data: SavedData) -> Access:
        access: Access = self.row(Access, data, values=self._values)
        _, _, _, lanes, mask, written = data.items()
        shapes = [
            access.lanes.extents
            if isinstance(access.lanes, AffineLanes)
            else self._of_kind(lanes, "integers", lambda dtype: dtype.kind in "iu")
        ]
        if access.mask_number is not None:
            shapes.append(self._of_kind(mask, "booleans", lambda dtype: dtype.kind == "b"))
        _check_lanes(data, shapes)
        if access.written_number is not None:
            size = access.itemsize
            words = f"elements of {size} bytes"
            shape = self._of_kind(written, words, lambda dtype: dtype.itemsize == size)
            if numpy.broadcast_shapes(*shapes) != _check_lanes(data, [*shapes, shape]):
                raise written.misfit("of as many lanes as the access")
        return access

    def _of_kind(
        self, data: SavedData, words: str, fits: Callable[[numpy.dtype], bool]
    ) -> tuple[int, ...]:
        """The shape of the value of a number, which is an array of such elements."""
        value = self._values[data.plain()]
        if value.kind == "constant" or not fits(values.dtype_named(value.dtype)):
            raise data.misfit(f"the number of a tile of {words}")
        return value.shape

    def _lanes(self, data: SavedData) -> AffineLanes | int:
        return self._number(data) if type(data.plain()) is int else self._affine_lanes(data)

    def _affine_lanes(self, data: SavedData) -> AffineLanes:
        lanes: AffineLanes = self.row(AffineLanes, data)
        if len(lanes.strides) != len(lanes.extents):
            raise data.misfit(f"a start, {len(lanes.extents)} strides and as many sizes")
        reach = sum(abs(step) * size for step, size in zip(lanes.strides, lanes.extents))
        if abs(lanes.start) + reach >= 2**62:
            raise data.misfit("places of 64 bits")
        return lanes

    # Values

    def _number(self, data: SavedData) -> int:
        number = data.integer()
        if not 0 <= number < len(self._values):
            raise data.misfit(f"a number below {len(self._values)}")
        return number

    def _value(self, data: SavedData) -> values.StoredValue:
        digest = base64.b64decode(data["digest"].text(), validate=True)
        kind: values.Kind = data["kind"].one_of("tile", "pointer", "constant")
        if kind == "constant":
            return values.StoredValue(kind, digest, "", (), constant=value_of(data["constant"]))
        dtype, shape = _dtype(data["dtype"]), _shape(data["shape"])
        stored = partial(values.StoredValue, kind, digest, dtype, shape, data["argument"].text())
        if kind == "pointer" and values.dtype_named(dtype).kind not in "iu":
            raise data["dtype"].misfit("a type of integers")
        if data.has("data"):
            return stored(data=self._content(data["data"].parts(2), dtype, shape))
        *place, rows, columns = data["thumbnail"].parts(4)
        picture = rows.integer(0, values.THUMBNAIL_SIDE), columns.integer(0, values.THUMBNAIL_SIDE)
        content = self._content(place, "float32", picture)
        return stored(
            known_summary=_summary(data["summary"], shape, dtype),
            known_thumbnail=values.decompressed(content, "float32", picture),
        )

    def _content(self, place: list[SavedData], dtype: str, shape: tuple[int, ...]) -> bytes:
        """The compressed bytes at a place, which are those of such an array."""
        begin, length = (part.count() for part in place)
        if begin + length > len(self._heap):
            raise SchemaError("a value is beyond the end of the file")
        size = math.prod(shape) * values.dtype_named(dtype).itemsize
        self._left -= size
        if self._left < 0:
            raise place[1].misfit(
                f"within the {_MOST_KEPT:,} bytes that a trace keeps of all values"
            )
        content = self._heap[begin : begin + length]
        try:
            for _ in values.inflated(content, size):
                pass
        except ValueError as error:
            raise place[1].misfit(f"of {size:,} bytes, {dtype}{list(shape)}: {error}") from error
        return content


_Size = Annotated[int, Limits(0, 1 << 40)]
_SIZES = RecordReader()


def _shape(data: SavedData) -> tuple[int, ...]:
    """Sizes of an array, which NumPy can have; what has bytes here is compared with them too."""
    sizes: tuple[int, ...] = _SIZES.read(tuple[_Size, ...], data)
    if len(sizes) > _MOST_DIMENSIONS or math.prod(size or 1 for size in sizes) > 1 << 48:
        raise data.misfit(f"sizes of an array, {_MOST_DIMENSIONS} at most")
    return sizes


def _dtype(data: SavedData) -> str:
    try:
        return values.dtype_named(data.text()).name
    except TypeError:
        raise data.misfit("a type of numbers") from None


def _check_lanes(data: SavedData, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        shape = numpy.broadcast_shapes(*shapes)
    except ValueError as error:
        raise data.misfit("an access whose parts have the same lanes") from error
    if math.prod(shape) > _MOST_LANES:
        raise data.misfit(f"an access of no more than {_MOST_LANES:,} lanes")
    return shape


def _summary(data: SavedData, shape: tuple[int, ...], dtype: str) -> values.Summary:
    size = math.prod(shape)
    low, high, mean = (_number_in_summary(data[name]) for name in ("low", "high", "mean"))
    if dtype == "bool" and mean is not None and not 0 <= mean <= 1:
        raise data["mean"].misfit("a part of the elements, 0 to 1")
    nans, infinities = (data[name].integer(0, size) for name in ("nans", "infinities"))
    return values.Summary(shape, dtype, low, high, mean, nans, infinities)


def _number_in_summary(data: SavedData) -> float | None:
    value = value_of(data)
    if value is None or type(value) is float:
        return value
    return data.integer(-(2**64), 2**64)
