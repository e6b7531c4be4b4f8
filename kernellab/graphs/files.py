"""Reports on disk: one file of compressed JSON. Reading it executes nothing."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import zlib
from pathlib import Path

from kernellab.common.saved_files import BadFile, gunzipped, is_version, json_in, text_in
from kernellab.common.saved_json import Misfit, SavedData, save_whole, saved_path
from kernellab.common.saved_records import RecordReader
from kernellab.errors import ArchiveError
from kernellab.records.graphs import GraphCapture

FORMAT = "kernellab.graphs"
VERSION = 1

_READER = RecordReader()

_BEGINNING = 512
"""Bytes of a file that say what it is."""


def save(capture: GraphCapture, path: str | os.PathLike[str]) -> Path:
    """Write a capture; an existing file is replaced once the new one is complete.

    Raises:
        ArchiveError: the file cannot be written.
    """
    file = saved_path(path, ArchiveError)
    data = {"format": FORMAT, "version": VERSION, "capture": dataclasses.asdict(capture)}
    return save_whole(file, gzip.compress(json.dumps(data).encode(), mtime=0), ArchiveError)


def is_of_graphs(content: bytes) -> bool:
    """Return whether the bytes of a file begin like a report."""
    try:
        start = zlib.decompressobj(wbits=31).decompress(content[:_BEGINNING], _BEGINNING)
    except zlib.error:
        return False
    return start.startswith(json.dumps({"format": FORMAT})[:-1].encode())


def capture_in_file(content: bytes, file: Path) -> GraphCapture:
    """Return the capture that the bytes of a file hold.

    Raises:
        ArchiveError: the file is damaged, or has another version.
    """
    try:
        data = SavedData(json_in(text_in(gunzipped(content)), len(content)))
        if not is_version(data["version"].plain(), VERSION):
            raise Misfit(f"its version is not {VERSION}")
        return capture_in(data)
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error
    except Misfit as error:
        raise ArchiveError(f"{str(file)!r} is not a complete report: {error}.") from error


def capture_in(data: SavedData) -> GraphCapture:
    """Return the capture that JSON data holds.

    Raises:
        Misfit: a part does not match the format.
    """
    capture = _READER.read(GraphCapture, data["capture"])
    assert isinstance(capture, GraphCapture)
    return capture
