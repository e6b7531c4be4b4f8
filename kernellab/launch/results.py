"""Results of launches compared: which elements differ, how far each may be off, and where that
bound comes from (docs/tolerances.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import torch
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.codegen.analyses import underlying_objects
from kernellab.interpreter.execution.program import ProgramCode, entry_of, per_code
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import GlobalAccess, MovesElements, argument_name, has, trait_of
from kernellab.ir.types import dtype, is_float, shape
from kernellab.records.launches import Difference

# Two tensors, element by element.


Contents = Mapping[str, torch.Tensor]
"""The contents of the tensor arguments after a run, by name."""

Piece = tuple[slice, ...]
"""A part of a tensor that is compared at a time."""

Allowed = Callable[[Piece, torch.Tensor, torch.Tensor], torch.Tensor]
"""How far each element of a piece may be off, float64, given what the piece is and should be."""

Bounds = Callable[[str, torch.Tensor, torch.Tensor], Allowed | None]
"""How far the elements of a tensor may be off, given its name, what it is and what it should be;
None if every bit counts. It is called for a tensor that differs in a bit.
"""


def exactly(name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Return no tolerance: every bit counts."""
    del name, actual, expected


def compare(
    actual: Contents,
    expected: Contents,
    bounds: Bounds = exactly,
    were_touched: Callable[[torch.Tensor, torch.Tensor], bool] = lambda _, __: True,
) -> Iterator[Difference]:
    """Yield a Difference for each expected tensor with an element that differs by more than
    allowed. All of KernelLab uses it to compare results: NaN equals NaN, an infinity equals only
    itself, and 0 is not -0 if every bit counts.

    Args:
        actual, expected: tensors of the same shapes, by name; dtypes may differ.
        bounds: how far the elements may be off, usually `Tolerances`.
        were_touched: prepares two pieces to be compared, and returns whether they may differ.
    """
    for name, want in expected.items():
        difference = _difference(name, actual[name], want, bounds, were_touched)
        if difference is not None:
            yield difference


def is_equal(actual: torch.Tensor, expected: torch.Tensor, bounds: Bounds = exactly) -> bool:
    """Return whether `compare` finds no difference between two tensors of one shape."""
    return next(compare({"": actual}, {"": expected}, bounds), None) is None


def _difference(
    name: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    bounds: Bounds,
    were_touched: Callable[[torch.Tensor, torch.Tensor], bool],
) -> Difference | None:
    actual, expected = (each.resolve_conj().resolve_neg() for each in (actual, expected))
    places = {(each.data_ptr(), each.stride(), each.dtype) for each in (actual, expected)}
    if actual.numel() > 0 and len(places) == 1:
        return None  # the same memory
    allowed = functools.cache(lambda: bounds(name, actual, expected))
    first: Difference | None = None
    count, largest = 0, 0.0
    for piece in pieces(tuple(expected.shape)):
        got, want = actual[piece], expected[piece]
        if not were_touched(got, want) or _has_same_bits(got, want):
            continue
        bound = allowed()
        limits = None if bound is None else bound(piece, got, want)
        off = elements_off(got, want, limits)
        if not off.any():
            continue
        count += int(off.sum())
        wide = _wide(want)
        away = (got.to(wide) - want.to(wide)).abs()[off].nan_to_num(nan=torch.inf)
        largest = max(largest, float(away.max()))
        if first is None:
            place = tuple(int(i) for i in off.nonzero()[0])
            index = tuple(along.start + i for along, i in zip(piece, place))
            first = Difference(
                name,
                index,
                actual[index].item(),
                expected[index].item(),
                allowed=0.0 if limits is None else float(limits.expand(off.shape)[place]),
            )
    return first and replace(first, count=count, size=expected.numel(), largest=largest)


def elements_off(
    actual: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor | None
) -> torch.Tensor:
    """Return which elements are farther from the expected ones than they may be. NaN equals NaN,
    and an infinity equals only itself, whatever is allowed.

    Args:
        actual, expected: tensors of one shape.
        allowed: how far each element may be off, float64; None if every bit counts, so that 0 is
            not -0.
    """
    wide = _wide(expected)
    got, want = actual.to(wide), expected.to(wide)
    same = (got == want) | (got.isnan() & want.isnan())
    if allowed is not None:
        distance = (got - want).abs()
        return ~same & ~(distance.isfinite() & (distance <= allowed))
    if expected.is_complex():
        return ~same
    if not actual.is_floating_point() and not expected.is_floating_point():
        return actual != expected  # float64 does not hold every int64
    return ~same | (got.signbit() != want.signbit()) & ~want.isnan()


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64


