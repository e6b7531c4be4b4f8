"""A run beside which goes what its values would be if some operations gave all of what they
compute: it tells those for whose sake memory ends up with other numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import texts
from kernellab.checker.shadow.exact_functions import function_for
from kernellab.checker.shadow.exact_values import Cause, Departure, ExactValues, with_distance
from kernellab.checker.shadow.stored import StoredShadows
from kernellab.checker.shadow.values import Array, Shadow, lifted
from kernellab.checker.signs import Values, unsigned_values
from kernellab.checker.slices import behind, function_of, mask_of, placing
from kernellab.interpreter.memory.global_memory import lanes_on
from kernellab.interpreter.memory.layers import Atomic, Load, Store
from kernellab.interpreter.numerics.numerics import FLOAT64
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, cf, scf
from kernellab.ir.traits import GlobalAccess, MovesElements, has, trait_of
from kernellab.ir.types import dtype

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_SMALL = 0.05
"""Numbers this much smaller than the largest that is stored beside them may be off by as much."""


@dataclass
class Harm:
    """What became of departures at one operation.

    Attributes:
        operation: it stores another number than it should, goes elsewhere, or decides what is done
            next.
        value: what it stores, or what says where, or decides.
        access: the first; None of what decides.
        element: the first that is wrong; None where the place is.
        stored, exact: what is stored there, and what should be.
        count: elements.
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
        """What comes of it: "; out_ptr[3] becomes 0 instead of 0.98"."""
        if self.access is None:
            return "; what the kernel does next depends on it"
        if self.value is mask_of(self.operation):
            return f"; which lanes of a {self.access.action} are on depends on it"
        if self.element is None:
            return f"; where a {self.access.action} goes depends on it"
        target = self.access.named(self.element)
        stored, exact = texts(*map(self._as_stored, (self.stored, self.exact)))
        if numpy.isnan(self.exact):
            becomes = f"becomes {stored}"
        else:
            becomes = f"becomes {stored} instead of {exact}"
        if self.count == 1:
            return f"; {target} {becomes}"
        return f"; {self.count:,} elements that are stored come of it: {target} {becomes}"

    def _as_stored(self, number: float) -> int | float:
        """A number as the kernel's type has it."""
        whole = dtype(self.value.type).kind == "i" and numpy.isfinite(number)
        return int(number) if whole else number


