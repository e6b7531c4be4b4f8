"""Which elements of a result count as different, for every function that compares results."""

from __future__ import annotations

import pytest
import torch

from kernellab.launch.differences import (
    Within,
    differences_between,
    elements_off,
    is_within,
    tolerance,
)

INFINITY, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "allowed", "is_off"),
    [
        (1.05, 1.0, 0.1, False),
        (1.2, 1.0, 0.1, True),
        (NAN, NAN, 0.1, False),
        (1.0, NAN, 0.1, True),
        (INFINITY, INFINITY, 0.1, False),
        (3.0, INFINITY, INFINITY, True),
        (INFINITY, 3.0, INFINITY, True),
        (-INFINITY, INFINITY, INFINITY, True),
        (-0.0, 0.0, 0.0, False),
    ],
)
def test_one_element(actual: float, expected: float, allowed: float, is_off: bool) -> None:
    sides = torch.tensor([actual]), torch.tensor([expected])
    assert elements_off(*sides, torch.tensor([allowed])).tolist() == [is_off]


def test_without_a_tolerance_every_bit_counts() -> None:
    floats = torch.tensor([0.0, NAN, 1.0]), torch.tensor([-0.0, NAN, 1.0])
    assert elements_off(*floats, None).tolist() == [True, False, False]
    integers = torch.tensor([2**60, 5]), torch.tensor([2**60 + 1, 5])
    assert elements_off(*integers, None).tolist() == [True, False]


def test_a_number_is_not_accepted_for_an_infinity() -> None:
    right, got = torch.tensor([1.0, INFINITY]), torch.tensor([1.0, 3.0])
    rtol, atol = tolerance(right, None, None)
    (difference,) = differences_between({"x": right}, {"x": got}, rtol, atol)
    assert (difference.elements, difference.index) == (1, (1,))
    allowed = atol + rtol * right.double().abs()
    assert not is_within(got, Within(right, allowed))
