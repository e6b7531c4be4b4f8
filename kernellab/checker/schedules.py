"""The other ways in which a check runs a launch: orders of its programs, and programs that are
preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.code import switches
from kernellab.checker.detector import Detector
from kernellab.checker.events import Change
from kernellab.checker.session import CheckSession
from kernellab.interpreter.analyses.memory_effects import memory_effects
from kernellab.interpreter.execution.preemption import Preemption
from kernellab.ir.traits import Atomic, has
from kernellab.records.run_options import DEFAULT, RunOptions

MOST_PREEMPTED = 64
"""So many programs a launch may have for them to be preempted: each runs alone, and slowly."""


@dataclass(frozen=True)
class Schedule:
    """A way to run a launch.

    Attributes:
        words: how its programs run, "backwards".
        options: in which order.
        preemption: how they are preempted at the kernel's switch points, if they are.
    """

    words: str
    options: RunOptions = DEFAULT
    preemption: Preemption | None = None

    def run(
        self,
        session: CheckSession,
        detectors: Callable[[CheckedRun], Sequence[Detector]] = lambda _new_run: (),
        *,
        one_by_one: bool = False,
        change: Change | None = None,
    ) -> CheckedRun:
        """Run a launch so; see `CheckSession.repeat`."""
        return session.repeat(
            detectors,
            self.options,
            one_by_one=one_by_one,
            preemption=self.preemption,
            change=change,
        )


IN_ORDER = Schedule("in the order of their ids")
BACKWARDS = Schedule("backwards", RunOptions(order="reversed"))
_ORDERS = (
    BACKWARDS,
    Schedule("in a shuffled order (seed 1)", RunOptions(order="shuffled", seed=1)),
    Schedule("in a shuffled order (seed 2)", RunOptions(order="shuffled", seed=2)),
)
_IN_TURNS = "in turns, each up to its next atomic or poll"
_PREEMPTED = (
    Schedule(_IN_TURNS, preemption=Preemption("rounds")),
    Schedule(f"{_IN_TURNS}, there and back", preemption=Preemption("there and back")),
    Schedule(
        f"{_IN_TURNS}, back and forth", BACKWARDS.options, preemption=Preemption("there and back")
    ),
    Schedule(f"{_IN_TURNS}, by chance (seed 1)", preemption=Preemption(2, seed=1)),
    Schedule(f"{_IN_TURNS}, many in a row (seed 2)", preemption=Preemption(32, seed=2)),
)


def other_schedules(run: CheckedRun, shared: bool) -> Iterator[Schedule]:
    """The schedules in which a launch may do something else than in the order of its programs' ids.

    Args:
        shared: whether its programs read what others left in memory.
    """
    if not shared and not memory_effects(run.code).order_shows:
        return
    yield from _ORDERS
    if run.programs <= MOST_PREEMPTED and learns(run, shared) and switches(run.code):
        yield from _PREEMPTED


def learns(run: CheckedRun, shared: bool) -> bool:
    """Whether what a program does may depend on what others did before: not where they only add up
    floats, whose sums nobody reads.
    """
    return shared or any(
        has(op, Atomic) and any(result.uses for result in op.results)
        for op in run.code.module.walk()
    )
