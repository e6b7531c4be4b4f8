"""Find races of programs, and results that change with the order in which programs run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.arguments import differences
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, on_line, storages_of
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.detectors.sums import FloatSums
from kernellab.checker.element_inputs import last_writer
from kernellab.checker.happens_before import (
    MOST_FOLLOWED,
    AccessPair,
    ElementAccess,
    PairSummary,
    SeenEnough,
    Suspects,
    Tracker,
    is_more,
    joined,
    orders_programs,
    touch_of,
    union,
    weakness,
)
from kernellab.checker.session import (
    BACKWARDS,
    IN_ORDER,
    CheckSession,
    Schedule,
    learns,
    other_schedules,
)
from kernellab.checker.shadow_memory import ShadowMemory, Storages
from kernellab.common.text import element_text, number_text, number_texts
from kernellab.errors import KernelFault
from kernellab.interpreter.execution.grid import linear_ids
from kernellab.interpreter.execution.program import EVERYTHING, memory_effects
from kernellab.interpreter.execution.scheduler import Residency
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import Load, MemoryAccess
from kernellab.ir.operations import locate
from kernellab.records.launches import Difference

# Find racing reads without an effect: a program reads a version number again, and discards what
# it read if another program has begun to write.
#
# The run is repeated with other values in place of those that were read, to see whether a result
# changes.


@dataclass(frozen=True)
class Repeatable:
    """A run of a launch in which programs are preempted, and how to repeat it."""

    session: CheckSession
    schedule: Schedule
    run: CheckedRun


def with_effect(together: Sequence[PairSummary], again: Repeatable) -> list[PairSummary]:
    """Return the access pairs with an effect: pairs of stores, and reads that affect a result."""
    stores = [pair for pair in together if not pair.reads]
    if len(stores) == len(together) or not _have_an_effect(together, again):
        return stores
    reading = [pair for pair in together if pair.reads]
    alone = [pair for pair in reading if _have_an_effect([pair], again)]
    return stores + (alone or reading)


def _have_an_effect(together: Sequence[PairSummary], again: Repeatable) -> bool:
    reads = {number: op for pair in together for number, op in pair.reads.items()}
    return any(_changes(again, _Other(reads, values)) for values in (_far_off, _near))


def _changes(again: Repeatable, other: _Other) -> bool:
    """Whether other values change a result, or cannot be put where they belong."""
    try:
        run = again.session.repeat(schedule=again.schedule, change=other)
    except (Stopped, KernelFault):
        return True
    return bool(other.reads) or any(True for _ in differences(again.run.results, run.results))


class _Other:
    """Puts other values in what some accesses of a run read; see `events.Change`.

    Attributes:
        reads: those that have not been met so far: which access of the run, and its operation.
    """

    def __init__(
        self,
        reads: Mapping[int, Operation],
        values: Callable[[numpy.ndarray, int], numpy.ndarray],
    ) -> None:
        self.reads = dict(reads)
        self._values = values
        self._number = 0

    def __call__(self, access: CheckedAccess) -> MemoryAccess:
        self._number += 1
        request = access.request
        if self.reads.get(self._number) is not access.operation or not isinstance(request, Load):
            return request
        del self.reads[self._number]
        held = numpy.asarray(request.made_by(global_memory))
        nowhere = numpy.zeros((1,) * request.rank, numpy.bool_)
        return dataclasses.replace(request, mask=nowhere, other=self._values(held, self._number))


def _far_off(held: numpy.ndarray, number: int) -> numpy.ndarray:
    """NaN; of integers, those with other bits, which differ from read to read."""
    if held.dtype.kind in "iub":
        return numpy.asarray(
            ~held if held.dtype.kind == "b" else ~held + held.dtype.type(number % 97)
        )
    return numpy.full_like(held, numpy.nan)


def _near(held: numpy.ndarray, number: int) -> numpy.ndarray:
    if held.dtype.kind == "b":
        return numpy.asarray(~held)
    return numpy.asarray(held + held.dtype.type(1 + number % 97))


class Race(Detector):
    """Find the elements that several programs access. If there are any, run the launch again,
    program by program, to see what orders the accesses.

    Attributes:
        shared: True if a program sees what another one left in memory, ordered or not.
        suspects: the elements that several programs access and at least one stores to.
    """

    kinds = ("race",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._watched = _watched(run)
        self._shadows = Storages(self._begin)
        self.suspects: Suspects = {}
        self.shared = False

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return run.programs > 1

    def _begin(self, buffer: Buffer) -> ShadowMemory | None:
        key = self.run.storage_of(buffer.tensor)
        if self._watched is not EVERYTHING and key not in self._watched:
            return None
        return ShadowMemory(buffer, self.run.programs)

    def before(self, access: CheckedAccess) -> None:
        shadow: ShadowMemory | None = self._shadows[access.buffer]
        if shadow is not None:
            shadow.touch(touch_of(access), access)

    def end(self) -> None:
        for shadow in self._shadows.by_start.values():
            conflicts = None if shadow is None else shadow.conflicts()
            if conflicts is not None:
                races, visible = conflicts
                self.shared = self.shared or bool(visible.any())
                if races.any():
                    key = self.run.storage_of(shadow.storage.tensor)
                    self.suspects[key] = shadow.storage, races
        self.shared = self.shared or bool(self.suspects)

    def investigate(self, session: CheckSession) -> None:
        for schedule in (IN_ORDER, BACKWARDS) if self.suspects else ():
            self._follow(session, schedule, self.suspects)
            if self._reported:
                return

    def look_again(self, session: CheckSession, schedule: Schedule) -> CheckedRun | None:
        """Run the launch with another schedule, and look for suspects there too.

        Returns:
            The run, with its tensors as it left them; None if it had a race.

        Raises:
            Stopped, KernelFault: as `CheckSession.repeat`.
        """
        seen: list[Race] = []
        trackers: list[Tracker] = []
        follows = schedule.preempts and bool(self.suspects)

        def watch(run: CheckedRun) -> Sequence[Detector]:
            seen.append(Race(run))
            trackers.extend([Tracker(run, self.suspects, keeps_reads=True)] * follows)
            return [*seen, *trackers]

        try:
            run = session.repeat(watch, schedule)
        except (Stopped, KernelFault):
            self._conclude(trackers)
            raise
        self._conclude(trackers, Repeatable(session, schedule, run))
        seen[0].end()
        if not self._reported and is_more(seen[0].suspects, self.suspects):
            self._follow(session, schedule, seen[0].suspects)
            self.suspects = union(self.suspects, seen[0].suspects)
        return None if self._reported else run

    def _follow(self, session: CheckSession, schedule: Schedule, suspects: Suspects) -> None:
        """Run the launch program by program, and track what orders the accesses."""
        trackers: list[Tracker] = []
        preempted = schedule.preempts

        def track(run: CheckedRun) -> Sequence[Detector]:
            trackers.append(Tracker(run, suspects, keeps_reads=preempted))
            return trackers

        again = None
        with suppress(Stopped, SeenEnough):  # the accesses up to this point still count
            run = session.repeat(track, schedule, one_by_one=True)
            again = Repeatable(session, schedule, run) if preempted else None
        self._conclude(trackers, again)

    def _conclude(self, trackers: Sequence[Tracker], again: Repeatable | None = None) -> None:
        """Report the races that were seen; those of a repeatable run if they have an effect."""
        for tracker in trackers:
            if tracker.is_cut_off:
                self._add_note(
                    f"Programs share elements of memory. What orders their accesses was followed "
                    f"for only {MOST_FOLLOWED:,} of the {self.run.programs:,} programs."
                )
            for together in joined(tracker.summaries):
                if all(pair.same for pair in together):
                    self._add_note(_harmless(together[0].example))
                    continue
                counting = together if again is None else with_effect(together, again)
                if counting:
                    self._report(counting)

    def _add_note(self, note: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, note)))

    @property
    def _reported(self) -> bool:
        return any(self.findings())

    def _report(self, together: list[PairSummary]) -> None:
        """Report operations that race with each other once, at the last store among them."""
        stores = [
            element_access.operation
            for pair in together
            for element_access in (pair.example.first, pair.example.second)
            if element_access.kind == "write"
        ]
        here = max(stores, key=_line)
        at_line = (
            pair
            for pair in together
            if any(access.operation is here for access in (pair.example.first, pair.example.second))
        )
        summary = max(at_line, key=lambda pair: pair.example.second.operation is here)
        example = summary.example
        mine, _ = _ordered(example, here)
        facts: dict[str, Any] = {
            "argument": mine.name,
            "index": mine.index,
            "places": locate(here.location).frames[::-1],
            "values": example.values if example.second.operation is here else {},
            "message": _message(self.run, example, here) + _blame(summary.weak),
            "rivals": tuple(
                sorted(
                    (self.run.program_id(each.program), _deed(each))
                    for each in (example.first, example.second)
                )
            ),
            "advice": _race_advice(
                summary,
                any(map(orders_programs, self.run.code.module.walk())),
                _depends_on_program(self.run, example),
            ),
        }
        programs = {program for pair in together for program in pair.programs}
        self.collector.add(here, facts, sorted(programs), sum(pair.count for pair in together))


def _watched(run: CheckedRun) -> frozenset[str | int] | None:
    effects = memory_effects(run.code)
    stored, updated, loaded = effects.stored, effects.updated, effects.loaded
    if stored is EVERYTHING or (updated is EVERYTHING and loaded is EVERYTHING):
        return EVERYTHING
    storages = [storages_of(run, arguments) for arguments in (stored, updated, loaded)]
    return storages[0] | (storages[1] & storages[2])


def _harmless(example: AccessPair) -> str:
    """Return, as text, that programs store the same value, so that their order does not matter."""
    store = example.second
    value = "" if store.value is None else f", {number_text(store.value)},"
    return (
        f"Several programs store the same value{value} to "
        f"{element_text(store.name, store.index)}{on_line(store.operation)}. Nothing orders these "
        "stores, and their order does not matter."
    )


def _line(operation: Operation) -> tuple[str, int]:
    frames = locate(operation.location).frames
    return (frames[0].file, frames[0].line) if frames else ("", 0)


_VERBS = {"read": "reads", "write": "writes", "update": "updates"}


def _deed(access: ElementAccess) -> str:
    """Return what an access does, with the value if it is known: "writes 9.95"."""
    value = "" if access.value is None else f" {number_text(access.value)}"
    return f"{_VERBS[access.kind]}{value}"


def _ordered(example: AccessPair, here: Operation) -> tuple[ElementAccess, ElementAccess]:
    """Return the store that the finding is reported at, then the other access."""
    first, second = example.first, example.second
    return (second, first) if second.operation is here else (first, second)


def _message(run: CheckedRun, example: AccessPair, here: Operation) -> str:
    mine, other = _ordered(example, here)
    which = element_text(mine.name, mine.index)
    if mine.operation is other.operation:
        first, second = example.first, example.second
        both = " and ".join(number_texts(first.value, second.value))
        values = "" if first.value is None else f" (the values {both})"
        programs = sorted(run.program_id(access.program) for access in (first, second))
        return (
            f"programs {programs[0]} and {programs[1]} both write {which}{values}, and "
            "nothing orders the two writes"
        )
    how = " with an atomic" if other.kind == "update" else ""
    shared = mine.name != other.name
    what = element_text(other.name, other.index) if shared else "it"
    same = f"; {mine.name} and {other.name} share memory, and this is the same element" * shared
    written = "" if mine.value is None else f" = {number_text(mine.value)}"
    value = "" if other.value is None else f" (value {number_text(other.value)})"
    return (
        f"program {run.program_id(mine.program)} writes {which}{written}, and program "
        f"{run.program_id(other.program)} {_VERBS[other.kind]} {what}{how}"
        f"{on_line(other.operation)}{value}{same}; nothing orders the two accesses"
    )


def _blame(weak: Sequence[Operation]) -> str:
    """Return ': the atomic on line 7 with sem="relaxed" does not', or ""."""
    named = sorted({f"the atomic{on_line(op)} with {weakness(op)}" for op in weak})
    if not named:
        return ""
    does = "does" if len(named) == 1 else "do"
    return f": {' and '.join(named)} {does} not"


_OF_LOCKS = (
    " The atomics of this kernel order only some accesses: a lock orders the programs that take "
    "the same lock, and a flag publishes only what its program stored before it set the flag."
)


_OR_ONE = (
    "let only one program store, or combine the values with an atomic: tl.atomic_add, "
    "tl.atomic_max."
)
_OWN_ELEMENTS = {
    True: "The offsets depend on tl.program_id, and those of different programs overlap: the "
    "distance between two programs, or between two rows, is smaller than what each of them "
    f"writes. Correct what the ids and rows are multiplied by, {_OR_ONE}",
    False: "Give each program its own elements, by offsets that differ with tl.program_id along "
    f"each axis of the grid, {_OR_ONE}",
}


def _depends_on_program(run: CheckedRun, pair: AccessPair) -> bool:
    """Return whether the index is made of the program id of each axis along which they differ."""
    ids = [run.program_id(access.program) for access in (pair.first, pair.second)]
    axes = [axis for axis, (mine, other) in enumerate(zip(*ids, strict=True)) if mine != other]
    return all(f"tl.program_id({axis})" in pair.values for axis in axes)


def _race_advice(summary: PairSummary, has_ordering: bool, depends_on_program: bool) -> str:
    """Return what to try.

    Args:
        has_ordering: whether the kernel has atomics that order programs.
        depends_on_program: whether the index depends on every program id in which the two differ.
    """
    example = summary.example
    if summary.weak:
        options = sorted({str(weakness(op)) for op in summary.weak})
        return (
            f"Remove {' and '.join(options)}: by default, an atomic acquires and releases for all "
            'programs on the GPU (sem="acq_rel", scope="gpu"), so that other programs see what its '
            "program wrote before."
        )
    first, second = example.first, example.second
    if first.name != second.name:
        return (
            f"Pass tensors that do not share memory as {first.name} and {second.name} (clone one "
            "of them), or let each program access only its own elements of both."
        )
    kinds = {element_access.kind for element_access in (example.first, example.second)}
    if kinds == {"write"}:
        return _OWN_ELEMENTS[depends_on_program] + _OF_LOCKS * has_ordering
    if "update" in kinds:
        return (
            "An atomic protects an element only if all accesses to it are atomic. Use "
            "tl.atomic_xchg for this store, or keep other programs from the element until "
            "something orders them."
        )
    return (
        "Write to a different tensor than the one that is read, or split the kernel into two "
        "launches. Within one launch, only atomics order programs: a lock or a flag whose atomics "
        'acquire and release (sem="acq_rel", the default).'
    ) + _OF_LOCKS * has_ordering


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

    def before(self, access: CheckedAccess) -> None:
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
                report = report or partial(self._report_failure, schedule, failure)
                continue
            if run is None:  # the detector of races reports it
                return
            apart = list(differences(self.run.results, run.results, self._sums.bounds))
            if apart:
                report = report or partial(self._report, session, schedule, apart)
        if report is not None:
            report()

    def _report(
        self, session: CheckSession, schedule: Schedule, apart: Sequence[Difference]
    ) -> None:
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
        in_order, otherwise = first.texts
        message = (
            f"{first.element} depends on the order of the programs: it is {in_order} "
            f"when they run in the order of their ids, and {otherwise} when they run "
            f"{schedule.words}{also}"
        )
        facts = {"argument": first.name, "index": first.index, "message": message}
        values = (first.actual, first.expected)
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            facts["advice"] = _OVERFLOWING_SUMS
        self._add(writer.operation, facts, writer.programs, first.count)

    def _report_failure(self, schedule: Schedule, failure: Stopped | KernelFault) -> None:
        """Report a run that fails or does not end, with the kind and the place of its failure."""
        start = f"the kernel fails when its programs run {schedule.words}: "
        if isinstance(failure, KernelFault):
            where = {"kind": self.kinds[0], "position": failure.position, "advice": _ORDER_ADVICE}
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
        if isinstance(schedule.preemption, Residency):
            facts["advice"] = _RESIDENT.format(schedule.preemption.most)
        programs = linear_ids(finding.programs, self.run.grid)
        self.collector.add("order", facts, sorted(programs))

    def _add(
        self, op: Operation | None, facts: dict[str, Any], programs: Sequence[int], count: int
    ) -> None:
        frames = () if op is None else locate(op.location).frames
        facts = {"places": frames[::-1], "advice": _ORDER_ADVICE, **facts}
        self.collector.add("order", facts, programs, count)


_RESIDENT = (
    "A program that waits keeps its place, so the programs that it waits for must be on the GPU at "
    "the same time. Launch at most {:,} programs, fewer if they need many registers or much shared "
    "memory, and let each do the work of several."
)

_ORDER_ADVICE = (
    "A GPU does not guarantee the order of programs. Look for a value that a program gets from an "
    "atomic (a ticket, or a counter that other programs keep changing) and that affects its "
    "results. Make the results depend only on tl.program_id, or sort them afterwards."
)

_LOCKS = " If a program takes several locks, make all programs take them in the same order."

_OVERFLOWING_SUMS = (
    "A GPU does not guarantee the order of programs. If a partial sum overflows its type in one "
    "order but not in another, accumulate in fp32, or scale what is added."
)
