"""Right answers stay right, however they are written."""

import pytest

from tests.workshop.attempts import answer_to
from tests.workshop.honest import HONEST, Honest

pytestmark = pytest.mark.usefixtures("clean_process")


@pytest.mark.thinned(2)
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
    answer = answer_to(honest.exercise, honest.cell)
    assert answer.is_done, f"{answer}\nseed {answer.seed}"


def test_there_are_enough() -> None:
    assert len(HONEST) >= 40
    assert len({honest.cell for honest in HONEST}) == len(HONEST)
