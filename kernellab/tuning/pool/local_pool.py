"""Processes of this machine that compile and run configs, kept from one sweep to the next."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from kernellab.tuning.pool.assignments import Setup, Wishes
from kernellab.tuning.pool.worker import Member
from kernellab.tuning.results.records import Outcome


class _Pool:
    """Processes that take calls in turn, each driven by a thread."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._threads = ThreadPoolExecutor(len(members), thread_name_prefix="kernellab-tuning")
        self._members = members
        # The last that was used goes first, so that few calls start few processes.
        self._free: LifoQueue[Member] = LifoQueue()
        for member in self._members:
            self._free.put(member)

    def submit(self, call: Callable[[Member], Outcome]) -> Future[Outcome]:
        def with_a_member() -> Outcome:
            member = self._free.get()
            try:
                return call(member)
            finally:
                self._free.put(member)

        return self._threads.submit(with_a_member)

    @property
    def size(self) -> int:
        """How many processes there are."""
        return len(self._members)

    def for_each(self, call: Callable[[Member], None]) -> None:
        for member in self._members:
            call(member)

    def shut_down(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class LocalCrew:
    """Processes of this machine: some that compile, and one for each GPU that runs; without a GPU those that compile run too."""

    compiles_first = True

    def __init__(self, compilers: int, gpus: Sequence[int]) -> None:
        self._compilers = _Pool([Member() for _ in range(compilers)])
        # Whichever is free takes the next config: one that hangs holds up none but itself.
        self._runners = _Pool([Member(gpu) for gpu in gpus]) if gpus else self._compilers
        self.runs_at_once = self._runners.size
        self.is_stopped = False

    def get_ready(self, setup: Setup) -> None:
        """See Crew."""
        for _ in range(self.runs_at_once):
            self._runners.submit(lambda member: member.get_ready(setup))

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """See Crew."""
        return self._compilers.submit(lambda member: member.compile(job, task, seconds))

    def run(self, setup: Setup, task: bytes, wishes: Wishes, seconds: float) -> Future[Outcome]:
        """See Crew."""
        return self._runners.submit(lambda member: member.run(setup, task, wishes, seconds))

    def release(self) -> None:
        """Let go of a sweep's arguments; the processes stay for the next."""
        for pool in self._pools:
            pool.for_each(Member.release)

    def stop(self) -> None:
        """End every process, whatever it is doing."""
        self.is_stopped = True
        for pool in self._pools:
            pool.shut_down()
            pool.for_each(Member.kill)

    @property
    def _pools(self) -> list[_Pool]:
        runners = [] if self._runners is self._compilers else [self._runners]
        return [self._compilers, *runners]


_kept: dict[tuple[int, tuple[int, ...]], LocalCrew] = {}


def local_crew(compilers: int, gpus: Sequence[int]) -> LocalCrew:
    """The crew of that size, kept from one sweep to the next: its processes take seconds to start."""
    key = (compilers, tuple(gpus))
    for other in [one for one, crew in _kept.items() if one != key or crew.is_stopped]:
        _kept.pop(other).stop()
    if key not in _kept:
        _kept[key] = LocalCrew(compilers, gpus)
    return _kept[key]


def close_crews() -> None:
    """End the processes that were kept."""
    while _kept:
        _kept.popitem()[1].stop()


atexit.register(close_crews)


def usable_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
