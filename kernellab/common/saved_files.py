"""Files that somebody saved, read with care: regular files only, of limited size,
JSON without extensions. All kinds of files are read through here.

A file is untrusted data. Whatever is in it, reading it takes no more time and memory than its size
justifies, and faults raise a `BadFile` that says what is wrong.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernellab.common.saved_json import MOST_DEPTH, kernellab_version, why_unreadable
from kernellab.errors import ArchiveError, KernelLabError

MOST_BYTES = 512 * 1024 * 1024
"""Of a file."""

MOST_UNKNOWN = 16 * 1024 * 1024
"""Of a file that says that it is empty, as those of /proc do."""

MOST_INFLATED = 256 * 1024 * 1024
"""What a compressed text may unpack to, however large the file is."""

ALWAYS_INFLATED = 64 * 1024 * 1024
"""What a compressed text may unpack to, however small the file is."""

MOST_RATIO = 32
"""Beyond that, how many bytes each byte of the file may unpack to. Saved compilations have about
10, traces up to 20."""

ALWAYS_PARTS = 2_000_000
"""Commas and brackets of a JSON text, in a file of any size: each may be a value in memory."""

MOST_DIGITS = 100
"""Of a number in a JSON text."""


class BadFile(Exception):
    """A file that cannot be what it says. The text follows the file's name: "is cut off ..."."""


class NotText(BadFile):
    """It holds other bytes than UTF-8."""


class NotJson(BadFile):
    """It holds no JSON, or JSON that breaks off.

    Attributes:
        line, column: where, from 1.
    """

    def __init__(self, words: str, line: int, column: int) -> None:
        super().__init__(words)
        self.line = line
        self.column = column


# --------------------------------------------------------------------------------------------------
# Bytes
# --------------------------------------------------------------------------------------------------


def file_bytes(file: Path, refused: type[KernelLabError], most: int = MOST_BYTES) -> bytes:
    """What a regular file holds.

    Raises:
        KernelLabError: of the class `refused`: it cannot be read, is a folder, a pipe, a device, or
            has more than `most` bytes.
    """
    try:
        return regular_bytes(file, most)
    except OSError as error:
        raise refused(why_unreadable(file, error)) from error
    except BadFile as error:
        raise refused(f"{str(file)!r} {error}.") from error


def regular_bytes(file: Path, most: int = MOST_BYTES) -> bytes:
    """What a regular file holds.

    Raises:
        OSError: it cannot be read.
        BadFile: it is a folder, a pipe, a device, or has more than `most` bytes.
    """
    _check_regular(os.stat(file), most)
    # Another file may be there by now: opening a pipe must not wait for its other end.
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as opened:
        _check_regular(os.fstat(descriptor), most)
        # Not by the limit: so much memory would be asked for first.
        known = os.fstat(descriptor).st_size
        most = most if known else min(most, MOST_UNKNOWN)
        content = opened.read(known or most + 1)
    if len(content) > most:
        raise BadFile(f"has no known size, and more than {most:,} bytes")
    return content


