"""Why a result differs from the expected one, if every operation is right: the launch runs again
with each cause of rounding removed, and what makes the difference disappear is its cause.

A kernel is right if its results in float64 are the expected ones, and if its own results are within
the bound that follows from its operations and their dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Computed
from kernellab.checker.detector import Stopped
from kernellab.checker.exact_functions import Function, carries
from kernellab.checker.reference_run import Cause, Followed, ReferenceRun, Step
from kernellab.checker.shadow_values import Array, Shadow, reach
from kernellab.errors import KernelLabError, SourcePosition
from kernellab.interpreter.numerics import FLOAT32, FLOAT64, accumulate
from kernellab.ir import mlir, tt
from kernellab.ir.operations import GlobalAccess, MovesElements, has, locate
from kernellab.ir.types import dtype, is_float, shape
from kernellab.launch.results import (
    Tolerances,
    additions,
    elements_off,
    is_equal,
    relative_tolerance,
    size_of,
    unit_of,
)  # fmt: skip

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


_LARGEST = 1 << 22
"""The most elements of a result that is computed in float64."""


# What values are if some operations do not round.


@dataclass(frozen=True, eq=False)
class RoundingCause(Cause):
    """Operations that round: the reference run computes what the launch stores if they do not.

    Attributes:
        name: "tf32", "narrow sums", ...
        words: what rounds, as a clause; of a precision and a format.
        remedy: how the result is computed without it: 'with input_precision="ieee"'.
        rounds: whether an operation rounds for this cause.
        rounds_otherwise: what a dot gives that rounds too, but less, instead of the exact result.
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


def _rounds_operands(op: Operation) -> bool:
    return tt.precision_of(op) not in (None, "ieee")


def _in_ieee(step: Step) -> Array:
    """What a dot gives in ieee, which rounds too, but to fp32."""
    a, b = (
        numpy.broadcast_to(array, (len(array), *shape(source.type))).astype(FLOAT32)
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
        _rounds_operands,
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
"""What is removed, in this order; the first that makes the difference disappear is its cause."""


# How far a result may be from the exact one, as a bound for each element.


@dataclass(frozen=True, eq=False)
class BoundedErrors(Cause):
    """Every operation rounds: what the errors of results can be.

    Attributes:
        is_reference: whether the bound is that of a correct reference, which computes in fp32
            throughout; otherwise it is the kernel's own.
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


OWN_BOUND, BOUND_OF_REFERENCE = BoundedErrors(False), BoundedErrors(True)


class _Bounds(Followed):
    """A bound for the rounding error of each value, which takes the place of its distance."""

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op, step = computed.operation, self.step
        if has(op, GlobalAccess, MovesElements):
            return super().computed(computed, operands)
        if not carries(op) or step.function is None or not is_float(op.results[0]):
            return [None] * len(op.results)
        with numpy.errstate(all="ignore"):
            carried = self._carried(op, step.function, step.operands, operands)
            bound = carried + self._own(op, step.function, step.operands, numpy.abs(step.result))
        bound = numpy.where(numpy.isfinite(bound), bound, 0.0)
        return [bound, *[None] * (len(op.results) - 1)]

    def of_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the bound for each element of a tensor."""
        shadow = self.stored.of_tensor(tensor)
        return torch.zeros(tensor.shape).double() if shadow is None else torch.from_numpy(shadow)

    def _carried(
        self, op: Operation, function: Function, actual: Sequence[Array], operands: Sequence[Shadow]
    ) -> Any:
        """The effect of the errors of the operands."""
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
        """The error of the operation itself, for exact operands."""
        is_reference = self.cause is BOUND_OF_REFERENCE
        unit = min(unit_of(dtype(op.results[0].type)), 2.0**-24 if is_reference else 1.0)
        match op:
            case tt.DotOp():
                sizes = [numpy.abs(array) for array in actual]
                sizes[2] = numpy.zeros_like(sizes[2])
                terms = shape(op.a.type)[-1]
                product = function(*sizes)
                rough = 2.0**-10 if _rounds_operands(op) and not is_reference else 0.0
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
    source = shape(op.operands[0].type)
    whole = numpy.broadcast_to(array, (len(array), *source))
    if isinstance(op, tt.ReduceOp) and join is numpy.add:
        return numpy.asarray(whole.sum(axis=op.axis.value.data - len(source)))
    if isinstance(op, tt.ScanOp) and join is numpy.add:
        backwards = bool(op.reverse.value.data)
        return numpy.asarray(accumulate(join, whole, op.axis.value.data - len(source), backwards))
    return reach(op, 0, whole)


# The cause of a difference.


@dataclass(frozen=True)
class Rounding:
    """Why a result differs from the expected one: rounding, and nothing else.

    Attributes:
        cause: what rounds, as a clause.
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
        name: the argument.
        expected: its expected contents.
        allowed: how far each element may be off.
    """
    actual = session.launch.tensors[name]
    if not actual.is_floating_point() or actual.numel() > _LARGEST or not actual.numel():
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
    if op is None:
        chosen, op, remaining = EVERYTHING, reference.of(EVERYTHING).first, exact
    if op is None:
        return None
    if chosen.name == "narrow sums":  # the bound of a long sum says nothing
        part = relative_tolerance(dtype(op.results[0].type))
        within &= is_equal(actual, exact, Tolerances(part, part * size_of(exact)))
    return Rounding(
        chosen.words.format(precision=tt.precision_of(op) or "", format=dtype(op.results[0].type)),
        chosen.remedy,
        chosen.name,
        tuple(locate(op.location).frames[::-1]),
        _largest(actual - exact),
        _largest(remaining - exact),
        within,
    )


def _chosen(
    session: CheckSession, name: str, right: torch.Tensor, allowed: torch.Tensor
) -> tuple[RoundingCause, Operation | None, torch.Tensor]:
    """Return the cause that makes the difference disappear, the first operation that rounds so, and
    the results without it; no operation if no cause does.
    """
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
    """Return a reference run that followed some causes."""
    (reference,), stopped = session.run_detectors((ReferenceRun,), earlier=causes)
    if stopped is not None:
        raise Stopped(stopped)
    assert isinstance(reference, ReferenceRun)
    for error in reference.failed.values():
        raise error
    return reference


def _largest(away: torch.Tensor) -> float:
    return float(away.abs().nan_to_num(0.0, torch.inf, torch.inf).max())
