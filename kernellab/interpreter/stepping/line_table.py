"""Lines of a code object, rewritten: instructions that belong to no line of the source get none.

Python numbers every statement that it compiles. Where generated code joins values after a branch
there is no place in the source, and a debugger that stopped there would jump about. Such
statements are compiled at `NO_LINE`, and lose their line here. The format is CPython's for 3.11 and
later (Objects/locations.md in its sources).
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import CodeType

NO_LINE = 1 << 29
"""The line of statements that shall have none."""

_LONG_FORM, _NO_LOCATION = 14, 15
_MOST_UNITS = 8
"""So many code units one entry can cover."""

_CACHE = dis.opmap.get("CACHE", 0)
_JUMPS_BACK = {dis.opmap[name] for name in dis.opmap if name.startswith("JUMP_BACKWARD")}

Position = tuple[int | None, int | None, int | None, int | None]
"""Line, end line, column, end column of an instruction, as `co_positions` gives them."""


def without_made_up_lines(code: CodeType) -> CodeType:
    """The code, and all code inside it, with no line where the line is `NO_LINE`."""
    constants = tuple(
        without_made_up_lines(const) if isinstance(const, CodeType) else const
        for const in code.co_consts
    )
    table = bytes(_entries(_positions(code), code.co_firstlineno))
    return code.replace(co_consts=constants, co_linetable=table)


def _positions(code: CodeType) -> Iterator[Position]:
    """The position of each code unit; a jump back has none, so that a loop's line has its turn
    once an iteration.
    """
    jumps_back = False
    for position, opcode in zip(code.co_positions(), code.co_code[::2], strict=True):
        if opcode != _CACHE:
            jumps_back = opcode in _JUMPS_BACK
        yield (None, None, None, None) if jumps_back else position


def _entries(positions: Iterable[Position], first_line: int) -> Iterator[int]:
    line = first_line
    for position, run in groupby(positions):
        units = sum(1 for _ in run)
        while units:
            covered = min(units, _MOST_UNITS)
            units -= covered
            start = position[0]
            if start is None or start >= NO_LINE:
                yield 0x80 | _NO_LOCATION << 3 | covered - 1
                continue
            yield 0x80 | _LONG_FORM << 3 | covered - 1
            yield from _signed(start - line)
            yield from _unsigned((position[1] or start) - start)
            yield from _unsigned(_from_one(position[2]))
            yield from _unsigned(_from_one(position[3]))
            line = start


def _from_one(column: int | None) -> int:
    return 0 if column is None else column + 1


def _signed(value: int) -> Iterator[int]:
    return _unsigned(-value << 1 | 1 if value < 0 else value << 1)


def _unsigned(value: int) -> Iterator[int]:
    """Six bits a byte, the lowest first; the seventh says that more follow."""
    while value >= 0x40:
        yield 0x40 | value & 0x3F
        value >>= 6
    yield value
