"""Times of a kernel on a GPU, by Triton's own benchmarkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from triton.testing import do_bench, do_bench_cudagraph

from kernellab.tuning.results.records import Method, Timing

SHORT = 0.015
"""Milliseconds. Of a shorter kernel, the gap between two launches is a large part
of what events see: graphs time it better."""


class Restorable(Protocol):
    """Arguments that can be made what they were."""

    def restore(self) -> None:
        """Give every tensor its first contents."""

    def contents(self) -> Sequence[torch.Tensor]:
        """A copy of what they hold now."""

    def holds(self, contents: Sequence[torch.Tensor]) -> bool:
        """Whether they hold just that, bit for bit."""


def measure(launch: Callable[[], Any], arguments: Restorable, method: Method | None) -> Timing:
    """Time a launch on the current GPU.

    Args:
        launch: starts the kernel on the working arguments.
        arguments: what it works on; restored before each timed run where a run changes what
            the next computes.
        method: None takes "graph" for a short kernel that may run again and again on its own
            output, else "events".

    Returns:
        The quartiles of the runs' times. With "events", the L2 cache is emptied before each.
    """
    in_place = _depends_on_earlier_runs(launch, arguments)
    if method != "graph" or in_place:
        timing = _by_events(launch, arguments if in_place else None)
        if method == "events" or in_place or timing.median >= SHORT:
            return timing
    return Timing.of(do_bench_cudagraph(launch, return_mode="all"), "graph")


def time_baseline(run: Callable[[], Any], method: Method | None = None) -> Timing:
    """Time a function of the user's on the current GPU of this process.

    Args:
        run: launches.
        method: that of the kernels that stand beside it; None finds out which suits,
            as for a kernel.
    """
    if method != "graph":
        timing = Timing.of(do_bench(run, return_mode="all"), "events")
        if method == "events" or timing.median >= SHORT:
            return timing
    return Timing.of(do_bench_cudagraph(run, return_mode="all"), "graph")


def _by_events(launch: Callable[[], Any], restored: Restorable | None) -> Timing:
    if restored is None:
        return Timing.of(do_bench(launch, return_mode="all"), "events")
    between = _BetweenRuns(restored)

    def prepared_launch() -> None:
        between.make_sure()
        launch()

    samples = do_bench(prepared_launch, grad_to_none=[between], return_mode="all")
    return Timing.of(samples, "events")


class _BetweenRuns:
    """Stands for a tensor in do_bench's `grad_to_none`, whose gradients it clears before each timed
    run, outside the time.

    do_bench offers no other moment between runs.
    Its warm-up runs clear nothing, so they restore for themselves.
    """

    def __init__(self, arguments: Restorable) -> None:
        self._arguments = arguments
        self._restored = False

    @property
    def grad(self) -> None:
        """Nothing."""

    @grad.setter
    def grad(self, _none: None) -> None:
        self._arguments.restore()
        self._restored = True

    def make_sure(self) -> None:
        """Restore, unless that was done since the last run."""
        if not self._restored:
            self._arguments.restore()
        self._restored = False


def _depends_on_earlier_runs(launch: Callable[[], Any], arguments: Restorable) -> bool:
    """Whether a second run, on what the first left, leaves something else:
    the kernel reads what it writes.
    """
    arguments.restore()
    launch()
    after_one = arguments.contents()
    launch()
    depends = not arguments.holds(after_one)
    arguments.restore()
    return depends
