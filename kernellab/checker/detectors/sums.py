"""Find sums of floats that stall, and those in memory that depend on the order of the programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
import torch
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, behind, name_of
from kernellab.checker.detector import Detector
from kernellab.checker.nan_sources import type_name
from kernellab.checker.reference_run import Departure, Harm, Step, SuspectedCause
from kernellab.checker.shadow_memory import ShadowArray, Storage, Storages
from kernellab.checker.shadow_values import Array
from kernellab.common.text import number_text, number_texts
from kernellab.compiler.modules import users_line
from kernellab.interpreter.codegen.analyses import is_spin_loop, underlying_objects
from kernellab.interpreter.codegen.indices import function_of
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import ProgramCode, entry_of, per_code
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import Atomic, Store
from kernellab.interpreter.numerics import FLOAT64, widen
from kernellab.ir import mlir, tt
from kernellab.ir.operations import in_region_of_elements, locate
from kernellab.ir.types import dtype, is_float
from kernellab.launch.results import Allowed, Piece, pieces


@dataclass(frozen=True)
class Addition:
    """An addition whose result comes back as one of its operands.

    Attributes:
        rounding: what rounds the result to 16 bits: the addition itself, or a conversion after it.
        place: the operation; of the turns of an unrolled loop, their line and the calls to it.
    """

    operation: Operation
    position: int
    rounding: Operation
    place: Hashable


def running_additions(op: Operation) -> Mapping[Operation, Addition]:
    """Return the running additions of the function that contains an operation."""
    return _additions(function_of(op))


def addition_of(op: Operation) -> Addition | None:
    """The running addition that an operation is, or whose result it rounds."""
    function = function_of(op)
    return _additions(function).get(op) or _by_rounding(function).get(op)


@lru_cache(maxsize=32)
def _by_rounding(function: Operation) -> Mapping[Operation, Addition]:
    return {addition.rounding: addition for addition in _additions(function).values()}


@lru_cache(maxsize=32)
def _additions(function: Operation) -> Mapping[Operation, Addition]:
    additions: dict[Operation, Addition] = {}
    returning, turns = _Returning(function), _Turns(function)
    for op in function.walk():
        rounding = _rounding(op)
        if rounding is None:
            continue
        for position, operand in enumerate(op.operands):
            is_product = isinstance(op, mlir.FmaOp) and position < 2
            result = rounding.results[0]
            if not is_product and (
                returning.comes_back(result, operand) or turns.comes_from(operand, result)
            ):
                additions[op] = Addition(op, position, rounding, turns.place(rounding) or op)
                break
    return additions


def _rounding(op: Operation) -> Operation | None:
    if not isinstance(op, mlir.AddFOp | mlir.SubFOp | mlir.FmaOp):
        return None
    if is_half(op.results[0]):
        return op
    users = [use.operation for use in op.results[0].uses]
    if len(users) == 1 and isinstance(users[0], mlir.TruncFOp) and is_half(users[0].results[0]):
        return users[0]
    return None


def is_half(value: SSAValue) -> bool:
    """True for floats of 16 bits."""
    return is_float(value) and dtype(value.type).itemsize == 2


_UNROLLED = 8
"""The number of additions at one place that count as iterations of an unrolled loop."""


class _Turns:
    """Additions that follow each other at one place of the source."""

    def __init__(self, function: Operation) -> None:
        self._results: dict[Hashable, set[SSAValue]] = defaultdict(set)
        for op in function.walk():
            rounding = _rounding(op)
            if rounding is not None and (frames := locate(rounding.location).frames):
                self._results[frames].add(rounding.results[0])

    def place(self, rounding: Operation) -> Hashable | None:
        """Return a key for an addition in an unrolled loop; None if the loop is not unrolled."""
        frames = locate(rounding.location).frames
        return frames if len(self._results.get(frames, ())) >= _UNROLLED else None

    def comes_from(self, operand: SSAValue, result: SSAValue) -> bool:
        """Whether an operand is the result of another turn."""
        assert isinstance(result, OpResult)
        place = self.place(result.op)
        if place is None or not _is_of_halves(operand, result):
            return False
        if isinstance(operand, OpResult) and isinstance(operand.op, mlir.ExtFOp):
            operand = operand.op.operands[0]
        return operand in self._results[place]


class _Returning:
    """Which results come back as operands, around loops and through memory."""

    def __init__(self, function: Operation) -> None:
        self._stores = [
            op for op in function.walk() if isinstance(op, tt.StoreOp) and is_half(op.value)
        ]
        self._objects = underlying_objects(function) if isinstance(function, tt.FuncOp) else {}

    def comes_back(self, result: SSAValue, operand: SSAValue) -> bool:
        if not _is_of_halves(operand, result):
            return False
        sources = behind((operand,))
        if result in sources:
            return True
        loaded = {
            self._objects.get(source.op.pointer)
            for source in sources
            if isinstance(source, OpResult) and isinstance(source.op, tt.LoadOp)
        }
        return any(
            self._objects.get(store.pointer) in loaded - {None} and result in behind((store.value,))
            for store in self._stores
        )


def _is_of_halves(operand: SSAValue, result: SSAValue) -> bool:
    """Return whether an operand has 16 bits, or was widened for a sum that is rounded later."""
    if dtype(operand.type) == dtype(result.type):
        return True
    return isinstance(operand, OpResult) and isinstance(operand.op, mlir.ExtFOp)


# Find sums in fp16 and bf16 that stall: each added number is less than half the distance to the
# next number of the type, so that the sum does not change.
#
# The detector looks at sums in loops, in memory, and by atomics. The reference run follows the lost
# numbers to what is stored; what a compensated sum adds later is not lost. Sums by atomics are
# compared with their sum in fp64 in the checked run.


_LEAST = 8
"""A sum that loses fewer numbers than this does not stall."""

_PART = 0.02
"""The least part of all added numbers that must be lost."""


@dataclass
class _Losses:
    """The losses of one addition so far, element by element, in the programs of a batch.

    Attributes:
        count: how many numbers were lost.
        everything: the sum of the absolute values of all added numbers.
    """

    programs: Programs | None
    count: Any = 0
    lost: Any = 0.0
    everything: Any = 0.0

    @property
    def stall(self) -> bool:
        large = numpy.abs(self.lost) > _PART * self.everything
        return bool(numpy.any((self.count >= _LEAST) & large))


def _place(op: Operation) -> Hashable:
    addition = addition_of(op)
    assert addition is not None
    return addition.place


_ADVICE = "Accumulate in fp32, and convert the sum when it is complete; count in int32."


def _next(number: float, kind: numpy.dtype) -> float:
    """Return the next number of a 16-bit type, away from zero."""
    bits = numpy.asarray(number).astype(kind).view(numpy.uint16)
    return float(widen((bits + numpy.uint16(1)).view(kind)))


@dataclass
class _AtomicSum:
    """An argument of 16-bit floats that atomics add to.

    Attributes:
        exact: the exact values of the elements.
        added: the sum of the absolute values of all numbers added since a store.
        counts: how many numbers were added.
    """

    access: CheckedAccess
    exact: Array
    added: Array
    counts: Array

    @classmethod
    def of(cls, access: CheckedAccess) -> _AtomicSum:
        exact = widen(access.buffer.elements).astype(FLOAT64)
        return cls(access, exact, numpy.abs(exact), numpy.zeros(exact.shape, numpy.int64))


class StalledSum(SuspectedCause):
    """A sum does not change although something is added; atomics are summed exactly beside them."""

    kinds = ("stalled-sum",)
    tolerance = _PART
    adds_up = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums: dict[int, _AtomicSum] = {}
        self._stalled: set[Hashable] = set()
        """The places of sums that stall (see `Addition.place`)."""
        self._losses: dict[Hashable, _Losses] = {}
        self._lost_at: dict[Hashable, int] = defaultdict(int)
        """How many additions were lost at each place."""
        self._before: dict[Operation, tuple[Array, Array]] = {}
        """For a sum that is rounded afterwards: the sum before, and the exact sum after."""

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation adds 16-bit floats to a running sum, or rounds the sum."""
        return addition_of(operation) is not None

    def suspects(self, computed: Computed) -> bool:
        """Return whether some element's sum may stall: the fast test before a reference run."""
        addition = running_additions(computed.operation).get(computed.operation)
        if addition is not None and addition.rounding is addition.operation:
            values = computed.operands[addition.position], computed.results[0]
            before, after = (numpy.asarray(value).view(numpy.uint16) for value in values)
            if not (before == after).any():
                return False
        self.departs(Step(computed, self.unsigned))
        is_suspect = bool(self._stalled)
        self._stalled.clear()
        return is_suspect

    def departs(self, step: Step, exact: Array | None = None) -> Array:
        op, result = step.operation, step.result
        addition = running_additions(op).get(op)
        if addition is None:
            before, after = self._before[op]
        else:
            before, after = step.operands[addition.position], step.plain[0]
            if addition.rounding is not op:
                self._before[addition.rounding] = before, after
                return numpy.zeros((1,) * result.ndim, numpy.bool_)
        added = after - before
        lost: Array = (result == before) & (added != 0) & numpy.isfinite(added)
        self._note(step.computed, lost, added)
        return lost

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

    def keep(self, departures: dict[Operation, Departure]) -> dict[Operation, Departure]:
        for op, departure in departures.items():
            self._lost_at[_place(op)] += departure.count
        stalled = (op for op in departures if _place(op) in self._stalled)
        return {op: departures[op] for op in stalled}

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op = departure.computed.operation
        addition = addition_of(op)
        assert addition is not None
        kind = dtype(op.results[0].type)
        before, after = departure.became, departure.should
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
                f"{self._lost_at[addition.place]:,} additions are lost{harm.effect}"
            ),
            "advice": _ADVICE,
        }

    def before(self, access: CheckedAccess) -> None:
        """Add exactly what atomics add, and start over when something else is stored."""
        request, start = access.request, access.buffer.tensor.untyped_storage().data_ptr()
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


