"""How the text of an option becomes its value, for the magics and the command line alike.

Each reader raises ValueError with words for the person who typed the text.
"""

from __future__ import annotations

import ast
import math
import pkgutil
import re
from collections.abc import Callable, Sequence
from typing import Any

from kernellab.errors import MissingArguments


def later(place: str) -> Callable[..., Any]:
    """Return a function of the package, as "module:name", that is imported when it is called: torch
    and Triton take longer than reading a line.
    """
    return lambda *arguments: pkgutil.resolve_name(place)(*arguments)


def names_in(place: str) -> Callable[[], list[str]]:
    """Return what lists the names in a constant of the package, as "module:name", imported then."""
    return lambda: [getattr(item, "name", item) for item in pkgutil.resolve_name(place)]


def read_names(text: str) -> list[str]:
    """ "x_ptr, y_ptr" as ["x_ptr", "y_ptr"]."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_constexpr(text: str) -> tuple[str, Any]:
    """ "BLOCK=1024" as ("BLOCK", 1024).

    The value is a Python literal, a type of Triton's ("tl.float16"), or else the text itself.
    """
    name, equals, value = text.strip().partition("=")
    if not equals or not name.isidentifier():
        raise ValueError("write NAME=VALUE, as in --constexpr BLOCK=1024")
    if re.fullmatch(r"tl\.\w+", value):
        return name, _triton_type(value)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def read_constexprs(text: str) -> list[tuple[str, Any]]:
    """ "BM=64,BN=32" as [("BM", 64), ("BN", 32)];
    a comma inside a value that Python can read is the value's own.
    """
    _, _, value = text.partition("=")
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return [read_constexpr(part) for part in _NEXT_CONSTEXPR.split(text)]
    return [read_constexpr(text)]


_NEXT_CONSTEXPR = re.compile(r",\s*(?=[^\W\d]\w*=)")
_CONSTEXPR = re.compile(r"[^\W\d]\w*=")


def spread_constexprs(words: Sequence[str]) -> list[str]:
    """Command-line words with the option repeated where "--constexpr BM=64 BN=32" gives
    it several values.
    """
    spread: list[str] = []
    follows = False
    for number, word in enumerate(words):
        if follows and _CONSTEXPR.match(word):
            spread.append("--constexpr")
        spread.append(word)
        is_value = number > 0 and words[number - 1] == "--constexpr"
        follows = is_value or (follows and _CONSTEXPR.match(word) is not None)
    return spread


def stated_by_options(missing: MissingArguments) -> str:
    """Advice for a line that compiles: the options that say what a kernel was not given."""
    options = []
    if missing.constexprs:
        options.append(f"--constexpr {','.join(f'{name}=VALUE' for name in missing.constexprs)}")
    if missing.others:
        options.append(f'--sig "..., {", ".join(f"{name}=TYPE" for name in missing.others)}"')
    words = f"Say {' and '.join(options)}"
    return f'{words}; a TYPE is "*fp32:16", "i32" or the like.' if missing.others else f"{words}."


def _triton_type(text: str) -> Any:
    import triton.language as tl

    value = getattr(tl, text.removeprefix("tl."), None)
    if not isinstance(value, tl.dtype):
        raise ValueError(f"triton.language has no type {text.removeprefix('tl.')!r}")
    return value


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


def read_tolerance(text: str) -> float:
    """ "2e-3" as 0.002: how far numbers may be apart, from 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("a number from 0 is needed, such as 1e-3")
    return number


def read_program(text: str) -> tuple[int, ...]:
    """ "2,1,0" as (2, 1, 0), "96" as (96,): a program's id."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = None
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("a program's id must be one to three numbers: 96, or 2,1,0")
    return numbers
