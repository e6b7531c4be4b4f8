"""Kernels that cost more than a lock allows are rejected, with what changed."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab.cli.main import main
from kernellab.cli.tasks import _python_of
from kernellab.common.text import remember_source
from kernellab.errors import (
    ArchiveError,
    ArgumentError,
    Diagnostic,
    KernelLabError,
    SourcePosition,
)
from kernellab.judging.budgets import KernelCost, Lock
from kernellab.testing import assert_kernel
from tests.judging import softmax_cases
from tests.judging.softmax_cases import HONEST, cases, softmax
from tests.support.source_files import ROOT

LINES = HONEST.read_text().splitlines()
LOAD = next(number for number, line in enumerate(LINES, 1) if "tl.load" in line)
COST = KernelCost(
    "softmax", "sm_90", 16, 0, 0, 1.0, False, 40, 750, 8.0,
    {"source.front_end": "a", "ttgir.coalesce": "b", "sass.ptxas": "c"},
    {LINES[LOAD - 2].strip(): "1 2", LINES[LOAD - 1].strip(): "3 4"},
)  # fmt: skip
PLACES = {"softmax": SourcePosition(str(HONEST), 1)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Lock(tmp_path / "kernels.lock", str(tmp_path / "a.py::f"), True).examined([COST, COST], PLACES)
    return tmp_path / "kernels.lock"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"registers": 15, "sectors": None, "microseconds": 8.1}, ""),
        ({"registers": 17, "instructions": 41}, "takes 17 registers (allowed: 16) and 41 "),
        ({"sectors": 751}, "takes 751 sectors (allowed: 750) on sm_90"),
        ({"microseconds": 8.5}, "takes 8.5 us (allowed: 8) on sm_90"),
        ({"name": "another", "registers": 99}, ""),
    ],
    ids=str,
)
def test_only_what_costs_more_is_a_regression(path: Path, change: Any, words: str) -> None:
    costs = [COST, replace(COST, **change)]
    found = Lock(path, str(path.parent / "a.py::f")).examined(costs, PLACES)
    assert (found is None) == (not words)
    assert found is None or (isinstance(found, Diagnostic) and words in found.what)


def test_the_first_pass_and_the_first_line_that_differ_are_named(path: Path) -> None:
    remember_source(str(HONEST), HONEST.read_text())
    passes = {
        "source.front_end": "a",
        "ttgir.coalesce": "b",
        "ttgir.pipeline": "x",
        "sass.ptxas": "d",
    }
    lines = {**COST.lines, LINES[LOAD - 1].strip(): "3 5"}
    worse = replace(COST, registers=20, passes=passes, lines=lines)
    found: Any = Lock(path, str(path.parent / "a.py::f")).examined([worse], PLACES)
    assert (found.kind, found.line) == ("regression", LOAD)
    assert "ttgir.pipeline" in found.why


def test_a_lock_keeps_the_entries_of_others(path: Path) -> None:
    lock = Lock(path, str(path.parent / "b.py::g"))
    assert isinstance(lock.examined([COST], PLACES), str)
    assert replace(lock, updates=True).examined([COST], PLACES) is None
    again = path.read_bytes()
    assert replace(lock, updates=True).examined([COST], PLACES) is None
    assert path.read_bytes() == again
    for submission in ("a.py::f", "b.py::g"):
        assert Lock(path, str(path.parent / submission)).examined([COST], PLACES) is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, ArgumentError),
        ("{}", ArchiveError),
        ("[", ArchiveError),
        ('{"format": "kernellab.lock", "version": 1, "submissions": {"a": 5}}', ArchiveError),
    ],
)
def test_what_is_not_a_lock_raises(path, content, error, capsys) -> None:
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(error):  # before any work
        kernellab.judge(f"{HONEST}::plain", pytest.fail, pytest.fail, lock=path)
    assert main(["judge", "a.py::f", "--reference", "b.py", "--lock", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.slow
def test_a_kernel_that_becomes_slower_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    options: Any = {"unseen": (), "targets": "sm_90,gfx942", "lock": tmp_path / "kernels.lock"}
    task = f"{file}::plain", softmax, cases
    file.write_text(HONEST.read_text())
    assert_kernel(*task, **options, update=True)
    assert_kernel(*task, **options)
    file.write_text(HONEST.read_text().replace("tl.max(x, 0)", "tl.max(tl.sort(x), 0)", 1))
    with pytest.raises(AssertionError) as error:
        assert_kernel(*task, **options)
    assert "softmax takes" in str(error.value)
    assert "source.front_end" in str(error.value)
    assert "e = tl.exp(x - tl.max(tl.sort(x), 0))" in str(error.value)


ENVIRONMENTS = sorted(ROOT.glob(".versions/*"))


@pytest.mark.slow
@pytest.mark.skipif(not ENVIRONMENTS, reason="`make test-versions` makes them")
def test_a_kernel_is_compared_under_another_triton(tmp_path, capsys) -> None:
    reference = f"{Path(softmax_cases.__file__)}::softmax"
    words = ["judge", f"{HONEST}::plain", "--reference", reference, "--unseen", "values"]
    assert main([*words, "--triton", str(ENVIRONMENTS[0])]) in (0, 1)
    said = capsys.readouterr().out
    assert "accepted" in said or "regression" in said or " takes " in said
    assert main([*words, "--triton", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_an_environment_is_named_by_its_folder_or_by_its_triton(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for version in ("3.6.0", "3.60"):
        python = tmp_path / ".versions" / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        packages = python.parents[1] / "lib" / "python3.11" / "site-packages"
        (packages / f"triton-{version}.dist-info").mkdir(parents=True)
    for word in ("3.6", "3.6.0", ".versions/3.6.0"):
        assert _python_of(word) == Path(".versions/3.6.0/bin/python")
    with pytest.raises(KernelLabError, match="has Triton 3"):
        _python_of("3.7")
    if os.getuid() == 0:  # only root gives files away
        os.chown(".versions/3.6.0", 65534, 65534)
        with pytest.raises(KernelLabError, match="65534"):
            _python_of("3.6")
