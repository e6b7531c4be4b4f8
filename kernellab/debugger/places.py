"""Where a debugger can stop in a kernel, and the breakpoints that a caller requests."""

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
"""The most digits of a line number that is read."""


@dataclass(frozen=True)
class Breakpoint:
    """A place to stop at.

    Attributes:
        condition: an expression over the kernel's names, "x.max() > 10"; "" for none.
        moved_from: the requested line, if it has no code; else None.
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
            f: code.lines_with_code(f)
            for f in {function.source.file for function in self._functions}
        }
        self._codes = frozenset(map(id, code.functions))

    def has(self, frame: FrameType) -> bool:
        """Return whether a frame runs one of the kernel's functions."""
        return id(frame.f_code) in self._codes  # to hash a code object takes time in its size

    def knows(self, file: str) -> bool:
        """Return whether the kernel has code from the file."""
        return file in self._lines

    def function(self, name: str) -> SteppingFunction | None:
        """Return the function with a name, such as "helper" or "tl.sum"; None if there is none."""
        last = name.rpartition(".")[2]
        return next(
            (function for function in self._functions if function.source.name == last), None
        )

    def line_with_code(self, file: str, line: int) -> int | None:
        """Return the line itself if it has code, else the next line with code in the same function,
        or in the file where the line is outside of functions; None if there is none.
        """
        ends = [last for first, last in self._extents(file) if first <= line <= last]
        later = [n for n in self._lines[file] if n >= line and (not ends or n <= ends[0])]
        return later[0] if later else None

    def is_definition(self, file: str, line: int) -> bool:
        """Return whether a function's `def` is on the line."""
        return any((f.source.file, f.source.line) == (file, line) for f in self._functions)

    def breakpoints(self, requested: Any) -> Iterator[Breakpoint]:
        """Yield the breakpoints that a caller requests, for one place or several.

        Raises:
            OptionError: a request cannot be read, or its place has no code of this kernel.
        """
        several = isinstance(requested, Iterable) and not isinstance(requested, str)
        for request in listed("breakpoints", requested) if several else [requested]:
            yield self._breakpoint(request)

    def _breakpoint(self, request: Any) -> Breakpoint:
        place, condition = _split(request)
        _check_condition(condition, request)
        file, line = self._place(place, request)
        line_with_code = self.line_with_code(file, line)
        if line_with_code is None:
            raise OptionError(
                f"Line {line} of {os.path.basename(file)} has no code of this kernel, and neither "
                "has any later line of its function.",
                advice=f"Lines with code: {_as_ranges(self._lines[file])}.",
            )
        moved = line_with_code != line and not self.is_definition(file, line)
        return Breakpoint(file, line_with_code, condition, line if moved else None)

    def _place(self, place: str, request: Any) -> tuple[str, int]:
        """Return the file and the line of "14", "kernels.py:14" or "helper"."""
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
            f"breakpoints must name places in this kernel, got {shown(request)}.",
            advice=(
                f'{nearest(place, names)} Give a line, "FILE:LINE" or the name of a function '
                f"that the kernel calls ({', '.join(dict.fromkeys(names))}). A condition may "
                'follow a comma: "14, x.max() > 10".'
            ).lstrip(),
        )

    def _extents(self, file: str) -> Iterator[tuple[int, int]]:
        """Yield the first and the last line of each function in the file, from its `def` on."""
        for function in self._functions:
            if function.source.file == file:
                source = function.source.text.rstrip("\n")
                yield function.source.line, function.source.line + source.count("\n")


def _split(request: Any) -> tuple[str, str]:
    """Return the place and the condition of 14, "14, x.max() > 10" or (14, "x.max() > 10")."""
    match request:
        case bool():
            pass
        case int():
            return str(request), ""
        case str():
            place, _, condition = request.partition(",")
            return place.strip(), condition.strip()
        case (int() | str() as place, str() as condition):
            return str(place).strip(), condition.strip()
    raise OptionError(
        f"breakpoints must be lines, places or pairs of a place and a condition, got {request!r}.",
        advice='For example: 14, "14, x.max() > 10" or (14, "x.max() > 10").',
    )


def _check_condition(condition: str, request: Any) -> None:
    if not condition:
        return
    try:
        compile(condition, "<condition>", "eval")
    except SyntaxError as error:
        raise OptionError(
            f"The condition of the breakpoint {request!r} is not an expression: {error.msg}."
        ) from None


def _ends_with(path: str, end: str) -> bool:
    return bool(end) and path.replace(os.sep, "/").endswith(f"/{end}")


def _as_ranges(lines: Iterable[int]) -> str:
    """Return lines as text: "4 to 7, 9"."""
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ranges)
