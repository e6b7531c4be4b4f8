"""What wrong results say by themselves."""

from typing import Any

import pytest
import torch

from kernellab.checker.fixes import READINGS, WrongTensor, likely_families, reading
from kernellab.checker.rewrites import LIKELY

GENERATOR = torch.Generator().manual_seed(1)
WANT = torch.randn(6, 4, generator=GENERATOR)
GIVEN = torch.rand(6, 4, generator=GENERATOR) + 0.5
TEXT = "def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK):\n    use(x_ptr, y_ptr, z_ptr, n, BLOCK)\n"


def said(got: torch.Tensor, want: torch.Tensor = WANT, text: str = TEXT, **values: Any) -> str:
    given = {"x_ptr": torch.zeros(3), "n": 24, "BLOCK": 8, **values}
    allowed = 1e-6 * want.double().abs()
    return reading(WrongTensor("z_ptr", got, want, allowed, given, text))


@pytest.mark.parametrize(
    "got",
    [
        WANT * 8, WANT / 24, WANT * 3, WANT * 1.4426950408889634, -WANT, WANT + 1, WANT - 8,
        WANT.T.reshape(6, 4), WANT.flip(0), WANT.exp(), torch.full((6, 4), 2.0),
        torch.where(torch.arange(6)[:, None] < 4, WANT, 0.0),
    ],
)  # fmt: skip
def test_a_relation_is_named(got, messages) -> None:
    assert said(got) == messages


def test_a_number_of_each_row_is_named() -> None:
    x = torch.randn(6, 4, generator=GENERATOR)
    for row, words in ((x.amax(1), "largest element"), (x.sum(1), "sum")):
        for sign, size in ((-1, "small"), (1, "large")):
            want = x.logsumexp(1)
            told = said(want + sign * row, want, x_ptr=x)
            assert f"too {size} by the {words} of its row of x_ptr" in told


def test_what_results_say_chooses_what_is_tried_first() -> None:
    for got, sign in ((WANT * 8, "scaled"), (WANT + 1, "shifted_by_a_number")):
        wrong = WrongTensor("z_ptr", got, WANT, 1e-6 * WANT.double().abs(), {}, TEXT)
        assert likely_families(wrong)[0] is LIKELY[sign][0]
    kinds = {"low_bits", "not_finite", "race", "missing-other", "unclear", "unsafe"}
    assert set(LIKELY) - kinds <= {one.__name__ for one in READINGS}


def test_a_number_that_an_argument_has_by_chance_says_nothing() -> None:
    want, got = (torch.randn(6, 4, generator=GENERATOR).half() for _ in "wg")
    assert said(got, want, x_ptr=torch.stack([want[0, 0], got[0, 0], got[1, 0]])) == ""


def test_an_argument_that_is_not_used_comes_first() -> None:
    text = "def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK):\n    use(x_ptr, z_ptr, n, BLOCK)\n"
    assert said(WANT * 8, text=text, y_ptr=WANT) == "y_ptr is never read."


def test_elements_of_an_argument_are_named(messages) -> None:
    x = torch.randn(4, 4, generator=GENERATOR)
    got = x + 0
    got[0, 1], got[2, 3] = x[1, 0], x[3, 2]
    assert said(got, x, x_ptr=x) == messages
    assert "swapped" in said(got, x, x_ptr=x)
    got[2, 3] = x[0, 0]  # by chance, one of the elements is that of the other row and column
    assert "swapped" not in said(got, x, x_ptr=x)
    got[0, 1] = 7
    assert said(got, x, x_ptr=x).endswith("is x_ptr[0, 1].")


@pytest.mark.parametrize(
    ("got", "values"),
    [
        (WANT / GIVEN, {"x_ptr": GIVEN}),
        (WANT * GIVEN[0], {"x_ptr": GIVEN[0]}),
        (WANT - GIVEN, {"x_ptr": GIVEN}),
        (WANT + GIVEN[:, :1], {"x_ptr": GIVEN[:, 0]}),
        (WANT / GIVEN[0] * GIVEN[0, 0], {"x_ptr": GIVEN[0]}),
        (WANT - GIVEN[:, :1] + GIVEN[0, 0], {"x_ptr": GIVEN[:, 0]}),
    ],
)
def test_a_missing_factor_or_term_is_named(got, values, messages) -> None:
    assert said(got, **values) == messages


def test_the_one_number_that_is_expected_where_it_is_wrong_is_named(messages) -> None:
    want = WANT.clamp(max=0.5)
    assert said(torch.where(WANT > 0.5, -0.25, WANT), want, n=0.5) == messages
    assert "0.5 (n)" in said(WANT.clone(), want, n=0.5)


LOOP = """def kernel(x_ptr, z_ptr, n, BLOCK):
    total = 0.0
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start)
        {line}
        tl.store(z_ptr{place}, {value})
"""


@pytest.mark.parametrize(
    ("line", "place", "value", "is_said"),
    [
        ("", "", "tl.sum(x, axis=0)", True),
        ("total = tl.sum(x, axis=0)", "", "total", True),
        ("total += tl.sum(x, axis=0)", "", "total", False),
        ("new = total + x; total = new", "", "new", False),
        ("", " + start", "x", False),
    ],
)
def test_a_store_over_that_of_the_iteration_before_is_named(line, place, value, is_said) -> None:
    text = LOOP.format(line=line or "pass", place=place, value=value)
    noise = torch.randn(6, 4, generator=GENERATOR)
    assert ("only the last one counts" in said(noise, text=text)) == is_said


def test_a_variable_that_is_never_read_is_named() -> None:
    text = "def kernel(x_ptr, z_ptr, n, BLOCK):\n    t = 1\n    use(x_ptr, z_ptr, n, BLOCK)\n"
    assert said(WANT * 8, text=text) == "t is computed, and never used."


def test_a_border_is_not_described_by_its_rows() -> None:
    want = torch.randn(8, 8, generator=GENERATOR)
    got = want.clone()
    got[1:, 7] = torch.randn(7, generator=GENERATOR)
    got[7, 1:] = torch.randn(7, generator=GENERATOR)
    assert said(got, want) == ""


def test_integers_that_do_not_fit_are_named() -> None:
    want = torch.tensor([128, -7, 1000])
    assert said(want.to(torch.int8), want).startswith(
        "z_ptr is int8, which holds -128 to 127; 128 "
    )
    assert "int8" not in said(want.to(torch.int8) + 1, want)


def test_equal_arguments_are_named() -> None:
    y = torch.where(torch.arange(4) == 2, GIVEN, GIVEN + 1)
    got = torch.where(y == GIVEN, WANT - GIVEN, WANT)
    told = said(got, x_ptr=GIVEN, y_ptr=y)
    assert told == "The wrong elements of z_ptr are those where x_ptr and y_ptr are equal."
    assert "equal" not in said(WANT - GIVEN, x_ptr=GIVEN, y_ptr=GIVEN)


def test_noise_says_nothing() -> None:
    assert said(torch.randn(6, 4, generator=GENERATOR)) == ""


def test_right_results_say_nothing() -> None:
    assert said(WANT.clone()) == ""
