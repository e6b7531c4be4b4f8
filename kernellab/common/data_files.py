"""Data files of the package: notes, tables and exercises as TOML, read with a schema."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from kernellab.common.saved_files import Read, RecordReader, SavedData, SchemaError

Prose = Annotated[str, "prose"]
"""A paragraph. In a file it may have any number of lines, which are joined by spaces."""


class DataFileError(Exception):
    """A data file of the package is not valid TOML, or does not fit its schema."""


def read_data_file(file: Path, schema: Any, own: Mapping[Any, Read] | None = None) -> Any:
    """Read a TOML file.

    Args:
        schema: the type of the whole file: a dataclass whose fields are the tables and values, or a
            `Mapping[str, ...]`. `RecordReader` says which types it may be made of; `Prose` is one
            more.
        own: a function for each type that the schema reads in its own way.

    Returns:
        A value of the type `schema`.

    Raises:
        DataFileError: not TOML, or a missing, unknown or mistyped field; names file and table.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        prose: dict[Any, Any] = {Prose: lambda data: " ".join(data.text().split())}
        return RecordReader({**prose, **(own or {})}).read(schema, SavedData(data))
    except (tomllib.TOMLDecodeError, SchemaError) as error:
        raise DataFileError(f"{file}: {error}.") from error
