"""Sweeps on somebody's executor: a pool of processes, and a cluster that loses a worker."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pandas
import pytest
import torch
import triton
from syrupy.assertion import SnapshotAssertion

import kernellab
from kernellab.common.system import cache_folder
from kernellab.errors import ArgumentError
from kernellab.tuning import pools, tune
from kernellab.tuning.sweep import SweepProgress
from kernellab.tuning.worker import machine_here, this_machine
from tests.kernels.tuned import double

SPACE = {"BLOCK": [32, 64, 128, 256], "num_warps": [1, 4]}


def swept(executor, n=1000, space=SPACE, **options):
    x, z = torch.arange(n, dtype=torch.float32), torch.zeros(n)
    return kernellab.tune(
        double,
        lambda meta: (triton.cdiv(n, meta["BLOCK"]),),
        x,
        z,
        n,
        space=space,
        reference={"z_ptr": 2 * x},
        check=True,
        executor=executor,
        **options,
    )


@pytest.mark.slow
def test_any_executor_sweeps_and_large_arguments_go_once_to_each_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        # more than a call takes along unasked
        sweep = swept(pool, n=300_000, space={"BLOCK": [64, 128, 256]})
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 3
    assert all(one.outcome.compiled for one in sweep.trials)


@pytest.mark.slow
def test_threads_sweep_too() -> None:
    with ThreadPoolExecutor(2) as pool:
        sweep = swept(pool, space={"BLOCK": [64, 128]})
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 2


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_in_the_middle_finishes_the_sweep(monkeypatch) -> None:
    distributed = pytest.importorskip("distributed")

    async def give_slot(dask_worker) -> None:  # here, since workers do not import this file
        await dask_worker.set_resources(slot=1)

    cluster = distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        *chosen, left_out = pids
        client.run(give_slot, workers=chosen)
        killing = KillsWhenThreeAreDone(pids[chosen[0]])
        with monkeypatch.context() as patch:
            patch.setattr(tune, "SweepProgress", lambda *_: killing)
            sweep = swept(client.get_executor(resources={"slot": 1}))
        assert pids[chosen[0]] not in client.run(os.getpid).values()  # it did die
        assert not [
            key for key in client.has_what()[left_out] if "_there" in key
        ]  # pinned by resources
    assert killing.heard == 8  # results stream back
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 8
    again = swept(IdleExecutor())
    # Stored times of a GPU are rounded to a tenth of a nanosecond.
    pandas.testing.assert_frame_equal(again.table, sweep.table, rtol=1e-3)


class KillsWhenThreeAreDone(SweepProgress):
    """Ends a worker's process while most configs are still to be done."""

    def __init__(self, pid: int) -> None:
        super().__init__("k", 8, shown=False)
        self.heard = 0
        self._pid = pid

    def done(self, trial) -> None:
        self.heard += 1
        if self.heard == 3:
            os.kill(self._pid, signal.SIGKILL)


class IdleExecutor(ThreadPoolExecutor):
    """Says which machine it is, and does no work: all is known from the sweep before."""

    def submit(self, function, /, *args, **keywords):
        assert function is pools.machine_there
        return super().submit(machine_here, True)


class BreakingExecutor(IdleExecutor):
    """Breaks with the first config, as a pool of processes does when one of them is killed."""

    def submit(self, function, /, *args, **keywords):
        if function is not pools.machine_there:
            raise BrokenExecutor("a process of the pool was terminated abruptly")
        return super().submit(function)


def test_an_executor_that_breaks_gives_the_table_with_what_was_lost() -> None:
    sweep = swept(BreakingExecutor(), space={"BLOCK": [64, 128]})
    assert set(sweep.table["dropped"]) == {"lost"}
    assert "BrokenExecutor: a process of the pool was terminated abruptly" in sweep.table["why"][1]
    assert len(list(cache_folder("tuning").rglob("*.json"))) == 0  # to be tried again the next time


class OtherMachine(IdleExecutor):
    """Its processes have another Triton than the one that answered for all."""

    def submit(self, function, /, *args, **keywords):
        if function is pools.machine_there:
            there = replace(this_machine(None), triton="3.0.0")
            return ThreadPoolExecutor.submit(self, lambda: (there, None))
        return ThreadPoolExecutor.submit(self, function, *args)


@pytest.mark.slow
def test_processes_with_another_triton_are_not_mixed_in() -> None:
    with OtherMachine(1) as pool:
        sweep = swept(pool, space={"BLOCK": [64]})
    assert list(sweep.table["dropped"]) == ["lost"]
    assert (
        f"this process has Triton {triton.__version__}, but the sweep needs Triton 3.0.0"
        in sweep.table["why"][0]
    )


def test_executors_that_cannot_answer_are_told(monkeypatch, messages: SnapshotAssertion) -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(ArgumentError) as refused:
        swept(closed)
    assert refused.value == messages
    monkeypatch.setattr(pools, "SILENCE", 0.05)
    occupied = IdleExecutor(1)
    release = threading.Event()
    ThreadPoolExecutor.submit(occupied, release.wait)
    told = Releasing(release)
    monkeypatch.setattr(sys, "stderr", told)
    with pytest.raises(ArgumentError) as refused:
        swept(occupied, space={"BLOCK": []})
    assert refused.value == messages
    assert told.text == messages


class Releasing:
    """Takes what is written, and lets the executor answer then."""

    def __init__(self, event: threading.Event) -> None:
        self.text = ""
        self._event = event

    def write(self, text: str) -> None:
        self.text += text
        self._event.set()

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """It is no terminal."""
        return False
