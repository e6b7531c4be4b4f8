"""Processes that hang, crash and come back."""

from __future__ import annotations

import os
import signal

import pytest
from syrupy.assertion import SnapshotAssertion

from kernellab.tuning import pools
from kernellab.tuning.assignments import Delivery, Setup, TrialOptions
from kernellab.tuning.pools import LocalPool

SETUP = Setup(b"", Delivery("none"), None, None, None)
TRIAL_OPTIONS = TrialOptions(check=True, measure=True, method=None)


@pytest.fixture
def pool(monkeypatch):
    """One process, in which `tests.tuning.misbehaving` runs."""
    monkeypatch.setattr(pools, "_HERE", "tests.tuning.misbehaving")
    made = LocalPool(1, [])
    yield made
    made.stop()


@pytest.mark.slow
def test_a_config_that_hangs_or_crashes_takes_its_process_along_and_nothing_else(
    pool, messages: SnapshotAssertion
) -> None:
    def compiled(task: bytes, seconds: float = 600):
        return pool.compile(b"", task, seconds).result()

    first = compiled(b"fine")
    assert compiled(b"fine") == first  # the same process
    hung = compiled(b"hang", seconds=0.5)
    assert hung.dropped.reason == "time-out"
    assert hung.dropped.why == messages
    second = compiled(b"fine")
    assert second.dropped is None
    assert second != first  # another process
    crashed = compiled(b"abort")
    assert crashed.dropped.reason == "crash"
    assert crashed.dropped.line == messages
    assert compiled(b"fine").dropped is None


@pytest.mark.slow
def test_a_config_whose_process_is_suspended_is_lost_and_not_too_slow(
    pool, messages: SnapshotAssertion
) -> None:
    def compiled(task: bytes, seconds: float):
        return pool.compile(b"", task, seconds).result()

    compiled(b"fine", 600)
    (process,) = [one._worker.process_id for one in pool._compilers.workers]
    os.kill(process, signal.SIGSTOP)
    suspended = compiled(b"fine", 1.5)
    assert suspended.dropped.reason == "lost"
    assert "SIGSTOP" in suspended.dropped.why
    assert suspended.dropped.why == messages
    assert compiled(b"fine", 600).dropped is None


@pytest.mark.slow
def test_a_process_whose_gpu_met_an_error_is_replaced(pool) -> None:
    first = pool.run(SETUP, b"fine", TRIAL_OPTIONS, 600).result()
    spoilt = pool.run(SETUP, b"spoil", TRIAL_OPTIONS, 600).result()
    assert spoilt.dropped.reason == "crash"
    after = pool.run(SETUP, b"fine", TRIAL_OPTIONS, 600).result()
    assert after.dropped is None
    assert after != first


@pytest.mark.slow
def test_a_config_that_hangs_on_one_gpu_holds_up_none_of_the_others(monkeypatch) -> None:
    monkeypatch.setattr(pools, "_HERE", "tests.tuning.misbehaving")
    both = LocalPool(1, [0, 1])
    try:
        assert both.runs_at_once == 2
        hanging = both.run(SETUP, b"hang", TRIAL_OPTIONS, 600)
        others = [both.run(SETUP, b"fine", TRIAL_OPTIONS, 600) for _ in range(4)]
        assert all(one.result().dropped is None for one in others)
        assert not hanging.done()
    finally:
        both.stop()


@pytest.mark.slow
def test_stopping_ends_a_call_that_is_under_way(pool) -> None:
    pool.compile(b"", b"fine", 600).result()
    hanging = pool.compile(b"", b"hang", 600)
    pool.stop()
    assert hanging.cancelled() or hanging.result().dropped.reason == "crash"
