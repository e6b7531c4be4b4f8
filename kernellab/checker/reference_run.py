"""The reference run: the launch once more, with exact values computed beside its values: what they
would be if the operations of a cause did not overflow, lose, wrap, cut or round; and the operations
for which that changes what is stored.

One run follows every cause that the checked run has noticed, each with its own exact values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy
import torch
from xdsl.ir import Operation, SSAValue

from kernellab.checker import detector
from kernellab.checker.checked_run import (
    CheckedAccess,
    CheckedRun,
    Computed,
    behind,
    makes_addresses,
    mask_of,
    placing,
    stored_value,
)
from kernellab.checker.exact_functions import (
    Function,
    Values,
    below_zero,
    carries,
    carries_indices,
    function_of,
    integers,
    takes_for_signed,
    unsigned_values,
)
from kernellab.checker.nan_sources import is_float_type
from kernellab.checker.shadow_values import (
    Array,
    Shadow,
    Shadows,
    StoredShadows,
    lanes_of,
    moved,
    passes_on,
    reach,
    with_program_axis,
)
from kernellab.common.text import number_texts
from kernellab.interpreter.execution.program import entry_of
from kernellab.interpreter.memory.global_memory import Atomic, Load, Store, lanes_on
from kernellab.interpreter.numerics import FLOAT64, widen
from kernellab.interpreter.tiles import Value
from kernellab.ir import flow, mlir
from kernellab.ir.operations import GlobalAccess, KeepsSign, MovesElements, RegionsOfElements, has
from kernellab.ir.types import dtype, is_pointer, shape


@dataclass(eq=False)
class Departure:
    """An operation that did not give what it computes.

    Attributes:
        computed: its values when it first did so.
        operands, result: these as numbers, programs first.
        exact: what it should have given, programs first.
        programs: linear ids of all.
        count: elements.
    """

    computed: Computed
    operands: tuple[Array, ...]
    result: Array
    exact: Array
    lanes: Array
    programs: detector.ProgramSet = field(default_factory=detector.ProgramSet)
    count: int = 0

    @property
    def lane(self) -> tuple[int, ...]:
        """The first lane, the program's place in the batch first."""
        return tuple(int(i) for i in numpy.argwhere(self.lanes)[0])

    def at(self, array: Array) -> Any:
        place = self.lane[: array.ndim]
        return array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))].item()

    @property
    def became(self) -> Any:
        return self.at(self.result)

    @property
    def should(self) -> Any:
        """The number that it should have given there."""
        return self.at(self.exact)


@dataclass
class Harm:
    """The effect of departures on one operation.

    Attributes:
        operation: it stores a wrong number, has a wrong address, or decides control flow.
        access: the first wrong access; None for control flow.
        element: the first wrong element; None if the address or the mask is wrong.
        stored, exact: the number that is stored there, and the exact one.
        count: how many elements are wrong.
    """

    operation: Operation
    value: SSAValue
    access: CheckedAccess | None = None
    element: tuple[int, ...] | None = None
    stored: float = 0.0
    exact: float = 0.0
    count: int = 0
    sources: frozenset[SSAValue] = frozenset()

    @property
    def is_misplaced(self) -> bool:
        return self.access is not None and self.element is None

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


# What an operation computes of numbers.


