"""The lines of source files, and those that the compiler has of them: a file may have changed
since it was imported.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import stat
from dataclasses import dataclass

_MOST_SOURCE = 8 * 1024 * 1024
"""Bytes of a file whose lines are shown."""


def source_lines(file: str) -> list[str]:
    """The lines of a source file, as `linecache.getlines` gives them; none where it cannot be read.

    The name may come from a file that somebody saved: a file that is not regular, or larger
    than sources are, is not opened. A pipe would wait forever.
    """
    if file not in linecache.cache:
        try:
            status = os.stat(file)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_SOURCE:
            return []
    return linecache.getlines(file)


@dataclass(frozen=True)
class CompiledLines:
    """A function as the compiler has it: its lines, from `def` on, without their ends."""

    function: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> int:
        """In the file, when that was imported."""
        return self.first_line + len(self.lines) - 1

    def line(self, number: int) -> str:
        """The line of that number in the file."""
        return self.lines[number - self.first_line]


_compiled: dict[str, dict[int, CompiledLines]] = {}
"""File -> number of a `def` line -> the function; no two overlap."""


def keep_compiled(file: str, compiled: CompiledLines) -> None:
    """From now on these lines are shown for the function, whatever its file says; those of an
    earlier import give way.
    """
    there = _compiled.setdefault(file, {})
    first, last = compiled.first_line, compiled.last_line
    if there.get(first) is compiled:
        return
    for source in list(there.values()):
        if source.first_line <= last and first <= source.last_line:
            there.pop(source.first_line, None)
    there[first] = compiled


def compiled_at(file: str, line: int) -> CompiledLines | None:
    """The function that the compiler has of a line; None where it is of no kernel that ran or was
    compiled in this process.
    """
    for source in list(_compiled.get(file, {}).values()):
        if source.first_line <= line <= source.last_line:
            return source
    return None


def source_line(file: str, line: int) -> str:
    """A line, from 1, without its end, as it was compiled, else as the file has it;
    "" where there is none.
    """
    compiled = compiled_at(file, line)
    if compiled is not None:
        return compiled.line(line)
    lines = source_lines(file)
    return lines[line - 1].rstrip("\n") if 1 <= line <= len(lines) else ""


def lines_as_imported(file: str) -> list[str]:
    """The lines of a file's functions as they were compiled, with their ends, each at its number;
    empty ones between them.
    """
    lines: list[str] = []
    for source in sorted(_compiled.get(file, {}).values(), key=lambda source: source.first_line):
        lines += ["\n"] * (source.first_line - 1 - len(lines))
        lines += [f"{line}\n" for line in source.lines]
    return lines


def is_edited(file: str, compiled: CompiledLines) -> bool:
    """Whether a function's file has changed there."""
    with contextlib.suppress(ValueError):  # a name with a null character
        linecache.checkcache(file)
    there = source_lines(file)
    now = (line.rstrip("\n") for line in there[compiled.first_line - 1 : compiled.last_line])
    # A cell of another session or a file of another machine cannot be compared.
    return bool(there) and tuple(now) != compiled.lines


def format_edited(file: str, function: str) -> str:
    """What is said of a function whose file was edited, in a sentence or two."""
    return (
        f"{function} has changed in {file} since it was imported: what runs, and is shown, is what "
        "was imported. Import it again, or restart, for what the file says now."
    )


def edited_words(file: str, line: int) -> str:
    """What is said of a line whose function has changed in the file; "" of any other."""
    compiled = compiled_at(file, line)
    if compiled is None or not is_edited(file, compiled):
        return ""
    return format_edited(file, compiled.function)
