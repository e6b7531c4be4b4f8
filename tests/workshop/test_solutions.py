"""A solution of each exercise reaches every rung, whatever sizes are drawn."""

from __future__ import annotations

import ast

import pytest

import kernellab
from kernellab.workshop.chapters import EXERCISES
from tests.workshop import solutions


@pytest.mark.parametrize("name", [one.name for one in EXERCISES])
def test_it_is_right_and_within_budget(name: str) -> None:
    answer = kernellab.exercise(name, getattr(solutions, name))
    assert answer.is_done, f"{answer}\nseed {answer.seed}"
    assert answer.is_right
    assert answer.passed == answer.cases > 1
    assert [one.kind for one in answer.diagnostics] == ["better"]


def test_there_are_enough_and_each_is_whole() -> None:
    assert len(EXERCISES) >= 36
    assert len({one.name for one in EXERCISES}) == len(EXERCISES)
    for one in EXERCISES:
        (kernel,) = ast.parse(one.stub).body
        assert isinstance(kernel, ast.FunctionDef)
        assert kernel.name == one.name
        assert one.hints
        assert one.better
        assert one.task
        assert one.parameters == tuple(getattr(solutions, one.name).arg_names)
