"""A launch that is checked: it can be run again, on copies of its arguments,
as often as somebody has a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.code import checked_code
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.endless_loop import EndlessLoop
from kernellab.checker.detectors.out_of_bounds import OutOfBounds
from kernellab.checker.events import Change, EventDispatcher
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import Deadlock
from kernellab.interpreter.execution.grid import Grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.launch.argument_copies import copied
from kernellab.records import Target
from kernellab.records.run_options import DEFAULT, RunOptions


@dataclass(frozen=True)
class CheckSession:
    """The launch as it was asked for; see `CheckedRun` for the attributes."""

    kernel: Any
    call: BoundCall
    code: ProgramCode
    grid: Grid
    outputs: tuple[str, ...]
    uninitialized: tuple[str, ...]
    most_turns: int
    target: Target

    def run_detectors(
        self, kinds: Sequence[type[Detector]]
    ) -> tuple[list[Detector], Finding | None]:
        """Run it, observed by detectors of these kinds: they observe values too.

        Returns:
            The detectors; and what stopped the run, where it would not have ended.
        """
        run = self._new_run(checked_code(self.kernel, self.code, kinds))
        detectors = [kind(run) for kind in kinds if kind.concerns(run)]
        for one in detectors:
            one.meet(detectors)
        try:
            self._execute(run, detectors)
        except Stopped as stopped:
            return detectors, stopped.finding
        for one in detectors:
            one.end()
        return detectors, None

    def repeat(
        self,
        detectors: Callable[[CheckedRun], Sequence[Detector]] = lambda _new_run: (),
        options: RunOptions = DEFAULT,
        *,
        one_by_one: bool = False,
        change: Change | None = None,
    ) -> CheckedRun:
        """Run it again, in another way perhaps.

        Args:
            detectors: makes those that observe it, accesses only.
            options: in another order.
            one_by_one: one program after the other, no two in step.
            change: puts other accesses in the place of some.

        Returns:
            The run, its tensors as it has left them.

        Raises:
            Stopped: it would not have ended.
            KernelFault: as `kernellab.run`.
        """
        code = checked_code(self.kernel, self.code, (EndlessLoop,))
        run = self._new_run(replace(code, batch=1) if one_by_one else code)
        self._execute(run, [EndlessLoop(run), *detectors(run)], options, change)
        return run

    def _new_run(self, code: ProgramCode) -> CheckedRun:
        call = replace(self.call, values=copied(self.call.values))
        return CheckedRun(
            self.kernel,
            call,
            code,
            self.grid,
            self.target,
            self.outputs,
            self.uninitialized,
            self.most_turns,
        )

    def _execute(
        self,
        run: CheckedRun,
        detectors: Sequence[Detector],
        options: RunOptions = DEFAULT,
        change: Change | None = None,
    ) -> None:
        bounds = next((d for d in detectors if isinstance(d, OutOfBounds)), OutOfBounds(run))
        dispatcher = EventDispatcher(run, bounds, detectors, change)
        try:
            launch_observed(run.kernel, run.grid, run.call, run.code, dispatcher, options)
        except Deadlock as deadlock:
            raise Stopped(_deadlock_finding(deadlock)) from deadlock
        finally:
            dispatcher.put_back()


def _deadlock_finding(deadlock: Deadlock) -> Finding:
    """A deadlock as a finding."""
    return Finding(
        kind="deadlock",
        message=deadlock.problem.removeprefix("deadlock: "),
        advice=deadlock.advice,
        position=deadlock.position,
        programs=deadlock.programs[:LISTED_PROGRAMS],
        program_count=len(deadlock.programs),
    )
