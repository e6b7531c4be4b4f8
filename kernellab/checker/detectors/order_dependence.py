"""Results that change with the order in which programs run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.race import Race
from kernellab.checker.float_sums import FloatSums
from kernellab.checker.last_writer import LastWriter
from kernellab.checker.outcomes import Apart, differences
from kernellab.checker.schedules import Schedule, learns, other_schedules
from kernellab.errors import KernelFault
from kernellab.interpreter.execution.grid import linear_ids
from kernellab.ir.locations import locate

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class OrderDependence(Detector):
    """Runs the launch in other orders, where programs can learn of each other at all,
    and looks whether results change.

    A race is told as that: what it does to results is its consequence.
    """

    kinds = ("order-dependence",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums = FloatSums(run)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.programs > 1

    def meet(self, others: Sequence[Detector]) -> None:
        (self._race,) = (one for one in others if isinstance(one, Race))

    def before(self, access: Access) -> None:
        self._sums.before(access)

    def ask(self, session: CheckSession) -> None:
        if any(self._race.findings()):
            return
        shared = self._race.shared
        looks = learns(self.run, shared)
        found: Callable[[], None] | None = None
        for schedule in other_schedules(self.run, shared):
            if found is not None and not looks:
                break
            try:
                run = self._race.look_again(session, schedule) if looks else schedule.run(session)
            except (Stopped, KernelFault) as failure:
                found = found or partial(self._report_failure, schedule.words, failure)
                continue
            if run is None:  # there is a race, which is told
                return
            apart = list(differences(self.run.results, run.results, self._sums.tolerance))
            if apart:
                found = found or partial(self._report, session, schedule, apart)
        if found is not None:
            found()

    def _report(self, session: CheckSession, schedule: Schedule, apart: Sequence[Apart]) -> None:
        first = apart[0]
        writers: list[LastWriter] = []

        def watch(run: CheckedRun) -> Sequence[Detector]:
            writers[:] = [LastWriter(run, first)]
            return writers

        session.repeat(watch)
        if writers[0].operation is None:
            schedule.run(session, watch)
        others = [one.name for one in apart[1:]]
        also = (
            f"; {', '.join(others)} change{'s' if len(others) == 1 else ''} too" if others else ""
        )
        through = writers[0].name
        if through not in ("", first.name):
            also += f" ({first.name} and {through}, which is written here, share memory)"
        message = (
            f"{first.element} depends on the order of the programs: it is {first.one_text} "
            f"when they run in the order of their ids, {first.other_text} when they run "
            f"{schedule.words}{also}"
        )
        facts = {"argument": first.name, "index": first.index, "message": message}
        if any(
            isinstance(one, float) and not math.isfinite(one) for one in (first.one, first.other)
        ):
            facts["advice"] = _SUMS_THAT_LEAVE
        self._add(writers[0].operation, facts, writers[0].programs, first.count)

    def _report_failure(self, words: str, failure: Stopped | KernelFault) -> None:
        """One finding for a run that does not end: where it was stopped, of the kind of that."""
        start = (
            f"with its programs run {words}, the kernel does not end as it does in the order of "
            "their ids: "
        )
        if isinstance(failure, KernelFault):
            where = {"kind": self.kinds[0], "position": failure.position, "advice": _ADVICE}
            self.collector.add("order", {**where, "message": start + failure.what})
            return
        found = failure.finding
        facts: dict[str, Any] = {
            "kind": found.kind,
            "position": found.position,
            "calls": found.calls,
            "message": start + found.message,
            "advice": found.advice + _LOCKS * (found.kind == "deadlock"),
        }
        programs = linear_ids(found.programs, self.run.grid)
        self.collector.add("order", facts, sorted(programs))

    def _add(
        self, op: Operation | None, facts: dict[str, Any], programs: Sequence[int], count: int
    ) -> None:
        frames = () if op is None else locate(op.location).frames
        where = {
            "kind": self.kinds[0],
            "position": frames[0] if frames else None,
            "calls": tuple(reversed(frames[1:])),
            "advice": _ADVICE,
        }
        self.collector.add("order", {**where, **facts}, programs, count)


_ADVICE = (
    "A GPU promises no order. Look for what a program learns from an atomic (a ticket, a count "
    "that others go on changing) and lets into its results; let results depend on tl.program_id "
    "alone, or sort them afterwards."
)


_LOCKS = " Where a program takes several locks, let all take them in one order."

_SUMS_THAT_LEAVE = (
    "A GPU promises no order. Where a sum goes beyond its type on the way in one order, and not in "
    "another, add up in fp32, or scale what is added."
)
