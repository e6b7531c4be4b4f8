"""Find elements that two threads of a program access, or lock, without a barrier between."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, on_line, storages_of
from kernellab.checker.detector import Detector
from kernellab.checker.detectors.races import Race
from kernellab.checker.detectors.updates import LaneCollision, LostUpdate
from kernellab.checker.happens_before import releases
from kernellab.checker.records import Proposal
from kernellab.checker.shadow_values import Array, lanes_of
from kernellab.compiler.analyses.layouts import layouts_by_type
from kernellab.errors import KernelLabError
from kernellab.interpreter.execution.program import (
    EVERYTHING,
    ProgramCode,
    memory_effects,
    per_code,
    program_code,
)
from kernellab.ir import tt
from kernellab.ir.operations import global_effect, locate
from kernellab.ir.types import shape
from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.layouts import layouts_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_LARGEST = 1 << 22
"""The most elements of a storage that are followed."""

_SAMPLES = 4096
"""The most elements of an access that are compared."""


Way = Literal["load", "store", "atomic"]

_HAZARDS: Mapping[Way, tuple[Way, ...]] = {
    "load": ("store",),
    "atomic": ("store",),
    "store": ("store", "load"),
}
"""After which accesses of another thread an access needs a barrier."""


@dataclass
class _Latest:
    """Who accessed each element of a storage last, in one way.

    Attributes:
        by: the number of the operation; 0 for none.
        program: the linear id of its program.
        lane: the element of its tile, flat.
    """

    by: Array
    program: Array
    lane: Array
    time: Array


@dataclass
class _Suspect:
    """Two accesses of elements from different places of their tiles, of one program or of two.

    Attributes:
        first, second: the operations.
        access: the second one.
        lanes: the places in the tile of each, flat, element by element.
        index: the elements.
        programs: linear ids of those that make the first.
        releases: of two programs, the atomics by which the first may hand the elements on.
    """

    first: Operation
    second: Operation
    access: CheckedAccess
    lanes: tuple[Array, Array]
    index: Array
    programs: Sequence[int]
    releases: Sequence[Operation] = ()


@dataclass(frozen=True)
class _Release:
    """An atomic by which a program hands on what it stored before."""

    time: int
    operation: Operation
    lock: Hashable


class MissingBarrier(Detector):
    """Follow which thread accesses an element, in TTGIR's layouts, between PTX's barriers."""

    kinds = ("missing-barrier",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._both = _handed_on(run)
        self._latest: dict[Hashable, dict[Way, _Latest]] = {}
        self._operations: list[Operation] = []
        self._suspects: dict[Hashable, _Suspect] = {}
        self._releases: dict[int, list[_Release]] = defaultdict(list)
        self._stored = numpy.full(run.programs if _releases_locks(run.code) else 0, -1)
        self._time = 0
        self._others: Sequence[Detector] = ()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        is_plain = not run.kernel.is_gluon() and run.target.backend == "cuda"
        return is_plain and bool(_handed_on(run))

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = [
            each for each in others if isinstance(each, Race | LaneCollision | LostUpdate)
        ]

    def before(self, access: CheckedAccess) -> None:
        buffer, programs = access.buffer, access.programs
        if programs is None:
            return
        self._time += 1
        if not access.rank:
            if self._stored.size and releases(access.operation):
                self._release(access)
            return
        key = self.run.storage_of(buffer.tensor), buffer.itemsize
        if key[0] not in self._both or not 0 < len(buffer.elements) <= _LARGEST:
            return
        way = cast("Way", access.action)
        latest = self._latest.setdefault(key, {})
        if way == "atomic" and "store" not in latest:
            return
        extents = shape(_pointers(access.operation).type)
        lanes = numpy.arange(int(numpy.prod(extents))).reshape((1, *extents))
        index, on, program, lane = lanes_of(
            access, programs.linear.reshape((-1,) + (1,) * access.rank), lanes
        )
        index, program, lane = index[on], program[on], lane[on]
        for before in _HAZARDS[way]:
            if before in latest:
                self._look(access, before, latest[before], index, program, lane)
        if way == "atomic":
            return
        if way not in latest:
            latest[way] = _Latest(*numpy.zeros((4, len(buffer.elements)), numpy.int64))
        if not self._operations or self._operations[-1] is not access.operation:
            self._operations.append(access.operation)
        here = latest[way]
        here.by[index], here.time[index] = len(self._operations), self._time
        here.program[index], here.lane[index] = program, lane
        if way == "store" and self._stored.size:
            self._stored[access.linear_ids()] = self._time

    def _release(self, access: CheckedAccess) -> None:
        """Note an atomic of the programs that have stored since they made it last."""
        assert access.programs is not None
        programs = access.programs.linear
        places = numpy.broadcast_to(access.index.ravel(), programs.shape)
        stored = self._stored[programs]
        chosen = (stored >= 0) & access.taking_part(0)
        storage = self.run.storage_of(access.buffer.tensor)
        for each in numpy.flatnonzero(chosen).tolist():
            lock, before = (storage, int(places[each])), self._releases[int(programs[each])]
            if not before or before[-1].lock != lock or before[-1].time < stored[each]:
                before.append(_Release(self._time, access.operation, lock))

    def _look(
        self,
        access: CheckedAccess,
        way: Way,
        latest: _Latest,
        index: Array,
        program: Array,
        lane: Array,
    ) -> None:
        by, same = latest.by[index], latest.program[index] == program
        moved = (by > 0) & (~same | (latest.lane[index] != lane))
        if way == "load":
            moved &= same
        for number in numpy.unique(by[moved]).tolist():
            first = self._operations[number - 1]
            for is_own in (True, False):
                key = first, access.operation, way, is_own
                here = numpy.flatnonzero(moved & (by == number) & (same == is_own))[:_SAMPLES]
                if key in self._suspects or not len(here):
                    continue
                elements = index[here]
                later = () if is_own else self._after(latest, int(elements[0]))
                if is_own or later:
                    self._suspects[key] = _Suspect(
                        first, access.operation, access, (latest.lane[elements], lane[here]),
                        elements, numpy.unique(latest.program[elements]).tolist(), later,
                    )  # fmt: skip

    def _after(self, latest: _Latest, element: int) -> tuple[Operation, ...]:
        """Return what the program that stored an element released afterwards, lock by lock."""
        by_lock: dict[Hashable, Operation] = {}
        for release in self._releases[int(latest.program[element])]:
            if release.time > latest.time[element]:
                by_lock.setdefault(release.lock, release.operation)
        return tuple(by_lock.values())

    def investigate(self, session: CheckSession) -> None:
        if not self._suspects:
            return
        try:
            owners = _Owners(self.run)
        except KernelLabError:
            return
        reported = {op for other in self._others for op in other.collector.operations()}
        is_ordered = not any(any(other.findings()) or other.notes for other in self._others)
        for suspect in self._suspects.values():
            others = suspect.releases or (suspect.second,)
            if not all(owners.are_unordered(suspect.first, other) for other in others):
                continue
            if suspect.second in reported or (suspect.releases and not is_ordered):
                continue
            first = owners.of(suspect.first, suspect.lanes[0])
            second = 0 if suspect.releases else owners.of(suspect.second, suspect.lanes[1])
            if first is None or second is None:
                continue
            apart = first != second
            if _way(suspect.first) == "load":  # the threads of a warp load together
                apart &= first // 32 != second // 32
            if apart.any():
                self._report(suspect, apart, first, numpy.broadcast_to(second, first.shape))

    def _report(self, suspect: _Suspect, apart: Array, first: Array, second: Array) -> None:
        access, at = suspect.access, int(numpy.argmax(apart))
        name, element = access.buffer.name, access.coordinates(int(suspect.index[at]))
        here = suspect.releases[0] if suspect.releases else suspect.second
        before, after = f"{_way(suspect.first)}s", f"{_VERBS[_way(suspect.second)]}s"
        place = f"{access.named(element)}{on_line(suspect.first)}"
        start = f"thread {first[at]} {before} {place}, and thread"
        message = (
            f"{start} {second[at]} of the same program {after} it here, without a barrier between: "
            f"the {_way(suspect.second)} may come before the {_way(suspect.first)}"
        )
        if suspect.releases:
            message = (
                f"{start} 0 of the same program makes this atomic, without a barrier between: "
                f"another program, which {after} the element{on_line(suspect.second)}, may come "
                "before the store"
            )
        facts: dict[str, Any] = {
            "kind": self.kinds[0],
            "argument": name,
            "index": element,
            "places": locate(here.location).frames[::-1],
            "message": message,
            "advice": "The interpreter runs each operation to its end before the next. The threads "
            f"are those of the layouts that Triton chooses for {self.run.target}.",
            "proposals": (
                Proposal(
                    "Put tl.debug_barrier() between them.", "", "tl.debug_barrier()", "statement"
                ),
            ),
        }
        self.collector.add((here, name), facts, suspect.programs, int(apart.sum()))


_VERBS: Mapping[Way, str] = {"load": "load", "store": "store", "atomic": "update"}


def _handed_on(run: CheckedRun) -> frozenset[str | int]:
    """Return the storages that the kernel both stores to and accesses otherwise."""
    effects = memory_effects(run.code)
    ways = (effects.stored, effects.loaded, effects.updated)
    if EVERYTHING in ways:
        return frozenset()
    stored, loaded, updated = (storages_of(run, arguments) for arguments in ways)
    return stored & (loaded | updated)


@per_code
def _releases_locks(code: ProgramCode) -> bool:
    return any(map(releases, code.module.walk()))


def _way(op: Operation) -> Way:
    effect = global_effect(op)
    assert effect is not None
    return effect


def _pointers(op: Operation) -> Any:
    return op.operands[0]


_LOCATION = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_INSTRUCTION = re.compile(
    r"^\s*(?:@!?%\w+\s+)?(?:(bar|barrier)\b|(ld|st|atom|red)\.(?:\w+\.)*?global\b)"
)
_WAYS: Mapping[str, Way] = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


class _Owners:
    """Which thread accesses each element in TTGIR's layouts, and what PTX has in between."""

    def __init__(self, run: CheckedRun) -> None:
        call = run.call
        compiled = triton_api.compile_kernel(
            run.kernel, call.specialization, run.target, call.options
        )
        self._instructions = list(_instructions(str(compiled.stages["ptx"])))
        module = program_code(run.kernel, call, run.target, "ttgir").module
        accesses = [op for op in module.walk() if _has_pointers(op)]
        tiles = [op for op in accesses if shape(_pointers(op).type)]
        self._layouts = layouts_by_type([_pointers(op).type for op in tiles], layouts_of)
        self._at: Mapping[Hashable, Operation] = {_place(op): op for op in accesses}

    def are_unordered(self, first: Operation, second: Operation) -> bool:
        """Return whether the PTX has both accesses in this order, and no barrier between."""
        before, after = (
            (_way(op), frames[0].line if (frames := locate(op.location).frames) else 0)
            for op in (first, second)
        )
        starts = [at for at, each in enumerate(self._instructions) if each == before]
        for start in starts:
            for instruction in self._instructions[start + 1 :]:
                if instruction[0] == "barrier":
                    break
                if instruction == after:
                    return True
        return False

    def of(self, op: Operation, lanes: Array) -> Array | None:
        """Return the thread of each place of the tile of a TTIR access; None if it is not known."""
        there = self._at.get(_place(op))
        layout = None if there is None else self._layouts.get(_pointers(there).type)
        if there is None or not isinstance(layout, RegisterLayout):
            return None
        if shape(_pointers(there).type) != shape(_pointers(op).type):
            return None
        numbers = layout.all_numbers().reshape(-1, layout.registers_per_thread)
        threads = numpy.full(int(numbers.max()) + 1, len(numbers), numpy.int64)
        held = numpy.broadcast_to(numpy.arange(len(numbers))[:, None], numbers.shape)
        numpy.minimum.at(threads, numbers.ravel(), held.ravel())
        owners: Array = threads[lanes]
        return owners


def _instructions(ptx: str) -> Iterator[tuple[Way | Literal["barrier"], int]]:
    """Yield the accesses to global memory and the barriers, with their lines of the source."""
    current = 0
    for text in ptx.splitlines():
        if match := _LOCATION.match(text):
            current = int(match[1])
        elif match := _INSTRUCTION.match(text):
            yield _WAYS.get(match[2], "barrier"), current


def _has_pointers(op: Operation) -> bool:
    return isinstance(op, tt.LoadOp | tt.StoreOp | tt.AtomicRMWOp | tt.AtomicCASOp)


def _place(op: Operation) -> Hashable:
    return type(op).name, locate(op.location).frames
