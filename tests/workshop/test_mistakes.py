"""Wrong answers are rejected, and a fix that is shown makes them right when it is followed."""

import pytest

from kernellab.checker.fixes import Tries
from kernellab.errors import Diagnostic
from kernellab.workshop import feedback
from kernellab.workshop.exercise import EXERCISES
from tests.workshop.attempts import answer_to
from tests.workshop.mistakes import MEASURED, MISTAKES, UNFIXED
from tests.workshop.students import ANSWERS, TWO_FAULTS

pytestmark = pytest.mark.usefixtures("clean_process")

NAMED = {f"{mistake.exercise}: {mistake.name}": mistake for mistake in (*MISTAKES, *ANSWERS)}
OWN_WORDS = [f"{answer.exercise}: {answer.name}" for answer in ANSWERS]
BOTH = [f"{answer.exercise}: {answer.name}" for answer in TWO_FAULTS]


@pytest.fixture(autouse=True)
def _without_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try as much on a slow processor as on a fast one; what helps is among the first changes."""
    tries = Tries(seconds=600.0, most=150, batch=12)
    monkeypatch.setattr(feedback, "TRIES", tries)
    monkeypatch.setattr(feedback, "_SECOND_TRIES", tries)
    monkeypatch.setattr(feedback, "_RUN_SECONDS", 20.0)


def followed(cell: str, diagnostic: Diagnostic) -> str:
    lines = cell.split("\n")
    for change in diagnostic.changes:
        gone = change.old.split("\n") if change.old else []
        place = slice(change.line - 1, change.line - 1 + len(gone))
        assert [line.strip() for line in lines[place]] == [line.strip() for line in gone]
        is_one = len(gone) == 1 and "\n" not in change.new
        indent = lines[place][0].removesuffix(lines[place][0].lstrip()) if is_one else ""
        lines[place] = [indent + line for line in change.new.split("\n")] if change.new else []
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", [*MEASURED, *BOTH])
def test_a_fix_makes_the_answer_right_when_it_is_followed(name: str, messages) -> None:
    mistake = NAMED[name]
    answer = answer_to(mistake.exercise, mistake.cell, 5)
    assert not answer.is_right
    fixed = next(each for each in answer.diagnostics if each.verified)
    assert fixed.advice == messages
    again = answer_to(mistake.exercise, followed(mistake.cell, fixed), 77)
    assert again.is_right, str(again)


@pytest.mark.slow
@pytest.mark.thinned(9)
@pytest.mark.parametrize("name", [*sorted(UNFIXED), *sorted({*OWN_WORDS} - {*BOTH})])
def test_no_fix_is_shown_that_does_not_help(name: str) -> None:
    mistake = NAMED[name]
    answer = answer_to(mistake.exercise, mistake.cell, 5)
    assert not answer.is_right
    for each in answer.diagnostics:
        assert each.verified == bool(each.changes)
        if each.verified:
            assert answer_to(mistake.exercise, followed(mistake.cell, each), 77).is_right


def test_most_mistakes_have_a_fix() -> None:
    assert len(MEASURED) >= 2 * len(UNFIXED)
    assert {*MEASURED, *UNFIXED} <= {*NAMED}
    assert len({mistake.cell for mistake in NAMED.values()}) == len(MISTAKES) + len(ANSWERS)
    assert len(ANSWERS) >= 60
    assert {answer.exercise for answer in ANSWERS} == {exercise.name for exercise in EXERCISES}
