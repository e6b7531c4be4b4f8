"""Work in a copy of this process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kernellab.common.processes import Forked
from kernellab.common.system import OutOfTime, limited
from kernellab.errors import WorkerError
from tests.support.python_processes import is_running


def test_a_copy_has_what_is_here_and_changes_nothing() -> None:
    held = ["here"]

    def work() -> tuple[int, list[str]]:
        held.append("there")
        return os.getpid(), held

    one, other = Forked(work), Forked(lambda: "x" * 1_000_000)
    process, there = one.result()
    assert process != os.getpid()
    assert there == ["here", "there"]
    assert held == ["here"]
    assert len(other.result()) == 1_000_000
    assert one.result() == (process, there)


def test_an_error_and_a_death_are_told(messages: SnapshotAssertion) -> None:
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        Forked(lambda: 1 // 0).result()
    with pytest.raises(WorkerError, match="SIGABRT"):
        Forked(os.abort).result()
    with pytest.raises(WorkerError) as refused:
        Forked(lambda: os._exit(3)).result()
    assert refused.value == messages
    with pytest.raises(WorkerError, match=r"SystemExit: 4"):
        Forked(lambda: sys.exit(4)).result()


def test_a_copy_ends_with_its_process(tmp_path: Path) -> None:
    noted = tmp_path / "process"

    def parent() -> None:
        def work() -> None:
            noted.write_text(str(os.getpid()))
            time.sleep(600)

        Forked(work)
        while not (noted.exists() and noted.read_text()):
            time.sleep(0.01)
        os._exit(0)

    Forked(parent).wait()
    process = int(noted.read_text())
    deadline = time.monotonic() + 60
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(process)


def _slow(done: list[int]) -> None:
    for number in range(10_000):
        done.append(number)
        time.sleep(0.01)


def test_work_that_takes_too_long_is_stopped_from_within(messages: SnapshotAssertion) -> None:
    done: list[int] = []
    with pytest.raises(OutOfTime) as refused, limited(0.05):
        _slow(done)
    assert refused.value == messages
    assert 0 < len(done) < 10_000
    with limited(None), limited(600):
        time.sleep(0.01)
