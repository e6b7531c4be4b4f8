"""Right answers stay right, however they are written."""

import pytest

from kernellab.judging.code import SourcePart, Texts
from kernellab.judging.worker import wait_for_worker
from kernellab.workshop.exercise import exercise_named
from kernellab.workshop.grader import answered
from tests.workshop.honest import HONEST, Honest


@pytest.fixture(scope="module", autouse=True)
def _worker() -> None:
    """Start the clean process before the first test, whose time it would count as."""
    wait_for_worker()


@pytest.mark.parametrize(
    "honest",
    [
        pytest.param(
            each,
            id=f"{each.exercise}: {each.name}",
            marks=() if each.is_quick else pytest.mark.slow,
        )
        for each in HONEST
    ],
)
def test_it_is_within_budget(honest: Honest) -> None:
    code = Texts((SourcePart(f"<{honest.name}>", honest.cell),), honest.exercise)
    answer = answered(exercise_named(honest.exercise), code)
    assert answer.is_done, f"{answer}\nseed {answer.seed}"


def test_there_are_enough() -> None:
    assert len(HONEST) >= 40
    assert len({honest.cell for honest in HONEST}) == len(HONEST)
