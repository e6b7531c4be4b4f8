"""What wrong results say by themselves."""

from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from kernellab.checker.fixes import WrongTensor, reading

GENERATOR = torch.Generator().manual_seed(1)
WANT = torch.randn(6, 4, generator=GENERATOR)
TEXT = "def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK):\n    use(x_ptr, y_ptr, z_ptr, n, BLOCK)\n"


def said(got: torch.Tensor, want: torch.Tensor = WANT, text: str = TEXT, **values: Any) -> str:
    given = {"x_ptr": torch.zeros(3), "n": 24, "BLOCK": 8, **values}
    allowed = 1e-6 * want.double().abs()
    return reading(WrongTensor("z_ptr", got, want, allowed, given, text))


@pytest.mark.parametrize(
    "got",
    [
        WANT * 8,
        WANT / 24,
        WANT * 3,
        WANT * 1.4426950408889634,
        -WANT,
        WANT + 1,
        WANT - 8,
        WANT.T.reshape(6, 4),
        WANT.flip(0),
        WANT.exp(),
        torch.full((6, 4), 2.0),
        torch.where(torch.arange(6)[:, None] < 4, WANT, 0.0),
    ],
)
def test_a_relation_is_named(got: torch.Tensor, messages: SnapshotAssertion) -> None:
    assert said(got) == messages


def test_an_argument_that_is_not_used_comes_first() -> None:
    text = "def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK):\n    use(x_ptr, z_ptr, n, BLOCK)\n"
    assert said(WANT * 8, text=text, y_ptr=WANT) == "y_ptr is never read."


def test_elements_of_an_argument_are_named(messages: SnapshotAssertion) -> None:
    x = torch.randn(4, 4, generator=GENERATOR)
    got = x + 0
    got[0, 1], got[2, 3] = x[1, 0], x[0, 0]
    assert said(got, x, x_ptr=x) == messages


def test_noise_says_nothing() -> None:
    assert said(torch.randn(6, 4, generator=GENERATOR)) == ""


def test_right_results_say_nothing() -> None:
    assert said(WANT.clone()) == ""
