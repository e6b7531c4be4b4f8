"""Which numbers are NaN or infinite, and where they come from, by event numbers beside them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Computed, name_of
from kernellab.checker.shadow_values import Array, Shadow, Shadows, moved, reach, with_program_axis
from kernellab.compiler.modules import users_line
from kernellab.errors import SourcePosition
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.numerics import largest_finite, widen
from kernellab.ir import flow, mlir, tt, ttng
from kernellab.ir.operations import (
    DotLike,
    Elementwise,
    KeepsElements,
    MovesElements,
    RegionsOfElements,
    has,
    locate,
)
from kernellab.ir.types import dtype, is_float, shape

_EXPONENTS = {
    numpy.dtype(numpy.float16): numpy.uint16(0x7C00),
    numpy.dtype(ml_dtypes.bfloat16): numpy.uint16(0x7F80),
}
"""The bits that are all set in 16-bit NaN and infinity; comparing is faster than converting."""


def is_float_type(kind: numpy.dtype) -> bool:
    """True for floating-point types, those of 16 and 8 bits included."""
    return kind.kind not in "iub"


def not_finite(array: Array) -> Array:
    """Which elements are NaN or infinite."""
    exponent = _EXPONENTS.get(array.dtype)
    if exponent is None:
        wide: Array = ~numpy.isfinite(widen(array))
        return wide
    special: Array = array.view(numpy.uint16) & exponent == exponent
    return special


def too_large_for(values: Array, kind: numpy.dtype) -> Array:
    """Which values, infinities included, are beyond `kind`, so that saturation cuts them."""
    wide = widen(values)
    large: Array = numpy.abs(wide) > largest_finite(kind)
    if large.any():
        large[large] = not_finite(wide[large].astype(kind))
    return large


# Find the operations that compute NaN or infinity inside the functions of `tl.reduce`,
# `tl.associative_scan` and `tl.map_elementwise`.


_MOST_KEPT = 256
"""The most events of one run of a function that are kept."""


def is_users(op: Operation) -> bool:
    """Return whether an operation is on a line of the user's code."""
    frames = locate(op.location).frames
    return bool(frames) and users_line(frames) == frames[0]


def calls_of_combiner(op: Operation) -> tuple[SourcePosition, ...] | None:
    """Return the position of a user's combining function of one operation; None for any other."""
    if not isinstance(op, tt.ReduceOp | tt.ScanOp):
        return None
    combiner, *rest = op.combine.block.ops
    if len(rest) != 1 or not is_users(combiner):
        return None
    return locate(combiner.location).frames[::-1]


@dataclasses.dataclass(frozen=True, eq=False)
class ElementEvent:
    """An operation of such a function made something of its operands that they were not.

    Attributes:
        computed: the operation; its values have one entry for each element.
        lanes: of the elements, in which it happened.
    """

    kind: str
    computed: Computed
    lanes: Array


class ElementEvents:
    """The events of the functions that run, until the results are there."""

    def __init__(self, fresh: Callable[[Computed, Array], Sequence[tuple[str, Array]]]) -> None:
        """`fresh` says what an operation made itself: (kind, lanes)."""
        self._fresh = fresh
        self._seen: dict[Operation, list[ElementEvent]] = {}

    def follow(self, outer: Operation, computed: Computed) -> None:
        """An operation of the function of `outer` has computed its results."""
        seen = self._seen.setdefault(outer, [])
        if len(seen) >= _MOST_KEPT or not is_users(computed.operation):
            return
        given = (*computed.operands, *computed.results)
        values = [numpy.ravel(array) for array in numpy.broadcast_arrays(*given)]
        count = len(computed.operands)
        by_element = dataclasses.replace(
            computed, active=None, operands=values[:count], results=values[count:]
        )
        for kind, lanes in self._fresh(by_element, values[-1]):
            seen.append(ElementEvent(kind, by_element, lanes))

    def taken(self, outer: Operation) -> tuple[ElementEvent, ...]:
        """Those of the last run of the function of `outer`."""
        return tuple(self._seen.pop(outer, ()))


