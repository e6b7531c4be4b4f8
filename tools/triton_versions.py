"""Run the compiler's tests and the corpus on several versions of Triton:
python tools/triton_versions.py [VERSION ...] [-- PYTEST ARGUMENT ...]

Each version is installed into a folder of its own (.triton/VERSION, once), which goes before the
environment's packages on Python's path: everything else stays the same, torch included, which is
used for tensors only. Each version gets a fresh cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".triton"

VERSIONS = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""The last release of each minor version that KernelLab supports."""

TESTS = (
    "tests/corpus",
    "tests/ir",
    "tests/interpreter",
    "tests/benchmarks/test_fidelity_outputs.py",
    *(f"tests/tuning/test_{name}.py" for name in ("autotuned", "spaces", "files")),
    "tests/compiler",
    "tests/launch",
    *(f"tests/profiling/test_{name}.py" for name in ("accesses", "shared_accesses", "tallying")),
    "tests/common/test_worker.py",
    "tests/records/test_layouts.py",
    "tests/tracing/test_trace.py",
)
"""What depends on Triton: recording, steering, maps, resources, analyses,
the corpus through all of them, the interpreter, its autotuner's wrapper."""


def folder_of(version: str) -> Path:
    """Where a version is installed; installs it there if it is not."""
    folder = FOLDER / version
    if not (folder / "triton" / "__init__.py").exists():
        print(f"installing Triton {version} into {folder.relative_to(ROOT)}", flush=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(folder),
            f"triton=={version}",
        ]
        subprocess.run(command, check=True)
    return folder


def run_tests(version: str, arguments: list[str]) -> tuple[int, str]:
    """pytest's exit status, and the last line that it printed."""
    with tempfile.TemporaryDirectory(prefix="kernellab-versions-") as cache:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(folder_of(version)), os.environ.get("PYTHONPATH", "")]
            ),
            "TRITON_CACHE_DIR": cache,
            # A version may warn once on import about a choice of its own; that is no finding here.
            "PYTHONWARNINGS": "ignore::UserWarning:triton",
        }
        check = "import triton, sys; sys.exit(triton.__version__ != sys.argv[1])"
        subprocess.run([sys.executable, "-c", check, version], env=environment, check=True)
        tests = [test for test in TESTS if (ROOT / test).exists()]
        command = [
            sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p",
            "no:cacheprovider",
        ]  # fmt: skip
        process = subprocess.Popen(
            [*command, *(arguments or tests)],
            env=environment,
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


def main() -> None:
    """Run all versions; exit with 1 where one fails."""
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    versions, arguments = given[:at] or list(VERSIONS), given[at + 1 :]
    outcomes = {}
    for version in versions:
        print(f"\n=== Triton {version}", flush=True)
        started = time.monotonic()
        status, last = run_tests(version, arguments)
        outcomes[version] = (status, f"{last.strip('= ')} ({time.monotonic() - started:.0f} s)")
    print()
    for version, (status, words) in outcomes.items():
        print(f"Triton {version}: {'passed' if status == 0 else 'FAILED'}: {words}")
    raise SystemExit(any(status for status, _ in outcomes.values()))


if __name__ == "__main__":
    main()
