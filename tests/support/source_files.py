"""The project's own Python files, read as syntax trees, for tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """One name that a file imports."""

    file: str
    """Path from the repository's root."""
    line: int
    module: str
    """Full name of the module: of `from kernellab import errors` it is kernellab.errors."""
    names: tuple[str, ...]
    """What is taken from it; () for the module itself."""
    for_types_only: bool
    """Whether it stands under `if TYPE_CHECKING`."""

    def __str__(self) -> str:
        taken = f" ({', '.join(self.names)})" if self.names else ""
        return f"{self.file}:{self.line} imports {self.module}{taken}"


def python_files(*folders: str) -> list[Path]:
    """Every Python file under these folders of the repository, sorted."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def tree_of(file: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def module_name(file: Path) -> str:
    """ "kernellab.viz.kernels.card" for kernellab/viz/kernels/card.py,
    "kernellab.viz" for kernellab/viz/__init__.py.
    """
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    """Whether the project has a module of that full name."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imports_of(file: Path) -> Iterator[Import]:
    """Every import in the file, also inside functions."""
    tree = tree_of(file)
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    where = str(file.relative_to(ROOT))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(where, node.lineno, alias.name, (), node in typing_only)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where}:{node.lineno}: imports are absolute here"
            names = [alias.name for alias in node.names]
            modules = [name for name in names if is_module(f"{node.module}.{name}")]
            for name in modules:
                yield Import(where, node.lineno, f"{node.module}.{name}", (), node in typing_only)
            rest = tuple(name for name in names if name not in modules)
            if rest:
                yield Import(where, node.lineno, str(node.module), rest, node in typing_only)
