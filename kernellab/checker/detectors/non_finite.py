"""Find NaN and infinity: computed and stored, on the way to a result, and there before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker import nan_sources
from kernellab.checker.checked_run import (
    CheckedAccess,
    CheckedRun,
    Computed,
    mask_of,
    placing,
    stored_value,
    tensors_among,
)
from kernellab.checker.detector import Detector, ProgramSet, TwoPhaseDetector
from kernellab.checker.reference_run import DECIDE, Departure, Harm, Step, SuspectedCause
from kernellab.checker.shadow_values import (
    Array,
    StoredShadows,
    passes_on,
    reach,
    swap_of_pairs,
    with_program_axis,
)
from kernellab.common.text import counted, element_text
from kernellab.interpreter.execution.program import (
    ProgramCode,
    memory_effects,
    per_code,
)
from kernellab.interpreter.memory.global_memory import Atomic, Load, Store
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.numerics import widen
from kernellab.interpreter.tiles import Value
from kernellab.ir import mlir, operations, tt
from kernellab.ir.types import dtype, is_float, is_pointer, shape

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

# Find NaN and infinity that a kernel computes and stores, and numbers that are too large for the
# type that they are converted to.
#
# The checked run only looks at what is stored, and at conversions to 8 bits, which saturate. If
# there is something, a further run follows it: each value that is not finite carries the
# number of the operation that computed it, through arithmetic, loops and memory: the finding is
# reported at that operation.


@dataclass
class _Harm:
    """The consequences of one operation's values.

    Attributes:
        origin: its first execution whose values were stored.
        lane: the first such element of its tile, program first.
        access: the first store of these values; None if a NaN decides control flow.
        element: the first element that was stored to.
    """

    origin: nan_sources.Origin
    lane: tuple[int, ...]
    access: CheckedAccess | None = None
    element: tuple[int, ...] | None = None
    stored: Any = None
    programs: ProgramSet = field(default_factory=ProgramSet)
    count: int = 0


class NonFiniteOrigins(Detector):
    """Follow values that are not finite from their origin to where they are stored."""

    kinds = ("nan", "infinity", "float-overflow")
    observes_elements = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._origins = nan_sources.Origins()
        self._memory = StoredShadows()
        self._harms: dict[tuple[Operation, str], _Harm] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation computes floats, or passes values on."""
        if isinstance(operation, mlir.ConstantOp):
            return False
        if passes_on(operation):
            return True
        if operations.has(operation, operations.MovesElements) or isinstance(
            operation, mlir.BitcastOp | tt.BitcastOp
        ):
            return True  # the bits may be those of floats
        if isinstance(operation, mlir.XOrIOp):
            return swap_of_pairs(operation) is not None
        return bool(operation.results)

    def computed(self, computed: Computed) -> None:
        outer = operations.function_of_elements(computed.operation)
        if outer is None:
            self._note_decision(computed)
            self._origins.follow(computed)
        else:
            self._origins.elements.follow(outer, computed)

    def before(self, access: CheckedAccess) -> None:
        request, value = access.request, stored_value(access.operation)
        self._note_place(access)
        if not isinstance(request, Store | Atomic) or value is None or is_pointer(value.type):
            return
        stored = with_program_axis(request.value, access.rank)
        numbers = self._origins[value]
        if numbers is not None and is_float(value):
            numbers = self._origins.followed(numbers, stored)
        written = self._memory.write(access, numbers)
        if written is not None:
            self._note(access, stored, written.index, written.numbers)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        if isinstance(access.request, Load):
            if access.on is not None:
                self._origins.on[access.operation] = access.on
            read = self._memory.read(access)
            if read is not None:
                self._origins.read[access.operation] = read

    def _note_place(self, access: CheckedAccess) -> None:
        index = with_program_axis(access.index, access.rank)
        for value in placing(access.operation):
            numbers = self._origins[value]
            on: Any = True if access.on is None else with_program_axis(access.on, access.rank)
            if value is mask_of(access.operation):  # a NaN may also disable an element
                on = access.taking_part(access.rank) & (index < len(access.buffer.elements))
                on = on & (index >= 0) & (not isinstance(access.request, Load))
            if numbers is None:
                continue
            index, numbers, on = numpy.broadcast_arrays(
                index,
                numbers.reshape(numbers.shape + (1,) * max(0, access.rank + 1 - numbers.ndim)),
                on,
            )
            self._note(access, index, index, numpy.where(on, numbers, 0))

    def _note_decision(self, computed: Computed) -> None:
        op = computed.operation
        numbers = self._origins[op.operands[0]] if isinstance(op, DECIDE) else None
        if numbers is None or numbers.ndim > 1:
            return
        active: Any = True if computed.active is None else computed.active
        for number in numpy.unique(numpy.where(active, numbers, 0)):
            origin = self._origins.events[number - 1]
            if number and origin.kind:
                place = int(numpy.argmax(numbers == number))
                lane = (place, *(int(i) for i in numpy.argwhere(origin.lanes)[0][1:]))
                key = origin.computed.operation, origin.kind
                harm = self._harms.setdefault(key, _Harm(origin, lane))
                harm.programs.update(
                    computed.linear_ids(None if len(numbers) < 2 else numbers == number)
                )
                harm.count += 1

    def _note(self, access: CheckedAccess, stored: Array, index: Array, numbers: Array) -> None:
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
        for (operation, kind), harm in self._harms.items():
            origin, lane = harm.origin.at(harm.lane)
            whole = nan_sources.calls_of_combiner(operation) if origin is harm.origin else None
            facts = {
                "kind": origin.kind,
                "places": origin.computed.calls() if whole is None else whole,
                "argument": "" if harm.access is None else harm.access.buffer.name,
                "index": harm.element,
                "lane": harm.lane[1:],
                "message": nan_sources.message(origin, lane) + _effect(harm),
                "advice": nan_sources.advice(origin, lane),
            }
            self.collector.add((operation, kind), facts, harm.programs, harm.count)


