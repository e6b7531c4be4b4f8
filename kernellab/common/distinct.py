"""Whole numbers, each once."""

from __future__ import annotations

import numpy


def distinct(numbers: numpy.ndarray) -> numpy.ndarray:
    """The whole numbers of an array, each once, ascending, in one dimension.

    `numpy.unique` gives the same. Since NumPy 2.3 it hashes them, which takes fifty times as long
    for a million that differ.
    """
    ordered = numpy.sort(numbers, axis=None)
    comes_first = numpy.ones(ordered.size, numpy.bool_)
    numpy.not_equal(ordered[1:], ordered[:-1], out=comes_first[1:])
    distinct: numpy.ndarray = ordered[comes_first]
    return distinct
