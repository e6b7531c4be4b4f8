"""Races: two programs that touch one element, one of them by a plain store,
with nothing that orders them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.outcomes import as_text, texts
from kernellab.checker.races.conflicts import ShadowMemory
from kernellab.checker.races.discarded import Repeatable, with_effect
from kernellab.checker.races.happens_before import orders_programs, weakness
from kernellab.checker.races.tracking import (
    MOST_FOLLOWED,
    AccessPair,
    ElementAccess,
    PairSummary,
    SeenEnough,
    Suspects,
    Tracker,
    is_more,
    joined,
    touch_of,
    union,
)
from kernellab.checker.schedules import BACKWARDS, IN_ORDER, Schedule
from kernellab.checker.shadow.memory import Storages
from kernellab.checker.written_storages import storages_of
from kernellab.errors import KernelFault, SourcePosition
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.ir.locations import locate

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class Race(Detector):
    """Looks which elements are touched by several programs;
    where there are some, the launch runs again, program by program, to see what orders them.

    Attributes:
        shared: True where programs see what others left in memory, in order or not.
        suspects: elements that several programs touch, and one of them stores to.
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

    def before(self, access: Access) -> None:
        shadow: ShadowMemory | None = self._shadows[access.buffer]
        if shadow is not None:
            shadow.touch(touch_of(access), access)

    def end(self) -> None:
        for shadow in self._shadows.by_start.values():
            found = None if shadow is None else shadow.conflicts()
            if found is not None:
                races, shown = found
                self.shared = self.shared or bool(shown.any())
                if races.any():
                    key = self.run.storage_of(shadow.storage.tensor)
                    self.suspects[key] = shadow.storage, races
        self.shared = self.shared or bool(self.suspects)

    def ask(self, session: CheckSession) -> None:
        for schedule in (IN_ORDER, BACKWARDS) if self.suspects else ():
            self._follow(session, schedule, self.suspects)
            if self._reported:
                return

    def look_again(self, session: CheckSession, schedule: Schedule) -> CheckedRun | None:
        """Run the launch in another schedule, and look for suspects there too.

        Returns:
            The run, its tensors as it has left them; None where a race was seen.

        Raises:
            Stopped, KernelFault: as `CheckSession.repeat`.
        """
        seen: list[Race] = []
        trackers: list[Tracker] = []
        follows = schedule.preemption is not None and bool(self.suspects)

        def watch(run: CheckedRun) -> Sequence[Detector]:
            seen.append(Race(run))
            trackers.extend([Tracker(run, self.suspects, keeps_reads=True)] * follows)
            return [*seen, *trackers]

        try:
            run = schedule.run(session, watch)
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
        """Run the launch program by program, and see what orders them."""
        trackers: list[Tracker] = []
        preempted = schedule.preemption is not None

        def track(run: CheckedRun) -> Sequence[Detector]:
            trackers.append(Tracker(run, suspects, keeps_reads=preempted))
            return trackers

        again = None
        with suppress(Stopped, SeenEnough):  # what was seen until then counts
            run = schedule.run(session, track, one_by_one=True)
            again = Repeatable(session, schedule, run) if preempted else None
        self._conclude(trackers, again)

    def _conclude(self, trackers: Sequence[Tracker], again: Repeatable | None = None) -> None:
        """Report what trackers saw; where they saw it is run `again`, only what has an effect."""
        for tracker in trackers:
            if tracker.is_cut_off:
                self.notes = (
                    f"Programs share elements of memory. In which order they reach them was "
                    f"followed through {MOST_FOLLOWED:,} of the {self.run.programs:,} programs.",
                )
            for together in joined(tracker.summaries):
                counting = together if again is None else with_effect(together, again)
                if counting:
                    self._report(counting)

    @property
    def _reported(self) -> bool:
        return any(self.findings())

    def _report(self, together: list[PairSummary]) -> None:
        """One finding for operations that race with each other, at the last store among them."""
        stores = [
            element_access.operation
            for one in together
            for element_access in _element_accesses(one.example)
            if element_access.kind == "write"
        ]
        here = max(stores, key=_line)
        summary = max(
            (one for one in together if _is_among(here, one.example)),
            key=lambda one: one.example.second.operation is here,
        )
        example = summary.example
        mine, _ = _told(example, here)
        frames = locate(here.location).frames
        facts: dict[str, Any] = {
            "kind": "race",
            "argument": mine.name,
            "index": mine.index,
            "position": frames[0] if frames else None,
            "calls": tuple(reversed(frames[1:])),
            "values": example.values if example.second.operation is here else {},
            "message": _message(self.run, example, here) + _blame(summary.weak),
            "advice": _advice(summary, any(map(orders_programs, self.run.code.module.walk()))),
        }
        programs = {program for one in together for program in one.programs}
        self.collector.add(here, facts, sorted(programs), sum(one.count for one in together))


