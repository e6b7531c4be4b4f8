"""Why a result differs from the expected one, if every operation is right: the launch runs again
with each cause of rounding removed, and what makes the difference disappear is its cause.

A kernel is right if its results in float64 are the expected ones, and if its own results are within
the bound that follows from its operations and their dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import ml_dtypes
import numpy
import torch
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector, Stopped
from kernellab.checker.numerics.exact_functions import function_for
from kernellab.checker.numerics.integer_types import unsigned_values
from kernellab.checker.numerics.nan_sources import is_float
from kernellab.checker.numerics.reference_run import (
    Departure,
    ExactRun,
    ExactValues,
    Harm,
    with_distance,
)
from kernellab.checker.shadow_values import Array, Shadow, Shadows, StoredShadows, moved, reach
from kernellab.checker.slices import stored_value
from kernellab.errors import KernelLabError, SourcePosition
from kernellab.interpreter.memory.global_memory import Atomic, Load, Store
from kernellab.interpreter.numerics import FLOAT32, FLOAT64, accumulate
from kernellab.interpreter.tiles import Value
from kernellab.ir import mlir, tt
from kernellab.ir.locations import locate
from kernellab.ir.operations import GlobalAccess, MovesElements, has
from kernellab.ir.types import dtype, shape
from kernellab.launch.differences import relative_tolerance, size_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


_LARGEST = 1 << 22
"""The most elements of a result that is computed in float64."""


# What values are if some operations do not round.


class _Unrounded(ExactRun):
    """Compute what a launch stores if the operations of one cause do not round."""

    adds_up = True
    cause: ClassVar[str] = "rounding"
    words: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        """Return whether an operation rounds for this cause."""
        raise NotImplementedError

    def may_depart(self, op: Operation) -> bool:
        return type(self).rounds(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        return numpy.isfinite(result) & numpy.isfinite(exact) & (exact != result), exact

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """Add what an atomic addition adds; a store is recorded already."""
        if isinstance(access.request, Atomic) and access.request.operation == "fadd":
            self._memory.add(access, shadow)
            self._inexact_stores.add(access.operation)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        raise NotImplementedError

    def end(self) -> None:
        """Report nothing: `explained` reads the results."""

    def results(self, name: str) -> torch.Tensor:
        """Return what an argument holds without the rounding, float64."""
        tensor = self.run.tensors[name]
        actual = tensor.double().numpy()
        shadow = self._memory.of_tensor(tensor)
        return torch.from_numpy(numpy.array(with_distance(actual, shadow)))

    @property
    def first(self) -> Operation | None:
        """The first operation that rounded."""
        return next(iter(self.values.departures), None)


def _is_result_float(op: Operation) -> bool:
    if isinstance(op, mlir.ConstantOp) or not op.results or has(op, GlobalAccess, MovesElements):
        return False
    return is_float(op.results[0])


def _itemsize(op: Operation) -> int:
    return int(dtype(op.results[0].type).itemsize)


def _is_sum(op: Operation) -> bool:
    sums = mlir.AddFOp | mlir.SubFOp | mlir.FmaOp | tt.ReduceOp | tt.ScanOp | tt.DotOp
    return isinstance(op, sums) and _is_result_float(op)


class Everything(_Unrounded):
    """No operation rounds."""

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        return _is_result_float(op)


class Tf32(_Unrounded):
    """Dots of fp32 tiles do not round their operands."""

    cause = "tf32"
    words = "tl.dot rounds its float32 operands to {precision}"
    remedy = 'with input_precision="ieee"'

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        return tt.precision_of(op) not in (None, "ieee")

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        """Return what the dot gives in ieee, which rounds too, but to fp32."""
        a, b = (
            numpy.broadcast_to(array, (len(array), *shape(source.type)))
            for array, source in zip(operands, computed.operation.operands[:2])
        )
        rounded = numpy.matmul(a.astype(FLOAT32), b.astype(FLOAT32)).astype(FLOAT64)
        return super().departs(computed, operands, result, exact + (rounded - numpy.matmul(a, b)))


class NarrowSums(_Unrounded):
    """Sums in fp16, bf16 and fp8 do not round."""

    cause = "narrow sums"
    words = "a sum is accumulated in {format}"
    remedy = "without that rounding"

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        return _is_sum(op) and _itemsize(op) < 4


class NarrowValues(_Unrounded):
    """No operation rounds to fp16, bf16 or fp8."""

    cause = "narrow values"
    words = "an intermediate value is rounded to {format}"
    remedy = "without that rounding"

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        return _is_result_float(op) and _itemsize(op) < 4


class Functions(_Unrounded):
    """Functions such as exp, and divisions, do not round."""

    cause = "functions"
    words = "a function such as exp, or a division, rounds its result"
    remedy = "without that rounding"

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        is_simple = _is_sum(op) or isinstance(op, mlir.MulFOp | mlir.TruncFOp | tt.FpToFpOp)
        return _is_result_float(op) and not is_simple


class Sums(_Unrounded):
    """Sums do not round, so that their order has no effect."""

    cause = "order of a sum"
    words = "the result depends on the order in which the sum is computed"
    remedy = "with a sum that does not round"

    @classmethod
    def rounds(cls, op: Operation) -> bool:
        return _is_sum(op)


CAUSES: tuple[type[_Unrounded], ...] = (Tf32, NarrowSums, NarrowValues, Functions, Sums)
"""What is removed, in this order; the first that makes the difference disappear is its cause."""


# How far a result may be from the exact one, as a bound for each element.


class _Bounds(Shadows):
    """A bound for the rounding error of each value; without `tf32`, as if the kernel computed in
    fp32 throughout.
    """

    def __init__(self, values: ExactValues, tf32: bool) -> None:
        super().__init__()
        self._values = values
        self._tf32 = tf32
        self.read: dict[Operation, Shadow] = {}

    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        op = computed.operation
        if has(op, GlobalAccess):
            return [self.read.pop(op, None)] * len(op.results)
        if has(op, MovesElements):
            return moved(computed, operands)
        function = function_for(op)
        if function is None or not is_float(op.results[0]):
            return [None] * len(op.results)
        actual = [
            self._values.numbers(source, value)
            for source, value in zip(op.operands, computed.operands)
        ]
        result = numpy.abs(self._values.numbers(op.results[0], computed.results[0]))
        with numpy.errstate(all="ignore"):
            carried = self._carried(op, function, actual, operands)
            bound = carried + self._own(op, actual, result)
        bound = numpy.where(numpy.isfinite(bound), bound, 0.0)
        return [bound, *[None] * (len(op.results) - 1)]

    def _carried(
        self, op: Operation, function: Any, actual: Sequence[Array], operands: Sequence[Shadow]
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

    def _own(self, op: Operation, actual: Sequence[Array], result: Array) -> Any:
        """The error of the operation itself, for exact operands."""
        unit = _unit(op.results[0])
        if not self._tf32:
            unit = min(unit, 2.0**-24)
        match op:
            case tt.DotOp():
                sizes = [numpy.abs(array) for array in actual]
                sizes[2] = numpy.zeros_like(sizes[2])
                terms = shape(op.a.type)[-1]
                product = function_for(op)(*sizes)  # type: ignore[misc]
                rough = (
                    2.0**-10 if self._tf32 and tt.precision_of(op) not in (None, "ieee") else 0.0
                )
                return (_roundings(terms) * unit + rough) * product + unit * result
            case tt.ReduceOp() | tt.ScanOp() if _adds(op):
                terms = shape(op.operands[0].type)[op.axis.value.data]
                return _roundings(terms) * unit * _over(op, numpy.abs(actual[0]), numpy.add)
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


_finfo: Any = ml_dtypes.finfo  # its call has no types


def _unit(value: SSAValue) -> float:
    """The largest relative error of one rounding to a value's dtype."""
    return float(_finfo(dtype(value.type)).eps) / 2


