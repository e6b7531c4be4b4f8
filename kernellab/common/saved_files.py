"""Saved files: values as JSON, written whole or not at all, and read with care."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import json
import math
import os
import re
import stat
import sys
import types
import typing
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from kernellab.common.system import why_unreadable, without_collections
from kernellab.common.text import counted, shown
from kernellab.errors import ArchiveError, KernelLabError, SourcePosition

MOST_DEPTH = 64
"""The most lists and objects within each other."""

_LONGEST = 200
"""Characters of a place in a message: the names in it are the file's."""

_LONGEST_SHOWN = 80
"""Characters of a value in a message."""

_LARGEST = 1e300
"""Of a number: sums and products of a few still are finite."""


class SchemaError(Exception):
    """Some part of the data does not follow the format."""


class SavedData:
    """Part of the data, with its place, for messages: `passes[3].text`."""

    __slots__ = ("_above", "_data", "_depth", "_key")

    def __init__(self, data: Any, key: str | int = "", above: SavedData | None = None) -> None:
        """`key` is its name or number in the part `above`; of the whole, what is before it."""
        self._data = data
        self._key = key
        self._above = above
        self._depth: int = 0 if above is None else above._depth + 1
        if self._depth > MOST_DEPTH:
            raise SchemaError(f"{self._place[:60]}... is nested deeper than {MOST_DEPTH} levels")

    @property
    def _place(self) -> str:
        # Made for messages alone: a large file has a million parts.
        above = "" if self._above is None else self._above._place
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        return f"{above}.{self._key}" if above else self._key

    @property
    def place(self) -> str:
        """Where it is in the file, for a message; "" for all of the file."""
        return self._place[:_LONGEST]

    def misfit(self, expected: str, *, shows_kind: bool = False) -> SchemaError:
        """The error of a value that is not as expected, with the value; of a list or an object
        its kind and size, if `shows_kind`.
        """
        if isinstance(self._data, dict | list):
            kind = "a list" if isinstance(self._data, list) else "an object"
            got = f"{kind} with {counted(len(self._data), 'item')}" if shows_kind else ""
        else:
            got = shown(self._data)
            got = got if len(got) <= _LONGEST_SHOWN else f"{got[:_LONGEST_SHOWN]}..."
        got = f", got {got}" if got and ":" not in expected and ", got " not in expected else ""
        return SchemaError(f"{self.place or 'the file'} must be {expected[:_LONGEST]}{got}")

    def _of(self, kind: type, expected: str) -> Any:
        if type(self._data) is not kind:
            raise self.misfit(expected, shows_kind=True)
        return self._data

    def __getitem__(self, key: str) -> SavedData:
        data = self._of(dict, "a JSON object")
        if key not in data:
            raise SchemaError(f"{SavedData(None, key, self).place} is missing")
        return SavedData(data[key], key, self)

    def has(self, key: str) -> bool:
        """Whether it is an object with that key."""
        return type(self._data) is dict and key in self._data

    def names(self) -> list[str]:
        """The keys of an object."""
        return list(self._of(dict, "a JSON object"))

    def items(self) -> list[SavedData]:
        """The items of a list."""
        items = self._of(list, "a list")
        return [SavedData(item, n, self) for n, item in enumerate(items)]

    def check_count(self, most: int) -> None:
        """Raise SchemaError if it is a list or an object with more items."""
        if isinstance(self._data, list | dict) and len(self._data) > most:
            raise self.misfit(f"a value with at most {most:,} items", shows_kind=True)

    def parts(self, count: int) -> list[SavedData]:
        parts = self.items()
        if len(parts) != count:
            raise self.misfit(f"a list of {counted(count, 'item')}", shows_kind=True)
        return parts

    def is_null(self) -> bool:
        return self._data is None

    def plain(self) -> Any:
        return self._data

    def text(self) -> str:
        text: str = self._of(str, "a string")
        return text

    def number(self, least: float = -_LARGEST, most: float = _LARGEST) -> float:
        """A finite number, not below `least` and not above `most`."""
        data = self._data if type(self._data) is int else self._of(float, "a number")
        if not -_LARGEST <= data <= _LARGEST:
            raise self.misfit("a finite number")
        if data < least:
            raise self.misfit(f"a number not below {least:g}")
        if data > most:
            raise self.misfit(f"a number not above {most:g}")
        return data

    def integer(self, least: int = -(2**63), most: int = 2**63 - 1) -> int:
        """A whole number, of 64 bits unless limits are given."""
        number: int = self._of(int, "an integer")
        if not least <= number <= most:
            raise self.misfit(f"an integer from {least} to {most}")
        return number

    def count(self) -> int:
        """A whole number that is not negative."""
        return self.integer(0)

    def boolean(self) -> bool:
        value: bool = self._of(bool, "true or false")
        return value

    def one_of(self, *words: str) -> Any:
        if not isinstance(self._data, str) or self._data not in words:
            raise self.misfit(f"one of {', '.join(words)}")
        return self._data

    def place_in(self, things: Sequence[Any]) -> Any:
        """The one of `things` whose place it is."""
        place = self.integer()
        if not 0 <= place < len(things):
            raise self.misfit(f"a number below {len(things)}")
        return things[place]


