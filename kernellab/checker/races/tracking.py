"""A second look at elements that several programs touch:
who touches each after whom, and whether anything orders the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.races.conflicts import NOBODY, Touch
from kernellab.checker.races.happens_before import Clocks, orders_programs
from kernellab.checker.shadow.memory import Storage, Storages
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import CompareAndSwap, Load, Store
from kernellab.ir.traits import Atomic, has

_ENOUGH = 4096
"""So many programs show what there is to be seen, where no atomic could order them."""


MOST_FOLLOWED = 1 << 20
"""So many programs are followed at most: each takes some twenty microseconds and some memory."""


class SeenEnough(Exception):
    """The rest of a run would show nothing new."""


Suspects = Mapping[str | int, tuple[Storage, numpy.ndarray]]
"""Storages (see `CheckedRun.storage_of`) with the elements that are looked at,
true in a shadow array."""


@dataclass(frozen=True)
class AccessPair:
    """Two programs that touch one element, with nothing that orders them:
    the first that was seen of two operations.

    Attributes:
        name: the argument.
        index: of the element in the argument's tensor.
        first, second: what each does there, in the order of the run.
        values: what the index was made of in the second.
    """

    name: str
    index: tuple[int, ...]
    first: ElementAccess
    second: ElementAccess
    values: dict[str, Any]


@dataclass(frozen=True)
class ElementAccess:
    """What a program does to an element.

    Attributes:
        program: its linear id.
        value: what the element holds afterwards; None where that is not known.
    """

    kind: Touch
    operation: Operation
    program: int
    value: Any = None


@dataclass
class PairSummary:
    """All access pairs of two operations: how many, of which programs, and the first of them."""

    example: AccessPair
    count: int
    programs: set[int]


class Tracker(Detector):
    """Follows programs, which run one by one, through the elements that are suspect.

    Attributes:
        summaries: the access pairs, by their operations.
        is_cut_off: whether it left the rest of the programs out, since they are too many.
    """

    kinds = ()

    def __init__(self, run: CheckedRun, suspects: Suspects) -> None:
        super().__init__(run)
        self.summaries: dict[frozenset[Operation], PairSummary] = {}
        self._suspects = suspects
        self._clocks = Clocks(run.programs)
        self._seen: set[int] = set()
        self.is_cut_off = False
        self._unordered = not any(map(orders_programs, run.code.module.walk()))
        self._histories = Storages(self._begin)

    def _begin(self, buffer: Buffer) -> _ElementHistory:
        key = self.run.storage_of(buffer.tensor)
        if key in self._suspects:
            like, suspect = self._suspects[key]
            return _ElementHistory(Storage(buffer, like), suspect)
        storage = Storage(buffer)
        return _ElementHistory(storage, numpy.zeros(0, numpy.bool_))

    def before(self, access: Access) -> None:
        assert access.programs is not None
        program = int(access.programs.linear[0])
        self._seen.add(program)
        if self._unordered and self.summaries and len(self._seen) > _ENOUGH:
            raise SeenEnough
        if len(self._seen) > MOST_FOLLOWED:
            self.is_cut_off = True
            raise SeenEnough
        history: _ElementHistory = self._histories[access.buffer]
        index = history.touched(access)
        suspect, kind = history.numbers_of(index), touch_of(access)
        if (
            kind == "update"
        ):  # what it acquires at this element does not order it after what was done there
            self._look_around(kind, access, program, history, suspect)
        self._clocks.pass_on(program, id(history), access, index)
        if kind != "update":
            self._look_around(kind, access, program, history, suspect)
        history.note(kind, suspect, program, self._clocks.time, access.operation)

    def _look_around(
        self,
        kind: Touch,
        access: Access,
        program: int,
        history: _ElementHistory,
        suspect: numpy.ndarray,
    ) -> None:
        """Access pairs of what is done now with what others did."""
        for other in _OPPOSITES[kind] if suspect.size else ():
            trace = history.traces[other]
            others, times = trace.programs[suspect], trace.times[suspect]
            met = (others != NOBODY) & ~self._clocks.know(program, others, times)
            for number in numpy.unique(trace.operations[suspect][met]).tolist():
                operation = history.operations[number]
                both = met & (trace.operations[suspect] == number)
                element_access = ElementAccess(_KIND[other], operation, int(others[both][0]))
                self._add_pair(
                    access, element_access, kind, program, history, suspect[both], others[both]
                )

    def _add_pair(
        self,
        access: Access,
        first: ElementAccess,
        kind: Touch,
        program: int,
        history: _ElementHistory,
        elements: numpy.ndarray,
        others: numpy.ndarray,
    ) -> None:
        key = frozenset((first.operation, access.operation))
        if key not in self.summaries:
            example = _access_pair(access, first, kind, program, history, int(elements[0]))
            self.summaries[key] = PairSummary(example, 0, set())
        summary = self.summaries[key]
        summary.count += len(elements)
        summary.programs.update((program, *others.tolist()))


_Trace = str
"""Whose accesses are kept: "write", "update", "read", and "read before",
the latest read of another program than the last reader's."""

