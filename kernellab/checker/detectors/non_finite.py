"""NaN and infinity that a kernel writes to memory and did not find there,
and numbers too large for the type that they are converted to.

The checked run only looks at what is stored, and at conversions to 8 bits, which saturate.
Where something shows, the launch runs once more and each value that is not finite carries the
number of the operation that made it, through arithmetic, loops and memory: the finding is told
at that operation.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.shadow.element_functions import calls_of_combiner
from kernellab.checker.shadow.finite import (
    is_float,
    is_float_type,
    not_finite,
    too_large_for,
)
from kernellab.checker.shadow.origin_formatting import advice, message
from kernellab.checker.shadow.origins import Origin, Origins, may_begin
from kernellab.checker.shadow.stored import StoredShadows
from kernellab.checker.shadow.values import Array, lifted, swap_of_pairs
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.layers import Atomic, Load, Store
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, tt
from kernellab.ir.traits import (
    GlobalAccess,
    MovesElements,
    function_of_elements,
    has,
    trait_of,
)
from kernellab.ir.types import dtype, shape

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

_KINDS = ("nan", "infinity", "float-overflow")

_may_begin: weakref.WeakKeyDictionary[ProgramCode, bool] = weakref.WeakKeyDictionary()
"""Whether a code has an operation that makes of finite numbers what is not."""


class NonFinite(Detector):
    """Notices that NaN or infinity is stored, or that a conversion to 8 bits saturates."""

    kinds: ClassVar[tuple[str, ...]] = _KINDS

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._seen = False

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        if run.code not in _may_begin:
            _may_begin[run.code] = any(map(may_begin, run.code.module.walk()))
        return _may_begin[run.code]

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Conversions to floats of 8 bits."""
        if not isinstance(operation, arith.TruncFOp | tt.FpToFpOp):
            return False
        return dtype(operation.results[0].type).itemsize == 1

    def before(self, access: Access) -> None:
        """Look at what is stored."""
        request = access.request
        if self._seen or not isinstance(request, Store | Atomic):
            return
        stored = numpy.asarray(request.value)
        if is_float_type(stored.dtype):
            bad = not_finite(stored)
            if bad.any():
                self._seen = bool(numpy.any(bad if access.on is None else bad & access.on))

    def computed(self, computed: Computed) -> None:
        """Look at what is converted."""
        if not self._seen:
            kind = dtype(computed.operation.results[0].type)
            self._seen = bool(too_large_for(numpy.asarray(computed.operands[0]), kind).any())

    def ask(self, session: CheckSession) -> None:
        """Look at where it comes from."""
        if self._seen:
            (closer,), _ = session.run_detectors((NonFiniteOrigins,))
            self.collector = closer.collector


@dataclass
class _Harm:
    """What became of the values of one operation.

    Attributes:
        origin: the first of its events that harmed, and its first lane.
        access: the first store, and its first element.
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
    """Follows what is not finite from where it began to where it is stored."""

    kinds: ClassVar[tuple[str, ...]] = _KINDS
    observes_elements = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._origins = Origins()
        self._memory = StoredShadows()
        self._harms: dict[tuple[Operation, str], _Harm] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Whatever has floats, and where values are handed on."""
        if isinstance(operation, arith.ConstantOp):
            return False
        if operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab.")):
            return True
        if has(operation, MovesElements) or isinstance(operation, arith.BitcastOp | tt.BitcastOp):
            return True  # floats may travel as bits
        if isinstance(operation, arith.XOrIOp):
            return swap_of_pairs(operation) is not None
        return any(is_float(result) for result in operation.results)

    def computed(self, computed: Computed) -> None:
        """Follow it."""
        outer = function_of_elements(computed.operation)
        if outer is None:
            self._origins.follow(computed)
        else:
            self._origins.elements.follow(outer, computed)

    def before(self, access: Access) -> None:
        """See what is stored, and remember where."""
        request, value = access.request, _stored(access.operation)
        if not isinstance(request, Store | Atomic) or value is None or not is_float(value):
            return
        stored = lifted(request.value, access.rank)
        shadow = self._origins[value]
        numbers = None if shadow is None else self._origins.told(shadow, stored)
        written = self._memory.write(access, numbers)
        if written is not None:
            self._note(access, stored, written.index, written.numbers)

    def after(self, access: Access, found: Value | None) -> None:
        """Remember what was read, and in which lanes."""
        del found
        if isinstance(access.request, Load):
            if access.on is not None:
                self._origins.on[access.operation] = access.on
            read = self._memory.read(access)
            if read is not None:
                self._origins.read[access.operation] = read

    def _note(self, access: Access, stored: Array, index: Array, numbers: Array) -> None:
        """Of each origin that shows in what is stored, the operation is at fault."""
        for number in numpy.unique(numbers[numbers > 0]):
            origin = self._origins.events[number - 1]
            if not origin.kind:
                continue
            key = origin.computed.operation, origin.kind
            lanes = numbers == number
            program, *place = (int(i) for i in numpy.argwhere(lanes)[0])
            if key not in self._harms:
                element = access.coordinates(int(index[(program, *place)]))
                value = numpy.broadcast_to(stored, lanes.shape)[(program, *place)]
                lane = _lane_of(origin, access, (program, *place))
                self._harms[key] = _Harm(origin, lane, access, element, value)
            harm = self._harms[key]
            among = lanes.reshape(len(lanes), -1).any(axis=1) if len(lanes) > 1 else None
            harm.programs.update(access.linear_ids(among))
            harm.count += int(lanes.sum())

    def end(self) -> None:
        """Tell what was found."""
        for (operation, kind), harm in self._harms.items():
            origin, lane = harm.origin.at(harm.lane)
            whole = calls_of_combiner(operation) if origin is harm.origin else None
            calls = origin.computed.calls() if whole is None else whole
            facts = {
                "kind": origin.kind,
                "position": calls[-1] if calls else None,
                "calls": calls[:-1],
                "argument": harm.access.buffer.name,
                "index": harm.element,
                "lane": harm.lane[1:],
                "message": message(origin, lane)
                + _effect(harm.access, harm.element, harm.stored, harm.count),
                "advice": advice(origin, lane),
            }
            self.collector.add((operation, kind), facts, harm.programs, harm.count)


def _stored(op: Operation) -> SSAValue | None:
    """The value that an access writes."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.value_of(op)


def _lane_of(origin: Origin, access: Access, place: tuple[int, ...]) -> tuple[int, ...]:
    """A lane of the origin to tell of: the one that is stored where the tiles agree,
    else the first of the program, else the first.
    """
    lanes, (program, *rest) = origin.lanes, place
    if origin.computed.programs is access.programs and program < len(lanes):
        if lanes.ndim == len(place) and lanes.shape[1:] == tuple(shape(_tile(access))):
            if lanes[place]:
                return place
        if lanes[program].any():
            return program, *(int(i) for i in numpy.argwhere(lanes[program])[0])
    del rest
    return tuple(int(i) for i in numpy.argwhere(lanes)[0])


def _tile(access: Access) -> Any:
    stored = _stored(access.operation)
    assert stored is not None
    return stored.type


def _effect(access: Access, element: tuple[int, ...], stored: Any, count: int) -> str:
    """ "; out_ptr[3] becomes nan"; where more is stored, how much."""
    target = access.named(element)
    if count == 1:
        return f"; {target} becomes {stored}"
    return f"; {count:,} elements that are stored come of it, the first {target} = {stored}"
