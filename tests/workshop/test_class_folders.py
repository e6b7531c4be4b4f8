"""A student's folder affects that student's grades only, whatever it holds or answers."""

import json
import os
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from kernellab.common.processes import Worker
from kernellab.errors import ArgumentError, WorkerError
from kernellab.workshop import grader
from kernellab.workshop.course import cell, notebook_text, texts_of
from kernellab.workshop.exercise import EXERCISES
from kernellab.workshop.grader import Grade, Grades, grade_class
from tests.support.python_processes import has_ended, python_path
from tests.support.source_files import ROOT
from tests.workshop.misbehaving import left

Row = dict[str, Any]


def rows(folder: Path) -> list[Row]:
    grades = Grades(tuple(Grade(str(folder), item.name, item.chapter) for item in EXERCISES))
    found: list[Row] = json.loads(grades.json())["grades"]
    return found


def answer(folder: Path, /, **changed: Any) -> bytes:
    first, *rest = rows(folder)
    return json.dumps({"grades": [{**first, **changed}, *rest], "problems": []}).encode()


FORGED: dict[str, Any] = {
    "another folder": lambda folder: answer(folder, folder="someone else"),
    "a list for a folder": lambda folder: answer(folder, folder=[str(folder)]),
    "an object for a folder": lambda folder: answer(folder, folder={}),
    "an unknown step": lambda folder: answer(folder, reached="perfect"),
    "a number for a step": lambda folder: answer(folder, reached=4),
    "an unknown exercise": lambda folder: answer(folder, exercise="none"),
    "another chapter": lambda folder: answer(folder, chapter="none"),
    "a line of text": lambda folder: answer(folder, line="<b>"),
    "an unknown field": lambda folder: answer(folder, __class__="x"),
    "a long text": lambda folder: answer(folder, what="x" * 100_000),
    "null": lambda folder: answer(folder, what=None),
    "nothing": lambda folder: b"",
    "a row twice": lambda folder: json.dumps(
        {"grades": [*rows(folder), rows(folder)[0]], "problems": []}
    ).encode(),
    "no rows": lambda folder: b'{"grades": [], "problems": []}',
    "no grades": lambda folder: b"{}",
    "a list": lambda folder: b"[]",
    "a number": lambda folder: b"1",
    "half an answer": lambda folder: answer(folder)[:100],
    "problems of objects": lambda folder: json.dumps(
        {"grades": rows(folder), "problems": [{}]}
    ).encode(),
}


@pytest.mark.parametrize("name", list(FORGED))
def test_a_forged_answer_is_that_folders_problem(tmp_path, monkeypatch, name) -> None:
    folders = [tmp_path / student for student in ("ann", "eve", "zoe")]
    for folder in folders:
        folder.mkdir()
        (folder / "a.ipynb").touch()

    def answered(given: Path) -> bytes:
        made: bytes = (FORGED[name] if given.name == "eve" else answer)(given)
        return made

    monkeypatch.setattr(grader, "answer_of", answered)
    grades = grade_class(folders)
    assert grades.folders == tuple(map(str, folders))
    assert len(grades) == 3 * len(EXERCISES)
    (problem,) = grades.problems
    assert problem.startswith(str(folders[1]))
    assert len(problem) <= 2_000
    assert not any(grade.reached or grade.what for grade in grades)


def test_a_link_to_another_students_folder_is_not_graded(tmp_path, monkeypatch) -> None:
    (tmp_path / "zoe").mkdir()
    (tmp_path / "zoe" / "a.ipynb").touch()
    (tmp_path / "eve").symlink_to("zoe")
    monkeypatch.setattr(grader, "answer_of", answer)
    grades = grade_class([tmp_path / "zoe", tmp_path / "eve"])
    (problem,) = grades.problems
    assert problem.startswith(f"{tmp_path / 'eve'}: ")
    assert not any(grade.reached for grade in grades if grade.folder.endswith("eve"))


def call(name: str, *arguments: str, seconds: float = 20) -> Any:
    with closing(Worker(guarded=True)) as worker:
        return worker.call(f"tests.workshop.misbehaving:{name}", *arguments, seconds=seconds)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests, in a process of their own."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))


@pytest.mark.parametrize("name", ["flood", "forges_on_stdout"])
def test_what_is_printed_is_not_an_answer(name: str) -> None:
    assert call(name) == b"answer"


@pytest.mark.parametrize(
    "name", ["answers_too_much", "exits", "kills_its_group", "raises", "answers_an_object"]
)
def test_a_process_without_an_answer_is_an_error(name: str) -> None:
    with pytest.raises(WorkerError) as caught:
        call(name)
    assert len(str(caught.value)) < 1_000


def test_a_process_without_an_end_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(WorkerError):
        call("sleeps", seconds=0.5)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "how", ["answers", pytest.param("has no end", marks=pytest.mark.slow), "its caller is killed"]
)
def test_no_process_is_left_behind(tmp_path: Path, how: str) -> None:
    name = "leaves_processes" if how == "answers" else "leaves_processes_without_end"
    if how == "its caller is killed":
        command = (
            f"from kernellab.common.processes import Worker\n"
            f"Worker(guarded=True).call('tests.workshop.misbehaving:{name}', {str(tmp_path)!r})"
        )
        caller = subprocess.Popen([sys.executable, "-c", command])
        while len(left(tmp_path)) < 4:
            time.sleep(0.01)
        caller.kill()
        caller.wait()
    else:
        with suppress(WorkerError):
            assert call(name, str(tmp_path), seconds=2) == b"answer"
        assert len(left(tmp_path)) == 4
    seconds = 5 if how == "its caller is killed" else 0
    assert all(has_ended(number, seconds) for number in left(tmp_path))


NOTEBOOKS = {
    "nested": b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "cells that are none": b'{"cells": [1, null, "x"]}',
    "no cells": b"{}",
    "a list": b"[]",
    "a source of numbers": b'{"cells": [{"cell_type": "code", "source": [1]}]}',
    "a source that is none": b'{"cells": [{"cell_type": "code", "source": null}]}',
}


@pytest.mark.parametrize("name", list(NOTEBOOKS))
def test_a_notebook_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.ipynb"
    file.write_bytes(NOTEBOOKS[name])
    with pytest.raises(ArgumentError) as caught:
        texts_of(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_a_notebook_is_a_file_of_the_folder(tmp_path: Path, make: str) -> None:
    """A link could lead to another student's answers."""
    other = tmp_path / "other.ipynb"
    other.write_text(notebook_text([cell("code", "x = 1")]))
    file = tmp_path / "a.ipynb"
    if make == "link":
        file.symlink_to(other)
    elif make == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(ArgumentError):
        texts_of(file)
    assert texts_of(other) == ["x = 1"]