_KIND: Mapping[_Trace, Touch] = {
    "write": "write",
    "update": "update",
    "read": "read",
    "read before": "read",
}
_OPPOSITES: Mapping[Touch, tuple[_Trace, ...]] = {
    "read": ("write",),
    "write": ("write", "update", "read", "read before"),
    "update": ("write",),
}
"""What two programs may not do to one element without an order: one of the two is a plain store."""


def touch_of(access: Access) -> Touch:
    """What an access does to its elements."""
    op = access.operation
    if has(op, Atomic):
        return "update"
    if isinstance(access.request, Load):
        return "read"
    return "write" if isinstance(access.request, Store) else "update"


@dataclass
class _Latest:
    """For each suspect element, who did something there last:
    program, time, number of the operation.
    """

    programs: numpy.ndarray
    times: numpy.ndarray
    operations: numpy.ndarray

    @staticmethod
    def of(count: int) -> _Latest:
        return _Latest(*(numpy.full(count, NOBODY) for _ in range(3)))

    def set(self, elements: numpy.ndarray, *facts: Any) -> None:
        for array, fact in zip((self.programs, self.times, self.operations), facts):
            array[elements] = fact


class _ElementHistory:
    """A storage, and its suspect elements, numbered."""

    def __init__(self, storage: Storage, suspect: numpy.ndarray) -> None:
        self.storage = storage
        (self.elements,) = numpy.nonzero(suspect)
        self._numbers = numpy.full(len(suspect), -1)
        self._numbers[self.elements] = numpy.arange(len(self.elements))
        self.traces = {trace: _Latest.of(len(self.elements)) for trace in _KIND}
        self.operations: list[Operation] = []
        self._operation_numbers: dict[Operation, int] = {}

    def touched(self, access: Access) -> numpy.ndarray:
        """The elements that an access touches."""
        parts = [numpy.ravel(part.listed().index) for part in self.storage.parts(access)]
        return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.int64)

    def numbers_of(self, index: numpy.ndarray) -> numpy.ndarray:
        """Of the suspect ones among elements, each once."""
        if not len(self.elements):
            return self.elements
        numbers = self._numbers[index]
        return numpy.unique(numbers[numbers >= 0])

    def note(
        self, kind: Touch, suspect: numpy.ndarray, program: int, time: int, op: Operation
    ) -> None:
        """Remember who has done this last."""
        if op not in self._operation_numbers:
            self._operation_numbers[op] = len(self.operations)
            self.operations.append(op)
        if kind == "read":
            latest = self.traces["read"]
            by_others = suspect[latest.programs[suspect] != program]
            facts = (latest.programs, latest.times, latest.operations)
            self.traces["read before"].set(by_others, *(array[by_others] for array in facts))
        self.traces[kind].set(suspect, program, time, self._operation_numbers[op])


def _access_pair(
    access: Access,
    first: ElementAccess,
    kind: Touch,
    program: int,
    history: _ElementHistory,
    number: int,
) -> AccessPair:
    buffer = access.buffer
    wanted = history.elements[number]
    where = history.storage.index_in(access.index, buffer)
    on = numpy.True_ if access.on is None else access.on
    size = buffer.itemsize // history.storage.unit
    here = (where <= wanted) & (wanted < where + size) & on
    place = tuple(int(i) for i in numpy.argwhere(here)[0])
    element = int(numpy.broadcast_to(access.index, here.shape)[place])
    wrote, updated = history.traces["write"].times[number], history.traces["update"].times[number]
    before = buffer.elements[element] if first.kind == "write" and wrote > updated else None
    lane = place[1:] if here.ndim > access.rank else place
    return AccessPair(
        buffer.name,
        access.coordinates(element),
        ElementAccess(first.kind, first.operation, first.program, before),
        ElementAccess(kind, access.operation, program, _stored(access, here.shape, place)),
        access.values(lane, 0),
    )


def _stored(access: Access, shape: tuple[int, ...], place: tuple[int, ...]) -> Any:
    """What a lane stores; None where the access is no store."""
    request = access.request
    if not isinstance(request, Store) or isinstance(request, CompareAndSwap):
        return None
    stored = numpy.asarray(request.value)
    if stored.dtype != access.buffer.elements.dtype:
        stored = stored.view(access.buffer.elements.dtype)
    shape = numpy.broadcast_shapes(shape, stored.shape)
    place = (0,) * (len(shape) - len(place)) + place
    return cast(Any, numpy.broadcast_to(stored, shape)[place])


def joined(summaries: Mapping[frozenset[Operation], PairSummary]) -> Iterator[list[PairSummary]]:
    """Tallies that share operations, together: they are one fault."""
    groups: list[tuple[set[Operation], list[PairSummary]]] = []
    for operations, summary in summaries.items():
        members, together = set(operations), [summary]
        apart = []
        for others, theirs in groups:
            if others & members:
                members |= others
                together += theirs
            else:
                apart.append((others, theirs))
        groups = [*apart, (members, together)]
    for _, together in groups:
        yield together
