"""Lines of source that a comment marks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType


def marked_line(module: ModuleType, mark: str) -> int:
    """The line of `module` that ends with `# MARK`, which must be one."""
    assert module.__file__ is not None
    lines = Path(module.__file__).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    assert len(found) == 1, f"{len(found)} lines are marked {mark!r}"
    return found[0]
