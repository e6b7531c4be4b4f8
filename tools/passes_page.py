"""Write docs/passes.md from the table of notes: python tools/passes_page.py."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "passes.md"

_INTRODUCTION = """# Passes

What each pass of Triton's pipelines does, and what to look for in the IR before and after it. `compilation.passes` lists those that ran for your kernel and target, in order; the names are Triton's own (`add_coalesce` is `coalesce`).

This page is made from `kernellab/compiler/passes/pass_notes.py` by `python tools/passes_page.py`; edit the notes there.
"""


def page() -> str:
    """The page's text."""
    from kernellab.compiler.passes.pass_notes import PASS_NOTES, TOPICS

    parts = [_INTRODUCTION]
    for topic in TOPICS:
        notes = [note for note in PASS_NOTES.values() if note.topic == topic]
        parts.append(f"## {topic}\n")
        parts += [f"**`{note.name}`.** {note.text}\n" for note in notes]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(ROOT)}")
