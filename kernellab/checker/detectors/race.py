"""Races: two programs that touch one element, one of them by a plain store, with nothing that orders them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, Scene
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.outcomes import as_text
from kernellab.checker.races.conflicts import Ground
from kernellab.checker.races.tracking import (
    Deed,
    Encounter,
    SeenEnough,
    Suspects,
    Tally,
    Tracker,
    joined,
    touch_of,
)
from kernellab.checker.shadow.memory import Storages
from kernellab.errors import SourcePosition
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, Arguments, written_by
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.ir.locations import locate
from kernellab.records.run_options import RunOptions

if TYPE_CHECKING:
    from kernellab.checker.session import Examination


class Race(Detector):
    """Looks which elements are touched by several programs; where there are some, the launch runs again, program by program, to see what orders them.

    Attributes:
        shared: True where programs see what others left in memory, in order or not.
    """

    kinds = ("race",)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._watched = _watched(scene)
        self._grounds = Storages(self._begin)
        self._suspects: Suspects = {}
        self.shared = False

    @classmethod
    def concerns(cls, scene: Scene) -> bool:
        return scene.programs > 1

    def _begin(self, buffer: Buffer) -> Ground | None:
        key = self.scene.storage_of(buffer.tensor)
        if self._watched is not EVERYTHING and key not in self._watched:
            return None
        return Ground(buffer, self.scene.programs)

    def before(self, access: Access) -> None:
        ground: Ground | None = self._grounds[access.buffer]
        if ground is not None:
            ground.touch(touch_of(access), access)

    def end(self) -> None:
        suspects = {}
        for ground in self._grounds.by_start.values():
            found = None if ground is None else ground.conflicts()
            if found is not None:
                races, shown = found
                self.shared = self.shared or bool(shown.any())
                if races.any():
                    suspects[self.scene.storage_of(ground.storage.tensor)] = ground.storage, races
        self._suspects = suspects
        self.shared = self.shared or bool(suspects)

    def ask(self, examination: Examination) -> None:
        for order in ("sequential", "reversed") if self._suspects else ():
            trackers: list[Tracker] = []

            def track(scene: Scene, trackers: list[Tracker] = trackers) -> Sequence[Detector]:
                trackers.append(Tracker(scene, self._suspects))
                return trackers

            with suppress(Stopped, SeenEnough):  # what was seen until then counts
                examination.repeat(track, RunOptions(order=order), one_by_one=True)
            if trackers[0].tallies:
                for together in joined(trackers[0].tallies):
                    self._tell(together)
                return

    def _tell(self, together: list[Tally]) -> None:
        """One finding for operations that race with each other, at the last store among them."""
        stores = [deed.operation for one in together for deed in _deeds(one.example) if deed.kind == "write"]  # fmt: skip
        here = max(stores, key=_line)
        tally = max(
            (one for one in together if _is_among(here, one.example)),
            key=lambda one: one.example.second.operation is here,
        )
        example = tally.example
        frames = locate(here.location).frames
        facts: dict[str, Any] = {
            "kind": "race",
            "argument": example.name,
            "index": example.index,
            "position": frames[0] if frames else None,
            "calls": tuple(reversed(frames[1:])),
            "values": example.values if example.second.operation is here else {},
            "message": _message(self.scene, example, here),
            "advice": _advice(example),
        }
        programs = {program for one in together for program in one.programs}
        self.sightings.add(here, facts, sorted(programs), sum(one.count for one in together))


def _watched(scene: Scene) -> frozenset[str | int] | None:
    """The storages that plain stores may write, or atomics while plain loads read them, see `Scene.storage_of`; EVERYTHING where nobody knows."""
    written = written_by(scene.code)
    stored, updated, loaded = written.stored, written.updated, written.loaded
    if stored is EVERYTHING or (updated is EVERYTHING and loaded is EVERYTHING):
        return EVERYTHING
    storages = [_storages(scene, arguments) for arguments in (stored, updated, loaded)]
    return storages[0] | (storages[1] & storages[2])


def _storages(scene: Scene, arguments: Arguments) -> frozenset[str | int]:
    """Those that arguments lie in."""
    names = argument_names(scene.call, scene.code)
    numbers = range(len(names)) if arguments is EVERYTHING else arguments
    lying = [scene.tensors[names[one]] for one in numbers if names[one] in scene.tensors]
    return frozenset(map(scene.storage_of, lying))


def _deeds(example: Encounter) -> tuple[Deed, Deed]:
    return example.first, example.second


def _is_among(operation: Operation, example: Encounter) -> bool:
    return any(deed.operation is operation for deed in _deeds(example))


def _line(operation: Operation) -> tuple[str, int]:
    position = _position(operation)
    return ("", 0) if position is None else (position.file, position.line)


def _position(operation: Operation) -> SourcePosition | None:
    frames = locate(operation.location).frames
    return frames[0] if frames else None


_VERBS = {"read": "reads", "write": "writes", "update": "updates"}


def _message(scene: Scene, example: Encounter, here: Operation) -> str:
    which = f"{example.name or 'memory'}[{', '.join(map(str, example.index))}]"
    first, second = _deeds(example)
    if first.operation is second.operation:
        values = (
            "" if first.value is None else f": {as_text(first.value)} and {as_text(second.value)}"
        )
        programs = sorted(scene.program_id(deed.program) for deed in (first, second))
        return f"programs {programs[0]} and {programs[1]} both write {which}{values}, and nothing orders them"
    mine, other = (second, first) if second.operation is here else (first, second)
    position = _position(other.operation)
    place = f" on line {position.line}" if position else ""
    how = " by an atomic" if other.kind == "update" else ""
    return (
        f"program {scene.program_id(mine.program)} writes {which}{_held(mine)}, and program {scene.program_id(other.program)} "
        f"{_VERBS[other.kind]} it{how}{_held(other)}{place}; nothing orders the two"
    )


def _held(deed: Deed) -> str:
    return "" if deed.value is None else f" = {as_text(deed.value)}"


def _advice(example: Encounter) -> str:
    kinds = {deed.kind for deed in _deeds(example)}
    if kinds == {"write"}:
        return (
            "Give every program elements of its own (offsets that depend on tl.program_id along each axis of the grid), "
            "let one program store, or combine the values by an atomic: tl.atomic_add, tl.atomic_max."
        )
    if "update" in kinds:
        return (
            "An atomic protects an element only where all of them are atomic: use tl.atomic_xchg for this store, "
            "or keep the element out of the others' reach until they are ordered."
        )
    return (
        "Write to another tensor than the one that is read, or launch twice; programs of one launch are ordered by "
        'atomics alone: a lock or a flag whose atomics acquire and release (sem="acq_rel", the default).'
    )
