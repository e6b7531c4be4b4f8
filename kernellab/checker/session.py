"""A launch that is checked: it can be run again, on copies of its arguments,
as often as somebody has a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from kernellab.checker.checked_run import CheckedRun
from kernellab.checker.code import checked_code
from kernellab.checker.detector import Detector, Stopped, that_define
from kernellab.checker.events import Change, EventDispatcher, may_hear
from kernellab.checker.failures import Failures
from kernellab.checker.lazy_copies import LazyCopies
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.checker.written_storages import unchanged_storages
from kernellab.errors import Deadlock
from kernellab.interpreter.execution.launcher import launch_observed, launch_sampled
from kernellab.interpreter.execution.preemption import Preemption
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.launch.argument_copies import copied
from kernellab.records.run_options import DEFAULT, RunOptions

_Kind = TypeVar("_Kind", bound=Detector)


@dataclass(frozen=True)
class CheckSession:
    """What a check knows of its launch, and how it runs it.

    Attributes:
        launch: as it was asked for, on the caller's own arguments, which no run touches.
        guards: the detectors without which a further run may not end; see `Detector.guards`.
    """

    launch: CheckedRun
    guards: tuple[type[Detector], ...] = ()

    def run_detectors(
        self, kinds: Sequence[type[Detector]], failures: Failures | None = None
    ) -> tuple[list[Detector], Finding | None]:
        """Run it, observed by detectors of these kinds: they observe values too.

        Args:
            kinds: of the detectors.
            failures: takes note of those that fail; without it, their errors are raised.

        Returns:
            The detectors, those that failed left out; and what stopped the run, where it would not
            have ended.
        """
        kept = _raised if failures is None else failures.kept
        if failures is not None:
            kinds = self._that_observe(kinds, failures)
        code = self._code(kinds)
        run = self._new_run(code)
        detectors: list[Detector] = []
        for kind in kinds:
            with kept(kind):
                if may_hear(kind, code) and kind.concerns(run):
                    detectors.append(kind(run))
        for one in that_define("meet", detectors):
            with kept(type(one)):
                one.meet(detectors)
        stopped = None
        try:
            self._execute(run, detectors, failures=failures)
        except Stopped as stop:
            stopped = stop.finding
        for one in that_define("end", detectors) if stopped is None else ():
            with kept(type(one)):
                one.end()
        return [one for one in detectors if failures is None or type(one) not in failures], stopped

    def run_program(self, kind: type[_Kind], program: int) -> _Kind:
        """Run one program alone, by its linear id, observed by a detector: values too.

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
        options: RunOptions = DEFAULT,
        *,
        one_by_one: bool = False,
        preemption: Preemption | None = None,
        change: Change | None = None,
    ) -> CheckedRun:
        """Run it again, in another way perhaps.

        Args:
            detectors: makes those that observe it, accesses only.
            options: in another order.
            one_by_one: one program after the other, no two in step.
            preemption: how programs are preempted at the kernel's switch points.
            change: puts other accesses in the place of some.

        Returns:
            The run, its tensors as it has left them.

        Raises:
            Stopped: it would not have ended.
            KernelFault: as `kernellab.run`.
        """
        code = self._code(self.guards, preempts=preemption is not None)
        run = self._new_run(replace(code, batch=1) if one_by_one else code)
        guards = [kind(run) for kind in self.guards]
        self._execute(run, [*guards, *detectors(run)], options, change, preemption=preemption)
        return run

    def _that_observe(
        self, kinds: Sequence[type[Detector]], failures: Failures
    ) -> Sequence[type[Detector]]:
        """Those that can say what they observe."""
        with suppress(Exception):  # of whom it is, is asked below
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
        options: RunOptions = DEFAULT,
        change: Change | None = None,
        failures: Failures | None = None,
        preemption: Preemption | None = None,
    ) -> None:
        dispatcher = EventDispatcher(run, detectors, change, failures)
        try:
            launch_observed(
                run.kernel, run.grid, run.call, run.code, dispatcher, options, preemption
            )
        except Deadlock as deadlock:
            raise Stopped(_deadlock_finding(deadlock)) from deadlock
        finally:
            dispatcher.put_back()


def _raised(kind: type[Detector]) -> AbstractContextManager[None]:
    """In place of `Failures.kept`, where failures are raised."""
    del kind
    return nullcontext()


def _deadlock_finding(deadlock: Deadlock) -> Finding:
    """A deadlock as a finding."""
    return Finding.of(
        kind="deadlock",
        message=deadlock.problem.removeprefix("deadlock: "),
        advice=deadlock.advice,
        position=deadlock.position,
        programs=deadlock.programs[:LISTED_PROGRAMS],
        program_count=len(deadlock.programs),
    )