class ExactRun(Detector):
    """Follows how far values are from exact ones, and sees what is stored.

    Attributes:
        tolerance: how far a stored number may be off, relative to the exact one.
    """

    tolerance: ClassVar[float]

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self.values = ExactValues(self.cause(), unsigned_values(run))
        self._memory = StoredShadows(FLOAT64)
        self._inexact_stores: set[Operation] = set()
        self._inexact_loads: set[Operation] = set()
        self._harms: dict[Operation, Harm] = {}
        self._told: set[Hashable] = set()

    @abstractmethod
    def cause(self) -> Cause:
        """Says which operations it is about."""

    @abstractmethod
    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        """The kind, the message and the advice of a finding."""

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Whatever numbers are followed through, and where values are handed on."""
        if isinstance(operation, arith.ConstantOp):
            return False
        if operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab.")):
            return True
        if isinstance(operation, arith.XOrIOp) or has(operation, GlobalAccess, MovesElements):
            return True
        return function_for(operation) is not None

    def computed(self, computed: Computed) -> None:
        """Follow it."""
        if self.values.cause.undefined and _decides(computed.operation):
            self._look_at_decision(computed)
        self.values.follow(computed)

    def before(self, access: Access) -> None:
        """See what is stored and where, and remember it."""
        request = access.request
        if self.values.cause.undefined:
            self._look_at_place(access)
        trait = trait_of(access.operation, GlobalAccess)
        value = None if trait is None else trait.value_of(access.operation)
        if value is None or not isinstance(request, Store | Atomic):
            return
        shadow = self.values[value]
        if isinstance(request, Store):
            written = self._memory.write(access, shadow)
            if written is not None and written.numbers.any():
                self._inexact_stores.add(access.operation)
        if shadow is not None:
            self.look(access, value, shadow)

    def after(self, access: Access, found: Value | None) -> None:
        """Remember how far what was read is from what it should be."""
        del found
        if self._inexact_stores and isinstance(access.request, Load):
            read = self._memory.read(access)
            self.values.read[access.operation] = read
            if read is not None:
                self._inexact_loads.add(access.operation)

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """See which elements that are stored are wrong."""
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
        if op not in self._harms:
            element = access.coordinates(int(index[first]))
            values = float(stored[first]), float(exact[first])
            self._harms[op] = Harm(op, value, access, element, *values)
        self._harms[op].count += int(wrong.sum())

    def is_off(self, stored: Array, exact: Array, on: Array) -> Array:
        """Which numbers are farther from exact ones than is tolerated; what is not finite in
        memory is told by others.
        """
        with numpy.errstate(all="ignore"):
            sizes = numpy.abs(exact)
            largest = numpy.max(sizes, where=on & numpy.isfinite(sizes), initial=0.0)
            allowed = self.tolerance * numpy.maximum(sizes, _SMALL * largest)
            near = numpy.abs(stored - exact) <= allowed
        off: Array = numpy.isfinite(stored) & ~near
        return off

    def _look_at_place(self, access: Access) -> None:
        """See whether an access goes where nobody knows; lanes that left their tensor for it are
        switched off by now.
        """
        request = access.asked or access.request
        lanes = lanes_on(request.mask, access.active, access.rank)
        on: Any = True if lanes is None else lifted(lanes, access.rank)
        for value in placing(access.operation):
            shadow: Shadow = self.values[value]
            if shadow is None or access.operation in self._harms:
                continue
            shadow = shadow.reshape(shadow.shape + (1,) * max(0, access.rank + 1 - shadow.ndim))
            if value is mask_of(access.operation):
                on = True  # nobody knows either
            if numpy.any(numpy.isnan(shadow) & on):
                self._harms[access.operation] = Harm(access.operation, value, access)

    def _look_at_decision(self, computed: Computed) -> None:
        """See whether nobody knows what is done next."""
        op = computed.operation
        for value in op.operands:
            shadow = self.values[value]
            if shadow is None or shadow.ndim > 1 or op in self._harms:
                continue
            on: Any = True if computed.active is None else computed.active
            if numpy.any(numpy.isnan(shadow) & on):
                self._harms[op] = Harm(op, value)

    def end(self) -> None:
        """Tell each operation that something wrong in memory comes of."""
        for harm in self._harms.values():
            sources = behind((harm.value,), function_of(harm.operation))
            if any(one.owner in self._inexact_loads for one in sources):
                sources |= self._behind_stores()
            for op, departure in self.values.departures.items():
                if op.results[0] in sources:
                    self._tell(op, departure, harm)

    def _tell(self, op: Operation, departure: Departure, harm: Harm) -> None:
        calls = departure.computed.calls()
        facts = {
            "position": calls[-1] if calls else None,
            "calls": calls[:-1],
            "argument": "" if harm.access is None else harm.access.buffer.name,
            "index": harm.element,
            "lane": departure.lane[1:],
            **self.facts(departure, harm),
        }
        line = tuple((one.file, one.line) for one in calls), facts["kind"]
        if line not in self._told:
            self._told.add(line)
            self.collector.add((op, facts["kind"]), facts, departure.programs, departure.count)

    def harmed_places(self) -> frozenset[Operation]:
        """The accesses that go where nobody knows."""
        return frozenset(
            op for op, one in self._harms.items() if one.access is not None and one.element is None
        )

    def _behind_stores(self) -> frozenset[SSAValue]:
        """What the inexact numbers in memory are computed from."""
        return frozenset(
            one
            for store in self._inexact_stores
            for one in behind(_stored(store), function_of(store))
        )


def _decides(op: Operation) -> bool:
    """Whether operands say what is done next."""
    return isinstance(op, scf.ForOp | scf.IfOp | scf.ConditionOp | cf.ConditionalBranchOp)


def _stored(op: Operation) -> Iterable[SSAValue]:
    access = trait_of(op, GlobalAccess)
    value = None if access is None else access.value_of(op)
    return () if value is None else (value,)


class Suspecting(Detector):
    """Notices that something may be wrong with what operations compute; then the launch runs again
    beside exact values.

    Attributes:
        closer: that run.
        told_by: detectors that tell of an operation first; it is not told again.
    """

    closer: ClassVar[type[ExactRun]]
    told_by: ClassVar[tuple[type[Detector], ...]] = ()

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._seen = False
        self._others: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = [one for one in others if isinstance(one, self.told_by)]

    @abstractmethod
    def suspects(self, computed: Computed) -> bool:
        """Whether an operation that it observes gives cause to look closer."""

    def computed(self, computed: Computed) -> None:
        """Look at it, until there is a cause."""
        if not self._seen:
            self._seen = self.suspects(computed)

    def ask(self, session: CheckSession) -> None:
        """Look at what comes of it."""
        if self._seen:
            (closer,), _ = session.run_detectors((self.closer,))
            assert isinstance(closer, ExactRun)
            self.told(closer)

    def told(self, closer: ExactRun) -> None:
        """Take over what the closer run found."""
        self.collector = closer.collector
        for one in self._others:
            for op in one.collector.operations():
                self.collector.forget(op)

    @cached_property
    def unsigned(self) -> Values:
        """The integers that have no sign."""
        return unsigned_values(self.run)
