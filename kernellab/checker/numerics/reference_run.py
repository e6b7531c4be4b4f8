"""A launch with exact values computed beside its values: what the values would be if nothing
overflowed or were rounded, and the operations for which that changes what is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector, ProgramSet
from kernellab.checker.numerics.exact_functions import Function, function_for, integer_function_for
from kernellab.checker.numerics.integer_types import (
    Values,
    below_zero,
    integers,
    takes_for_signed,
    unsigned_values,
)
from kernellab.checker.numerics.nan_sources import is_float_type
from kernellab.checker.shadow_values import (
    INT64,
    Array,
    Shadow,
    Shadows,
    StoredShadows,
    moved,
    reach,
    with_program_axis,
)
from kernellab.checker.slices import behind, mask_of, placing, stored_value
from kernellab.common.text import number_texts
from kernellab.interpreter.memory.global_memory import Atomic, Load, Store, lanes_on
from kernellab.interpreter.numerics import FLOAT64, widen
from kernellab.interpreter.tiles import Value
from kernellab.ir import mlir
from kernellab.ir.operations import GlobalAccess, KeepsSign, MovesElements, RegionsOfElements, has
from kernellab.ir.types import dtype, is_pointer, shape

# What values would be if some operations had given all of what they compute, which overflows, is
# lost, wraps or is cut.
#
# The shadow of a value is how far it is from that: exact minus actual, in float64, or in int64
# if only integers are followed. Of an actual number that is not finite it is the exact one
# itself; NaN says that no one knows. Rounding is left out: what an operation makes of exact
# operands is held against what the same arithmetic makes of the actual ones.


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
            return with_program_axis(widen(value), rank).astype(FLOAT64)
        own = source in self.unsigned
        return integers(value, rank, own if signed is None else not signed).astype(self.kind)

    def _exact_operand(
        self, op: Operation, taken: Array, source: SSAValue, value: Any, shadow: Array
    ) -> Array:
        """What an operand should be."""
        should = with_distance(self.numbers(source, value), shadow)
        exact = numpy.where(shadow != 0, should, taken)
        return below_zero(exact, taken) if isinstance(op, mlir.CmpIOp) else exact

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


# Run a launch with exact values computed beside its values, and report the operations whose
# inexact results change what is stored.


_SMALL = 0.05
"""Stored numbers below this fraction of the largest in their tile may be off by as much as it."""


@dataclass
class Harm:
    """The effect of departures on one operation.

    Attributes:
        operation: it stores a wrong number, has a wrong address, or decides control flow.
        value: the operand that is wrong.
        access: the first wrong access; None for control flow.
        element: the first wrong element; None if the address or the mask is wrong.
        stored, exact: the number that is stored there, and the exact one.
        count: how many elements are wrong.
    """

    operation: Operation
    value: SSAValue
    access: Access | None = None
    element: tuple[int, ...] | None = None
    stored: float = 0.0
    exact: float = 0.0
    count: int = 0

    @property
    def effect(self) -> str:
        """The effect as text: "; out_ptr[3] becomes 0 instead of 0.98"."""
        if self.access is None:
            return "; control flow depends on it"
        if self.value is mask_of(self.operation):
            return f"; the mask of a {self.access.action} depends on it"
        if self.element is None:
            return f"; the address of a {self.access.action} depends on it"
        target = self.access.named(self.element)
        stored, exact = number_texts(*map(self._as_stored, (self.stored, self.exact)))
        if numpy.isnan(self.exact):
            becomes = f"becomes {stored}"
        else:
            becomes = f"becomes {stored} instead of {exact}"
        if self.count == 1:
            return f"; {target} {becomes}"
        return f"; {self.count:,} stored elements are affected: {target} {becomes}"

    def _as_stored(self, number: float) -> int | float:
        """Return a number as an int if the stored type is an integer."""
        whole = dtype(self.value.type).kind == "i" and numpy.isfinite(number)
        return int(number) if whole else number


class ExactRun(Detector, Cause):
    """Follow how far values are from exact ones, and check what is stored.

    Attributes:
        tolerance: how far a stored number may be from the exact one, relative to it.
        harms: what went wrong, by the operation that stores, accesses or decides.
    """

    tolerance: ClassVar[float] = 0.0

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self.values = ExactValues(self, unsigned_values(run))
        self._memory = StoredShadows(self.values.kind)
        self._inexact_stores: set[Operation] = set()
        self._inexact_loads: set[Operation] = set()
        self.harms: dict[Operation, Harm] = {}
        self._reported: set[Hashable] = set()

    @abstractmethod
    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        """Return the kind, the message and the advice of a finding."""

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether exact numbers pass through the operation."""
        if isinstance(operation, mlir.ConstantOp):
            return False
        if operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab.")):
            return True
        if isinstance(operation, mlir.XOrIOp) or has(operation, GlobalAccess, MovesElements):
            return True
        return function_for(operation) is not None

    def computed(self, computed: Computed) -> None:
        """Follow the exact values through the operation."""
        if self.undefined and _decides(computed.operation):
            self._look_at_decision(computed)
        self.values.follow(computed)

    def before(self, access: Access) -> None:
        """Check what is stored and where, and record it."""
        request = access.request
        if self.undefined:
            self._look_at_place(access)
        value = stored_value(access.operation)
        if value is None or not isinstance(request, Store | Atomic):
            return
        shadow = self.values[value]
        if isinstance(request, Store):
            written = self._memory.write(access, shadow)
            if written is not None and written.numbers.any():
                self._inexact_stores.add(access.operation)
        if shadow is not None:
            self.look(access, value, shadow)

    def after(self, access: Access, result: Value | None) -> None:
        """Record how far loaded values are from exact ones."""
        if self._inexact_stores and isinstance(access.request, Load):
            read = self._memory.read(access)
            self.values.read[access.operation] = read
            if read is not None:
                self._inexact_loads.add(access.operation)

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """Find the stored elements that are wrong."""
        request = access.request
        assert isinstance(request, Store | Atomic)
        stored = self.values.numbers(value, request.value)
        on: Any = True if access.on is None else with_program_axis(access.on, access.rank)
        index = with_program_axis(access.index, access.rank)
        stored, shadow, on, index = numpy.broadcast_arrays(stored, shadow, on, index)
        exact = with_distance(stored, shadow)
        wrong = on & (shadow != 0) & self.is_off(stored, exact, on)
        if not wrong.any():
            return
        first = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        op = access.operation
        if op not in self.harms:
            element = access.coordinates(int(index[first]))
            values = float(stored[first]), float(exact[first])
            self.harms[op] = Harm(op, value, access, element, *values)
        self.harms[op].count += int(wrong.sum())

    def is_off(self, stored: Array, exact: Array, on: Array) -> Array:
        """Return which numbers are off by more than the tolerance; other detectors report numbers
        that are not finite.
        """
        with numpy.errstate(all="ignore"):
            sizes = numpy.abs(exact)
            largest = numpy.max(sizes, where=on & numpy.isfinite(sizes), initial=0.0)
            allowed = self.tolerance * numpy.maximum(sizes, _SMALL * largest)
            near = numpy.abs(stored - exact) <= allowed
        off: Array = numpy.isfinite(stored) & ~near
        return off

    def _look_at_place(self, access: Access) -> None:
        """Check whether the address or the mask of an access is undefined. Elements that left their
        tensor because of that are already masked off.
        """
        request = access.original or access.request
        lanes = lanes_on(request.mask, access.active, access.rank)
        on: Any = True if lanes is None else with_program_axis(lanes, access.rank)
        for value in placing(access.operation):
            shadow: Shadow = self.values[value]
            if shadow is None or access.operation in self.harms:
                continue
            shadow = shadow.reshape(shadow.shape + (1,) * max(0, access.rank + 1 - shadow.ndim))
            if value is mask_of(access.operation):
                on = True  # the mask is undefined too
            if numpy.any(numpy.isnan(shadow) & on):
                self.harms[access.operation] = Harm(access.operation, value, access)

    def _look_at_decision(self, computed: Computed) -> None:
        """Check whether control flow is undefined."""
        op = computed.operation
        for value in op.operands:
            shadow = self.values[value]
            if shadow is None or shadow.ndim > 1 or op in self.harms:
                continue
            on: Any = True if computed.active is None else computed.active
            if numpy.any(numpy.isnan(shadow) & on):
                self.harms[op] = Harm(op, value)

    def end(self) -> None:
        """Report each operation that causes a wrong number in memory."""
        for harm in self.harms.values():
            sources = self.sources(harm)
            for op, departure in self.values.departures.items():
                if op.results[0] in sources:
                    self._report(op, departure, harm)

    def sources(self, harm: Harm) -> frozenset[SSAValue]:
        """Return the values that what is wrong is computed from."""
        return self.behind([harm.value])

    def behind(self, values: Iterable[SSAValue]) -> frozenset[SSAValue]:
        """Return what values are computed from, through memory too."""
        sources = behind(values)
        if not any(source.owner in self._inexact_loads for source in sources):
            return sources
        stored = map(stored_value, self._inexact_stores)
        return sources | behind(value for value in stored if value is not None)

    def _report(self, op: Operation, departure: Departure, harm: Harm) -> None:
        calls = departure.computed.calls()
        facts = {
            "places": calls,
            "argument": "" if harm.access is None else harm.access.buffer.name,
            "index": harm.element,
            "lane": departure.lane[1:],
            **self.facts(departure, harm),
        }
        line = tuple((call.file, call.line) for call in calls), facts["kind"]
        if line not in self._reported:
            self._reported.add(line)
            self.collector.add((op, facts["kind"]), facts, departure.programs, departure.count)

    def explains(self) -> frozenset[Operation]:
        """Return the accesses whose address or mask is undefined."""
        return frozenset(
            op
            for op, harm in self.harms.items()
            if harm.access is not None and harm.element is None
        )


def _decides(op: Operation) -> bool:
    """Return whether the operands decide control flow."""
    return isinstance(op, mlir.ForOp | mlir.IfOp | mlir.ConditionOp | mlir.ConditionalBranchOp)