# Values


@dataclass(frozen=True, repr=False)
class SavedValue:
    """The `repr` of a value that a file cannot hold, such as a function, or Python cannot."""

    shown: str

    def __repr__(self) -> str:
        return self.shown


def kernellab_version() -> str:
    """The version that writes and reads: files name it."""
    # This package may not import `kernellab` itself, which has been imported, since it contains it.
    return str(sys.modules["kernellab"].__version__)


ToJson = Callable[[Any], Any]
"""Plain data for a value of a kind that is a format's own."""


def _shown(value: Any) -> dict[str, str]:
    return {"shown": repr(value)}


def pairs_to_json(mapping: Mapping[Any, Any], own: ToJson = _shown) -> list[list[Any]]:
    """A mapping as a list of pairs: its keys need not be text."""
    return [[value_to_json(key, own), value_to_json(item, own)] for key, item in mapping.items()]


def value_to_json(value: Any, own: ToJson = _shown) -> Any:
    """JSON's own types unchanged; tuples and mappings marked; anything else by `own`."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if type(value) in (type(None), bool, int, float, str):
        return value
    if isinstance(value, list):
        return [value_to_json(item, own) for item in value]
    if type(value) is tuple:
        return {"tuple": [value_to_json(item, own) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": pairs_to_json(value, own)}
    return own(value)


FromJson = Callable[[SavedData], Any]
"""The value of an object that is a format's own."""


def _saved_value(data: SavedData) -> SavedValue:
    return SavedValue(data["shown"].text())


def pairs_of(data: SavedData, own: FromJson = _saved_value) -> dict[Any, Any]:
    """Return the dictionary that `pairs_to_json` wrote as this data."""
    pairs = {}
    for pair in data.items():
        key, value = pair.parts(2)
        try:
            pairs[value_of(key, own)] = value_of(value, own)
        except TypeError as error:
            raise key.misfit("a value that can be a key of a dict", shows_kind=True) from error
    return pairs


def value_of(data: SavedData, own: FromJson = _saved_value) -> Any:
    """Return the value that `value_to_json` wrote as this data."""
    plain = data.plain()
    if isinstance(plain, list):
        return [value_of(item, own) for item in data.items()]
    if not isinstance(plain, dict):
        return plain
    if data.has("tuple"):
        return tuple(value_of(item, own) for item in data["tuple"].items())
    if data.has("dict"):
        return pairs_of(data["dict"], own)
    if data.has("float"):
        return float(data["float"].one_of("nan", "inf", "-inf"))
    return own(data)


Read = Callable[[SavedData], Any]
"""Reads a value, or raises SchemaError."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The smallest and the largest number that a field of a file may have; in `Annotated`."""

    least: int | float
    most: int | float = 2**62


Count = Annotated[int, Limits(0)]
"""A whole number that is not negative."""

Size = Annotated[int, Limits(0, 2**48)]
"""A number of bytes or registers: sums of a few have 64 bits."""

MOST_LINES = 300_000
"""Of a source, stage or module: Triton's longest have 10,000; a view opens in 2 seconds."""

MOST_LINES_OF_FUNCTION = 100_000

Line = Annotated[int, Limits(0, MOST_LINES)]
"""The number of a line in a source file; 0 if it is not known."""

Amount = Annotated[float, Limits(0, 1e300)]
"""A number that is not negative."""


def scalar(data: SavedData) -> Any:
    """A value that is neither a list nor an object. Raises SchemaError: it is one of these."""
    if isinstance(data.plain(), list | dict):
        raise data.misfit("a number, a text, true, false or null")
    return data.plain()


