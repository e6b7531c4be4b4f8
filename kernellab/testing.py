"""Kernels in tests: `assert_kernel`, and the plugin of pytest for `@pytest.mark.tile_kernel`.

Every run of pytest imports this module, so it imports the judge on the first use.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernellab.errors import KernelLabError

if TYPE_CHECKING:
    from kernellab.judging.records import Verdict


def assert_kernel(submission: Any, reference: Any, cases: Any, **options: Any) -> Verdict:
    """Assert that a kernel, or a function that launches kernels, is right.

    Args:
        submission, reference, cases, **options: as for `kernellab.judge`.

    Returns:
        The Verdict.

    Raises:
        AssertionError: the submission is not accepted; its text is the verdict, with the line, the
            first wrong element and the fix.
    """
    __tracebackhide__ = True
    from kernellab.judging.judge import judge

    verdict = judge(submission, reference, cases, **options)
    if not verdict:
        raise AssertionError(str(verdict))
    return verdict


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers",
        "tile_kernel(submission, cases=..., **options): the test is the reference of a kernel, "
        "which kernellab.judge judges",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:
    """Return the test of a function with the mark, whose parameters are not fixtures."""
    if not inspect.isfunction(obj) or not collector.istestfunction(obj, name):
        return None
    marks = list(getattr(obj, "pytestmark", ()))
    if not any(mark.name == "tile_kernel" for mark in marks):
        return None
    return _JudgedKernel.from_parent(collector, name=name, reference=obj, marks=marks)


class _JudgedKernel(pytest.Item):
    """Judges what the mark of a function names, with the function as the reference."""

    def __init__(self, *, reference: Any, marks: list[pytest.Mark], **options: Any) -> None:
        super().__init__(**options)
        self._reference = reference
        self.own_markers.extend(marks)
        self.keywords.update({mark.name: mark for mark in marks})

    def runtest(self) -> None:
        """Judge the submission; the file of one that is named is beside the test's."""
        mark = next(self.iter_markers("tile_kernel"))
        submission, *more = mark.args
        if isinstance(submission, str):
            submission = str(Path(self.path.parent, submission))
        assert_kernel(submission, self._reference, *more, **mark.kwargs)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the verdict or the message of an error; for other errors what pytest shows."""
        if excinfo.errisinstance((AssertionError, KernelLabError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the function."""
        return self.path, inspect.getsourcelines(self._reference)[1] - 1, self.name
