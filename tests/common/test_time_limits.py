"""Limits of time: work that takes longer is stopped wherever it is."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
from syrupy.assertion import SnapshotAssertion

from kernellab.common.system import OutOfTime, StoppedForGood, limited

LONG = 30.0
"""Seconds; work that is stopped takes far less."""


def work_until(end: float) -> None:
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("error", [OutOfTime, StoppedForGood])
def test_work_that_takes_longer_is_stopped(
    error: type[OutOfTime | StoppedForGood], messages: SnapshotAssertion
) -> None:
    start = time.monotonic()
    with pytest.raises(error) as refused, limited(0.05, error):
        work_until(start + LONG)
    assert refused.value == messages
    assert time.monotonic() - start < LONG


class Slow:
    """Its end takes longer than the limit."""

    def __del__(self) -> None:
        work_until(time.monotonic() + 0.2)


def slow_callback(_: object) -> None:
    work_until(time.monotonic() + 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["finalizer", "weak reference", "collector"])
def test_work_is_stopped_after_an_error_that_python_ignores(ends: str) -> None:
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
