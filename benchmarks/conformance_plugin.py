"""A pytest plugin under which Triton's own test files meet KernelLab's interpreter;
`benchmarks.conformance` loads it.

Everything it replaces, it replaces in the process of that pytest alone. No test file is changed.
"""

from __future__ import annotations

import json
import os
import signal
import zlib
from pathlib import Path
from typing import Any

import triton

from benchmarks.conformance_modes import MODE_VARIABLE, enter, inside


def pytest_addoption(parser: Any) -> None:
    """How `benchmarks.conformance` says what it wants."""
    group = parser.getgroup("kernellab")
    group.addoption("--kernellab-mode", choices=("interpreter", "gpu", "null"))
    group.addoption("--kernellab-results", help="the file that gets a line of JSON for each test")
    group.addoption("--kernellab-sample", type=int, default=1, help="run one test in this many")
    group.addoption(
        "--kernellab-seconds", type=int, default=120, help="the most that a test may take"
    )


def pytest_configure(config: Any) -> None:
    """Enter the mode, before a test file is imported:
    some ask at their top what machine this is.
    """
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # of pytest-xdist: reports to who started it
    if not is_worker:
        config.pluginmanager.register(ResultsFile(config.getoption("--kernellab-results")))
    enter(config.getoption("--kernellab-mode"))


def pytest_unconfigure() -> None:
    """Leave it."""
    inside.close()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Take a sample of the tests, and give their files what `adapt` gives."""
    one_in = config.getoption("--kernellab-sample")
    items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % one_in == 0]
    for module in {item.module for item in items if hasattr(item, "module")}:
        adapt(module)


def adapt(module: Any) -> None:
    """Where a test file is written for Triton's interpreter itself,
    let it do as it does with the compiler.

    For that interpreter `patch_kernel` runs a changed source with `exec`,
    where no compiler finds it, and what a kernel does wrong raises an exception of its own.
    """
    if hasattr(module, "patch_kernel"):
        module.patch_kernel = patched_kernel
    if hasattr(module, "InterpreterError"):
        module.InterpreterError = triton.CompilationError


def patched_kernel(template: Any, to_replace: dict[str, str]) -> Any:
    """`template`, with parts of its source replaced."""
    kernel = triton.JITFunction(template.fn)
    for old, new in to_replace.items():
        kernel._unsafe_update_src(kernel.src.replace(old, new))
    return kernel


# No test goes on for ever


class TookTooLong(Exception):
    """A test ran for longer than `--kernellab-seconds`."""


def pytest_runtest_setup(item: Any) -> None:
    """Start the clock, and let the Pythons that the test starts know the mode."""
    os.environ[MODE_VARIABLE] = item.config.getoption("--kernellab-mode")
    seconds = item.config.getoption("--kernellab-seconds")

    def interrupt(*_: Any) -> None:
        raise TookTooLong(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)


def pytest_runtest_teardown() -> None:
    """Stop the clock."""
    signal.alarm(0)
    os.environ.pop(MODE_VARIABLE, None)  # it is not there where a mark has skipped the test


# What came of it


class ResultsFile:
    """One line of JSON for each test, written as it ends:
    what an interrupted run found is there.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.write_text("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what came of a test: of its call, and of what is before and after it
        where that is not well.
        """
        if report.when == "call" or report.outcome != "passed":
            self._write(report, report.duration)

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is a result too."""
        if report.outcome != "passed":
            self._write(report, 0.0)

    def _write(self, report: Any, seconds: float) -> None:
        result = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "reason": _reason(report),
            "seconds": round(seconds, 3),
        }
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def _reason(report: Any) -> str:
    if report.outcome == "passed":
        return ""
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}".rstrip(": ")
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longrepr) if crash is None else str(crash.message)
