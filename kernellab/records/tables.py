"""Records as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar, overload

from kernellab.errors import SourcePosition


def data_frame(rows: Sequence[Any], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of data classes; positions become text."""
    from kernellab.common.whole_imports import pandas

    def cell(value: Any) -> Any:
        return str(value) if isinstance(value, SourcePosition) else value

    data = [[cell(getattr(row, name)) for name in columns] for row in rows]
    return pandas.DataFrame(data, columns=list(columns))


def frame_of(rows: Sequence[Sequence[Any]], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of rows of cells."""
    from kernellab.common.whole_imports import pandas

    return pandas.DataFrame(list(rows), columns=list(columns))


def column_names(kind: type) -> list[str]:
    """The names of a data class's fields, as columns of its table."""
    return [field.name for field in dataclasses.fields(kind)]


Row = TypeVar("Row", covariant=True)


class RowSequence(Sequence[Row]):
    """A record that is a sequence of the rows in one of its fields."""

    _rows: ClassVar[str]
    """The field's name."""

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return getattr(self, self._rows)[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(getattr(self, self._rows))

    def __len__(self) -> int:
        return len(getattr(self, self._rows))
