"""Each card, view and figure is found by the class of its record; only figures load matplotlib."""

import ast
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, imports_of, module_name, tree_of

VIEWS = ROOT / "kernellab/viz"
FILES = sorted(VIEWS.glob("*.py"))
BASES = {"card_of": "view.py", "view_of": "view.py", "figure_of": "figure.py"}
"""What functions are registered with -> its file in the kit."""


def registered(file: Path) -> set[str]:
    """The functions of the kit that functions of this file are registered with."""
    return {
        name
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        for name in BASES
        if ast.unparse(decorator).startswith(f"{name}.register")
    }


def loads_matplotlib(file: Path) -> bool:
    """Whether importing the file imports matplotlib."""
    return any(
        isinstance(node, ast.ImportFrom) and str(node.module).startswith("matplotlib")
        for node in tree_of(file).body
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_figures_are_in_separate_files(file: Path) -> None:
    is_figure = file.stem.endswith(("_figure", "_figures"))
    assert loads_matplotlib(file) == is_figure
    assert registered(file) <= ({"figure_of"} if is_figure else {"card_of", "view_of"})


def test_the_kit_has_what_functions_are_registered_with() -> None:
    for name, file in BASES.items():
        body = tree_of(VIEWS / "kit" / file).body
        assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_one_file_imports_whatever_is_registered() -> None:
    imported = {found.module for found in imports_of(VIEWS / "registry.py")}
    for file in FILES:
        if registered(file):
            assert module_name(file) in imported, f"viz/registry.py does not import {file.name}"
