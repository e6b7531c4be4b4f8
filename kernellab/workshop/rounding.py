"""Right results with the error that rounding may cause: what a correct kernel may be off.

A `Rounded` is computed in float64, and carries for each element a bound of the error that a kernel
has which computes the same in single precision, whatever the order of its sums. Each operation adds
the error of rounding its result, and passes on the errors of its operands to
first order (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapters 2 to
4). Of a sum of n terms the bound is `min(n - 1, 4 sqrt(n)) u sum |x|`: roundings are independent
of each other, and a bound that grows with sqrt(n) holds except with a tiny probability (N. Higham
and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019, theorem 2.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernellab.launch.differences import Within

UNIT = 2.0**-24
"""The relative error of one rounding to float32."""

_SAFETY = 2.0
"""How much more than the bound is allowed: the bounds are of first order."""

_SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-126}
"""Below the smallest normal number, results may become 0; float16 keeps its subnormals."""


class Rounded:
    """Numbers with the error that a kernel may have made of each.

    Attributes:
        value: the exact numbers, float64.
        error: a bound of their errors, float64, with the same shape.
    """

    def __init__(self, value: torch.Tensor, error: torch.Tensor | None = None) -> None:
        """Numbers with their errors; without `error` they are exact."""
        self.value = value
        zeros = torch.zeros_like(value)
        self.error = zeros if error is None else torch.where(value.isfinite(), error, zeros)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __add__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        return _after_rounding(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Rounded | float) -> Rounded:
        return self + -exact(other)

    def __mul__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        error = self.value.abs() * other.error + other.value.abs() * self.error
        return _after_rounding(self.value * other.value, error + self.error * other.error)

    def __truediv__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        value = self.value / other.value
        error = (self.error + value.abs() * other.error) / other.value.abs()
        return _after_rounding(value, error, roundings=2)

    def exp(self) -> Rounded:
        """Return the exponential, for which a kernel may compute exp2(x * log2(e))."""
        value = self.value.exp()
        own = 2 * UNIT * (1 + self.value.abs().nan_to_num(0.0, 0.0, 0.0))
        return Rounded(value, value * (self.error.expm1() + own))

    def log(self) -> Rounded:
        """Return the natural logarithm."""
        return _after_rounding(self.value.log(), self.error / self.value + UNIT, roundings=3)

    def rsqrt(self) -> Rounded:
        """Return 1 / sqrt(x)."""
        value = self.value.rsqrt()
        return _after_rounding(value, value * self.error / self.value, roundings=2)

    def sigmoid(self) -> Rounded:
        """Return 1 / (1 + exp(-x)), for which a kernel may compute (1 + tanh(x / 2)) / 2."""
        plain = exact(1.0) / ((-self).exp() + 1.0)
        return Rounded(plain.value, plain.error + UNIT)

    def sum(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return sums along a dimension, added in any order."""
        terms = torch.tensor(self.value.shape[dim], dtype=torch.float64)
        error = self.error.sum(dim, keepdim=keepdim)
        sizes = self.value.abs().sum(dim, keepdim=keepdim)
        value = self.value.sum(dim, keepdim=keepdim)
        return Rounded(value, error + _additions(terms) * UNIT * sizes)

    def mean(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return means along a dimension."""
        return self.sum(dim, keepdim=keepdim) / float(self.value.shape[dim])

    def cumsum(self, dim: int) -> Rounded:
        """Return running sums along the last dimension, added in any order."""
        terms = torch.arange(1, self.value.shape[dim] + 1, dtype=torch.float64)
        rounding = _additions(terms) * UNIT * self.value.abs().cumsum(dim)
        return Rounded(self.value.cumsum(dim), self.error.cumsum(dim) + rounding)

    def max(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return the maximum along a dimension, which is not rounded."""
        return Rounded(self.value.amax(dim, keepdim=keepdim), self.error.amax(dim, keepdim=keepdim))

    def __matmul__(self, other: Rounded) -> Rounded:
        terms = torch.tensor(self.value.shape[-1], dtype=torch.float64)
        sizes = self.value.abs() @ other.value.abs()
        error = self.value.abs() @ other.error + self.error @ other.value.abs()
        rounding = (_additions(terms) + 1) * UNIT * sizes
        return Rounded(self.value @ other.value, error + rounding)

    def chosen(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> Rounded:
        """Return elements of a tensor: `choose` indexes, reshapes, transposes, or pads with 0."""
        return Rounded(choose(self.value), choose(self.error))

    def where(self, condition: torch.Tensor, other: float) -> Rounded:
        """Return these numbers where the condition holds, and `other` elsewhere."""
        zeros = torch.zeros_like(self.error)
        return Rounded(
            torch.where(condition, self.value, other), torch.where(condition, self.error, zeros)
        )

    def clamp(self, low: float | None = None, high: float | None = None) -> Rounded:
        """Return these numbers limited to a range, which is not rounded."""
        return Rounded(self.value.clamp(low, high), self.error)

    def rounded_to(self, dtype: torch.dtype) -> Rounded:
        """Return these numbers, which a kernel may have rounded to a dtype in between."""
        return Rounded(self.value, self.error + _unit(dtype) * self.value.abs())

    def or_as(self, other: Rounded) -> Rounded:
        """Return these numbers with the larger error of both: a kernel may compute either."""
        return Rounded(self.value, torch.maximum(self.error, other.error))

    def within(self, dtype: torch.dtype = torch.float32) -> Within:
        """Return what a kernel must store, and how far each element may be off."""
        value = self.value.to(dtype)
        if not self.error.any() and bool((value.double() == self.value).all()):
            return Within(value, self.error)
        allowed = _SAFETY * self.error + _unit(dtype) * self.value.abs() + _SMALLEST[dtype]
        return Within(value, torch.where(self.value.isfinite(), allowed, self.error))


def exact(value: Any) -> Rounded:
    """Return numbers as a kernel receives them, which are exact: tensors of any dtype, and Python
    numbers, which become float32.
    """
    if isinstance(value, Rounded):
        return value
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float32)
    return Rounded(value.double())


def unrounded(value: torch.Tensor) -> Within:
    """Return results that a kernel must store bit by bit."""
    return Within(value, torch.zeros(value.shape, dtype=torch.float64))


def softmax(scores: Rounded) -> Rounded:
    """Return the softmax of each row."""
    weights = (scores - scores.max(1, keepdim=True)).exp()
    return weights / weights.sum(1, keepdim=True)


def moments(x: Rounded) -> tuple[Rounded, Rounded]:
    """Return mean and variance of each row as columns, the variance computed in either way."""
    mean = x.mean(1, keepdim=True)
    away = x - mean
    variance = (away * away).mean(1, keepdim=True)
    return mean, variance.or_as((x * x).mean(1, keepdim=True) - mean * mean)


def _after_rounding(value: torch.Tensor, error: torch.Tensor, *, roundings: int = 1) -> Rounded:
    return Rounded(value, error + roundings * UNIT * value.abs())


def _additions(terms: torch.Tensor) -> torch.Tensor:
    """Return how many roundings the bound of a sum counts."""
    return torch.minimum(terms - 1, 4 * terms.sqrt())


def _unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2
