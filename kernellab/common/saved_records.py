"""Data classes read from saved JSON, by the annotations of their fields: one reader for every
format. Where a type needs more than its annotation says, a format gives a function for it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

from kernellab.common.formatting import shown
from kernellab.common.saved_json import Misfit, SavedData

Read = Callable[[SavedData], Any]
"""Reads a value, or raises Misfit."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """The smallest and the largest number that a field of a file may have; in `Annotated`."""

    least: int | float
    most: int | float = 2**62


Count = Annotated[int, Limits(0)]
"""A whole number that is not negative."""

Size = Annotated[int, Limits(0, 2**48)]
"""A number of bytes or registers: sums of a few have 64 bits."""

MOST_LINES = 2_000_000
"""Of a source file."""

Line = Annotated[int, Limits(0, MOST_LINES)]
"""The number of a line in a source file; 0 where it is not known."""

Amount = Annotated[float, Limits(0, 1e300)]
"""A number that is not negative."""


def scalar(data: SavedData) -> Any:
    """A value that is neither a list nor an object.

    Raises:
        Misfit: it is one of these.
    """
    if isinstance(data.plain(), list | dict):
        raise data.misfit("a number, a text, true, false or null")
    return data.plain()


class RecordReader:
    """Reads records of plain values: numbers, texts, `Literal`, tuples, mappings by name, other
    records, and None where the annotation allows it.
    """

    def __init__(self, own: Mapping[Any, Read] | None = None) -> None:
        """`own` has a function for each type that is read in a format's own way."""
        self._readers: dict[Any, Read] = {
            str: SavedData.text,
            int: SavedData.integer,
            float: SavedData.number,
            bool: SavedData.boolean,
            Any: scalar,
            **(own or {}),
        }
        self._fields: dict[type, dict[str, tuple[Any, bool]]] = {}

    def read(self, kind: Any, data: SavedData) -> Any:
        """Read a value of a type.

        Raises:
            Misfit: the data is not such a value.
        """
        if kind not in self._readers:
            self._readers[kind] = self._reader(kind)
        return self._readers[kind](data)

    def record(self, kind: Any, data: SavedData, others: Collection[str] = ()) -> Any:
        """Read a record. A field that has a default may be missing, as in files of earlier
        versions; names in `others` are not the record's.

        Raises:
            Misfit: a field is missing, unknown, or does not fit.
        """
        fields, there = self._fields_of(kind), data.names()
        for name in there:
            if name not in fields and name not in others:
                raise Misfit(f"{data.place or 'the file'} has the unknown field {shown(name)}")
        values = {
            name: self.read(hint, data[name])
            for name, (hint, is_optional) in fields.items()
            if not is_optional or data.has(name)
        }
        return kind(**values)

    def row(self, kind: Any, data: SavedData, **left_out: Any) -> Any:
        """Read a record that is saved as the list of its fields' values, in their order. At the
        end, those that have defaults may be missing; `left_out` are fields that are not saved.

        Raises:
            Misfit: a value is missing, or does not fit.
        """
        fields, parts = self._fields_of(kind), data.items()
        saved = [name for name in fields if name not in left_out]
        needed = sum(not fields[name][1] for name in saved)
        if not needed <= len(parts) <= len(saved):
            expected = f"{needed} or more" if needed < len(saved) else str(needed)
            raise data.misfit(f"a list of {expected}")
        values = {name: self.read(fields[name][0], part) for name, part in zip(saved, parts)}
        return kind(**values, **left_out)

    def _fields_of(self, kind: Any) -> dict[str, tuple[Any, bool]]:
        """By the name of each field: its type, and whether it has a default."""
        if kind not in self._fields:
            hints = typing.get_type_hints(kind, include_extras=True)
            self._fields[kind] = {
                field.name: (hints[field.name], _has_default(field))
                for field in dataclasses.fields(kind)
            }
        return self._fields[kind]

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
            return lambda data: tuple(self.read(parts[0], item) for item in data.items())
        if origin is tuple:
            return lambda data: tuple(map(self.read, parts, data.parts(len(parts))))
        if origin in (dict, Mapping):
            return lambda data: {name: self.read(parts[1], data[name]) for name in data.names()}
        # Such as a function, which no file can hold.
        return _absent

    def _one_of(self, kinds: tuple[Any, ...], data: SavedData) -> Any:
        if data.is_null() and types.NoneType in kinds:
            return None
        *others, last = [kind for kind in kinds if kind is not types.NoneType]
        for kind in others:
            try:
                return self.read(kind, data)
            except Misfit:
                continue
        return self.read(last, data)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _limited(kind: type, limits: Limits) -> Read:
    read: Any = SavedData.integer if kind is int else SavedData.number
    return lambda data: read(data, limits.least, limits.most)


def _absent(data: SavedData) -> Any:
    raise data.misfit("left out")
