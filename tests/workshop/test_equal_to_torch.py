"""The course's kernels and functions of torch compute the same for all inputs."""

import re

import pytest

import kernellab
from kernellab.errors import KernelLabError
from kernellab.workshop.exercise import EXERCISES, exercise_named
from kernellab.workshop.launches import Draw
from tests.workshop.mutants import wrong_kernels
from tests.workshop.references import DECIDED, REFERENCES, bound, solution
from tests.workshop.trials import Launches, trials_of

ROUNDS_OR_OVERFLOWS = (
    r"^narrow accumulator|overflow|^no maximum|tl\.max\(.* -> pass|tl\.max\(.* -> tl\.sum\("
)
"""Mutants that are right over the real numbers: a softmax may subtract anything from a row."""


IGNORE_NAN = {"clamp", "scale_rows", "max_rows", "argmax_rows", "linear_relu", "sort_rows"}
"""A maximum of Triton's ignores NaN, and its sort does not move it to the end."""


def test_every_exercise_has_a_reference() -> None:
    assert {exercise.name for exercise in EXERCISES} == set(REFERENCES)


@pytest.mark.thinned(2)
@pytest.mark.sampled(12)
@pytest.mark.parametrize("exercise", REFERENCES)
def test_solutions_are_equal_to_functions_of_torch(exercise: str) -> None:
    launch = bound(solution(exercise), exercise, DECIDED.get(exercise, -1))
    given = launch, REFERENCES[exercise]
    found = kernellab.equal(*given)
    if exercise in IGNORE_NAN:
        assert not found
        found = kernellab.equal(*given, inputs="finite")
    assert found.verdict == "equal", found


@pytest.mark.slow
@pytest.mark.thinned(7)
@pytest.mark.parametrize("name", REFERENCES)
def test_wrong_kernels_are_not_equal(name: str, tmp_path) -> None:
    """A mutant that is equal gives right results in this launch, or only rounds too early."""
    exercise = exercise_named(name)
    launches, different = Launches(exercise, 1), 0
    last = len(list(exercise.cases(Draw(1)))) - 1
    mutants = wrong_kernels(exercise)
    for trial in trials_of(mutants[:: 5 if len(mutants) > 25 else 1], tmp_path):
        try:
            found = kernellab.equal(bound(trial.kernel, name, last), REFERENCES[name])
        except KernelLabError:  # out of bounds, no results, does not compile
            continue
        different += found.verdict == "different"
        if found and not re.search(ROUNDS_OR_OVERFLOWS, trial.mutant.name):
            assert not trial.is_wrong(launches, last), trial.mutant.name
    assert different
