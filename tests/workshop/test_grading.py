"""`kernellab workshop`: a student's folder, its answers, a class at a glance."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kernellab.cli import doctor
from kernellab.cli.main import main
from kernellab.workshop import course, grader
from kernellab.workshop.course import cell, cells_of, notebook_text, write_folder
from kernellab.workshop.exercise import EXERCISES
from kernellab.workshop.grader import Grades, grade_folder
from tests.support.source_files import ROOT
from tests.workshop import solutions, wrong


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "ann")
    return tmp_path / "ann"


def source(kernel: Any) -> str:
    return f"@triton.jit\n{inspect.getsource(kernel.fn).partition('@triton.jit')[2].strip()}"


def fill(folder: Path, exercise: str, text: str) -> None:
    for file in folder.glob("exercises_*.ipynb"):
        book = json.loads(file.read_text())
        for one in book["cells"]:
            if "".join(one["source"]).startswith(f"%%tileexercise {exercise}\n"):
                one["source"] = f"%%tileexercise {exercise}\n{text}"
        file.write_text(json.dumps(book))


@pytest.fixture
def is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is: what the doctor says of it is tested elsewhere."""
    monkeypatch.setattr(doctor, "examine", list)


@pytest.mark.usefixtures("is_ready")
def test_init_writes_the_course_and_the_exercises_and_keeps_what_is_there(tmp_path, capsys) -> None:
    folder = tmp_path / "ann and bob"
    assert main(["workshop", "init", str(folder)]) == 0
    assert "This machine is ready." in capsys.readouterr().out
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        assert (folder / file.name).read_bytes() == file.read_bytes()
    for book in folder.glob("*.ipynb"):
        nbformat.validate(nbformat.read(book, 4))
    start = (folder / "00_start_here.ipynb").read_text()
    linked = re.findall(r"\]\(([^)]*\.ipynb)\)", start)
    assert sorted([*linked, "00_start_here.ipynb"]) == sorted(
        one.name for one in folder.glob("*.ipynb")
    )
    exercises = sorted(folder.glob("exercises_*.ipynb"))
    assert len(exercises) == len({one.chapter for one in EXERCISES})
    found = [one.exercise for file in exercises for one in cells_of(file)]
    assert found == [one.name for one in EXERCISES]
    assert not any(one.file for one in grade_folder(folder)), "no one has answered anything"
    exercises[0].write_text("mine")
    exercises[1].unlink()
    assert main(["workshop", "init", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(exercises[1]), "This machine is ready."]
    assert exercises[0].read_text() == "mine"


def test_init_says_that_a_machine_is_not_ready(tmp_path, capsys, monkeypatch) -> None:
    lacks = doctor.DoctorLine.of("triton", "missing", "not installed", "Install it.")
    monkeypatch.setattr(
        doctor, "examine", lambda: [lacks, doctor.DoctorLine.of("torch", "ok", "2.13")]
    )
    assert main(["workshop", "init", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "Needs attention: triton." in said
    assert "2.13" not in said


@pytest.mark.slow
def test_each_answer_is_graded_and_what_is_untouched_is_none(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(grader, "SECONDS", 10)
    fill(folder, "add", source(solutions.add))
    fill(folder, "clamp", "import sys\nsys.exit(3)")
    fill(folder, "reverse", "def reverse(x): return x.flip(0)")
    fill(folder, "every_other", "while True:\n    pass")
    fill(folder, "outer_add", "def (")
    fill(folder, "max_rows", source(wrong.max_rows_of_zeros_beyond).replace("_of_zeros_beyond", ""))
    assert main(["workshop", "check", "--json", str(folder)]) == 0
    grades = {one["exercise"]: one for one in json.loads(capsys.readouterr().out)["grades"]}
    assert grades["add"]["reached"] == "within budget"
    kinds = grades["clamp"]["kind"], grades["reverse"]["kind"]
    assert kinds == ("ended-process", "not-a-kernel")
    assert (grades["max_rows"]["reached"], grades["max_rows"]["kind"]) == ("safe", "wrong-result")
    assert (grades["every_other"]["kind"], grades["outer_add"]["kind"]) == ("no-end", "code-error")
    assert grades["softmax"]["file"] == ""
    text = str(Grades(tuple(grader.Grade(**one) for one in grades.values())))
    assert "1 of 47 done" in text
    assert "41 exercises without an answer" in text


@pytest.mark.slow
def test_an_answer_has_what_the_cells_above_define_and_not_what_they_do(tmp_path: Path) -> None:
    helper = "@triton.jit\ndef plus(x, y: tl.constexpr):\n    return x + y"
    above = [
        cell("code", "%load_ext kernellab\nimport triton\nimport triton.language as tl"),
        cell("code", "while True:\n    pass"),
        cell("code", "raise SystemExit"),
        cell("code", "ONE: tl.constexpr = tl.constexpr(1)\nmany = [0] * int(10 ** 12) + print()"),
        cell("code", "%%tilekernel\n" + helper),
        cell("code", "this is no Python"),
    ]
    text = source(solutions.add_one).replace("tl.load(x_ptr + lanes) + 1", "PLUS")
    text = text.replace("PLUS", "plus(tl.load(x_ptr + lanes), ONE)")
    answer = cell("code", f"%%tileexercise add_one\n{text}")
    (tmp_path / "mine.ipynb").write_text(notebook_text([*above, answer]))
    (grade,) = (one for one in grade_folder(tmp_path) if one.file)
    assert grade.is_done, grade


@pytest.mark.slow
def test_a_notebook_that_cannot_be_read_costs_its_own_answers_alone(tmp_path, capsys) -> None:
    answer = cell("code", f"%%tileexercise add_one\nimport triton\n{source(solutions.add_one)}")
    answer["source"].insert(1, "import triton.language as tl\n")
    (tmp_path / "a.ipynb").write_text('{"cells": <')
    (tmp_path / "b.ipynb").write_text(notebook_text([answer]))
    (tmp_path / "c.ipynb").mkdir()
    assert main(["workshop", "check", "--json", str(tmp_path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["exercise"] for one in told["grades"] if one["file"]] == ["add_one"]
    assert ["a.ipynb" in told["problems"][0], "c.ipynb" in told["problems"][1]] == [True, True]


def test_an_answer_that_prints_a_verdict_and_exits_costs_itself_alone(tmp_path, capfd) -> None:
    head = "import triton\nimport triton.language as tl\n"
    verdict = 'import json, os; print(json.dumps({"grades": []}), flush=True); os._exit(0)'
    right = f"%%tileexercise add_one\n{head}{source(solutions.add_one)}"
    fooling = source(solutions.clamp).replace(
        "offsets =", f"tl.core.builtins.exec({verdict!r})\n    offsets =", 1
    )
    cells = [cell("code", f"%%tileexercise clamp\n{head}{fooling}"), cell("code", right)]
    (tmp_path / "mine.ipynb").write_text(notebook_text(cells))
    assert main(["workshop", "check", "--json", str(tmp_path)]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    grades = {grade["exercise"]: grade for grade in json.loads(line)["grades"] if grade["file"]}
    assert grades["clamp"]["kind"] == "ended-process"
    assert grades["add_one"]["reached"] == "within budget"


@pytest.mark.slow
def test_a_class_at_a_glance(folder, tmp_path, capsys) -> None:
    fill(folder, "add_one", source(solutions.add_one))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "1.ipynb").write_text('{"cells": <')
    page = tmp_path / "class.html"
    given = [str(folder), str(tmp_path / "bob"), str(folder), "-o", str(page)]
    assert main(["workshop", "report", *given]) == 1
    said = capsys.readouterr().out
    assert re.search(r"/ann +1 of 47 ", said)
    assert re.search(r"/bob +0 of 47 ", said)
    assert said.startswith("2 folders\n"), "one that is named twice counts once"
    assert "cannot be read as a notebook" in said
    assert "<span>1 of 47</span>" in page.read_text()
    assert "cannot be read as a notebook" in page.read_text()


def test_a_grade_has_the_line_that_the_student_wrote(tmp_path: Path) -> None:
    text = source(wrong.add_without_mask).replace("add_without_mask", "add")
    text = f"import triton\nimport triton.language as tl\n{text}"
    cells = [cell("code", f"%%tileexercise add\n{text}")]
    (tmp_path / "mine.ipynb").write_text(notebook_text(cells))
    (grade,) = (one for one in grade_folder(tmp_path) if one.file)
    assert grade.line is not None
    assert grade.code == text.splitlines()[grade.line - 1].strip() != ""


@pytest.mark.usefixtures("is_ready")
def test_what_is_no_folder_is_told(tmp_path, capsys, messages) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "recorded").touch()
    for command in (
        ["check", str(tmp_path / "no one")],
        ["check", str(tmp_path / "empty")],
        ["check", str(tmp_path / "file")],
        ["init", str(tmp_path / "file")],
        ["init", str(tmp_path / "taken")],
        ["init", "/proc/ann"],
        ["init", "nul\0"],
    ):
        assert main(["workshop", *command]) != 0
        assert capsys.readouterr().err == messages


def test_progress_is_kept_in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernellab.workshop.grader import exercise

    monkeypatch.chdir(folder)
    monkeypatch.setattr(course, "_reached", {})
    course.note(exercise("add_one", solutions.add_one))
    monkeypatch.setattr(course, "_reached", {})  # another process
    kept = {row.name: row for row in course.exercises()}
    assert (kept["add_one"].is_done, kept["add_one"].tries) == (True, 1)
    for damaged in ("[", "[]", '{"add_one": 5}', '{"add_one": ["x", 1]}', "[" * 100_000):
        (folder / course.PROGRESS_FILE).write_text(damaged)
        assert not any(row.tries for row in course.exercises())
