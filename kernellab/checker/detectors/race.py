"""Find races: two programs access the same element, at least one of them with a plain store, and
nothing orders the two accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, Stopped
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
from kernellab.common.formatting import number_text, number_texts
from kernellab.errors import KernelFault, SourcePosition
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.ir.locations import locate

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


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

    def before(self, access: Access) -> None:
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
        follows = schedule.preemption is not None and bool(self.suspects)

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
        preempted = schedule.preemption is not None

        def track(run: CheckedRun) -> Sequence[Detector]:
            trackers.append(Tracker(run, suspects, keeps_reads=preempted))
            return trackers

        again = None
        with suppress(Stopped, SeenEnough):  # the accesses up to this point still count
            run = session.repeat(track, schedule, one_by_one=True)
            again = Repeatable(session, schedule, run) if preempted else None
        self._conclude(trackers, again)

    def _conclude(self, trackers: Sequence[Tracker], again: Repeatable | None = None) -> None:
        """Report the races that trackers saw; those of a repeatable run only if they have an
        effect.
        """
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
            for element_access in _element_accesses(pair.example)
            if element_access.kind == "write"
        ]
        here = max(stores, key=_line)
        summary = max(
            (pair for pair in together if _is_among(here, pair.example)),
            key=lambda pair: pair.example.second.operation is here,
        )
        example = summary.example
        mine, _ = _ordered(example, here)
        facts: dict[str, Any] = {
            "kind": "race",
            "argument": mine.name,
            "index": mine.index,
            "places": locate(here.location).frames[::-1],
            "values": example.values if example.second.operation is here else {},
            "message": _message(self.run, example, here) + _blame(summary.weak),
            "advice": _advice(
                summary,
                any(map(orders_programs, self.run.code.module.walk())),
                _depends_on_program(self.run, example),
            ),
        }
        programs = {program for pair in together for program in pair.programs}
        self.collector.add(here, facts, sorted(programs), sum(pair.count for pair in together))


def _watched(run: CheckedRun) -> frozenset[str | int] | None:
    """Return the storages that plain stores may write, and those that atomics may write while
    plain loads read them (see `CheckedRun.storage_of`); EVERYTHING if that is unknown.
    """
    effects = memory_effects(run.code)
    stored, updated, loaded = effects.stored, effects.updated, effects.loaded
    if stored is EVERYTHING or (updated is EVERYTHING and loaded is EVERYTHING):
        return EVERYTHING
    storages = [storages_of(run, arguments) for arguments in (stored, updated, loaded)]
    return storages[0] | (storages[1] & storages[2])


def _harmless(example: AccessPair) -> str:
    """Return, as text, that programs store the same value, so that their order does not matter."""
    store = example.second
    position = _position(store.operation)
    place = f" on line {position.line}" if position else ""
    value = "" if store.value is None else f", {number_text(store.value)},"
    return (
        f"Several programs store the same value{value} to {_element(store)}{place}. Nothing orders "
        "these stores, and their order does not matter."
    )


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


def _ordered(example: AccessPair, here: Operation) -> tuple[ElementAccess, ElementAccess]:
    """Return the store that the finding is reported at, then the other access."""
    first, second = _element_accesses(example)
    return (second, first) if second.operation is here else (first, second)


def _message(run: CheckedRun, example: AccessPair, here: Operation) -> str:
    mine, other = _ordered(example, here)
    which = _element(mine)
    if mine.operation is other.operation:
        first, second = _element_accesses(example)
        both = " and ".join(number_texts(first.value, second.value))
        values = "" if first.value is None else f" (the values {both})"
        programs = sorted(run.program_id(access.program) for access in (first, second))
        return (
            f"programs {programs[0]} and {programs[1]} both write {which}{values}, and "
            "nothing orders the two writes"
        )
    position = _position(other.operation)
    place = f" on line {position.line}" if position else ""
    how = " with an atomic" if other.kind == "update" else ""
    shared = mine.name != other.name
    what = _element(other) if shared else "it"
    same = f"; {mine.name} and {other.name} share memory, and this is the same element" * shared
    written = "" if mine.value is None else f" = {number_text(mine.value)}"
    value = "" if other.value is None else f" (value {number_text(other.value)})"
    return (
        f"program {run.program_id(mine.program)} writes {which}{written}, and program "
        f"{run.program_id(other.program)} {_VERBS[other.kind]} {what}{how}{place}{value}"
        f"{same}; nothing orders the two accesses"
    )


def _element(access: ElementAccess) -> str:
    """Return the element as text: "x_ptr[3, 4]"."""
    return f"{access.name or 'memory'}[{', '.join(map(str, access.index))}]"


def _blame(weak: Sequence[Operation]) -> str:
    """Return ': the atomic on line 7 with sem="relaxed" does not', or ""."""
    named = sorted({_weak_words(op) for op in weak})
    if not named:
        return ""
    does = "does" if len(named) == 1 else "do"
    return f": {' and '.join(named)} {does} not"


def _weak_words(op: Operation) -> str:
    position = _position(op)
    place = f" on line {position.line}" if position else ""
    return f"the atomic{place} with {weakness(op)}"


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
    False: "Give each program its own elements (offsets that depend on tl.program_id along each "
    f"axis of the grid), {_OR_ONE}",
}


def _depends_on_program(run: CheckedRun, pair: AccessPair) -> bool:
    """Return whether the index is made of the program id of each axis along which they differ."""
    ids = [run.program_id(access.program) for access in (pair.first, pair.second)]
    axes = [axis for axis, (mine, other) in enumerate(zip(*ids, strict=True)) if mine != other]
    return all(f"tl.program_id({axis})" in pair.values for axis in axes)


def _advice(summary: PairSummary, has_ordering: bool, depends_on_program: bool) -> str:
    """Return what to try.

    Args:
        has_ordering: whether the kernel has atomics that order programs.
        depends_on_program: whether the index depends on the program id of each axis along which
            the two programs differ.
    """
    example = summary.example
    if summary.weak:
        options = sorted({str(weakness(op)) for op in summary.weak})
        return (
            f"Remove {' and '.join(options)}: by default, an atomic acquires and releases for all "
            'programs on the GPU (sem="acq_rel", scope="gpu"), so that other programs see what its '
            "program wrote before."
        )
    first, second = _element_accesses(example)
    if first.name != second.name:
        return (
            f"Pass tensors that do not share memory as {first.name} and {second.name} (clone one "
            "of them), or let each program access only its own elements of both."
        )
    kinds = {element_access.kind for element_access in _element_accesses(example)}
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
