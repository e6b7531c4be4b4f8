"""Other people's code, as it is sent to the process that runs it."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class PackedKernel:
    """A kernel of this process, as `triton_api.shipping.pack` packs it."""

    content: bytes


@dataclass(frozen=True)
class Part:
    """A text of Python.

    Attributes:
        file: the name of the file that it runs as.
        text: the text.
        only_definitions: whether of the text only what `definitions` returns runs.
    """

    file: str
    text: str
    only_definitions: bool = False


@dataclass(frozen=True)
class Texts:
    """Texts of Python that run one after the other in one scope.

    Attributes:
        parts: the texts.
        name: the kernel's name in the scope.
    """

    parts: tuple[Part, ...]
    name: str


Code = PackedKernel | Texts


def definitions(text: str) -> list[ast.stmt]:
    """Return what a cell defines for the cells below it: imports, functions, classes, constants.
    Other statements, such as launches, are left out, and so is a cell that is not Python.
    """
    lines = text.split("\n")
    plain = ["" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines]
    try:
        body = ast.parse("\n".join(plain)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        statement
        for statement in body
        if isinstance(statement, _DEFINITIONS) or _is_constant(statement)
    ]


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_OF_CONSTANTS = ("constexpr", "float", "int")


def _is_constant(statement: ast.stmt) -> bool:
    """Return whether it assigns a value that is not computed: EPS: tl.constexpr = 1e-5."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    calls = [node.func for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
    return all(ast.unparse(name).rpartition(".")[2] in _OF_CONSTANTS for name in calls)