class _Field(NamedTuple):
    """How a field of a record is read.

    Attributes:
        fits: whether a plain value fits; None for other kinds of values.
        is_optional: whether it has a default.
    """

    read: Read
    fits: Callable[[Any], bool] | None
    is_optional: bool


class RecordReader:
    """Reads records of numbers, texts, `Literal`, tuples, mappings, records, and None."""

    def __init__(self, own: Mapping[Any, Read] | None = None) -> None:
        """`own` has a function for each type that is read in a format's own way."""
        self._own = frozenset(own or ())
        self._readers: dict[Any, Read] = {
            str: SavedData.text,
            int: SavedData.integer,
            float: SavedData.number,
            bool: SavedData.boolean,
            Any: scalar,
            SourcePosition: self._position,
            **(own or {}),
        }
        self._fields: dict[type, dict[str, _Field]] = {}

    def read(self, kind: Any, data: SavedData) -> Any:
        """Read a value of a type. Raises SchemaError: the data is not such a value."""
        return self._reader_of(kind)(data)

    def _reader_of(self, kind: Any) -> Read:
        if kind not in self._readers:
            self._readers[kind] = self._reader(kind)
        return self._readers[kind]

    def _position(self, data: SavedData) -> SourcePosition:
        """A position, which is an object, or a list of file, line and column."""
        names = ("file", "line", "column")
        is_list = isinstance(data.plain(), list)
        file, line, column = data.parts(3) if is_list else [data[name] for name in names]
        return SourcePosition(file.text(), self.read(Line, line), self.read(Line, column))

    def record(self, kind: Any, data: SavedData, others: Collection[str] = ()) -> Any:
        """Read a record. A field that has a default may be missing, as in files of earlier
        versions; names in `others` are not the record's. Raises SchemaError: a field is missing,
        unknown, or does not fit.
        """
        fields, there = self._fields_of(kind), data.names()
        for name in there:
            if name not in fields and name not in others:
                raise SchemaError(f"{data.place or 'the file'} has the unknown field {shown(name)}")
        plain, values = data.plain(), {}
        for name, (read, fits, is_optional) in fields.items():
            # Most are plain values that fit, for which no place is needed.
            if fits is not None and name in plain and fits(plain[name]):
                values[name] = plain[name]
            elif not is_optional or name in plain:
                values[name] = read(data[name])
        return kind(**values)

    def row(self, kind: Any, data: SavedData, **left_out: Any) -> Any:
        """Read a record that is saved as the list of its fields' values, in their order. At the
        end, those that have defaults may be missing; `left_out` are fields that are not saved.
        Raises SchemaError: a value is missing, or does not fit.
        """
        fields, parts = self._fields_of(kind), data.plain()
        saved = [item for item in fields.items() if item[0] not in left_out]
        if not isinstance(parts, list) or len(parts) != len(saved):
            needed = sum(not field.is_optional for _, field in saved)
            if not isinstance(parts, list) or not needed <= len(parts) <= len(saved):
                expected = f"{needed} or more" if needed < len(saved) else str(needed)
                raise data.misfit(f"a list of {expected} items", shows_kind=True)
        values = {}
        for number, ((name, (read, fits, _)), part) in enumerate(zip(saved, parts)):
            is_plain = fits is not None and fits(part)
            values[name] = part if is_plain else read(SavedData(part, number, data))
        return kind(**values, **left_out)

    def _fields_of(self, kind: Any) -> dict[str, _Field]:
        if kind not in self._fields:
            hints = typing.get_type_hints(kind, include_extras=True)
            self._fields[kind] = {
                field.name: _Field(
                    self._reader_of(hint := hints[field.name]),
                    self._fits(hint),
                    field.default is not MISSING or field.default_factory is not MISSING,
                )
                for field in dataclasses.fields(kind)
            }
        return self._fields[kind]

    def _fits(self, kind: Any) -> Callable[[Any], bool] | None:
        """The check of a plain value, or of a mapping of such, that is read as it is."""
        if kind in self._own:
            return None
        if kind in (str, bool, types.NoneType):
            return lambda value: type(value) is kind
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if origin in (types.UnionType, typing.Union):
            checks = [check for check in map(self._fits, parts) if check is not None]
            return None if len(checks) < len(parts) else lambda value: any(c(value) for c in checks)
        if origin is typing.Literal:
            return lambda value: type(value) is str and value in parts
        if origin in (dict, Mapping) and (fits := self._fits(parts[1])) is not None:
            return lambda value: type(value) is dict and all(map(fits, value.values()))
        number, limits = {
            int: (int, Limits(-(2**63), 2**63 - 1)),
            float: (float, Limits(-_LARGEST, _LARGEST)),
        }.get(kind, parts if origin is Annotated else (None, None))
        if number not in (int, float) or not isinstance(limits, Limits):
            return None
        numbers = (int,) if number is int else (int, float)
        least, most = max(limits.least, -_LARGEST), min(limits.most, _LARGEST)
        return lambda value: type(value) in numbers and least <= value <= most

    def _reader(self, kind: Any) -> Read:
        if dataclasses.is_dataclass(kind):
            return lambda data: self.record(kind, data)
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if origin is Annotated:
            return _limited(*parts)
        if origin is typing.Literal:
            return lambda data: data.one_of(*parts)
        if origin in (types.UnionType, typing.Union):
            return lambda data: self._one_of(parts, data)
        if origin is tuple and parts[-1] is Ellipsis:
            return partial(self._items, parts[0], self._fits(parts[0]))
        if origin is tuple:
            return lambda data: tuple(map(self.read, parts, data.parts(len(parts))))
        if origin in (dict, Mapping):
            return lambda data: {name: self.read(parts[1], data[name]) for name in data.names()}
        # Such as a function, which no file can hold.
        return _absent

    def _items(
        self, kind: Any, fits: Callable[[Any], bool] | None, data: SavedData
    ) -> tuple[Any, ...]:
        plain = data.plain()
        if fits is not None and isinstance(plain, list) and all(map(fits, plain)):
            return tuple(plain)
        return tuple(self.read(kind, item) for item in data.items())

    def _one_of(self, kinds: tuple[Any, ...], data: SavedData) -> Any:
        if data.is_null() and types.NoneType in kinds:
            return None
        *others, last = [kind for kind in kinds if kind is not types.NoneType]
        for kind in others:
            try:
                return self.read(kind, data)
            except SchemaError:
                continue
        return self.read(last, data)


