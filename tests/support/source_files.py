"""The project's own Python files, read as syntax trees, for tests of its structure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernellab.common.system import without_collections

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    file: str
    """Path from the repository's root."""
    line: int
    module: str
    """Full name of the module: of `from kernellab import errors` it is kernellab.errors."""
    names: tuple[str, ...]
    """What is taken from it; () for the module itself."""
    for_types_only: bool
    """Whether it stands under `if TYPE_CHECKING`."""
    by_name: bool = False
    """Whether the module is named in a string, "kernellab.viz.kit.widget" say, to be imported."""

    def __str__(self) -> str:
        taken = f" ({', '.join(self.names)})" if self.names else ""
        return f"{self.file}:{self.line} imports {self.module}{taken}"


def python_files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


@cache
def tree_of(file: Path) -> ast.Module:
    with without_collections():  # else the nodes start several, which take most of the time
        return ast.parse(file.read_text(encoding="utf-8"), str(file))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def is_module(name: str) -> bool:
    """Whether the project has a module of that full name."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def imports_of(file: Path) -> Sequence[Import]:
    """Every import in the file, also inside functions, also by name."""
    return tuple(_imports_of(file))


def _imports_of(file: Path) -> Iterator[Import]:
    nodes = list(ast.walk(tree_of(file)))
    typing_only = {
        inner
        for node in nodes
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    where = str(file.relative_to(ROOT))
    for node in nodes:
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = module_named(node.value)
            if named is not None:
                yield Import(where, node.lineno, named, (), node in typing_only, by_name=True)


_DOTTED = re.compile(r"kernellab(\.\w+)+(:\w+)?")


def module_named(text: str) -> str | None:
    """The module that "module:function" or "module.Class" names, or None."""
    if not text.startswith("kernellab.") or not _DOTTED.fullmatch(text):
        return None
    name = text.partition(":")[0]
    while "." in name and not is_module(name):
        name = name.rpartition(".")[0]
    return name if "." in name else None


def circles(graph: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
    """Sets of nodes reached from each other: R. Tarjan's components, SIAM J. Comput. 1, 1972."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            place = stack.index(node)
            circle = frozenset(stack[place:])
            del stack[place:]
            if len(circle) > 1:
                found.append(circle)

    for node in graph:
        if node not in number:
            visit(node)
    return found