def behind(
    events: Sequence[ElementEvent], outer: Computed, kind: str, lane: tuple[int, ...]
) -> tuple[ElementEvent, int] | None:
    """Return the event, and its element, that a result was computed from: the first of the kind in
    the row of the result, or else the first of any kind; None if there is none.

    Args:
        lane: the place of the result, program first.
    """
    column, columns = _column(outer, lane)
    matches = []
    for event in events:
        here = event.lanes & (numpy.arange(len(event.lanes)) % columns == column)
        if len(event.lanes) % columns == 0 and here.any():
            matches.append((event, int(numpy.argmax(here))))
    same = [match for match in matches if match[0].kind == kind]
    return next(iter([*same, *matches]), None)


def _column(outer: Computed, lane: tuple[int, ...]) -> tuple[int, int]:
    """Return the elements' column and the columns' number, active programs side by side."""
    op, result = outer.operation, numpy.asarray(outer.results[0])
    extents, (program, *place) = tuple(shape(op.results[0].type)), lane
    programs = len(result) if result.ndim > len(extents) else 1
    if programs == 1:
        program = 0
    elif outer.active is not None:
        program, programs = int(outer.active[:program].sum()), int(outer.active.sum())
    if isinstance(op, tt.ScanOp):
        axis = op.axis.value.data
        extents, place = extents[:axis] + extents[axis + 1 :], place[:axis] + place[axis + 1 :]
    row = int(numpy.ravel_multi_index(tuple(place), extents)) if extents else 0
    together = int(op.pack.value.data) if isinstance(op, tt.MapElementwiseOp) else 1
    rows = math.prod(extents)
    return (program * rows + row) // together, programs * rows // together


# Where NaN and infinity come from: beside each value goes the number of the event that made it
# what it is.


NARROWING = (mlir.TruncFOp, tt.FpToFpOp, mlir.SIToFPOp, mlir.UIToFPOp)
"""Conversions in which a number may turn out too large for its new type."""

Lane = tuple[int, ...]

_BITS = (mlir.BitcastOp, tt.BitcastOp)


@dataclass(frozen=True, eq=False)
class Origin:
    """An operation that made NaN or infinity of other values, or clamped a number to its type.

    Attributes:
        kind: the kind of its finding; "" for a load outside memory, whose effects are not reported.
        operands, result: its values, programs first.
        lanes: the elements of the result in which it happened.
        stays: True if the result may be finite: the largest number instead of a larger one.
        inside: the events in the function of a reduction, a scan or a map.
        decided_by: of a NaN that decides: the comparison, maximum or cast with another result.
    """

    kind: str
    computed: Computed
    operands: tuple[Array, ...]
    result: Array
    lanes: Array
    stays: bool = False
    inside: tuple[ElementEvent, ...] = ()
    decided_by: Operation | None = None

    def at(self, lane: Lane) -> tuple[Origin, Lane]:
        """Return an element's origin and place, inside a reduction's function if the user's."""
        match = behind(self.inside, self.computed, self.kind, lane)
        if match is None:
            return self, lane
        event, element = match
        values = (*event.computed.operands, event.computed.results[0])
        *operands, result = map(numpy.asarray, values)
        return Origin(event.kind, event.computed, tuple(operands), result, event.lanes), (element,)


class Padding(Shadows):
    """1 for each element that a mask disabled in a load, and for what is computed of such ones."""

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op = computed.operation
        nothing: list[Shadow] = [None] * len(op.results)
        if isinstance(op, tt.LoadOp):
            if op.mask is None:
                return nothing
            return [~with_program_axis(computed.operands[1], len(shape(op.mask.type)))]
        if all(shadow is None for shadow in operands):
            return nothing
        if has(op, MovesElements):
            return moved(computed, operands)
        if not has(op, Elementwise, KeepsElements):
            return nothing
        given = [shadow for shadow in operands if shadow is not None]
        return [functools.reduce(numpy.maximum, given)] * len(op.results)


