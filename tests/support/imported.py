"""Modules that a test writes."""

import importlib.util
import linecache
from pathlib import Path
from types import ModuleType
from typing import Any


def imported(file: Path, text: str | None = None) -> ModuleType:
    """Import a file, anew each time; with a text, after it was written there."""
    if text is not None:
        file.write_text(text)
    linecache.checkcache(str(file))
    spec: Any = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # noqa: S102 - no stale .pyc
    return module