def _watched(run: CheckedRun) -> frozenset[str | int] | None:
    """The storages that plain stores may write, or atomics while plain loads read them,
    see `CheckedRun.storage_of`; EVERYTHING where nobody knows.
    """
    effects = memory_effects(run.code)
    stored, updated, loaded = effects.stored, effects.updated, effects.loaded
    if stored is EVERYTHING or (updated is EVERYTHING and loaded is EVERYTHING):
        return EVERYTHING
    storages = [storages_of(run, arguments) for arguments in (stored, updated, loaded)]
    return storages[0] | (storages[1] & storages[2])


def _element_accesses(example: AccessPair) -> tuple[ElementAccess, ElementAccess]:
    return example.first, example.second


def _is_among(operation: Operation, example: AccessPair) -> bool:
    return any(
        element_access.operation is operation for element_access in _element_accesses(example)
    )


def _line(operation: Operation) -> tuple[str, int]:
    position = _position(operation)
    return ("", 0) if position is None else (position.file, position.line)


def _position(operation: Operation) -> SourcePosition | None:
    frames = locate(operation.location).frames
    return frames[0] if frames else None


_VERBS = {"read": "reads", "write": "writes", "update": "updates"}


def _told(example: AccessPair, here: Operation) -> tuple[ElementAccess, ElementAccess]:
    """The store that the finding stands at, and the other access."""
    first, second = _element_accesses(example)
    return (second, first) if second.operation is here else (first, second)


def _message(run: CheckedRun, example: AccessPair, here: Operation) -> str:
    mine, other = _told(example, here)
    which = _element(mine)
    if mine.operation is other.operation:
        first, second = _element_accesses(example)
        both = " and ".join(texts(first.value, second.value))
        values = "" if first.value is None else f": {both}"
        programs = sorted(run.program_id(one.program) for one in (first, second))
        return (
            f"programs {programs[0]} and {programs[1]} both write {which}{values}, and "
            "nothing orders them"
        )
    position = _position(other.operation)
    place = f" on line {position.line}" if position else ""
    how = " by an atomic" if other.kind == "update" else ""
    shared = mine.name != other.name
    what = _element(other) if shared else "it"
    same = f"; {mine.name} and {other.name} share memory, and these are one element" * shared
    return (
        f"program {run.program_id(mine.program)} writes {which}{_held(mine)}, and program "
        f"{run.program_id(other.program)} {_VERBS[other.kind]} {what}{how}{_held(other)}{place}"
        f"{same}; nothing orders the two"
    )


def _element(one: ElementAccess) -> str:
    """ "x_ptr[3, 4]"."""
    return f"{one.name or 'memory'}[{', '.join(map(str, one.index))}]"


def _blame(weak: Sequence[Operation]) -> str:
    """ "; the atomic on line 7 does not, with sem="relaxed""."""
    named = sorted({_weak_words(op) for op in weak})
    if not named:
        return ""
    does = "does" if len(named) == 1 else "do"
    return f": {' and '.join(named)} {does} not"


def _weak_words(op: Operation) -> str:
    position = _position(op)
    place = f" on line {position.line}" if position else ""
    return f"the atomic{place} with {weakness(op)}"


def _held(element_access: ElementAccess) -> str:
    return "" if element_access.value is None else f" = {as_text(element_access.value)}"


_OF_LOCKS = (
    " Here atomics order some of it: a lock orders those programs that take the same one, and a "
    "flag hands on only what its program stored before it set the flag."
)


def _advice(summary: PairSummary, has_ordering: bool) -> str:
    """What to try; `has_ordering` of a kernel with atomics that order something."""
    example = summary.example
    if summary.weak:
        said = sorted({str(weakness(op)) for op in summary.weak})
        return (
            f"Leave {' and '.join(said)} out: by default an atomic acquires and releases for all "
            'programs of the GPU (sem="acq_rel", scope="gpu"), and so hands on what its program '
            "did before."
        )
    first, second = _element_accesses(example)
    if first.name != second.name:
        return (
            f"Pass tensors that share no memory as {first.name} and {second.name} (a clone of "
            "one), or let each program touch what is its own in both."
        )
    kinds = {element_access.kind for element_access in _element_accesses(example)}
    if kinds == {"write"}:
        return (
            "Give every program elements of its own (offsets that depend on tl.program_id along "
            "each axis of the grid), let one program store, or combine the values by an atomic: "
            "tl.atomic_add, tl.atomic_max."
        ) + _OF_LOCKS * has_ordering
    if "update" in kinds:
        return (
            "An atomic protects an element only where all of them are atomic: use tl.atomic_xchg "
            "for this store, or keep the element out of the others' reach until they are ordered."
        )
    return (
        "Write to another tensor than the one that is read, or launch twice; programs of one "
        "launch are ordered by "
        "atomics alone: a lock or a flag whose atomics acquire and release "
        '(sem="acq_rel", the default).'
    ) + _OF_LOCKS * has_ordering
