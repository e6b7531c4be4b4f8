"""How the text of an option becomes its value, for the magics and the command line alike.

Each reader raises ValueError with words for the person who typed the text.
"""

from __future__ import annotations

import ast
import re
from typing import Any


def read_constexpr(text: str) -> tuple[str, Any]:
    """ "BLOCK=1024" as ("BLOCK", 1024).

    The value is a Python literal, a type of Triton's ("tl.float16"), or else the text itself.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError("write NAME=VALUE, as in --constexpr BLOCK=1024")
    if re.fullmatch(r"tl\.\w+", value):
        return name, _triton_type(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _triton_type(text: str) -> Any:
    import triton.language as tl

    found = getattr(tl, text.removeprefix("tl."), None)
    if not isinstance(found, tl.dtype):
        raise ValueError(f"triton.language has no type {text.removeprefix('tl.')!r}")
    return found


def read_warps(text: str) -> int:
    """ "4" as 4: a number of warps, which is a power of two."""
    number = read_whole_number(text)
    if number & (number - 1):
        raise ValueError("a power of two is needed: 1, 2, 4, 8, 16 or 32")
    return number


def read_whole_number(text: str) -> int:
    """ "3" as 3: a whole number from 1."""
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("a whole number from 1 is needed")
    return int(text)


def read_program(text: str) -> tuple[int, ...]:
    """ "2,1,0" as (2, 1, 0), "96" as (96,): a program's id."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("a program's id is one to three numbers: 96, or 2,1,0")
    return numbers
