"""The contents of tensors after a launch, and the differences between two launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.ir import Operation

from kernellab.common.text import counted, number_texts
from kernellab.ir import tt
from kernellab.launch.records import Difference

Contents = Mapping[str, torch.Tensor]
"""The contents of the tensor arguments after a run, by name."""


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
    """Return whether no element is farther off than it may be; see `elements_off`."""
    return not elements_off(actual, expected.values, expected.allowed).any()


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
    wide = torch.complex128 if expected.is_complex() else torch.float64
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


def wrong_words(element: str, actual: Any, expected: Any, count: int, size: int) -> str:
    """Return a sentence about a wrong element, and how many of its argument are wrong.

    Args:
        element: its name, "z_ptr[3]".
        actual, expected: its value, and the right one.
        count, size: the number of wrong elements of the argument, and of all its elements.
    """
    left, right = number_texts(actual, expected)
    off = f"{count:,} of its {counted(size, 'element')} {'is' if count == 1 else 'are'} off"
    return f"{element} is {left}, and {right} is expected; {off}"


UNWRITTEN = "No program writes it: look at the grid, the offsets and the store's mask."
"""The advice for a wrong element that the launch did not change."""


def differences_between(
    expected: Contents, actual: Contents, rtol: float, atol: float
) -> Iterator[Difference]:
    """Yield a Difference for each argument that differs by more than `atol + rtol * |expected|`, or
    by a bit if both tolerances are 0.
    """
    for name, right in expected.items():
        want, got = right.double(), actual[name].double()
        off = elements_off(actual[name], right, atol + rtol * want.abs() if rtol or atol else None)
        if off.any():
            distance = (got - want).abs()
            flat = torch.where(off, distance.nan_to_num(nan=torch.inf), -1.0).argmax()
            place = tuple(int(index) for index in torch.unravel_index(flat, off.shape))
            yield Difference(
                name,
                int(off.sum()),
                off.numel(),
                float(distance[place]),
                place,
                right[place].item(),
                actual[name][place].item(),
            )


# How far results may be from the expected ones: one table for every comparison.


RELATIVE = {
    "float64": 1e-10,
    "float32": 1e-4,
    "tf32": 4e-3,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex128": 1e-10,
    "complex64": 1e-4,
    "complex32": 4e-3,
}
"""Format -> the relative tolerance for results with other tile sizes, whose sums have another
order. That of tf32 is that of fp16: both keep 11 bits.
"""

COARSEST = 0.13
"""The same for fp8: a quarter of a step of e5m2."""


def relative_tolerance(kind: object) -> float:
    """Return the relative tolerance of a dtype of torch or NumPy, or of a format by name."""
    name = getattr(kind, "name", None) or str(kind).removeprefix("torch.")
    return RELATIVE.get(name, COARSEST)


def tolerance(
    want: torch.Tensor, rtol: float | None, atol: float | None, rounding: float = 0.0
) -> tuple[float, float]:
    """Return rtol and atol for a result: those given, or the defaults of its dtype. `rounding` is
    the `dot_tolerance` of the kernel, if that is larger.

    The default atol is rtol times the root mean square of the tensor's finite elements, because
    elements near 0 are sums of larger ones.
    """
    if not want.is_floating_point() or rtol is not None or atol is not None:
        return rtol or 0.0, atol or 0.0
    part = max(relative_tolerance(want.dtype), rounding)
    return part, part * size_of(want)


def dot_tolerance(module: Operation) -> float:
    """Return the relative tolerance of the roughest precision in which a kernel's dots round the
    numbers of fp32 tiles; 0 if none does.
    """
    precisions = {tt.precision_of(op) for op in module.walk()}
    return max((RELATIVE[name] for name in precisions if name in RELATIVE), default=0.0)


def size_of(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite elements of a tensor; 0 if there are none."""
    numbers = tensor.double()
    finite = numbers[numbers.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0
