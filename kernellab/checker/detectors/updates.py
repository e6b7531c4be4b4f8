"""Find elements of memory that several elements of one tile write, so that all but one are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, behind, name_of
from kernellab.checker.detector import Detector
from kernellab.common.text import number_text, number_texts
from kernellab.interpreter.codegen.analyses import underlying_objects
from kernellab.interpreter.execution.program import ProgramCode, entry_of, per_code
from kernellab.interpreter.memory.global_memory import Load, Store
from kernellab.interpreter.tiles import Value
from kernellab.ir import mlir, tt
from kernellab.ir.operations import Elementwise, GlobalAccess, KeepsElements, has
from kernellab.ir.types import dtype


class LaneCollision(Detector):
    """Compare memory after a store with its tile: elements that differ share a place."""

    kinds = ("lane-collision",)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        request = access.request
        if not isinstance(request, Store) or not len(access.buffer.elements):
            return
        if is_apart(access, request.value):
            return
        index, stored, on = elements_of(access)
        left = access.buffer.elements.take(index, mode="clip")
        lost = bits_of(left) != bits_of(stored)
        if on is not None:
            lost = lost & on
        if lost.any():
            faulty = _collisions(index, stored, on, access.rank)
            if faulty.any():
                self._note(access, index, stored, on, faulty)

    def _note(
        self,
        access: CheckedAccess,
        index: numpy.ndarray,
        stored: numpy.ndarray,
        on: numpy.ndarray | None,
        faulty: numpy.ndarray,
    ) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            where = (program,) if faulty.ndim > access.rank else ()
            target = index[(*where, *place)]
            same = (index[where] == target) & (
                True if on is None else numpy.broadcast_to(on, index.shape)[where]
            )
            places = [tuple(int(i) for i in row) for row in numpy.argwhere(same)]
            values = [stored[(*where, *at)] for at in places]
            element = access.element(faulty, place, program)
            other = next(
                i for i, value in enumerate(values) if bits_of(value) != bits_of(values[0])
            )
            first, second = number_texts(values[0], values[other])
            return {
                "argument": name,
                "index": element,
                "message": (
                    f"elements {place_text(places[0])} and {place_text(places[other])} of one tile "
                    f"both store to {access.named(element)}, the values {first} and {second}; "
                    "which one remains is undefined"
                ),
                "advice": (
                    "Give each element of the tile a different destination, let only one of them "
                    "store (with a mask), combine the values first (tl.sum, tl.max), or add them "
                    "with tl.atomic_add."
                ),
            }

        self.collector.report(access, faulty, access.rank, facts_of, name)


def is_apart(access: CheckedAccess, value: Value) -> bool:
    """Return True if clearly no two elements of a tile store different values to a place."""
    box = access.box
    if box is None or not box.is_disjoint(numpy.zeros(1, numpy.int64), box.all_lanes):
        return False
    sizes = numpy.shape(value)[-access.rank :] if access.rank else ()
    return all(size <= extent for size, extent in zip(sizes[::-1], box.extents[::-1]))


def elements_of(access: CheckedAccess) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]:
    """Return the indices, the values and the mask of a tile, broadcast to one shape."""
    arrays = [access.index, access.written, *([] if access.on is None else [access.on])]
    index, stored, *on = numpy.broadcast_arrays(*arrays)
    return index, stored, on[0] if on else None


def _collisions(
    index: numpy.ndarray, stored: numpy.ndarray, on: numpy.ndarray | None, rank: int
) -> numpy.ndarray:
    """Return which elements store another value to the place of an earlier element of the tile."""
    faulty = numpy.zeros(index.shape, numpy.bool_)
    taking_part = numpy.ones(index.shape, numpy.bool_) if on is None else on
    targets, values = targets_of(index, taking_part, rank), bits_of(stored[taking_part])
    _, first, which = numpy.unique(targets, return_index=True, return_inverse=True)
    faulty[taking_part] = values != values[first][which]
    return faulty


def targets_of(index: numpy.ndarray, chosen: numpy.ndarray, rank: int) -> numpy.ndarray:
    """Return a number for each chosen element's place, different for each program."""
    targets: numpy.ndarray = index[chosen]
    if index.ndim > rank:
        programs = numpy.arange(len(index)).reshape((-1,) + (1,) * rank)
        span = int(targets.max()) - int(targets.min()) + 1
        targets = targets + numpy.broadcast_to(programs * span, index.shape)[chosen]
    return targets


def bits_of(values: Any) -> Any:
    """Return the bits of floats, for a comparison in which NaN equals NaN and -0.0 is not 0.0."""
    return values.view(f"u{values.dtype.itemsize}")


def place_text(place: tuple[int, ...]) -> str:
    """Return a position in a tile as text: "3", "(3, 4)"."""
    return str(place[0]) if len(place) == 1 else str(place)


# Find updates that are lost because several elements of one tile add to the same element in
# memory with a load and a store: each adds to the old value, and only one sum remains.
#
# The detector looks at stores of sums of which one term was loaded from the same elements. If
# tile elements store equal numbers to the same place, this may be intended: indices that are
# clamped to the end of a tensor repeat the last one. It is not intended if the index was loaded
# or is a quotient.


