"""Data files of the package are read with a schema; an error names file, table and field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernellab.common.data_files import DataFileError, Prose, read_data_file


@dataclass(frozen=True)
class Entry:
    """A table of the example."""

    text: Prose
    pattern: str = ""
    hints: tuple[Prose, ...] = ()


VALID = '''
[first]
text = """
Two lines \\
 of "prose",
joined.
"""
pattern = 'a  (\\d+)'
hints = ["one"]

[second]
text = "short"
'''


def read(text: str, folder: Path, schema: Any = Mapping[str, Entry]) -> Any:
    file = folder / "entries.toml"
    file.write_text(text)
    return read_data_file(file, schema)


def test_a_file_becomes_the_records_of_its_schema(tmp_path: Path) -> None:
    entries = read(VALID, tmp_path)
    assert entries["first"] == Entry('Two lines of "prose", joined.', r"a  (\d+)", ("one",))
    assert entries["second"] == Entry("short")
    assert list(entries) == ["first", "second"]


@pytest.mark.parametrize(
    ("valid", "wrong", "message"),
    [
        ('text = "short"', "", "second.text is missing"),
        ('text = "short"', "text = 3", "second.text should be a text"),
        ('["one"]', '["one", 2]', "first.hints[1] should be a text"),
        ('["one"]', '"one"', "first.hints should be a list"),
        ("[second]", "[second]\nhint = 1", "second has the unknown field 'hint'"),
        ("[second]", "[first]", "Cannot declare ('first',) twice"),
        ('"short"', "short", "Invalid value"),
    ],
)
def test_an_error_names_file_table_and_field(
    valid: str, wrong: str, message: str, tmp_path: Path
) -> None:
    assert valid in VALID
    with pytest.raises(DataFileError, match=re.escape(message)) as caught:
        read(VALID.replace(valid, wrong), tmp_path)
    assert str(tmp_path / "entries.toml") in str(caught.value)
