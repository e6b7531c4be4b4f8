"""PTX as ptxas reads it. Before release 13, which Triton uses up to sm_90, it takes ASCII only,
even in comments; into these go the names of the kernel's files and what inline assembly says.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def with_ascii_comments(ptx: str) -> str:
    """The text with escapes for what is not ASCII in its comments; all else stays as it is."""
    if ptx.isascii():
        return ptx
    return _COMMENT.sub(lambda one: one[0].encode("ascii", "backslashreplace").decode(), ptx)


@contextmanager
def readable_for_assembler(backend: Any) -> Iterator[None]:
    """While active, the backend hands its PTX to ptxas with comments in ASCII.

    The stage "ptx" itself, and keys of Triton's cache, stay what they are.
    """
    kind = type(backend)
    if not hasattr(kind, "make_cubin"):
        yield
        return
    with _lock:
        original = _inside.setdefault(kind, (0, kind.make_cubin))[1]
        _inside[kind] = _inside[kind][0] + 1, original

        def make_cubin(self: Any, source: str, *more: Any, **keywords: Any) -> Any:
            return original(self, with_ascii_comments(source), *more, **keywords)

        kind.make_cubin = make_cubin
    try:
        yield
    finally:
        with _lock:
            _inside[kind] = _inside[kind][0] - 1, original
            if not _inside[kind][0]:
                del _inside[kind]
                kind.make_cubin = original


_lock = threading.Lock()
_inside: dict[type, tuple[int, Any]] = {}
"""A backend's class -> how many are inside, and its own method."""
