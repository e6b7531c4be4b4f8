"""No attempt to fool the grader gets a grade that it does not deserve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernellab.judging.code import SourcePart, Texts
from kernellab.judging.worker import wait_for_worker
from kernellab.workshop.exercise import exercise_named
from kernellab.workshop.grader import answered
from tests.workshop.attempts import ATTEMPTS, Attempt


@pytest.fixture(scope="module", autouse=True)
def _worker() -> None:
    """Start the clean process before the first test, whose time it would count as."""
    wait_for_worker()


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda one: one.name)
def test_it_is_rejected_for_its_reason(attempt: Attempt, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    attempt = replace(attempt, cell=attempt.cell.replace("{marker}", str(marker)))
    code = Texts((SourcePart(f"<{attempt.name}>", attempt.cell),), attempt.exercise)
    answer = answered(exercise_named(attempt.exercise), code)
    assert not answer.is_done, str(answer)
    assert not marker.exists()
    assert (answer.reached, answer.diagnostics[0].kind) == (attempt.reached, attempt.kind), str(
        answer
    )


def test_there_are_enough() -> None:
    assert len(ATTEMPTS) >= 40
    assert len({attempt.cell for attempt in ATTEMPTS}) == len(ATTEMPTS)