class Step:
    """An operation of the run, with its values as numbers in float64, programs first."""

    def __init__(self, computed: Computed, unsigned: Values) -> None:
        self.computed = computed
        self.operation = computed.operation
        self.unsigned = unsigned

    @property
    def function(self) -> Function | None:
        """The function that the operation computes; None if it is not known."""
        return function_of(self.operation)

    @cached_property
    def operands(self) -> list[Array]:
        """The operands, read as the operation reads them: signed or unsigned."""
        op = self.operation
        signed = takes_for_signed(op)
        if signed is None and has(op, KeepsSign, RegionsOfElements):
            signed = op.results[0] not in self.unsigned
        return [
            numbers(source, value, self.unsigned, signed)
            for source, value in zip(op.operands, self.computed.operands)
        ]

    @cached_property
    def results(self) -> list[Array]:
        """Its results."""
        return [
            numbers(result, value, self.unsigned)
            for result, value in zip(self.operation.results, self.computed.results)
        ]

    @property
    def result(self) -> Array:
        """Its first result."""
        return self.results[0]

    @cached_property
    def plain(self) -> Sequence[Array]:
        """The result of the same arithmetic on the actual operands, without rounding the result."""
        return self.made_of(self.operands)

    def made_of(self, operands: Sequence[Array]) -> Sequence[Array]:
        assert self.function is not None, "exact numbers pass through the operation"
        results = self.function(*operands)
        return results if isinstance(results, list | tuple) else [results]

    def exact_operands(self, shadows: Sequence[Shadow]) -> list[Array]:
        """What the operands should be, that are so far from it."""
        given = zip(self.operands, self.operation.operands, self.computed.operands, shadows)
        return [
            taken if shadow is None else self._exact(taken, source, value, shadow)
            for taken, source, value, shadow in given
        ]

    def _exact(self, taken: Array, source: SSAValue, value: Any, shadow: Array) -> Array:
        should = with_distance(numbers(source, value, self.unsigned), shadow)
        exact = numpy.where(shadow != 0, should, taken)
        return below_zero(exact, taken) if isinstance(self.operation, mlir.CmpIOp) else exact


def numbers(source: SSAValue, value: Any, unsigned: Values, signed: bool | None = None) -> Array:
    """Return a value as float64, programs first; integers as `signed` ones, if that is given."""
    rank = len(shape(source.type))
    if not is_pointer(source.type) and is_float_type(dtype(source.type)):
        return with_program_axis(widen(value), rank).astype(FLOAT64)
    own = source in unsigned
    return integers(value, rank, own if signed is None else not signed).astype(FLOAT64)


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


_SMALL = 0.05
"""Stored numbers below this fraction of the largest in their tile may be off by as much as it."""


class Cause:
    """Decides which operations depart from what they compute, and which effects matter.

    Attributes:
        tolerance: how far a stored number may be from the exact one, relative to it.
        undefined: True if there is no exact result; then addresses, masks and branches matter too.
        of_indices: True if only addresses and masks matter; integers are followed then.
        adds_up: True if operations add to their own inexact results; else operands must be exact.
    """

    tolerance: ClassVar[float] = 0.0
    undefined: ClassVar[bool] = False
    of_indices: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False
    collector: detector.FindingCollector

    @property
    def followed_as(self) -> type[Followed]:
        """What follows it through the reference run."""
        return Followed

    @abstractmethod
    def may_depart(self, op: Operation) -> bool:
        """Return whether an operation may have an inexact result."""

    def exact(self, step: Step, exact: Array) -> Array:
        """Return what an operation should give, from what it computes of exact operands."""
        del step
        return exact

    def departs(self, step: Step, exact: Array) -> Array:
        """Return the lanes of the result that are not what they should be, which is `exact`."""
        different: Array = exact != step.result
        return different

    def is_off(self, value: SSAValue, stored: Array, exact: Array, on: Array) -> Array:
        """Return which finite stored numbers are off by more than the tolerance."""
        del value
        with numpy.errstate(all="ignore"):
            sizes = numpy.abs(exact)
            largest = numpy.max(sizes, where=on & numpy.isfinite(sizes), initial=0.0)
            allowed = self.tolerance * numpy.maximum(sizes, _SMALL * largest)
            near = numpy.abs(stored - exact) <= allowed
        off: Array = numpy.isfinite(stored) & ~near
        return off

    def keep(self, departures: dict[Operation, Departure]) -> dict[Operation, Departure]:
        """Return the departures that are reported, at the end of the run."""
        return departures

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        """Return the kind, the message and the advice of a finding. Raises NotImplementedError: the
        cause has no findings.
        """
        raise NotImplementedError


