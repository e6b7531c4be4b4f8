"""The kernel of a sweep as its file keeps it: where it is defined, and its source, which is shown
before it runs, and runs with the user's consent.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab import errors, triton_api
from kernellab.common.consent import request_consent, trust
from kernellab.common.saved_files import Line
from kernellab.errors import ArchiveError, visible


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
    """A module's text with the kernel, its helpers and constants."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """The texts of the other modules that it imports, by name."""
    missing: tuple[str, ...] = ()
    """What the texts use but do not define, because it is not a kernel, number or text:
    "mylib.table"."""

    @property
    def is_whole(self) -> bool:
        """Whether the text alone makes the kernel."""
        return not self.missing

    @property
    def place(self) -> str:
        """ "benchmarks/kernels.py, line 21"."""
        return f"{self.file or 'no file'}, line {self.line}"

    @property
    def readable(self) -> str:
        """All text that `kernel_again` runs, with other modules under their names, and with
        invisible and bidirectional characters as escapes.
        """
        others = (f"\n\n# The module {name}:\n\n{text}" for name, text in self.modules.items())
        return visible("".join([self.text, *others]))

    def excerpt(self, most: int) -> str:
        """Return the first `most` characters of `readable`, and how many are left out."""
        text = self.readable
        left = len(text) - most
        if left <= 0:
            return text
        return f"{text[:most]}\n... and {left:,} more characters: print(tuning.source.readable)"

    def kernel_again(self) -> Any:
        """Run the text, and return the kernel that it defines.

        Raises:
            ArchiveError: the text is incomplete, or does not define the kernel here.
            KeyboardInterrupt: Ctrl-C was pressed while it ran.
        """
        if self.missing:
            raise ArchiveError(
                f"The source of {self.kernel!r} that the sweep was saved with is missing "
                f"{', '.join(self.missing)}, so it does not define the kernel.",
                advice=how_to_open(self.kernel, self),
            )
        try:
            return triton_api.kernel_of_text(self.text, self.kernel, self.modules)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the source may raise anything, SystemExit too
            raise ArchiveError(
                f"The source of {self.kernel!r} that the sweep was saved with does not define the "
                f"kernel here: {type(error).__name__}: {error}.",
                advice=f"Pass the kernel itself, from {self.place}.",
            ) from error


_CELL = "a notebook's cell"


def source_of(kernel: Any, values: Iterable[Any] = ()) -> KernelSource | None:
    """Return the source of a JIT function; None if it cannot be read.

    Args:
        kernel: a JIT function.
        values: the values of its constants; functions among them become part of the source.
    """
    functions = {id(value): value for value in values if isinstance(value, triton_api.JITFunction)}
    try:
        standalone = triton_api.standalone_text(kernel, list(functions.values()))
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
        standalone.text,
        standalone.modules,
        standalone.missing,
    )


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
    give = f"tuning.with_kernel({kernel}){then}"
    if source is None:
        return (
            "The file does not contain the kernel's source, as an earlier version saved it; "
            f"{give} opens every config."
        )
    imported = f"from {source.module} import {kernel}; " if source.module else ""
    itself = f"the kernel of {source.place}: {imported}{give}."
    if source.is_whole:
        return (
            f"If you trust the file, tuning.with_kernel(){then} opens every config: it runs the "
            f"source in the file, after a question in a notebook. Or pass {itself}"
        )
    return (
        f"Pass {itself} The file contains its source, but not what the source uses from elsewhere: "
        f"{', '.join(source.missing)}."
    )


def differs(left: KernelSource | None, right: KernelSource | None) -> bool:
    """Whether both sources are known and define something differently, except for comments,
    docstrings and places.
    """
    if left is None or right is None or (left.text, left.modules) == (right.text, right.modules):
        return False
    try:
        first, second = _definitions(left), _definitions(right)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # A damaged file.
        return True
    # If two modules define the same name, one side may know only one of them.
    shared = first.keys() & second.keys()
    return any(not (first[n] <= second[n] or second[n] <= first[n]) for n in shared)


def _definitions(source: KernelSource) -> dict[str, set[str]]:
    """Map each name that the texts define to its statements in all modules, without comments and
    docstrings.
    """
    definitions: dict[str, set[str]] = {}
    for text in (source.text, *source.modules.values()):
        for name, statement in _statements(text):
            definitions.setdefault(name, set()).add(statement)
    return definitions


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a module's text defines, each with its statement."""
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name, body=[first, *rest]):
                if rest and ast.get_docstring(node) is not None:
                    node.body.remove(first)
                yield name, ast.unparse(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, ast.unparse(node)


def trust_source(source: KernelSource) -> None:
    """Let a source run in this process, without a question."""
    trust(*_texts(source))


def agree_to_run(source: KernelSource) -> None:
    """Request consent to run a source, once per source.

    Raises:
        ArgumentError: the answer was no, or no one can answer here.
    """
    request_consent(
        _texts(source),
        source.readable,
        name=source.kernel,
        call="tuning.with_kernel()",
        trusting="If you trust the file, write with_kernel(run_source=True), or "
        "kernellab.load(path, trust=True).",
        otherwise=how_to_open(source.kernel, source),
    )


def _texts(source: KernelSource) -> tuple[str, ...]:
    return source.text, repr(sorted(source.modules.items()))
