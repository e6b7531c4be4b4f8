"""Run the tests with every supported pair of torch and Triton:
python -m tools.torch_versions [TORCH ...] [-- PYTEST ARGUMENT ...]

TORCH is a version such as 2.11; without one, all run that `TRITON_FOR_TORCH` of `cli/doctor.py`
has. Each pair has an environment in .versions/, which is made once and again when pyproject.toml
or constraints.txt changes. pip chooses the build of torch as it does for `make install TORCH=...`:
with CUDA's packages an environment takes 10 GB, without them 2 GB. Each run has a fresh cache of
Triton's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kernellab.cli.doctor import TRITON_FOR_TORCH
from tools import torch_index

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".versions"
INPUTS = ROOT / "pyproject.toml", ROOT / "constraints.txt"

OWN_PINS = re.compile(r"^(torch|triton|setuptools)==")
"""Constraints that each version of torch has its own of."""

TESTS = ("-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "-m", "not slow")
"""pytest's arguments where none are given: those of `make test`."""


def python_of(torch: str) -> Path:
    """The Python of a version's environment; makes the environment where there is none."""
    folder = FOLDER / f"torch-{torch}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if stamp.exists() and all(stamp.stat().st_mtime >= file.stat().st_mtime for file in INPUTS):
        return python
    triton = TRITON_FOR_TORCH[torch]
    print(
        f"installing torch {torch} and Triton {triton} into {folder.relative_to(ROOT)}", flush=True
    )
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pins = [line for line in INPUTS[1].read_text().splitlines() if not OWN_PINS.match(line)]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    index = torch_index.arguments(os.environ.get("TORCH", "cpu")).split()
    packages = [f"torch=={torch}.*", f"triton=={triton}.*", "-e", f"{ROOT}[test]"]
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "-c", constraints]
    subprocess.run([*install, *index, *packages], check=True)
    stamp.touch()
    return python


def run_tests(torch: str, arguments: list[str]) -> tuple[int, str]:
    """pytest's exit status, and the last line that it printed."""
    python = python_of(torch)
    with tempfile.TemporaryDirectory(prefix="kernellab-versions-") as cache:
        process = subprocess.Popen(
            [python, "-m", "pytest", *(arguments or TESTS)],
            env={**os.environ, "TRITON_CACHE_DIR": cache, "VIRTUAL_ENV": str(python.parents[1])},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
        return process.wait(), last


def main(words: list[str]) -> int:
    """Run the tests with each version; return 1 where one fails."""
    at = words.index("--") if "--" in words else len(words)
    versions, arguments = words[:at] or list(TRITON_FOR_TORCH), words[at + 1 :]
    unknown = [version for version in versions if version not in TRITON_FOR_TORCH]
    if unknown:
        raise SystemExit(f"TORCH must be one of {', '.join(TRITON_FOR_TORCH)}, got {unknown[0]!r}.")
    outcomes = {}
    for torch in versions:
        print(f"\n=== torch {torch} with Triton {TRITON_FOR_TORCH[torch]}", flush=True)
        started = time.monotonic()
        try:
            status, last = run_tests(torch, arguments)
        except subprocess.CalledProcessError as error:
            status, last = error.returncode, "pip could not install it"
        outcomes[torch] = status, f"{last.strip('= ')} ({time.monotonic() - started:.0f} s)"
    print()
    for torch, (status, last) in outcomes.items():
        pair = f"torch {torch} with Triton {TRITON_FOR_TORCH[torch]}"
        print(f"{pair}: {'passed' if status == 0 else 'FAILED'}: {last}")
    return int(any(status for status, _ in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
