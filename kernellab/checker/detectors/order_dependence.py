"""Find results that change with the order in which programs run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.race import Race
from kernellab.checker.last_writer import last_writer
from kernellab.checker.numerics.float_sums import FloatSums
from kernellab.checker.outcomes import Apart, differences
from kernellab.checker.schedules import Schedule, learns, other_schedules
from kernellab.errors import KernelFault
from kernellab.interpreter.execution.grid import linear_ids
from kernellab.ir.locations import locate

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class OrderDependence(Detector):
    """Run the launch in other orders, if its programs can affect each other at all, and see
    whether results change.

    A race is reported as a race only, because the changed results follow from it.
    """

    kinds = ("order-dependence",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums = FloatSums(run)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.programs > 1

    def meet(self, others: Sequence[Detector]) -> None:
        (self._race,) = (other for other in others if isinstance(other, Race))

    def before(self, access: Access) -> None:
        self._sums.before(access)

    def investigate(self, session: CheckSession) -> None:
        if any(self._race.findings()):
            return
        shared = self._race.shared
        looks = learns(self.run, shared)
        report: Callable[[], None] | None = None
        for schedule in other_schedules(self.run, shared):
            if report is not None and not looks:
                break
            try:
                if looks:
                    run = self._race.look_again(session, schedule)
                else:
                    run = session.repeat(schedule=schedule)
            except (Stopped, KernelFault) as failure:
                report = report or partial(self._report_failure, schedule.words, failure)
                continue
            if run is None:  # the detector of races reports it
                return
            apart = list(differences(self.run.results, run.results, self._sums.tolerance))
            if apart:
                report = report or partial(self._report, session, schedule, apart)
        if report is not None:
            report()

    def _report(self, session: CheckSession, schedule: Schedule, apart: Sequence[Apart]) -> None:
        first = apart[0]
        writer = last_writer(first, session.repeat)
        if writer.operation is None:
            writer = last_writer(first, partial(session.repeat, schedule=schedule))
        others = [argument.name for argument in apart[1:]]
        also = (
            f"; {', '.join(others)} change{'s' if len(others) == 1 else ''} too" if others else ""
        )
        through = writer.name
        if through not in ("", first.name):
            also += f" ({first.name} and {through} share memory, and this line writes {through})"
        message = (
            f"{first.element} depends on the order of the programs: it is {first.value_text} "
            f"when they run in the order of their ids, and {first.other_text} when they run "
            f"{schedule.words}{also}"
        )
        facts = {"argument": first.name, "index": first.index, "message": message}
        values = (first.value, first.other)
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            facts["advice"] = _OVERFLOWING_SUMS
        self._add(writer.operation, facts, writer.programs, first.count)

    def _report_failure(self, words: str, failure: Stopped | KernelFault) -> None:
        """Report a run that fails or does not end, with the kind and the place of its failure."""
        start = f"the kernel fails when its programs run {words}: "
        if isinstance(failure, KernelFault):
            where = {"kind": self.kinds[0], "position": failure.position, "advice": _ADVICE}
            self.collector.add("order", {**where, "message": start + failure.what})
            return
        finding = failure.finding
        facts: dict[str, Any] = {
            "kind": finding.kind,
            "position": finding.position,
            "calls": finding.calls,
            "message": start + finding.message,
            "advice": finding.advice + _LOCKS * (finding.kind == "deadlock"),
        }
        programs = linear_ids(finding.programs, self.run.grid)
        self.collector.add("order", facts, sorted(programs))

    def _add(
        self, op: Operation | None, facts: dict[str, Any], programs: Sequence[int], count: int
    ) -> None:
        frames = () if op is None else locate(op.location).frames
        where = {
            "kind": self.kinds[0],
            "places": frames[::-1],
            "advice": _ADVICE,
        }
        self.collector.add("order", {**where, **facts}, programs, count)


_ADVICE = (
    "A GPU does not guarantee the order of programs. Look for a value that a program gets from an "
    "atomic (a ticket, or a counter that other programs keep changing) and that affects its "
    "results. Make the results depend only on tl.program_id, or sort them afterwards."
)

_LOCKS = " If a program takes several locks, make all programs take them in the same order."

_OVERFLOWING_SUMS = (
    "A GPU does not guarantee the order of programs. If a partial sum overflows its type in one "
    "order but not in another, accumulate in fp32, or scale what is added."
)