def _limited(kind: type, limits: Limits) -> Read:
    read: Any = SavedData.integer if kind is int else SavedData.number
    return lambda data: read(data, limits.least, limits.most)


def _absent(data: SavedData) -> Any:
    raise data.misfit("left out")


# Files that somebody saved, read with care: regular files only, of limited size, JSON without
# extensions. All kinds of files are read through here.
#
# A file is untrusted data. Whatever is in it, reading it takes no more time and memory than its
# size justifies, and faults raise a `BadFile` that says what is wrong.


MOST_BYTES = 512 * 1024 * 1024
"""Of a file."""

MOST_UNKNOWN = 16 * 1024 * 1024
"""Of a file that says that it is empty, as those of /proc do."""

MOST_INFLATED = 256 * 1024 * 1024
"""The most bytes that a compressed text may unpack to, however large the file is."""

ALWAYS_INFLATED = 16 * 1024 * 1024
"""The bytes that a compressed text may always unpack to, however small the file is."""

MOST_RATIO = 32
"""Bytes that a byte may unpack to, beyond that; compilations have 10, traces up to 20."""

MOST_MEMBERS = 100
"""Of a gzip file; those that are saved have one. What follows each is copied."""

ALWAYS_LINES = 500_000
"""Of all texts of a JSON text together, as it escapes the ends of lines; a large file may have
more. The record of a matmul with every pass has 33,000.
"""

_LINE_BREAKS = ("\\n", "\\r", "\\f", "\\u000", "\\u2028", "\\u2029", "\u2028", "\u2029", "\x85")

ALWAYS_PARTS = 2_000_000
"""Commas and brackets of a JSON text, in a file of any size: each may be a value in memory."""

MOST_DIGITS = 100
"""Of a number in a JSON text."""


class BadFile(Exception):
    """The contents of a file are not valid. The text follows the file's name: "is cut off ..."."""


class NotText(BadFile):
    """The bytes are not UTF-8."""


# Bytes


