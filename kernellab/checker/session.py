"""A launch that is checked, which can be run again on copies of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.code import checked_code
from kernellab.checker.detector import Detector, Stopped, that_define
from kernellab.checker.events import Change, EventDispatcher, may_hear
from kernellab.checker.failures import RAISED, Failures
from kernellab.checker.lazy_copies import LazyCopies
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.checker.schedules import IN_ORDER, Schedule
from kernellab.checker.written_storages import unchanged_storages
from kernellab.errors import Deadlock
from kernellab.interpreter.execution.launcher import launch_observed, launch_sampled
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.launch.argument_copies import copied

_Kind = TypeVar("_Kind", bound=Detector)


@dataclass(frozen=True)
class CheckSession:
    """Runs the launch of a check.

    Attributes:
        launch: the launch with the caller's arguments, which no run changes.
        guards: the detectors that observe every further run, which might not end without them; see
            `Detector.guards`.
    """

    launch: CheckedRun
    guards: tuple[type[Detector], ...] = ()

    def run_detectors(
        self, kinds: Sequence[type[Detector]], failures: Failures = RAISED
    ) -> tuple[list[Detector], Finding | None]:
        """Run the launch with detectors, which observe accesses and values.

        Args:
            kinds: the classes of the detectors.
            failures: records detectors that fail.

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
        for detector in that_define("meet", detectors):
            with failures.kept(type(detector)):
                detector.meet(detectors)
        stopped = None
        try:
            self._execute(run, detectors, failures=failures)
        except Stopped as stop:
            stopped = stop.finding
        for detector in that_define("end", detectors) if stopped is None else ():
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
        finally:
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
