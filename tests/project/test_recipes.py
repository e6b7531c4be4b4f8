"""The recipes of docs/contributing: each works when it is followed in a copy of the package, and
changes as few files of code as its page says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.recipes import RECIPES, Recipe
from tests.support.python_processes import python_path
from tests.support.source_files import ROOT


def section(heading: str) -> str:
    """Return the section of docs/contributing that has this heading."""
    pages = (page.read_text() for page in (ROOT / "docs/contributing").glob("*.md"))
    (text,) = (page for page in pages if f"## {heading}\n" in page)
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def promised(heading: str) -> list[str]:
    """The files of code that a section names: "`kernellab/viz/NAME.py`"."""
    (line,) = re.findall(r"^Files of code: (.*)$", section(heading), re.MULTILINE)
    return re.findall(r"`([^`]+)`", line)


def files_of_code(recipe: Recipe) -> list[str]:
    """What the example writes, the empty markers of packages left out."""
    return [
        file
        for file, text in recipe.edits.items()
        if not (file.endswith("__init__.py") and isinstance(text, str) and text.count("\n") < 2)
    ]


def follow(recipe: Recipe, copy: Path) -> None:
    """Do in a copy of the repository what the recipe says."""
    skipped = shutil.ignore_patterns("__pycache__", "node_modules", "static")
    for folder in ("kernellab", "tools", "js/src"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=skipped)
    (copy / "kernellab/viz/static").symlink_to(ROOT / "kernellab/viz/static")
    for name, edit in recipe.edits.items():
        file = copy / name
        if isinstance(edit, str):
            assert not file.exists(), f"{name} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(edit)
            continue
        text = file.read_text()
        for insert in edit:
            assert text.count(insert.after) == 1, f"{name} has {insert.after!r} not once"
            text = text.replace(insert.after, insert.after + insert.text)
        file.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.heading)
def test_an_example_of_each_recipe_works(recipe: Recipe, tmp_path: Path) -> None:
    follow(recipe, tmp_path)
    proof = tmp_path / "proof.py"
    proof.write_text(recipe.proof)
    ran = subprocess.run(
        [sys.executable, str(proof)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path(tmp_path)},
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.heading)
def test_a_recipe_names_its_files_and_they_are_few(recipe: Recipe) -> None:
    files, named = files_of_code(recipe), promised(recipe.heading)
    assert len(files) <= recipe.most
    patterns = [re.sub(r"[A-Z]{2,}", r"\\w+", re.escape(name)) for name in named]
    assert len(files) == len(named), (files, named)
    for file in files:
        assert any(re.fullmatch(pattern, file) for pattern in patterns), f"{file}: {named}"


TRY_ALL = """
import json, sys

held = []
for heading, proof in json.load(sys.stdin).items():
    try:
        exec(compile(proof, heading, "exec"), {"__name__": "__main__", "__file__": heading})
        held.append(heading)
    except BaseException:  # whatever says that it does not hold
        pass
sys.exit(f"held without their files: {held}" if held else 0)
"""


@pytest.mark.slow
def test_an_example_fails_without_its_files() -> None:
    """The proofs prove something: nothing of them holds in the package as it is."""
    ran = subprocess.run(
        [sys.executable, "-c", TRY_ALL],
        input=json.dumps({recipe.heading: recipe.proof for recipe in RECIPES}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
