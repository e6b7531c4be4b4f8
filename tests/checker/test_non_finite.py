"""Where NaN and infinity are said to begin, beside a lane-by-lane computation in plain Python."""

import inspect
import warnings
from typing import Any

import ml_dtypes
import numpy
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.checker.detectors.non_finite import NonFinite
from kernellab.checker.nan_sources import not_finite, too_large_for
from tests.checker.corpus.dot_precision import product
from tests.checker.corpus.non_finite import softmax_without_maximum


@triton.jit
def chain(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + lanes), tl.load(y_ptr + lanes), tl.load(z_ptr + lanes)
    square = x * x
    grown = tl.exp2(square)
    less = grown - y
    ratio = less / z
    root = tl.sqrt(ratio)
    clipped = tl.where(z > 4.0, 1.0 / root, root)
    tl.store(out_ptr + lanes, clipped)


STEPS = ("square", "grown", "less", "ratio", "root", "clipped")


def first_of_a_lane(x: numpy.float32, y: numpy.float32, z: numpy.float32) -> tuple[str, str] | None:
    """(step, kind) of what the lane stores that is not finite and that its inputs were not; None for nothing."""
    origin: tuple[str, str] | None = None

    def step(name: str, result: numpy.float32, *operands: numpy.float32) -> numpy.float32:
        nonlocal origin
        if numpy.isfinite(result):
            origin = None
        elif origin is None:
            if numpy.isnan(result) and not numpy.isnan(operands).any():
                origin = name, "nan"
            elif numpy.isfinite(operands).all():
                origin = name, "infinity"
        return result

    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        square = step("square", x * x, x)
        grown = step("grown", numpy.exp2(square), square)
        less = step("less", grown - y, grown, y)
        ratio = step("ratio", less / z, less, z)
        root = step("root", numpy.sqrt(ratio), ratio)
        if z > 4:
            step("clipped", numpy.float32(1) / root, root)
    return origin


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_of_arithmetic_begins_where_each_lane_says(seed) -> None:
    chance = numpy.random.default_rng(seed)
    special = [0.0, 1.0, -3.0, 5.0, 12.0, 1e20, numpy.inf, -numpy.inf, numpy.nan]
    x, y, z = chance.choice(special, (3, 32)).astype(numpy.float32)
    found = kernellab.check(
        chain, (1,), *(torch.from_numpy(one) for one in (x, y, z)), torch.zeros(32), BLOCK=32
    )
    lines, start = inspect.getsourcelines(chain.fn)
    line_of = {
        name: start
        + next(n for n, line in enumerate(lines) if line.strip().startswith(f"{name} ="))
        for name in STEPS
    }
    expected: dict[tuple[str, int], int] = {}
    for lane in range(32):
        origin = first_of_a_lane(x[lane], y[lane], z[lane])
        if origin is not None:
            key = origin[1], line_of[origin[0]]
            expected[key] = expected.get(key, 0) + 1
    assert len(expected) > 2, "the values try too little"
    assert {(one.kind, one.line): one.count for one in found} == expected, str(found)