class Origins(Shadows):
    """The number of each value's origin in `events`, from 1; none for arguments and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = ElementEvents(_fresh_elements)
        self._inside: tuple[ElementEvent, ...] = ()
        self.events: list[Origin] = []
        self.read: dict[Operation, Shadow] = {}
        """Of each operation that reads memory, the shadow of what it read last."""
        self._padding = Padding()
        self._decided: dict[int, int] = {}
        """The number of an origin -> that of the same one where it decides something."""
        self.on: dict[Operation, Array] = {}
        """For each load, the lanes that read, if not all of them do."""

    def followed(self, numbers: Array, values: Array) -> Array:
        """The numbers of values whose origin still shows, in them or in their results."""
        shows = not_finite(values)
        if any(event.stays for event in self.events):
            stays = numpy.array([False, *(event.stays for event in self.events)])
            shows = shows | stays[numbers]
        return numpy.where(shows, numbers, 0)

    def follow(self, computed: Computed) -> None:
        self._padding.follow(computed)
        super().follow(computed)

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op = computed.operation
        self._inside = self.elements.taken(op)
        if isinstance(op, tt.LoadOp) and op in self.on:
            self._lose(computed, op, self.on.pop(op))
        if op in self.read:
            return [self.read.pop(op)]
        if has(op, MovesElements):
            shadows = moved(computed, operands)
            condition = operands[0] if isinstance(op, mlir.SelectOp) else None
            if condition is None:
                return shadows
            return [self._choosing(computed, condition, *shadows)]
        if isinstance(op, _BITS):
            return list(operands)
        return [
            self._origins_of(computed, operands, position)
            if is_float(result)
            else self._deciding(computed, operands, position)
            for position, result in enumerate(op.results)
        ]

    def _deciding(self, computed: Computed, operands: Sequence[Shadow], position: int) -> Shadow:
        """The origins of integers that a NaN decided, and of what is computed from them."""
        op = computed.operation
        given: list[Shadow] = []
        for shadow, value, operand in zip(operands, computed.operands, op.operands):
            if shadow is not None and is_float(operand):
                is_deciding = decides_integers(op)
                shadow = self._deciding_nan(op, operand, value, shadow) if is_deciding else None
            given.append(shadow)
        if isinstance(op, mlir.AndIOp | mlir.OrIOp) and dtype(op.result.type).kind == "b":
            given = _undominated(computed, given)
        rank = len(shape(op.results[position].type))
        result = with_program_axis(computed.results[position], rank)
        numbers = self._inherited(computed, given, result)
        return None if numbers is None or not numbers.any() else numbers

    def _deciding_nan(self, op: Operation, operand: SSAValue, value: Any, shadow: Array) -> Shadow:
        """The deciding origins of an operand's NaN elements, without masked ones."""
        nan = numpy.isnan(widen(with_program_axis(value, len(shape(operand.type)))))
        decides: Array = nan & (shadow > 0)
        padding = self._padding[operand]
        if padding is not None:
            decides = decides & ~padding.astype(numpy.bool_)
        if not decides.any():
            return None
        numbers = numpy.where(decides, shadow, 0)
        for number in numpy.unique(numbers[numbers > 0]):
            origin = self.events[number - 1]
            if not origin.stays and number not in self._decided:
                self.events.append(dataclasses.replace(origin, stays=True, decided_by=op))
                self._decided[number] = len(self.events)
            numbers = numpy.where(numbers == number, self._decided.get(number, number), numbers)
        return numbers

    def _choosing(self, computed: Computed, condition: Array, chosen: Shadow) -> Shadow:
        """The origins of values selected by a condition that a NaN decided, if it matters."""
        rank = len(shape(computed.operation.results[0].type))
        _, first, second = (with_program_axis(value, rank) for value in computed.operands)
        same = (first == second) | ((first != first) & (second != second))
        deciding = condition.reshape((-1,) + (1,) * rank) if condition.ndim <= rank else condition
        deciding = numpy.where(same, 0, deciding)
        if not deciding.any():
            return chosen
        return numpy.maximum(deciding, 0 if chosen is None else chosen)

    def _lose(self, computed: Computed, op: tt.LoadOp, on: Array) -> None:
        rank = len(shape(op.result.type))
        enabled = True if op.mask is None else with_program_axis(computed.operands[1], rank)
        lost = numpy.logical_and(enabled, ~with_program_axis(on, rank)) & computed.taking_part(rank)
        if lost.any():
            number = self._note(
                "", computed, with_program_axis(computed.results[0], rank), lost, stays=True
            )
            before = self.read.get(op)
            self.read[op] = numpy.where(lost, number, 0 if before is None else before)

    def _origins_of(self, computed: Computed, operands: Sequence[Shadow], position: int) -> Shadow:
        op = computed.operation
        result = with_program_axis(
            computed.results[position], len(shape(op.results[position].type))
        )
        numbers = self._inherited(computed, operands, result)
        if numbers is not None:
            numbers = self.followed(numbers, result)
            dropped = self._dropped(computed, operands, result)
            numbers = numbers if dropped is None else numpy.maximum(numbers, dropped)
        fresh = _fresh(computed, result, numbers) if _computes(op) else []
        for kind, lanes, stays in fresh:
            number = self._note(kind, computed, result, lanes, stays)
            numbers = numpy.where(lanes, number, 0 if numbers is None else numbers)
        return None if numbers is None or not numbers.any() else numbers

    def _dropped(
        self, computed: Computed, operands: Sequence[Shadow], result: Array
    ) -> Array | None:
        """The origins of the NaN that an operation ignores, as a maximum does."""
        op = computed.operation
        dropped = [
            None
            if shadow is None or not is_float(operand)
            else self._deciding_nan(op, operand, value, shadow)
            for shadow, value, operand in zip(operands, computed.operands, op.operands)
        ]
        numbers = self._inherited(computed, dropped, result)
        return None if numbers is None else numpy.where(numpy.isnan(widen(result)), 0, numbers)

    def _inherited(
        self, computed: Computed, operands: Sequence[Shadow], result: Array
    ) -> Array | None:
        """Of each lane of the result, the latest origin among the elements behind it."""
        reached = [
            reach(computed.operation, position, shadow)
            for position, shadow in enumerate(operands)
            if shadow is not None
        ]
        if not reached:
            return None
        latest = reached[0]
        for other in reached[1:]:
            latest = numpy.maximum(latest, other)
        return numpy.broadcast_to(latest, numpy.broadcast_shapes(latest.shape, result.shape))

    def _note(self, kind: str, computed: Computed, result: Array, lanes: Array, stays: bool) -> int:
        op = computed.operation
        values = tuple(
            with_program_axis(value, len(shape(operand.type)))
            for value, operand in zip(computed.operands, op.operands)
        )
        self.events.append(Origin(kind, computed, values, result, lanes, stays, self._inside))
        return len(self.events)


