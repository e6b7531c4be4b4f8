"""Choosing and merging of large tiles, which take other ways than small ones,
against `numpy.where`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernellab.interpreter import tiles

PROGRAMS, M, N = 3, 64, 64
DTYPES: list[Any] = [bool, "i1", "i4", "i8", "f2", "f4", "f8", ml_dtypes.bfloat16]


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(PROGRAMS, M, N), (M, 1), (1, 1)])
def test_select(dtype: Any, shape: tuple[int, ...]) -> None:
    chance = np.random.default_rng(0)
    condition = chance.random((PROGRAMS, M, N)) < 0.5
    a = chance.integers(0, 2 if dtype is bool else 100, shape).astype(dtype)
    b = chance.integers(0, 2 if dtype is bool else 100, (M, N)).astype(dtype)
    if a.dtype.kind == "f":
        a[..., 0, 0], b[0] = np.nan, -0.0
    assert bits(tiles.select(condition, a, b, 0)) == bits(np.where(condition, a, b))
    assert bits(tiles.select(condition, b, a, 0)) == bits(np.where(condition, b, a))


@pytest.mark.parametrize("rank", [0, 2])
def test_merge_of_programs(rank: int) -> None:
    shape = (PROGRAMS, M, N)[: rank + 1]
    new, old = np.arange(np.prod(shape)).reshape(shape), -np.ones(shape, int)
    before = new.copy()
    active = np.array([True, False, True])
    merged = tiles.merge(active, new, old, rank)
    np.testing.assert_array_equal(merged[1], old[1])
    np.testing.assert_array_equal(merged[[0, 2]], new[[0, 2]])
    np.testing.assert_array_equal(new, before)
