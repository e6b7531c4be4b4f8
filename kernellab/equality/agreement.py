"""Where two exact results agree."""

from __future__ import annotations

from typing import Any

import numpy

from kernellab.equality import residues


def agreement(first: Any, second: Any) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Two arrays of bools: where the results do not differ, and where that is known: they have one
    of the two residues both.
    """
    if first.dtype != residues.PAIR or second.dtype != residues.PAIR:
        return numpy.asarray(first == second), numpy.ones(first.shape, numpy.bool_)
    first, second = (numpy.asarray(residues.reduced(array)) for array in (first, second))
    same = numpy.ones(first.shape, numpy.bool_)
    known = numpy.zeros(first.shape, numpy.bool_)
    for left, right in ((first.real, second.real), (first.imag, second.imag)):
        both = ~numpy.isnan(left) & ~numpy.isnan(right)
        same &= ~both | (left == right)
        known |= both
    return same, known
