"""Triton's own test files on KernelLab's interpreter:
passed, failed and skipped, against a list of known deviations.

    git clone https://github.com/triton-lang/triton --branch v3.7.1 ../triton
    python -m benchmarks.conformance --triton-src ../triton

Three modes. "interpreter" runs what upstream's `make test-interpret` runs, and two files more.
"gpu" runs the same files without asking for the mark, as if a CUDA device were there. "null" is the
control: as "interpreter", and no kernel is executed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas
import triton

from benchmarks.conformance_results import (
    Outcome,
    Verdict,
    counts_by_file,
    grouped,
    judge,
    read_deviations,
    read_outcomes,
)
from benchmarks.harness import ONE_THREAD, ROOT, markdown_table, print_report

DEVIATIONS = ROOT / "benchmarks/data/conformance_deviations.toml"

FILES = (
    "cuda",
    "language/test_core.py",
    "language/test_standard.py",
    "language/test_random.py",
    "language/test_block_pointer.py",
    "language/test_subprocess.py",
    "language/test_line_info.py",
    "language/test_tuple.py",
    "runtime/test_launch.py",
    "runtime/test_autotuner.py::test_kwargs[False]",
    "language/test_tensor_descriptor.py",
    "language/test_frontend.py",
)
"""Those of `test-interpret` in upstream's Makefile, but for the tutorial of attention,
and two more at the end."""


@dataclass(frozen=True)
class Mode:
    """One way of running the files."""

    name: str
    device: str
    """What the test files are told to put their tensors on."""
    arguments: tuple[str, ...] = ()


MODES = {
    mode.name: mode
    for mode in (
        Mode("interpreter", "cpu", ("-m", "interpreter")),
        Mode("gpu", "cuda"),
        Mode("null", "cpu", ("-m", "interpreter")),
    )
}


def run_tests(
    tests: Path,
    mode: Mode,
    results: Path,
    *,
    files: Sequence[str] = FILES,
    sample: int = 1,
    workers: int = 2,
    pytest_arguments: Sequence[str] = (),
) -> list[Outcome]:
    """Run pytest in a process of its own, in the folder `tests`, and read what came of it.

    Args:
        tests: upstream's python/test/unit, or a folder like it.
        mode: how to run them.
        results: a file for the outcomes; what is in it already is lost.
        files: files, folders and tests in that folder.
        sample: run one test in this many, the same ones each time.
        workers: processes that run them.
        pytest_arguments: further arguments for pytest, such as -k.

    Raises:
        RuntimeError: pytest came to no end; its last words.
    """
    command = [
        sys.executable, "-m", "pytest", *files, *mode.arguments, f"--device={mode.device}",
        "-p", "benchmarks.conformance_plugin", f"--kernellab-mode={mode.name}",
        f"--kernellab-results={results}", f"--kernellab-sample={sample}",
        "-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:nbval",
        "-n", str(workers), "--tb=short", "-q", "--disable-warnings", *pytest_arguments,
    ]  # fmt: skip
    path = [str(ROOT), str(ROOT / "benchmarks/conformance_child"), os.environ.get("PYTHONPATH", "")]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "TRITON_INTERPRET" and not name.startswith("PYTEST_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    environment |= ONE_THREAD  # the workers share the cores already
    with tempfile.TemporaryDirectory(prefix="kernellab-") as cache:
        environment["TRITON_CACHE_DIR"] = cache
        done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
    ended, some_failed, nothing_selected = 0, 1, 5
    if done.returncode not in (ended, some_failed, nothing_selected):
        raise RuntimeError(
            f"pytest ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return read_outcomes(results)


def unit_tests_of(triton_source: Path) -> Path:
    """The folder of the unit tests in a checkout of Triton.

    Raises:
        SystemExit: it is not there, or the checkout is of another version than the
            installed Triton.
    """
    tests = triton_source / "python/test/unit"
    if not (tests / "language/test_core.py").is_file():
        raise SystemExit(
            f"{triton_source} is no checkout of Triton: it has no "
            "python/test/unit/language/test_core.py"
        )
    version = triton_source / "python/triton/__init__.py"
    if version.is_file() and f"'{triton.__version__}'" not in version.read_text():
        raise SystemExit(
            f"{triton_source} is not of version {triton.__version__}, which is installed: other "
            "tests, other answers"
        )
    return tests.resolve()


def print_verdict(verdict: Verdict, minutes: float) -> None:
    """The report of one mode, as docs/conformance.md holds it."""
    print_report(
        f"Mode {verdict.mode}",
        counts_by_file(verdict),
        f"{100 * verdict.share:.1f} % of what is not skipped passes; {minutes:.0f} minutes.",
    )
    for title, outcomes in (
        ("Failures", verdict.failed),
        ("Skipped, in the words of the test files", verdict.skipped),
    ):
        rows = [
            {"reason": reason, "tests": len(group), "the first": group[0].test}
            for reason, group in grouped(outcomes)
        ]
        if rows:
            print(f"#### {title}\n\n{markdown_table(pandas.DataFrame(rows))}\n")
    for deviation in verdict.unneeded:
        print(f"Known deviation that did not show: {deviation.tests}\n")


def main() -> None:
    """Print a report for each mode; exit with 1 where a test fails that no known
    deviation explains.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--triton-src",
        type=Path,
        required=True,
        metavar="DIR",
        help="a checkout of the installed version of Triton",
    )
    parser.add_argument(
        "--mode", choices=MODES, action="append", help="may be repeated; all three where not given"
    )
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="run one test in N")
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="processes that run tests"
    )
    parser.add_argument("-k", metavar="EXPRESSION", help="as pytest's")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="keep every test's outcome there, one file of JSON lines for each mode",
    )
    arguments = parser.parse_args()
    tests, deviations = unit_tests_of(arguments.triton_src), read_deviations(DEVIATIONS)
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder:
        results = arguments.results or Path(folder)
        results.mkdir(parents=True, exist_ok=True)
        for name in arguments.mode or MODES:
            started = time.perf_counter()
            outcomes = run_tests(
                tests,
                MODES[name],
                (results / f"{name}.jsonl").resolve(),
                sample=arguments.sample,
                workers=arguments.workers,
                pytest_arguments=["-k", arguments.k] if arguments.k else [],
            )
            verdicts.append(judge(outcomes, deviations, name))
            print_verdict(verdicts[-1], (time.perf_counter() - started) / 60)
    raise SystemExit(1 if any(one.failed for one in verdicts if one.mode != "null") else 0)


if __name__ == "__main__":
    main()