def _lane_of(
    origin: nan_sources.Origin, access: CheckedAccess, place: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the origin's element to report: the stored one if shapes agree, else the first."""
    elements, program = origin.lanes, place[0]
    if origin.computed.programs is access.programs and program < len(elements):
        if elements.ndim == len(place) and elements.shape[1:] == tuple(shape(_tile(access))):
            if elements[place]:
                return place
        if elements[program].any():
            return program, *(int(i) for i in numpy.argwhere(elements[program])[0])
    return tuple(int(i) for i in numpy.argwhere(elements)[0])


def _tile(access: CheckedAccess) -> Any:
    """Return the type of what is stored; of a load, which a NaN sends elsewhere, of its result."""
    stored = stored_value(access.operation)
    return access.operation.results[0].type if stored is None else stored.type


def _effect(harm: _Harm) -> str:
    """Return "; out_ptr[3] becomes nan", or how many stored elements are affected or decided."""
    if harm.access is None or harm.element is None:
        return "; control flow depends on it"
    target, value = harm.access.named(harm.element), stored_value(harm.access.operation)
    by, is_single = harm.origin.decided_by, harm.count == 1
    if value is None or not is_float(value) or by is not None:
        decided = f"; it decides {target if is_single else f'{harm.count:,} elements'}"
        frames = () if by is None else operations.locate(by.location).frames
        calls = harm.origin.computed.calls()
        is_elsewhere = frames and calls and frames[-1].line != calls[-1].line
        return f"{decided}, on line {frames[-1].line}" if is_elsewhere else decided
    if is_single:
        return f"; {target} becomes {harm.stored}"
    return f"; {harm.count:,} stored elements are affected: {target} becomes {harm.stored}"


class NonFinite(TwoPhaseDetector):
    """Notice that NaN or infinity is stored, or that a conversion to 8 bits saturates."""

    kinds = NonFiniteOrigins.kinds
    closer = NonFiniteOrigins

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return _may_leave_finite(run.code)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation converts to floats of 8 bits, or a NaN may decide it."""
        if nan_sources.decides_integers(operation) or nan_sources.ignores_nan(operation):
            return True
        if not isinstance(operation, mlir.TruncFOp | tt.FpToFpOp):
            return False
        return dtype(operation.results[0].type).itemsize == 1

    def before(self, access: CheckedAccess) -> None:
        request = access.request
        if self.is_suspect or not isinstance(request, Store | Atomic):
            return
        stored = numpy.asarray(request.value)
        if nan_sources.is_float_type(stored.dtype):
            bad = nan_sources.not_finite(stored)
            if bad.any():
                self.is_suspect = bool(numpy.any(bad if access.on is None else bad & access.on))

    def suspects(self, computed: Computed) -> bool:
        """Return whether a converted value does not fit, or a NaN decides something."""
        op = computed.operation
        if nan_sources.decides_integers(op) or nan_sources.ignores_nan(op):
            return any(
                nan_sources.not_finite(array := numpy.asarray(value)).any()
                and numpy.isnan(widen(array)).any()
                for value, operand in zip(computed.operands, op.operands)
                if is_float(operand)
            )
        kind = dtype(computed.operation.results[0].type)
        return bool(nan_sources.too_large_for(numpy.asarray(computed.operands[0]), kind).any())


@per_code
def _may_leave_finite(code: ProgramCode) -> bool:
    """Return whether an operation may compute NaN or infinity from finite numbers."""
    return any(map(nan_sources.may_begin, code.module.walk()))


# Find arithmetic in fp16 and bf16 that overflows although no infinity reaches memory: for
# example, the kernel divides by the infinity and stores 0.
#
# The reference run follows the value of a computation in fp64: a finding is a stored value that
# differs.


def _of_finite(computed: Computed, bad: Array) -> Array:
    op = computed.operation
    for position, (value, operand) in enumerate(zip(computed.operands, op.operands)):
        if is_float(operand):
            numbers = value.read() if isinstance(value, SharedTile) else numpy.asarray(value)
            elements = with_program_axis(nan_sources.not_finite(numbers), len(shape(operand.type)))
            bad = bad & ~reach(op, position, elements)
    return bad


class HalfOverflow(SuspectedCause):
    """Arithmetic on 16 bits computes infinity from finite numbers."""

    kinds = ("infinity", "float-overflow")
    tolerance = 0.01
    reported_by = (NonFinite,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation computes floats of 16 bits, with other uses than stores."""
        op = operation
        if not operations.has(
            op, operations.Elementwise, operations.DotLike, operations.RegionsOfElements
        ) or operations.has(op, operations.MovesElements):
            return False
        if len(op.results) != 1 or not is_float(op.results[0]):
            return False
        if dtype(op.results[0].type).itemsize != 2:
            return False
        return not all(isinstance(use.operation, tt.StoreOp) for use in op.results[0].uses)

    def suspects(self, computed: Computed) -> bool:
        op = computed.operation
        bad = with_program_axis(
            nan_sources.not_finite(numpy.asarray(computed.results[0])),
            len(shape(op.results[0].type)),
        )
        return bool(bad.any()) and bool(_of_finite(computed, bad).any())

    def departs(self, step: Step, exact: Array) -> Array:
        overflows = _of_finite(step.computed, ~numpy.isfinite(step.result))
        return overflows & numpy.isfinite(exact)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        kind = "float-overflow" if isinstance(op, nan_sources.NARROWING) else "infinity"
        origin = nan_sources.Origin(
            kind, departure.computed, departure.operands, departure.result, departure.lanes
        )
        return {
            "kind": kind,
            "message": nan_sources.message(origin, lane) + harm.effect,
            "advice": nan_sources.advice(origin, lane),
        }


# Say which results hold NaN that the kernel did not produce: an atomic adds to memory that was
# not initialized, no program writes an element, or NaN come in with the arguments.


_LARGEST = 1 << 26
"""Tensors with more elements are not searched for NaN."""


class NanResults(Detector):
    """Add a note for each result that holds NaN; `NonFinite` reports what produces it."""

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._others: Sequence[Detector] = ()

    def meet(self, others: Sequence[Detector]) -> None:
        self._others = others

    def investigate(self, session: CheckSession) -> None:
        if any(map(_reports_non_finite, self._others)):
            return  # they say where the kernel goes wrong
        before = session.launch.tensors
        effects = memory_effects(self.run.code)
        loaded, updated = (
            tensors_among(self.run, arguments) for arguments in (effects.loaded, effects.updated)
        )
        results = (tensors_among(self.run, effects.stored) | updated) - self.run.expected.keys()
        results -= frozenset(self.run.uninitialized)  # whatever they hold, `UninitializedRead` says
        able = {
            name
            for name, tensor in before.items()
            if tensor.is_floating_point() and tensor.numel() <= _LARGEST
        }
        sources = [name for name in (loaded - results) & able if _nan_in(before[name]).any()]
        notes = []
        for name in sorted(results & able, key=[*before].index):
            holds = _nan_in(self.run.tensors[name])
            if not holds.any():
                continue
            first = element_text(name, holds.nonzero()[0].tolist())
            note = (
                f"{name} holds NaN in {int(holds.sum()):,} of its "
                f"{counted(holds.numel(), 'element')}, the first of which is {first}."
            )
            if not (holds & ~_nan_in(before[name])).any():
                note += (
                    f" All of them held NaN before the launch, and {_why(name, loaded, updated)}"
                )
            elif sources:
                note += f" They come from NaN in {' and '.join(sorted(sources))}."
            notes.append(note)
        self.notes = tuple(notes)


def _reports_non_finite(detector: Detector) -> bool:
    # The check itself reports a detector that fails.
    with suppress(Exception):
        return any(finding.kind in ("nan", "infinity") for finding in detector.findings())
    return False


def _why(name: str, loaded: frozenset[str], updated: frozenset[str]) -> str:
    """Return, as text, why elements still hold NaN, and what to do."""
    if name in updated:
        return (
            "the kernel updates them with atomics, which compute with what is there: initialize "
            f"{name}, for example with torch.zeros."
        )
    if name in loaded:
        return (
            f"the kernel computes with them or does not write them: check the contents of {name}."
        )
    return (
        "may not have been written: check the mask of the store and the grid, or initialize "
        f"{name}, for example with torch.zeros."
    )


def _nan_in(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().float().isnan() if tensor.itemsize == 1 else tensor.detach().isnan()
