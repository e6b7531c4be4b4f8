"""Time a kernel on a GPU with Triton's own benchmark functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.testing import do_bench, do_bench_cudagraph

from kernellab.tuning.pool.arguments import Arguments
from kernellab.tuning.results.records import Method, Timing

SHORT = 0.015
"""Milliseconds. For a shorter kernel, the gap between two launches is a large part of the time
between events, so a CUDA graph measures it better."""


def measure(launch: Callable[[], Any], arguments: Arguments, method: Method | None) -> Timing:
    """Time a launch on the current GPU.

    Args:
        launch: starts the kernel on the working arguments.
        arguments: the working arguments, restored before each timed run if a run changes what the
            next computes.
        method: None takes "graph" for a short kernel that may run again and again on its own
            output, else "events".

    Returns:
        The quartiles of the runs' times. With "events", the L2 cache is emptied before each.
    """
    if _depends_on_earlier_runs(launch, arguments):
        return _restored_between(launch, arguments)
    return time_baseline(launch, method)


def time_baseline(run: Callable[[], Any], method: Method | None = None) -> Timing:
    """Time a function of the user's on the current GPU of this process.

    Args:
        run: launches.
        method: that of the kernels to compare with; None chooses as `measure` does.
    """
    if method != "graph":
        timing = Timing.of(do_bench(run, return_mode="all"), "events")
        if method == "events" or timing.median >= SHORT:
            return timing
    return Timing.of(do_bench_cudagraph(run, return_mode="all"), "graph")


def _restored_between(launch: Callable[[], Any], arguments: Arguments) -> Timing:
    between = _BetweenRuns(arguments)

    def prepared_launch() -> None:
        between.make_sure()
        launch()

    samples = do_bench(prepared_launch, grad_to_none=[between], return_mode="all")
    return Timing.of(samples, "events")


class _BetweenRuns:
    """A stand-in for a tensor in `grad_to_none`, which do_bench clears before each timed run,
    outside the time.

    do_bench has no other hook between runs. It does not clear gradients before warm-up runs, so
    those restore the arguments themselves.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._restored = False

    @property
    def grad(self) -> None:
        """Always None, as of a tensor without a gradient."""

    @grad.setter
    def grad(self, _none: None) -> None:
        self._arguments.restore()
        self._restored = True

    def make_sure(self) -> None:
        """Restore the arguments unless that was done since the last run."""
        if not self._restored:
            self._arguments.restore()
        self._restored = False


def _depends_on_earlier_runs(launch: Callable[[], Any], arguments: Arguments) -> bool:
    """Whether a second run, on the results of the first, computes something else, because the
    kernel reads what it writes.
    """
    arguments.restore()
    launch()
    after_one = arguments.contents()
    launch()
    depends = not arguments.holds(after_one)
    arguments.restore()
    return depends
