"""Pools of the processes that compile and run configs: on this machine, or of any executor."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from queue import LifoQueue
from typing import Any

from kernellab.common.processes import Worker
from kernellab.common.system import translated_system_faults
from kernellab.common.text import format_seconds, shown
from kernellab.errors import ArgumentError, KernelLabError, WorkerError, WorkerLost
from kernellab.records import Target
from kernellab.tuning.assignments import Delivery, Setup, TrialOptions, setup_without_bytes
from kernellab.tuning.records import Compiled, Dropped, Outcome, Reason, SweepMachine
from kernellab.tuning.worker import one_gpu_for_me, process_is_spoilt, with_compiled

# A process that compiles or runs one config at a time, and messages on configs that ended it.

_HERE = "kernellab.tuning.worker"

START_SECONDS = 300.0
"""How long a process may take to start, import torch, open a GPU and load the arguments. This does
not count as a config's time."""


class SweepWorker:
    """A process that does one thing at a time, and is restarted if a config ended it."""

    def __init__(self, gpu: int | None = None) -> None:
        """Prepare a process that works on that GPU, or on none."""
        self.gpu = gpu
        self._worker = Worker("The config")
        self._prepared: tuple[int | None, Setup] | None = None

    def compile(self, job: bytes, task: bytes, seconds: float) -> Outcome:
        self._start()
        return self._guarded("compile_config", "compiling", seconds, job, task)

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Outcome:
        setup = self._here(setup)
        try:
            self._prepare(setup)
        except WorkerError as error:
            return _of_death(error, "getting ready to run", START_SECONDS)
        except KernelLabError as error:
            return Outcome(dropped=Dropped("lost", error.problem))
        outcome = self._guarded(
            "run_config", "running", seconds, setup_without_bytes(setup), task, trial_options
        )
        if process_is_spoilt(outcome):
            self._worker.close()
        return outcome

    def machine(self) -> tuple[SweepMachine, Target | None]:
        answer: tuple[SweepMachine, Target | None] = self._worker.call(
            f"{_HERE}:machine_here", True, seconds=START_SECONDS
        )
        return answer

    def get_ready(self, setup: Setup) -> Outcome:
        with contextlib.suppress(KernelLabError):  # The first config that runs will report it.
            self._prepare(self._here(setup))
        return Outcome()

    def _here(self, setup: Setup) -> Setup:
        return setup if self.gpu is None else replace(setup, device=self.gpu)

    def release(self) -> None:
        self._prepared = None
        if self._worker.process_id is not None:
            with contextlib.suppress(WorkerError):
                self._worker.call(f"{_HERE}:release")

    def close(self) -> None:
        self._worker.close()

    def kill(self) -> None:
        """End the process from another thread, whatever it is doing."""
        self._worker.kill()

    def _start(self) -> None:
        """Start the process; importing torch and Triton does not count as a config's time."""
        if self._worker.process_id is None:
            self._worker.call(f"{_HERE}:release", seconds=START_SECONDS)

    def _prepare(self, setup: Setup) -> None:
        self._start()
        if self._prepared != (self._worker.process_id, setup):
            self._worker.call(f"{_HERE}:prepare", setup, seconds=START_SECONDS)
            self._prepared = (self._worker.process_id, setup)

    def _guarded(self, function: str, doing: str, seconds: float, *arguments: Any) -> Outcome:
        try:
            outcome: Outcome = self._worker.call(f"{_HERE}:{function}", *arguments, seconds=seconds)
        except WorkerError as error:
            return _of_death(error, doing, seconds)
        except KernelLabError as error:  # raised by this process, not by the config
            return Outcome(dropped=Dropped("lost", f"{doing} it: {error}"))
        return outcome


# Messages on configs without an outcome

_ERROR_LINE = re.compile(r"error|assert|fatal|abort", re.IGNORECASE)


def _of_death(error: WorkerError, doing: str, seconds: float) -> Outcome:
    """Return why a config has no outcome; `doing` is what the process did with it."""
    if isinstance(error, WorkerLost) and not error.died:
        return Outcome(dropped=Dropped("lost", error.problem), lasts=False)
    reason: Reason = "time-out" if error.timed_out else "crash" if error.died else "fault"
    dropped = Dropped(reason, _format_death(error, doing, seconds))
    return Outcome(dropped=dropped, lasts=False)


def _format_death(error: WorkerError, doing: str, seconds: float) -> str:
    if error.timed_out:
        return f"{doing} it took longer than {format_seconds(seconds)}, and was stopped"
    if not error.died:
        lines = error.problem.strip().splitlines()  # a traceback, whose last line is the error
        return f"{doing} it failed: {lines[-1]}\n{error.problem}"
    ended = f"{doing} it ended the process ({error.ending})"
    if not error.last_words:
        return f"{ended}, which printed nothing"
    lines = error.last_words.splitlines()
    error_line = next(
        (line.strip() for line in lines if _ERROR_LINE.search(line)), lines[-1].strip()
    )
    return f"{ended}: {error_line}\nAll that it printed:\n{error.last_words}"


# Processes on this machine that compile and run configs, kept from one sweep to the next.


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

# Use a cluster, or any executor, as a worker pool: what is submitted here, and what its processes
# run there.

