"""Promises to the compiler that the values of a run do not keep:
`tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy`, `tl.assume`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.hint_calls import call_of_hint
from kernellab.checker.naming import name_of_result
from kernellab.checker.shadow.values import Array, lifted
from kernellab.compiler.modules.pointers import underlying_argument
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.bases import as_array
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import llvm, scf
from kernellab.ir.locations import locate
from kernellab.ir.types import is_pointer, shape

_ATTRIBUTES = {
    "tt.divisibility": "multiple_of",
    "tt.contiguity": "max_contiguous",
    "tt.constancy": "max_constancy",
}
"""What the IR calls a hint, and what triton.language does."""

_ADVICE = (
    "Correct the hint or leave it out. The compiler takes it for true: on a GPU, accesses that "
    "rely on it read and write other elements, or are misaligned."
)


@dataclass(frozen=True)
class _Promise:
    """What the hints of one value say, per dimension; a scalar has one dimension."""

    value: SSAValue
    divisibility: tuple[int, ...]
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]

    def numbers(self, hint: str) -> tuple[int, ...]:
        """What one of the functions was given."""
        match hint:
            case "multiple_of":
                return self.divisibility
            case "max_contiguous":
                return self.contiguity
            case _:
                return self.constancy


class _Broken(NamedTuple):
    """Lanes that break a promise: which hint, which dimension, where."""

    hint: str
    dimension: int
    lanes: Array


class BrokenHints(Detector):
    """Values that are not as a hint promises."""

    kinds = ("broken-hint",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._promises: dict[Operation, tuple[_Promise, ...]] = {}
        self._carried: dict[Operation, Sequence[Value]] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Assumptions, operations with a hint on their result, and loops with one
        on what they carry, with their ends.
        """
        if isinstance(operation, llvm.AssumeOp):
            return True
        if isinstance(operation, scf.YieldOp) and isinstance(
            loop := operation.parent_op(), scf.ForOp
        ):
            return bool(_promises(loop))
        return bool(_promises(operation))

    def computed(self, computed: Computed) -> None:
        """See whether the promise is kept."""
        op = computed.operation
        match op:
            case llvm.AssumeOp():
                self._see_assumption(computed)
            case scf.ForOp():
                self._see_carried(computed, op, computed.operands[3:])
                self._carried.pop(op, None)
            case scf.YieldOp():
                self._see_iteration(computed)
            case _:
                for promise in self._promises_of(op):
                    self._see_value(computed, promise, computed.results[0])

    def _promises_of(self, op: Operation) -> tuple[_Promise, ...]:
        if op not in self._promises:
            self._promises[op] = _promises(op)
        return self._promises[op]

    # Assumptions

    def _see_assumption(self, computed: Computed) -> None:
        broken = ~numpy.asarray(computed.operands[0], numpy.bool_)
        if computed.active is not None:
            broken = broken & computed.active
        if not broken.any():
            return

        def facts_of(_place: tuple[int, ...], _program: int) -> Mapping[str, Any]:
            advice = (
                "Correct the assumption or leave it out. The compiler takes it for true: on a GPU "
                "it may leave out what is only needed where it is false."
            )
            message = "what tl.assume promises is false"
            return {"kind": "broken-hint", "message": message, "advice": advice}

        self.collector.report(computed, broken, 0, facts_of)

    # Hints on what a loop carries

    def _see_iteration(self, computed: Computed) -> None:
        """An iteration has ended: what the one before handed on was seen by it."""
        loop = computed.operation.parent_op()
        assert loop is not None
        if loop in self._carried:
            of_loop = dataclasses.replace(computed, operation=loop)
            self._see_carried(of_loop, loop, self._carried[loop])
        self._carried[loop] = computed.operands

    def _see_carried(self, computed: Computed, loop: Operation, carried: Sequence[Value]) -> None:
        for promise in self._promises_of(loop):
            assert isinstance(promise.value, BlockArgument)
            self._see_value(computed, promise, carried[promise.value.index - 1])

    # Hints on values

    def _see_value(self, computed: Computed, promise: _Promise, value: Value) -> None:
        extents, is_address = shape(promise.value.type), is_pointer(promise.value.type)
        if isinstance(value, AffineTile) and not is_address and _keeps(value, promise, extents):
            return
        whole = _whole(value, extents)
        placed = self._in_bytes(promise.value, whole) if is_address else whole
        for broken in _broken(whole, placed, promise):
            lanes = broken.lanes
            if computed.active is not None:
                lanes = lanes & computed.active.reshape((-1,) + (1,) * (lanes.ndim - 1))
            if lanes.any():
                shown = placed if broken.hint == "multiple_of" and placed is not None else whole
                self._report(computed, broken._replace(lanes=lanes), shown, promise)

    def _in_bytes(self, pointer: SSAValue, offsets: Array) -> Array | None:
        """Addresses of elements, counted from a place that is a multiple of every alignment;
        None where nobody knows the argument.
        """
        tensor = self.run.call.values.get(underlying_argument(pointer))
        if not isinstance(tensor, torch.Tensor):
            return None
        return offsets * tensor.element_size() + int(tensor.data_ptr())

    def _report(
        self, computed: Computed, broken: _Broken, values: Array, promise: _Promise
    ) -> None:
        about = promise.value

        def facts_of(place: tuple[int, ...], program: int) -> Mapping[str, Any]:
            at = (program, *place) if about_a_tile else (program, 0)
            where = tuple(min(i, extent - 1) for i, extent in zip(at, values.shape))
            location = locate(about.owner.location) if isinstance(about, OpResult) else None
            facts = {
                "kind": "broken-hint",
                "message": _format_broken(broken, values, where, promise),
                "advice": _ADVICE,
                "values": {},
            }
            position = call_of_hint(self.run.kernel, broken.hint, location, name_of_result(about))
            return facts if position is None else {**facts, "position": position}

        about_a_tile = bool(shape(about.type))
        lanes = broken.lanes if about_a_tile else broken.lanes[:, 0]
        self.collector.report(computed, lanes, len(shape(about.type)), facts_of, broken.hint)


