"""The source of the functions that a trace saw: their lines, and their loops."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernellab import triton_api
from kernellab.errors import CompiledLines, is_edited, source_lines
from kernellab.tracing.steps import SourceText


@dataclass(frozen=True)
class Loop:
    """A loop of a function.

    Attributes:
        line: of its header, in the file.
        last_line: of its body.
        header: what the header says, without the colon.
    """

    line: int
    last_line: int
    header: str

    def holds(self, line: int) -> bool:
        """Whether a line is the loop's header, or of its body."""
        return self.line <= line <= self.last_line


def compiled_sources(kernel: Any) -> dict[tuple[str, int], SourceText]:
    """What Triton compiles of a kernel and of the functions that it may call, whatever their files
    say now: (file, line of the `def`) -> lines.
    """
    positions = {}
    for function in triton_api.reachable_functions(kernel):
        place, lines = triton_api.definition_of(function), triton_api.compiled_lines(function)
        positions[place.file, place.line] = SourceText(
            place.file, function.__name__, place.line, lines
        )
    return positions


def source_of_function(file: str, name: str, line: int) -> SourceText | None:
    """The lines of the function whose `def` is on a line of a file or a cell;
    None where they cannot be read.
    """
    block = _block(tuple(source_lines(file)[line - 1 :]))
    return SourceText(file, name, line, block) if block else None


@lru_cache(maxsize=64)
def _block(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of the function that begins with the first of them; () if they are not source."""
    try:
        return tuple(text.rstrip("\n") for text in inspect.getblock(lines)) if lines else ()
    except (SyntaxError, RecursionError):
        return ()


@lru_cache(maxsize=64)
def loops_of(source: SourceText) -> tuple[Loop, ...]:
    """The loops of a function, outer ones first. A loop on a single line is left out: its
    iterations cannot be distinguished.
    """
    try:
        tree = ast.parse(textwrap.dedent("\n".join(source.lines)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # a damaged file
        return ()
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.While) and node.body[0].lineno > node.lineno:
            line = source.first_line + node.lineno - 1
            last = source.first_line + (node.body[-1].end_lineno or node.lineno) - 1
            lines.append(Loop(line, last, _header(node)))
    return tuple(sorted(lines, key=lambda loop: loop.line))


def _header(node: ast.For | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}"
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def changed_sources(sources: Sequence[SourceText]) -> list[str]:
    """A sentence for each source that is not what it was when it was recorded."""
    return [
        f"{source.function} has changed in {source.file} since this trace was recorded; the lines "
        "shown are the recorded ones."
        for source in sources
        if is_edited(source.file, CompiledLines(source.function, source.first_line, source.lines))
    ]
