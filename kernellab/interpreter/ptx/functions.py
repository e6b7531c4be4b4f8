"""The text of a whole PTX function: its instructions in order,
each with the line of the source that it comes from.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kernellab.interpreter.ptx.parser import COMMENT, Instruction, PtxError, declared, instruction


@dataclass(frozen=True)
class Statement:
    """One instruction of a function.

    Attributes:
        text: the statement, without the semicolon.
        line: of the source, as the last `.loc` before it says; 0 where none does.
        labels: those before it.
    """

    text: str
    line: int
    labels: tuple[str, ...] = ()

    @cached_property
    def instruction(self) -> Instruction:
        """The instruction taken apart.

        Raises:
            PtxError: it cannot be.
        """
        return instruction(self.text)


@dataclass(frozen=True)
class Function:
    """One function of a PTX module.

    Attributes:
        name: its symbol.
        is_entry: whether a launch starts it; other functions are called.
        threads: of a program, as `.reqntid` or `.maxntid` says; 0 where neither does.
        statements: its instructions.
        widths: of its registers, in bits.
    """

    name: str
    is_entry: bool
    threads: int
    statements: tuple[Statement, ...]
    widths: Mapping[str, int]

    @cached_property
    def loops(self) -> tuple[int, ...]:
        """How many loops are around each statement:
        a loop goes from a label to the last jump back there.
        """
        begins: dict[str, int] = {}
        ends: dict[int, int] = {}
        for place, statement in enumerate(self.statements):
            begins.update(dict.fromkeys(statement.labels, place))
            jump = _JUMP.search(statement.text)
            if jump is not None and jump[1] in begins:
                ends[begins[jump[1]]] = place
        changes = [0] * (len(self.statements) + 1)
        for begin, end in ends.items():
            changes[begin] += 1
            changes[end + 1] -= 1
        return tuple(itertools.accumulate(changes[:-1]))


_JUMP = re.compile(r"\bbra(?:\.uni)?\s+([\w$]+)")
_BEGINNING = re.compile(r"^\s*(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\b", re.MULTILINE)
_NAME = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_PLACE = re.compile(r"\.loc\s+\d+\s+(\d+)")
_BEFORE = re.compile(r"(?:[{}]|([\w$]+):(?!:))\s*")
"""A brace that only limits names, or a label."""


def functions(text: str) -> tuple[Function, ...]:
    """The functions that a PTX module has a body of."""
    plain = COMMENT.sub(" ", text)
    begins = [match.start() for match in _BEGINNING.finditer(plain)]
    pieces = [plain[start:end] for start, end in zip(begins, [*begins[1:], len(plain)])]
    return tuple(_function(piece) for piece in pieces if "{" in piece.partition(";")[0])


def _function(text: str) -> Function:
    head, _, rest = text.partition("{")
    body = rest[: _closing_brace(rest)]
    name, threads = _NAME.search(head), _THREADS.search(head)
    assert name is not None, "it begins with .entry or .func"
    sizes = [int(size) for size in threads.groups() if size] if threads else [0]
    widths: dict[str, int] = {}
    statements = []
    for statement in _statements(body):
        if statement.text.startswith("."):
            widths.update(_widths(statement.text))
        else:
            statements.append(statement)
    return Function(name[1], ".entry" in head, math.prod(sizes), tuple(statements), widths)


def _closing_brace(text: str) -> int:
    """Return the position of the brace that closes one before the text."""
    depth = 1
    for match in re.finditer(r"[{}]", text):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return len(text)


def _statements(body: str) -> Iterator[Statement]:
    """Yield the statements between semicolons without places and labels; declarations too."""
    line, labels = 0, list[str]()
    for piece in body.split(";"):
        for match in _PLACE.finditer(piece):
            line = int(match[1])
        words = [line for line in piece.splitlines() if not _PLACE.match(line.strip())]
        statement = " ".join(words).strip()
        while before := _BEFORE.match(statement):
            statement = statement[before.end() :]
            labels += [before[1]] if before[1] else []
        if statement:
            yield Statement(statement, line, tuple(labels))
            labels = []


def _widths(statement: str) -> Mapping[str, int]:
    if not statement.startswith(".reg"):
        return {}
    try:
        return declared(statement)
    except PtxError:  # a type that no instruction here computes with, such as .b128
        return {}
