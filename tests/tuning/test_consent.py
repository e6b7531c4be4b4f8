"""Who asks for a saved kernel's source to run: a notebook is asked first, a script is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.notebook_session import StartNotebook
from tests.support.python_processes import python_path, run_python
from tests.support.source_files import ROOT

RECORDED = ROOT / "notebooks/recorded/tuning_h200_matmul.json"
SETUP = "import kernellab\nloaded = kernellab.load({!r})\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved sweep whose source says, in `tmp_path / "ran"`, each time that it runs."""
    return written(tmp_path, f"with open({str(tmp_path / 'ran')!r}, 'a') as ran: ran.write('x')")


def written(folder: Path, more: str) -> Path:
    data = json.loads(RECORDED.read_text())
    data["tunings"][0]["source"]["text"] += f"\n{more}\n"
    (folder / "sweep.json").write_text(json.dumps(data))
    return folder / "sweep.json"


def runs(file: Path) -> int:
    """How often the source has run."""
    ran = file.with_name("ran")
    return len(ran.read_text()) if ran.exists() else 0


@pytest.mark.slow
def test_a_notebook_shows_the_source_and_asks_once(notebook: StartNotebook, file: Path) -> None:
    lab = notebook(SETUP.format(str(file)))
    words = lab.converse("known = loaded.with_kernel()", ["n"])
    assert "tuning.with_kernel() runs the source of 'matmul' in the file" in words
    assert "    def matmul(" in words
    assert "ran.write('x')" in words
    assert lab.ask("'known' in globals()") == "False"
    assert runs(file) == 0
    lab.converse("known = loaded.with_kernel()", ["y"])
    assert lab.ask("known.knows_kernel") == "True"
    assert runs(file) == 1
    # Not twice for one source; whatever the file holds else is another.
    assert lab.converse("again = loaded.with_kernel()", []) == ""
    written(file.parent, "LAST = 3")
    lab.run(SETUP.format(str(file)))
    assert "LAST = 3" in lab.converse("known = loaded.with_kernel()", [""])


@pytest.mark.slow
def test_a_notebook_that_nobody_looks_at_is_refused(notebook: StartNotebook, file: Path) -> None:
    lab = notebook(SETUP.format(str(file)))
    outcome = lab.run("loaded.with_kernel()", takes_input=False)
    assert outcome.error == "ArgumentError"
    assert "with_kernel(run_source=True)" in outcome.message
    assert runs(file) == 0
    assert lab.ask("loaded.with_kernel(run_source=True).knows_kernel") == "True"
    assert runs(file) == 1


@pytest.mark.slow
def test_a_source_without_an_end_is_stopped_by_ctrl_c(
    notebook: StartNotebook, tmp_path: Path
) -> None:
    endless = written(tmp_path, "print('begun', flush=True)\nwhile True: pass")
    lab = notebook(SETUP.format(str(endless)), "import sys; before = set(sys.modules)")
    outcome = lab.run("known = loaded.with_kernel(run_source=True)", interrupt_after="begun")
    assert outcome.error == "KeyboardInterrupt"
    assert "while True: pass" in outcome.traceback
    assert lab.ask("'known' in globals(), loaded.knows_kernel") == "(False, False)"
    assert lab.ask("{one for one in set(sys.modules) - before if 'saved' in one}") == "set()"
    # The next one is made, and compiles.
    lab.run(f"whole = kernellab.load({str(RECORDED)!r}).with_kernel(run_source=True)")
    assert lab.ask("bool(whole.compilation(0).resources.registers)") == "True"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("class Odd(BaseException): pass\nraise Odd('so')", "Odd: so"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("import sys; sys.setrecursionlimit(200)\ndef f(): f()\nf()", "RecursionError"),
    ],
)
def test_whatever_a_source_raises_is_its_own_error(tmp_path: Path, more: str, why: str) -> None:
    ran = in_process(written(tmp_path, more), "loaded.with_kernel(run_source=True)")
    assert "ArchiveError: The source of 'matmul'" in ran.stderr
    assert why in ran.stderr


def in_process(file: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    return run_python(SETUP.format(str(file)) + "\n".join(lines), stdin=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_script_is_refused_unless_it_trusts_the_file(file: Path) -> None:
    refused = in_process(file, "loaded.with_kernel()")
    assert refused.returncode == 1
    assert "ArgumentError" in refused.stderr
    assert runs(file) == 0
    agreed = in_process(file, "loaded.with_kernel(run_source=True)")
    assert (agreed.returncode, agreed.stderr) == (0, "")
    assert runs(file) == 1


@pytest.mark.slow
def test_pythons_own_prompt_asks(file: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-i", "-q"],
        env={**os.environ, "PYTHONPATH": python_path(ROOT), "PYTHON_BASIC_REPL": "1"},
        input=SETUP.format(str(file)) + "known = loaded.with_kernel()\nn\nloaded.knows_kernel\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert "Run it? [y/N]" in asked.stdout
    assert "was not run, because the answer was no" in asked.stderr
    assert runs(file) == 0


@pytest.mark.slow
def test_what_shows_nothing_or_turns_lines_around_is_shown(
    notebook: StartNotebook, tmp_path: Path
) -> None:
    lab = notebook(SETUP.format(str(written(tmp_path, "A = '\x1b[2J\u202e\u200b é'"))))
    words = lab.converse("loaded.with_kernel()", ["n"])
    assert "A = '\\x1b[2J\\u202e\\u200b é'" in words
