"""Python values as JSON and back; writing a file whole or not at all;
reading JSON that somebody saved: every part knows its place, so that an error can name it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.common.formatting import shown
from kernellab.errors import KernelLabError

MOST_DEPTH = 64
"""Lists and objects within each other."""

_LONGEST = 200
"""Characters of a place in a message: the names in it are the file's."""

_LARGEST = 1e300
"""Of a number: sums and products of a few still are finite."""


class Misfit(Exception):
    """Some part of the data is not what the format says."""


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
            raise Misfit(f"{self._place[:60]}... is nested deeper than {MOST_DEPTH} levels")

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

    def misfit(self, expected: str) -> Misfit:
        """The error to raise where this part is not what is expected."""
        return Misfit(f"{self.place or 'the file'} should be {expected[:_LONGEST]}")

    def __getitem__(self, key: str) -> SavedData:
        data = self._data
        if type(data) is not dict:
            raise self.misfit("an object")
        if key not in data:
            raise Misfit(f"{SavedData(None, key, self).place} is missing")
        return SavedData(data[key], key, self)

    def has(self, key: str) -> bool:
        """Whether it is an object with that key."""
        return type(self._data) is dict and key in self._data

    def names(self) -> list[str]:
        """The keys of an object."""
        if not isinstance(self._data, dict):
            raise self.misfit("an object")
        return list(self._data)

    def items(self) -> list[SavedData]:
        """The items of a list."""
        if not isinstance(self._data, list):
            raise self.misfit("a list")
        return [SavedData(item, n, self) for n, item in enumerate(self._data)]

    def parts(self, count: int) -> list[SavedData]:
        """The items of a list of that many."""
        parts = self.items()
        if len(parts) != count:
            raise self.misfit(f"a list of {count}")
        return parts

    def is_null(self) -> bool:
        """Whether it is null."""
        return self._data is None

    def plain(self) -> Any:
        """The data as it is."""
        return self._data

    def text(self) -> str:
        """A string."""
        if not isinstance(self._data, str):
            raise self.misfit("a text")
        return self._data

    def number(self, least: float = -_LARGEST, most: float = _LARGEST) -> float:
        """A finite number, not below `least` and not above `most`."""
        data = self._data
        if type(data) is not float and type(data) is not int:
            raise self.misfit("a number")
        if not -_LARGEST <= data <= _LARGEST:
            raise self.misfit("a finite number")
        if data < least:
            raise self.misfit(f"a number not below {least:g}")
        if data > most:
            raise self.misfit(f"a number not above {most:g}")
        return data

    def integer(self, least: int = -(2**63), most: int = 2**63 - 1) -> int:
        """A whole number, of 64 bits unless limits are given."""
        if type(self._data) is not int:
            raise self.misfit("a whole number")
        if not least <= self._data <= most:
            raise self.misfit(f"a whole number from {least} to {most}")
        return self._data

    def count(self) -> int:
        """A whole number that is not negative."""
        return self.integer(0)

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self._data, bool):
            raise self.misfit("true or false")
        return self._data

    def one_of(self, *words: str) -> Any:
        """One of these words."""
        if not isinstance(self._data, str) or self._data not in words:
            raise self.misfit(f"one of {', '.join(words)}")
        return self._data

    def place_in(self, things: Sequence[Any]) -> Any:
        """The one of `things` whose place it is."""
        place = self.integer()
        if not 0 <= place < len(things):
            raise self.misfit(f"a number below {len(things)}")
        return things[place]


# --------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SavedValue:
    """A value of a saved record that no file can hold, such as a function:
    what `repr` said of it.
    """

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
    """JSON's own kinds as they are; tuples and mappings under a word for their kind;
    anything else as `own` has it.
    """
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
        parts = pair.items()
        if len(parts) != 2:
            raise pair.misfit("a pair")
        try:
            pairs[value_of(parts[0], own)] = value_of(parts[1], own)
        except TypeError as error:
            raise parts[0].misfit("a key") from error
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


_NAME_BYTES = 200


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file; one that is there is replaced once the new one is complete,
    and an interrupt leaves no half of it.

    What a link leads to is replaced, not the link;
    a pipe or a device, which nothing can replace, is written to. Returns the path.

    Raises:
        OSError: it cannot be written.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        file.write_bytes(content)
        return file
    target = file.resolve()
    # Its name is no longer than a file's may be, whatever the target's is.
    name = os.fsdecode(os.fsencode(target.name)[:_NAME_BYTES])
    unfinished = target.with_name(f"{name}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return file


def saved_path(path: Any, refused: type[KernelLabError]) -> Path:
    """Return a path that a user gave.

    Raises:
        KernelLabError: of the class `refused`: the value is not a path. A number is not one,
            although Python would take it for an open file.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise refused(f"path must be a str or a pathlib.Path, got {shown(path)}.")
    if not text:
        raise refused("path must name a file, got an empty string.")
    if "\0" in text:
        raise refused(f"path must have no null character, got {shown(text)}.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise refused(f"path must be valid Unicode, got {shown(text)}: {error.reason}.") from error
    return Path(text)


def save_whole(
    path: str | os.PathLike[str], content: bytes, refused: type[KernelLabError] = KernelLabError
) -> Path:
    """`write_whole`, for a file that the user named; returns the path.

    Raises:
        KernelLabError: of the class `refused`: it cannot be written.
    """
    check_place(path, refused)
    try:
        return write_whole(path, content)
    except OSError as error:
        raise refused(f"{str(path)!r} cannot be written: {error.strerror or error}.") from error


def check_place(
    path: str | os.PathLike[str], refused: type[KernelLabError] = KernelLabError
) -> None:
    """Raise `refused` where no file can be at a path: before the work, for a user who named it."""
    file = saved_path(path, refused)
    if os.path.isdir(file):
        raise refused(f"{file} is a folder.", advice="Name a file in it.")
    try:
        folder = file.absolute().parent
    except OSError as error:  # of os.getcwd()
        raise refused(
            f"{shown(str(file))} names a file in this process's folder, which was removed.",
            advice="Name it from the root on, or change to another folder (os.chdir).",
        ) from error
    if not os.path.isdir(folder):
        raise refused(f"There is no folder {folder} to write {file.name} in.")


def why_unreadable(path: str | os.PathLike[str], error: OSError) -> str:
    """A sentence: why a file that the user named cannot be read."""
    if isinstance(error, FileNotFoundError):
        return f"There is no file {str(path)!r}."
    if isinstance(error, IsADirectoryError):
        return f"{str(path)!r} is a folder, not a file."
    return f"{str(path)!r} cannot be read: {error.strerror or error}."