def _numbers(attribute: Any) -> tuple[int, ...]:
    if isinstance(attribute, builtin.IntegerAttr):
        return (attribute.value.data,)
    return tuple(int(number) for number in attribute.get_values())


def _promises(op: Operation) -> tuple[_Promise, ...]:
    """What the hints of an operation say: of its result, or of what a loop carries."""
    if isinstance(op, scf.ForOp):
        carried = ((value, f"_arg{value.index}") for value in op.block.args[1:])
        found = [_promise(op, value, suffix) for value, suffix in carried]
    else:
        found = [_promise(op, value, "") for value in op.results[:1]]
    return tuple(one for one in found if one is not None)


def _promise(op: Operation, value: SSAValue, suffix: str) -> _Promise | None:
    found = {
        hint: _numbers(op.attributes[name + suffix])
        for name, hint in _ATTRIBUTES.items()
        if name + suffix in op.attributes
    }
    nothing = (1,) * max(len(shape(value.type)), 1)
    hints = (found.get(hint, nothing) for hint in _ATTRIBUTES.values())
    return _Promise(value, *hints) if found else None


def _whole(value: Any, extents: tuple[int, ...]) -> Array:
    """Every lane of a tile in place, programs first; a scalar as a tile of one."""
    array = lifted(value, len(extents))
    if not extents:
        return array.reshape(-1, 1)
    return numpy.broadcast_to(array, (len(array), *extents))


def _keeps(tile: AffineTile, promise: _Promise, extents: tuple[int, ...]) -> bool:
    """True where strides alone say that the promise is kept."""
    for d, (stride, extent) in enumerate(zip(tile.strides, extents)):
        if promise.contiguity[d] > 1 and extent > 1 and stride != 1:
            return False
        if promise.constancy[d] > 1 and stride != 0:
            return False
    largest = max(promise.divisibility)
    if largest == 1:
        return True
    return not (as_array(tile.base) % largest).any() and all(
        stride % largest == 0 or (stride == 1 and promise.contiguity[d] % largest == 0)
        for d, stride in enumerate(tile.strides)
    )


def _broken(values: Array, placed: Array | None, promise: _Promise) -> list[_Broken]:
    """The hints that lanes of a tile break; `placed` are its values as divisibility counts them."""
    found = []
    for d in range(values.ndim - 1):
        lanes = numpy.moveaxis(values, d + 1, -1)
        if promise.contiguity[d] > 1:
            found.append(_Broken("max_contiguous", d, _breaks(lanes, promise.contiguity[d], 1, d)))
        if promise.constancy[d] > 1:
            found.append(_Broken("max_constancy", d, _breaks(lanes, promise.constancy[d], 0, d)))
        if promise.divisibility[d] > 1 and placed is not None:
            starts = _starts(lanes, promise.contiguity[d])
            wrong = (numpy.moveaxis(placed, d + 1, -1) % promise.divisibility[d] != 0) & starts
            found.append(_Broken("multiple_of", d, numpy.moveaxis(wrong, -1, d + 1)))
    return [one for one in found if one.lanes.any()]


def _breaks(lanes: Array, run: int, step: int, dimension: int) -> Array:
    """Which lanes do not follow the one before them in a run by `step`;
    the dimension in question is the last of `lanes`.
    """
    wrong = numpy.zeros(lanes.shape, numpy.bool_)
    wrong[..., 1:] = lanes[..., 1:] - lanes[..., :-1] != step
    wrong[..., ::run] = False
    return numpy.moveaxis(wrong, -1, dimension + 1)


def _starts(lanes: Array, run: int) -> Array:
    """Which lanes begin a run of neighbours: as promised, or where nothing is,
    as the values have it.
    """
    first = numpy.ones(lanes.shape, numpy.bool_)
    if run > 1:
        first[..., :] = numpy.arange(lanes.shape[-1]) % run == 0
    else:
        first[..., 1:] = lanes[..., 1:] - lanes[..., :-1] != 1
    return first


def _format_broken(
    broken: _Broken, values: Array, where: tuple[int, ...], promise: _Promise
) -> str:
    """What was promised, and what is."""
    what = name_of_result(promise.value) or "the value"
    promised = promise.numbers(broken.hint)[broken.dimension]
    found, is_tile = int(values[where]), bool(shape(promise.value.type))
    if broken.hint == "multiple_of":
        each = " where a run of neighbours begins" if is_tile else ""
        if is_pointer(promise.value.type):
            return (
                f"tl.multiple_of promises that {what} is a multiple of {promised} bytes{each}, and "
                f"it is {found % promised} beyond one"
            )
        return (
            f"tl.multiple_of promises that {what} is a multiple of {promised}{each}, and it is "
            f"{found:,}"
        )
    axis = broken.dimension + 1
    before = int(values[(*where[:axis], where[axis] - 1, *where[axis + 1 :])])
    lane = where[1:] if len(where) > 2 else where[1]
    along = f" along dimension {broken.dimension}" if len(where) > 2 else ""
    run = "neighbours" if broken.hint == "max_contiguous" else "equal elements"
    return (
        f"tl.{broken.hint} promises runs of {promised} {run}{along} in {what}, and element {lane} "
        f"is {found:,} after {before:,}"
    )
