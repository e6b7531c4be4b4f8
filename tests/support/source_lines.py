"""Lines of source, found by what they say."""

from pathlib import Path
from types import ModuleType
from typing import Any

from kernellab.errors import SourcePosition


def marked_line(module: ModuleType, mark: str) -> int:
    lines = Path(str(module.__file__)).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    assert len(found) == 1, f"{len(found)} lines are marked {mark!r}"
    return found[0]


def line_of(module: ModuleType, text: str, nth: int = 0) -> int:
    """The number of the nth line of a module's file that has this text."""
    lines = Path(str(module.__file__)).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line][nth]


def position_of(subject: Any) -> SourcePosition:
    """The position of an error, a fault of a trace, or a finding, which must have one."""
    assert isinstance(subject.position, SourcePosition)
    return subject.position
