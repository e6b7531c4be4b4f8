"""Places in source files: their names for people, and their text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernellab.errors.sources import edited_words, source_line

_label: Callable[[str], str | None] | None = None


def label_file(file: str) -> str | None:
    """A file's name for people, where it has one: the notebook extension names the files
    of cells ("Cell In[3]").
    """
    return None if _label is None else _label(file)


def label_files_by(rule: Callable[[str], str | None] | None) -> None:
    """Have `label_file` call `rule`; with None, files are named by their paths again."""
    global _label
    _label = rule


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
        # A path may have bytes that are not text, which cannot be printed.
        file = self.file.encode("utf-8", "backslashreplace").decode()
        return f"{file}:{self.line}{column}"

    def excerpt(self) -> str:
        """The line of source, as it was compiled, with a caret under the column, and a notice
        where the file was edited since; "" where the source cannot be read.
        """
        text = source_line(self.file, self.line)
        if not text:
            return ""
        number = f"{self.line:>5} | "
        lines = [number + text]
        if self.column:
            before = text.encode("utf-8", "replace")[: self.column - 1].decode("utf-8", "ignore")
            lines.append(f"{' ' * len(number)}{_blank(before)}^")
        if self.notice:
            lines.append(f"  {self.notice}")
        return "\n".join(lines)

    @property
    def notice(self) -> str:
        """That the file has changed since it was compiled; "" where it does not."""
        return edited_words(self.file, self.line)


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


_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)')


def frames_in(stack: str) -> Iterator[SourcePosition]:
    """The places of a stack as Python writes it, the outermost first."""
    for match in _FRAME.finditer(stack):
        yield SourcePosition(match["file"], int(match["line"]))
