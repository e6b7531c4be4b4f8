"""Tolerances hold what single precision gives in other orders, and nothing that is farther off."""

import numpy
import pytest
import torch

from kernellab.launch.results import is_within
from kernellab.workshop.references import Rounded, exact, moments, softmax, unrounded

TABLE = torch.randn(20, 300, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
X = (TABLE * 3 - 2).float()


def in_sequence(x: torch.Tensor) -> torch.Tensor:
    """Sum each row from left to right in single precision."""
    return torch.from_numpy(numpy.add.accumulate(x.numpy(), axis=1, dtype=numpy.float32)[:, -1])


def column(rounded: Rounded) -> Rounded:
    return rounded.chosen(lambda values: values[:, 0])


@pytest.mark.parametrize(
    ("right", "computed"),
    [
        (exact(X).sum(1), lambda: in_sequence(X)),
        (exact(X).sum(1), lambda: in_sequence(X.flip(1))),
        (exact(X).sum(1), lambda: X.reshape(20, 2, 150).sum(1).sum(1)),
        (exact(X).cumsum(1), lambda: X.cumsum(1)),
        (exact(X).exp(), lambda: torch.exp2(X * 1.4426950408889634)),
        (exact(X).sigmoid(), lambda: 0.5 + 0.5 * torch.tanh(0.5 * X)),
        (softmax(exact(X)), lambda: X.softmax(1)),
        (softmax(exact(X)), lambda: torch.exp(X - X.logsumexp(1, keepdim=True))),
        (column(moments(exact(X))[1]), lambda: (X * X).mean(1) - X.mean(1) ** 2),
        (exact(X) @ exact(X.T), lambda: X @ X.T),
        (
            exact(X) * 0.1 + 0.3,
            lambda: torch.addcmul(torch.full_like(X, 0.3), X, torch.tensor(0.1)),
        ),
    ],
)
def test_other_orders_are_within(right: Rounded, computed) -> None:
    assert is_within(computed(), right.within())


@pytest.mark.parametrize(
    ("right", "off"),
    [
        (exact(X) + 1.0, 1e-6),
        (exact(X) * exact(X), 1e-6),
        (exact(X).sigmoid() * exact(X), 1e-6),
        (softmax(exact(X)), 1e-4),
        (exact(X).sum(1), 1e-4),
        (exact(X) @ exact(X.T), 1e-4),
    ],
)
def test_a_relative_error_is_not(right: Rounded, off: float) -> None:
    within = right.within()
    assert is_within(within.values, within)
    assert not is_within(within.values.double() * (1 + off), within)


def test_the_float16_of_attention_is_within_and_one_percent_is_not() -> None:
    values = exact(TABLE[:, :16].half())
    right = (softmax(exact(X[:, :20])).rounded_to(torch.float16) @ values).within(torch.float16)
    weights = X[:, :20].softmax(1).half().float()
    assert is_within((weights @ values.value.float()).half(), right)
    assert not is_within(right.values * 1.01, right)


def test_what_is_not_rounded_counts_bit_by_bit() -> None:
    for right in (unrounded(X), exact(X).chosen(lambda values: values.flip(0)).within()):
        assert not right.allowed.any()
    infinite = exact(X).where(X > 0, -float("inf")).within()
    assert not infinite.allowed.isnan().any()
