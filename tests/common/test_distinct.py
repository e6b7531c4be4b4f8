"""Whole numbers, each once."""

from __future__ import annotations

import numpy
import pytest

from kernellab.common.containers import distinct


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (500,), (20, 30)])
def test_each_comes_once_in_order(dtype: str, shape: tuple[int, ...]) -> None:
    ends = numpy.iinfo(dtype)
    random = numpy.random.default_rng(1)
    numbers = numpy.asarray(random.integers(0, 100, shape), dtype)
    for some in (numbers, numbers.T, numpy.append(numbers, [ends.min, ends.max]).astype(dtype)):
        found = distinct(some)
        assert (found.dtype, found.tolist()) == (some.dtype, sorted(set(some.reshape(-1).tolist())))
