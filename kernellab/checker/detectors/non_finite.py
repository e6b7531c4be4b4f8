"""Find NaN and infinity that a kernel computes and stores, and numbers that are too large for the
type that they are converted to.

The checked run only looks at what is stored, and at conversions to 8 bits, which saturate. If there
is something, the launch runs once more, and each value that is not finite carries the number of the
operation that computed it, through arithmetic, loops and memory: the finding is reported at that
operation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.numerics.finite import (
    is_float,
    is_float_type,
    not_finite,
    too_large_for,
)
from kernellab.checker.numerics.origin_formatting import advice, message
from kernellab.checker.numerics.origins import Origin, Origins, may_begin
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.shadow.element_functions import calls_of_combiner
from kernellab.checker.shadow.stored import StoredShadows
from kernellab.checker.shadow.values import Array, lifted, swap_of_pairs
from kernellab.checker.slices import stored_value
from kernellab.checker.suspecting import Suspecting
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.layers import Atomic, Load, Store
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, tt
from kernellab.ir.traits import (
    MovesElements,
    function_of_elements,
    has,
)
from kernellab.ir.types import dtype, shape


@dataclass
class _Harm:
    """What the values of one operation led to.

    Attributes:
        origin: its first execution whose values were stored.
        lane: the first such element of its tile, program first.
        access: the first store of these values.
        element: the first element that was stored to.
        stored: the value that was stored there.
    """

    origin: Origin
    lane: tuple[int, ...]
    access: Access
    element: tuple[int, ...]
    stored: Any
    programs: ProgramSet = field(default_factory=ProgramSet)
    count: int = 0


class NonFiniteOrigins(Detector):
    """Follow values that are not finite from their origin to where they are stored."""

    kinds = ("nan", "infinity", "float-overflow")
    observes_elements = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._origins = Origins()
        self._memory = StoredShadows()
        self._harms: dict[tuple[Operation, str], _Harm] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation computes floats, or passes values on."""
        if isinstance(operation, arith.ConstantOp):
            return False
        if operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab.")):
            return True
        if has(operation, MovesElements) or isinstance(operation, arith.BitcastOp | tt.BitcastOp):
            return True  # the bits may be those of floats
        if isinstance(operation, arith.XOrIOp):
            return swap_of_pairs(operation) is not None
        return any(is_float(result) for result in operation.results)

    def computed(self, computed: Computed) -> None:
        """Follow the values through the operation."""
        outer = function_of_elements(computed.operation)
        if outer is None:
            self._origins.follow(computed)
        else:
            self._origins.elements.follow(outer, computed)

    def before(self, access: Access) -> None:
        """Record which of the stored values have an origin."""
        request, value = access.request, stored_value(access.operation)
        if not isinstance(request, Store | Atomic) or value is None or not is_float(value):
            return
        stored = lifted(request.value, access.rank)
        shadow = self._origins[value]
        numbers = None if shadow is None else self._origins.followed(shadow, stored)
        written = self._memory.write(access, numbers)
        if written is not None:
            self._note(access, stored, written.index, written.numbers)

    def after(self, access: Access, result: Value | None) -> None:
        """Record the origins of the loaded values."""
        if isinstance(access.request, Load):
            if access.on is not None:
                self._origins.on[access.operation] = access.on
            read = self._memory.read(access)
            if read is not None:
                self._origins.read[access.operation] = read

    def _note(self, access: Access, stored: Array, index: Array, numbers: Array) -> None:
        """Record the operations that computed the stored values that are not finite."""
        for number in numpy.unique(numbers[numbers > 0]):
            origin = self._origins.events[number - 1]
            if not origin.kind:
                continue
            key = origin.computed.operation, origin.kind
            elements = numbers == number
            program, *place = (int(i) for i in numpy.argwhere(elements)[0])
            if key not in self._harms:
                element = access.coordinates(int(index[(program, *place)]))
                value = numpy.broadcast_to(stored, elements.shape)[(program, *place)]
                lane = _lane_of(origin, access, (program, *place))
                self._harms[key] = _Harm(origin, lane, access, element, value)
            harm = self._harms[key]
            several = len(elements) > 1
            among = elements.reshape(len(elements), -1).any(axis=1) if several else None
            harm.programs.update(access.linear_ids(among))
            harm.count += int(elements.sum())

    def end(self) -> None:
        """Report the operations that computed values that are not finite."""
        for (operation, kind), harm in self._harms.items():
            origin, lane = harm.origin.at(harm.lane)
            whole = calls_of_combiner(operation) if origin is harm.origin else None
            facts = {
                "kind": origin.kind,
                "places": origin.computed.calls() if whole is None else whole,
                "argument": harm.access.buffer.name,
                "index": harm.element,
                "lane": harm.lane[1:],
                "message": message(origin, lane)
                + _effect(harm.access, harm.element, harm.stored, harm.count),
                "advice": advice(origin, lane),
            }
            self.collector.add((operation, kind), facts, harm.programs, harm.count)


def _lane_of(origin: Origin, access: Access, place: tuple[int, ...]) -> tuple[int, ...]:
    """Return the element of the origin to report: the one that is stored if the tiles have the same
    shape, else the program's first, else the first.
    """
    elements, program = origin.lanes, place[0]
    if origin.computed.programs is access.programs and program < len(elements):
        if elements.ndim == len(place) and elements.shape[1:] == tuple(shape(_tile(access))):
            if elements[place]:
                return place
        if elements[program].any():
            return program, *(int(i) for i in numpy.argwhere(elements[program])[0])
    return tuple(int(i) for i in numpy.argwhere(elements)[0])


def _tile(access: Access) -> Any:
    stored = stored_value(access.operation)
    assert stored is not None
    return stored.type


def _effect(access: Access, element: tuple[int, ...], stored: Any, count: int) -> str:
    """Return "; out_ptr[3] becomes nan", or how many stored elements are affected."""
    target = access.named(element)
    if count == 1:
        return f"; {target} becomes {stored}"
    return f"; {count:,} stored elements are affected: {target} becomes {stored}"


class NonFinite(Suspecting):
    """Notice that NaN or infinity is stored, or that a conversion to 8 bits saturates."""

    kinds = NonFiniteOrigins.kinds
    closer = NonFiniteOrigins

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return _may_leave_finite(run.code)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation converts to floats of 8 bits."""
        if not isinstance(operation, arith.TruncFOp | tt.FpToFpOp):
            return False
        return dtype(operation.results[0].type).itemsize == 1

    def before(self, access: Access) -> None:
        """Check the stored values."""
        request = access.request
        if self.is_suspect or not isinstance(request, Store | Atomic):
            return
        stored = numpy.asarray(request.value)
        if is_float_type(stored.dtype):
            bad = not_finite(stored)
            if bad.any():
                self.is_suspect = bool(numpy.any(bad if access.on is None else bad & access.on))

    def suspects(self, computed: Computed) -> bool:
        """Return whether a converted value does not fit."""
        kind = dtype(computed.operation.results[0].type)
        return bool(too_large_for(numpy.asarray(computed.operands[0]), kind).any())


@per_code
def _may_leave_finite(code: ProgramCode) -> bool:
    """Return whether an operation may compute NaN or infinity from finite numbers."""
    return any(map(may_begin, code.module.walk()))
