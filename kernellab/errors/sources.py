"""Source files: their lines, places in them, and tracebacks that point at a place.

A file may have changed since it was imported: the lines that the compiler has of it are kept.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import NoReturn

WITHOUT_SOURCE = (
    "Triton reads a kernel's source from its file, which code in exec or at the Python prompt does "
    "not have. Define the kernel in a file or in a notebook. For generated text, write a file "
    "and import it, or give Python the lines first: "
    "linecache.cache[name] = (len(text), None, text.splitlines(True), name), then "
    'exec(compile(text, name, "exec")).'
)
"""The advice on Triton's error that kernels should be defined in a Python file."""

_MOST_SOURCE = 8 * 1024 * 1024
"""Bytes of a file whose lines are shown."""


def visible(text: str) -> str:
    """Return an untrusted text with escapes for invisible and cursor characters."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_visible, line)) for line in text.split("\n")
    )


def _visible(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()


def source_lines(file: str) -> list[str]:
    """The lines of a source file, as `linecache.getlines` gives them; none if it cannot be read,
    or is not a source of this process.

    The name may come from a file that somebody saved, which must not choose what is read and
    shown: the files of imported modules are read, of kernels that were compiled here, and what
    Python itself has read. A file that is not regular, or larger than sources are, is not opened.
    """
    return _lines_of_regular(file) if _is_of_this_process(file) else []


def _lines_of_regular(file: str) -> list[str]:
    if file not in linecache.cache:
        try:
            status = os.stat(file)
        except (OSError, ValueError):
            return []
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_SOURCE:
            return []
    return linecache.getlines(file)


def _is_of_this_process(file: str) -> bool:
    if file in linecache.cache or (file in _compiled and file not in _foreign):
        return True
    modules = tuple(sys.modules.values())
    newest = str(getattr(modules[-1], "__file__", None))
    files = _files_of_modules((newest, *map(id, modules)))
    return file in files or os.path.abspath(file) in files


@lru_cache(maxsize=1)
def _files_of_modules(_modules: tuple[object, ...]) -> frozenset[str]:
    """The files of thousands of modules, which are read again when one is imported or goes."""
    modules = (getattr(module, "__dict__", {}) for module in tuple(sys.modules.values()))
    return frozenset(str(names.get("__file__")) for names in modules)


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


_foreign: set[str] = set()


def show_no_other_lines(file: str) -> None:
    """Of another's file, show only compiled lines, unless this process has imported it."""
    _foreign.add(file)


def keep_compiled(file: str, compiled: CompiledLines) -> None:
    """Show these lines for the function from now on, in place of an earlier import's."""
    there = _compiled.setdefault(file, {})
    first, last = compiled.first_line, compiled.last_line
    if there.get(first) is compiled:
        return
    for source in list(there.values()):
        if source.first_line <= last and first <= source.last_line:
            there.pop(source.first_line, None)
    there[first] = compiled


def compiled_at(file: str, line: int) -> CompiledLines | None:
    """The function that was compiled at a line; None without a kernel there."""
    for source in list(_compiled.get(file, {}).values()):
        if source.first_line <= line <= source.last_line:
            return source
    return None


def source_line(file: str, line: int) -> str:
    """A line, from 1, without its end, as compiled, else as in the file; "" for none."""
    compiled = compiled_at(file, line)
    if compiled is not None:
        return compiled.line(line)
    lines = source_lines(file)
    return lines[line - 1].rstrip("\n") if 1 <= line <= len(lines) else ""


def compiled_text(file: str, line: int) -> str:
    """The compiled lines of the function at a line, from its `def`; "" without one."""
    compiled = compiled_at(file, line)
    return "" if compiled is None else "\n".join(compiled.lines)


def lines_as_imported(file: str) -> list[str]:
    """The compiled lines of a file's functions at their numbers, with empty ones between."""
    lines: list[str] = []
    for source in sorted(_compiled.get(file, {}).values(), key=lambda source: source.first_line):
        lines += ["\n"] * (source.first_line - 1 - len(lines))
        lines += [f"{line}\n" for line in source.lines]
    return lines


def is_edited(file: str, compiled: CompiledLines) -> bool:
    """Whether a function's file has changed there."""
    if not _is_of_this_process(file):
        return False
    with contextlib.suppress(ValueError):  # a name with a null character
        linecache.checkcache(file)
    there = _lines_of_regular(file)
    now = (line.rstrip("\n") for line in there[compiled.first_line - 1 : compiled.last_line])
    # A cell of another session or a file of another machine cannot be compared.
    return bool(there) and tuple(now) != compiled.lines


def format_edited(file: str, function: str) -> str:
    """The note about a function whose file was edited, in a sentence or two."""
    return (
        f"{function!r} in {file} has changed since it was imported: what runs, and is shown, is "
        "what was imported. Import it again, or restart, to run the file as it is now."
    )


def edited_words(file: str, line: int) -> str:
    """The note about a line whose function has changed in the file; "" for any other."""
    compiled = compiled_at(file, line)
    if compiled is None or not is_edited(file, compiled):
        return ""
    return format_edited(file, compiled.function)


# Places in source files: their names for people, and their text.


_label: Callable[[str], str | None] | None = None


def label_file(file: str) -> str | None:
    """A file's name for people, if it has one: "Cell In[3]"."""
    return None if _label is None else _label(file)


def label_files_by(rule: Callable[[str], str | None] | None) -> None:
    """Have `label_file` call `rule`; with None, files are named by their paths again."""
    global _label
    _label = rule


@dataclass(frozen=True)
class SourcePosition:
    """A place in a file of the user: line from 1, column from 1 (0 if no column is known),
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
        """The compiled line with a caret under the column and a notice of edits; or ""."""
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
        """A notice that the file has changed since it was compiled; "" if it has not."""
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
    """Python's name for a compiled line: its file's, or one that says it has changed."""
    if not position.notice:
        return position.file
    name, lines = f"{position.file} (as it was imported)", lines_as_imported(position.file)
    # With an mtime of None such a file is not looked up.
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return name


def frame_at(position: SourcePosition, function: str = "<module>") -> TracebackType:
    """Return a traceback entry at `position`, as one of `function`, which was inlined."""
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
