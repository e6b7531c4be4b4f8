"""The kernel of a sweep as its file keeps it: where it is defined, and its text, which is there to
be read and compared. Nothing runs it.
"""

from __future__ import annotations

import ast
import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab import errors, triton_api
from kernellab.common.saved_files import Line
from kernellab.common.text import shown


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel was defined when it was swept, and its text."""

    kernel: str
    module: str
    """The module to import it from; "" for a notebook's cell, a script, or a nested function."""
    file: str
    """The path relative to where its module is imported from; "a notebook's cell"; or "" without a
    file."""
    line: Line
    """The line of its `def`."""
    text: str
    """The constants that it reads, its helpers, and the kernel."""

    @property
    def place(self) -> str:
        """ "benchmarks/kernels.py, line 21"."""
        return f"{self.file or 'no file'}, line {self.line}"


_CELL = "a notebook's cell"


def source_of(kernel: Any, values: Iterable[Any] = ()) -> KernelSource | None:
    """Return the source of a JIT function; None if it cannot be read.

    Args:
        kernel: a JIT function.
        values: the values of its constants; functions among them become part of the text.
    """
    functions = dict.fromkeys([kernel, *triton_api.functions_within(values)])
    try:
        text = _text_of(functions)
        position = triton_api.definition_of(kernel)
    except (OSError, SyntaxError, TypeError):  # A function without text.
        return None
    module, name = str(kernel.fn.__module__), str(kernel.fn.__name__)
    importable = kernel.fn.__qualname__ == name and module != "__main__"
    file = _relative(position.file, module)
    return KernelSource(
        name,
        module if importable and file not in ("", _CELL) else "",
        file,
        position.line,
        text,
    )


def _text_of(functions: Iterable[Any]) -> str:
    constants: dict[str, str] = {}
    sources: dict[str, None] = {}
    for function in functions:
        made = triton_api.made_of(function)
        for name, _, _, value in made.constants:
            constants[name] = f"{name} = {_written(value)}"
        sources |= {textwrap.dedent(source).rstrip(): None for _, source in made.functions}
    head = ["\n".join(constants[name] for name in sorted(constants))] if constants else []
    return "\n\n\n".join([*head, *reversed(sources)]) + "\n"


def _written(value: Any) -> str:
    text = shown(value)
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return repr(type(value).__name__)
    return text


def _relative(file: str, module: str) -> str:
    """Return a path relative to where its module is imported from, which other machines share."""
    if errors.label_file(file) is not None:
        return _CELL
    if not os.path.exists(file):
        return ""
    path = Path(file)
    depth = 1 if module == "__main__" else len(module.split("."))
    return "/".join(path.parts[-depth - (path.stem == "__init__") :])


def how_to_open(kernel: str, source: KernelSource | None, then: str = "") -> str:
    """Return advice on how to open the configs of a sweep from a file.

    Args:
        kernel: the kernel's name.
        source: the source in the file, if any.
        then: what the user calls next, such as ".show()".
    """
    place = "" if source is None else f", the one of {source.place}"
    imported = f"from {source.module} import {kernel}; " if source and source.module else ""
    return f"Pass the kernel{place}: {imported}tuning.with_kernel({kernel}){then}."


def differs(left: KernelSource | None, right: KernelSource | None) -> bool:
    """Whether both sources are known and define something differently, except for comments,
    docstrings and places.
    """
    if left is None or right is None or left.text == right.text:
        return False
    try:
        return _statements(left.text) != _statements(right.text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # A damaged file.
        return True


def _statements(text: str) -> set[str]:
    """Return the statements of a text without comments and docstrings."""
    statements = set()
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(body=[first, _, *_]) if ast.get_docstring(node) is not None:
                node.body.remove(first)
        statements.add(ast.unparse(node))
    return statements