def file_bytes(
    file: Path, refused: type[KernelLabError], most: int = MOST_BYTES, *, is_named: bool = True
) -> bytes:
    """What a regular file holds.

    Args:
        most: the most bytes that it may have.
        is_named: whether the user named it, not only its folder. What a folder of someone else
            contains may be a symbolic link to any file of the user, which is not followed.

    Raises:
        KernelLabError: of class `refused`: unreadable, not regular, or more than `most` bytes.
    """
    try:
        return regular_bytes(file, most, is_named=is_named)
    except OSError as error:
        raise refused(why_unreadable(file, error)) from error
    except BadFile as error:
        raise refused(f"{str(file)!r} {error}.", advice=_ANOTHER) from error


def regular_bytes(file: Path, most: int = MOST_BYTES, *, is_named: bool = True) -> bytes:
    """Read a regular file; `is_named` as for `file_bytes`. Raises OSError: it cannot be read;
    BadFile: it is a folder, a pipe, a device, or has more than `most` bytes.
    """
    _check_regular(os.stat(file, follow_symlinks=is_named), most)
    # Another file may be there by now: opening a pipe must not wait for its other end.
    follow = 0 if is_named else os.O_NOFOLLOW
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | follow)
    with open(descriptor, "rb") as opened:
        _check_regular(os.fstat(descriptor), most)
        # Not by the limit: so much memory would be asked for first.
        known = os.fstat(descriptor).st_size
        most = most if known else min(most, MOST_UNKNOWN)
        content = opened.read(known or most + 1)
    if len(content) > most:
        raise BadFile(f"has more than {most:,} bytes, and the system does not state its size")
    return content


