"""Texts, of Python and of other languages, that are in no file, by the name of a file."""

from __future__ import annotations

import io
import linecache


def remember_source(file: str, text: str) -> None:
    """Let tracebacks, `inspect` and Triton find the text under that name.

    Lines end where Python's parser ends them: not at a form feed or U+2028, as `splitlines` does.
    """
    lines = io.StringIO(text, newline=None).readlines()
    linecache.cache[file] = (len(text), None, lines, file)
