"""Symbolic index tiles against plain NumPy, and choosing and merging of large tiles."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.interpreter import tiles
from kernellab.interpreter.affine import AffineTile, BoxMask, Progression, as_box

PROGRAMS, M, N = 3, 4, 8
INTEGERS = [np.dtype(f"i{size}") for size in (1, 2, 4, 8)]
bounded = settings(max_examples=400, derandomize=True)


@dataclass
class Pair:
    """What generated code holds, and the same elements in an array of shape (PROGRAMS, M, N)."""

    value: Any
    model: np.ndarray


def assert_alike(pair: Pair) -> None:
    array = np.asarray(pair.value)
    assert array.dtype == pair.model.dtype
    assert array.ndim in (2, 3)
    np.testing.assert_array_equal(np.broadcast_to(array, pair.model.shape), pair.model)
    assert np.ndim(pair.value) == array.ndim
    assert np.shape(pair.value) is not None


def near_limits(kind: np.dtype) -> st.SearchStrategy[int]:
    limits = np.iinfo(kind)
    return st.one_of(
        st.integers(-20, 20),
        st.integers(limits.min, limits.min + 30),
        st.integers(limits.max - 30, limits.max),
        st.sampled_from([limits.max // 2, limits.min // 2 - 1]),
        st.integers(limits.min, limits.max),
    )


def model_of(values: Any, kind: np.dtype) -> np.ndarray:
    return np.broadcast_to(np.asarray(values, kind), (PROGRAMS, M, N)).copy()


@st.composite
def leaves(draw: Any, kind: np.dtype) -> Pair:
    """A range along one dimension, one number for all, or one for each program."""
    match draw(st.sampled_from(["range", "range", "number", "evenly spaced", "numbers"])):
        case "range":
            start = draw(st.integers(0, 50))
            size, axis = draw(st.sampled_from([(M, -1), (N, -2)]))
            tile = tiles.expand_dims(tiles.make_range(start, start + size), axis).astype(kind)
            return Pair(tile, model_of(np.expand_dims(np.arange(start, start + size), axis), kind))
        case "number":
            number = kind.type(draw(near_limits(kind)))
            return Pair(tiles.splat(number, 2), model_of(number, kind))
        case "evenly spaced":
            step = draw(st.integers(-9, 9))
            numbers = np.array([40 + step * program for program in range(PROGRAMS)], kind)
            return Pair(tiles.splat(numbers, 2), model_of(numbers[:, None, None], kind))
        case _:
            numbers = np.array([draw(near_limits(kind)) for _ in range(PROGRAMS)], kind)
            return Pair(tiles.splat(numbers, 2), model_of(numbers[:, None, None], kind))


@st.composite
def integer_pairs(draw: Any, kind: np.dtype, depth: int = 3) -> Pair:
    """Sums, differences, products and remainders of leaves."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(leaves(kind))  # type: ignore[no-any-return]
    left = draw(integer_pairs(kind, depth - 1))
    operation = draw(st.sampled_from(["add", "subtract", "multiply", "fmod", "astype"]))
    if operation == "astype":
        other = draw(st.sampled_from(INTEGERS))
        return Pair(left.value.astype(other).astype(kind), left.model.astype(other).astype(kind))
    ufunc = getattr(np, operation)
    if operation == "fmod":
        divisor = kind.type(draw(st.sampled_from([1, 2, 3, 7, 100, np.iinfo(kind).max, -5])))
        right = Pair(tiles.splat(divisor, 2), model_of(divisor, kind))
    else:
        right = draw(integer_pairs(kind, depth - 1))
    return Pair(ufunc(left.value, right.value), ufunc(left.model, right.model))


@st.composite
def masks(draw: Any, kind: np.dtype, depth: int = 2) -> Pair:
    operation = draw(st.sampled_from(["compare", "and", "or", "not"])) if depth else "compare"
    if operation == "compare":
        name = draw(st.sampled_from(["less", "less_equal", "greater", "greater_equal", "equal"]))
        ufunc = getattr(np, name)
        left, right = draw(integer_pairs(kind, 2)), draw(integer_pairs(kind, 2))
        return Pair(ufunc(left.value, right.value), ufunc(left.model, right.model))
    left = draw(masks(kind, depth - 1))
    if operation == "not":
        return Pair(~left.value, ~left.model)
    right = draw(masks(kind, depth - 1))
    if operation == "and":
        return Pair(left.value & right.value, left.model & right.model)
    return Pair(left.value | right.value, left.model | right.model)


@pytest.mark.slow
@bounded
@given(st.data())
def test_integers(data) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    with np.errstate(all="ignore"):
        pair = data.draw(integer_pairs(kind))
        assert_alike(pair)
        if isinstance(pair.value, AffineTile):
            low, high = pair.value.exact_bounds()
            assert (low, high) == (pair.model.min(), pair.model.max())
        turned = Pair(tiles.permute(pair.value, (1, 0)), pair.model.transpose(0, 2, 1))
        assert_alike(turned)


@pytest.mark.slow
@bounded
@given(st.data())
def test_masks(data) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    with np.errstate(all="ignore"):
        mask = data.draw(masks(kind))
        assert_alike(mask)
        if isinstance(mask.value, BoxMask):
            assert mask.value.all() == mask.model.all()
        a, b = data.draw(leaves(kind)), data.draw(leaves(kind))
        chosen = tiles.select(mask.value, a.value, b.value, 0)
        assert_alike(Pair(chosen, np.where(mask.model, a.model, b.model)))
        assert_alike(Pair(tiles.permute(mask.value, (1, 0)), mask.model.transpose(0, 2, 1)))