def _check_regular(status: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        raise BadFile("must be a regular file, got a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise BadFile(f"must be a regular file, got {kind}")
    if status.st_size > most:
        raise BadFile(f"must have at most {most:,} bytes, got {status.st_size:,}")


# Compressed bytes


def inflated_limit(packed: int) -> int:
    """The most bytes that a number of compressed bytes may unpack to."""
    return min(MOST_INFLATED, max(ALWAYS_INFLATED, MOST_RATIO * packed))


def gunzipped(content: bytes) -> bytes:
    """Read a gzip file. Raises BadFile: it is damaged, cut off, or unpacks to more than
    `inflated_limit`.
    """
    most = inflated_limit(len(content))
    parts = bytearray()
    members = 0
    while content:
        members += 1
        if members > MOST_MEMBERS:
            raise BadFile(f"is not a valid file: it has more than {MOST_MEMBERS} gzip members")
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
            raise BadFile("is cut off or damaged: the end of its compressed data is missing")
        content = unpacking.unused_data.lstrip(b"\0")
    return bytes(parts)


# JSON


def text_in(content: bytes) -> str:
    """A file's text. Raises NotText: it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NotText(f"is not a text file: {error}") from error


def json_in(text: str, packed: int = 0) -> Any:
    """The value of a JSON text: numbers are finite, texts can be written as UTF-8. `packed`: the
    file's bytes: a large one may have more parts. Raises BadFile: it is not JSON, or nested too
    deeply, or too large, or has invalid numbers.
    """
    most = max(ALWAYS_LINES, packed // 2)
    if (lines := sum(map(text.count, _LINE_BREAKS))) > most:
        raise BadFile(
            f"is not a valid file: its texts have {lines:,} lines, but at most {most:,} are allowed"
        )
    most = max(ALWAYS_PARTS, 2 * packed)
    if _parts(text) > most:
        # The texts themselves have commas and brackets, such as the stages of a compilation.
        if (parts := _parts(_STRING.sub('""', _ESCAPED.sub("", text)))) > most:
            raise BadFile(
                f"is not a valid file: it has {parts:,} values, but at most {most:,} are allowed"
            )
    try:
        data = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_no_number)
    except RecursionError as error:
        raise BadFile(_TOO_DEEP) from error
    except json.JSONDecodeError as error:
        if not text.lstrip().startswith(("{", "[")):
            raise BadFile("does not contain JSON" if text.strip() else "is empty") from error
        raise BadFile(f"is cut off or damaged: {error}") from error
    if _SURROGATE.search(text):
        whole = json.dumps(data, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return json.loads(whole.decode("utf-16", "replace"))
    return data


def _parts(text: str) -> int:
    return sum(text.count(mark) for mark in ",[{")


_ESCAPED = re.compile(r"\\.", re.DOTALL)
_STRING = re.compile(r'"[^"]*"')
"""Two expressions without alternatives, which take a time that is linear in any text."""

_TOO_DEEP = f"is damaged: its lists and objects are nested deeper than {MOST_DEPTH} levels"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character; the sign for an unknown character stands for one without its other half."""


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BadFile(
            f"is damaged: a number must have at most {MOST_DIGITS} digits, but {digits[:12]}... "
            f"has {len(digits):,}"
        )
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadFile(f"is damaged: the number {digits[:24]} is too large")
    return number


def _no_number(word: str) -> Any:
    raise BadFile(f"is damaged: {word} is not a number in JSON")


@dataclass(frozen=True)
class Format:
    """A format of saved files: a JSON object that begins with the format's name and version.

    Attributes:
        name: "kernellab.trace".
        noun: what a file holds, for messages: "trace".
        version: a change that an older reader would misread gets a new one.
        advice: what to try if a file is not of the format.
    """

    name: str
    noun: str
    version: int = 1
    advice: str = ""

    def text(self, own: ToJson | None = None, **parts: Any) -> bytes:
        """The file with these parts. Records are saved as objects, or as `own` has them."""
        data = {
            "format": self.name,
            "version": self.version,
            "kernellab": kernellab_version(),
            **parts,
        }
        text = json.dumps(data, default=own or fields_of, separators=(",", ":"), ensure_ascii=False)
        # Half a character, as in the name of a file, is written as JSON's escape for it.
        return text.encode("utf-8", "backslashreplace")

    def packed(self, **parts: Any) -> bytes:
        """The file with these parts, compressed by gzip; equal parts make equal files."""
        return gzip.compress(self.text(**parts), _COMPRESSION, mtime=0)

    def begins(self, content: bytes) -> bool:
        """Whether the bytes of a file, compressed or not, begin like one of this format."""
        start = content[:_BEGINNING]
        if content.startswith(GZIP):
            try:
                start = zlib.decompressobj(wbits=31).decompress(start, _BEGINNING)
            except zlib.error:
                return False
        return re.match(rb'\{"format": ?"%s"' % self.name.encode(), start) is not None

    def unpacked(self, content: bytes, name: str) -> SavedData:
        """The parts in the bytes of a file, compressed or not; `name` is the file's. Raises
        BadFile: it is cut off, damaged, or larger than any that is saved; ArchiveError: as `parts`.
        """
        text = text_in(gunzipped(content) if content.startswith(GZIP) else content)
        return self.parts(json_in(text, len(content)), name)

    def parts(self, data: Any, name: str) -> SavedData:
        """The parts of a file, of which `data` is the JSON value. Raises ArchiveError: it is of
        another format, or of another version.
        """
        if not isinstance(data, dict) or data.get("format") != self.name:
            raise ArchiveError(
                f"{repr(name) if name else 'The data'} is not a {self.noun} that KernelLab saved.",
                advice=self.advice or f"Save a {self.noun} with .save(path), and pass that file.",
            )
        version = data.get("version")
        if type(version) is not int or version != self.version:  # True is 1
            writer = data.get("kernellab")
            raise ArchiveError(
                f"{name!r} uses format version {version!r:.40}, but KernelLab "
                f"{kernellab_version()} reads only version {self.version}.",
                advice=f"Load the file with KernelLab {writer!s:.40}, which wrote it."
                if writer
                else f"Save the file again with KernelLab {kernellab_version()}.",
            )
        return SavedData(data)


GZIP = b"\x1f\x8b"
"""The beginning of a gzip file."""

_BEGINNING = 512
"""Bytes of a file that say what it is."""

_COMPRESSION = 6


SAVE_AGAIN = "Save the file again, or load an undamaged copy of it."
_FROM_JSON = "Pass the data that to_json() returned, unchanged."
_ANOTHER = "Pass the path of another file."


@contextmanager
def reading(name: str, advice: str = "") -> Iterator[None]:
    """Raise faults of a saved file as ArchiveError with the file's name.

    Args:
        name: the file's; "" for data that was not read from a file.
        advice: what to try if it may be a file of another kind.
    """
    try:
        with without_collections():  # they would take a third of the time
            yield
    except BadFile as error:
        raise ArchiveError(f"{name!r} {error}.", advice=advice or SAVE_AGAIN) from error
    except SchemaError as error:
        subject, advice = (repr(name), SAVE_AGAIN) if name else ("The data", _FROM_JSON)
        raise ArchiveError(f"{subject} is damaged: {error}.", advice=advice) from error


def fields_of(record: Any) -> dict[str, Any]:
    """A record as an object of its fields; a mapping as a dictionary."""
    if isinstance(record, Mapping):
        return dict(record)
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
