"""Use any executor as a worker pool: what is submitted here, and what its processes run there."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

from kernellab.errors import ArgumentError
from kernellab.records import Target
from kernellab.tuning.pool.assignments import (
    Delivery,
    Setup,
    TrialOptions,
    setup_without_bytes,
)
from kernellab.tuning.pool.gpus import one_gpu_for_me
from kernellab.tuning.pool.in_worker import with_compiled
from kernellab.tuning.pool.worker import SweepWorker
from kernellab.tuning.results.records import Compiled, Machine, Outcome

SILENCE = 20.0
"""Seconds without an answer from an executor's processes until a message reports it; importing
torch and Triton takes a few."""


class ExecutorPool:
    """Any `concurrent.futures.Executor`: each config is one call, which compiles, checks and times
    it in a separate process there.
    """

    compiles_first = False
    runs_at_once = 1
    _SMALL = 1 << 20
    """Bytes of arguments that every call carries; larger ones are sent only when requested."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._with_gpu = False
        self._futures: set[Future[Any]] = set()
        """The calls that are not done. A cluster repeats a call that was lost with a worker as long
        as its future is referenced."""

    def machine(self) -> tuple[Machine, Target | None]:
        """Return the machine and target that one of the processes reports, including its GPU."""
        try:
            machine, target = self._first_answer(self._submit(machine_there))
        except Exception as error:
            raise ArgumentError(
                f"the executor's processes cannot sweep: {type(error).__name__}: {error}",
                advice="Each needs KernelLab, with the Python and the Triton of this process.",
            ) from error
        self._with_gpu = bool(machine.gpu)
        return machine, target

    def _first_answer(self, future: Future[Any]) -> tuple[Machine, Target | None]:
        """Return the first answer; print a message if it takes long, since a sweep without
        processes would only look slow.
        """
        try:
            answer: tuple[Machine, Target | None] = future.result(timeout=SILENCE)
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
                again = self._submit(run_there, setup, task, trial_options, seconds, self._with_gpu)
            except RuntimeError as error:  # It was shut down meanwhile.
                _settle(promised, error=error)
            else:
                again.add_done_callback(take)

        first = self._submit(run_there, sent, task, trial_options, seconds, self._with_gpu)
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


def _settle(
    promised: Future[Outcome], outcome: Any = None, error: BaseException | None = None
) -> None:
    if not promised.set_running_or_notify_cancel():
        return
    if error is not None:
        promised.set_exception(error)
    else:
        promised.set_result(outcome)


# In its processes

ARGUMENTS_WANTED = "arguments wanted"
"""What `run_there` returns if its process does not have the arguments yet."""

_child: list[SweepWorker] = []
_arrived: dict[str, Delivery] = {}
_lock = threading.Lock()


def machine_there() -> tuple[Machine, Target | None]:
    """In an executor's process: return the machine and its target."""
    with _lock:
        return _worker_there().machine()


def compile_there(job: bytes, task: bytes, seconds: float) -> Outcome:
    """In an executor's process: compile a config."""
    with _lock:
        return _worker_there().compile(job, task, seconds)


def run_there(
    setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float, with_gpu: bool
) -> Outcome | str:
    """In an executor's process: compile, check and time a config in a child process, which may
    crash; or request the arguments.
    """
    with _lock:
        if setup.arguments.shipment is not None:
            _arrived.clear()
            _arrived[setup.arguments.digest] = setup.arguments
        elif setup.arguments.digest not in _arrived:
            return ARGUMENTS_WANTED
        worker = _worker_there()
        compiled = worker.compile(setup.job, task, seconds)
        if compiled.dropped is not None:
            return compiled
        said: Compiled | None = compiled.compiled
        with one_gpu_for_me() if with_gpu else contextlib.nullcontext(None) as device:
            here = replace(setup, arguments=_arrived[setup.arguments.digest], device=device)
            return with_compiled(worker.run(here, task, trial_options, seconds), said)


def _worker_there() -> SweepWorker:
    if not _child:
        _child.append(SweepWorker())
        atexit.register(_child[0].close)
    return _child[0]
