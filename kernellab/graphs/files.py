"""Reports on disk: one file of compressed JSON, plain data that nothing of is executed."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import os
import types
import typing
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import BadFile, gunzipped, is_version, json_in, text_in
from kernellab.common.saved_json import Misfit, SavedData, save_whole, saved_path
from kernellab.errors import ArchiveError
from kernellab.records.graphs import GraphCapture

FORMAT = "kernellab.graphs"
VERSION = 1

_BEGINNING = 512
"""Bytes of a file that say what it is."""


def save(capture: GraphCapture, path: str | os.PathLike[str]) -> Path:
    """Write a capture; a file that is there is overwritten once the new one is complete.

    Raises:
        ArchiveError: the file cannot be written.
    """
    file = saved_path(path, ArchiveError)
    data = {"format": FORMAT, "version": VERSION, "capture": dataclasses.asdict(capture)}
    return save_whole(file, gzip.compress(json.dumps(data).encode(), mtime=0), ArchiveError)


def is_of_graphs(content: bytes) -> bool:
    """Whether the bytes of a file begin as a report's do."""
    try:
        start = zlib.decompressobj(wbits=31).decompress(content[:_BEGINNING], _BEGINNING)
    except zlib.error:
        return False
    return start.startswith(json.dumps({"format": FORMAT})[:-1].encode())


def capture_in_file(content: bytes, file: Path) -> GraphCapture:
    """The capture that the bytes of a file hold.

    Raises:
        ArchiveError: it is damaged, or of another version.
    """
    try:
        data = SavedData(json_in(text_in(gunzipped(content)), len(content)))
        if not is_version(data["version"].plain(), VERSION):
            raise Misfit(f"its version is not {VERSION}")
        return capture_in(data)
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error
    except Misfit as error:
        raise ArchiveError(f"{str(file)!r} is no whole report: {error}.") from error


def capture_in(data: SavedData) -> GraphCapture:
    """The capture that JSON holds.

    Raises:
        Misfit: some part is not what the format says.
    """
    found = _reader(GraphCapture)(data["capture"])
    assert isinstance(found, GraphCapture)
    return found


@functools.cache
def _reader(kind: Any) -> Callable[[SavedData], Any]:
    """What reads a value of a type that records have."""
    plain: dict[Any, Callable[[SavedData], Any]] = {
        str: SavedData.text,
        int: SavedData.integer,
        float: SavedData.number,
        bool: SavedData.boolean,
    }
    if kind in plain:
        return plain[kind]
    if dataclasses.is_dataclass(kind):
        return functools.partial(_read_record, kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_read_one_of, parts)
    if origin is tuple:
        return lambda data: tuple(_reader(parts[0])(item) for item in data.items())
    if origin is dict:
        return lambda data: {name: _reader(parts[1])(data[name]) for name in data.names()}
    raise TypeError(f"records have no values of {kind}")


def _read_record(kind: Any, data: SavedData) -> Any:
    """A record; what has a default may lack in a file: an earlier version knew nothing of it."""
    hints, there = typing.get_type_hints(kind), set(data.names())
    return kind(
        **{
            field.name: _reader(hints[field.name])(data[field.name])
            for field in dataclasses.fields(kind)
            if field.name in there or not _has_default(field)
        }
    )


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _read_one_of(kinds: tuple[Any, ...], data: SavedData) -> Any:
    if data.is_null() and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _reader(kind)(data)
        except Misfit:
            continue
    return _reader(others[-1])(data)
