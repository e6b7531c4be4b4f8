"""The notebook of solutions: each reaches every rung, whatever sizes are drawn."""

import ast
import tempfile
from pathlib import Path

import nbformat
import pytest

from kernellab.workshop.course import StudentCell, cells_of, write_folder
from kernellab.workshop.exercise import EXERCISES, exercise_named
from kernellab.workshop.grader import answered, code_of
from tests.workshop import solutions
from tools import solutions_notebook


def solved() -> list[StudentCell]:
    with tempfile.TemporaryDirectory() as folder:
        notebook = Path(folder, "solutions.ipynb")
        notebook.write_text(solutions_notebook.notebook())
        nbformat.validate(nbformat.read(notebook, 4))
        return list(cells_of(notebook))


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("cell", solved(), ids=lambda cell: cell.exercise)
def test_it_is_right_and_within_budget(cell: StudentCell) -> None:
    answer = answered(exercise_named(cell.exercise), code_of(cell))
    assert answer.is_done, f"{answer}\nseed {answer.seed}"
    assert answer.is_right
    assert answer.passed == answer.cases > 1
    assert [one.kind for one in answer.diagnostics] == ["better"]


def test_the_notebook_has_each_once() -> None:
    assert [one.exercise for one in solved()] == [one.name for one in EXERCISES]


def test_a_student_does_not_get_it(tmp_path: Path) -> None:
    written = [file.read_text() for file in write_folder(tmp_path) if file.suffix == ".ipynb"]
    longest = max(solved(), key=lambda cell: len(cell.code))
    given = exercise_named(longest.exercise).stub.splitlines()
    own = max({*longest.code.splitlines()} - {*given}, key=len)
    assert own.strip() not in "".join(written)
    assert not any("olutions" in text for text in written)


def test_each_is_whole() -> None:
    for one in EXERCISES:
        *_, kernel = ast.parse(one.stub).body
        assert isinstance(kernel, ast.FunctionDef)
        assert kernel.name == one.name
        assert one.hints
        assert one.better
        assert one.task
        assert one.parameters == tuple(getattr(solutions, one.name).arg_names)
