"""Tracebacks that point at lines of the user's: frames made for a position."""

from __future__ import annotations

import linecache
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from kernellab.errors.positions import SourcePosition
from kernellab.errors.sources import lines_as_imported


def raise_at(
    error: BaseException, position: SourcePosition, function: str = "<module>"
) -> NoReturn:
    """Raise `error` from a frame at `position`, so that a traceback
    points at that line, as one of `function`.

    The frame is made by compiling a `raise` statement that carries the file's name
    and the line's number; Jinja2 points tracebacks at template lines in the same way.
    Of a file that was edited since its import it carries a name that says so, under which Python
    finds the lines that were compiled.
    """
    __tracebackhide__ = True
    file = file_in_traceback(position)
    code = compile("\n" * (position.line - 1) + "raise __error__", file, "exec")
    exec(code.replace(co_name=function), {"__error__": error})  # noqa: S102
    raise AssertionError("unreachable")


def file_in_traceback(position: SourcePosition) -> str:
    """The name by which Python shows the line of a position as it was compiled: its file's, or
    one that says that the file has changed.
    """
    if not position.notice:
        return position.file
    name, lines = f"{position.file} (as it was imported)", lines_as_imported(position.file)
    # With an mtime of None no one looks for such a file.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return name


def frame_at(position: SourcePosition, function: str = "<module>") -> TracebackType:
    """Return a traceback entry at `position`, as one of `function`: for code that was inlined and
    therefore has no frame.
    """
    error = _Here()
    with suppress(_Here):
        raise_at(error, position, function)
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    assert entry is not None
    return entry


class _Here(Exception):
    """Raised only to have a frame."""
