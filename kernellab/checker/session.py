"""A launch that is checked, which can be run again on copies of its arguments: the code that it
runs, and the schedules that order its programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from xdsl.ir import Operation

from kernellab.checker.arguments import LazyCopies
from kernellab.checker.checked_run import CheckedRun, unchanged_storages
from kernellab.checker.detector import RAISED, Detector, Failures, Stopped, implementing
from kernellab.checker.events import Change, EventDispatcher, emit_value_events, may_hear
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.errors import Deadlock, EndlessWait, ExtraArrival, InvalidBarrier, KernelFault
from kernellab.interpreter.codegen.analyses import switch_points
from kernellab.interpreter.codegen.emitter import AfterOperation, Emitter
from kernellab.interpreter.execution.launcher import launch_observed, launch_sampled
from kernellab.interpreter.execution.program import (
    ProgramCode,
    entry_of,
    memory_effects,
    per_code,
    program_of_module,
)
from kernellab.interpreter.execution.scheduler import Preemption
from kernellab.ir.operations import Atomic, has
from kernellab.launch.argument_copies import copied
from kernellab.records.launches import DEFAULT, RunOptions

# The code that a check runs: the kernel's code, with statements that report values.


def checked_code(
    kernel: Any, plain: ProgramCode, detectors: Sequence[type[Detector]], *, preempts: bool = False
) -> ProgramCode:
    """Return the code of a run that these detectors observe, made once from the code of a plain
    run, with the same operations.

    Args:
        preempts: whether programs are preempted at the kernel's switch points, of which there must
            be one.
    """

    def make() -> ProgramCode:
        after: AfterOperation = functools.partial(emit_value_events, tuple(detectors))
        if preempts:
            after = functools.partial(_may_switch, after, switches(plain))
        return program_of_module(plain.module, kernel, after, preempts=preempts)

    return plain.once((checked_code, tuple(detectors), preempts), make)


def switches(code: ProgramCode) -> frozenset[Operation]:
    """Return the switch points of a kernel."""
    return switch_points(entry_of(code.module))


def _may_switch(
    before: AfterOperation, points: Set[Operation], emit: Emitter, op: Operation
) -> None:
    before(emit, op)
    if op in points:
        emit.may_switch()


# The schedules with which a check runs a launch: other orders of its programs, and preemption.


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


# A launch that is checked, which can be run again on copies of its arguments.


_Kind = TypeVar("_Kind", bound=Detector)


@dataclass(frozen=True)
class CheckSession:
    """Runs the launch of a check.

    Attributes:
        launch: the launch with the caller's arguments, which no run changes.
        guards: the detectors that observe every further run, which might not end without them; see
            `Detector.guards`.
        work: of each run so far; see `EventDispatcher`.
    """

    launch: CheckedRun
    guards: tuple[type[Detector], ...] = ()
    work: list[int] = field(default_factory=list)

    def run_detectors(
        self,
        kinds: Sequence[type[Detector]],
        failures: Failures = RAISED,
        earlier: Sequence[Any] = (),
    ) -> tuple[list[Detector], Finding | None]:
        """Run the launch with detectors, which observe accesses and values.

        Args:
            kinds: the classes of the detectors.
            failures: records detectors that fail.
            earlier: what the detectors meet beside each other: detectors of an earlier run.

        Returns:
            The detectors without those that failed; and the finding that stopped the run, if it
            would not have ended.
        """
        kinds = self._that_observe(kinds, failures)
        code = self._code(kinds)
        run = self._new_run(code)
        detectors: list[Detector] = []
        for kind in kinds:
            with failures.kept(kind):
                if may_hear(code, kind) and kind.concerns(run):
                    detectors.append(kind(run))
        for detector in implementing("meet", detectors):
            with failures.kept(type(detector)):
                detector.meet([*earlier, *detectors])
        stopped = None
        try:
            self._execute(run, detectors, failures=failures)
        except Stopped as stop:
            stopped = stop.finding
        for detector in implementing("end", detectors) if stopped is None else ():
            with failures.kept(type(detector)):
                detector.end()
        return [kept for kept in detectors if type(kept) not in failures], stopped

    def run_program(self, kind: type[_Kind], program: int) -> _Kind:
        """Run one program, by its linear id, with a detector that observes accesses and values.

        Raises:
            KernelFault: as `kernellab.run`.
        """
        code = self._code((kind,))
        run = self._new_run(code)
        detector = kind(run)
        dispatcher = EventDispatcher(run, (detector,))
        try:
            launch_sampled(run.kernel, run.grid, run.call, code, dispatcher, (program,))
        finally:
            dispatcher.put_back()
        return detector

    def repeat(
        self,
        detectors: Callable[[CheckedRun], Sequence[Detector]] = lambda _new_run: (),
        schedule: Schedule = IN_ORDER,
        *,
        one_by_one: bool = False,
        change: Change | None = None,
    ) -> CheckedRun:
        """Run the launch again, possibly in another way.

        Args:
            detectors: makes the detectors, which observe accesses only.
            schedule: how the programs run.
            one_by_one: whether programs run one after the other, without batches.
            change: replaces accesses.

        Returns:
            The run, with its tensors as it left them.

        Raises:
            Stopped: it would not have ended.
            KernelFault: as `kernellab.run`.
        """
        code = self._code(self.guards, preempts=schedule.preemption is not None)
        run = self._new_run(replace(code, batch=1) if one_by_one else code)
        guards = [kind(run) for kind in self.guards]
        self._execute(run, [*guards, *detectors(run)], schedule, change)
        return run

    def _that_observe(
        self, kinds: Sequence[type[Detector]], failures: Failures
    ) -> Sequence[type[Detector]]:
        """Return the classes whose `observes` does not fail."""
        with suppress(Exception):  # the loop below finds the detector that fails
            self._code(kinds)
            return kinds
        for kind in kinds:
            with failures.kept(kind):
                self._code((kind,))
        return [kind for kind in kinds if kind not in failures]

    def _code(self, kinds: Sequence[type[Detector]], *, preempts: bool = False) -> ProgramCode:
        return checked_code(self.launch.kernel, self.launch.code, kinds, preempts=preempts)

    def _new_run(self, code: ProgramCode) -> CheckedRun:
        copies = LazyCopies(self._kept)
        call = replace(self.launch.call, values=copied(self.launch.call.values, copies.copy))
        return replace(self.launch, call=call, code=code, copies=copies)

    @cached_property
    def _kept(self) -> frozenset[int]:
        """The addresses of storages that runs need no copies of."""
        return unchanged_storages(self.launch)

    def _execute(
        self,
        run: CheckedRun,
        detectors: Sequence[Detector],
        schedule: Schedule = IN_ORDER,
        change: Change | None = None,
        failures: Failures = RAISED,
    ) -> None:
        dispatcher = EventDispatcher(run, detectors, change, failures)
        try:
            launch_observed(
                run.kernel,
                run.grid,
                run.call,
                run.code,
                dispatcher,
                schedule.options,
                schedule.preemption,
            )
        except Deadlock as deadlock:
            raise Stopped(_deadlock_finding(deadlock)) from deadlock
        except (EndlessWait, ExtraArrival, InvalidBarrier) as fault:
            raise Stopped(_barrier_finding(fault)) from fault
        finally:
            self.work.append(dispatcher.work)
            dispatcher.put_back()


def _deadlock_finding(deadlock: Deadlock) -> Finding:
    """Return the finding for a deadlock."""
    return Finding.of(
        kind="deadlock",
        message=deadlock.problem.removeprefix("deadlock: "),
        advice=deadlock.advice,
        position=deadlock.position,
        programs=deadlock.programs[:LISTED_PROGRAMS],
        program_count=len(deadlock.programs),
    )


def _barrier_finding(fault: KernelFault) -> Finding:
    """Return the finding for a use of a barrier in shared memory that stops a run."""
    diagnostic = fault.diagnostic
    return Finding.of(
        kind=diagnostic.kind,
        message=diagnostic.what,
        advice=diagnostic.advice,
        position=diagnostic.position,
        programs=fault.programs,
        program_count=len(fault.programs),
    )
