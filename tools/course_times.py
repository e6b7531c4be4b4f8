"""How much of a machine's time each notebook of the course takes: python tools/course_times.py.

Each is executed from top to bottom, in a copy of notebooks/, by a process of its own; told is the
user and system time of all that it started, which does not depend on who else works there.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COURSE = Path(__file__).resolve().parent.parent / "notebooks"


def seconds_of_children() -> float:
    """User and system time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(names: list[str]) -> None:
    """Measure the notebooks of these names, or all, and print a row for each."""
    with tempfile.TemporaryDirectory(prefix="kernellab-course-") as folder:
        copy = shutil.copytree(COURSE, Path(folder) / "notebooks")
        for file in sorted(copy.glob("*.ipynb")):
            if names and not file.name.startswith(tuple(names)):
                continue
            before = seconds_of_children()
            command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook"]
            done = subprocess.run(
                [*command, "--execute", "--output", f"done_{file.name}", file],
                capture_output=True,
                text=True,
                check=False,
            )
            took = seconds_of_children() - before
            state = "" if done.returncode == 0 else f" (failed: {done.stderr.splitlines()[-1:]})"
            print(f"{file.stem}: {took:.0f} s{state}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