def _roundings(terms: int) -> float:
    """How many roundings the error of a sum of so many terms amounts to, in any order."""
    return float(min(terms, 4 * terms**0.5))


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


class _ErrorBounds(Detector):
    """Follow a bound for the rounding errors to what is stored."""

    tf32: ClassVar[bool] = True

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._bounds = _Bounds(ExactValues(Everything(run), unsigned_values(run)), self.tf32)
        self._memory = StoredShadows(FLOAT64)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        return ExactRun.observes(operation)

    def computed(self, computed: Computed) -> None:
        self._bounds.follow(computed)

    def before(self, access: Access) -> None:
        value = stored_value(access.operation)
        if value is None or not is_float(value):
            return
        shadow = self._bounds[value]
        if isinstance(access.request, Store):
            self._memory.write(access, shadow)
        elif isinstance(access.request, Atomic) and shadow is not None:
            self._memory.add(access, shadow)

    def after(self, access: Access, result: Value | None) -> None:
        if isinstance(access.request, Load):
            self._bounds.read[access.operation] = self._memory.read(access)

    def results(self, name: str) -> torch.Tensor:
        """Return the bound for each element of an argument."""
        tensor = self.run.tensors[name]
        shadow = self._memory.of_tensor(tensor)
        return torch.zeros(tensor.shape).double() if shadow is None else torch.from_numpy(shadow)


class _OrderBounds(_ErrorBounds):
    """The same in fp32: what a correct reference may be off by."""

    tf32 = False


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
    everything = _observed(session, Everything)
    exact, actual = everything.results(name), everything.run.tensors[name].double()
    of_reference = _observed(session, _OrderBounds).results(name)
    if not _near(exact, right, torch.maximum(allowed, of_reference)):
        return None
    bound = _observed(session, _ErrorBounds).results(name)
    within = _near(actual, right, torch.maximum(allowed, bound + of_reference))
    chosen: _Unrounded = everything
    remaining = everything.results(name)
    for cause in CAUSES:
        if not any(cause.rounds(op) for op in session.launch.code.module.walk()):
            continue
        without = _observed(session, cause)
        results = without.results(name)
        if without.first is not None and _near(results, right, allowed + of_reference):
            chosen, remaining = without, results
            break
    op = chosen.first
    if op is None:
        return None
    if isinstance(chosen, NarrowSums):  # the bound of a long sum says nothing
        part = relative_tolerance(dtype(op.results[0].type))
        within &= _near(actual, exact, part * (exact.abs() + size_of(exact)))
    precision = tt.precision_of(op) or ""
    words = chosen.words or "the operations of the kernel round their results"
    return Rounding(
        words.format(precision=precision, format=dtype(op.results[0].type)),
        chosen.remedy or "without any rounding",
        chosen.cause,
        tuple(locate(op.location).frames[::-1]),
        _largest(actual - exact),
        _largest(remaining - exact),
        within,
    )


def _observed(session: CheckSession, kind: type[Any]) -> Any:
    (detector,), stopped = session.run_detectors((kind,))
    if stopped is not None:
        raise Stopped(stopped)
    return detector


def _near(mine: torch.Tensor, other: torch.Tensor, allowed: torch.Tensor) -> bool:
    same = (mine == other) | (mine.isnan() & other.isnan())
    return bool((same | ((mine - other).abs() <= allowed)).all())


def _largest(away: torch.Tensor) -> float:
    return float(away.abs().nan_to_num(0.0, torch.inf, torch.inf).max())
