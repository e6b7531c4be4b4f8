"""Decide when configs are compiled and run; the pools of processes that do it."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from queue import LifoQueue
from typing import Any, TypeVar

from kernellab.common.processes import Worker
from kernellab.common.progress import ProgressBar
from kernellab.common.system import translated_system_faults
from kernellab.common.text import error_text, format_seconds, time_text
from kernellab.errors import ArgumentError, KernelLabError, WorkerError, WorkerLost
from kernellab.records import Target
from kernellab.tuning.assignments import Delivery, Setup, TrialOptions, setup_without_bytes
from kernellab.tuning.files import Store
from kernellab.tuning.records import (
    INTERRUPTED,
    Candidate,
    Dropped,
    Method,
    Outcome,
    Reason,
    SweepMachine,
    Timing,
    Trial,
    finalists,
)
from kernellab.tuning.worker import one_gpu_for_me

_HERE = "kernellab.tuning.worker"

START_SECONDS = 300.0
"""How long a process may take to start and load; not counted as a config's time."""


class SweepWorker:
    """A process that does one thing at a time, and is restarted if a config ended it."""

    def __init__(self, gpu: int | None = None) -> None:
        """Prepare a process that works on that GPU, or on none."""
        self.gpu = gpu
        self._worker = Worker("The config")
        self._prepared: tuple[int | None, Setup] | None = None

    def compile(self, job: bytes, task: bytes, seconds: float) -> Outcome:
        self.start()
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
        if outcome.dropped is not None and outcome.dropped.reason == "crash":
            self._worker.close()  # CUDA repeats the error for all later calls
        return outcome

    def machine(self) -> tuple[SweepMachine, Target | None]:
        answer: tuple[SweepMachine, Target | None] = self._worker.call(
            f"{_HERE}:machine_here", seconds=START_SECONDS
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

    def start(self) -> None:
        """Start the process; importing torch and Triton does not count as a config's time."""
        if self._worker.process_id is None:
            self._worker.call(f"{_HERE}:release", seconds=START_SECONDS)

    def _prepare(self, setup: Setup) -> None:
        self.start()
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
    """Processes here: some compile, one per GPU runs configs; without a GPU, all do both."""

    def __init__(self, compilers: int, gpus: Sequence[int]) -> None:
        self._compilers = _WorkerGroup([SweepWorker() for _ in range(compilers)])
        # Whichever is free takes the next config, so that a config that hangs delays no other.
        self._runners = (
            _WorkerGroup([SweepWorker(gpu) for gpu in gpus]) if gpus else self._compilers
        )
        self._finalists = _WorkerGroup(self._runners.workers[:1])
        self._groups = (self._compilers, self._runners) if gpus else (self._compilers,)
        self.runs_at_once = len(self._runners.workers)
        self.compiles_at_once = 2 * compilers  # Each has its next config when one is done.
        self.is_stopped = False

    def get_ready(self, setup: Setup) -> None:
        for _ in range(self.runs_at_once):
            self._runners.submit(lambda worker: worker.get_ready(setup))

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        return self._compilers.submit(lambda worker: worker.compile(job, task, seconds))

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        group = self._finalists if trial_options.again else self._runners
        return group.submit(lambda worker: worker.run(setup, task, trial_options, seconds))

    def release(self) -> None:
        """Free a sweep's arguments; the processes stay for the next sweep."""
        for group in self._groups:
            for worker in group.workers:
                worker.release()

    def stop(self) -> None:
        self.is_stopped = True
        self._finalists.threads.shutdown(wait=False, cancel_futures=True)
        for group in self._groups:
            group.threads.shutdown(wait=False, cancel_futures=True)
            for worker in group.workers:
                worker.kill()


_kept: dict[tuple[int, tuple[int, ...]], LocalPool] = {}


def local_pool(compilers: int, gpus: Sequence[int]) -> LocalPool:
    """Return the pool of that size, kept between sweeps, since processes start slowly."""
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

T = TypeVar("T")

SILENCE = 20.0
"""Seconds without an answer from a cluster until a message says so; torch takes a few."""


class ClusterPool:
    """A Dask client: each config is two tasks, one that compiles it and one that checks and times
    it, both in separate processes of a worker. A worker's threads compile at the same time.

    A task that runs a config takes one unit of the resource "GPU" if workers have it. A task is
    repeated if its worker is lost.
    """

    def __init__(self, client: Any) -> None:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        with_gpus = [name for name, worker in workers.items() if "GPU" in worker["resources"]]
        self._places = with_gpus or [*workers]
        self.runs_at_once = max(1, len(self._places))
        # One thread per GPU is left free, in which a config runs as soon as the GPU is.
        threads = sum(worker["nthreads"] for worker in workers.values()) - len(with_gpus)
        self.compiles_at_once = max(threads, self.runs_at_once)
        self._client = client
        self._executor = client.get_executor(retries=3)
        # Without a priority, Dask would run the first config when the last is compiled.
        self._to_run: dict[str, Any] = {"priority": 1}
        if with_gpus:
            self._to_run["resources"] = {"GPU": 1}
        self._to_run_again = {
            **self._to_run, "workers": self._places[:1] or None, "allow_other_workers": True
        }  # fmt: skip
        self._with_gpu = False
        self._futures: set[Future[Any]] = set()
        """Tasks in progress: a cluster repeats lost ones while their futures are referenced."""
        self._scattered: dict[tuple[str, str | None], Any] = {}
        """By their contents, arguments and references that each worker has."""

    def machine(self, configs: int) -> tuple[SweepMachine, Target | None]:
        """Return a worker's machine and target; start the processes for so many compilations."""
        try:
            there = self.submit(machine_there, **self._to_run)
            for _ in range(min(configs, self.compiles_at_once)):
                self.submit(start_there, pure=False)
            machine, target = self.first_answer(there)
        except Exception as error:  # whatever a worker raises
            raise ArgumentError(
                f"The sweep failed on the cluster's workers: {error_text(error)}",
                advice="Install KernelLab on every worker, with the versions of Python and "
                "Triton of this process.",
            ) from error
        self._with_gpu = bool(machine.gpu)
        return machine, target

    def first_answer(self, future: Future[T]) -> T:
        """Return the first answer; say so if it takes long, as if there were no workers."""
        if not wait([future], timeout=SILENCE).done:
            print(
                "KernelLab waits for the cluster: none of its workers has answered for "
                f"{SILENCE:g} seconds. Check that it has workers with the requested resources.",
                file=sys.stderr,
            )
        return future.result()

    def get_ready(self, setup: Setup) -> None:
        """A worker's process starts and takes the arguments while others compile; without a GPU,
        that of each thread does so with its first config.
        """
        light, sent = setup_without_bytes(setup), self._sent(setup.arguments, setup.reference)
        for place in self._places if self._with_gpu else ():
            there = {**self._to_run, "workers": [place], "pure": False}
            self.submit(get_ready_there, light, sent, **there)

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        return self.submit(compile_there, job, task, seconds)

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        light, sent = setup_without_bytes(setup), self._sent(setup.arguments, setup.reference)
        how = self._to_run_again if trial_options.again else self._to_run
        return self.submit(
            run_there, light, sent, task, trial_options, seconds, self._with_gpu, **how
        )

    def _sent(self, arguments: Delivery, reference: Delivery | None) -> Any:
        """Return the name of the arguments and the reference, which each worker is sent once."""
        contents = arguments.digest, None if reference is None else reference.digest
        known = self._scattered.get(contents)
        if known is None or known.status != "finished":  # lost with all workers
            sent = [(arguments, reference)]
            [known] = self._client.scatter(sent, broadcast=True, hash=False)
            self._scattered[contents] = known
        return known

    def submit(self, function: Callable[..., T], *arguments: Any, **how: Any) -> Future[T]:
        """Call a function of a module on one of the workers, chosen by Dask's options in `how`; the
        cluster repeats the call, at most three times, if it loses the worker.
        """
        future: Future[T] = self._executor.submit(function, *arguments, **how)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def stop(self) -> None:
        """Cancel what has not begun; the client stays its owner's."""
        for future in tuple(self._futures):
            future.cancel()


Deliveries = tuple[Delivery, Delivery | None]
"""Arguments and expected results."""


# In its workers

_children: dict[int | str, SweepWorker] = {}
"""The process of each thread, and "gpu": the one that runs configs on a GPU."""
_gpu_before: list[int] = []
"""The GPU of the config before, which has the arguments already."""
_lock = threading.Lock()


def machine_there() -> tuple[SweepMachine, Target | None]:
    """In a worker: return the machine and its target."""
    with _lock:
        return _child_there("gpu").machine()


def start_there() -> None:
    """In a worker: start the process that compiles in this thread."""
    _child_there().start()


def compile_there(job: bytes, task: bytes, seconds: float) -> Outcome:
    """In a worker: compile a config."""
    return _child_there().compile(job, task, seconds)


def get_ready_there(setup: Setup, deliveries: Deliveries) -> Outcome:
    """In a worker: start the process that runs configs on a GPU, and send it the arguments."""
    with _on_own_gpu(_with_bytes(setup, deliveries)) as (worker, here):
        return worker.get_ready(here)


def run_there(
    setup: Setup,
    deliveries: Deliveries,
    task: bytes,
    trial_options: TrialOptions,
    seconds: float,
    with_gpu: bool,
) -> Outcome:
    """In a worker: check and time a config, compiled here if need be, in a child process."""
    here = _with_bytes(setup, deliveries)
    if not with_gpu:
        return _child_there().run(here, task, trial_options, seconds)
    with _on_own_gpu(here) as (worker, here):
        return worker.run(here, task, trial_options, seconds)


def _with_bytes(setup: Setup, deliveries: Deliveries) -> Setup:
    arguments, reference = deliveries
    return replace(setup, arguments=arguments, reference=reference)


@contextlib.contextmanager
def _on_own_gpu(setup: Setup) -> Iterator[tuple[SweepWorker, Setup]]:
    with _lock, one_gpu_for_me(*_gpu_before) as device:
        _gpu_before[:] = [device]
        yield _child_there("gpu"), replace(setup, device=device)


def _child_there(name: str = "") -> SweepWorker:
    key = name or threading.get_ident()
    if key not in _children:
        _children[key] = SweepWorker()
        atexit.register(_children[key].close)
    return _children[key]


class SweepProgress:
    """A bar that shows how many configs are done and dropped, and the best time so far."""

    def __init__(self, kernel: str, configs: int, shown: bool | None = None) -> None:
        """Start the bar over `configs` configs; with None for `shown`, `ProgressBar` decides."""
        self._bar = ProgressBar(f"tune {kernel}", configs, "configs", shown=shown).__enter__()
        self._dropped = 0
        self._best: float | None = None

    def done(self, trial: Trial) -> None:
        """Report that a config is done: "2 dropped, best so far 31.2 us"."""
        self._dropped += trial.is_dropped
        if trial.timing is not None and not trial.is_dropped:
            self._best = min(trial.timing.median, self._best or trial.timing.median)
        words = [f"{self._dropped} dropped"] if self._dropped else []
        if self._best is not None:
            words.append(f"best so far {time_text(self._best * 1e3, 4)}")
        self._bar.words = ", ".join(words)
        self._bar.advance()

    def end(self) -> None:
        self._bar.__exit__(None, None, None)


WorkerPool = LocalPool | ClusterPool

_TRIES = 3
"""How often a config is given to a pool that loses it."""

PATIENCE = 20.0
"""Seconds for all checks by default, extrapolated from the first one."""


@dataclass(frozen=True)
class Entry:
    """A config on its way through a sweep."""

    number: int
    candidate: Candidate
    task: bytes
    """A packed Task; b"" for a config that cannot be launched at all."""
    setup: Setup | None
    """The data that it needs to run; None if it is only compiled."""
    identity: tuple[Any, ...]
    """The inputs of its outcome, in addition to those of all configs."""
    refused: Dropped | None = None
    """Why it cannot be launched."""


@dataclass(frozen=True)
class Conduct:
    """How a sweep treats its configs."""

    job: bytes
    check: bool | None
    """None checks if that is quick."""
    measure: bool
    seconds: float
    """For one config to compile, and to run."""


@dataclass(frozen=True)
class _Step:
    """A call that a pool is working on."""

    entry: Entry
    what: str
    """ "compile", "run" or "again"."""


class Sweep:
    """One sweep: gives every config to a worker pool, and collects what comes back."""

    def __init__(
        self,
        entries: Sequence[Entry],
        pool: WorkerPool,
        conduct: Conduct,
        store: Store,
        progress: SweepProgress,
    ) -> None:
        self.notes: list[str] = []
        self._entries = entries
        self._pool = pool
        self._conduct = conduct
        self._store = store
        self._progress = progress
        self._final: dict[int, Outcome] = {}
        self._compiled: dict[int, Outcome] = {}
        self._waiting: list[Entry] = []
        """The entries that are not compiled yet, the first at the end."""
        self._ready: list[Entry] = []
        self._standard: Entry | None = None
        self._leading: set[int] = set()
        """Numbers of the configs that run before the others."""
        self._method: Method | None = None
        self._checks = conduct.check is not False
        self._under_way: dict[Future[Outcome], _Step] = {}
        self._tries: dict[tuple[int, str], int] = {}

    def outcomes(self) -> dict[int, Outcome]:
        """Run to the end or until Ctrl-C; return each config's outcome by number, in order."""
        try:
            self._take_known()
            self._start()
            while self._under_way or self._ready or self._waiting:
                self._advance()
            if self._conduct.measure:
                self._measure_finalists()
        except KeyboardInterrupt:
            self._pool.stop()
            left, total = len(self._entries) - len(self._final), len(self._entries)
            missing = (
                f"{left} of {total} configs were not tried"
                if left
                else "the fastest were not timed a second time"
            )
            self.notes.append(f"{INTERRUPTED}: {missing}")
        finally:
            self._progress.end()
        return dict(sorted(self._final.items()))

    # Beginning

    def _take_known(self) -> None:
        for entry in self._entries:
            if entry.refused is not None:
                self._finish(entry, Outcome(dropped=entry.refused), keep=False)
                continue
            known = self._store.get(entry.identity)
            if known is not None and self._is_enough(entry, known):
                self._finish(entry, known, keep=False)
                if known.timing is not None:
                    self._method = known.timing.method
                if known.checked == "the first config" and self._standard is None:
                    self._standard = entry

    def _is_enough(self, entry: Entry, known: Outcome) -> bool:
        if known.dropped is not None or not self._can_run(entry):
            return True
        if self._conduct.measure:
            return known.timing is not None and (bool(known.checked) or not self._checks)
        return bool(known.checked)

    def _start(self) -> None:
        waiting = [entry for entry in self._entries if entry.number not in self._final]
        self._waiting = waiting[::-1]
        self._compile_more()
        first = next((entry.setup for entry in waiting if entry.setup is not None), None)
        if first is not None and self._conduct.measure:
            self._pool.get_ready(first)

    def _compile_more(self) -> None:
        compiling = sum(step.what == "compile" for step in self._under_way.values())
        while self._waiting and compiling < self._pool.compiles_at_once:
            self._promise(_Step(self._waiting.pop(), "compile"))
            compiling += 1

    def _can_run(self, entry: Entry) -> bool:
        return (self._checks or self._conduct.measure) and entry.setup is not None

    # The way of a config

    def _advance(self) -> None:
        """Give out what can be run or compiled, then wait for something to come back."""
        self._ready.sort(key=lambda entry: entry.number)
        while self._ready and (self._leads_known or self._may_lead(self._ready[0])):
            entry = self._ready.pop(0)
            if not self._leads_known:
                self._leading.add(entry.number)
            self._promise(_Step(entry, "run"))
        self._compile_more()
        # A short wait, so that Ctrl-C is noticed.
        wait(self._under_way, timeout=0.5, return_when=FIRST_COMPLETED)
        # `wait` does not return cancelled calls, as of a client that was closed.
        done = [future for future in self._under_way if future.done()]
        for future in sorted(done, key=lambda future: self._under_way[future].entry.number):
            self._take(future, self._under_way.pop(future))

    def _may_lead(self, entry: Entry) -> bool:
        assert entry.setup is not None
        if not self._checks or entry.setup.reference is not None:
            return len(self._leading) < self._pool.runs_at_once
        compiling = [
            step.entry.number for step in self._under_way.values() if step.what == "compile"
        ]
        return not self._leading and all(entry.number < number for number in compiling)

    @property
    def _leads_known(self) -> bool:
        checked = not self._checks or self._standard is not None
        return checked and (not self._conduct.measure or self._method is not None)

    def _promise(self, step: _Step) -> None:
        try:
            future = self._submit(step)
        except KernelLabError:
            raise
        except Exception as error:  # a client that was closed accepts no more calls
            future = Future()
            future.set_exception(error)
        self._under_way[future] = step

    def _submit(self, step: _Step) -> Future[Outcome]:
        entry, conduct = step.entry, self._conduct
        if step.what == "compile":
            return self._pool.compile(conduct.job, entry.task, conduct.seconds)
        assert entry.setup is not None
        setup = entry.setup
        if self._checks and self._standard is not None and setup.reference is None:
            setup = replace(setup, standard=self._standard.task)
        trial_options = TrialOptions(
            check=self._checks and step.what == "run",
            measure=conduct.measure,
            method=self._method,
            again=step.what == "again",
        )
        return self._pool.run(setup, entry.task, trial_options, conduct.seconds)

    def _take(self, future: Future[Any], step: _Step) -> None:
        try:
            outcome: Outcome = future.result()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a cluster's worker raises
            outcome = Outcome(dropped=Dropped("lost", error_text(error)))
        if self._is_lost(outcome, step):
            return
        if step.what == "compile":
            if outcome.dropped is not None or not self._can_run(step.entry):
                self._finish(step.entry, outcome)
            else:
                self._compiled[step.entry.number] = outcome
                self._ready.append(step.entry)
        elif step.what == "run":
            self._take_run(step.entry, outcome)
        else:
            self._take_again(step.entry, outcome)

    def _is_lost(self, outcome: Outcome, step: _Step) -> bool:
        if outcome.dropped is None or outcome.dropped.reason != "lost":
            return False
        name = (step.entry.number, step.what)
        self._tries[name] = self._tries.get(name, 1) + 1
        if self._tries[name] > _TRIES:
            return False
        self._promise(step)
        return True

    def _take_run(self, entry: Entry, outcome: Outcome) -> None:
        before = self._compiled.pop(entry.number, Outcome())
        outcome = replace(outcome, compiled=outcome.compiled or before.compiled)
        leads = entry.number in self._leading
        self._leading.discard(entry.number)
        if not self._conduct.measure:
            outcome = self._on_interpreter(outcome, leads)
        if leads and outcome.dropped is None:
            # The results of a config that could not be checked are not a standard: the next leads.
            if self._standard is None and outcome.checked:
                self._standard = entry
            # The first config to be timed decides the method for all; another that ran at the same
            # time may have chosen a different one.
            if outcome.timing is not None and self._method is None:
                self._method = outcome.timing.method
            if outcome.timing is not None and outcome.timing.method != self._method:
                self._compiled[entry.number] = before
                self._ready.append(entry)
                return
        self._finish(entry, outcome)

    def _on_interpreter(self, outcome: Outcome, leads: bool) -> Outcome:
        """Keep a config whose check takes too long: that does not make the config wrong."""
        dropped = outcome.dropped
        too_long = dropped is not None and dropped.reason == "time-out"
        if too_long:
            limit = format_seconds(self._conduct.seconds)
            why = (
                f"the interpreter did not finish within {limit}: the config hangs or is slow there"
            )
            outcome = replace(outcome, dropped=None, unchecked=why)
        needed = outcome.check_seconds * len(self._entries)
        if leads and self._conduct.check is None and (too_long or needed > PATIENCE):
            self.notes.append(
                "results were not compared: on the interpreter that takes more than "
                f"{PATIENCE:.0f} s; check=True compares them anyway"
            )
            self._checks = False
            for entry in self._ready:
                self._finish(entry, self._compiled.pop(entry.number))
            self._ready.clear()
        return outcome

    def _finish(self, entry: Entry, outcome: Outcome, *, keep: bool = True) -> None:
        self._final[entry.number] = outcome
        if keep:
            self._store.put(entry.identity, outcome)
        self._progress.done(Trial(entry.number, entry.candidate, outcome))

    def _measure_finalists(self) -> None:
        """Time the fastest configs again, as the error of one round may exceed their difference."""
        trials = [
            Trial(entry.number, entry.candidate, self._final[entry.number])
            for entry in self._entries
        ]
        chosen = [trial for trial in finalists(trials) if trial.timing and trial.timing.rounds == 1]
        for trial in chosen if len(chosen) > 1 else ():
            self._promise(_Step(self._entries[trial.number], "again"))
        while self._under_way:
            self._advance()

    def _take_again(self, entry: Entry, outcome: Outcome) -> None:
        known = self._final[entry.number]
        if known.timing is None or outcome.timing is None:
            return
        timing = Timing.pooled([known.timing, outcome.timing])
        self._final[entry.number] = replace(known, timing=timing)
        self._store.put(entry.identity, self._final[entry.number])
