"""`{course}`: the notebooks as a table, each with its goal and its time."""

from __future__ import annotations

import json
import re
from pathlib import Path

from markdown import MarkdownDirective
from sphinx.application import Sphinx


def first_words(notebook: Path) -> tuple[str, str, str]:
    """Title, goal and time, of a notebook's first cell."""
    cell = json.loads(notebook.read_text())["cells"][0]
    text = "".join(cell["source"])
    title = text.split("\n", 1)[0].lstrip("# ")
    said = dict(re.findall(r"\*\*(\w+)\.\*\* *(.*?)(?=\n\n|\n\*\*|\Z)", text, re.DOTALL))
    goal = " ".join(said.get("Goal", "").split()).removeprefix("At the end, you can ")
    return title, goal, said.get("Time", "").strip(" .\n")


class Course(MarkdownDirective):
    """The table."""

    def markdown(self) -> str:
        rows = []
        for notebook in sorted(Path(self.env.srcdir, "notebooks").glob("*.ipynb")):
            title, goal, time = first_words(notebook)
            rows.append(f"| [{title}](../notebooks/{notebook.name}) | {goal} | {time} |")
        return "\n".join(["| notebook | at the end, you can | time |", "|---|---|---|", *rows])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("course", Course)
    return {"parallel_read_safe": True}
