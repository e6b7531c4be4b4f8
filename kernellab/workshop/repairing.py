"""Look for the change that makes a student's kernel right, by trying changes on hidden launches.

The changed kernels compile where the student's own does, in the confined process, and run on the
interpreter. A change is reported only if the changed kernel passes the same checks as an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch

from kernellab.checker.fixes import Found, Tries, WrongTensor, fix_words, reading, search
from kernellab.checker.kernel_source import Source
from kernellab.checker.rewrites import Family
from kernellab.common.system import OutOfTime, limited
from kernellab.errors import Diagnostic, changes_between
from kernellab.judging.code import Code
from kernellab.judging.submissions import variants
from kernellab.launch.differences import Within, is_within
from kernellab.launch.tile_kernel import run
from kernellab.records import Target
from kernellab.triton_api import definition_of
from kernellab.workshop.exercise import Case, Exercise

TRIES = Tries(seconds=20.0, most=800, batch=12)

_RUN_SECONDS = 2.0
"""A changed kernel that takes longer does not count as right."""

_MOST_WITHOUT_END = 3
"""After so many changed kernels that took longer, no more are tried: the rest of a kernel with an
endless loop is seldom at fault, and each try takes all of its seconds."""


class _NoneEnds(Exception):
    """Too many changed kernels did not end in time."""


@dataclass(eq=False)
class Repairing:
    """The tries for one answer.

    Attributes:
        code, kernel: the student's, and what it became here.
        cases: the hidden launches.
        number: the launch that went wrong.
        check: returns what is wrong with a launch of a kernel.
    """

    exercise: Exercise
    code: Code
    kernel: Any
    cases: Sequence[Case]
    number: int
    target: Target
    check: Callable[[Any, Case], Sequence[Diagnostic]]
    without_end: int = 0
    """How many changed kernels did not end in time."""

    def found(self, families: Sequence[Family]) -> Found | None:
        """Return the change with which all launches are right; None if none was found."""
        case = self.cases[self.number]
        source = Source(str(self.kernel.src), case.keywords)
        try:
            return search(source, families, partial(self._made, [case]), self._is_right, TRIES)
        except _NoneEnds:
            return None

    def _made(self, cases: Sequence[Case], sources: Sequence[str]) -> list[Any]:
        launches = [case.keywords for case in cases]
        return variants(self.code, sources, launches, self.target, seconds=TRIES.seconds)

    def _is_right(self, source: str, kernel: Any) -> bool:
        if not self._gives_right_results(kernel, self.cases[self.number]):
            return False
        (kernel,) = self._made(self.cases, [source])
        if kernel is None:
            return False
        return all(self._gives_right_results(kernel, case) for case in self.cases) and not any(
            self.check(kernel, case) for case in self.cases
        )

    def _gives_right_results(self, kernel: Any, case: Case) -> bool:
        try:
            left = _results(kernel, case)
        except OutOfTime:
            self.without_end += 1
            if self.without_end == _MOST_WITHOUT_END:
                raise _NoneEnds from None
            return False
        right = self._all_right_results[_place(self.cases, case)]
        return left is not None and all(
            is_within(left[name], expected) for name, expected in right.items()
        )

    def said(self, name: str) -> str:
        """Return what a wrong result of the student's kernel says by itself; "" if nothing."""
        case = self.cases[self.number]
        try:
            left = _results(self.kernel, case)
        except OutOfTime:
            return ""
        if left is None:
            return ""
        due = self._all_right_results[self.number][name]
        text, values = str(self.kernel.src), case.keywords
        return reading(WrongTensor(name, left[name], due.values, due.allowed, values, text))

    @cached_property
    def _all_right_results(self) -> list[Mapping[str, Within]]:
        return [dict(self.exercise.right_results(case)) for case in self.cases]


def _results(kernel: Any, case: Case) -> dict[str, Any] | None:
    """Return the arguments of a launch after it; None if the kernel fails.

    Raises:
        OutOfTime: it did not end within `_RUN_SECONDS`.
    """
    arguments = {
        name: _unwritten(value) if name in case.outputs else _copied(value)
        for name, value in case.arguments.items()
    }
    try:
        with limited(_RUN_SECONDS):
            run(kernel, case.grid, **arguments, **case.constants)
    except OutOfTime:
        raise
    except Exception:  # whatever it raises, there are no results
        return None
    return arguments


def _place(cases: Sequence[Case], case: Case) -> int:
    return next(number for number, each in enumerate(cases) if each is case)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _unwritten(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape with contents that no result has."""
    return torch.full_like(value, torch.nan if value.is_floating_point() else -123)


def with_fix(diagnostic: Diagnostic, repair: Found, kernel: Any, launches: int) -> Diagnostic:
    """Return a diagnostic whose advice is a change that was tried."""
    changes = changes_between(str(kernel.src), repair.source, definition_of(kernel).line)
    effect = f"With this change, all {launches} launches are right"
    advice = fix_words(repair.reason, effect, changes)
    return replace(diagnostic, advice=advice, changes=changes, verified=True)
