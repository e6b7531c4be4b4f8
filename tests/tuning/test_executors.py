"""Sweeps on somebody's executor: a pool of processes, and a cluster that loses a worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
import torch
import triton

import kernellab
from kernellab.tuning import crews
from kernellab.tuning.gpus import this_machine
from tests.tuning.kernels import double

SPACE = {"BLOCK": [32, 64, 128, 256], "num_warps": [1, 2, 4]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Outcomes of other runs must not count."""
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))


def swept(executor, n=1000, **wishes):
    x, z = torch.arange(n, dtype=torch.float32), torch.zeros(n)
    return kernellab.tune(
        double, lambda meta: (triton.cdiv(n, meta["BLOCK"]),), x, z, n,
        space=SPACE, reference={"z_ptr": 2 * x}, check=True, executor=executor, **wishes,
    )  # fmt: skip


def test_any_executor_sweeps_and_large_arguments_go_once_to_each_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        sweep = swept(pool, n=300_000)  # more than a call takes along unasked
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 12
    assert all(one.outcome.compiled for one in sweep.trials)


def test_a_cluster_that_loses_a_worker_in_the_middle_finishes_the_sweep() -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, resources={"slot": 1}
    )  # fmt: skip
    with cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        half_done: list[bool] = []
        killer = threading.Thread(target=kill_half_way, args=(client, pids[0], half_done))
        killer.start()
        sweep = swept(client.get_executor(resources={"slot": 1}))
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()  # it did die
    assert half_done
    assert [one.outcome.checked for one in sweep.trials] == ["the reference"] * 12
    again = swept(IdleExecutor())
    assert again.table.equals(sweep.table)


class IdleExecutor(ThreadPoolExecutor):
    """Says which machine it is, and does no work: all is known from the sweep before."""

    def submit(self, function, /, *args, **keywords):
        assert function is crews.machine_there
        return super().submit(lambda: (this_machine(None), None))


def kill_half_way(client, pid: int, half_done: list[bool]) -> None:
    """End a worker once some configs are done and others are not."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done = sum("compile_there" in key or "run_there" in key for keys in client.has_what().values() for key in keys)  # fmt: skip
        busy = sum(map(len, client.processing().values()))
        if done >= 2 and busy >= 2:
            half_done.append(True)
            break
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
