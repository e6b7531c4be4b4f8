"""What values would be if some operations had given all of what they compute, which overflows, is
lost, wraps or is cut.

The shadow of a value is how far it is from that: exact minus actual, in float64, or in int64 if
only integers are followed. Of an actual number that is not finite it is the exact one itself; NaN
says that no one knows. Rounding is left out: what an operation makes of exact operands is held
against what the same arithmetic makes of the actual ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Computed
from kernellab.checker.numerics.exact_functions import (
    Function,
    function_for,
    integer_function_for,
)
from kernellab.checker.numerics.finite import is_float_type
from kernellab.checker.numerics.signs import Values, takes_for_signed
from kernellab.checker.numerics.wrapping import below_zero, integers
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.shadow.stored import INT64
from kernellab.checker.shadow.values import Array, Shadow, Shadows, lifted, moved, reach
from kernellab.interpreter.numerics.numerics import FLOAT64, widen
from kernellab.ir import arith
from kernellab.ir.traits import GlobalAccess, KeepsSign, MovesElements, RegionsOfElements, has
from kernellab.ir.types import dtype, is_pointer, shape


@dataclass(eq=False)
class Departure:
    """An operation that did not give what it computes.

    Attributes:
        computed: its values when it first did so.
        operands, result: these as numbers, programs first.
        exact: what it should have given, programs first.
        lanes: in which it did, then.
        programs: linear ids of all.
        count: elements.
    """

    computed: Computed
    operands: tuple[Array, ...]
    result: Array
    exact: Array
    lanes: Array
    programs: ProgramSet = field(default_factory=ProgramSet)
    count: int = 0

    @property
    def lane(self) -> tuple[int, ...]:
        """The first lane, the program's place in the batch first."""
        return tuple(int(i) for i in numpy.argwhere(self.lanes)[0])

    def at(self, array: Array, lane: tuple[int, ...]) -> Any:
        """The element of an operand or a result that belongs to a lane."""
        place = lane[: array.ndim]
        return array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))].item()


class Cause(ABC):
    """Decides which results of operations are inexact.

    Attributes:
        undefined: True if the exact result is not defined.
        integers: True if only integers are followed, in int64; otherwise numbers in float64.
        adds_up: True if operations add to their own inexact results; otherwise only operations
            with exact operands are reported.
    """

    undefined: bool = False
    integers: bool = False
    adds_up: bool = False

    @abstractmethod
    def may_depart(self, op: Operation) -> bool:
        """Return whether an operation may have an inexact result."""

    @abstractmethod
    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        """Return the lanes of such a result that are inexact, and what they should be.

        Args:
            operands, result: actual values, programs first.
            exact: what the operation gives for exact operands.
        """


