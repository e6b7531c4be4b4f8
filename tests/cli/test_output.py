"""`kernellab profile` and `view`; commands whose output is cut off, full, closed, or narrow."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from kernellab.cli.main import BAD_INPUT, main
from tests.support.made_profiles import made_profile
from tests.support.python_processes import python_path
from tests.support.source_files import ROOT

COMPILE = f"compile {ROOT}/tests/kernels/tuned.py::product --constexpr BLOCK=64,BLOCK_K=64"
LONG_COMMANDS = (COMPILE, "doctor", "demo")


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's line in which KERNELLAB is the command."""
    return subprocess.run(
        ["bash", "-c", line.replace("KERNELLAB", f"{sys.executable} -m kernellab")],
        env={**os.environ, "PYTHONPATH": python_path(ROOT), **environment},
        cwd=folder, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", LONG_COMMANDS)
def test_who_reads_no_further_is_told_nothing(command: str, tmp_path: Path) -> None:
    done = shell(f"KERNELLAB {command} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.returncode, done.stderr) == (141, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.thinned(2)
@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    ["--help", "--version", *(pytest.param(c, marks=pytest.mark.slow) for c in LONG_COMMANDS)],
)
def test_output_that_cannot_be_written_is_one_line(command: str, tmp_path: Path) -> None:
    around = {"PYTHONUNBUFFERED": "1"} if command.startswith("--") else {}
    done = shell(f"KERNELLAB {command} > /dev/full", tmp_path, **around)
    told = "kernellab: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.timeout(300)
def test_a_report_beside_a_removed_folder_is_one_line(tmp_path, messages) -> None:
    gone = "mkdir gone; cd gone; rmdir ../gone"
    done = shell(f"{gone}; KERNELLAB {COMPILE} -o page.html", tmp_path)
    assert done.returncode == 2
    assert "page.html" in done.stderr
    assert done.stderr == messages
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_work_without_any_stream(tmp_path: Path) -> None:
    done = shell(f"KERNELLAB {COMPILE} -o page.html <&- >&- 2>&-", tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "page.html").read_text().startswith("<!")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "around",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
)
def test_letters_that_an_encoding_lacks_are_escaped(around: dict[str, str], tmp_path: Path) -> None:
    done = shell(f"KERNELLAB {COMPILE} --target sm_90", tmp_path, **around)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\xd7 HGMMA" in done.stdout or r"\xd7 HMMA" in done.stdout


@pytest.mark.parametrize("command", [COMPILE, "demo"])
def test_too_little_memory_to_load_torch_is_one_line(command: str, tmp_path: Path) -> None:
    done = shell(f"ulimit -v 300000; KERNELLAB {command}", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, advice = done.stderr.splitlines()
    assert first.startswith("kernellab: this command cannot run: ")
    assert "memory" in advice


SCRIPT = """
import sys
import torch, triton, triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x + 1, mask=i < n)


x = torch.ones(64, device="cuda")
for _ in range(3):
    add[(4,)](x, torch.empty_like(x), 64, BLOCK=16)
print("given", sys.argv[1:], __name__)
sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adds.py").write_text(SCRIPT)
    return tmp_path / "adds.py"


def test_a_script_is_profiled_as_it_is(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "-o", "p.hatchet", str(script), "a", "--b"]) == 3
    out = capsys.readouterr().out
    assert "given ['a', '--b'] __main__" in out
    assert re.search(r"\badd +3 ", out)
    assert out.partition("\n")[2].startswith("adds.py: ")
    if torch.cuda.is_available():
        assert "  proton, " in out
        return
    assert "  interpreter: not a GPU's time" in out
    assert "x = tl.load(x_ptr + i, mask=i < n)" in out
    assert main(["view", "p.hatchet", "-m", "count", "-d", "1"]) == 0
    assert capsys.readouterr().out == "3.000 ROOT\n└─ 3.000 add\n"
    assert main(["view", "p.hatchet"]) == 0
    assert "interpreter: not a GPU's time" in capsys.readouterr().out


def test_a_script_that_fails_has_a_profile_all_the_same(script, capsys) -> None:
    script.write_text(textwrap.dedent(SCRIPT).replace("sys.exit(3)", "1 / 0"))
    assert main(["profile", str(script)]) == 1
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err
    assert re.search(r"\badd +3 ", said.out)


def test_a_saved_profile_is_viewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = str(made_profile().save(tmp_path / "p"))
    assert main(["view", one]) == 0
    assert capsys.readouterr().out == f"{made_profile()}\n"
    assert main(["view", one, "-i", "matmul", "-m", "time/ms"]) == 0
    assert "matmul<&>" in capsys.readouterr().out
    assert main(["view", one, "--list"]) == 0
    assert "flops16" in capsys.readouterr().out.split()
    assert main(["view", one, "--diff", one]) == 0
    assert "+0.000 ROOT" in capsys.readouterr().out


def test_bad_input(tmp_path, capsys, messages) -> None:
    assert main(["profile", "no_such.py"]) == BAD_INPUT
    assert capsys.readouterr().err == messages
    (tmp_path / "cut").write_text('[{"frame": {')
    assert main(["view", str(tmp_path / "cut")]) == BAD_INPUT
    assert "cut off" in capsys.readouterr().err
    one = str(made_profile().save(tmp_path / "p"))
    assert main(["view", one, "-m", "nothing"]) == BAD_INPUT
    assert "no metric 'nothing'" in capsys.readouterr().err