def decides_integers(op: Operation) -> bool:
    """Whether a NaN decides an integer: by the place of a maximum, a cast, or a comparison."""
    match op:
        case mlir.FPToSIOp() | mlir.FPToUIOp():
            return True
        case tt.ReduceOp():
            return len(op.operands) > 1 and is_float(op.operands[0])
        case mlir.CmpFOp():
            is_test = mlir.FLOAT_PREDICATES[op.predicate.value.data] in ("ord", "uno")
            return not is_test and op.lhs is not op.rhs
        case _:
            return False


def _undominated(computed: Computed, shadows: Sequence[Shadow]) -> list[Shadow]:
    """The origins of truth values if the other operand does not decide `a & b` or `a | b`."""
    op = computed.operation
    rank, settles = len(shape(op.results[0].type)), isinstance(op, mlir.OrIOp)
    first, second = (with_program_axis(value, rank) for value in computed.operands)
    return [
        None
        if shadow is None
        else numpy.where((value != settles) | (0 if by is None else by > 0), shadow, 0)
        for shadow, value, by in zip(shadows, (second, first), reversed(shadows))
    ]


def ignores_nan(op: Operation) -> bool:
    """Whether the result of an operation may be a number although an operand is NaN."""
    if has(op, RegionsOfElements):
        return any(is_float(operand) for operand in op.operands)
    return isinstance(op, mlir.MaxNumFOp | mlir.MinNumFOp | tt.ClampFOp)


def _computes(op: Operation) -> bool:
    computes = has(op, Elementwise, DotLike, RegionsOfElements)
    return computes or isinstance(op, tt.ElementwiseInlineAsmOp)


_GIVES_AN_OPERAND = (
    mlir.MaximumFOp, mlir.MinimumFOp, mlir.MaxNumFOp, mlir.MinNumFOp, mlir.NegFOp, mlir.ExtFOp,
    mlir.SelectOp, mlir.AbsFOp, tt.ClampFOp,
)  # fmt: skip
"""Operations whose result is finite where their operands are."""


def may_begin(op: Operation) -> bool:
    """Whether an operation may make NaN, infinity or a cut number of finite ones by itself."""
    if not _computes(op) or isinstance(op, _GIVES_AN_OPERAND) or has(op, RegionsOfElements):
        return False
    return any(is_float(result) for result in op.results)


