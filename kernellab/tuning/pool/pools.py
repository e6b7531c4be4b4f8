"""Who compiles and runs the configs of a sweep, as the sweep sees it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from kernellab.tuning.pool.assignments import Setup, TrialOptions
from kernellab.tuning.results.records import Outcome


class WorkerPool(Protocol):
    """Takes configs, and promises outcomes."""

    compiles_first: bool
    """Whether `compile` is to be called before `run`; else `run` does both."""
    runs_at_once: int
    """How many configs it runs at the same time, as far as it knows."""

    def get_ready(self, setup: Setup) -> None:
        """Begin with what takes long: processes, torch, the arguments on each GPU."""

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        """What the compiler says of a config."""

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        """What becomes of a config that is run."""

    def stop(self) -> None:
        """Drop what is under way."""
