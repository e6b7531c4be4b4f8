"""A process that compiles or runs one config at a time, and messages on configs that ended it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Any

from kernellab.common.formatting import format_seconds
from kernellab.common.worker import Worker
from kernellab.errors import KernelLabError, WorkerError, WorkerLost
from kernellab.records import Target
from kernellab.tuning.pool.assignments import Setup, TrialOptions, setup_without_bytes
from kernellab.tuning.pool.in_worker import process_is_spoilt
from kernellab.tuning.results.records import (
    Dropped,
    Machine,
    Outcome,
    Reason,
)

_HERE = "kernellab.tuning.pool.in_worker"

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

    def machine(self) -> tuple[Machine, Target | None]:
        answer: tuple[Machine, Target | None] = self._worker.call(
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
