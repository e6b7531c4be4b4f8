"""The blocks of docs/debugging.md run as they are written, and print what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.python_processes import python_path

ROOT = Path(__file__).parents[2]
PROMPT = "(Pdb) "


@pytest.mark.slow
def test_the_first_session_of_the_page_is_what_pdb_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "debugging.md").read_text()
    kernels, program = re.findall(r"```python\n(.*?)```", page, re.S)[:2]
    shown = re.search(r"```\n(> add.*?)```", page, re.S)
    assert shown is not None
    (tmp_path / "kernels.py").write_text(kernels)
    (tmp_path / "program.py").write_text(program)
    session = shown[1].replace("/home/me/", f"{tmp_path}/")
    commands = [line for line in session.splitlines() if line.startswith(PROMPT)]
    done = subprocess.run(
        [sys.executable, "program.py"],
        input="".join(f"{line.removeprefix(PROMPT)}\n" for line in commands),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        timeout=120,
        check=False,
    )
    # pdb reads from a pipe here: what is typed does not show.
    printed = re.sub(r"^\(Pdb\) .*\n", PROMPT, session, flags=re.M)
    assert done.stdout.strip() == printed.strip(), done.stderr
