"""Advice on names that no one knows, and the options of a line that say constants."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from kernellab.common.arguments import read_constexprs, spread_constexprs, stated_by_options
from kernellab.errors import MissingArguments, nearest, suggestion


@pytest.mark.parametrize(
    ("word", "known", "guess"),
    [
        ("BLOK", ["BM", "BLOCK"], "BLOCK"),
        ("sm_91", ["sm_80", "sm_89", "sm_90"], "sm_90"),
        ("--taget", ["--sig", "--target"], "--target"),
        ("*fp23", ["fp16", "fp32"], "fp32"),
        ("zptr", ["x_ptr", "z_ptr"], "z_ptr"),
        ("kernel.py", ["kernels.py"], "kernels.py"),
        ("lock", ["BLOCK"], "BLOCK"),
    ],
)
def test_a_slip_is_put_right(word: str, known: list[str], guess: str) -> None:
    assert nearest(word, known) == f"Did you mean {guess!r}?"


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("nope", ["open", "grouped", "add"]),
        ("--pass", ["--sig", "--target", "--with"]),
        ("cuda", ["hip", "add"]),
        ("x", ["y", "acc"]),
        ("", ["add"]),
    ],
)
def test_what_is_far_off_is_not_guessed_at(word: str, known: list[str]) -> None:
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
)
def test_constants_with_commas(text: str, constants: list[tuple[str, object]]) -> None:
    assert read_constexprs(text) == constants


def test_constants_with_blanks() -> None:
    words = ["--constexpr", "BM=64", "BN=32", "k.py::add", "--sig", "n=i32", "--constexpr", "A=1"]
    assert spread_constexprs(words) == [
        "--constexpr", "BM=64", "--constexpr", "BN=32", "k.py::add", "--sig", "n=i32",
        "--constexpr", "A=1",
    ]  # fmt: skip


def test_what_is_missing_in_the_words_of_a_line(messages: SnapshotAssertion) -> None:
    only_constants = MissingArguments("", constexprs=["BM", "BN"])
    assert stated_by_options(only_constants) == "Say --constexpr BM=VALUE,BN=VALUE."
    both = MissingArguments("", constexprs=["BM"], others=["n", "seed"])
    assert stated_by_options(both) == messages
