"""Run a launch with exact values computed beside its values, and report the operations whose
inexact results change what is stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.numerics.exact_functions import function_for
from kernellab.checker.numerics.exact_values import Cause, Departure, ExactValues, with_distance
from kernellab.checker.numerics.signs import unsigned_values
from kernellab.checker.shadow.stored import StoredShadows
from kernellab.checker.shadow.values import Array, Shadow, lifted
from kernellab.checker.slices import behind, function_of, mask_of, placing, stored_value
from kernellab.common.formatting import number_texts
from kernellab.interpreter.memory.global_memory import lanes_on
from kernellab.interpreter.memory.layers import Atomic, Load, Store
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, cf, scf
from kernellab.ir.traits import GlobalAccess, MovesElements, has
from kernellab.ir.types import dtype

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
        if isinstance(operation, arith.ConstantOp):
            return False
        if operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab.")):
            return True
        if isinstance(operation, arith.XOrIOp) or has(operation, GlobalAccess, MovesElements):
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
        on: Any = True if access.on is None else lifted(access.on, access.rank)
        index = lifted(access.index, access.rank)
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
        on: Any = True if lanes is None else lifted(lanes, access.rank)
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
        return self.behind([harm.value], harm)

    def behind(self, values: Iterable[SSAValue], harm: Harm) -> frozenset[SSAValue]:
        """Return what values in the function of an operation are computed from, through memory
        too.
        """
        sources = behind(values, function_of(harm.operation))
        if not any(source.owner in self._inexact_loads for source in sources):
            return sources
        stored = ((stored_value(store), function_of(store)) for store in self._inexact_stores)
        return sources.union(
            *(behind([value], owner) for value, owner in stored if value is not None)
        )

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
    return isinstance(op, scf.ForOp | scf.IfOp | scf.ConditionOp | cf.ConditionalBranchOp)