def _adds_halves(access: CheckedAccess) -> bool:
    request = access.request
    if not isinstance(request, Atomic) or request.operation not in ("fadd", "add"):
        return False
    kind = access.buffer.elements.dtype
    return kind.itemsize == 2 and kind.kind not in "iu"


def _lanes(access: CheckedAccess, everyone: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the indices and the numbers of the elements that are not masked off."""
    numbers = access.written
    on = numpy.asarray(True if access.on is None else access.on)
    everyone = numpy.broadcast_shapes(everyone, on.shape, numbers.shape)
    chosen = numpy.broadcast_to(on, everyone)
    index = numpy.broadcast_to(access.index, everyone)[chosen]
    return index, numpy.broadcast_to(widen(numbers).astype(FLOAT64), everyone)[chosen]


class FloatSums(Detector):
    """Record what atomics, or loads and stores under a lock, add to each float, to distinguish the
    rounding of another order from a fault; and whether programs add floats in loops in which they
    wait for each other, so that the number of additions depends on the order.

    The sums of n numbers in two orders, with each addition rounded to a unit u, differ by at most
    2 (n - 1) u sum|x| (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    Other floats of such a kernel may be computed from the sums; they may differ by the square root
    of u, relative to the tensor's largest number. This applies to finite sums: an overflow in one
    order is not rounding.
    """

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._storages = Storages(self._begin)
        self._stores = _adding_stores(run.code)
        self._adds_while_it_waits = _adds_while_it_waits(run.code)
        self._has_sums = self._adds_while_it_waits
        """Whether several numbers were added to some element, or may have been."""

    def _begin(self, buffer: Buffer) -> tuple[Storage, ShadowArray, ShadowArray]:
        storage = Storage(buffer)
        return storage, storage.shadow(0, numpy.int64), storage.shadow(0.0, numpy.float64)

    def before(self, access: CheckedAccess) -> None:
        request = access.request
        if isinstance(request, Atomic):
            if (
                request.operation in ("fadd", "add")
                and access.buffer.elements.dtype.kind not in "iu"
            ):
                self._add(access, request.value, (request.programs, *request.shape))
        elif isinstance(request, Store) and access.operation in self._stores:
            index = numpy.clip(access.index, 0, max(len(access.buffer.elements) - 1, 0))
            before = widen(access.buffer.elements[index])
            added = _added(before, widen(access.written))
            self._add(access, added, numpy.broadcast_shapes(access.index.shape, added.shape))

    def _add(self, access: CheckedAccess, numbers: object, everyone: tuple[int, ...]) -> None:
        storage, counts, sums = self._storages[access.buffer]
        added = numpy.abs(numpy.asarray(numbers).astype(numpy.float64))
        if access.on is not None:
            everyone = numpy.broadcast_shapes(everyone, access.on.shape)
        on = numpy.broadcast_to(True if access.on is None else access.on, everyone)
        index = numpy.broadcast_to(storage.index_in(access.index, access.buffer), everyone)[on]
        numpy.add.at(counts.elements, index, 1)
        self._has_sums = self._has_sums or bool((counts.elements[index] > 1).any())
        numpy.add.at(sums.elements, index, numpy.broadcast_to(added, everyone)[on])

    def bounds(self, name: str, actual: torch.Tensor, other: torch.Tensor) -> Allowed | None:
        """See `launch.results.Bounds`."""
        if not self._has_sums or not actual.is_floating_point():
            return None
        unit = torch.finfo(actual.dtype).eps / 2
        derived = unit**0.5 * max(map(_largest, (actual, other)))
        tensor = self.run.tensors[name]
        known = self._storages.by_start.get(tensor.untyped_storage().data_ptr())
        if self._adds_while_it_waits or known is None or known[0].unit != tensor.element_size():
            return lambda _, mine, __: torch.full_like(mine, derived, dtype=torch.float64)
        storage, counts, sums = known
        numbers = torch.from_numpy(storage.view(tensor, counts.elements))
        magnitudes = torch.from_numpy(storage.view(tensor, sums.elements))

        def allowed(piece: Piece, mine: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            number, magnitude = numbers[piece], magnitudes[piece]
            of_sums = 2 * number * unit * (magnitude + mine.double().abs())
            return torch.where(number > 0, of_sums, derived)

        return allowed


def _added(before: numpy.ndarray, stored: numpy.ndarray) -> numpy.ndarray:
    """Return what stores add to the old values: the stored value if the old one is not finite, as
    in uninitialized memory, and 0 if the sum is not finite.
    """
    with numpy.errstate(invalid="ignore", over="ignore"):
        added = numpy.where(numpy.isfinite(before), stored - before, stored)
    return numpy.where(numpy.isfinite(added), added, 0.0)


def _largest(tensor: torch.Tensor) -> float:
    if tensor.element_size() == 1:
        tensor = tensor.float()
    parts = (tensor[piece].nan_to_num(0, 0, 0) for piece in pieces(tuple(tensor.shape)))
    return max(float(part.abs().max()) for part in parts)


@per_code
def _adding_stores(code: ProgramCode) -> frozenset[Operation]:
    """Return the stores that accumulate floats in arguments, also those of initial values."""
    function = entry_of(code.module)
    stores = [op for op in function.walk() if isinstance(op, tt.StoreOp) and is_float(op.value)]
    objects = underlying_objects(function)
    summed = set()
    for store in stores:
        sources = [source.owner for source in behind([store.value])]
        adds = any(isinstance(op, mlir.AddFOp | mlir.SubFOp) for op in sources)
        loads = (op for op in sources if isinstance(op, tt.LoadOp))
        argument = objects.get(store.pointer)
        if adds and any(objects.get(load.pointer) is argument for load in loads):
            summed.add(argument)
    summed.discard(None)
    return frozenset(store for store in stores if objects.get(store.pointer) in summed)


@per_code
def _adds_while_it_waits(code: ProgramCode) -> bool:
    """Whether a kernel adds floats in a loop that another program's store or atomic may end."""
    return any(
        isinstance(op, mlir.AddFOp) and not in_region_of_elements(op)
        for loop in code.module.walk()
        if isinstance(loop, mlir.WhileOp) and is_spin_loop(loop)
        for op in loop.walk()
    )
