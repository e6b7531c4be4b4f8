"""Lanes of one program that add to one element by a load and a store: all of them add to what was
there before, and one sum stays.

Looked at are stores of sums whose one term was loaded from the same elements. Where lanes store
equal numbers to one element, they may mean it: a place that is cut to the end of its tensor is
taken several times. They do not where the place was loaded, or is a quotient.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.checker.detectors.lane_collision import (
    LaneCollision,
    bits_of,
    is_apart,
    lane_text,
    lanes_of,
)
from kernellab.checker.naming import name_of
from kernellab.checker.outcomes import as_text
from kernellab.checker.slices import behind
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.layers import Load, Store
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, tt
from kernellab.ir.traits import Elementwise, GlobalAccess, KeepsElements, has
from kernellab.ir.types import dtype


@dataclass(frozen=True)
class _Update:
    """A store of sums.

    Attributes:
        loads: where a term comes from, in the argument that it stores to.
        scatters: True where the place was loaded, or is a quotient.
    """

    loads: frozenset[Operation]
    scatters: bool


@dataclass(frozen=True)
class _Read:
    """What a load gave last, lane by lane."""

    index: numpy.ndarray
    found: numpy.ndarray


class LostUpdate(Detector):
    """Looks at stores of sums to the elements that a term was loaded from."""

    kinds = ("lost-update",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._updates = _updates(run.code)
        self._loads = {load for one in self._updates.values() for load in one.loads}
        self._reads: dict[Operation, _Read] = {}
        self._collisions: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._collisions = [one for one in others if isinstance(one, LaneCollision)]

    def after(self, access: Access, found: Value | None) -> None:
        if isinstance(access.request, Load) and access.operation in self._loads:
            read = _Read(access.index, numpy.asarray(found))
            self._reads[access.operation] = read

    def before(self, access: Access) -> None:
        update, request = self._updates.get(access.operation), access.request
        if update is None or not isinstance(request, Store) or not access.rank:
            return
        if not len(access.buffer.elements) or is_apart(access, request.value):
            return
        index, stored, on = lanes_of(access, request.value)
        for load in update.loads:
            read = self._reads.get(load)
            if read is not None and _same(read.index, access.index):
                lost = _lost(index, stored, read.found, on, access.rank, update.scatters)
                if lost.any():
                    self._note(access, index, stored, lost)

    def _note(
        self, access: Access, index: numpy.ndarray, stored: numpy.ndarray, lost: numpy.ndarray
    ) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            where = (program,) if lost.ndim > access.rank else ()
            same = lost[where] & (index[where] == index[(*where, *place)])
            one, other = (tuple(int(i) for i in lane) for lane in numpy.argwhere(same)[:2])
            element = access.element(lost, place, program)
            numbers = " and ".join(as_text(stored[(*where, *lane)]) for lane in (one, other))
            return {
                "kind": "lost-update",
                "argument": name,
                "index": element,
                "message": (
                    f"lanes {lane_text(one)} and {lane_text(other)} of one program both load "
                    f"{access.named(element)}, add to it, and store what they got, {numbers}: what "
                    "one of them added is lost"
                ),
                "advice": _advice(access.operation, name),
            }

        self.collector.report(access, lost, access.rank, facts_of, name)

    def end(self) -> None:
        """What lanes of one element store is told here."""
        for one in self._collisions:
            for op in self.collector.operations():
                one.collector.forget(op)


def _same(one: numpy.ndarray, other: numpy.ndarray) -> bool:
    """Whether lanes go to the same elements."""
    try:
        return bool(numpy.all(one == other))
    except ValueError:  # tiles of another shape
        return False


def _lost(
    index: numpy.ndarray,
    stored: numpy.ndarray,
    before: numpy.ndarray,
    on: numpy.ndarray | None,
    rank: int,
    scatters: bool,
) -> numpy.ndarray:
    """Which lanes change an element that another lane of their program changes too."""
    changes = bits_of(stored) != bits_of(numpy.broadcast_to(before, index.shape))
    if on is not None:
        changes = changes & on
    lost = numpy.zeros(index.shape, numpy.bool_)
    targets, values = index[changes], bits_of(stored[changes])
    if not len(targets):
        return lost
    if index.ndim > rank:  # elements of different programs are different ones
        programs = numpy.arange(len(index)).reshape((-1,) + (1,) * rank)
        span = int(targets.max()) - int(targets.min()) + 1
        targets = targets + numpy.broadcast_to(programs * span, index.shape)[changes]
    _, first, which, counts = numpy.unique(
        targets, return_index=True, return_inverse=True, return_counts=True
    )
    several = counts > 1
    if not scatters:
        differs = values != values[first][which]
        several &= numpy.bincount(which, differs, len(counts)) > 0
    lost[changes] = several[which]
    return lost


def _advice(store: Operation, name: str) -> str:
    assert isinstance(store, tt.StoreOp)
    pointers = store.pointer
    place = None
    if isinstance(pointers, OpResult) and isinstance(pointers.op, tt.AddPtrOp):
        added = pointers.op
        if isinstance(added.pointer, OpResult) and isinstance(added.pointer.op, tt.SplatOp):
            place = name_of(added.offset, added)
    counts = dtype(store.value.type).kind == "i"
    histogram = ", by tl.histogram say" if counts else ""
    return (
        f"Give what each lane adds to tl.atomic_add({name} + {place or 'index'}, ...), or add up "
        f"what goes to one element first{histogram}."
    )


# Which stores are updates


_kept: weakref.WeakKeyDictionary[ProgramCode, dict[Operation, _Update]] = (
    weakref.WeakKeyDictionary()
)


def _updates(code: ProgramCode) -> dict[Operation, _Update]:
    """The stores of a kernel that are, looked up once."""
    if code not in _kept:
        function = next(op for op in code.module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)
        _kept[code] = dict(_updates_of(function))
    return _kept[code]


def _updates_of(function: tt.FuncOp) -> Iterator[tuple[Operation, _Update]]:
    objects = underlying_objects(function)
    for op in function.walk():
        if not isinstance(op, tt.StoreOp):
            continue
        target = objects.get(op.pointer)
        loads = frozenset(
            one
            for one in _terms(op.value)
            if isinstance(one, tt.LoadOp) and objects.get(one.pointer) is target is not None
        )
        if loads:
            yield op, _Update(loads, _scatters(op.pointer, function))


def _terms(value: SSAValue) -> Iterator[Operation]:
    """What loads the terms of a sum, element by element."""
    pending, seen = [(value, False)], set[tuple[SSAValue, bool]]()
    while pending:
        one, is_term = pending.pop()
        if (one, is_term) in seen or not isinstance(one, OpResult):
            continue
        seen.add((one, is_term))
        if has(one.op, GlobalAccess):
            if is_term:
                yield one.op
        elif has(one.op, Elementwise, KeepsElements):
            adds = isinstance(one.op, arith.AddFOp | arith.AddIOp | arith.SubFOp | arith.SubIOp)
            pending += [(operand, is_term or adds) for operand in one.op.operands]


def _scatters(pointer: SSAValue, function: tt.FuncOp) -> bool:
    """Whether several lanes may have one place because data say so."""
    for one in behind((pointer,), function):
        if isinstance(one, OpResult):
            divides = isinstance(one.op, arith.DivSIOp | arith.DivUIOp | arith.ShRSIOp)
            if divides or has(one.op, GlobalAccess):
                return True
    return False