def _fresh_elements(computed: Computed, result: Array) -> list[tuple[str, Array]]:
    """(kind, elements) of what an operation on elements made itself."""
    if not _computes(computed.operation):
        return []
    return [(kind, lanes) for kind, lanes, _ in _fresh(computed, result, None)]


def _fresh(
    computed: Computed, result: Array, numbers: Array | None
) -> list[tuple[str, Array, bool]]:
    """(kind, lanes, whether they stay finite) of what the operation made itself."""
    op = computed.operation
    if isinstance(op, tt.DotScaledOp) and _is_scaled_by_no_number(computed):
        return []
    unknown: Any = True if numbers is None else numbers == 0
    taking_part = computed.taking_part(len(shape(op.results[0].type)))
    if isinstance(op, NARROWING) and is_float(op.operands[0]):
        kind = dtype(op.results[0].type)
        if kind.itemsize == 1:
            value = with_program_axis(computed.operands[0], len(shape(op.operands[0].type)))
            cut = too_large_for(value, kind) & unknown & taking_part
            return [("float-overflow", cut, True)] if cut.any() else []
    bad = not_finite(result) & unknown
    if not bad.any():
        return []
    bad = bad & taking_part
    of_nan, of_any = _not_finite_before(computed, result)
    is_nan = numpy.isnan(widen(result))
    new_nan = bad & is_nan & ~of_nan
    new_infinity = bad & ~is_nan & ~of_any
    infinity = "float-overflow" if isinstance(op, NARROWING) else "infinity"
    events = [("nan", new_nan, False), (infinity, new_infinity, False)]
    return [event for event in events if event[1].any()]


def _is_scaled_by_no_number(computed: Computed) -> bool:
    """Whether a scale of a product is e8m0's NaN, which is what memory holds."""
    scales = [
        numpy.asarray(value)
        for value, operand in zip(computed.operands[3:], computed.operation.operands[3:])
        if dtype(operand.type).kind == "i"
    ]
    return any((scale.view(numpy.uint8) == 0xFF).any() for scale in scales)


def _not_finite_before(computed: Computed, result: Array) -> tuple[Array, Array]:
    """Which lanes are computed from a NaN, and which from anything that is not finite."""
    op = computed.operation
    of_nan = of_any = numpy.zeros((1,) * result.ndim, numpy.bool_)
    for position, (value, operand) in enumerate(zip(computed.operands, op.operands)):
        if is_float(operand) or isinstance(value, SharedTile):
            lanes = with_program_axis(value, len(shape(operand.type)))
            of_any = of_any | reach(op, position, not_finite(lanes))
            of_nan = of_nan | reach(op, position, numpy.isnan(widen(lanes)))
    return of_nan, of_any


# Kinds of float operations that messages and advice distinguish.


DIVISIONS = (mlir.DivFOp, mlir.RemFOp, tt.PreciseDivFOp, tt.ApproxDivFOp)
LOGARITHMS = (mlir.LogOp, mlir.Log2Op, mlir.Log10Op, mlir.Log1pOp)
ROOTS = (mlir.SqrtOp, mlir.RsqrtOp, tt.PreciseSqrtOp)
EXPONENTIALS = (mlir.ExpOp, mlir.Exp2Op, mlir.ExpM1Op)


