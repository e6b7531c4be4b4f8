"""What a confined process is refused, tried in copies of this process."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernellab.common.processes import Forked
from kernellab.judging.confinement import MEMORY, confine, end_on_process_calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement is Linux's")


def raised(folder: Path, attempt: Callable[[], object]) -> str:
    """Return the name of the error that an attempt raises in a confined copy of this process."""

    def confined() -> str:
        confine(str(folder), 20)
        try:
            attempt()
        except Exception as error:
            return type(error).__name__
        return ""

    return Forked(confined).result()


def write(file: Path) -> object:
    return file.write_text("written")


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        (lambda: subprocess.Popen(["true"]), "PermissionError"),
        (os.fork, "PermissionError"),
        (socket.socket, "PermissionError"),
        (lambda: os.kill(os.getppid(), 0), "PermissionError"),
        (lambda: os.kill(os.getpid(), 0), ""),
        (lambda: resource.setrlimit(resource.RLIMIT_CPU, (99, 99)), "ValueError"),
        (lambda: bytearray(MEMORY + (1 << 30)), "MemoryError"),
        (lambda: write(Path("/dev/null")), ""),
        (lambda: Path(__file__).read_text(), ""),
    ],
)
def test_it_is_refused_or_allowed(
    attempt: Callable[[], object], error: str, tmp_path: Path
) -> None:
    assert raised(tmp_path, attempt) == error


def test_files_are_written_in_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    assert raised(folder, lambda: write(folder / "inside")) == ""
    assert (folder / "inside").read_text() == "written"
    assert raised(folder, lambda: write(tmp_path / "outside")) == "PermissionError"
    assert not (tmp_path / "outside").exists()


def test_the_memory_of_another_process_is_not_read(tmp_path: Path) -> None:
    parent = os.getpid()
    assert (
        raised(tmp_path, lambda: os.open(f"/proc/{parent}/mem", os.O_RDONLY)) == "PermissionError"
    )


def test_a_call_ends_the_process_where_a_kernel_compiles(tmp_path: Path) -> None:
    def confined() -> None:
        confine(str(tmp_path), 20)
        end_on_process_calls()
        os.system("true")

    worked, how = Forked(confined).wait()
    assert not worked
    assert signal.Signals.SIGSYS.name in str(how)