class Followed(Shadows):
    """How far the values of the run are from exact ones, for one cause, and what that leads to.

    The shadow of a value is exact minus actual, in float64. Of an actual number that is not finite
    it is the exact one itself; NaN means unknown. Rounding is left out: what an operation
    makes of exact operands is compared with what the same arithmetic makes of the actual ones.

    Attributes:
        departures: of the operations that gave something else than they compute, in order.
        harms: what went wrong, by the operation that stores, accesses or decides.
    """

    step: Step

    def __init__(self, cause: Cause, departing: Iterable[Operation]) -> None:
        super().__init__()
        self.cause = cause
        self._departing = frozenset(departing)
        self.departures: dict[Operation, Departure] = {}
        self.harms: dict[Operation, Harm] = {}
        self._read: dict[Operation, Shadow] = {}
        """Of each operation that reads memory, the shadow of what it read last."""
        self._carries = carries_indices if cause.of_indices else carries
        self.stored = StoredShadows(FLOAT64)
        self._inexact_stores: set[Operation] = set()
        self._inexact_loads: set[Operation] = set()
        self._reported: set[Hashable] = set()

    @property
    def first(self) -> Operation | None:
        """The first operation that departed."""
        return next(iter(self.departures), None)

    def follow_step(self, step: Step) -> None:
        if self.cause.undefined and isinstance(step.operation, DECIDE):
            op = step.computed.operation
            for value in op.operands:
                shadow = self[value]
                if shadow is None or shadow.ndim > 1 or op in self.harms:
                    continue
                on: Any = True if step.computed.active is None else step.computed.active
                if numpy.any(self._is_wrong(shadow) & on):
                    self.harms[op] = Harm(op, value)
        self.step = step
        self.follow(step.computed)

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op, step = computed.operation, self.step
        unchanged: list[Shadow] = [None] * len(op.results)
        if has(op, GlobalAccess):
            return [self._read.pop(op, None)] * len(op.results)
        concerned = op in self._departing
        is_exact = all(shadow is None for shadow in operands)
        if is_exact and not concerned:
            return unchanged
        if not self._carries(op):
            return moved(computed, operands) if has(op, MovesElements) else unchanged
        with numpy.errstate(all="ignore"):
            should = step.plain if is_exact else step.made_of(step.exact_operands(operands))
            shadows = unchanged if is_exact else self._distances(step, should)
            if concerned:
                self._depart(step, operands, should[0], shadows)
        return [None if shadow is None or not shadow.any() else shadow for shadow in shadows]

    def _distances(self, step: Step, should: Sequence[Array]) -> list[Shadow]:
        """How far results are from the exact ones, except for their own rounding."""
        return [
            self._distance(result, *three)
            for result, *three in zip(step.operation.results, step.results, should, step.plain)
        ]

    def _distance(self, result: SSAValue, given: Array, should: Array, plain: Array) -> Shadow:
        if is_pointer(result.type):
            return should - plain
        away = numpy.where(numpy.isfinite(given), should - plain, distance_of(should, given))
        same = (should == plain) | (should == given) | (numpy.isnan(should) & numpy.isnan(plain))
        away = numpy.where(same, 0, away)
        if not self.cause.undefined:
            away = numpy.where(numpy.isnan(away), 0, away)
        return away

    def _depart(
        self, step: Step, operands: Sequence[Shadow], should: Array, shadows: list[Shadow]
    ) -> None:
        """Put the shadow of a result where the operation departs from what it should give."""
        computed, given = step.computed, step.result
        exact = self.cause.exact(step, should)
        lanes = self.cause.departs(step, exact)
        lanes = lanes & computed.taking_part(len(shape(step.operation.results[0].type)))
        if not lanes.any():
            return
        begins = lanes if self.cause.adds_up else _of_exact(step.operation, operands, lanes)
        if begins.any():
            self._note(step, exact, begins)
        before = 0 if shadows[0] is None else shadows[0]
        shadows[0] = numpy.where(lanes, distance_of(exact, given), before)

    def _note(self, step: Step, exact: Array, lanes: Array) -> None:
        op, computed = step.operation, step.computed
        if op not in self.departures:
            self.departures[op] = Departure(
                computed, tuple(step.operands), step.result, exact, lanes
            )
        departure = self.departures[op]
        each = len(lanes) > 1
        among = numpy.asarray(lanes.reshape(len(lanes), -1).any(axis=1)) if each else None
        ids = computed.linear_ids(among)
        departure.programs.update(ids)
        departure.count += int(lanes.sum()) * (1 if each else max(len(ids), 1))

    def access(self, access: CheckedAccess, unsigned: Values) -> None:
        """Check where an access goes and what it stores, and record the shadow of that."""
        if self.cause.of_indices or self.cause.undefined:
            self._look_at_place(access)
        request, value = access.request, stored_value(access.operation)
        if value is None or not isinstance(request, Store | Atomic):
            return
        shadow = self[value]
        if isinstance(request, Store):
            written = self.stored.write(access, shadow)
            if written is not None and written.numbers.any():
                self._inexact_stores.add(access.operation)
        if shadow is None:
            return
        if isinstance(request, Atomic) and request.operation == "fadd" and self.cause.adds_up:
            self.stored.add(access, shadow)
            self._inexact_stores.add(access.operation)
        if not self.cause.of_indices:
            self._look_at_stored(access, value, shadow, unsigned)

    def read(self, access: CheckedAccess) -> bool:
        """Record how far loaded values are from exact ones; return whether they are inexact."""
        read = self.stored.read(access) if self._inexact_stores else None
        self._read[access.operation] = read
        if read is not None:
            self._inexact_loads.add(access.operation)
        return read is not None

    def of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what a tensor holds without the cause, float64."""
        actual = tensor.double().numpy()
        return torch.from_numpy(numpy.array(with_distance(actual, self.stored.of_tensor(tensor))))

    def _look_at_stored(
        self, access: CheckedAccess, value: SSAValue, shadow: Array, unsigned: Values
    ) -> None:
        request = access.request
        assert isinstance(request, Store | Atomic)
        stored = numbers(value, request.value, unsigned)
        index, on, stored, shadow = lanes_of(access, stored, shadow)
        exact = with_distance(stored, shadow)
        wrong = on & (shadow != 0) & self.cause.is_off(value, stored, exact, on)
        if not wrong.any():
            return
        first = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        op = access.operation
        if op not in self.harms:
            element = access.coordinates(int(index[first]))
            values = float(stored[first]), float(exact[first])
            self.harms[op] = Harm(op, value, access, element, *values)
        self.harms[op].count += int(wrong.sum())

    def _look_at_place(self, access: CheckedAccess) -> None:
        op, request = access.operation, access.original or access.request
        mask = None if mask_of(op) is None else request.mask
        lanes = lanes_on(mask, access.active, access.rank)
        on: Any = True if lanes is None else with_program_axis(lanes, access.rank)
        for value in placing(op):
            shadow: Shadow = self[value]
            if shadow is None or op in self.harms:
                continue
            shadow = shadow.reshape(shadow.shape + (1,) * max(0, access.rank + 1 - shadow.ndim))
            if value is mask_of(op):
                on = access.taking_part(access.rank)  # the mask is wrong too
            if numpy.any(self._is_wrong(shadow) & on):
                self.harms[op] = Harm(op, value, access)

    def _is_wrong(self, shadow: Array) -> Array:
        wrong: Array = numpy.isnan(shadow) if self.cause.undefined else shadow != 0
        return wrong

    def report(self) -> None:
        """Report each operation that causes a wrong number in memory, or a wrong access."""
        departures = self.cause.keep(self.departures)
        for harm in self.harms.values():
            is_place = self.cause.of_indices
            harm.sources = self._behind(placing(harm.operation) if is_place else [harm.value])
            for op, departure in departures.items():
                if op.results[0] in harm.sources:
                    self._report(op, departure, harm)

    def _behind(self, values: Iterable[SSAValue]) -> frozenset[SSAValue]:
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
            **self.cause.facts(departure, harm),
        }
        line = tuple((call.file, call.line) for call in calls), facts["kind"]
        if line not in self._reported:
            self._reported.add(line)
            self.cause.collector.add(
                (op, facts["kind"]), facts, departure.programs, departure.count
            )


DECIDE = (mlir.ForOp, mlir.IfOp, mlir.ConditionOp, mlir.ConditionalBranchOp)
"""Operations whose operands decide control flow."""


def _of_exact(op: Operation, operands: Sequence[Shadow], lanes: Array) -> Array:
    for position, shadow in enumerate(operands):
        if shadow is not None:
            lanes = lanes & ~reach(op, position, shadow != 0)
    return lanes


class ReferenceRun(detector.Detector):
    """Follow the exact values of each cause, and report what its departures lead to.

    Attributes:
        failed: the causes that failed, each with its error; the others continue.
    """

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self.unsigned = unsigned_values(run)
        self.followed: list[Followed] = []
        self.failed: dict[Cause, Exception] = {}
        self._operations = list(entry_of(run.code.module).walk())
        self._concerned: dict[Operation, list[Followed]] = defaultdict(list)
        """The causes that concern an operation, which are few of them."""

    def meet(self, others: Sequence[object]) -> None:
        for cause in others:
            if isinstance(cause, Cause):
                departing = [op for op in self._operations if cause.may_depart(op)]
                followed = cause.followed_as(cause, departing)
                self.followed.append(followed)
                self._follow(followed, [result for op in departing for result in op.results])

    def _follow(self, followed: Followed, values: Iterable[SSAValue]) -> None:
        inexact = set(flow.forward(values))
        for op in self._operations:
            known = self._concerned[op]
            arriving = chain(op.operands, op.results, flow.arguments_inside(op))
            if followed not in known and not inexact.isdisjoint(arriving):
                known.append(followed)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether exact numbers pass through the operation."""
        if isinstance(operation, mlir.ConstantOp):
            return False
        if passes_on(operation):
            return True
        if isinstance(operation, mlir.XOrIOp) or has(operation, GlobalAccess, MovesElements):
            return True
        return carries(operation) or (makes_addresses(operation) and carries_indices(operation))

    def computed(self, computed: Computed) -> None:
        """Follow the exact values through the operation."""
        concerned = self._concerned.get(computed.operation)
        if concerned:
            step = Step(computed, self.unsigned)
            self._each(lambda followed: followed.follow_step(step), concerned)

    def before(self, access: CheckedAccess) -> None:
        """Check what is stored and where, and record it."""
        self._each(lambda followed: followed.access(access, self.unsigned), self.followed)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        """Record how far loaded values are from exact ones."""
        if isinstance(access.request, Load):
            self._each(lambda followed: self._read(followed, access), self.followed)

    def _read(self, followed: Followed, access: CheckedAccess) -> None:
        if followed.read(access) and followed not in self._concerned[access.operation]:
            self._follow(followed, access.operation.results)

    def end(self) -> None:
        self._each(Followed.report, self.followed)

    def of(self, cause: Cause) -> Followed:
        """Return what a cause led to.

        Raises:
            Exception: the error with which it failed.
        """
        if cause in self.failed:
            raise self.failed[cause]
        return next(followed for followed in self.followed if followed.cause is cause)

    def _each(self, step: Callable[[Followed], None], among: Sequence[Followed]) -> None:
        for followed in among:
            if followed.cause in self.failed:
                continue
            try:
                step(followed)
            except Exception as error:  # a cause that fails must not end the others
                self.failed[followed.cause] = error


class SuspectedCause(Cause, detector.TwoPhaseDetector):
    """A cause that the checked run notices, and the reference run follows."""

    closer = ReferenceRun

    def may_depart(self, op: Operation) -> bool:
        """Return whether an operation may have an inexact result: as a rule, those it observes."""
        return type(self).observes(op)

    def suspects(self, computed: Computed) -> bool:
        """Return whether the operation departs from what it computes of its operands."""
        step = Step(computed, self.unsigned)
        with numpy.errstate(all="ignore"):
            lanes = self.departs(step, self.exact(step, step.plain[0]))
        return bool((lanes & computed.taking_part(step.result.ndim - 1)).any())

    def accept(self, closer: detector.Detector) -> None:
        assert isinstance(closer, ReferenceRun)
        harms = closer.of(self).harms.items()
        self.explained = frozenset(op for op, harm in harms if harm.is_misplaced)
        self.leave_to_others()