def advice_for(op: Operation) -> str:
    """Return what to try for an infinite exponential.

    Subtracting the maximum is right only if the exponentials are divided by their sum, or if the
    logarithm of that sum is taken; it changes other results.
    """
    function = f"tl.{op.name.rpartition('.')[2]}"
    name = name_of(op.operands[0], op)
    alone, summed = _reached([op.results[0]], until_sums=True)
    after_sums, _ = _reached(summed, until_sums=False)
    if any(isinstance(use, (*DIVISIONS, *LOGARITHMS)) for use in after_sums):
        if isinstance(op.operands[0].owner, mlir.SubFOp):
            return (
                "The subtracted value is not the maximum: subtract the maximum of the elements "
                "that are summed, tl.max(x, axis) along the same axis."
            )
        x = name or "x"
        fixed = f"{function}({x} - tl.max({x}, axis))"
        is_log = any(isinstance(use, LOGARITHMS) for use in after_sums)
        again = " Add it to the logarithm of the sum." if is_log else ""
        return f"Subtract the maximum first, as softmax does: {fixed}.{again}"
    sums = [use.operands for use in alone if isinstance(use, mlir.AddFOp)]
    if any(all(isinstance(each.owner, EXPONENTIALS) for each in terms) for terms in sums):
        return (
            f"Subtract the larger argument first: with m = tl.maximum(a, b), {function}(a - m) and "
            f"{function}(b - m) do not overflow. Their quotients stay the same; add m to the "
            "logarithm of their sum."
        )
    if any(isinstance(use, LOGARITHMS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: log(1 + exp(x)) "
            "is tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))."
        )
    adds_one = any(any(map(_is_constant, terms)) for terms in sums)
    argument = op.operands[0].owner
    is_difference = isinstance(argument, mlir.SubFOp) and not _is_constant(argument.operands[0])
    if is_difference and not adds_one:
        return (
            "The subtracted value is the smaller one here: subtract a maximum that includes the "
            "other value. One that grows in a loop is tl.maximum(old, tl.max(x, axis))."
        )
    if any(isinstance(use, DIVISIONS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: with "
            "e = tl.exp(-tl.abs(x)), a sigmoid is tl.where(x >= 0, 1, e) / (1 + e). With "
            "e = tl.exp(-2 * tl.abs(x)), a hyperbolic tangent is "
            "tl.where(x >= 0, 1 - e, e - 1) / (1 + e)."
        )
    limit = f"{_limit(op):.4g}"
    return (
        f"Keep the argument below {limit}: tl.minimum({name or 'x'}, {limit}). Or compute "
        "with logarithms: the logarithm of this result is the argument itself."
    )


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, mlir.ConstantOp)


def _limit(op: Operation) -> float:
    """Return the largest argument whose exponential is finite, rounded down."""
    largest = largest_finite(dtype(op.results[0].type))
    limit = math.log2(largest) if isinstance(op, mlir.Exp2Op) else math.log(largest)
    return math.floor(limit * 10) / 10


def _reached(
    values: Iterable[SSAValue], *, until_sums: bool
) -> tuple[list[Operation], list[SSAValue]]:
    """Return the operations that use values of a function, and the reductions among the results."""

    def step(value: SSAValue) -> Iterator[SSAValue]:
        yield from flow.targets(value)
        for use in value.uses:
            if _sums(use.operation):
                yield from () if until_sums else use.operation.results
            elif has(use.operation, Elementwise, KeepsElements, MovesElements):
                yield from use.operation.results

    followed = list(flow.reached(values, step))
    users = dict.fromkeys(use.operation for value in followed for use in value.uses)
    return list(users), [result for op in users if _sums(op) for result in op.results]


def _sums(op: Operation) -> bool:
    return isinstance(op, tt.ReduceOp | tt.ScanOp) or has(op, DotLike)


# Messages and advice for operations that compute NaN or infinity, or convert a number that does
# not fit in its new type.


_SIGNS: dict[type[Operation], str] = {
    mlir.AddFOp: "+", mlir.SubFOp: "-", mlir.MulFOp: "*", mlir.DivFOp: "/", mlir.RemFOp: "%",
    tt.PreciseDivFOp: "/", tt.ApproxDivFOp: "/",
}  # fmt: skip

_FUNCTIONS: dict[type[Operation], str] = {
    mlir.NegFOp: "-",
    mlir.AbsFOp: "tl.abs",
    mlir.PowFOp: "pow",
    tt.PreciseSqrtOp: "tl.sqrt_rn",
    tt.ClampFOp: "tl.clamp",
    tt.ElementwiseInlineAsmOp: "inline assembly ",
}
"""Operations whose function is not tl. and their own name."""

_OPERATIONS: dict[type[Operation] | type[None], str] = {
    mlir.AddFOp: "sum",
    mlir.MulFOp: "product",
}

_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3b11fnuz": "fp8e4b15",
}  # fmt: skip
"""NumPy's name of a type -> Triton's."""


def message(origin: Origin, lane: tuple[int, ...]) -> str:
    """Return "tl.exp(x) = tl.exp(92.5) overflows: fp32 holds at most 3.40282e+38"."""
    op = origin.computed.operation
    values = [_at(operand, lane) for operand in origin.operands]
    result = _at(origin.result, lane)
    kind = dtype(op.results[0].type)
    if origin.kind == "float-overflow":
        name = name_of(op.operands[0], op)
        start = "" if name is None else f"{name} = "
        return (
            f"{start}{_number(values[0])} does not fit in {type_name(kind)}, which holds at most "
            f"{_number(largest_finite(kind))}; it becomes {_number(result)}"
        )
    computed = _expression(origin, lane, values)
    if origin.kind == "infinity" and not _is_pole(op, values):
        largest = _number(largest_finite(kind))
        return f"{computed} overflows: {type_name(kind)} holds at most {largest}"
    what = "NaN" if origin.kind == "nan" else "infinite" if result > 0 else "minus infinity"
    return f"{computed} is {what}"