def is_finite(value: Any) -> bool:
    """Return whether a value is not a tensor of floats, or one without NaN and infinity."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return True
    wide = value.float() if value.itemsize == 1 else value  # torch has no isfinite of most fp8
    return bool(wide.isfinite().all())


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _has_same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.element_size() not in _BITS:
        return False
    whole = _BITS[first.element_size()]
    return torch.equal(first.view(whole), second.view(whole))


_PIECE = 1 << 22
"""The number of elements that are compared together: intermediate results take memory."""


def pieces(shape: tuple[int, ...]) -> Iterator[Piece]:
    """Yield the parts of a tensor that are compared together, in the order of their elements."""
    whole = tuple(slice(0, size) for size in shape)
    if math.prod(shape) <= _PIECE:
        yield whole
        return
    row = math.prod(shape[1:])
    if row > _PIECE:
        for place in range(shape[0]):
            for rest in pieces(shape[1:]):
                yield slice(place, place + 1), *rest
        return
    rows = max(1, _PIECE // max(row, 1))
    for start in range(0, shape[0], rows):
        yield slice(start, min(start + rows, shape[0])), *whole[1:]


# How far results may be off: docs/tolerances.md.


@dataclass(frozen=True)
class Within:
    """Expected contents of a tensor, with a tolerance for each element.

    Attributes:
        values: the expected elements.
        allowed: how far each may be off, float64, with the same shape.
    """

    values: torch.Tensor
    allowed: torch.Tensor


def is_within(actual: torch.Tensor, expected: Within) -> bool:
    """Return whether no element is farther off than it may be."""
    return is_equal(actual, expected.values, Tolerances(stated={"": expected.allowed}))


@dataclass(frozen=True)
class Tolerances:
    """How far results may be off, the `Bounds` of every comparison with a tolerance: what is stated
    for an argument, else `atol + rtol * |expected|` if one of both is given, else what rounding
    explains: a part of the expected element plus the same part of the tensor's size, because
    elements near 0 are sums of larger ones.

    Attributes:
        rtol, atol: the tolerances that the user gave.
        stated: how far each element may be off, float64, of the results whose author stated it.
        parts: returns the part by argument, see `rounding_of`; that of the dtype by default.
        noise: how far each element may be off in any case, float64, also of integers.
    """

    rtol: float | None = None
    atol: float | None = None
    stated: Mapping[str, torch.Tensor] = field(default_factory=dict)
    parts: Callable[[], Mapping[str, float]] = dict
    noise: torch.Tensor | None = None

    def __call__(self, name: str, actual: torch.Tensor, expected: torch.Tensor) -> Allowed | None:
        """Return how far the elements of one tensor may be off."""
        if name in self.stated and expected.is_floating_point():
            elements = self.stated[name]
            return lambda piece, _, __: elements[piece]
        if self.rtol is None and self.atol is None:
            relative = self._part(name, actual, expected)
            absolute = relative * size_of(expected)
        else:
            relative, absolute = self.rtol or 0.0, self.atol or 0.0
        if not relative and not absolute and self.noise is None:
            return None
        wide = _wide(expected)
        if self.noise is None:
            return lambda _, __, want: absolute + relative * want.to(wide).abs()
        noise = self.noise.expand(expected.shape)
        return lambda piece, _, want: torch.maximum(
            absolute + relative * want.to(wide).abs(), noise[piece]
        )

    def elements(self, name: str, actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """Return how far each element may be off, float64; 0 if every bit counts."""
        allowed = self(name, actual, expected)
        if allowed is None:
            return torch.zeros(expected.shape, dtype=torch.float64)
        return allowed(tuple(slice(0, size) for size in expected.shape), actual, expected)

    def _part(self, name: str, actual: torch.Tensor, expected: torch.Tensor) -> float:
        """Return the part that rounding explains; 0 of integers."""
        usual = max(relative_tolerance(actual.dtype), relative_tolerance(expected.dtype))
        if not usual or actual.dtype == expected.dtype:
            return self.parts().get(name, usual) if usual else 0.0
        return max(usual, self.parts().get(name, 0.0))


RELATIVE = {
    "float64": 1e-10, "float32": 1e-4, "tf32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2,
    "complex128": 1e-10, "complex64": 1e-4, "complex32": 4e-3,
}  # fmt: skip
"""Format -> the relative tolerance for results with other tile sizes, whose sums have another
order. That of tf32 is that of fp16: both keep 11 bits.
"""

COARSEST = 0.13
"""The same for fp8: a quarter of a step of e5m2."""


def relative_tolerance(kind: object) -> float:
    """Return the relative tolerance of a dtype of torch or NumPy, or of a format by name; 0 of
    integers.
    """
    name = getattr(kind, "name", None) or str(kind).removeprefix("torch.")
    return 0.0 if name.startswith(("int", "uint", "bool")) else RELATIVE.get(name, COARSEST)


def size_of(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite elements of a tensor; 0 if there are none."""
    total, count = 0.0, 0
    for piece in pieces(tuple(tensor.shape)):
        numbers = tensor[piece].to(_wide(tensor)).abs()
        finite = numbers[numbers.isfinite()]
        total, count = total + float(finite.square().sum()), count + finite.numel()
    return math.sqrt(total / count) if count else 0.0


# What rounding explains in the results of one kernel, known before it runs.


_SAFETY = 4.0
"""How many times the sum of a kernel's roundings a result may be off."""


def additions(terms: float) -> float:
    """Return how many roundings the error of a sum of so many terms amounts to, in any order."""
    return min(max(terms - 1.0, 0.0), 4.0 * math.sqrt(terms))


