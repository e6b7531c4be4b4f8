"""How values, places and sizes are written, what is suggested for names; other small helpers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest

from kernellab.common.arguments import read_constexprs, spread_constexprs, stated_by_options
from kernellab.common.containers import distinct
from kernellab.common.data_files import DataFileError, Prose, read_data_file
from kernellab.common.text import element_text, format_bytes, index_text, scaled, time_text
from kernellab.errors import MissingArguments, nearest, suggestion


@pytest.mark.parametrize(
    ("microseconds", "digits", "text"),
    [
        (15.23, 3, "15.2 us"), (999.4, 3, "999 us"), (999.6, 3, "1 ms"), (999.96, 4, "1 ms"),
        (5842.0, 3, "5.84 ms"), (1.234e6, 4, "1.234 s"), (0.0, 3, "0 us"),
    ],
)  # fmt: skip
def test_a_time_has_the_unit_that_fits(microseconds, digits, text) -> None:
    assert time_text(microseconds, digits) == text


def test_an_amount_has_a_decimal_multiple_of_its_unit() -> None:
    assert [scaled(number, "B") for number in (5, 264_000, 1.5e9)] == ["5 B", "264 kB", "1.5 GB"]
    assert [format_bytes(number) for number in (512, 12_600_000)] == ["512 bytes", "12.6 MB"]


def test_an_element_has_its_argument_and_its_index() -> None:
    assert element_text("z_ptr", (3, 7)) == "z_ptr[3, 7]"
    assert element_text("", [3]) == "memory[3]"
    assert element_text("scalar", ()) == "scalar"
    assert index_text(("s0", 7)) == "[s0, 7]"


# Advice on names that no one knows, and the options of a line that say constants


@pytest.mark.parametrize(
    ("word", "known", "guess"),
    [
        ("BLOK", ["BM", "BLOCK"], "BLOCK"), ("sm_91", ["sm_80", "sm_89", "sm_90"], "sm_90"),
        ("--taget", ["--sig", "--target"], "--target"), ("*fp23", ["fp16", "fp32"], "fp32"),
        ("zptr", ["x_ptr", "z_ptr"], "z_ptr"), ("kernel.py", ["kernels.py"], "kernels.py"),
        ("lock", ["BLOCK"], "BLOCK"),
    ],
)  # fmt: skip
def test_a_slip_is_put_right(word, known, guess) -> None:
    assert nearest(word, known) == f"Did you mean {guess!r}?"


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("nope", ["open", "grouped", "add"]), ("--pass", ["--sig", "--target", "--with"]),
        ("cuda", ["hip", "add"]), ("x", ["y", "acc"]), ("", ["add"]),
    ],
)  # fmt: skip
def test_what_is_far_off_is_not_guessed_at(word, known) -> None:
    assert nearest(word, known) == ""


def test_what_there_is_is_listed() -> None:
    assert suggestion("ac", ["acc", "x"], "There are") == "Did you mean 'acc'? There are acc, x."
    assert suggestion("nope", ["acc", "x", "x"], "There are") == "There are acc, x."
    assert suggestion("nope", [], "There are") == "There are none."
    many = [f"value_{number}" for number in range(100)]
    assert suggestion("valu_7", many, "There are") == "Did you mean 'value_7'?"
    assert suggestion("nope", many, "There are").count("value_") == 100


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("BLOCK=1024", [("BLOCK", 1024)]),
        ("BM=64,BN=32, BK=16", [("BM", 64), ("BN", 32), ("BK", 16)]),
        ("SHAPE=(16, 32),EVEN=True", [("SHAPE", (16, 32)), ("EVEN", True)]),
        ("CODE='a,b=c'", [("CODE", "a,b=c")]),
        ("MODE=relu,SCALE=0.5", [("MODE", "relu"), ("SCALE", 0.5)]),
    ],
)  # fmt: skip
def test_constants_with_commas(text, constants) -> None:
    assert read_constexprs(text) == constants


def test_constants_with_blanks() -> None:
    words = ["--constexpr", "BM=64", "BN=32", "k.py::add", "--sig", "n=i32", "--constexpr", "A=1"]
    assert spread_constexprs(words) == [
        "--constexpr", "BM=64", "--constexpr", "BN=32", "k.py::add", "--sig", "n=i32",
        "--constexpr", "A=1",
    ]  # fmt: skip


def test_what_is_missing_in_the_words_of_a_line(messages) -> None:
    only_constants = MissingArguments("", constexprs=["BM", "BN"])
    assert stated_by_options(only_constants) == "Pass --constexpr BM=VALUE,BN=VALUE."
    both = MissingArguments("", constexprs=["BM"], others=["n", "seed"])
    assert stated_by_options(both) == messages


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (500,), (20, 30)])
def test_each_comes_once_in_order(dtype, shape) -> None:
    ends = numpy.iinfo(dtype)
    random = numpy.random.default_rng(1)
    numbers = numpy.asarray(random.integers(0, 100, shape), dtype)
    for some in (numbers, numbers.T, numpy.append(numbers, [ends.min, ends.max]).astype(dtype)):
        found = distinct(some)
        assert (found.dtype, found.tolist()) == (some.dtype, sorted(set(some.reshape(-1).tolist())))


# Data files of the package are read with a schema; an error names file, table and field


@dataclass(frozen=True)
class Entry:
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


def read(text: str, folder: Path) -> Any:
    file = folder / "entries.toml"
    file.write_text(text)
    return read_data_file(file, Mapping[str, Entry])


def test_a_file_becomes_the_records_of_its_schema(tmp_path) -> None:
    entries = read(VALID, tmp_path)
    assert entries["first"] == Entry('Two lines of "prose", joined.', r"a  (\d+)", ("one",))
    assert entries["second"] == Entry("short")
    assert list(entries) == ["first", "second"]


@pytest.mark.parametrize(
    ("valid", "wrong", "message"),
    [
        ('text = "short"', "", "second.text is missing"),
        ('text = "short"', "text = 3", "second.text must be a string"),
        ('["one"]', '["one", 2]', "first.hints[1] must be a string"),
        ('["one"]', '"one"', "first.hints must be a list"),
        ("[second]", "[second]\nhint = 1", "second has the unknown field 'hint'"),
        ("[second]", "[first]", "Cannot declare ('first',) twice"),
        ('"short"', "short", "Invalid value"),
    ],
)  # fmt: skip
def test_an_error_names_file_table_and_field(valid, wrong, message, tmp_path) -> None:
    assert valid in VALID
    with pytest.raises(DataFileError, match=re.escape(message)) as caught:
        read(VALID.replace(valid, wrong), tmp_path)
    assert str(tmp_path / "entries.toml") in str(caught.value)
