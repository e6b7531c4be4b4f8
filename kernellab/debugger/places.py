"""Where a debugger can stop in a kernel, and the breakpoints that a caller asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from kernellab.common.argument_checks import listed
from kernellab.common.formatting import shown
from kernellab.errors import OptionError, nearest
from kernellab.interpreter.stepping.code import SteppingCode, SteppingFunction

_MOST_DIGITS = 10
"""Of a line's number."""


@dataclass(frozen=True)
class Breakpoint:
    """A place to stop at.

    Attributes:
        condition: an expression over the kernel's names, "x.max() > 10"; "" for every time.
        moved_from: the line that was asked for, where that has no code.
    """

    file: str
    line: int
    condition: str = ""
    moved_from: int | None = None


class Places:
    """The lines and functions of one kernel's source."""

    def __init__(self, code: SteppingCode) -> None:
        self._functions = list(code.functions.values())
        self._entry = code.entry
        self._lines = {
            f: code.lines_with_code(f) for f in {one.source.file for one in self._functions}
        }
        self._codes = frozenset(map(id, code.functions))

    def has(self, frame: FrameType) -> bool:
        """Whether a frame is of the kernel's functions."""
        return id(frame.f_code) in self._codes  # hashing a code object takes as long as it is large

    def knows(self, file: str) -> bool:
        """Whether the kernel has code from the file."""
        return file in self._lines

    def function(self, name: str) -> SteppingFunction | None:
        """The function of that name: "helper", "tl.sum"."""
        last = name.rpartition(".")[2]
        return next((one for one in self._functions if one.source.name == last), None)

    def line_with_code(self, file: str, line: int) -> int | None:
        """The line itself if it has code, else the next one that has:
        of the same function, or outside of functions of the file. None where there is none.
        """
        ends = [last for first, last in self._extents(file) if first <= line <= last]
        later = [n for n in self._lines[file] if n >= line and (not ends or n <= ends[0])]
        return later[0] if later else None

    def is_definition(self, file: str, line: int) -> bool:
        """Whether a function's `def` stands on the line."""
        return any((f.source.file, f.source.line) == (file, line) for f in self._functions)

    def breakpoints(self, asked: Any) -> Iterator[Breakpoint]:
        """What a caller asks for, one place or several, with lines that have code.

        Raises:
            OptionError: it cannot be read, or no line of the kernel's has code there.
        """
        several = isinstance(asked, Iterable) and not isinstance(asked, str)
        for one in listed("breakpoints", asked) if several else [asked]:
            yield self._breakpoint(one)

    def _breakpoint(self, asked: Any) -> Breakpoint:
        place, condition = _split(asked)
        _check_condition(condition, asked)
        file, line = self._place(place, asked)
        found = self.line_with_code(file, line)
        if found is None:
            raise OptionError(
                f"line {line} of {os.path.basename(file)} has no code of this kernel's, nor has "
                "any later line of its function",
                advice=f"Lines that have: {_as_ranges(self._lines[file])}.",
            )
        moved = found != line and not self.is_definition(file, line)
        return Breakpoint(file, found, condition, line if moved else None)

    def _place(self, place: str, asked: Any) -> tuple[str, int]:
        """File and line of "14", "kernels.py:14" or "helper"."""
        file, colon, line = place.rpartition(":")
        number = line.strip()
        if number.isdecimal() and len(number) < _MOST_DIGITS and int(number) > 0:
            if not colon:
                return self._entry.source.file, int(number)
            matching = [known for known in self._lines if known == file or _ends_with(known, file)]
            if matching:
                return matching[0], int(number)
        elif (function := self.function(place)) is not None:
            return function.source.file, function.source.line
        names = [function.source.name for function in self._functions]
        raise OptionError(
            f"breakpoints={shown(asked)} is no place in this kernel",
            advice=(
                f'{nearest(place, names)} Say a line, "FILE:LINE" or the name of a function '
                f"that the kernel calls ({', '.join(dict.fromkeys(names))}), and a "
                "condition after a "
                'comma: "14, x.max() > 10".'
            ).lstrip(),
        )

    def _extents(self, file: str) -> Iterator[tuple[int, int]]:
        """First and last line of each function in the file, from its `def` on."""
        for function in self._functions:
            if function.source.file == file:
                source = function.source.text.rstrip("\n")
                yield function.source.line, function.source.line + source.count("\n")


def _split(asked: Any) -> tuple[str, str]:
    """Place and condition of 14, "14, x.max() > 10" or (14, "x.max() > 10")."""
    match asked:
        case bool():
            pass
        case int():
            return str(asked), ""
        case str():
            place, _, condition = asked.partition(",")
            return place.strip(), condition.strip()
        case (int() | str() as place, str() as condition):
            return str(place).strip(), condition.strip()
    raise OptionError(
        f"breakpoints holds {asked!r}, which is no breakpoint",
        advice='Give lines, and with a condition "14, x.max() > 10" or (14, "x.max() > 10").',
    )


def _check_condition(condition: str, asked: Any) -> None:
    if not condition:
        return
    try:
        compile(condition, "<condition>", "eval")
    except SyntaxError as error:
        raise OptionError(
            f"the condition of breakpoint {asked!r} is no expression: {error.msg}"
        ) from None


def _ends_with(path: str, end: str) -> bool:
    return bool(end) and path.replace(os.sep, "/").endswith(f"/{end}")


def _as_ranges(lines: Iterable[int]) -> str:
    """ "4 to 7, 9"."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ranges)
