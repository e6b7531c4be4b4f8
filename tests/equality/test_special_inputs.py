"""Pairs that differ for special inputs only, which random residues do not hold, are not "equal"."""

import pytest
import torch

from tests.support.equal_expressions import FINITE, SIZE, Function, compared

UNEQUAL: list[tuple[str, str, str | Function]] = [
    # the sign of what a logarithm, a root or a power is taken of
    ("f32", "tl.log(-x)", "tl.log(x)"),
    ("f32", "tl.maximum(tl.log(x), -5.0)", "tl.maximum(tl.log(tl.abs(x)), -5.0)"),
    ("f32", "tl.where(tl.log(x) != tl.log(x), 0.0, tl.log(x))", "tl.log(tl.abs(x))"),
    ("f32", "tl.log(x * x)", "2 * tl.log(x)"),
    ("f32", "tl.exp(tl.log(x) + tl.log(y))", "x * y"),
    ("f32", "tl.maximum(tl.sqrt(x), 0.0)", "tl.maximum(tl.sqrt(tl.abs(x)), 0.0)"),
    ("f32", "tl.sqrt(x * x)", "x"),
    ("f32", "tl.sqrt(x) * tl.sqrt(y)", "tl.sqrt(x * y)"),
    ("f32", "libdevice.pow(x, 2.0)", "tl.exp(2.0 * tl.log(x))"),
    # zeros of both signs, and equal elements
    ("f32", "x / x", "ones"),
    ("f32", "x * y / y", "x"),
    ("f32", "x * x / x", "x"),
    ("f32", "1 / (x + 0.0)", "1 / x"),
    ("f32", "x / tl.abs(x)", "tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))"),
    ("f32", "x / tl.max(tl.abs(x), 0) * tl.max(tl.abs(x), 0)", "x"),
    ("f32", "tl.where(tl.sum(x) == 0, 1.0, x)", "x"),
    ("f32", "tl.where(x > y, 1.0, 0.0)", "tl.where(x >= y, 1.0, 0.0)"),
    ("f32", "tl.argmax(x, 0) + place", "tl.argmax(x, 0, tie_break_left=False) + place"),
    ("f32", "tl.sum(tl.where(x == tl.max(x, 0), 1.0, 0.0), 0) * ones", "ones"),
    # one element of many, which no other run has as the largest, or as the only one
    ("f32", "tl.max(x, 0) * ones", "tl.max(tl.where(place == 29, -1e9, x), 0) * ones"),
    ("f32", "tl.min(x, 0) * ones", "tl.min(tl.where(place == 29, 1e9, x), 0) * ones"),
    ("f32", "tl.argmax(x, 0) * ones", "tl.argmax(tl.where(place == 29, -1e9, x), 0) * ones"),
    ("f32", "tl.cumprod(tl.where(x != x, 0, 1), 0) * x",
     "tl.cumprod(tl.where((x != x) & (place != 29), 0, 1), 0) * x"),
    ("f32", "tl.cumprod(tl.where(x != x, 0.0, 1.0), 0) * x",
     "tl.cumprod(tl.where((x != x) & (place != 29), 0.0, 1.0), 0) * x"),
    ("f32", "tl.max(tl.maximum(x, -x), 0) * ones",
     "tl.max(tl.where(place == 29, 0.0, tl.maximum(x, -x)), 0) * ones"),
    ("f32", "tl.max((x > 9).to(tl.int32), 0) * ones",
     "tl.max(((x > 9) & (place != 29)).to(tl.int32), 0) * ones"),
    ("f32", "tl.where(tl.sum((x != x).to(tl.int32), 0) > 0, 1, 0) * ones",
     "tl.where(tl.sum(((x != x) & (place != 29)).to(tl.int32), 0) > 0, 1, 0) * ones"),
    ("f32", "tl.where((x != x) & (place == 29), 0.0, x)", "x"),
    ("i32", "tl.max(x, 0) + 0 * x", "tl.max(tl.where(place == 29, -(2**30), x), 0) + 0 * x"),
    # constants, of which some are denormal
    ("f32", "tl.where(x == 3.5, 0.0, x)", "x"),
    ("f32", "tl.where(x * x == 9.0, 0.0, x)", "x"),
    ("f32", "tl.where(tl.abs(x) <= 2.5, x, 2.5)", "tl.where(tl.abs(x) < 2.5, x, 2.5)"),
    ("f32", "tl.where(x > 1e20, 0.0, x)", "tl.where(x >= 1e20, 0.0, x)"),
    ("f32", "tl.where(tl.abs(x) < 1e-40, 1.0, 0.0)", "0 * ones"),
    ("f32", "x", lambda x, y: torch.where(x == 5.5, 0.0, x)),
    # NaN and infinity
    ("f32", "x - x", "0 * ones"),
    ("f32", "tl.where(x != x, 0.0, x)", "x"),
    ("f32", "tl.maximum(x, 0.0)", lambda x, y: x.relu()),
    *(("f32", f"tl.sum(tl.where({kept}, x, 0.0), 0) * ones", f"tl.sum(x * ({kept}), 0) * ones")
      for kept in ("place % 2 == 0", "place > 5", "place == 0", "place != 37")),
    ("f32", "tl.sum(tl.where(place[:, None] < 9, x * y[:, None], 0.0), 0)",
     "tl.sum(x * y[:, None] * (place[:, None] < 9), 0)"),
    ("f32", "tl.maximum(x, y)", torch.maximum),
    ("f32", "tl.where((x > y) | (y != y), x, y)", torch.maximum),
    ("f32", "tl.where(x > y, x, y)", "tl.where(y > x, y, x)"),
    ("f32", "tl.min(x, 0) * ones", lambda x, y: x.amin().expand(SIZE)),
    ("f32", "tl.where(x == float('inf'), 0.0, x)", "x"),
    ("f32", "x", lambda x, y: x.nan_to_num()),
    # negative integers, and those that overflow
    ("i32", "x // 2", "x >> 1"),
    ("i32", "x % 4", "x & 3"),
    ("i32", "x // y", lambda x, y: x // y),
    ("i32", "x % y", torch.remainder),
    ("i32", "x >> y", "x.to(tl.uint32) >> y"),
    ("i32", "x << (y & 31)", "x << y"),
    ("i32", "(x * 3) // 3", "x"),
    ("i32", "(x + 1 > x).to(tl.int32)", "x * 0 + 1"),
    ("i32", "x.to(tl.uint8).to(tl.int32)", "x.to(tl.int8).to(tl.int32)"),
    ("i32", "tl.maximum(x, y)", "tl.maximum(x.to(tl.uint32), y.to(tl.uint32)).to(tl.int32)"),
    ("i32", "tl.where(x == 77777, y, x)", "x"),
    ("i8 i32", "(x + y).to(tl.int32)", "x.to(tl.int32) + y.to(tl.int32)"),
    ("i64", "x.to(tl.int32).to(tl.int64)", "x"),
    ("i32 f32", "x.to(tl.float32) * 2", "(x * 2).to(tl.float32)"),
    ("i32 f32", "x.to(tl.uint32).to(tl.float32)", "x.to(tl.float32)"),
    ("i32", "(x.to(tl.float32) == (x + 1).to(tl.float32)).to(tl.int32)", "x * 0"),
]  # fmt: skip


@pytest.mark.sampled(21)
@pytest.mark.parametrize(("kind", "first", "second"), UNEQUAL)
def test_what_differs_for_special_inputs_is_not_equal(kind, first, second, tmp_path) -> None:
    equality = compared(kind, first, second, tmp_path)
    assert equality.verdict != "equal"
    assert equality.difference is not None
    assert equality.difference.floats is not None, "a run shows it"


RARE = [
    "tl.where((x * x > 30) & (x * x < 40), 0.0, x)",
    "tl.where((x * x > 1000) & (x * x < 1100), 0.0, x)",
    "tl.where(x * x <= 1000, x, tl.where(x * x >= 1100, x, 0.0))",
    "tl.where((x > -3) & (x < 3), x * (1 + 1e-9 * x), x)",
    "tl.where(tl.abs(x * 0.5 + 20) < 0.25, 0.0, x)",
    "tl.where(libdevice.floor(x * 1000) == 123456.0, 0.0, x)",
    "tl.where(libdevice.floor(x * 1000) == 0.0, 0.0, x)",
    "tl.minimum(tl.maximum(x, -5e9), 5e9)",
    lambda x, y: torch.where((x * x > 30) & (x * x < 40), 0.0, x),
    lambda x, y: x.clamp(-5e9, 5e9),
    lambda x, y: torch.where((x * x > 1000) & (x * x < 1100), 0.0, x),
    lambda x, y: torch.where(x * x > 1000, torch.where(x * x < 1001, 0.0, x), x),
    lambda x, y: torch.where(x * x <= 30, x, torch.where(x > 0, torch.where(x * x < 31, 0, x), x)),
]
"""x, except in a narrow place."""


THIRD, SEVENTH, LAST = (f"tl.load(x_ptr + {place})" for place in (3, 7, 63))
FEW = torch.arange(SIZE)

OF_TWO: list[tuple[str, str | Function]] = [
    ("f32", f"tl.where(({THIRD} > 0) & ({SEVENTH} < 0), x + 1, x)"),
    ("f32", f"tl.where({THIRD} == {SEVENTH}, x + 1, x)"),
    ("f32", f"tl.where({THIRD} + {SEVENTH} == 0, 0.0, x)"),
    ("f32", f"tl.where({THIRD} == tl.max(x, 0), 0.0, x)"),
    ("f32", f"tl.where((tl.argmax(x, 0) == 29) & ({LAST} > 0), x + 1, x)"),
    ("f32", "tl.where(tl.argmax(x, 0) == tl.argmax(y, 0), 0.0, x)"),
    ("f32", "tl.where((place == 3) & (x > 0) & (y < 0), x * 1.0001, x)"),
    ("f32", "tl.where(x > 0, tl.where((y < 0) & (place == 40), 0.0, x), x)"),
    ("f32",
     "x + (x > 0).to(tl.float32) * (y < 0).to(tl.float32) * tl.where(place == 17, 1.0, 0.0)"),
    ("f32", f"tl.where(({THIRD} > 0).to(tl.int32) + ({SEVENTH} < 0).to(tl.int32) == 2, 0.0, x)"),
    ("f32", "tl.where(tl.sum((x > y).to(tl.int32), 0) == 5, 0.0, x)"),
    ("f32", lambda x, y: torch.where((x[3] > 0) & (x[7] < 0), x + 1, x)),
    ("f32", lambda x, y: torch.where((x.argmax() == 29) & (x[63] > 0), x + 1, x)),
    ("f32", lambda x, y: torch.where((x > 0) & (y < 0) & (FEW == 3), x + 1, x)),
    ("f32", lambda x, y: torch.where((x > 0).sum() == 1, x + 1, x)),
    ("f32", lambda x, y: x + (x > 0) * (y < 0) * (FEW == 17)),
    ("i32", "tl.where(tl.sum(x, 0) == 100, 0, x)"),
    ("i32", f"tl.where(({THIRD} > 5) & ({SEVENTH} < -5), 0, x)"),
]  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kind", "second", "inputs"),
    [*(("f32", second, "finite") for second in RARE), *((*each, "all") for each in OF_TWO)],
)
def test_a_narrow_place_and_two_elements_are_compared(kind, second, inputs, tmp_path) -> None:
    assert compared(kind, "x", second, tmp_path, inputs=inputs).verdict != "equal"


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("kind", "first", "second"), FINITE)
def test_pieces_of_functions_are_equal(kind, first, second, tmp_path) -> None:
    equality = compared(kind, first, second, tmp_path, inputs="finite")
    assert equality.verdict == "equal", equality


def test_finite_inputs_alone(tmp_path) -> None:
    relu = "f32", "tl.maximum(x, 0.0)", lambda x, y: x.relu()
    assert "NaN" in compared(*relu, tmp_path).reason
    finite = compared(*relu, tmp_path, inputs="finite")
    assert finite.verdict == "equal"
    assert "finite" in str(finite)