def unit_of(kind: Any) -> float:
    """Return the largest relative error of one rounding to a floating-point dtype of NumPy."""
    return float(_finfo(kind).eps) / 2


_finfo: Any = ml_dtypes.finfo  # its call has no types


@per_code
def rounding_of(code: ProgramCode, *, own_formats: bool = True) -> Mapping[str, float]:
    """Return which part of a result rounding may change, by argument.

    For a result that is computed by additions, multiplications, divisions and sums of a known
    length, it is four times the sum of their roundings, each half a unit in the last place of its
    format, and of one that the expected result has. It is at most the tolerance of the coarsest
    format among them, which also is that of all other results: of functions, of loops that carry
    floats, of matmuls, of atomics.

    Args:
        own_formats: whether formats in which the kernel rounds and its results are not stored
            count, such as tf32.
    """
    function = entry_of(code.module)
    objects = underlying_objects(function)
    stored: dict[SSAValue | None, list[SSAValue]] = {}
    for op in function.walk():
        access = trait_of(op, GlobalAccess)
        value = None if access is None else access.value_of(op)
        if access is not None and value is not None and is_float(value):
            base = access.base_of(op)
            own = base if flow.is_parameter(base) else None  # else a descriptor of the kernel's
            stored.setdefault(objects.get(base, own), []).append(value)
    whole = [value for values in stored.values() for value in values]

    def part(argument: BlockArgument) -> float:
        values = whole if None in stored else stored.get(argument, [])
        rounded = list(_roundings(values, lambda base: objects.get(base) in {*stored, None}))
        unit = max((unit_of(dtype(value.type)) for value in values), default=0.0)
        usual = max((relative_tolerance(dtype(value.type)) for value in values), default=0.0)
        if own_formats:
            usual = max(usual, *(relative_tolerance(each.format) for each in rounded), 0.0)
        return min(usual, _SAFETY * (unit + sum(each.times * each.unit for each in rounded)))

    entry = function.body.blocks[0]
    parts = {argument_name(argument) or "": part(argument) for argument in entry.args}
    return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class _Rounding:
    """One operation that rounds.

    Attributes:
        format: a dtype, or the name of a precision.
        times: how many roundings it is; infinity if it is not known.
    """

    format: Any
    times: float

    @property
    def unit(self) -> float:
        return 1.0 if isinstance(self.format, str) else unit_of(self.format)


def _roundings(
    values: Iterable[SSAValue], is_rewritten: Callable[[SSAValue], bool]
) -> Iterator[_Rounding]:
    """Yield the operations that round on the way to some values. `is_rewritten` says whether the
    kernel may have written what a pointer points to.
    """

    def ends(value: SSAValue) -> bool:
        return not is_float(value) or (
            isinstance(value.owner, Operation) and has(value.owner, GlobalAccess)
        )

    for value in flow.backward(values, ends):
        if not is_float(value):
            continue
        op = value.owner if isinstance(value, OpResult) else value.owner.parent_op()
        assert isinstance(op, Operation)
        access = trait_of(op, GlobalAccess)
        if access is not None:
            times = math.inf if is_rewritten(access.base_of(op)) else 0.0
        else:
            times = _times(op)
        if times:
            yield _Rounding(dtype(value.type), times)
        if (precision := tt.precision_of(op)) is not None and precision in RELATIVE:
            yield _Rounding(precision, math.inf)


def _times(op: Operation) -> float:
    if has(op, MovesElements):
        return 0.0
    match op:
        case tt.ReduceOp() | tt.ScanOp():
            inner = (each for each in op.combine.walk() if any(map(is_float, each.results)))
            each = sum(map(_times, inner))
            terms = shape(op.operands[0].type)[op.axis.value.data]
            return each * additions(terms) if each else 0.0
        case _:
            return _TIMES.get(type(op), math.inf)


_TIMES: Mapping[type[Operation], float] = {
    **dict.fromkeys(
        (
            mlir.ConstantOp, mlir.ExtFOp, mlir.NegFOp, mlir.AbsFOp, mlir.MaximumFOp,
            mlir.MinimumFOp, mlir.MaxNumFOp, mlir.MinNumFOp, mlir.IfOp, tt.FuncOp, tt.ClampFOp,
            tt.InlinedCallOp, mlir.PoisonOp,
        ),
        0.0,
    ),
    **dict.fromkeys(
        (
            mlir.AddFOp, mlir.SubFOp, mlir.MulFOp, mlir.FmaOp, mlir.TruncFOp, tt.FpToFpOp,
            mlir.SIToFPOp, mlir.UIToFPOp,
        ),
        1.0,
    ),
    **dict.fromkeys((mlir.DivFOp, tt.PreciseDivFOp, mlir.SqrtOp, tt.PreciseSqrtOp), 2.0),
}  # fmt: skip
"""Operation -> how many roundings it is. All others, such as functions, amplify the errors of
their operands.
"""


UNWRITTEN = "No program writes it: look at the grid, the offsets and the store's mask."
"""The advice for a wrong element that the launch did not change."""
