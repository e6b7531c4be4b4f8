"""Tracebacks that point at lines of the user's: frames made for a position."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import NoReturn

from kernellab.errors.positions import SourcePosition


def raise_at(error: BaseException, position: SourcePosition) -> NoReturn:
    """Raise `error` from a frame that stands at `position`, so that a traceback
    points at that line.

    The frame is made by compiling a `raise` statement that carries the file's name
    and the line's number; Jinja2 points tracebacks at template lines in the same way.
    """
    __tracebackhide__ = True
    code = compile("\n" * (position.line - 1) + "raise __error__", position.file, "exec")
    exec(code, {"__error__": error})  # noqa: S102
    raise AssertionError("unreachable")


def frame_at(position: SourcePosition) -> TracebackType:
    """A traceback entry that stands at `position`, for code that was inlined
    and has no frame of its own.
    """
    error = _Here()
    with suppress(_Here):
        raise_at(error, position)
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    assert entry is not None
    return entry


class _Here(Exception):
    """Raised only to have a frame."""
