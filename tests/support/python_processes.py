"""Python in another process."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def has_ended(process: int, seconds: float = 60) -> bool:
    """Return whether a process ends within a time."""
    deadline = time.monotonic() + seconds
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(process)


def run_python(
    code: str,
    *arguments: str,
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run code that imports this checkout, with more variables; options are `subprocess.run`'s."""
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": python_path(Path(__file__).parents[2]), **(env or {})},
        **{"capture_output": True, "text": True, "check": False, "timeout": 280, **options},
    )
