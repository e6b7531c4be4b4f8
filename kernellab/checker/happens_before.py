"""Accesses of different programs to one element: their order, and whether it matters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import (
    CheckedAccess,
    CheckedRun,
    place_in,
    storages_of,
    stored_value,
)
from kernellab.checker.detector import Detector
from kernellab.checker.shadow_memory import NO_ONE, Storage, Storages, Touch, either, has_more
from kernellab.common.containers import distinct
from kernellab.interpreter.execution.program import EVERYTHING, memory_effects
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import Load, Store
from kernellab.ir import tt
from kernellab.ir.operations import Atomic, global_effect, has, may_do_anything

# In which order the accesses of different programs happen, whatever the order in which programs
# run: by atomics alone.
#
# An atomic that releases hands on what its program did before; one that acquires at the same
# element afterwards takes it over. So locks, flags, tickets and barriers across the grid order
# accesses, as in the memory model of PTX (and in race detectors for threads: C. Flanagan
# and S. Freund, FastTrack, PLDI 2009). A plain load of an element that atomics write acquires
# too: that is how flags are polled.
#
# Each program has a clock: what it knows about the others' times. In a large grid some programs
# share a hand of it, so that all clocks together stay small; two of them may then look ordered
# that are not.


_MOST_HANDS = 1024
_ALL_HANDS = 1 << 24
"""The most entries of all clocks together, 128 MiB."""

_RELAXED, _ACQUIRES, _RELEASES, _BOTH = 1, 2, 3, 4
"""`sem` of Triton's atomics by number (TritonAttrDefs.td, MemSemantic)."""
_ORDERS = {_RELAXED: "relaxed", _ACQUIRES: "acquire", _RELEASES: "release"}
_OF_THE_BLOCK = 2
"""`scope` of an atomic that orders nothing for other programs (TritonAttrDefs.td, MemSyncScope)."""

Place = tuple[int, int]
"""A storage, and an element of it."""


