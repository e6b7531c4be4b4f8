"""The commands where their output is cut off, full, closed, or of a narrow encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.python_processes import python_path

ROOT = Path(__file__).parents[2]
COMPILE = f"compile {ROOT}/tests/kernels/tuned.py::product --constexpr BLOCK=64,BLOCK_K=64"


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's line in which KERNELLAB is the command."""
    return subprocess.run(
        ["bash", "-c", line.replace("KERNELLAB", f"{sys.executable} -m kernellab")],
        env={**os.environ, "PYTHONPATH": python_path(ROOT), **environment},
        cwd=folder, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", [COMPILE, "doctor", "demo"])
def test_who_reads_no_further_is_told_nothing(command: str, tmp_path: Path) -> None:
    done = shell(f"KERNELLAB {command} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.returncode, done.stderr) == (141, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", [COMPILE, "doctor", "demo"])
def test_output_that_cannot_be_written_is_one_line(command: str, tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    done = shell(f"KERNELLAB {command} > /dev/full", tmp_path)
    told = "kernellab: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_help_that_cannot_be_written_is_one_line_too(tmp_path: Path) -> None:
    for option in ("--help", "--version"):
        done = shell(f"KERNELLAB {option} > /dev/full", tmp_path, PYTHONUNBUFFERED="1")
        told = "kernellab: the output cannot be written: No space left on device\n"
        assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.timeout(300)
def test_a_report_beside_a_removed_folder_is_one_line(
    tmp_path: Path, messages: SnapshotAssertion
) -> None:
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
