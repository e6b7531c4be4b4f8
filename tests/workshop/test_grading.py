"""`kernellab workshop`: a student's folder, its answers, a class at a glance."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kernellab.cli.main import main
from kernellab.errors import ArgumentError
from kernellab.workshop import progress
from kernellab.workshop.chapters import EXERCISES
from kernellab.workshop.folders import cells_of, write_folder
from kernellab.workshop.grading import grade_folder
from tests.workshop import solutions, wrong


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "ann")
    return tmp_path / "ann"


def source(kernel: Any) -> str:
    return f"@triton.jit\n{inspect.getsource(kernel.fn).partition('@triton.jit')[2].strip()}"


def fill(folder: Path, exercise: str, text: str) -> None:
    """Put text in place of a stub."""
    for file in folder.glob("*.ipynb"):
        book = json.loads(file.read_text())
        for cell in book["cells"]:
            if "".join(cell["source"]).startswith(f"%%tileexercise {exercise}\n"):
                cell["source"] = f"%%tileexercise {exercise}\n{text}"
        file.write_text(json.dumps(book))


def test_a_folder_has_a_notebook_a_chapter_and_keeps_what_is_there(folder: Path) -> None:
    books = sorted(folder.glob("*.ipynb"))
    assert len(books) == len({one.chapter for one in EXERCISES})
    for book in books:
        nbformat.validate(nbformat.read(book, 4))
    assert [one.exercise for one in cells_of(folder)] == [one.name for one in EXERCISES]
    books[0].write_text("mine")
    books[1].unlink()
    assert write_folder(folder) == [books[1]]
    assert books[0].read_text() == "mine"


def test_each_answer_is_graded_and_what_is_untouched_is_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, "add", source(solutions.add))
    fill(folder, "clamp", "import sys\nsys.exit(3)")
    fill(folder, "reverse", "def reverse(x): return x.flip(0)")
    fill(folder, "max_rows", source(wrong.max_rows_of_zeros_beyond).replace("_of_zeros_beyond", ""))
    assert main(["workshop", "check", "--json", str(folder)]) == 0
    grades = {one["exercise"]: one for one in json.loads(capsys.readouterr().out)["grades"]}
    assert grades["add"]["reached"] == "within budget"
    assert (grades["clamp"]["kind"], grades["reverse"]["kind"]) == ("cell-error", "not-a-kernel")
    assert (grades["max_rows"]["reached"], grades["max_rows"]["kind"]) == ("safe", "wrong-result")
    assert grades["softmax"]["file"] == ""
    text = str(grade_folder(folder))
    assert "1 of 43 done" in text
    assert "39 exercises without an answer" in text


def test_a_class_at_a_glance(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, "add_one", source(solutions.add_one))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "1.ipynb").write_text('{"cells": <')
    page = tmp_path / "class.html"
    given = [str(folder), str(tmp_path / "bob"), "-o", str(page)]
    assert main(["workshop", "report", *given]) == 1
    said = capsys.readouterr().out
    assert "1 of 43 done" in said
    assert "cannot be read as a notebook" in said
    assert "add_one" in page.read_text()


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is no folder"):
        grade_folder(tmp_path / "nobody")
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentError, match="cannot be a workshop's folder"):
        write_folder(tmp_path / "file")


def test_progress_is_kept_in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.workshop.answering import exercise

    monkeypatch.chdir(folder)
    monkeypatch.setattr(progress, "_reached", {})
    progress.note(exercise("add_one", solutions.add_one))
    monkeypatch.setattr(progress, "_reached", {})  # another process
    kept = {row.name: row for row in progress.exercises()}
    assert (kept["add_one"].is_done, kept["add_one"].tries) == (True, 1)
    for damaged in ("[", "[]", '{"add_one": 5}', '{"add_one": ["x", 1]}', "[" * 100_000):
        (folder / progress.FILE).write_text(damaged)
        assert not any(row.tries for row in progress.exercises())
