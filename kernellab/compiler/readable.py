"""A stage's text as people read it: without what says where it came from,
which the source map knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_PARTS = r'(?:[^()"]|"(?:[^"\\]|\\.)*"|\({inner}\))*'
_INNERMOST = r'(?:[^()"]|"(?:[^"\\]|\\.)*")*'


def _nested(levels: int) -> str:
    pattern = _INNERMOST
    for _ in range(levels):
        pattern = _PARTS.format(inner=pattern)
    return pattern


MLIR_LOCATION = re.compile(rf"\s*\bloc\({_nested(5)}\)")
"""`loc(...)` of an operation or an argument, with the blanks before it."""

Lines = Iterator[str | None]
"""The lines of a text, one after the other; None for one that is left out."""


@dataclass(frozen=True)
class ReadableText:
    """A text with some lines left out. Every shown line keeps the number that it has
    in the full text.
    """

    content: str
    skipped: tuple[int, ...]
    """The numbers of the lines left out, from 1, but for those at the end."""


def readable(language: str, text: str) -> ReadableText:
    """The text without MLIR's locations, LLVM's debug metadata, `.loc` and `.file`, debug sections,
    nvdisasm's file notes.
    """
    clean = _CLEANERS.get(language)
    lines = text.splitlines()
    shown = list(lines if clean is None else clean(lines))
    while shown and not shown[-1]:
        shown.pop()
    skipped = tuple(number for number, line in enumerate(shown, 1) if line is None)
    return ReadableText("\n".join(line for line in shown if line is not None), skipped)


_OWN_ALIAS = re.compile(r" loc\(#loc\d*\)$")
"""The one location that most lines have."""


def _mlir(lines: list[str]) -> Lines:
    for line in lines:
        if line.startswith(("#loc", "#di_")):
            yield None
        elif (at := line.rfind(" loc(#")) >= 0 and _OWN_ALIAS.match(line, at):
            # Ten times as fast as the general pattern, which only lines
            # with several locations need.
            own = line[:at]
            yield MLIR_LOCATION.sub("", own) if "loc(" in own else own
        else:
            yield MLIR_LOCATION.sub("", line) if "loc(" in line else line


_DEBUG_USE = re.compile(r",? !dbg !\d+")


def _llvm(lines: list[str]) -> Lines:
    for line in lines:
        if line.startswith("!") or line.lstrip().startswith("#dbg_"):
            yield None
        else:
            yield _DEBUG_USE.sub("", line)


_TEMPORARY_LABEL = re.compile(r"\$L__(?:tmp|func_\w+)\d*:|\.L(?:tmp|func_\w+)\d+:")


def _assembly(lines: list[str]) -> Lines:
    """PTX and AMD assembly: both have `.loc`, `.file` and sections of debug information."""
    in_debug_section = False
    for line in lines:
        word = line.strip()
        if word.startswith(".section"):
            in_debug_section = ".debug" in word
        elif in_debug_section and re.match(r"\.(?:text|data|amdgpu_metadata|protected)\b", word):
            in_debug_section = False
        hidden = (
            in_debug_section
            or word.startswith((".loc\t", ".loc ", ".file\t", ".file "))
            or _TEMPORARY_LABEL.match(word)
        )
        yield None if hidden else line
        if in_debug_section and word == "}":
            in_debug_section = False


_INDENTED = re.compile(r"^ +(/\*[0-9a-f]+\*/) +")
_DIRECTIVE = re.compile(
    r"\s*\.(?:headerflags|elftype|section|sectionflags|sectioninfo|align|global|type|size|"
    r"other|weak)\b"
)


def _sass(lines: list[str]) -> Lines:
    """Instructions and labels of the code; the lines around them describe the file."""
    in_code = False
    for line in lines:
        if line.startswith("//-----"):
            in_code = ".text." in line
        hidden = (
            not in_code
            or not line.strip()
            or line.lstrip().startswith("//")
            or _DIRECTIVE.match(line)
        )
        yield None if hidden else _INDENTED.sub(r"  \1  ", line)


_CLEANERS: dict[str, Callable[[list[str]], Lines]] = {
    "mlir": _mlir,
    "llvm": _llvm,
    "ptx": _assembly,
    "amdgcn": _assembly,
    "sass": _sass,
}