@triton.jit
def other_program(x_ptr, scratch_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(scratch_ptr + lanes, tl.log(tl.load(x_ptr + lanes)))
    else:
        tl.store(out_ptr + lanes, tl.load(scratch_ptr + lanes) * 2.0)


def test_what_went_through_memory_began_where_it_was_written() -> None:
    x = torch.tensor([1.0, 0.0, 2.0, -1.0])
    found = kernellab.check(other_program, (2,), x, torch.zeros(4), torch.zeros(4), BLOCK=4)
    values = sorted(
        (one for one in found if one.kind in ("nan", "infinity")), key=lambda one: one.kind
    )
    assert [(one.kind, one.argument, one.index) for one in values] == [
        ("infinity", "scratch_ptr", (1,)),
        ("nan", "scratch_ptr", (3,)),
    ]
    # One element of each kind, stored twice: by program 0 to the scratch, by program 1 to the output.
    assert [(one.count, one.program_count) for one in values] == [(2, 2), (2, 2)]


@triton.jit
def running(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    tile = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + tile, tl.cumsum(tl.trans(tl.trans(tl.load(x_ptr + tile)) * 2.0), axis=1))


def test_rows_and_transposes_keep_lanes_apart() -> None:
    x = torch.ones(4, 8)
    x[2, 5] = 3e38
    (finding,) = kernellab.check(running, (1,), x, torch.zeros(4, 8), ROWS=4, COLUMNS=8)
    assert (finding.kind, finding.index, finding.lane) == ("infinity", (2, 5), (5, 2))
    assert "3e+38 * 2" in finding.message
    assert finding.count == 3  # elements 5, 6 and 7 of row 2


@pytest.mark.parametrize(
    "kind", [numpy.dtype(one) for one in (numpy.float16, ml_dtypes.bfloat16, numpy.float32)]
)
def test_bits_say_what_is_not_finite(kind) -> None:
    values = numpy.array([0, 1, -1e30, 1e-40, 65504, numpy.inf, -numpy.inf, numpy.nan])
    with numpy.errstate(over="ignore"):
        narrow: numpy.ndarray = values.astype(kind)
    assert not_finite(narrow).tolist() == [not numpy.isfinite(float(one)) for one in narrow]


@pytest.mark.parametrize(
    ("kind", "fits", "is_cut"),
    # Halfway between the largest number and the next of its exponent: to even, which e4m3's 448 is and e5m2's 57344 is not.
    [
        (numpy.dtype(ml_dtypes.float8_e4m3fn), 464.0, 464.1),
        (numpy.dtype(ml_dtypes.float8_e5m2), 61439.0, 61440.0),
    ],
)
def test_eight_bits_hold_what_rounds_to_their_largest(kind, fits, is_cut) -> None:
    values = numpy.array([1.0, fits, -fits, is_cut, -is_cut, numpy.inf], numpy.float32)
    cut = too_large_for(values, kind)
    assert cut.tolist() == [False, False, False, True, True, True]


def test_one_program_names_its_element() -> None:
    x = torch.full((1, 12), 100.0)
    (finding,) = kernellab.check(softmax_without_maximum, (1,), x, torch.zeros(1, 12), 12, BLOCK=16)
    assert (finding.index, finding.lane, finding.count) == ((0, 0), (0,), 12)


def test_a_product_tells_of_its_row_and_column(messages) -> None:
    a, b = torch.ones(16, 16), torch.full((16, 16), 2.0)
    a[3, 5], b[5, 8] = float("inf"), 0.0
    (finding,) = kernellab.check(product, (1,), a, b, torch.zeros(16, 16), M=16, K=16, N=16)
    assert (finding.kind, finding.index) == ("nan", (3, 8))
    assert finding.message == messages
    assert "already infinite" in finding.advice


@triton.jit
def one_operation(x_ptr, out_ptr, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    if WHICH == "reciprocal":
        y = 1.0 / x
    elif WHICH == "ratio":
        y = x / 1e-30
    elif WHICH == "rsqrt":
        y = tl.rsqrt(x)
    elif WHICH == "exp":
        y = tl.exp(x)
    elif WHICH == "half":
        y = x.to(tl.float16) * 2.0
    else:
        y = x - float("inf")
    tl.store(out_ptr + tl.arange(0, BLOCK), y)


@pytest.mark.parametrize(
    ("which", "value"),
    [
        ("reciprocal", 0.0), ("ratio", 1e20), ("rsqrt", 0.0), ("rsqrt", -1.0), ("exp", 90.0),
        ("half", 60000.0), ("less", float("inf")),
    ],
)  # fmt: skip
def test_the_words_fit_the_operation(which, value, messages) -> None:
    x = torch.tensor([1.0, value, 1.0, 1.0])
    (finding,) = kernellab.check(one_operation, (1,), x, torch.zeros(4), WHICH=which, BLOCK=4)
    assert finding.message == messages
    assert finding.advice == messages


@triton.jit
def reciprocals(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, 1.0 / x + tl.sum(x, axis=0), mask=lanes < n)


def test_what_comes_of_a_load_outside_memory_is_not_told() -> None:
    """Lanes beyond the end are switched off and give 0: 1 / 0 says nothing of the kernel."""
    found = kernellab.check(reciprocals, (2,), torch.ones(12), torch.zeros(16), 16, BLOCK=8)
    assert found.kinds == ("out-of-bounds",)
    x = torch.ones(12)
    x[3] = 0.0
    found = kernellab.check(reciprocals, (2,), x, torch.zeros(16), 16, BLOCK=8)
    assert found.kinds == ("out-of-bounds", "infinity")
    assert found[1].index == (3,)
    assert found[1].count == 1


@triton.jit
def inverse_of_larger(a, b):
    return tl.where(a > b, 1.0 / a, 1.0 / b)


@triton.jit
def handed_on(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    largest = tl.max(tl.abs(x), axis=0)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.where(x > 0, tl.minimum(x, largest), x))


@triton.jit
def made_by_a_combiner(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.reduce(x, 0, inverse_of_larger))


def test_what_is_only_handed_on_is_not_looked_into(monkeypatch) -> None:
    (told,) = kernellab.check(made_by_a_combiner, (1,), torch.zeros(2), torch.zeros(1), BLOCK=2)
    assert told.kind == "infinity"
    asked: list[Any] = []
    monkeypatch.setattr(NonFinite, "investigate", lambda self, _session: asked.append(self))
    x = torch.tensor([1.0, float("inf"), float("nan"), -2.0])
    found = kernellab.check(handed_on, (1,), x, torch.zeros(4), BLOCK=4)
    assert not found, found
    assert not asked
