"""Places in source files: their names for people, and the lines that stand there."""

from __future__ import annotations

import linecache
import os
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass


def _no_label(file: str) -> str | None:
    """Files are named by their paths: the rule where no notebook runs."""
    del file
    return None


_label: Callable[[str], str | None] = _no_label


def label_file(file: str) -> str | None:
    """A file's name for people, where it has one: the notebook extension names the files
    of cells ("Cell In[3]").
    """
    return _label(file)


def label_files_by(rule: Callable[[str], str | None] | None) -> None:
    """Let `label_file` ask `rule`; with None files are named by their paths again."""
    global _label
    _label = rule or _no_label


@dataclass(frozen=True)
class SourcePosition:
    """A place in a file of the user's: line from 1, column from 1 (0 where no column is known),
    which counts bytes of UTF-8, as Python's own and the compilers' do.
    """

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        label = label_file(self.file)
        if label is not None:
            return f"{label}, line {self.line}"
        column = f":{self.column}" if self.column else ""
        # A path may have bytes that are no text, which nothing prints.
        file = self.file.encode("utf-8", "backslashreplace").decode()
        return f"{file}:{self.line}{column}"

    def excerpt(self) -> str:
        """The line of source with a caret under the column, or "" where the
        source cannot be read.
        """
        text = source_line(self.file, self.line)
        if not text:
            return ""
        number = f"{self.line:>5} | "
        if not self.column:
            return number + text
        before = text.encode("utf-8", "replace")[: self.column - 1].decode("utf-8", "ignore")
        return f"{number}{text}\n{' ' * len(number)}{_blank(before)}^"


def _blank(text: str) -> str:
    """Blanks as wide as the text is where each character has the same width, or twice that."""
    widths = {"W": 2, "F": 2}
    return "".join(
        "\t"
        if c == "\t"
        else ""
        if unicodedata.combining(c)
        else " " * widths.get(unicodedata.east_asian_width(c), 1)
        for c in text
    )


_MOST_SOURCE = 8 * 1024 * 1024
"""Bytes of a file whose lines are shown."""


def source_lines(file: str) -> list[str]:
    """The lines of a source file, as `linecache.getlines` gives them; none where it cannot be read.

    The name may come from a file that somebody saved: what is no regular file, or larger than
    sources are, is not opened. A pipe would wait for ever.
    """
    if file not in linecache.cache:
        try:
            status = os.stat(file)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_SOURCE:
            return []
    return linecache.getlines(file)


def source_line(file: str, line: int) -> str:
    """A line of `source_lines`, from 1, without its end; "" where there is none."""
    lines = source_lines(file)
    return lines[line - 1].rstrip("\n") if 1 <= line <= len(lines) else ""
