"""In which order the accesses of different programs happen, whatever the order
in which programs run: by atomics alone.

An atomic that releases hands on what its program did before; one that acquires at the same element
afterwards takes it over. So locks, flags, tickets and barriers across the grid order accesses, as
in the memory model of PTX (and as race detectors for threads have it: C. Flanagan and S. Freund,
FastTrack, PLDI 2009). A plain load of an element that atomics write acquires too: that is how
flags are polled.

Each program has a clock: what it knows of the others' times. In a large grid some programs share a
hand of it, so that all clocks together stay small; two of them may then look ordered that are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access

_MOST_HANDS = 1024
_ALL_HANDS = 1 << 24
"""So many hands all clocks together may have, 128 MiB."""

_RELAXED, _ACQUIRES, _RELEASES, _BOTH = 1, 2, 3, 4
"""`sem` of Triton's atomics by number (TritonAttrDefs.td, MemSemantic)."""
_ORDERS = {_RELAXED: "relaxed", _ACQUIRES: "acquire", _RELEASES: "release"}
_OF_THE_BLOCK = 2
"""`scope` of an atomic that orders nothing for other programs (TritonAttrDefs.td, MemSyncScope)."""

Place = tuple[int, int]
"""A storage, and an element of it."""


class Clocks:
    """What each program knows of the others."""

    def __init__(self, programs: int, *, as_if_strong: Container[Operation] = ()) -> None:
        """`as_if_strong`: what they would know if these atomics acquired and released, for all."""
        self.time = 0
        self._as_if_strong = as_if_strong
        self._hands_of_each = max(16, min(_MOST_HANDS, _ALL_HANDS // programs))
        self._of_program: dict[int, numpy.ndarray] = defaultdict(
            lambda: numpy.full(self._hands_of_each, -1)
        )
        self._of_place: dict[Place, numpy.ndarray] = {}
        self._storages: set[int] = set()

    def know(self, program: int, others: numpy.ndarray, times: numpy.ndarray) -> numpy.ndarray:
        """For each of the others, whether what it did at a time has happened before what
        `program` does now.
        """
        known = others == program
        if program in self._of_program:
            known = known | (self._of_program[program][others % self._hands_of_each] >= times)
        return numpy.asarray(known)

    def pass_on(self, program: int, storage: int, access: Access, index: numpy.ndarray) -> None:
        """An access is made, at these elements: what it acquires and what it releases."""
        self.time += 1
        meaning = _meaning(access.operation)
        if access.operation in self._as_if_strong:
            meaning = _BOTH
        if meaning is None:
            if access.action == "load" and storage in self._storages:
                for place in self._known_places(storage, index):
                    self._acquire(program, place)
            return
        self._storages.add(storage)
        for element in numpy.unique(index).tolist():
            place = storage, element
            if meaning in (_ACQUIRES, _BOTH):
                self._acquire(program, place)
            if meaning in (_RELEASES, _BOTH):
                self._release(program, place)

    def _known_places(self, storage: int, index: numpy.ndarray) -> Iterator[Place]:
        for element in numpy.unique(index).tolist():
            if (storage, element) in self._of_place:
                yield storage, element

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
    """Whether an atomic orders what programs do."""
    return _meaning(op) is not None


def weakness(op: Operation) -> str | None:
    """What the source says of an atomic that orders less than it would by default:
    `sem="relaxed"`; None for any other operation.
    """
    order = _number(op, "sem")
    if _number(op, "scope") == _OF_THE_BLOCK:
        return 'scope="cta"'
    if order is None or order == _BOTH:
        return None
    return f'sem="{_ORDERS.get(order, "relaxed")}"'


def _meaning(op: Operation) -> int | None:
    """What an atomic orders; None for an operation that is none,
    and one that other programs do not see in order.
    """
    order = _number(op, "sem")
    return None if order == _RELAXED or _number(op, "scope") == _OF_THE_BLOCK else order


def _number(op: Operation, name: str) -> int | None:
    attribute = op.properties.get(name)
    return int(attribute.value.data) if isinstance(attribute, builtin.IntegerAttr) else None
