"""Write a notebook of all solutions for teachers: python tools/solutions_notebook.py FILE.

Neither the wheel nor a student's folder has them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "tests" / "workshop" / "solutions.py"

_INTRODUCTION = """# Solutions

A right kernel within budget for each exercise of the workshop, for teachers. Run a cell, and it is
answered as a student's would be; `kernellab workshop check FOLDER` answers all of them.

`tools/solutions_notebook.py` makes this notebook of `tests/workshop/solutions.py`."""


def notebook() -> str:
    """The notebook's text."""
    from kernellab.workshop.course import FIRST_CELL, cell, notebook_text
    from kernellab.workshop.exercise import EXERCISES

    sources = dict(_sources(KERNELS.read_text()))
    cells = [cell("markdown", _INTRODUCTION), cell("code", FIRST_CELL)]
    helpers = sources.keys() - {one.name for one in EXERCISES}
    chapter = ""
    for one in EXERCISES:
        title = f"## {one.title}\n\n{one.task}"
        cells.append(cell("markdown", title if one.chapter == chapter else _chapter(one, title)))
        chapter = one.chapter
        functions = [
            node.name for node in ast.parse(one.stub).body if isinstance(node, ast.FunctionDef)
        ]
        above, _ = re.split("^@", one.stub, maxsplit=1, flags=re.MULTILINE)
        source = above.lstrip() + "\n\n\n".join(sources[name] for name in functions)
        helpers -= {*functions}
        for helper in sorted(name for name in helpers if f"{name}(" in source):
            cells.append(cell("code", sources[helper]))
            helpers -= {helper}
        cells.append(cell("code", f"%%tileexercise {one.name}\n{source}"))
        cells.append(cell("markdown", f"**Better.** {one.better}"))
    return notebook_text(cells)


def _chapter(exercise: Any, title: str) -> str:
    return f"# {exercise.chapter}\n\n{title}"


def _sources(text: str) -> Iterator[tuple[str, str]]:
    """The functions of a file, by name."""
    lines = text.splitlines()
    for one in ast.parse(text).body:
        if isinstance(one, ast.FunctionDef):
            first = min(one.lineno, *(each.lineno for each in one.decorator_list))
            own = [line.removesuffix("  # fmt: skip") for line in lines[first - 1 : one.end_lineno]]
            yield one.name, "\n".join(own)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    Path(sys.argv[1]).write_text(notebook())
