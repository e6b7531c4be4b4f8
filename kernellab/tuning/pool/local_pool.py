"""Processes on this machine that compile and run configs, kept from one sweep to the next."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from kernellab.common.system_faults import translated_system_faults
from kernellab.tuning.pool.assignments import Setup, TrialOptions
from kernellab.tuning.pool.worker import SweepWorker
from kernellab.tuning.results.records import Outcome


class _WorkerGroup:
    """Processes that take calls in turn, each driven by a thread."""

    def __init__(self, workers: Sequence[SweepWorker]) -> None:
        self.threads = ThreadPoolExecutor(len(workers), thread_name_prefix="kernellab-tuning")
        self.workers = workers
        # The last that was used goes first, so that few calls start few processes.
        self._free: LifoQueue[SweepWorker] = LifoQueue()
        for worker in workers:
            self._free.put(worker)

    def submit(self, call: Callable[[SweepWorker], Outcome]) -> Future[Outcome]:
        def with_a_worker() -> Outcome:
            worker = self._free.get()
            try:
                return call(worker)
            finally:
                self._free.put(worker)

        with translated_system_faults("The sweep cannot go on"):
            return self.threads.submit(with_a_worker)


class LocalPool:
    """Processes on this machine: some that compile, and one per GPU that runs configs. Without a
    GPU, those that compile also run.
    """

    compiles_first = True

    def __init__(self, compilers: int, gpus: Sequence[int]) -> None:
        self._compilers = _WorkerGroup([SweepWorker() for _ in range(compilers)])
        # Whichever is free takes the next config, so that a config that hangs delays no other.
        self._runners = (
            _WorkerGroup([SweepWorker(gpu) for gpu in gpus]) if gpus else self._compilers
        )
        self._groups = (self._compilers, self._runners) if gpus else (self._compilers,)
        self.runs_at_once = len(self._runners.workers)
        self.is_stopped = False

    def get_ready(self, setup: Setup) -> None:
        """See WorkerPool."""
        for _ in range(self.runs_at_once):
            self._runners.submit(lambda worker: worker.get_ready(setup))

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """See WorkerPool."""
        return self._compilers.submit(lambda worker: worker.compile(job, task, seconds))

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        """See WorkerPool."""
        return self._runners.submit(lambda worker: worker.run(setup, task, trial_options, seconds))

    def release(self) -> None:
        """Free a sweep's arguments; the processes stay for the next sweep."""
        for group in self._groups:
            for worker in group.workers:
                worker.release()

    def stop(self) -> None:
        """End every process, whatever it is doing."""
        self.is_stopped = True
        for group in self._groups:
            group.threads.shutdown(wait=False, cancel_futures=True)
            for worker in group.workers:
                worker.kill()


_kept: dict[tuple[int, tuple[int, ...]], LocalPool] = {}


def local_pool(compilers: int, gpus: Sequence[int]) -> LocalPool:
    """Return the pool of that size, which is kept from one sweep to the next, since its processes
    take seconds to start.
    """
    key = (compilers, tuple(gpus))
    for other in [size for size, pool in _kept.items() if size != key or pool.is_stopped]:
        _kept.pop(other).stop()
    if key not in _kept:
        _kept[key] = LocalPool(compilers, gpus)
    return _kept[key]


def close_pools() -> None:
    """End the processes that were kept."""
    while _kept:
        _kept.popitem()[1].stop()


atexit.register(close_pools)
os.register_at_fork(after_in_child=_kept.clear)  # Their threads are the parent's.
