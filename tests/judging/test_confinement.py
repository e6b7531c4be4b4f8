"""What a confined process is refused, tried in copies of this process."""

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernellab.common.processes import Forked
from kernellab.errors import WorkerError
from kernellab.judging import confinement
from kernellab.judging.confinement import MEMORY, confine, end_on_process_calls, unconfined

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
        (lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19), "PermissionError"),
        (lambda: os.sched_setaffinity(os.getppid(), {0}), "PermissionError"),
        (lambda: socket.sethostname(socket.gethostname()), "PermissionError"),
        (lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()), "PermissionError"),
        (lambda: [os.memfd_create("x") for _ in range(65)], "OSError"),
        (lambda: write(Path("/dev/null")), ""),
        (lambda: Path(__file__).read_text(), ""),
    ],
)
def test_it_is_refused_or_allowed(attempt, error, tmp_path) -> None:
    assert raised(tmp_path, attempt) == error


def test_files_are_written_in_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    assert raised(folder, lambda: write(folder / "inside")) == ""
    assert (folder / "inside").read_text() == "written"
    assert raised(folder, lambda: write(tmp_path / "outside")) == "PermissionError"
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.chmod(0o666),
        lambda file: os.fchmod(os.open(file, os.O_RDONLY), 0o666),
        lambda file: os.chown(file, os.getuid(), os.getgid()),
        lambda file: os.lchown(file, os.getuid(), os.getgid()),
        lambda file: os.utime(file, (0, 0)),
        lambda file: os.setxattr(file, "user.name", b"value"),
        lambda file: fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX),
        lambda file: os.truncate(file, 0),
        lambda file: os.link(file, file.with_name("link")),
        lambda file: file.unlink(),
    ],
)
def test_what_belongs_to_a_file_is_not_changed(tmp_path, change) -> None:
    file = tmp_path / "someone's work"
    file.write_text("work")
    before = file.stat()
    folder = tmp_path / "own"
    folder.mkdir()
    assert raised(folder, lambda: change(file)) == "PermissionError"
    assert file.stat() == before


@pytest.mark.skipif(unconfined() != (), reason="this system does not confine processes")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda patch: patch.setattr("platform.machine", lambda: "s390x"), "seccomp"),
        (lambda patch: patch.setattr(confinement, "_landlock_version", lambda: -1), "remove"),
        (lambda patch: patch.setattr(confinement, "_landlock_version", lambda: 2), "empty"),
    ],
)
def test_what_a_system_does_not_refuse_is_said(monkeypatch, change, words) -> None:
    change(monkeypatch)
    (said,) = unconfined()
    assert words in said


@pytest.mark.skipif(unconfined() != (), reason="this system does not confine processes")
def test_what_the_system_refuses_to_set_up_is_an_error(tmp_path, monkeypatch) -> None:
    """Code does not run half confined."""
    monkeypatch.setattr(confinement, "_LANDLOCK_RESTRICT", 9999)
    with pytest.raises(WorkerError, match=r"^OSError"):
        Forked(lambda: confine(str(tmp_path), 20)).result()


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

    with pytest.raises(WorkerError, match=signal.Signals.SIGSYS.name):
        Forked(confined).result()
