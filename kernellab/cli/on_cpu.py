"""A pytest plugin: tests of GPU code run on the CPU. `kernellab test-on-cpu` loads it.

When it is imported, before the tests' own `conftest.py`, torch begins to report a GPU that does not
exist, and launches go to the interpreter. What happened is appended to a file, a line of JSON for
each event, since pytest-xdist's workers are separate processes.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from typing import Any

from kernellab.errors import KernelFault, KernelLabError
from kernellab.launch.dispatch import on_launch
from kernellab.launch.interception import interpreted

SETTINGS = "KERNELLAB_TEST_ON_CPU"
"""The environment variable with the target and the file that is appended to, as JSON."""

_launches: Counter[str] = Counter()


def _report(**event: Any) -> None:
    """Append one event; a line of this size is written as a whole."""
    with open(json.loads(os.environ[SETTINGS])["events"], "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _begin() -> None:
    target = json.loads(os.environ[SETTINGS])["target"]
    interpreted(target=target, answers="gpu").__enter__()
    on_launch(lambda launch: _launches.update([launch.kernel.__name__]))
    atexit.register(lambda: _report(launches=dict(_launches)))


def pytest_runtest_logreport(report: Any) -> None:
    """Note how a test ended, in the process that ran it."""
    if hasattr(report, "node"):  # the copy that pytest-xdist hands to the controller
        return
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _report(outcome="skipped", test=report.nodeid, reason=reason.removeprefix("Skipped: "))
    elif report.failed or report.when == "call":
        _report(outcome=report.outcome, test=report.nodeid)


def pytest_exception_interact(node: Any, call: Any) -> None:
    """Note an error of KernelLab's: the test that it ended, and the kernel's line."""
    error = call.excinfo.value
    while error is not None and not isinstance(error, KernelLabError):
        error = error.__cause__ or error.__context__
    if error is None:
        return
    place = getattr(error, "position", None)
    _report(
        error=type(error).__name__,
        is_fault=isinstance(error, KernelFault),
        what=str(error).partition("\n")[0],
        place=f"{place.file}:{place.line}" if place else "",
        test=node.nodeid,
    )


if SETTINGS in os.environ:
    _begin()
