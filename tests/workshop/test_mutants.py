"""No wrong kernel is accepted: kernels that rules make from the solutions are rejected."""

import ast

import pytest

from kernellab.workshop.exercise import EXERCISES, Exercise, exercise_named
from tests.corpus.loader import WHOLE
from tests.support.rewrites import RULES
from tests.workshop import mutants
from tests.workshop.attempts import WrongAnswer, answer_to, cell, imports_of
from tests.workshop.trials import accepted, trials_of

pytestmark = pytest.mark.usefixtures("clean_process")

_EPS = "eps: tl.rsqrt({} / columns + eps) -> "
_SQUARES, _AWAY = "tl.sum(x * x, axis=0)", "tl.sum(away * away, axis=0)"
_LOAD = "tl.load(x_ptr + row * columns + lanes)"

SEEDS = range(50 if WHOLE else 4)
"""The draws for which every wrong kernel is rejected, and no other."""

ONCE_ACCEPTED = [
    ("rms_norm", _EPS.format(_SQUARES) + f"1.0 / (tl.sqrt({_SQUARES} / columns) + eps)"),
    ("rms_norm", _EPS.format(_SQUARES) + f"tl.rsqrt({_SQUARES} / columns)"),
    ("layer_norm", _EPS.format(_AWAY) + f"tl.rsqrt({_AWAY} / columns)"),
    ("flash_attention", "no running maximum"),
    ("flash_attention", "bound: k_rows < keys -> k_rows <= keys (3)"),
    ("moments", f"missing other: {_LOAD}"),
    ("sum_rows", f"missing other: {_LOAD}"),
    ("scale_rows", "swapped program ids"),
]
"""Kernels that were answers before the launches were constructed to tell them apart."""


def mutant(exercise: str, name: str) -> WrongAnswer:
    (found,) = (one for one in mutants.wrong_kernels(exercise_named(exercise)) if one.name == name)
    return found


def solution(exercise: Exercise) -> WrongAnswer:
    above = imports_of(exercise.name)
    return WrongAnswer(exercise.name, "", cell(mutants.solution_text(exercise.name), above))


def is_right(one: WrongAnswer, seed: int) -> bool:
    return answer_to(one.exercise, one.cell, seed).is_right


def test_there_are_enough_rules() -> None:
    assert len(RULES) >= 20


def test_an_exercise_without_wrong_kernels_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "rewritten", lambda text, names: iter(()))
    assert mutants.too_few(EXERCISES) == [one.name for one in EXERCISES]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_an_exercise_has_enough_each_with_its_own_name_and_text(exercise: Exercise) -> None:
    assert mutants.too_few([exercise]) == []
    found = mutants.mutants_of(exercise)
    assert len({one.name for one in found}) == len({one.cell for one in found}) == len(found)
    assert mutants.EQUIVALENT.get(exercise.name, {}).keys() <= {one.name for one in found}
    assert all(ast.parse(one.cell) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(("exercise", "name"), ONCE_ACCEPTED)
def test_one_that_was_accepted_is_rejected_for_every_seed(exercise, name, tmp_path) -> None:
    (trial,) = trials_of([mutant(exercise, name)], tmp_path)
    assert not accepted([trial], exercise_named(exercise), (100, 101))
    assert trial.compiles


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["add", "scale_rows", "rms_norm"])
def test_a_solution_is_accepted_and_its_mutants_are_not(name: str, tmp_path) -> None:
    exercise = exercise_named(name)
    some = mutants.wrong_kernels(exercise)[::8]
    trials = trials_of([solution(exercise), *some], tmp_path)
    assert accepted(trials, exercise, (7,)) == {"": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("exercise", "name"), ONCE_ACCEPTED[-3:])
def test_the_grader_rejects_it_too(exercise: str, name: str) -> None:
    assert not is_right(mutant(exercise, name), 3)


@pytest.mark.slow
@pytest.mark.thinned(8)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_only_the_solution_and_what_is_equivalent_is_accepted(exercise, tmp_path) -> None:
    trials = trials_of([solution(exercise), *mutants.mutants_of(exercise)], tmp_path)
    right = ["", *mutants.EQUIVALENT.get(exercise.name, {})]
    assert accepted(trials, exercise, SEEDS) == dict.fromkeys(right, len(SEEDS))
    assert sum(trial.compiles for trial in trials[1:]) >= mutants.FEWEST


@pytest.mark.slow
@pytest.mark.thinned(9)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_the_grader_says_what_a_trial_says(exercise: Exercise) -> None:
    found = mutants.wrong_kernels(exercise)
    for number, one in enumerate(found[:: max(1, len(found) // 4)]):
        assert not is_right(one, number), one.name
    assert is_right(solution(exercise), 5)