class ExactValues(Shadows):
    """How far the values of a run are from exact ones.

    Attributes:
        kind: the type of its numbers.
        departures: of the operations that did not give what they compute, in the order in which
            they first did.
        read: of each operation that reads memory, the shadow of what it read last.
    """

    def __init__(self, cause: Cause, unsigned: Values) -> None:
        super().__init__()
        self.cause = cause
        self.unsigned = unsigned
        self.kind = INT64 if cause.integers else FLOAT64
        self._function_for = integer_function_for if cause.integers else function_for
        self.departures: dict[Operation, Departure] = {}
        self.read: dict[Operation, Shadow] = {}

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op = computed.operation
        if has(op, GlobalAccess):
            return [self.read.pop(op, None)] * len(op.results)
        concerned = self.cause.may_depart(op)
        if not concerned and all(shadow is None for shadow in operands):
            return [None] * len(op.results)
        function = self._function_for(op)
        if function is None:
            moves = has(op, MovesElements)
            return moved(computed, operands) if moves else [None] * len(op.results)
        with numpy.errstate(all="ignore"):
            return self._departing(computed, operands, function, concerned)

    def _departing(
        self,
        computed: Computed,
        operands: Sequence[Shadow],
        function: Function,
        concerned: bool,
    ) -> Sequence[Shadow]:
        op = computed.operation
        signed = takes_for_signed(op)
        if signed is None and has(op, KeepsSign, RegionsOfElements):
            signed = op.results[0] not in self.unsigned
        actual = [
            self.numbers(source, value, signed)
            for source, value in zip(op.operands, computed.operands)
        ]
        exact = [
            number if shadow is None else self._exact_operand(op, number, source, value, shadow)
            for number, source, value, shadow in zip(
                actual, op.operands, computed.operands, operands
            )
        ]
        should, plain = _as_several(function(*exact)), _as_several(function(*actual))
        given = [
            self.numbers(result, value, None) for result, value in zip(op.results, computed.results)
        ]
        shadows = [
            self._distance(result, *three)
            for result, *three in zip(op.results, given, should, plain)
        ]
        if concerned:
            lanes, instead = self.cause.departs(computed, actual, given[0], should[0])
            lanes = lanes & computed.taking_part(len(shape(op.results[0].type)))
            if lanes.any():
                begins = lanes if self.cause.adds_up else _of_exact(op, operands, lanes)
                if begins.any():
                    self._note(computed, actual, given[0], instead, begins)
                before = 0 if shadows[0] is None else shadows[0]
                shadows[0] = numpy.where(lanes, distance_of(instead, given[0]), before)
        return [None if shadow is None or not shadow.any() else shadow for shadow in shadows]

    def _distance(self, result: SSAValue, given: Array, should: Array, plain: Array) -> Shadow:
        """How far a result is from the exact one, but for its own rounding."""
        if is_pointer(result.type):
            return should - plain
        away = numpy.where(numpy.isfinite(given), should - plain, distance_of(should, given))
        same = (should == plain) | (should == given) | (numpy.isnan(should) & numpy.isnan(plain))
        away = numpy.where(same, 0, away)
        if not self.cause.undefined:
            away = numpy.where(numpy.isnan(away), 0, away)
        return away

    def numbers(self, source: SSAValue, value: Any, signed: bool | None = None) -> Array:
        """A value as numbers, programs first, as an operation takes it that takes integers for
        `signed` ones.
        """
        rank = len(shape(source.type))
        if not is_pointer(source.type) and is_float_type(dtype(source.type)):
            return lifted(widen(value), rank).astype(FLOAT64)
        own = source in self.unsigned
        return integers(value, rank, own if signed is None else not signed).astype(self.kind)

    def _exact_operand(
        self, op: Operation, taken: Array, source: SSAValue, value: Any, shadow: Array
    ) -> Array:
        """What an operand should be."""
        should = with_distance(self.numbers(source, value), shadow)
        exact = numpy.where(shadow != 0, should, taken)
        return below_zero(exact, taken) if isinstance(op, arith.CmpIOp) else exact

    def _note(
        self,
        computed: Computed,
        operands: Sequence[Array],
        result: Array,
        exact: Array,
        lanes: Array,
    ) -> None:
        op = computed.operation
        if op not in self.departures:
            self.departures[op] = Departure(computed, tuple(operands), result, exact, lanes)
        departure = self.departures[op]
        each = len(lanes) > 1
        among = numpy.asarray(lanes.reshape(len(lanes), -1).any(axis=1)) if each else None
        ids = computed.linear_ids(among)
        departure.programs.update(ids)
        departure.count += int(lanes.sum()) * (1 if each else max(len(ids), 1))


def with_distance(actual: Array, shadow: Shadow) -> Array:
    """What numbers should be that are so far from it."""
    if shadow is None:
        return actual
    with numpy.errstate(all="ignore"):
        moved_by: Array = numpy.where(numpy.isfinite(actual), actual + shadow, shadow)
    return numpy.where(shadow == 0, actual, moved_by)


def distance_of(exact: Array, actual: Array) -> Array:
    """The shadow of actual numbers that should be others."""
    with numpy.errstate(all="ignore"):
        away: Array = numpy.where(numpy.isfinite(actual), exact - actual, exact)
    return numpy.where(exact == actual, 0, away)


def _of_exact(op: Operation, operands: Sequence[Shadow], lanes: Array) -> Array:
    """Which of the lanes of a result are computed from exact operands."""
    for position, shadow in enumerate(operands):
        if shadow is not None:
            lanes = lanes & ~reach(op, position, shadow != 0)
    return lanes


def _as_several(results: Any) -> Sequence[Array]:
    return results if isinstance(results, list | tuple) else [results]
