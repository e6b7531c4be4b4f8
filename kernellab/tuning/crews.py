"""Who compiles and runs the configs of a sweep: processes of this machine, or somebody's executor."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from queue import LifoQueue
from typing import Any, Protocol

from kernellab.errors import ArgumentError, KernelLabError, WorkerError
from kernellab.records import Target
from kernellab.tuning.gpus import one_gpu_for_me
from kernellab.tuning.in_worker import (
    Delivery,
    Setup,
    Wishes,
    process_is_spoilt,
    with_compiled,
)
from kernellab.tuning.records import Compiled, Dropped, Machine, Outcome, Reason
from kernellab.worker import Worker

_HERE = "kernellab.tuning.in_worker"

SILENCE = 20.0
"""Seconds without an answer of an executor's processes after which that is said: importing torch and Triton takes some."""

START_SECONDS = 300.0
"""How long a process may take to start, to have torch, a GPU and the arguments: no config's fault."""


class Crew(Protocol):
    """Takes configs, and promises outcomes."""

    compiles_first: bool
    """Whether `compile` is to be called before `run`; else `run` does both."""
    runs_at_once: int
    """How many configs it runs at the same time, as far as it knows."""

    def get_ready(self, setup: Setup) -> None:
        """Begin with what takes long: processes, torch, the arguments on each GPU."""

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """What the compiler says of a config."""

    def run(self, setup: Setup, task: bytes, wishes: Wishes, seconds: float) -> Future[Outcome]:
        """What becomes of a config that is run."""

    def stop(self) -> None:
        """Drop what is under way."""


# ---------------------------------------------------------------------------------------------------------------------
# One process, and calls that may end it
# ---------------------------------------------------------------------------------------------------------------------


class _Member:
    """A process that does one thing at a time, started again where a config has ended it."""

    def __init__(self, gpu: int | None = None) -> None:
        """A process that works on that GPU, or on none."""
        self.gpu = gpu
        self._worker = Worker("The config")
        self._prepared: tuple[int | None, Setup] | None = None

    def compile(self, job: bytes, task: bytes, seconds: float) -> Outcome:
        self._start()
        return self._guarded("compile_config", "compiling", seconds, job, task)

    def run(self, setup: Setup, task: bytes, wishes: Wishes, seconds: float) -> Outcome:
        setup = self._here(setup)
        try:
            self._prepare(setup)
        except WorkerError as error:
            return _of_death(error, "getting ready to run", START_SECONDS)
        except KernelLabError as error:
            return Outcome(dropped=Dropped("lost", error.problem))
        outcome = self._guarded("run_config", "running", seconds, setup_without_bytes(setup), task, wishes)  # fmt: skip
        if process_is_spoilt(outcome):
            self._worker.close()
        return outcome

    def machine(self) -> tuple[Machine, Target | None]:
        found: tuple[Machine, Target | None] = self._worker.call(
            f"{_HERE}:machine_here", True, seconds=START_SECONDS
        )
        return found

    def get_ready(self, setup: Setup) -> Outcome:
        with contextlib.suppress(KernelLabError):  # The first config that is run will say it.
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
        """Importing torch and Triton is no config's fault either."""
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
        except KernelLabError as error:  # of this process, not of the config
            return Outcome(dropped=Dropped("lost", f"{doing} it: {error}"))
        return outcome


def setup_without_bytes(setup: Setup) -> Setup:
    """The setup for a process that has the arguments already."""

    def named(delivery: Delivery | None) -> Delivery | None:
        return None if delivery is None else replace(delivery, shipment=None)

    arguments = replace(setup.arguments, shipment=None)
    return replace(setup, arguments=arguments, reference=named(setup.reference))


_TELLING = re.compile(r"error|assert|fatal|abort", re.IGNORECASE)


def _of_death(error: WorkerError, doing: str, seconds: float) -> Outcome:
    """Why a config got no answer: `doing` says what was done with it."""
    reason: Reason = "time-out" if error.timed_out else "crash" if error.died else "fault"
    return Outcome(dropped=Dropped(reason, _words_of(error, doing, seconds)))


def _words_of(error: WorkerError, doing: str, seconds: float) -> str:
    if error.timed_out:
        return f"{doing} it took longer than {seconds:g} seconds, and was stopped"
    if not error.died:
        lines = error.problem.strip().splitlines()  # a traceback, whose last line says what it was
        return f"{doing} it failed: {lines[-1]}\n{error.problem}"
    ended = f"{doing} it ended the process ({error.ending})"
    if not error.last_words:
        return f"{ended}, which printed nothing"
    lines = error.last_words.splitlines()
    telling = next((line.strip() for line in lines if _TELLING.search(line)), lines[-1].strip())
    return f"{ended}: {telling}\nAll that it printed:\n{error.last_words}"


# ---------------------------------------------------------------------------------------------------------------------
# This machine
# ---------------------------------------------------------------------------------------------------------------------