class Clocks:
    """The vector clocks of the programs."""

    def __init__(self, programs: int, *, as_if_strong: Container[Operation] = ()) -> None:
        """`as_if_strong`: atomics that count as acquiring and releasing, for all programs."""
        self.time = 0
        self._as_if_strong = as_if_strong
        self._hands_of_each = max(16, min(_MOST_HANDS, _ALL_HANDS // programs))
        self._of_program: dict[int, numpy.ndarray] = defaultdict(
            lambda: numpy.full(self._hands_of_each, -1)
        )
        self._of_place: dict[Place, numpy.ndarray] = {}
        self._storages: set[int] = set()

    def know(self, program: int, others: numpy.ndarray, times: numpy.ndarray) -> numpy.ndarray:
        """For each of the others, whether its access happened before `program`'s current one."""
        known = others == program
        if program in self._of_program:
            known = known | (self._of_program[program][others % self._hands_of_each] >= times)
        return numpy.asarray(known)

    def pass_on(
        self, program: int, storage: int, access: CheckedAccess, index: numpy.ndarray
    ) -> None:
        """Note an access to these elements: what it acquires and what it releases."""
        self.time += 1
        meaning = _meaning(access.operation)
        if access.operation in self._as_if_strong:
            meaning = _BOTH
        if meaning is None:
            if access.action == "load" and storage in self._storages:
                for element in numpy.unique(index).tolist():
                    self._acquire(program, (storage, element))
            return
        self._storages.add(storage)
        for element in numpy.unique(index).tolist():
            place = storage, element
            if meaning in (_ACQUIRES, _BOTH):
                self._acquire(program, place)
            if meaning in (_RELEASES, _BOTH):
                self._release(program, place)

    def _acquire(self, program: int, place: Place) -> None:
        if place in self._of_place:
            hands = self._of_program[program]
            numpy.maximum(hands, self._of_place[place], out=hands)

    def _release(self, program: int, place: Place) -> None:
        hands = self._of_program[program]
        hands[program % self._hands_of_each] = self.time
        if place in self._of_place:
            numpy.maximum(self._of_place[place], hands, out=self._of_place[place])
        else:
            self._of_place[place] = hands.copy()


def orders_programs(op: Operation) -> bool:
    """Whether an atomic orders the accesses of programs."""
    return _meaning(op) is not None


def releases(op: Operation) -> bool:
    """Whether an atomic publishes what its program did before."""
    return _meaning(op) in (_RELEASES, _BOTH)


def weakness(op: Operation) -> str | None:
    """What the source says about a weak atomic: `sem="relaxed"`; None for other operations."""
    order = _number(op, "sem")
    if _number(op, "scope") == _OF_THE_BLOCK:
        return 'scope="cta"'
    if order is None or order == _BOTH:
        return None
    return f'sem="{_ORDERS.get(order, "relaxed")}"'


def _meaning(op: Operation) -> int | None:
    """What an atomic orders; None for others, and for one that programs do not see in order."""
    order = _number(op, "sem")
    return None if order == _RELAXED or _number(op, "scope") == _OF_THE_BLOCK else order


def _number(op: Operation, name: str) -> int | None:
    attribute = op.properties.get(name)
    return int(attribute.value.data) if isinstance(attribute, builtin.IntegerAttr) else None


# Find stores that do not race in effect: every program that stores to an element stores the same
# bits, whatever the data are, as with a flag that any program may set.


def stores_the_same(access: CheckedAccess, lanes: numpy.ndarray) -> bool:
    """Return whether elements already hold the bits that a store is about to write there.

    Args:
        lanes: which elements of its tile, programs first if they differ.
    """
    held = access.buffer.elements.take(access.index, mode="clip")
    differs = _bits(held) != _bits(access.written)
    return not (differs & lanes).any()


def depend_on_places_alone(
    run: CheckedRun, operations: Iterable[Operation], programs: Iterable[int]
) -> bool:
    """Return whether stores of these programs, by their linear ids, must write the same values
    wherever they write to one element: what they store depends only on arguments, on memory that
    the kernel does not write, and on axes of the grid along which the programs have the same id.
    A value that is computed from memory has to depend on an axis: a kernel whose programs all
    compute the same from the data does not use its program id.
    """
    ids = set(map(run.program_id, programs))
    for operation in operations:
        behind = _sources(operation)
        if not behind.is_known or (behind.has_loads and not _loads_are_fixed(run)):
            return False
        if behind.has_loads and not behind.axes:
            return False  # every program computes the same from the data: the id was forgotten
        if any(len({program[axis] for program in ids}) > 1 for axis in behind.axes):
            return False
    return True


def _loads_are_fixed(run: CheckedRun) -> bool:
    effects = memory_effects(run.code)
    if EVERYTHING in (effects.stored, effects.updated, effects.loaded):
        return False
    stored, updated, loaded = (
        storages_of(run, arguments)
        for arguments in (effects.stored, effects.updated, effects.loaded)
    )
    return not loaded & (stored | updated)


def _bits(values: numpy.ndarray) -> numpy.ndarray:
    array = numpy.ascontiguousarray(values)
    return array.view(f"u{array.itemsize}").reshape(numpy.shape(values))


@dataclass(frozen=True)
class _Sources:
    """What the value that a store writes is computed from.

    Attributes:
        axes: the axes of the grid whose program ids take part.
        is_known: False if other differences of programs may matter, such as an atomic's result.
    """

    axes: frozenset[int] = frozenset()
    has_loads: bool = False
    is_known: bool = True


_UNKNOWN = _Sources(is_known=False)


@lru_cache(maxsize=256)
def _sources(op: Operation) -> _Sources:
    stored = stored_value(op)
    if stored is None:
        return _UNKNOWN
    axes, has_loads, seen = set[int](), False, set[SSAValue]()
    pending = [stored]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        source = _source(value)
        if isinstance(source, tt.FuncOp):
            if value.owner is not source.body.blocks.first:
                return _UNKNOWN  # a branch passes it on
            continue
        for inside in () if source is None else source.walk():
            if isinstance(inside, tt.GetProgramIdOp):
                axes.add(int(inside.axis.value.data))
            elif isinstance(inside, tt.CallOp) or has(inside, Atomic) or may_do_anything(inside):
                return _UNKNOWN
            has_loads = has_loads or global_effect(inside) == "load"
            pending += inside.operands
    return _Sources(frozenset(axes), has_loads)


def _source(value: SSAValue) -> Operation | None:
    if isinstance(value, OpResult):
        return value.op
    assert isinstance(value.owner, Block)
    return value.owner.parent_op()


# Track the accesses to elements that several programs touch, and what orders them.


_ENOUGH = 4096
"""This many programs are enough if no atomic could order them."""


MOST_FOLLOWED = 1 << 20
"""The most programs that are followed: each takes about 20 us and some memory."""


class SeenEnough(Exception):
    """The rest of a run would show nothing new."""


Suspects = dict[str | int, tuple[Storage, numpy.ndarray]]
"""Storages (see `CheckedRun.storage_of`) with the suspect elements, True in a shadow array."""


def is_more(suspects: Suspects, known: Suspects) -> bool:
    """Return whether some suspects are not known."""
    return any(
        key not in known or not like.is_like(known[key][0]) or has_more(here, known[key][1])
        for key, (like, here) in suspects.items()
    )


def union(suspects: Suspects, other: Suspects) -> Suspects:
    """Return the suspects of both; for a storage with notes in another unit, those of `other`."""
    both = {**suspects}
    for key, (like, here) in other.items():
        is_known = key in suspects and like.is_like(suspects[key][0])
        both[key] = like, either(here, suspects[key][1]) if is_known else here
    return both


@dataclass(frozen=True)
class AccessPair:
    """The first of two operations' pairs of programs that touch one element in no order.

    Attributes:
        first, second: the two accesses, in the order of the run.
        values: the values that the index of the second was computed from.
    """

    first: ElementAccess
    second: ElementAccess
    values: dict[str, Any]


@dataclass(frozen=True)
class ElementAccess:
    """A program's access to an element.

    Attributes:
        program: its linear id.
        name: the argument, of those that share the memory the one that it goes through.
        index: of the element in the argument's tensor.
        value: what the element holds afterwards; None if it is not known.
    """

    kind: Touch
    operation: Operation
    program: int
    name: str
    index: tuple[int, ...]
    value: Any = None


@dataclass
class PairSummary:
    """All access pairs of two operations: how many, of which programs, and the first of them.

    Attributes:
        weak: atomics that would order those of the first if they acquired and released.
        reads: of pairs with a read: which access of the run, and its operation; see `Tracker`.
        same: whether all of them store the same bits, whatever the data are.
    """

    example: AccessPair
    count: int
    programs: set[int]
    weak: tuple[Operation, ...] = ()
    reads: dict[int, Operation] = field(default_factory=dict)
    same: bool = True


class Tracker(Detector):
    """Follows programs, which run one by one, through the elements that are suspect.

    Attributes:
        is_cut_off: whether it left out the rest of the programs, because there are too many.
    """

    def __init__(self, run: CheckedRun, suspects: Suspects, *, keeps_reads: bool = False) -> None:
        """`keeps_reads`: whether summaries have every read."""
        super().__init__(run)
        self._keeps_reads = keeps_reads
        self.summaries: dict[frozenset[Operation], PairSummary] = {}
        self._suspects = suspects
        self._clocks = Clocks(run.programs)
        self._if_strong = _clocks_if_strong(run)
        self._weak: dict[int, dict[Operation, None]] = defaultdict(dict)
        self._seen: set[int] = set()
        self.is_cut_off = False
        self._unordered = not any(map(orders_programs, run.code.module.walk()))
        self._histories = Storages(self._begin)

    def _begin(self, buffer: Buffer) -> _ElementHistory:
        key = self.run.storage_of(buffer.tensor)
        like, suspect = self._suspects.get(key, (None, numpy.zeros(0, numpy.bool_)))
        return _ElementHistory(Storage(buffer, like), suspect)

    def before(self, access: CheckedAccess) -> None:
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
        if kind == "update":
            # What it acquires at this element does not order it after what was done there.
            self._look_around(kind, access, program, history, suspect)
        self._clocks.pass_on(program, id(history), access, index)
        for clocks in self._if_strong.values():
            clocks.pass_on(program, id(history), access, index)
        if self._if_strong and weakness(access.operation) is not None:
            self._weak[program][access.operation] = None
        if kind != "update":
            self._look_around(kind, access, program, history, suspect)
        history.note(kind, suspect, program, self._clocks.time, access)

    def _look_around(
        self,
        kind: Touch,
        access: CheckedAccess,
        program: int,
        history: _ElementHistory,
        suspect: numpy.ndarray,
    ) -> None:
        """The pairs of the current access and earlier ones of other programs."""
        for other in _OPPOSITES[kind] if suspect.size else ():
            trace = history.traces[other]
            others, times = trace.programs[suspect], trace.times[suspect]
            met = (others != NO_ONE) & ~self._clocks.know(program, others, times)
            for number in numpy.unique(trace.operations[suspect][met]).tolist():
                both = met & (trace.operations[suspect] == number)
                self._add_pair(access, kind, program, history, other, suspect[both])

    def _add_pair(
        self,
        access: CheckedAccess,
        kind: Touch,
        program: int,
        history: _ElementHistory,
        before: _Trace,
        elements: numpy.ndarray,
    ) -> None:
        trace = history.traces[before]
        others = trace.programs[elements]
        earlier = history.operations[int(trace.operations[elements[0]])]
        key = frozenset((earlier, access.operation))
        if key not in self.summaries:
            example = _access_pair(access, before, kind, program, history, int(elements[0]))
            weak = self._weak_between(program, others[:1], trace.times[elements[:1]])
            self.summaries[key] = PairSummary(example, 0, set(), weak)
        summary = self.summaries[key]
        summary.same = (
            summary.same
            and before == kind == "write"
            and self._is_same(access, history, elements, key, (program, *others.tolist()))
        )
        summary.count += len(elements)
        summary.programs.update((program, *others.tolist()))
        if self._keeps_reads and kind == "read":
            summary.reads[self._clocks.time] = access.operation
        elif self._keeps_reads and _KIND[before] == "read":
            times, numbers = trace.times[elements].tolist(), trace.operations[elements].tolist()
            summary.reads.update(
                (time, history.operations[number]) for time, number in zip(times, numbers)
            )

    def _is_same(
        self,
        access: CheckedAccess,
        history: _ElementHistory,
        elements: numpy.ndarray,
        operations: frozenset[Operation],
        programs: Sequence[int],
    ) -> bool:
        """Whether a store only repeats the bits that other programs stored before."""
        if not depend_on_places_alone(self.run, operations, programs):
            return False
        return stores_the_same(access, history.lanes_at(access, elements))

    def _weak_between(
        self, program: int, other: numpy.ndarray, time: numpy.ndarray
    ) -> tuple[Operation, ...]:
        """The weak atomics that, if strong, would order `other`'s access before `program`'s."""
        clocks = self._if_strong.get(None)
        if clocks is None or not clocks.know(program, other, time).all():
            return ()
        theirs = {**self._weak[int(other[0])], **self._weak[program]}
        needed = [
            op
            for op in theirs
            if op in self._if_strong and not self._if_strong[op].know(program, other, time).all()
        ]
        return tuple(needed or theirs)


_MOST_LEFT_OUT = 8
"""The most weak atomics of which each is left out once, to see whether it matters."""


def _clocks_if_strong(run: CheckedRun) -> dict[Operation | None, Clocks]:
    """The clocks as if all weak atomics (None), or all but one, were strong."""
    weak = frozenset(op for op in run.code.module.walk() if weakness(op) is not None)
    if not weak:
        return {}
    clocks: dict[Operation | None, Clocks] = {None: Clocks(run.programs, as_if_strong=weak)}
    if 1 < len(weak) <= _MOST_LEFT_OUT:
        clocks |= {op: Clocks(run.programs, as_if_strong=weak - {op}) for op in weak}
    return clocks


_Trace = str
"""Whose accesses are kept; "read before" is the latest read of another program than "read"'s."""

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
"""The pairs of accesses to one element that need an order: one of the two is a plain store."""


def touch_of(access: CheckedAccess) -> Touch:
    """Return how an access touches its elements."""
    op = access.operation
    if has(op, Atomic):
        return "update"
    if isinstance(access.request, Load):
        return "read"
    return "write" if isinstance(access.request, Store) else "update"


@dataclass
class _Latest:
    """For each suspect element, its last access: program, time, operation's number."""

    programs: numpy.ndarray
    times: numpy.ndarray
    operations: numpy.ndarray

    @staticmethod
    def of(count: int) -> _Latest:
        return _Latest(*(numpy.full(count, NO_ONE) for _ in range(3)))

    def set(self, elements: numpy.ndarray, *facts: Any) -> None:
        for array, fact in zip((self.programs, self.times, self.operations), facts):
            array[elements] = fact


class _ElementHistory:
    """A storage, and its suspect elements, numbered."""

    def __init__(self, storage: Storage, suspect: numpy.ndarray) -> None:
        self.storage = storage
        (self.elements,) = numpy.nonzero(suspect)
        self.traces = {trace: _Latest.of(len(self.elements)) for trace in _KIND}
        self.operations: list[Operation] = []
        self.buffers: list[Buffer] = []
        """What each operation first went through, of the arguments that are in the storage."""
        self._operation_numbers: dict[Operation, int] = {}

    def touched(self, access: CheckedAccess) -> numpy.ndarray:
        parts = [numpy.ravel(part.listed().index) for part in self.storage.parts(access)]
        return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.int64)

    def numbers_of(self, index: numpy.ndarray) -> numpy.ndarray:
        """The numbers of the suspect elements among these, each once."""
        if not len(self.elements):
            return self.elements
        numbers = numpy.minimum(numpy.searchsorted(self.elements, index), len(self.elements) - 1)
        return distinct(numbers[self.elements[numbers] == index])

    def lanes_at(self, access: CheckedAccess, elements: numpy.ndarray) -> numpy.ndarray:
        """Which enabled elements of an access's tile are among the elements of these numbers."""
        first = self.storage.index_in(access.index, access.buffer)
        units = range(access.buffer.itemsize // self.storage.unit)
        wanted = self.elements[elements]
        lanes: numpy.ndarray = numpy.any(
            [numpy.isin(first + unit, wanted) for unit in units], axis=0
        )
        return lanes if access.on is None else numpy.asarray(lanes & access.on)

    def note(
        self, kind: Touch, suspect: numpy.ndarray, program: int, time: int, access: CheckedAccess
    ) -> None:
        """Remember the program that made this access last."""
        op = access.operation
        if op not in self._operation_numbers:
            self._operation_numbers[op] = len(self.operations)
            self.operations.append(op)
            self.buffers.append(access.buffer)
        if kind == "read":
            latest = self.traces["read"]
            by_others = suspect[latest.programs[suspect] != program]
            facts = (latest.programs, latest.times, latest.operations)
            self.traces["read before"].set(by_others, *(array[by_others] for array in facts))
        self.traces[kind].set(suspect, program, time, self._operation_numbers[op])


def _access_pair(
    access: CheckedAccess,
    before: _Trace,
    kind: Touch,
    program: int,
    history: _ElementHistory,
    number: int,
) -> AccessPair:
    buffer, trace = access.buffer, history.traces[before]
    wanted = int(history.elements[number])
    where = history.storage.index_in(access.index, buffer)
    on = numpy.True_ if access.on is None else access.on
    size = buffer.itemsize // history.storage.unit
    here = (where <= wanted) & (wanted < where + size) & on
    place = tuple(int(i) for i in numpy.argwhere(here)[0])
    element = int(numpy.broadcast_to(access.index, here.shape)[place])
    wrote, updated = history.traces["write"].times[number], history.traces["update"].times[number]
    held = buffer.elements[element] if _KIND[before] == "write" and wrote > updated else None
    lane = place[1:] if here.ndim > access.rank else place
    earlier = int(trace.operations[number])
    theirs = history.buffers[earlier]
    return AccessPair(
        ElementAccess(
            _KIND[before],
            history.operations[earlier],
            int(trace.programs[number]),
            theirs.name,
            place_in(theirs, history.storage.place_in(wanted, theirs)),
            held,
        ),
        ElementAccess(
            kind,
            access.operation,
            program,
            buffer.name,
            access.coordinates(element),
            _stored(access, here.shape, place),
        ),
        access.values(lane, 0),
    )


def _stored(access: CheckedAccess, shape: tuple[int, ...], place: tuple[int, ...]) -> Any:
    if not isinstance(access.request, Store):
        return None
    shape = numpy.broadcast_shapes(shape, access.written.shape)
    place = (0,) * (len(shape) - len(place)) + place
    return cast(Any, numpy.broadcast_to(access.written, shape)[place])


def joined(summaries: Mapping[frozenset[Operation], PairSummary]) -> Iterator[list[PairSummary]]:
    """Yield the summaries that share operations together: they are one fault."""
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
