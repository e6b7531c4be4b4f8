"""The Python that a view shows: the kernel, and what it calls in the same file,
under the file's own line numbers.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernellab.compiler.compare import definition_line
from kernellab.errors import (
    SourcePosition,
    compiled_at,
    is_edited,
    source_lines,
)
from kernellab.records import Compilation, SourceMap

Span = tuple[int, int]
"""First and last line of a function, decorators included."""


@dataclass(frozen=True)
class KernelSource:
    """Lines of one file, in order."""

    content: str
    skipped: tuple[int, ...]
    """The numbers of the file's lines that are not shown, up to the last one that is."""
    kernel: str = ""
    """The kernel's name, where it was looked for."""

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Each line with its number in the file."""
        numbers = (n for n in itertools.count(1) if n not in self.skipped)
        return zip(numbers, self.content.split("\n"))


def kernel_source(compilation: Compilation, source_map: SourceMap) -> KernelSource:
    """The kernel's text as it was compiled; with it the functions of its file that were inlined,
    as they were compiled. A record without those takes them of the file, while that still has the
    kernel.
    """
    if "source" not in compilation.stages:
        return KernelSource("", ())
    text = compilation.stages["source"].text.rstrip("\n")
    first = _first_line(compilation, text, source_map)
    own = text.split("\n")
    named = {
        frame[1]
        for chain in source_map.chains
        for frame in chain
        if source_map.files[frame[0]] == source_map.file
    }
    if compilation.functions:
        helpers = [
            (function.first_line, function.lines)
            for function in compilation.functions
            if function.file == source_map.file
            and any(function.first_line <= line <= function.last_line for line in named)
        ]
        return _placed([(first, own), *helpers])
    lines = [line.rstrip("\n") for line in source_lines(source_map.file)]
    span = (first, first + len(own) - 1)
    if [line.strip() for line in lines[first - 1 : span[1]]] != [line.strip() for line in own]:
        return KernelSource(text, tuple(range(1, first)))
    spans = [
        function
        for function in _functions(lines)
        if any(function[0] <= n <= function[1] for n in named)
    ]
    return _cut(lines, [span, *spans])


def failed_source(position: SourcePosition | None) -> KernelSource:
    """Return the function around a position, as its file has it, or as it was compiled if the file
    was edited since; nothing if the file cannot be read.
    """
    if position is None:
        return KernelSource("", ())
    compiled = compiled_at(position.file, position.line)
    if compiled is not None and is_edited(position.file, compiled):
        placed = _placed([(compiled.first_line, compiled.lines)])
        return replace(placed, kernel=compiled.function)
    lines = [line.rstrip("\n") for line in source_lines(position.file)]
    spans = [
        function for function in _functions(lines) if function[0] <= position.line <= function[1]
    ]
    around = spans[0] if spans else (max(1, position.line - 5), min(len(lines), position.line + 5))
    cut = _cut(lines, [around])
    name = re.search(r"^\s*def (\w+)", cut.content, re.M)
    return KernelSource(cut.content, cut.skipped, name[1] if name else "")


def _placed(functions: Iterable[tuple[int, Sequence[str]]]) -> KernelSource:
    """Functions, each the number of its first line and its lines; where two have a line of one
    number, the first's.
    """
    shown: dict[int, str] = {}
    for first, lines in functions:
        for number, line in enumerate(lines, first):
            shown.setdefault(number, line)
    numbers = sorted(shown)
    skipped = sorted(set(range(1, numbers[-1])) - set(numbers))
    return KernelSource("\n".join(shown[number] for number in numbers), tuple(skipped))


def _first_line(compilation: Compilation, text: str, source_map: SourceMap) -> int:
    """The number of the source text's first line."""
    in_text = next(
        (n for n, line in enumerate(text.split("\n")) if line.lstrip().startswith("def ")), 0
    )
    definition = definition_line(compilation, source_map)
    return 1 if definition is None else max(1, definition - in_text)


def _functions(lines: Sequence[str]) -> list[Span]:
    """Return the outermost functions of a file; none if it is not Python (a cell with magics)."""
    # Lines that only IPython can read become comments, so that the others keep their numbers.
    readable = [f"#{line}" if line.startswith(("%", "!")) else line for line in lines]
    try:
        tree = ast.parse("\n".join(readable))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [
        (
            min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
            node.end_lineno or 0,
        )
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    ]


def _cut(lines: Sequence[str], spans: Iterable[Span]) -> KernelSource:
    """Return the lines of some spans, and which lines are between them."""
    shown = sorted({number for first, last in spans for number in range(first, last + 1)})
    shown = [number for number in shown if number <= len(lines)]
    if not shown:
        return KernelSource("", ())
    skipped = sorted(set(range(1, shown[-1])) - set(shown))
    return KernelSource("\n".join(lines[number - 1] for number in shown), tuple(skipped))
