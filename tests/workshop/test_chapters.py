"""The files of chapters: each exercise names functions that make its launches and right results."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from kernellab.common.data_files import DataFileError
from kernellab.workshop import exercise, launches, references
from kernellab.workshop.exercise import EXERCISES

FOLDER = Path(exercise.__file__).with_name("chapters")


def functions_of(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
        if not name.startswith("_")
    }


def test_every_exercise_has_a_name_that_no_other_has() -> None:
    names = [one.name for one in EXERCISES]
    assert len(set(names)) == len(names) == 47
    assert all(f"def {one.name}(" in one.stub for one in EXERCISES)


def test_every_function_is_named_by_an_exercise() -> None:
    arithmetic = {"exact", "unrounded", "softmax", "moments"}
    makers = {one.cases for one in EXERCISES} | {one.priced for one in EXERCISES} - {None}
    assert {*launches.SHORT.values()} <= makers
    assert {one.__name__ for one in makers if one} - {"<lambda>"} == functions_of(launches)
    used = {one.reference for one in EXERCISES}
    assert {*references.SHORT.values()} <= used
    named = {one.__name__ for one in used} - {"<lambda>"}
    assert named == functions_of(references) - arithmetic


@pytest.mark.parametrize(
    ("valid", "wrong", "message"),
    [
        (
            'cases = "two_vectors"',
            'cases = "_usual"',
            "exercise[1].cases must be the name of a function in kernellab.workshop.launches",
        ),
        (
            'reference = "sum_of_vectors"',
            'reference = "vectors"',
            "exercise[1].reference must be the name of a function in kernellab.workshop.references",
        ),
        ("traffic = 1.1", 'traffic = "1.1"', "exercise[1].budget.traffic must be a number"),
        ('name = "add"\n', "", "exercise[1].name is missing"),
    ],
)
def test_an_error_names_the_field(valid: str, wrong: str, message: str, tmp_path: Path) -> None:
    text = (FOLDER / "1_vectors.toml").read_text()
    assert valid in text
    file = tmp_path / "wrong.toml"
    file.write_text(text.replace(valid, wrong, 1))
    with pytest.raises(DataFileError, match=re.escape(message)):
        list(exercise._exercises_in(file))
