"""Find sums in fp16 and bf16 that stall: each added number is less than half the distance to the
next number of the type, so that the sum does not change.

The detector looks at sums in loops, in memory, and by atomics. The checked run only looks for
additions that change nothing. If there are any, the launch runs once more, and the lost numbers
are followed to what is stored; what a compensated sum adds later is not lost. Sums by atomics are
compared with their sum in fp64 in the first run.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.origin_formatting import type_name
from kernellab.checker.numerics.running_sums import addition_of, running_additions
from kernellab.checker.shadow.values import Array, lifted
from kernellab.checker.suspecting import Suspecting
from kernellab.common.formatting import number_text, number_texts
from kernellab.compiler.modules.structure import users_line
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.layers import Atomic, Store
from kernellab.interpreter.numerics.numerics import FLOAT64, convert, widen
from kernellab.ir import arith
from kernellab.ir.locations import locate
from kernellab.ir.types import dtype, shape

_LEAST = 8
"""A sum that loses fewer numbers than this does not stall."""

_PART = 0.02
"""The least part of all added numbers that must be lost."""


@dataclass
class _Losses:
    """What one addition lost so far, element by element, in the programs of a batch.

    Attributes:
        count: how many numbers were lost.
        lost: their sum.
        everything: the sum of the absolute values of all added numbers.
    """

    programs: Programs | None
    count: Any = 0
    lost: Any = 0.0
    everything: Any = 0.0

    @property
    def stall(self) -> bool:
        """Return whether the sum of some element stalls."""
        large = numpy.abs(self.lost) > _PART * self.everything
        return bool(numpy.any((self.count >= _LEAST) & large))


def _place(op: Operation) -> Hashable:
    addition = addition_of(op)
    assert addition is not None
    return addition.place


def _sum(op: Operation, operands: Sequence[Array]) -> Array:
    """Return the sum of the actual operands, in float64."""
    a, b, *c = operands
    if c:
        return a * b + c[0]
    return a - b if isinstance(op, arith.SubFOp) else a + b


class StallEffects(ExactRun):
    """Follow the lost numbers to what is stored."""

    kinds = ("stalled-sum",)
    tolerance = _PART
    adds_up = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._stalled: set[Hashable] = set()
        """The places of sums that stall (see `Addition.place`)."""
        self._losses: dict[Hashable, _Losses] = {}
        self._before: dict[Operation, tuple[Array, Array]] = {}
        """For a sum that is rounded afterwards: the sum before, and the exact sum after."""

    def may_depart(self, op: Operation) -> bool:
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
        on = computed.taking_part(added.ndim - 1)
        losses.count = losses.count + (lost & on)
        losses.lost = losses.lost + numpy.where(lost & on, added, 0.0)
        losses.everything = losses.everything + numpy.where(on, numpy.abs(added), 0.0)
        if place not in self._stalled and losses.stall:
            self._stalled.add(place)

    def end(self) -> None:
        """Report the sums that stall."""
        departures = self.values.departures
        for op in [op for op in departures if _place(op) not in self._stalled]:
            del departures[op]
        super().end()

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        addition = addition_of(op)
        assert addition is not None
        lost = sum(
            other.count
            for add, other in self.values.departures.items()
            if _place(add) == addition.place
        )
        kind = dtype(op.results[0].type)
        before = departure.at(departure.result, lane)
        after = departure.at(departure.exact, lane)
        stays, added = number_text(before), number_text(after - before)
        name = name_of(addition.operation.operands[addition.position], addition.operation)
        start = "this sum" if name is None else name
        frames = list(locate(addition.operation.location).frames)
        own = users_line(frames)
        places = [] if own is None else frames[frames.index(own) :]
        return {
            "kind": "stalled-sum",
            "places": places[::-1],
            "message": (
                f"{start} stays at {stays} when {added} is added, because the next "
                f"{type_name(kind)} number is {number_text(_next(before, kind))}; "
                f"{lost:,} additions are lost{harm.effect}"
            ),
            "advice": _ADVICE,
        }


_ADVICE = "Accumulate in fp32, and convert the sum when it is complete; count in int32."


def _next(number: float, kind: numpy.dtype) -> float:
    """Return the next number of a 16-bit type, away from zero."""
    bits = numpy.asarray(number).astype(kind).view(numpy.uint16)
    return float(widen((bits + numpy.uint16(1)).view(kind)))


@dataclass
class _AtomicSum:
    """An argument of 16-bit floats that atomics add to.

    Attributes:
        access: the latest of them.
        exact: the exact values of the elements.
        added: the sum of the absolute values of all numbers added since a store.
        counts: how many numbers were added.
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
    """Notice that a sum does not change although something is added; compute the exact sums of
    atomics.
    """

    kinds = StallEffects.kinds
    closer = StallEffects

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums: dict[int, _AtomicSum] = {}
        self._counts: dict[Hashable, tuple[Programs | None, Any]] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation adds 16-bit floats to a running sum."""
        return operation in running_additions(operation)

    def suspects(self, computed: Computed) -> bool:
        """Return whether the sum of some element did not change, often enough."""
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
        """Return the elements whose sum does not change although something is added; None if all
        sums change.
        """
        op = computed.operation
        addition = running_additions(op)[op]
        rank = len(shape(op.results[0].type))
        before, after = (
            lifted(value, rank)
            for value in (computed.operands[addition.position], computed.results[0])
        )
        kind = dtype(addition.rounding.results[0].type)
        before, rounded = convert(before, kind), convert(after, kind)
        same = before.view(numpy.uint16) == rounded.view(numpy.uint16)
        if not same.any():
            return None
        if addition.rounding is not op:
            differs: Array = same & (after != widen(before))
            return differs
        adds: Any = True
        for place, operand in enumerate(computed.operands):
            if place != addition.position:
                adds = adds & (lifted(operand, rank) != 0)
        lost: Array = same & adds
        return lost

    def before(self, access: Access) -> None:
        """Add exactly what atomics add, and start over when something else is stored."""
        request, start = access.request, _start(access.buffer)
        if isinstance(request, Atomic) and _adds_halves(access):
            if start not in self._sums:
                self._sums[start] = _AtomicSum.of(access)
            sums = self._sums[start]
            sums.access = access
            index, numbers = _lanes(access, (request.programs, *request.shape))
            numpy.add.at(sums.exact, index, numbers)
            numpy.add.at(sums.added, index, numpy.abs(numbers))
            numpy.add.at(sums.counts, index, 1)
        elif isinstance(request, Store) and start in self._sums:
            sums = self._sums[start]
            if len(access.buffer.elements) == len(sums.exact):
                index, numbers = _lanes(access, access.index.shape)
                sums.exact[index], sums.added[index] = numbers, numpy.abs(numbers)
                sums.counts[index] = 0

    def end(self) -> None:
        """Compare the results of atomics with the exact sums."""
        for sums in self._sums.values():
            left = widen(sums.access.buffer.elements).astype(FLOAT64)
            with numpy.errstate(invalid="ignore"):
                off = numpy.abs(left - sums.exact) > _PART * sums.added
            off &= (sums.counts >= _LEAST) & numpy.isfinite(left)
            if off.any():
                self._report(sums, off, left)

    def _report(self, sums: _AtomicSum, off: Array, left: Array) -> None:
        access, first = sums.access, int(numpy.argmax(off))
        element = access.coordinates(first)
        stays, exact = number_texts(float(left[first]), float(sums.exact[first]))
        kind = access.buffer.elements.dtype
        next_number = number_text(_next(float(left[first]), kind))
        facts = {
            "kind": "stalled-sum",
            "places": access.calls(),
            "argument": access.buffer.name,
            "index": element,
            "message": (
                f"{access.named(element)} becomes {stays} instead of {exact}: {type_name(kind)} "
                f"has no number between {stays} and {next_number}, so of the "
                f"{int(sums.counts[first]):,} added numbers, those of at most half that distance "
                "change nothing"
            ),
            "advice": _ADVICE,
        }
        self.collector.add((access.operation, "atomic"), facts, (), int(off.sum()))

    def accept(self, closer: Detector) -> None:
        """Keep the findings about atomics."""
        own = self.collector
        super().accept(closer)
        self.collector.take_over(own)


def _start(buffer: Buffer) -> int:
    return buffer.tensor.untyped_storage().data_ptr()


def _adds_halves(access: Access) -> bool:
    request = access.request
    if not isinstance(request, Atomic) or request.operation not in ("fadd", "add"):
        return False
    kind = access.buffer.elements.dtype
    return kind.itemsize == 2 and kind.kind not in "iu"


def _lanes(access: Access, everyone: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the indices and the numbers of the elements that are not masked off."""
    numbers = access.written
    on = numpy.asarray(True if access.on is None else access.on)
    everyone = numpy.broadcast_shapes(everyone, on.shape, numbers.shape)
    chosen = numpy.broadcast_to(on, everyone)
    index = numpy.broadcast_to(access.index, everyone)[chosen]
    return index, numpy.broadcast_to(widen(numbers).astype(FLOAT64), everyone)[chosen]
