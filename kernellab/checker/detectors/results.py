"""Find results that differ from the expected ones, and why: strides, or rounding."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy
import torch
from xdsl.ir import Operation, SSAValue

from kernellab.checker.arguments import LazyCopies, Results, differences, strides_for
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, unchanged_storages
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.element_inputs import LastWriter, inputs_by_argument, inputs_in, last_writer
from kernellab.checker.exact_functions import Function, carries
from kernellab.checker.kernel_source import NotReadable, Source
from kernellab.checker.records import Inputs
from kernellab.checker.reference_run import Cause, Followed, ReferenceRun, Step
from kernellab.checker.shadow_values import Array, Shadow, reach, whole_tile
from kernellab.common.text import counted
from kernellab.compiler.modules import users_line
from kernellab.errors import KernelFault, KernelLabError, SourcePosition
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.numerics import FLOAT32, FLOAT64
from kernellab.ir import mlir, tt
from kernellab.ir.operations import GlobalAccess, MovesElements, has, locate
from kernellab.ir.types import dtype, is_float, shape
from kernellab.launch.results import (
    UNWRITTEN,
    Tolerances,
    additions,
    elements_off,
    is_equal,
    relative_tolerance,
    size_of,
    unit_of,
)  # fmt: skip
from kernellab.records.launches import Difference
from kernellab.triton_api import definition_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class WrongResult(Detector):
    """Compare results with the expected ones; find who wrote the first wrong element."""

    kinds = ("wrong-result", "rounding")

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.expected)

    def investigate(self, session: CheckSession) -> None:
        for apart in _wrong(self.run):
            rounding = self._rounding(apart.name, session)
            if rounding is not None and rounding.within:
                self._report_rounding(apart, rounding)
                continue
            writer = last_writer(apart, session.repeat)
            self._report(apart, writer, self._inputs(apart, writer, session), rounding)

    def _rounding(self, name: str, session: CheckSession) -> Rounding | None:
        sides = name, self.run.tensors[name], self.run.expected[name]
        if sides[1].is_floating_point() and self.run.tolerances(*sides) is None:
            return None  # every bit counts
        return explained(session, name, sides[2], self.run.tolerances.elements(*sides))

    def _report_rounding(self, apart: Difference, rounding: Rounding) -> None:
        actual, expected = apart.texts
        facts = {
            "kind": "rounding",
            "severity": "note",
            "argument": apart.name,
            "index": apart.index,
            "places": rounding.places,
            "message": (
                f"{apart.name} differs from the expected values in {apart.count:,} of "
                f"{counted(apart.size, 'element')}, by rounding alone: {rounding.words}. "
                f"{apart.element} is {actual}, and {expected} is expected"
            ),
            "advice": _IS_RIGHT + (_ACCEPT if isinstance(apart.expected, float) else ""),
            "cause": rounding.kind,
            "errors": (rounding.error, rounding.remaining),
        }
        self.collector.add(apart.name, facts, (), apart.count)

    def _inputs(
        self, apart: Difference, writer: LastWriter, session: CheckSession
    ) -> tuple[Inputs, ...] | None:
        """Return what the element was computed from; None if its program does not run alone."""
        if writer.last is None:
            return None
        tensor = self.run.tensors[apart.name]
        offset = sum(place * step for place, step in zip(apart.index, tensor.stride()))
        try:
            return inputs_by_argument(inputs_in(session, writer.last, apart.name, offset))
        except KernelLabError:
            return None

    def _other_blocks(self) -> str:
        """Say in which parameters an autotuner's configs differ: a fixed grid fits only one."""
        configs = [] if self.run.autotuner is None else self.run.autotuner.configs
        values = {
            name: [config.kwargs.get(name) for config in configs]
            for name in (configs[0].kwargs if configs else ())
        }
        differing = {name: given for name, given in values.items() if len({*given}) > 1}
        if not differing:
            return ""
        given = ", ".join(f"{name}={numbers[0]}" for name, numbers in differing.items())
        words = (
            f" This is the config with {given}, and other configs have other values: what their "
            "trials write may hide the fault in the first launch."
        )
        size = next((name for name, numbers in differing.items() if all(numbers)), "")
        if size:
            words += (
                " A grid that depends on them is a function: "
                f'lambda meta: (triton.cdiv(n, meta["{size}"]),).'
            )
        return words

    def _report(
        self,
        apart: Difference,
        writer: LastWriter,
        inputs: tuple[Inputs, ...] | None,
        rounding: Rounding | None,
    ) -> None:
        facts: dict[str, Any] = {
            "argument": apart.name,
            "index": apart.index,
            "places": (definition_of(self.run.kernel),),
            "advice": UNWRITTEN + self._other_blocks(),
        }
        if writer.operation is not None:
            program = (0, 0, 0) if writer.last is None else self.run.program_id(writer.last)
            x, y, z = program
            facts |= {
                "places": locate(writer.operation.location).frames[::-1],
                "lane": writer.place,
                "values": writer.values,
                "inputs": inputs,
                "advice": _STEP.format(f"{x},{y},{z}" if z else f"{x},{y}" if y else str(x)),
            }
        facts["message"] = str(apart)
        is_number = not isinstance(apart.actual, float) or math.isfinite(apart.actual)
        if rounding is not None and is_number:
            is_underflow = apart.actual == 0 != apart.expected and rounding.kind != "cancellation"
            cause = _UNDERFLOW if is_underflow else f"The cause is rounding: {rounding.words}"
            facts["message"] += f". {cause}"
            facts |= {"cause": rounding.kind, "errors": (rounding.error, rounding.remaining)}
        self.collector.add(
            apart.name, facts, () if writer.last is None else (writer.last,), apart.count
        )


