"""How values are written in messages, compilers' strings, and sources without a file."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import re
import traceback
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context
from functools import lru_cache
from pathlib import Path
from typing import Any


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 config", "1,024 configs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_text(value: Any, digits: int = 6) -> str:
    """A number as messages show it: a float with at most this many significant digits.

    Six are enough to recognize a value, and leave out the digits of a float32 in which processors
    differ. `value` may be a Python, NumPy or torch number.
    """
    number = value.item() if hasattr(value, "item") else value
    return f"{number:.{digits}g}" if isinstance(number, float) else str(number)


def number_texts(first: Any, second: Any) -> tuple[str, str]:
    """Two numbers, with the digits, at least six, that show whether they differ."""
    for digits in range(6, 18):
        texts = number_text(first, digits), number_text(second, digits)
        if texts[0] != texts[1]:
            return texts
    return number_text(first), number_text(second)


_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def percent(share: float) -> str:
    """A share in percent, of three digits, halves up: 0.5625 is "56.3 %"."""
    return f"{_THREE_DIGITS.create_decimal_from_float(100 * share).normalize():f} %"


def format_seconds(seconds: float) -> str:
    """ "30 seconds", "1 second", "0.5 seconds"."""
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def time_text(microseconds: float, digits: int = 3) -> str:
    """A measured or an estimated time in the unit that fits: "8 ns", "15.2 us", "5.84 ms"."""
    if 0 < microseconds < 0.1:
        return f"{microseconds * 1000:.{digits}g} ns"
    for unit in ("us", "ms"):
        if float(f"{microseconds:.{digits}g}") < 1000:
            return f"{microseconds:.{digits}g} {unit}"
        microseconds /= 1000
    return f"{microseconds:.{digits}g} s"


def format_bytes(number: int) -> str:
    """Return a number of bytes in a decimal unit: "512 bytes", "12.6 MB", "3.2 GB"."""
    return f"{number:,} bytes" if number < 999.5 else scaled(number, "B")


def scaled(number: float, unit: str) -> str:
    """An amount in a decimal multiple of its unit, with three digits: "264 kB", "1.5 GFLOP"."""
    for prefix in ("", "k", "M", "G"):
        if number < 999.5:
            return f"{number:.3g} {prefix}{unit}"
        number /= 1000
    return f"{number:,.3g} T{unit}"


def joined_sizes(sizes: Iterable[int]) -> str:
    """A shape or a grid: "128x64"; "" without dimensions."""
    return "x".join(map(str, sizes))


def index_text(index: Iterable[int | str]) -> str:
    """An index, or a shape after its dtype: "[3, 7]", "[s0, 7]"; "" without dimensions."""
    numbers = ", ".join(map(str, index))
    return f"[{numbers}]" if numbers else ""


def element_text(argument: str, index: Iterable[int]) -> str:
    """An element of an argument: "z_ptr[3, 7]"; "memory[3]" if it belongs to none."""
    return f"{argument or 'memory'}{index_text(index)}"


_LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """Return the `repr` of a value that a user gave, shortened to 200 characters."""
    try:
        storage = None if isinstance(value, type) else getattr(value, "untyped_storage", None)
        if storage is not None and storage().nbytes() == 0:
            # Its repr would read it all the same.
            return f"an object of type {type(value).__name__} without memory"
        words = repr(value)
    except Exception:  # a repr of the user, a tensor without a storage, an int of many digits
        return f"an object of type {type(value).__name__}"
    return words if len(words) <= _LONGEST_SHOWN else f"{words[:_LONGEST_SHOWN]}..."


def error_text(error: BaseException) -> str:
    """Return the class and the message of any error, whose own text may raise another."""
    try:
        words = str(error)
    except Exception:  # as above
        words = "its message cannot be read"
    return f"{type(error).__name__}: {words[:_LONGEST_ERROR]}"


_LONGEST_ERROR = 20_000
"""Characters of an error's message."""


# Strings as compilers write them: bytes that are not ASCII as escapes, of which a path or a name
# in Greek has many.

_IN_IR = re.compile(rb"\\([0-9A-Fa-f]{2}|[\\\"nt])")
_IN_ASSEMBLY = re.compile(rb"\\([0-7]{3}|[\\\"nrtbf])")
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def string_of_ir(written: str) -> str:
    """Read a string literal of MLIR or LLVM IR without its quotes: `caf\\C3\\A9` is "café".

    Bytes that are not UTF-8 become U+FFFD.
    """
    return _read(written, _IN_IR, 16)


def string_of_assembly(written: str) -> str:
    """Read a string literal of PTX, AMD assembly or nvdisasm's listing without its quotes:
    `caf\\303\\251` is "café".

    Bytes that are not UTF-8 become U+FFFD.
    """
    return _read(written, _IN_ASSEMBLY, 8)


def _read(written: str, escape: re.Pattern[bytes], base: int) -> str:
    if "\\" not in written:
        return written

    def byte(match: re.Match[bytes]) -> bytes:
        text = match[1]
        if len(text) > 1:
            return bytes([int(text, base) & 0xFF])
        return _LETTERS.get(text, text)

    raw = written.encode("utf-8", "surrogatepass")
    return escape.sub(byte, raw).decode("utf-8", "replace")


def value_name(name: str) -> str:
    """How MLIR spells a name in front of a value's number: of "α" it is "_CEB1", for `%_CEB1_4`."""
    kept = "".join(
        c if c.isascii() and (c.isalnum() or c in "_$.-") else c.encode().hex().upper()
        for c in name
    )
    return kept if re.match("[A-Za-z_]", name) else f"_{kept}"


def remember_source(file: str, text: str) -> None:
    """Let tracebacks, `inspect` and Triton find the text under that name, by Python's lines."""
    lines = io.StringIO(text, newline=None).readlines()
    linecache.cache[file] = (len(text), None, lines, file)


@lru_cache(maxsize=16)
def parsed(source: str) -> ast.Module:
    """Return a Python source as a tree, which must not be changed; an empty one of other texts."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def called(call: ast.Call) -> str:
    """Return the last name of the function that is called: "load" for `tl.load`; "" for none."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def split_at_commas(text: str) -> list[str]:
    """The parts between the commas outside of brackets, without spaces around them."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<[{(") - (character in ">]})")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


_OURS = Path(__file__).parents[1]


def what_it_raised(function: str, error: Exception) -> str:
    """Return "reference raised KeyError: 'n'", with the user's line if there is one."""
    words = f"{function} raised {type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_OURS):
        return words
    last = frames[-1]
    return f"{words}\n  at {last.filename}:{last.lineno}: {last.line}"


def called_with_a_dict(function: Callable[..., Any], names: Iterable[str], example: str) -> str:
    """Return advice on a user's function that must take all arguments as one dict. `function`: the
    function, which raised an error.
    """
    names = list(names)
    words = f"It is called with one dict of all arguments ({', '.join(names)}): {example}."
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function with no signature to read
        return words
    if len(parameters) == 1 and parameters[0].name in names:
        return (
            f"{words} The function's parameter {parameters[0].name!r} is that dict, not the "
            "argument of the same name."
        )
    positional = [
        parameter for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    if all(parameter.kind is parameter.VAR_KEYWORD for parameter in positional):
        return f"{words} The function takes no positional argument."
    return words
