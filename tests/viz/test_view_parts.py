"""Every view is a folder with the same parts, and each part is found by the class of its record."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.source_files import ROOT, imports_of, module_name, tree_of

VIEWS = ROOT / "kernellab/viz"
FOLDERS = sorted(one.parent for one in VIEWS.glob("*/__init__.py") if one.parent.name != "kit")
DISPATCH = {"card.py": "card_of", "view.py": "view_of", "figure.py": "figure_of"}
"""A part -> the function of the kit that its functions are registered with."""


def registered(file: Path) -> set[str]:
    """The functions of the kit that functions of this file are registered with."""
    return {
        ast.unparse(decorator).removesuffix(".register")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator) in {f"{name}.register" for name in DISPATCH.values()}
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda one: one.name)
def test_a_view_has_parts_of_the_names_that_all_have(folder: Path) -> None:
    assert {one.name for one in folder.glob("*.py")} & set(DISPATCH)
    for file in folder.glob("*.py"):
        assert registered(file) <= {DISPATCH.get(file.name)}, f"{file} has another part's functions"


def test_the_kit_has_the_base_of_each_part_under_its_name() -> None:
    assert {"data.py", *DISPATCH} <= {one.name for one in (VIEWS / "kit").glob("*.py")}
    for part, name in DISPATCH.items():
        body = tree_of(VIEWS / "kit" / part).body
        assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_one_file_imports_whatever_is_registered() -> None:
    imported = {found.module for found in imports_of(VIEWS / "showing.py")}
    for folder in FOLDERS:
        for part in DISPATCH:
            if (folder / part).exists() and registered(folder / part):
                name = module_name(folder / part)
                assert name in imported, f"viz/showing.py does not import {name}"