def _wrong(run: CheckedRun) -> Iterator[Difference]:
    """Yield the differences of results from the expected ones."""
    actual = Results({name: run.tensors[name] for name in run.expected}, run.copies)
    return differences(actual, Results(run.expected, LazyCopies()), run.tolerances)


_IS_RIGHT = (
    "The kernel is right within the bound that follows from its operations and their dtypes."
)
_ACCEPT = " To accept the difference without a note, pass rtol=."
_UNDERFLOW = "A value on the way was too small for its type and became 0 (underflow)"
_STEP = (
    "To see how the value is computed, put %tilestep --program {0} in front of the launch. With "
    "the same --expect it opens at the step that wrote the element; so does "
    "kernellab.trace(..., expect=...)."
)


# Find transposed and expanded tensors that a kernel reads as if they were contiguous, because it
# does not receive their strides.
#
# The checked run records the distances between the elements that the kernel accesses in such a
# tensor. If none of them is one of the tensor's strides, the launch runs once more with
# contiguous copies: if the result changes, the kernel accesses the wrong elements.


_LARGEST_COPIED = 64 * 1024 * 1024
"""Bytes of the largest tensor that is copied to see whether the result changes."""


class IgnoredStrides(Detector):
    """Check tensors whose strides are not passed to the kernel."""

    kinds = ("ignored-strides",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._suspects = set(_suspects(run))
        self._first: dict[str, CheckedAccess] = {}
        self._starts: dict[Operation, int] = {}
        self._outside: set[Operation] = set()
        self._explained: frozenset[Operation] = frozenset()

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return any(not tensor.is_contiguous() for tensor in run.tensors.values()) and bool(
            _suspects(run)
        )

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        self._left(access)

    def outside_memory(
        self, access: CheckedAccess, wild: numpy.ndarray, elements: Elements
    ) -> None:
        self._left(access)

    def _left(self, access: CheckedAccess) -> None:
        if access.buffer.name in self._suspects:
            self._outside.add(access.operation)

    def before(self, access: CheckedAccess) -> None:
        name = access.buffer.name
        if name not in self._suspects:
            return
        self._first.setdefault(name, access)
        if self._steps(access) & _foreign(self.run.tensors[name]):
            self._suspects.discard(name)

    def _steps(self, access: CheckedAccess) -> set[int]:
        """Return the distances between neighboring elements, programs, and iterations of a loop."""
        index = access.index
        start = int(index.flat[0]) if index.size else 0
        steps = {
            abs(int(index.take(1, axis).flat[0]) - start)
            for axis in range(index.ndim)
            if index.shape[axis] > 1 and index.size
        }
        steps.add(abs(start - self._starts.get(access.operation, start)))
        self._starts[access.operation] = start
        return steps

    def investigate(self, session: CheckSession) -> None:
        names = [name for name in self._first if name in self._suspects]
        if not names or (self.run.expected and not any(_wrong(self.run))):
            return
        outside: set[Operation] = set()
        try:
            again = _made_contiguous(session, names, outside)
        except (Stopped, KernelFault):
            return
        for apart in differences(self.run.results, again.results, Tolerances()):
            self._explained = frozenset(self._outside - outside)
            for name in names:
                self._report(name, self._first[name], apart)
            return

    def explains(self) -> frozenset[Operation]:
        return self._explained

    def _report(self, name: str, access: CheckedAccess, apart: Difference) -> None:
        tensor = self.run.tensors[name]
        passed = {*strides_for(name, [*self.run.tensors], self.run.call.values)}
        missing = sorted(_needed(tensor) - passed)
        strided, contiguous = apart.texts
        values = f"{strided}, but {contiguous} if {name} is contiguous"
        effect = f"; {apart.element} is {values}"
        facts: dict[str, Any] = {
            "argument": name,
            "places": access.calls(),
            "message": (
                f"this {access.action} {_VERBS[access.action]} {name} as if it were contiguous: "
                f"its shape is {tuple(tensor.shape)} and its strides are {tensor.stride()}, but "
                f"the kernel does not receive the stride {' or '.join(map(str, missing))}"
                f"{'' if passed else effect}"
            ),
            "advice": (
                f"Pass a contiguous copy as {name} (.contiguous()){_NEW[bool(passed)]}. Or pass "
                "its .stride(0), .stride(1), ... to the kernel, and multiply each index by its "
                "stride."
            ),
        }
        self.collector.add(name, facts)


_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
_NEW = {True: ", and the strides of that copy", False: ""}


def _suspects(run: CheckedRun) -> list[str]:
    """Return the non-contiguous tensors without gaps that have a stride that is not passed."""
    tensors = run.tensors
    values = run.call.values
    starts = [tensor.untyped_storage().data_ptr() for tensor in tensors.values()]
    kept = unchanged_storages(run) if any(map(_is_rearranged, tensors.values())) else frozenset()
    suspects = []
    for name, tensor in tensors.items():
        start = tensor.untyped_storage().data_ptr()
        if (
            _is_rearranged(tensor)
            and isinstance(values.get(name), torch.Tensor)
            and (starts.count(start) == 1 or start in kept)
            and not _receives_strides(run, name, tensor)
        ):
            suspects.append(name)
    return suspects


def _is_rearranged(tensor: torch.Tensor) -> bool:
    """Return whether a tensor covers a block of memory completely, in another order or repeated."""
    if tensor.is_contiguous() or tensor.numel() * tensor.element_size() > _LARGEST_COPIED:
        return False
    axes = [(step, size) for step, size in zip(tensor.stride(), tensor.shape) if size > 1 and step]
    reached = 1
    for step, size in sorted(axes):
        if step != reached:
            return False
        reached *= size
    return True


def _needed(tensor: torch.Tensor) -> set[int]:
    return {step for step, size in zip(tensor.stride(), tensor.shape) if size > 1 and step != 1}


def _foreign(tensor: torch.Tensor) -> set[int]:
    """Return the strides of a tensor that a contiguous tensor of its shape does not have."""
    sizes = [*tensor.shape[1:], 1]
    rows = {*itertools.accumulate(reversed(sizes), lambda a, b: a * b)}
    return _needed(tensor) - rows - {0}


def _receives_strides(run: CheckedRun, name: str, tensor: torch.Tensor) -> bool:
    """Return whether all strides of a tensor reach the kernel, by parameters' names or values, or
    as parameters that follow one on another, and that the kernel multiplies with.
    """
    needed, values = _needed(tensor), run.call.values
    if needed <= {*strides_for(name, [*run.tensors], values)}:
        return True
    sizes = {size for other in run.tensors.values() for size in (*other.shape, other.numel())}
    numbers = {value for value in values.values() if type(value) is int}
    return bool(needed & (numbers - sizes)) or tensor.stride() in _factors(run, tensor.ndim)


def _factors(run: CheckedRun, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield numbers of parameters that follow one on another, if each is a factor in the source."""
    source = Source(str(run.kernel.src), run.call.values)
    with suppress(NotReadable):
        products = (node for node in source.nodes if isinstance(node, ast.BinOp))
        sides = ((node.left, node.right) for node in products if isinstance(node.op, ast.Mult))
        factors = {side.id for both in sides for side in both if isinstance(side, ast.Name)}
        given = [*run.call.values.items()]
        for at in range(len(given) + 1 - count if count > 1 else 0):
            names, numbers = zip(*given[at : at + count])
            if {*names} <= factors - {*source.constants} and {*map(type, numbers)} == {int}:
                yield numbers


def _made_contiguous(
    session: CheckSession, names: Sequence[str], outside: set[Operation]
) -> CheckedRun:
    """Run the launch with some tensors contiguous; add accesses that leave them to `outside`."""
    launch = session.launch
    rows = {name: launch.call.values[name].detach().contiguous() for name in names}
    call = replace(launch.call, values={**launch.call.values, **rows})
    again = replace(session, launch=replace(launch, call=call))

    def watching(run: CheckedRun) -> Sequence[Detector]:
        return [_Leaving(run, outside)]

    return again.repeat(watching)


class _Leaving(Detector):
    """Record which accesses leave their tensors."""

    def __init__(self, run: CheckedRun, outside: set[Operation]) -> None:
        super().__init__(run)
        self._outside = outside

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        self._outside.add(access.operation)


_MOST_ELEMENTS = 1 << 22
"""The most elements of a result that is computed in float64."""


@dataclass(frozen=True, eq=False)
class RoundingCause(Cause):
    """Operations that round: the reference run computes what the launch stores if they do not.

    Attributes:
        name: "tf32", "narrow sums", ...
        words: what rounds, as a clause; of a precision and a format.
        remedy: how the result is computed without it: 'with input_precision="ieee"'.
        rounds_otherwise: the result of a dot that rounds less, instead of the exact result.
    """

    adds_up = True
    name: str
    words: str
    remedy: str
    rounds: Callable[[Operation], bool]
    rounds_otherwise: Callable[[Step], Array] | None = None

    def may_depart(self, op: Operation) -> bool:
        return self.rounds(op)

    def exact(self, step: Step, exact: Array) -> Array:
        if self.rounds_otherwise is None:
            return exact
        less: Array = exact + (self.rounds_otherwise(step) - step.plain[0])
        return less

    def departs(self, step: Step, exact: Array) -> Array:
        finite = numpy.isfinite(step.result) & numpy.isfinite(exact)
        rounded: Array = finite & (exact != step.result)
        return rounded

    def is_off(self, value: SSAValue, stored: Array, exact: Array, on: Array) -> Array:
        """Report nothing: `explained` reads the results."""
        return numpy.zeros(stored.shape, numpy.bool_)


def _is_result_float(op: Operation) -> bool:
    if isinstance(op, mlir.ConstantOp) or not op.results or has(op, GlobalAccess, MovesElements):
        return False
    return is_float(op.results[0])


def _is_narrow(op: Operation) -> bool:
    return _is_result_float(op) and dtype(op.results[0].type).itemsize < 4


def _is_sum(op: Operation) -> bool:
    sums = mlir.AddFOp | mlir.SubFOp | mlir.FmaOp | tt.ReduceOp | tt.ScanOp | tt.DotOp
    return isinstance(op, sums) and _is_result_float(op)


def _is_function(op: Operation) -> bool:
    is_simple = _is_sum(op) or isinstance(op, mlir.MulFOp | mlir.TruncFOp | tt.FpToFpOp)
    return _is_result_float(op) and not is_simple


def _in_ieee(step: Step) -> Array:
    """The result of a dot in ieee, which rounds too, but to fp32."""
    a, b = (
        whole_tile(array, shape(source.type)).astype(FLOAT32)
        for array, source in zip(step.operands[:2], step.operation.operands[:2])
    )
    rounded: Array = numpy.matmul(a, b).astype(FLOAT64) + step.operands[2]
    return rounded


EVERYTHING = RoundingCause(
    "rounding",
    "the operations of the kernel round their results",
    "without any rounding",
    _is_result_float,
)
CAUSES = (
    RoundingCause(
        "tf32",
        "tl.dot rounds its float32 operands to {precision}",
        'with input_precision="ieee"',
        tt.rounds_operands,
        _in_ieee,
    ),
    RoundingCause(
        "narrow sums",
        "a sum is accumulated in {format}",
        "without that rounding",
        lambda op: _is_sum(op) and _is_narrow(op),
    ),
    RoundingCause(
        "narrow values",
        "an intermediate value is rounded to {format}",
        "without that rounding",
        _is_narrow,
    ),
    RoundingCause(
        "functions",
        "a function such as exp, or a division, rounds its result",
        "without that rounding",
        _is_function,
    ),
    RoundingCause(
        "order of a sum",
        "the result depends on the order in which the sum is computed",
        "with a sum that does not round",
        _is_sum,
    ),
)
"""The causes of rounding, in the order of removal; the first that ends a difference is named."""


@dataclass(frozen=True, eq=False)
class BoundedErrors(Cause):
    """Every operation rounds: what the errors of results can be.

    Attributes:
        is_reference: whether the bound is that of a reference in fp32, and not the kernel's own.
    """

    adds_up = True
    is_reference: bool

    @property
    def followed_as(self) -> type[Followed]:
        return _Bounds

    def may_depart(self, op: Operation) -> bool:
        return _is_result_float(op)

    def is_off(self, value: SSAValue, stored: Array, exact: Array, on: Array) -> Array:
        """Report nothing."""
        return numpy.zeros(stored.shape, numpy.bool_)


_CASTS = (mlir.FPToSIOp, mlir.FPToUIOp)

_NOISE = 0.02
"""A result in fp32 whose error is more than this part of it, where a better one is expected, is not
right although every operation is: an algorithm without the cancellation is needed."""

OWN_BOUND, BOUND_OF_REFERENCE = BoundedErrors(False), BoundedErrors(True)


class _Bounds(Followed):
    """A bound for the rounding error of each value, which takes the place of its distance.

    Attributes:
        cancelling: the first sum whose operands cancel, so that their errors weigh in its result.
    """

    cancelling: Computed | None = None

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op, step = computed.operation, self.step
        if has(op, GlobalAccess, MovesElements):
            return super().computed(computed, operands)
        is_cast = isinstance(op, _CASTS)
        if not carries(op) or step.function is None or not (is_float(op.results[0]) or is_cast):
            return [None] * len(op.results)
        with numpy.errstate(all="ignore"):
            carried = self._carried(op, step.function, step.operands, operands)
            if isinstance(op, mlir.AddFOp | mlir.SubFOp) and self.cancelling is None:
                if numpy.any(carried > _NOISE * numpy.abs(step.result)):
                    self.cancelling = computed
            if is_cast:  # One step of the integer, where the number is near enough to the next.
                return [numpy.ceil(carried) * numpy.ones_like(step.result)]
            bound = carried + self._own(op, step.function, step.operands, numpy.abs(step.result))
        bound = numpy.where(numpy.isfinite(bound), bound, 0.0)
        return [bound, *[None] * (len(op.results) - 1)]

    def of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        shadow = self.stored.of_tensor(tensor)
        return torch.zeros(tensor.shape).double() if shadow is None else torch.from_numpy(shadow)

    def _carried(
        self, op: Operation, function: Function, actual: Sequence[Array], operands: Sequence[Shadow]
    ) -> Any:
        total: Any = 0.0
        for position, bound in enumerate(operands):
            if bound is None:
                continue
            match op:
                case tt.DotOp() if position < 2:
                    sizes = [numpy.abs(array) for array in actual]
                    sizes[position], sizes[2] = bound, numpy.zeros_like(sizes[2])
                    total = total + function(*sizes)
                case tt.ReduceOp() | tt.ScanOp():
                    join = numpy.add if _adds(op) else numpy.maximum
                    total = total + _over(op, bound, join)
                case _:
                    plain = function(*actual)
                    for sign in (1, -1):
                        other = [*actual]
                        other[position] = other[position] + sign * bound
                        away = numpy.abs(function(*other) - plain)
                        total = total + numpy.where(numpy.isfinite(away), away, 0.0) / 2
        return total

    def _own(
        self, op: Operation, function: Function, actual: Sequence[Array], result: Array
    ) -> Any:
        is_reference = self.cause is BOUND_OF_REFERENCE
        unit = min(unit_of(dtype(op.results[0].type)), 2.0**-24 if is_reference else 1.0)
        match op:
            case tt.DotOp():
                sizes = [numpy.abs(array) for array in actual]
                sizes[2] = numpy.zeros_like(sizes[2])
                terms = shape(op.a.type)[-1]
                product = function(*sizes)
                rough = 2.0**-10 if tt.rounds_operands(op) and not is_reference else 0.0
                return (additions(terms) * unit + rough) * product + unit * result
            case tt.ReduceOp() | tt.ScanOp() if _adds(op):
                terms = shape(op.operands[0].type)[op.axis.value.data]
                return additions(terms) * unit * _over(op, numpy.abs(actual[0]), numpy.add)
            case tt.ReduceOp() | tt.ScanOp():
                return unit * result
            case mlir.AddFOp() | mlir.SubFOp() | mlir.MulFOp() | mlir.TruncFOp() | tt.FpToFpOp():
                return unit * result
            case mlir.MaximumFOp() | mlir.MinimumFOp() | mlir.MaxNumFOp() | mlir.MinNumFOp():
                return 0.0 * result
            case mlir.ExtFOp() | mlir.NegFOp() | mlir.AbsFOp() | mlir.SelectOp():
                return 0.0 * result
            case _:
                return 4 * unit * result


def _adds(op: tt.ReduceOp | tt.ScanOp) -> bool:
    return isinstance(op.combine.block.first_op, mlir.AddFOp)


def _over(op: tt.ReduceOp | tt.ScanOp, array: Array, join: numpy.ufunc) -> Array:
    """Join an array along the axis of a reduction or a scan."""
    return reach(op, 0, whole_tile(array, shape(op.operands[0].type)), join)


@dataclass(frozen=True)
class Rounding:
    """Why a result differs from the expected one: rounding, and nothing else.

    Attributes:
        remedy: how the result was computed without it: 'with input_precision="ieee"'.
        kind: the name of the cause: "tf32", "narrow sums", ...
        places: the line of the first operation that rounds so.
        error: the largest error of the result, against the same kernel in float64.
        remaining: the largest error without the cause.
        within: whether every element is within the bound.
    """

    cause: str
    remedy: str
    kind: str
    places: tuple[SourcePosition, ...]
    error: float
    remaining: float
    within: bool

    @property
    def words(self) -> str:
        """The cause and both errors, as text."""
        return (
            f"{self.cause}. Against float64, the largest error is {self.error:.2g}, and "
            f"{self.remaining:.2g} {self.remedy}"
        )


def explained(
    session: CheckSession, name: str, expected: torch.Tensor, allowed: torch.Tensor
) -> Rounding | None:
    """Return why a result differs from the expected one, or None if not only by rounding.

    Args:
        allowed: how far each element may be off.
    """
    actual = session.launch.tensors[name]
    module = session.launch.code.module
    is_of_floats = actual.is_floating_point() or any(isinstance(op, _CASTS) for op in module.walk())
    if not is_of_floats or not 0 < actual.numel() <= _MOST_ELEMENTS:
        return None
    try:
        return _explained(session, name, expected.double(), allowed)
    except (KernelLabError, Stopped):
        return None


def _explained(
    session: CheckSession, name: str, right: torch.Tensor, allowed: torch.Tensor
) -> Rounding | None:
    reference = _followed(session, (EVERYTHING, OWN_BOUND, BOUND_OF_REFERENCE))
    tensor = reference.run.tensors[name]
    actual = tensor.double()
    exact, bound, of_reference = (followed.of_tensor(tensor) for followed in reference.followed)
    if elements_off(exact, right, torch.maximum(allowed, of_reference)).any():
        return None
    within = not elements_off(actual, right, torch.maximum(allowed, bound + of_reference)).any()
    chosen, op, remaining = _chosen(session, name, right, allowed + of_reference)
    if op is None or _largest(remaining - exact) > _largest(actual - exact):
        chosen, op, remaining = EVERYTHING, reference.of(EVERYTHING).first, exact
    if op is None:
        return None
    cause = chosen.words.format(
        precision=tt.precision_of(op) or "", format=dtype(op.results[0].type)
    )
    kind = chosen.name
    cancelling = cast(_Bounds, reference.of(OWN_BOUND)).cancelling
    is_chosen = chosen.name in _CHOSEN_BY_KERNEL
    if not is_chosen and cancelling is not None and _is_noise(actual, exact, right):
        within, op, kind = False, cancelling.operation, "cancellation"
        cause = _CANCELS.format(at=_place_text(op))
    if chosen.name == "narrow sums":  # the bound of a long sum says nothing
        part = relative_tolerance(dtype(op.results[0].type))
        within &= is_equal(actual, exact, Tolerances(part, part * size_of(exact)))
    return Rounding(
        cause,
        chosen.remedy,
        kind,
        tuple(locate(op.location).frames[::-1]),
        _largest(actual - exact),
        _largest(remaining - exact),
        within,
    )


_CHOSEN_BY_KERNEL = ("tf32", "narrow sums", "narrow values")
"""Causes that are formats in the kernel's source."""

_CANCELS = (
    "{at} subtracts nearly equal numbers (or adds their opposites), which leaves mostly the errors "
    "with which they were computed"
)


def _place_text(op: Operation) -> str:
    frames = locate(op.location).frames
    line = users_line(frames) if frames else None
    return "the kernel" if line is None else f"line {line.line}"


def _is_noise(actual: torch.Tensor, exact: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether a result's error is a large part of it, where a smaller one is expected."""
    error, expected_error = (float((side - exact).norm()) for side in (actual, right))
    return error > _NOISE * float(exact.norm()) and 10 * expected_error < error


def _chosen(
    session: CheckSession, name: str, right: torch.Tensor, allowed: torch.Tensor
) -> tuple[RoundingCause, Operation | None, torch.Tensor]:
    present = [
        cause for cause in CAUSES if any(map(cause.rounds, session.launch.code.module.walk()))
    ]
    reference = _followed(session, present)
    for cause in present:
        results = reference.of(cause).of_tensor(reference.run.tensors[name])
        if reference.of(cause).first and not elements_off(results, right, allowed).any():
            return cause, reference.of(cause).first, results
    return EVERYTHING, None, right


def _followed(session: CheckSession, causes: Sequence[Cause]) -> ReferenceRun:
    (reference,), stopped = session.run_detectors((ReferenceRun,), earlier=causes)
    if stopped is not None:
        raise Stopped(stopped)
    assert isinstance(reference, ReferenceRun)
    for error in reference.failed.values():
        raise error
    return reference


def _largest(away: torch.Tensor) -> float:
    return float(away.abs().nan_to_num(0.0, torch.inf, torch.inf).max())