def _check_regular(status: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise BadFile("is not a regular file, but a pipe, a socket or a device")
    if status.st_size > most:
        raise BadFile(f"has {status.st_size:,} bytes; no more than {most:,} are read")


# --------------------------------------------------------------------------------------------------
# Compressed bytes
# --------------------------------------------------------------------------------------------------


def inflated_limit(packed: int) -> int:
    """Bytes that so many compressed ones may unpack to."""
    return min(MOST_INFLATED, max(ALWAYS_INFLATED, MOST_RATIO * packed))


def gunzipped(content: bytes) -> bytes:
    """What a gzip file holds.

    Raises:
        BadFile: it is damaged, cut off, or unpacks to more than `inflated_limit`.
    """
    most = inflated_limit(len(content))
    parts = bytearray()
    while content:
        unpacking = zlib.decompressobj(wbits=31)
        try:
            parts += unpacking.decompress(content, most + 1 - len(parts))
        except zlib.error as error:
            raise BadFile(f"is cut off or damaged: {error}") from error
        if len(parts) > most:
            raise BadFile(
                f"is not a valid file: {len(content):,} bytes unpack to more than {most:,}"
            )
        if not unpacking.eof:
            raise BadFile("is cut off or damaged: its compressed data has no end")
        content = unpacking.unused_data.lstrip(b"\0")
    return bytes(parts)


_STEP = 1 << 16
"""Compressed bytes that are unpacked at once."""

_MOST_AT_ONCE = 1 << 20
"""Bytes that come of them at once."""


def inflated(data: bytes, size: int) -> Iterator[bytes]:
    """Deflated data, which must unpack to `size` bytes, part by part; not a part more is unpacked.

    Raises:
        ValueError: it does not, at the latest when the last part was taken.
    """
    unpacking = zlib.decompressobj()
    left = size
    try:
        for at in range(0, len(data), _STEP):
            waiting: bytes = data[at : at + _STEP]
            while waiting and not unpacking.eof:
                # One byte more, so that the end is seen.
                content = unpacking.decompress(waiting, min(left + 1, _MOST_AT_ONCE))
                waiting = unpacking.unconsumed_tail
                left -= len(content)
                if left < 0:
                    raise ValueError(f"compressed data is not of {size:,} bytes")
                yield content
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if left or not unpacking.eof:
        raise ValueError(f"compressed data is not of {size:,} bytes")


def zip_members(content: bytes, *names: str) -> list[bytes]:
    """Entries of a zip file.

    Raises:
        KeyError: there is no such entry.
        BadFile: it is damaged, encrypted, compressed otherwise than by deflation, or unpacks to
            more than `inflated_limit`.
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
            f"is damaged: its entry {entry.filename!r} is compressed by method "
            f"{entry.compress_type}, which no trace is"
        )
    most = there if entry.compress_type == zipfile.ZIP_STORED else inflated_limit(there)
    if entry.file_size > most:
        raise BadFile(
            f"is not a valid file: its entry {entry.filename!r} would unpack to "
            f"{entry.file_size:,} bytes, and no more than {most:,} are read"
        )
    with archive.open(entry) as opened:
        content = opened.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise BadFile(f"is cut off or damaged: its entry {entry.filename!r} has another size")
    return content


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------


def text_in(content: bytes) -> str:
    """A file's text.

    Raises:
        NotText: it is none.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NotText(f"holds no text: {error}") from error


def json_in(text: str, packed: int = 0) -> Any:
    """The value of a JSON text: numbers are finite, texts can be written as UTF-8.

    Args:
        text: of a file.
        packed: the file's bytes: a large one may have more parts.

    Raises:
        NotJson: it is not JSON.
        BadFile: it is JSON, but nested too deeply, or too large, or has numbers that are none.
    """
    most = max(ALWAYS_PARTS, 2 * packed)
    parts = sum(text.count(mark) for mark in ",[{")
    if parts > most:
        raise BadFile(
            f"is not a valid file: it has {parts:,} values, but at most {most:,} are allowed"
        )
    try:
        data = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
    except RecursionError as error:
        raise BadFile(_TOO_DEEP) from error
    except json.JSONDecodeError as error:
        raise NotJson(f"is cut off or damaged: {error}", error.lineno, error.colno) from error
    return _with_whole_characters(data) if _SURROGATE.search(text) else data


_TOO_DEEP = f"is damaged: its lists and objects are nested deeper than {MOST_DEPTH} levels"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character, whose other half may be missing."""


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BadFile(
            f"is damaged: the number {digits[:12]}... has {len(digits):,} digits, "
            f"and no more than {MOST_DIGITS} are read"
        )
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadFile(f"is damaged: the number {digits[:24]} is too large")
    return number


def _no_number(word: str) -> Any:
    raise BadFile(f"is damaged: {word} is not a number in JSON")


def _with_whole_characters(value: Any, depth: int = 0) -> Any:
    """The value, with the sign for an unknown character where a text has half of one."""
    if depth > MOST_DEPTH:
        raise BadFile(_TOO_DEEP)
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_with_whole_characters(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {
            _with_whole_characters(name): _with_whole_characters(item, depth + 1)
            for name, item in value.items()
        }
    return value


def is_version(value: Any, version: int) -> bool:
    """Whether a file says that it is of a version: true and 1.0 say none."""
    return type(value) is int and value == version


def check_version(name: str, data: Mapping[str, Any], version: int) -> None:
    """Raise ArchiveError unless a file, by its `name`, says that it is of this version."""
    if not is_version(data.get("version"), version):
        raise ArchiveError(
            f"{name!r} is of version {data.get('version')!r:.40} of the format; this KernelLab "
            f"({kernellab_version()}) reads version {version}.",
            advice=f"It was written by KernelLab {data.get('kernellab')!s:.40}: "
            "load it with that version.",
        )
