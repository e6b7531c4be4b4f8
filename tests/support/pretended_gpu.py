"""A sweep's GPU that is not there: the interpreter runs the configs, and times are made up."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kernellab.records import Target
from kernellab.triton_api.kernel_contents import unpack
from kernellab.tuning import tune, worker
from kernellab.tuning.assignments import Setup, TrialOptions
from kernellab.tuning.records import Outcome, Timing
from kernellab.tuning.sweep import LocalPool
from kernellab.tuning.worker import this_machine

NAME = "a GPU that is not there"


class InProcessPool(LocalPool):
    """Does everything at once, here."""

    def __init__(self, milliseconds: Callable[[Any], float]) -> None:
        super().__init__(1, [])
        self._milliseconds = milliseconds

    def compile(self, job: bytes, task: bytes, seconds: float) -> Future[Outcome]:
        return _done(worker.compile_config(job, task))

    def run(
        self, setup: Setup, task: bytes, trial_options: TrialOptions, seconds: float
    ) -> Future[Outcome]:
        outcome = worker.run_config(
            replace(setup, device=None, gpu=""), task, replace(trial_options, measure=False)
        )
        if trial_options.measure and outcome.dropped is None:
            median = self._milliseconds(unpack(task))
            samples = [median * (1 + part / 1000) for part in range(-5, 6)]
            outcome = replace(outcome, timing=Timing.of(samples, "events"))
        return _done(outcome)


def _done(outcome: Outcome) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future


@contextmanager
def pretended_gpu(milliseconds: Callable[[Any], float]) -> Iterator[None]:
    """While active, sweeps are on that GPU; `milliseconds` of a Task is its time."""
    machine = replace(this_machine(None), gpu=NAME)
    place = tune._Place(Target("cuda", "90"), machine, (0,), InProcessPool(milliseconds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "_place", lambda *_: place)
        patch.setattr(tune, "time_baseline", lambda *_: Timing.of([0.5, 0.6], "events"))
        yield
