"""The kernel of a sweep as its file keeps it: where it stands, and its source."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernellab import errors, triton_api
from kernellab.common.formatting import visible
from kernellab.common.saved_json import SavedData
from kernellab.errors import ArchiveError


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel stood when it was swept, and its text."""

    kernel: str
    module: str
    """That it can be imported from; "" of a notebook's cell, a script,
    or a function inside another."""
    file: str
    """Relative to where its module is imported from; "a notebook's cell";
    "" where it stands in no file."""
    line: int
    """Of its `def`."""
    text: str
    """A module's text with the kernel, its helpers and constants."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """The texts of the other modules that it imports, by name."""
    missing: tuple[str, ...] = ()
    """What the texts use and do not hold, as it is no kernel, number or text: "mylib.table"."""

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
        """All that `kernel_again` runs, to be read: texts of other modules under their names, and
        what shows nothing, or turns lines around, as escapes.
        """
        others = (f"\n\n# The module {name}:\n\n{text}" for name, text in self.modules.items())
        return visible("".join([self.text, *others]))

    def excerpt(self, most: int) -> str:
        """`readable`, as far as so many characters; what is left out is said."""
        text = self.readable
        left = len(text) - most
        if left <= 0:
            return text
        return f"{text[:most]}\n... and {left:,} more characters: print(tuning.source.readable)"

    def kernel_again(self) -> Any:
        """The kernel, made from the text, which is run for that.

        Raises:
            ArchiveError: the text is not whole, or gives no such kernel here.
            KeyboardInterrupt: Ctrl-C came while it ran.
        """
        if self.missing:
            raise ArchiveError(
                f"The source of {self.kernel!r} that the sweep was saved with lacks "
                f"{', '.join(self.missing)}, so it makes no kernel.",
                advice=how_to_open(self.kernel, self),
            )
        try:
            return triton_api.kernel_of_text(self.text, self.kernel, self.modules)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ArchiveError(
                f"The source of {self.kernel!r} that the sweep was saved with makes no kernel "
                f"here: {type(error).__name__}: {error}.",
                advice=f"Give the kernel itself, that of {self.place}.",
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> KernelSource:
        """What `to_json` made; raises ValueError or Misfit where it is none."""
        saved = SavedData(data, "source")
        texts = {name: saved[name].text() for name in ("kernel", "module", "file", "text")}
        missing = tuple(one.text() for one in saved["missing"].items())
        # Files of earlier versions have no modules.
        modules = data.get("modules", {})
        if not isinstance(modules, dict) or not all(
            isinstance(one, str) for one in modules.values()
        ):
            raise ValueError("the modules of the kernel's source should be texts by name")
        line = saved["line"].integer(0, 2_000_000)
        return cls(line=line, modules=modules, missing=missing, **texts)


_CELL = "a notebook's cell"


def source_of(kernel: Any, values: Iterable[Any] = ()) -> KernelSource | None:
    """The source of a JIT function; None where that cannot be read.

    Args:
        kernel: a JIT function.
        values: of its constants: functions among them belong to the source.
    """
    functions = {id(one): one for one in values if isinstance(one, triton_api.JITFunction)}
    try:
        standalone = triton_api.standalone_text(kernel, list(functions.values()))
        position = triton_api.definition_of(kernel)
    except (OSError, SyntaxError, TypeError):  # A function that came with no text.
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
    """A file from where its module is imported: no path of the machine is of use elsewhere."""
    if errors.label_file(file) is not None:
        return _CELL
    if not os.path.exists(file):
        return ""
    path = Path(file)
    depth = 1 if module == "__main__" else len(module.split("."))
    return "/".join(path.parts[-depth - (path.stem == "__init__") :])


def how_to_open(kernel: str, source: KernelSource | None, then: str = "") -> str:
    """What to do so that a sweep from a file opens its configs, in sentences;
    `then` is what is done with it: ".show()".
    """
    give = f"tuning.with_kernel({kernel}){then}"
    if source is None:
        return (
            f"The file says nothing of the kernel's source, as those of earlier versions; {give} "
            "opens every config."
        )
    found = f"from {source.module} import {kernel}; " if source.module else ""
    itself = f"the kernel of {source.place}: {found}{give}."
    if source.is_whole:
        return (
            f"tuning.with_kernel(){then} opens every config: it runs the source that the file "
            f"holds, which a notebook asks about, so trust the file first. Or give {itself}"
        )
    return (
        f"Give {itself} The file holds its source, but not what that takes from elsewhere: "
        f"{', '.join(source.missing)}."
    )


def is_another(one: KernelSource | None, other: KernelSource | None) -> bool:
    """Whether two sources are known, and something that both define is not the same;
    comments, docstrings and places do not count.
    """
    if one is None or other is None or (one.text, one.modules) == (other.text, other.modules):
        return False
    try:
        left, right = _definitions(one), _definitions(other)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # A damaged file.
        return True
    # Of two modules that define one name, both may be known to one side only.
    return any(not (left[n] <= right[n] or right[n] <= left[n]) for n in left.keys() & right.keys())


def _definitions(source: KernelSource) -> dict[str, set[str]]:
    """What the texts define: name -> its statements, in whichever modules,
    without comments and docstrings.
    """
    found: dict[str, set[str]] = {}
    for text in (source.text, *source.modules.values()):
        for name, statement in _statements(text):
            found.setdefault(name, set()).add(statement)
    return found


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """The names that a module's text gives to something, and by what statement."""
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name, body=[first, *rest]):
                if rest and ast.get_docstring(node) is not None:
                    node.body.remove(first)
                yield name, ast.unparse(node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, ast.unparse(node)