def _is_pole(op: Operation, values: list[Any]) -> bool:
    """Return whether the result is infinite in every type: 1 / 0, or the logarithm of 0."""
    if isinstance(op, DIVISIONS):
        return bool(values[1] == 0)
    return isinstance(op, (*LOGARITHMS, *ROOTS))


def type_name(kind: numpy.dtype) -> str:
    """Return Triton's name of a floating-point type: "fp16"."""
    return _TYPES.get(kind.name, kind.name)


def _expression(origin: Origin, lane: tuple[int, ...], values: list[Any]) -> str:
    op = origin.computed.operation
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _combination(op, origin, lane)
    if isinstance(op, tt.DotScaledOp):
        return "an element of this tl.dot_scaled"
    if isinstance(op, tt.DotOp | ttng.WarpGroupDotOp):
        row, column = (_range(line) for line in _row_and_column(origin, lane))
        what = "tl.dot" if isinstance(op, tt.DotOp) else "matmul"
        return f"an element of this {what} (its row has values {row}, its column values {column})"
    names = [name_of(operand, op) for operand in op.operands]
    numbers = [_number(value) for value in values]
    if type(op) in _SIGNS:
        sign = f" {_SIGNS[type(op)]} "
        shown = [f"({text})" if text.startswith("-") else text for text in numbers]
    else:
        sign, shown = "", numbers
    with_numbers = _written(op, sign, shown)
    if all(name is None for name in names):
        return with_numbers
    with_names = _written(op, sign, [name or text for name, text in zip(names, shown)])
    return f"{with_names} = {with_numbers}"


def _written(op: Operation, sign: str, operands: list[str]) -> str:
    if sign:
        return sign.join(operands)
    function = f"tl.{op.name.rpartition('.')[2]}"
    if isinstance(op, tt.ExternElementwiseOp):
        function = f"libdevice.{_library_name(op)}"
    return f"{_FUNCTIONS.get(type(op), function)}({', '.join(operands)})"


def _library_name(op: tt.ExternElementwiseOp) -> str:
    """Return Triton's name of a library function: "acos" for __nv_acosf and __ocml_acos_f32."""
    symbol = op.symbol.data
    if symbol.startswith("__ocml_"):
        return symbol.removeprefix("__ocml_").rpartition("_")[0]
    name = symbol.removeprefix("__nv_")
    is_short = name.endswith("f") and not name.startswith("fast_")
    return name[:-1] if is_short and dtype(op.results[0].type).itemsize == 4 else name


def _combination(op: tt.ReduceOp | tt.ScanOp, origin: Origin, lane: tuple[int, ...]) -> str:
    """Return "the sum of 64 elements of x (values from 1 to 60000)"."""
    axis = op.axis.value.data
    combiner = op.combine.block.first_op
    what = _OPERATIONS.get(type(combiner), "combination")
    sources = origin.operands[0]
    rows = numpy.moveaxis(sources, axis + 1, -1)
    others = lane if isinstance(op, tt.ReduceOp) else lane[: axis + 1] + lane[axis + 2 :]
    row = widen(rows[tuple(min(i, n - 1) for i, n in zip(others, rows.shape))])
    count = shape(op.sources[0].type)[axis]
    name = name_of(op.sources[0], op)
    of = "" if name is None else f" of {name}"
    running = "running " if isinstance(op, tt.ScanOp) else ""
    return f"the {running}{what} of {count:,} elements{of} (values {_range(row)})"