SILENCE = 20.0
"""Seconds without an answer from an executor's processes until a message reports it; importing
torch and Triton takes a few."""


class ExecutorPool:
    """A Dask client, or any `concurrent.futures.Executor`: each config is one call, which compiles,
    checks and times it in a separate process there.
    """

    compiles_first = False
    runs_at_once = 1

    def __init__(self, executor: Any) -> None:
        self._client = None if isinstance(executor, Executor) else executor
        self._executor = executor if self._client is None else _executor_of(self._client)
        self._with_gpu = False
        self._futures: set[Future[Any]] = set()
        """The calls that are not done. A cluster repeats a call that was lost with a worker as long
        as its future is referenced."""
        self._scattered: dict[Hashable, Any] = {}
        """By their contents, arguments and references that each worker of a cluster has."""

    def machine(self) -> tuple[SweepMachine, Target | None]:
        """Return the machine and target that one of the processes reports, including its GPU."""
        try:
            machine, target = self._first_answer(self._submit(machine_there))
            if not isinstance(machine, SweepMachine):
                raise TypeError(f"they returned {shown(machine)}")
        except Exception as error:  # an executor of the user's may raise anything
            raise ArgumentError(
                f"the executor's processes cannot sweep: {type(error).__name__}: {error}",
                advice="Each needs KernelLab, with the Python and the Triton of this process.",
            ) from error
        self._with_gpu = bool(machine.gpu)
        return machine, target

    def _first_answer(self, future: Future[Any]) -> tuple[SweepMachine, Target | None]:
        """Return the first answer; print a message if it takes long, since a sweep without
        processes would only look slow.
        """
        try:
            answer: tuple[SweepMachine, Target | None] = future.result(timeout=SILENCE)
        except TimeoutError:
            print(
                "kernellab.tune waits for the executor: none of its processes has answered for "
                f"{SILENCE:g} seconds. Check that it has processes with the requested resources.",
                file=sys.stderr,
            )
            answer = future.result()
        return answer

    def get_ready(self, setup: Setup) -> None:
        """See WorkerPool; an executor's processes get ready with their first config."""

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """See WorkerPool."""
        return self._submit(compile_there, job, task, seconds)

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        """See WorkerPool."""
        light, sent = setup_without_bytes(setup), self._sent(setup.arguments, setup.reference)
        return self._submit(run_there, light, sent, task, trial_options, seconds, self._with_gpu)

    def _sent(self, arguments: Delivery, reference: Delivery | None) -> Any:
        """Return what a call takes to have the arguments: of a cluster, the name of what each
        worker was sent once.
        """
        if self._client is None:
            return arguments, reference
        contents = arguments.digest, reference and reference.digest
        known = self._scattered.get(contents)
        if known is None or known.status != "finished":  # lost with all workers
            sent = [(arguments, reference)]
            [known] = self._client.scatter(sent, broadcast=True, hash=False)
            self._scattered[contents] = known
        return known

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future = self._executor.submit(function, *arguments)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def stop(self) -> None:
        """Cancel what has not begun; the executor stays its owner's."""
        for future in tuple(self._futures):
            future.cancel()


Deliveries = tuple[Delivery, Delivery | None]
"""Arguments and expected results."""


def _executor_of(client: Any) -> Executor:
    """Return an executor of a Dask client. A call takes one unit of the resource "GPU" where
    workers have it, and is repeated where its worker is lost.
    """
    workers = client.scheduler_info()["workers"].values()
    has_gpus = any("GPU" in worker["resources"] for worker in workers)
    resources = {"resources": {"GPU": 1}} if has_gpus else {}
    executor: Executor = client.get_executor(retries=3, **resources)
    return executor


# In its processes

_child: list[SweepWorker] = []
_gpu_before: list[int] = []
"""The GPU of the config before, which has the arguments already."""
_lock = threading.Lock()


def machine_there() -> tuple[SweepMachine, Target | None]:
    """In an executor's process: return the machine and its target."""
    with _lock:
        return _worker_there().machine()


def compile_there(job: bytes, task: bytes, seconds: float) -> Outcome:
    """In an executor's process: compile a config."""
    with _lock:
        return _worker_there().compile(job, task, seconds)


def run_there(
    setup: Setup,
    deliveries: Deliveries,
    task: bytes,
    trial_options: TrialOptions,
    seconds: float,
    with_gpu: bool,
) -> Outcome:
    """In an executor's process: compile, check and time a config in a child process, which may
    crash.
    """
    arguments, reference = deliveries
    with _lock:
        worker = _worker_there()
        compiled = worker.compile(setup.job, task, seconds)
        if compiled.dropped is not None:
            return compiled
        said: Compiled | None = compiled.compiled
        with one_gpu_for_me(*_gpu_before) if with_gpu else contextlib.nullcontext(None) as device:
            if device is not None:
                _gpu_before[:] = [device]
            here = replace(setup, arguments=arguments, reference=reference, device=device)
            return with_compiled(worker.run(here, task, trial_options, seconds), said)


def _worker_there() -> SweepWorker:
    if not _child:
        _child.append(SweepWorker())
        atexit.register(_child[0].close)
    return _child[0]