class _Pool:
    """Processes that take calls in turn, each driven by a thread."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self._threads = ThreadPoolExecutor(len(members), thread_name_prefix="kernellab-tuning")
        self._members = members
        # The last that was used goes first, so that few calls start few processes.
        self._free: LifoQueue[_Member] = LifoQueue()
        for member in self._members:
            self._free.put(member)

    def submit(self, call: Callable[[_Member], Outcome]) -> Future[Outcome]:
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

    def for_each(self, call: Callable[[_Member], None]) -> None:
        for member in self._members:
            call(member)

    def shut_down(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class LocalCrew:
    """Processes of this machine: some that compile, and one for each GPU that runs; without a GPU those that compile run too."""

    compiles_first = True

    def __init__(self, compilers: int, gpus: Sequence[int]) -> None:
        self._compilers = _Pool([_Member() for _ in range(compilers)])
        # Whichever is free takes the next config: one that hangs holds up none but itself.
        self._runners = _Pool([_Member(gpu) for gpu in gpus]) if gpus else self._compilers
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
            pool.for_each(_Member.release)

    def stop(self) -> None:
        """End every process, whatever it is doing."""
        self.is_stopped = True
        for pool in self._pools:
            pool.shut_down()
            pool.for_each(_Member.kill)

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


# ---------------------------------------------------------------------------------------------------------------------
# Anybody's executor
# ---------------------------------------------------------------------------------------------------------------------


class ExecutorCrew:
    """Any `concurrent.futures.Executor`: each config is one call, which compiles, checks and times it in a process of its own there."""

    compiles_first = False
    runs_at_once = 1
    _SMALL = 1 << 20
    """Bytes of arguments that every call takes along; larger ones are sent to those who ask."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._with_gpu = False
        self._futures: set[Future[Any]] = set()
        """What is not done. A cluster computes again what was lost with a worker as long as somebody holds its future."""

    def machine(self) -> tuple[Machine, Target | None]:
        """What its processes run on, as one of them says; with the GPU that they time on, where they have one."""
        try:
            found = self._first_answer(self._submit(machine_there))
        except Exception as error:
            raise ArgumentError(
                f"the executor's processes cannot sweep: {type(error).__name__}: {error}",
                advice="Each needs KernelLab, with the Python and the Triton of this process.",
            ) from error
        self._with_gpu = bool(found[0].gpu)
        return found

    def _first_answer(self, asked: Future[Any]) -> tuple[Machine, Target | None]:
        """What the first process says; that none is there may be nobody's fault, but it must not look like a sweep."""
        try:
            answer: tuple[Machine, Target | None] = asked.result(timeout=SILENCE)
        except TimeoutError:
            print(
                f"kernellab.tune waits for the executor: none of its processes has answered for {SILENCE:g} seconds. Are there any, "
                "with the resources that were asked for?",
                file=sys.stderr,
            )  # fmt: skip
            answer = asked.result()
        return answer

    def get_ready(self, setup: Setup) -> None:
        """See Crew: an executor's processes get ready with their first config."""

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """See Crew."""
        return self._submit(compile_there, job, task, seconds)

    def run(self, setup: Setup, task: bytes, wishes: Wishes, seconds: float) -> Future[Outcome]:
        """See Crew."""
        shipment = setup.arguments.shipment
        small = shipment is None or shipment.size <= self._SMALL
        sent = setup if small else setup_without_bytes(setup)
        promised: Future[Outcome] = Future()

        def take(done: Future[Any]) -> None:
            try:
                outcome = done.result()
            except BaseException as error:
                _settle(promised, error=error)
                return
            if outcome != ARGUMENTS_WANTED:
                _settle(promised, outcome)
                return
            try:
                again = self._submit(run_there, setup, task, wishes, seconds, self._with_gpu)
            except RuntimeError as error:  # It was shut down meanwhile.
                _settle(promised, error=error)
            else:
                again.add_done_callback(take)

        first = self._submit(run_there, sent, task, wishes, seconds, self._with_gpu)
        first.add_done_callback(take)
        return promised

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future = self._executor.submit(function, *arguments)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def stop(self) -> None:
        """Cancel what has not begun; the executor stays its owner's."""
        for future in tuple(self._futures):
            future.cancel()


def _settle(promised: Future[Outcome], outcome: Any = None, error: BaseException | None = None) -> None:  # fmt: skip
    if not promised.set_running_or_notify_cancel():
        return
    if error is not None:
        promised.set_exception(error)
    else:
        promised.set_result(outcome)


ARGUMENTS_WANTED = "arguments wanted"
"""What `run_there` gives where the arguments are not there yet."""

_child: list[_Member] = []
_arrived: dict[str, Delivery] = {}
_lock = threading.Lock()


def machine_there() -> tuple[Machine, Target | None]:
    """In an executor's process: what it runs on."""
    with _lock:
        return _member_there().machine()


def compile_there(job: bytes, task: bytes, seconds: float) -> Outcome:
    """In an executor's process: compile a config."""
    with _lock:
        return _member_there().compile(job, task, seconds)


def run_there(
    setup: Setup, task: bytes, wishes: Wishes, seconds: float, with_gpu: bool
) -> Outcome | str:
    """In an executor's process: compile, check and time a config, in a child process that may crash; or ask for the arguments."""
    with _lock:
        if setup.arguments.shipment is not None:
            _arrived.clear()
            _arrived[setup.arguments.digest] = setup.arguments
        elif setup.arguments.digest not in _arrived:
            return ARGUMENTS_WANTED
        member = _member_there()
        compiled = member.compile(setup.job, task, seconds)
        if compiled.dropped is not None:
            return compiled
        said: Compiled | None = compiled.compiled
        with one_gpu_for_me() if with_gpu else contextlib.nullcontext(None) as device:
            here = replace(setup, arguments=_arrived[setup.arguments.digest], device=device)
            return with_compiled(member.run(here, task, wishes, seconds), said)


def _member_there() -> _Member:
    if not _child:
        _child.append(_Member())
        atexit.register(_child[0].close)
    return _child[0]
