"""The schedules with which a check runs a launch: other orders of its programs, and preemption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.code import switches
from kernellab.interpreter.analyses.memory_effects import memory_effects
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.preemption import Preemption
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir.traits import Atomic, has
from kernellab.records.run_options import DEFAULT, RunOptions

MOST_PREEMPTED = 64
"""The most programs of a launch that are preempted: each runs alone, and slowly."""


@dataclass(frozen=True)
class Schedule:
    """A way to run a launch.

    Attributes:
        words: how its programs run, for messages: "backwards".
        options: the order of the programs.
        preemption: how programs are preempted at the kernel's switch points; None if they are not.
    """

    words: str
    options: RunOptions = DEFAULT
    preemption: Preemption | None = None


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
    Schedule(f"{_IN_TURNS}, in both directions", preemption=Preemption("there and back")),
    Schedule(
        f"{_IN_TURNS}, in both directions from the last",
        BACKWARDS.options,
        preemption=Preemption("there and back"),
    ),
    Schedule(f"{_IN_TURNS}, in random order (seed 1)", preemption=Preemption(2, seed=1)),
    Schedule(f"{_IN_TURNS}, in long random turns (seed 2)", preemption=Preemption(32, seed=2)),
)


def other_schedules(run: CheckedRun, shared: bool) -> Iterator[Schedule]:
    """Yield the schedules in which a launch may behave differently than in the order of its ids.

    Args:
        run: the launch, run in the order of its programs' ids.
        shared: whether its programs read what others left in memory.
    """
    if not shared and not memory_effects(run.code).order_shows:
        return
    yield from _ORDERS
    if run.programs <= MOST_PREEMPTED and learns(run, shared) and switches(run.code):
        yield from _PREEMPTED


def learns(run: CheckedRun, shared: bool) -> bool:
    """Return whether a program may depend on what others did before. It does not if they only add
    up floats with atomics whose results are not used.
    """
    return shared or _uses_results_of_atomics(run.code)


@per_code
def _uses_results_of_atomics(code: ProgramCode) -> bool:
    return any(
        has(op, Atomic) and any(result.uses for result in op.results) for op in code.module.walk()
    )