@dataclass(frozen=True)
class _Update:
    """A store of sums.

    Attributes:
        loads: the loads of its terms, from the argument that it stores to.
        scatters: True if the index was loaded, or is a quotient.
    """

    loads: frozenset[Operation]
    scatters: bool


class LostUpdate(Detector):
    """Check stores of sums to the elements that a term was loaded from."""

    kinds = ("lost-update",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._updates = _updates(run.code)
        self._loads = {load for update in self._updates.values() for load in update.loads}
        self._reads: dict[Operation, tuple[numpy.ndarray, numpy.ndarray]] = {}
        """Of each load the latest indices and values, element by element."""
        self._collisions: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._collisions = [other for other in others if isinstance(other, LaneCollision)]

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        if isinstance(access.request, Load) and access.operation in self._loads:
            self._reads[access.operation] = access.index, numpy.asarray(result)

    def before(self, access: CheckedAccess) -> None:
        update, request = self._updates.get(access.operation), access.request
        if update is None or not isinstance(request, Store) or not access.rank:
            return
        if not len(access.buffer.elements) or is_apart(access, request.value):
            return
        index, stored, on = elements_of(access)
        for load in update.loads & self._reads.keys():
            places, values = self._reads[load]
            if _same(places, access.index):
                lost = _lost(index, stored, values, on, access.rank, update.scatters)
                if lost.any():
                    self._note(access, index, stored, lost)

    def _note(
        self,
        access: CheckedAccess,
        index: numpy.ndarray,
        stored: numpy.ndarray,
        lost: numpy.ndarray,
    ) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            where = (program,) if lost.ndim > access.rank else ()
            same = lost[where] & (index[where] == index[(*where, *place)])
            first, second = (tuple(int(i) for i in row) for row in numpy.argwhere(same)[:2])
            element = access.element(lost, place, program)
            numbers = " and ".join(number_text(stored[(*where, *at)]) for at in (first, second))
            return {
                "argument": name,
                "index": element,
                "message": (
                    f"elements {place_text(first)} and {place_text(second)} of one tile both load "
                    f"{access.named(element)}, add to it, and store the sums {numbers}: one of the "
                    "two updates is lost"
                ),
                "advice": _advice(access.operation, name),
            }

        self.collector.report(access, lost, access.rank, facts_of, name)

    def end(self) -> None:
        """Remove the collisions that are reported here as lost updates."""
        for detector in self._collisions:
            for op in self.collector.operations():
                detector.collector.forget(op)


def _same(index: numpy.ndarray, other: numpy.ndarray) -> bool:
    try:
        return bool(numpy.all(index == other))
    except ValueError:  # the tiles have different shapes
        return False


def _lost(
    index: numpy.ndarray,
    stored: numpy.ndarray,
    before: numpy.ndarray,
    on: numpy.ndarray | None,
    rank: int,
    scatters: bool,
) -> numpy.ndarray:
    """Return which tile elements change a place that another element of the tile changes too."""
    changes = bits_of(stored) != bits_of(numpy.broadcast_to(before, index.shape))
    if on is not None:
        changes = changes & on
    lost = numpy.zeros(index.shape, numpy.bool_)
    if not changes.any():
        return lost
    targets, values = targets_of(index, changes, rank), bits_of(stored[changes])
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
    histogram = ", for example with tl.histogram" if counts else ""
    return (
        f"Use tl.atomic_add({name} + {place or 'index'}, ...) for the update, or add up the values "
        f"for each element first{histogram}."
    )


@per_code
def _updates(code: ProgramCode) -> dict[Operation, _Update]:
    return dict(_updates_of(entry_of(code.module)))


def _updates_of(function: tt.FuncOp) -> Iterator[tuple[Operation, _Update]]:
    objects = underlying_objects(function)
    for op in function.walk():
        if not isinstance(op, tt.StoreOp):
            continue
        target = objects.get(op.pointer)
        loads = frozenset(
            load
            for load in _terms(op.value)
            if isinstance(load, tt.LoadOp) and objects.get(load.pointer) is target is not None
        )
        if loads:
            yield op, _Update(loads, _scatters(op.pointer))


def _terms(value: SSAValue) -> Iterator[Operation]:
    """Yield the accesses that load the terms of a sum, element by element."""
    pending, seen = [(value, False)], set[tuple[SSAValue, bool]]()
    while pending:
        operand, is_term = pending.pop()
        if (operand, is_term) in seen or not isinstance(operand, OpResult):
            continue
        seen.add((operand, is_term))
        op = operand.op
        if has(op, GlobalAccess):
            if is_term:
                yield op
        elif has(op, Elementwise, KeepsElements):
            adds = isinstance(op, mlir.AddFOp | mlir.AddIOp | mlir.SubFOp | mlir.SubIOp)
            pending += [(source, is_term or adds) for source in op.operands]


def _scatters(pointer: SSAValue) -> bool:
    """Return whether the index was loaded or is a quotient, so that it may repeat in a tile."""
    for value in behind((pointer,)):
        if isinstance(value, OpResult):
            divides = isinstance(value.op, mlir.DivSIOp | mlir.DivUIOp | mlir.ShRSIOp)
            if divides or has(value.op, GlobalAccess):
                return True
    return False