@pytest.mark.slow
@bounded
@given(st.data())
def test_merging_what_programs_have_gone_through(data) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    with np.errstate(all="ignore"):
        new, old = data.draw(integer_pairs(kind, 2)), data.draw(integer_pairs(kind, 2))
        active = np.array(data.draw(st.lists(st.booleans(), min_size=PROGRAMS, max_size=PROGRAMS)))
        merged = tiles.merge(active, new.value, old.value, 2)
        assert_alike(Pair(merged, np.where(active[:, None, None], new.model, old.model)))


def test_bounds_and_boxes_stay_symbolic() -> None:
    """That they do is what makes loads slices; this fails if a change makes everything an array."""
    rows = tiles.splat(np.array([0, 8], np.int32), 1) + tiles.make_range(0, 8)
    assert isinstance(rows, AffineTile)
    assert isinstance(rows.base, Progression)
    assert isinstance(rows * np.int32(4), AffineTile)
    assert isinstance(rows < np.int32(9), BoxMask)
    assert isinstance((rows < np.int32(9)) & (np.int32(2) <= rows), BoxMask)
    assert isinstance(np.fmod(rows, np.int32(16)), AffineTile)
    assert not isinstance(np.fmod(rows, np.int32(15)), AffineTile)


@pytest.mark.parametrize(
    ("start", "factor"), [(2**31 - 8, 1), (2**31 - 7, 1), (2**30, 2), (-(2**31), 1), (-(2**31), -1)]
)
def test_elements_wrap_where_a_gpu_wraps(start, factor) -> None:
    with np.errstate(all="ignore"):
        value = (tiles.make_range(0, 8) + np.int32(start)) * np.int32(factor)
        array = (np.arange(8, dtype=np.int32) + np.int32(start)) * np.int32(factor)
    np.testing.assert_array_equal(np.asarray(value), array)


def test_negative_strides_count_down() -> None:
    down = tiles.splat(np.int32(7), 1) - tiles.make_range(0, 8)
    assert isinstance(down, AffineTile)
    assert np.asarray(down).tolist() == list(range(7, -1, -1))
    assert (down.low, down.high) == (0, 7)
    assert np.asarray(down >= np.int32(3)).tolist() == [True] * 5 + [False] * 3


def test_a_dimension_of_one_does_not_move() -> None:
    one = tiles.make_range(5, 6)
    assert np.asarray(one + tiles.make_range(0, 4)).tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    "on", [np.array([True, False, True]).reshape(3, 1, 1), np.array([[False]]), np.True_]
)
def test_a_box_and_one_boolean_a_program_are_a_box(on) -> None:
    columns = BoxMask({1: (np.array([0, 2, 8]), 8)}, (1, 8))
    rows = BoxMask({0: (1, 3)}, (4, 1))
    expected = columns.elements() & on & rows.elements()
    for both in (columns & on & rows, on & columns & rows, rows & (columns & on)):
        assert isinstance(both, BoxMask)
        np.testing.assert_array_equal(np.broadcast_to(both.elements(), expected.shape), expected)


def test_only_masks_without_lanes_are_boxes() -> None:
    box = BoxMask({1: (0, 3)}, (1, 8))
    lanes = np.arange(8) % 2 == 0
    assert isinstance(box & lanes, np.ndarray)
    np.testing.assert_array_equal(box & lanes, box.elements() & lanes)
    assert as_box(lanes, (8,)) is None
    everything: Any = as_box(np.array([True, False]).reshape(2, 1), (8,))
    np.testing.assert_array_equal(everything.elements(), [[True] * 8, [False] * 8])


# Choosing and merging of large tiles, which take other ways than small ones


WIDE = 64
DTYPES: list[Any] = [bool, "i1", "i4", "i8", "f2", "f4", "f8", ml_dtypes.bfloat16]


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(PROGRAMS, WIDE, WIDE), (WIDE, 1), (1, 1)])
def test_select(dtype, shape) -> None:
    chance = np.random.default_rng(0)
    condition = chance.random((PROGRAMS, WIDE, WIDE)) < 0.5
    a = chance.integers(0, 2 if dtype is bool else 100, shape).astype(dtype)
    b = chance.integers(0, 2 if dtype is bool else 100, (WIDE, WIDE)).astype(dtype)
    if a.dtype.kind == "f":
        a[..., 0, 0], b[0] = np.nan, -0.0
    assert bits(tiles.select(condition, a, b, 0)) == bits(np.where(condition, a, b))
    assert bits(tiles.select(condition, b, a, 0)) == bits(np.where(condition, b, a))


@pytest.mark.parametrize("rank", [0, 2])
def test_merge_of_programs(rank) -> None:
    shape = (PROGRAMS, WIDE, WIDE)[: rank + 1]
    new, old = np.arange(np.prod(shape)).reshape(shape), -np.ones(shape, int)
    before = new.copy()
    active = np.array([True, False, True])
    merged = tiles.merge(active, new, old, rank)
    np.testing.assert_array_equal(merged[1], old[1])
    np.testing.assert_array_equal(merged[[0, 2]], new[[0, 2]])
    np.testing.assert_array_equal(new, before)
