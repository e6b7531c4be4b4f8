"""Work in a copy of this process, and limits of time: what takes longer is stopped where it is."""

import gc
import os
import sys
import time
import weakref

import pytest

from kernellab.common.processes import Forked
from kernellab.common.system import OutOfTime, StoppedForGood, limited
from kernellab.errors import WorkerError
from tests.support.python_processes import has_ended


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


def test_an_error_and_a_death_are_told(raised) -> None:
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        Forked(lambda: 1 // 0).result()
    with pytest.raises(WorkerError, match="SIGABRT"):
        Forked(os.abort).result()
    raised(WorkerError, Forked(lambda: os._exit(3)).result)
    with pytest.raises(WorkerError, match=r"SystemExit: 4"):
        Forked(lambda: sys.exit(4)).result()


def test_a_copy_ends_with_its_process(tmp_path) -> None:
    noted = tmp_path / "process"

    def parent() -> None:
        def work() -> None:
            noted.write_text(str(os.getpid()))
            time.sleep(600)

        copy = Forked(work)
        while not (noted.exists() and noted.read_text()):
            time.sleep(0.01)
        os._exit(0 if copy.process_id else 1)

    with pytest.raises(WorkerError, match="exit status 0"):
        Forked(parent).result(60)
    assert has_ended(int(noted.read_text()))


LONG = 30.0
"""Seconds; work that is stopped takes far less."""


def work_until(end: float) -> None:
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("error", [OutOfTime, StoppedForGood])
def test_work_that_takes_longer_is_stopped(error, messages) -> None:
    start = time.monotonic()
    with pytest.raises(error) as refused, limited(0.05, error):
        work_until(start + LONG)
    assert refused.value == messages
    assert time.monotonic() - start < LONG
    with limited(None), limited(600):
        time.sleep(0.01)


class Slow:
    """Its end takes longer than the limit."""

    def __del__(self) -> None:
        work_until(time.monotonic() + 0.2)


def slow_callback(_: object) -> None:
    work_until(time.monotonic() + 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["finalizer", "weak reference", "collector"])
def test_work_is_stopped_after_an_error_that_python_ignores(ends) -> None:
    """Errors of these functions are printed by Python, and the work goes on."""
    calls: list[str] = []

    def collected(phase: str, _: dict[str, int]) -> None:
        if not calls:  # the collector may run again later
            calls.append(phase)
            work_until(time.monotonic() + 0.2)

    def work() -> None:
        thing: Slow | set[int] = Slow() if ends == "finalizer" else set()
        reference = weakref.ref(thing, slow_callback)
        if ends == "collector":
            gc.callbacks.append(collected)
            gc.collect()
        del thing
        work_until(start + LONG)
        assert reference() is None

    start = time.monotonic()
    try:
        with pytest.raises(OutOfTime), limited(0.05):
            work()
    finally:
        if collected in gc.callbacks:
            gc.callbacks.remove(collected)
    assert time.monotonic() - start < 0.3 * LONG, "the next alarm comes 10 seconds later"