def _row_and_column(origin: Origin, lane: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the row and the column that an element of a dot was computed from."""
    a, b = origin.operands[:2]
    *batch, m, n = lane
    before = tuple(min(i, extent - 1) for i, extent in zip(batch, a.shape))
    row = a[(*before, min(m, a.shape[-2] - 1))]
    before = tuple(min(i, extent - 1) for i, extent in zip(batch, b.shape))
    return row, b[(*before, slice(None), min(n, b.shape[-1] - 1))]


def _range(numbers: Any) -> str:
    wide = widen(numbers)
    return f"from {_number(numpy.nanmin(wide))} to {_number(numpy.nanmax(wide))}"


def _at(array: Any, lane: tuple[int, ...]) -> Any:
    """Return the operand's element for a place in the result, whose first index is the program."""
    place = lane[: array.ndim]
    return widen(array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))])[()]


def _number(value: Any) -> str:
    return f"{float(value):.6g}"


def advice(origin: Origin, lane: tuple[int, ...]) -> str:
    """Return what to try."""
    op = origin.computed.operation
    kind = dtype(op.results[0].type)
    if origin.kind == "float-overflow":
        if kind.itemsize == 1:
            wider = "to quantize, divide by the largest absolute value first"
            return f"Scale or clamp the values before the conversion; {wider}."
        other = "convert to bf16, which has the range of fp32"
        other = other if kind.name == "float16" else "keep them in fp32"
        return f"Find out whether the values should be so large. If so, scale them, or {other}."
    values = [_at(operand, lane) for operand in origin.operands if operand.ndim]
    if isinstance(op, EXPONENTIALS):
        return advice_for(op)
    if isinstance(op, DIVISIONS) and values[1] == 0:
        divisor = name_of(op.operands[1], op) or "divisor"
        return (
            "Find out why the divisor is 0. Only if it may be, add a small number to it, or divide "
            f"by tl.where({divisor} == 0, 1, {divisor})."
        )
    if isinstance(op, LOGARITHMS):
        return (
            "A logarithm needs an argument above 0. If a quotient or an exponential was rounded to "
            "0, take the logarithm apart: log(a / b) is log(a) - log(b), and log(exp(x)) is x."
        )
    if origin.kind == "nan" and isinstance(op, tt.ExternElementwiseOp):
        return _of_domain(_library_name(op), name_of(op.operands[0], op) or "x")
    if isinstance(op, mlir.RsqrtOp) and values[0] == 0:
        return "If the argument may be 0, add a small number to it: tl.rsqrt(x + 1e-6)."
    if isinstance(op, ROOTS):
        return (
            "Find out why the argument is negative. If only rounding makes a difference negative, "
            "take tl.maximum(x, 0)."
        )
    if isinstance(op, mlir.SubFOp) and all(numpy.isinf(value) for value in values):
        return (
            "Infinity minus infinity is NaN. In a softmax, the maximum of a fully masked row is "
            "-inf. Check the mask. If such rows are valid, use tl.where to replace their maximum "
            "with 0."
        )
    if isinstance(op, tt.DotOp | ttng.WarpGroupDotOp):
        values = [numpy.sum(widen(line)) for line in _row_and_column(origin, lane)]
    if not isinstance(op, tt.ReduceOp | tt.ScanOp) and not all(map(numpy.isfinite, values)):
        return (
            "One of the operands is already infinite, because an argument or the source contains "
            "infinity."
        )
    if isinstance(op, tt.DotOp) and kind.itemsize < 4:
        return "Accumulate in fp32: remove out_dtype, and convert the result after scaling it."
    if is_float(op.results[0]) and kind.itemsize < 4:
        return (
            f"Compute it in fp32, with .to(tl.float32), and convert the result: {type_name(kind)} "
            "overflows early."
        )
    if origin.kind == "nan" and not isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _UNDEFINED
    return "Scale the values before this line, or keep them from growing."


_UNDEFINED = (
    "The result is undefined for these values: keep them in the valid range, or exclude these "
    "elements with tl.where."
)


def _of_domain(function: str, x: str) -> str:
    """Return the advice to keep the argument of a library function in its domain."""
    match function:
        case "acos" | "asin" | "atanh" | "erfinv":
            kept = f"tl.clamp({x}, -1.0, 1.0)"
        case "acosh":
            kept = f"tl.maximum({x}, 1.0)"
        case "log" | "log2" | "log10" | "sqrt" | "rsqrt" | "y0" | "y1":
            kept = f"tl.maximum({x}, 1e-30)"
        case "log1p":
            kept = f"tl.maximum({x}, -0.999999)"
        case _:
            return _UNDEFINED
    return f"Keep the argument in the function's domain: {kept}. Rounding can take it outside."
