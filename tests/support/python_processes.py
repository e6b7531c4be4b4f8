"""Python in another process."""

from __future__ import annotations

import os
from pathlib import Path

STRICT = (
    "-W", "error", "-X", "dev",
    "-W", "ignore:During parsing environment variable:ImportWarning",
)  # fmt: skip
"""Options with which every warning is an error. Not an error: NumPy's warning of a variable that
hides vector instructions that the machine does not have."""


def python_path(*folders: Path | str) -> str:
    """Return a PYTHONPATH with these folders before those of this process."""
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, folders), *([before] if before else [])])


def is_running(process: int) -> bool:
    """Return whether a process is there, and is no zombie."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
