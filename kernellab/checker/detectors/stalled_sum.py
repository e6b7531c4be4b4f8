"""Sums in fp16 and bf16 that stall: what is added is less than half a step of the type at the sum,
and the sum stays what it is.

Looked at are sums that a loop carries, or memory, and atomics. The checked run only looks whether a
number is lost. Where one is, the launch runs once more, and what is lost is followed to what is
stored; what a compensated sum adds again, it has not lost. Atomics are held at once against their
sum in fp64.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.naming import name_of
from kernellab.checker.outcomes import as_text, texts
from kernellab.checker.running_sums import addition_of, running_additions
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.origin_formatting import type_name
from kernellab.checker.shadow.values import Array, lifted
from kernellab.compiler.modules.structure import users_line
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import Atomic, Store
from kernellab.interpreter.numerics.numerics import FLOAT64, convert, widen
from kernellab.ir import arith
from kernellab.ir.locations import locate
from kernellab.ir.types import dtype, shape

_KINDS = ("stalled-sum",)

_LEAST = 8
"""A sum that loses fewer numbers does not stall."""

_PART = 0.02
"""Of all that is added, what is lost must be more."""


@dataclass
class _Losses:
    """What one addition lost so far, lane by lane, in the programs of a batch.

    Attributes:
        count: of numbers.
        lost: their sum.
        everything: the sum of the sizes of all numbers that were added.
    """

    programs: Programs | None
    count: Any = 0
    lost: Any = 0.0
    everything: Any = 0.0

    @property
    def stall(self) -> bool:
        """Whether in some lane the sum stands still."""
        large = numpy.abs(self.lost) > _PART * self.everything
        return bool(numpy.any((self.count >= _LEAST) & large))


class _Losing(Cause):
    """Additions that leave a sum as it is."""

    adds_up = True

    def __init__(self) -> None:
        self.stalled: set[Hashable] = set()
        """Where sums stall, see `Addition.place`."""
        self._losses: dict[Hashable, _Losses] = {}
        self._before: dict[Operation, tuple[Array, Array]] = {}
        """Of a sum that is rounded afterwards: the sum before, and what it should become."""

    def concerns(self, op: Operation) -> bool:
        return addition_of(op) is not None

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        op = computed.operation
        addition = running_additions(op).get(op)
        if addition is None:
            before, after = self._before[op]
        else:
            before, after = operands[addition.position], _sum(op, operands)
            if addition.rounding is not op:
                self._before[addition.rounding] = before, after
                return numpy.zeros((1,) * result.ndim, numpy.bool_), exact
        added = after - before
        lost = (result == before) & (added != 0) & numpy.isfinite(added)
        self._note(computed, lost, added)
        return lost, exact

    def _note(self, computed: Computed, lost: Array, added: Array) -> None:
        place = _place(computed.operation)
        losses = self._losses.get(place)
        if losses is None or losses.programs is not computed.programs:
            losses = self._losses[place] = _Losses(computed.programs)
        on: Any = True
        if computed.active is not None:
            on = computed.active.reshape((-1,) + (1,) * (added.ndim - 1))
        losses.count = losses.count + (lost & on)
        losses.lost = losses.lost + numpy.where(lost & on, added, 0.0)
        losses.everything = losses.everything + numpy.where(on, numpy.abs(added), 0.0)
        if place not in self.stalled and losses.stall:
            self.stalled.add(place)


def _place(op: Operation) -> Hashable:
    addition = addition_of(op)
    assert addition is not None
    return addition.place


def _sum(op: Operation, operands: Sequence[Array]) -> Array:
    """Of the actual operands, in float64."""
    a, b, *c = operands
    if c:
        return a * b + c[0]
    return a - b if isinstance(op, arith.SubFOp) else a + b


class StallEffects(ExactRun):
    """Follows what sums lose to what is stored."""

    kinds = _KINDS
    tolerance = _PART

    def cause(self) -> Cause:
        self._losing = _Losing()
        return self._losing

    def end(self) -> None:
        """Tell the sums that stall."""
        departures = self.values.departures
        for op in [op for op in departures if _place(op) not in self._losing.stalled]:
            del departures[op]
        super().end()

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        addition = addition_of(op)
        assert addition is not None
        lost = sum(
            one.count
            for other, one in self.values.departures.items()
            if _place(other) == addition.place
        )
        kind = dtype(op.results[0].type)
        before = departure.at(departure.result, lane)
        after = departure.at(departure.exact, lane)
        stays, added = as_text(before), as_text(after - before)
        name = name_of(addition.operation.operands[addition.position], addition.operation)
        start = "a sum" if name is None else name
        frames = list(locate(addition.operation.location).frames)
        own = users_line(frames)
        places = frames if own is None else frames[frames.index(own) :]
        return {
            "kind": "stalled-sum",
            "position": own,
            "calls": tuple(reversed(places[1:])),
            "message": (
                f"{start} stays {stays} where {added} is added: the next number of "
                f"{type_name(kind)} is {as_text(_next(before, kind))}; "
                f"{lost:,} numbers are lost{harm.effect}"
            ),
            "advice": _ADVICE,
        }


_ADVICE = "Add up in fp32, and convert the sum when it is complete; count in int32."


def _next(number: float, kind: numpy.dtype) -> float:
    """The next larger number, by size, of a type of 16 bits."""
    bits = numpy.asarray(number).astype(kind).view(numpy.uint16)
    return float(widen((bits + numpy.uint16(1)).view(kind)))


@dataclass
class _AtomicSum:
    """An argument of 16-bit floats that atomics add to.

    Attributes:
        access: one of them, and where it stands.
        exact: what its elements should be.
        added: the sizes of all numbers that were added since a store.
        counts: how many.
    """

    access: Access
    exact: Array
    added: Array
    counts: Array

    @classmethod
    def of(cls, access: Access) -> _AtomicSum:
        exact = widen(access.buffer.elements).astype(FLOAT64)
        return cls(access, exact, numpy.abs(exact), numpy.zeros(exact.shape, numpy.int64))


class StalledSum(Suspecting):
    """Notices that a sum stays what it is, though something is added; adds up beside atomics."""

    kinds = _KINDS
    closer = StallEffects

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums: dict[int, _AtomicSum] = {}
        self._counts: dict[Hashable, tuple[Programs | None, Any]] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Additions of floats of 16 bits whose result comes back."""
        return operation in running_additions(operation)

    def suspects(self, computed: Computed) -> bool:
        """Whether an addition left the sum of some lane as it was, and did so often enough."""
        lost = self._lost(computed)
        if lost is None or not lost.any():
            return False
        place = _place(computed.operation)
        programs, counts = self._counts.get(place, (None, 0))
        if programs is not computed.programs:
            counts = 0
        counts = counts + lost.astype(numpy.int64)
        self._counts[place] = computed.programs, counts
        return bool((counts >= _LEAST).any())

    def _lost(self, computed: Computed) -> Array | None:
        """The lanes in which something is added, and the sum stays; None where all change."""
        op = computed.operation
        addition = running_additions(op)[op]
        rank = len(shape(op.results[0].type))
        before, after = (
            lifted(one, rank) for one in (computed.operands[addition.position], computed.results[0])
        )
        kind = dtype(addition.rounding.results[0].type)
        before, rounded = convert(before, kind), convert(after, kind)
        same = before.view(numpy.uint16) == rounded.view(numpy.uint16)
        if not same.any():
            return None
        if addition.rounding is not op:
            differs: Array = same & (after != widen(before))
            return differs
        others = [one for place, one in enumerate(computed.operands) if place != addition.position]
        adds: Any = True
        for one in others:
            adds = adds & (lifted(one, rank) != 0)
        lost: Array = same & adds
        return lost

    def before(self, access: Access) -> None:
        """Add up beside atomics, and begin anew where something else is stored."""
        request, start = access.request, _start(access.buffer)
        if isinstance(request, Atomic) and _adds_halves(access):
            if start not in self._sums:
                self._sums[start] = _AtomicSum.of(access)
            sums = self._sums[start]
            sums.access = access
            index, numbers = _lanes(access, request.value, (request.programs, *request.shape))
            numpy.add.at(sums.exact, index, numbers)
            numpy.add.at(sums.added, index, numpy.abs(numbers))
            numpy.add.at(sums.counts, index, 1)
        elif isinstance(request, Store) and start in self._sums:
            sums = self._sums[start]
            if len(access.buffer.elements) == len(sums.exact):
                index, numbers = _lanes(access, request.value, access.index.shape)
                sums.exact[index], sums.added[index] = numbers, numpy.abs(numbers)
                sums.counts[index] = 0

    def end(self) -> None:
        """Hold what atomics left against the sum."""
        for sums in self._sums.values():
            left = widen(sums.access.buffer.elements).astype(FLOAT64)
            with numpy.errstate(invalid="ignore"):
                off = numpy.abs(left - sums.exact) > _PART * sums.added
            off &= (sums.counts >= _LEAST) & numpy.isfinite(left)
            if off.any():
                self._tell(sums, off, left)

    def _tell(self, sums: _AtomicSum, off: Array, left: Array) -> None:
        access, first = sums.access, int(numpy.argmax(off))
        element = access.coordinates(first)
        calls = access.calls()
        stays, exact = texts(float(left[first]), float(sums.exact[first]))
        kind = access.buffer.elements.dtype
        facts = {
            "kind": "stalled-sum",
            "position": calls[-1] if calls else None,
            "calls": calls[:-1],
            "argument": access.buffer.name,
            "index": element,
            "message": (
                f"{access.named(element)} becomes {stays} instead of {exact}: {type_name(kind)} "
                f"has nothing between {stays} and {as_text(_next(float(left[first]), kind))}, and "
                f"of {int(sums.counts[first]):,} numbers that are added those change nothing that "
                "are half of that or less"
            ),
            "advice": _ADVICE,
        }
        self.collector.add((access.operation, "atomic"), facts, (), int(off.sum()))

    def told(self, closer: ExactRun) -> None:
        """What atomics lost stays told."""
        own = self.collector
        super().told(closer)
        self.collector.take_over(own)


def _start(buffer: Buffer) -> int:
    return buffer.tensor.untyped_storage().data_ptr()


def _adds_halves(access: Access) -> bool:
    request = access.request
    if not isinstance(request, Atomic) or request.operation not in ("fadd", "add"):
        return False
    kind = access.buffer.elements.dtype
    return kind.itemsize == 2 and kind.kind not in "iu"


def _lanes(access: Access, value: Any, everyone: tuple[int, ...]) -> tuple[Array, Array]:
    """(index, number) of each lane that is on."""
    numbers = numpy.asarray(value)
    if numbers.dtype != access.buffer.elements.dtype:
        numbers = numbers.view(access.buffer.elements.dtype)
    on = numpy.asarray(True if access.on is None else access.on)
    everyone = numpy.broadcast_shapes(everyone, on.shape, numbers.shape)
    chosen = numpy.broadcast_to(on, everyone)
    index = numpy.broadcast_to(access.index, everyone)[chosen]
    return index, numpy.broadcast_to(widen(numbers).astype(FLOAT64), everyone)[chosen]
