"""What an argument holds, followed from write to write."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy
from numpy.lib.stride_tricks import as_strided

from kernellab.tracing.steps import Step, TracedArgument, places_within

_MOST_GAPS = 4
"""So many times its elements an argument may span for the gaps between them to be kept too."""


class ReplayedMemory:
    """The memory of an argument, to which steps write.

    It lies here as in the launch, gaps included, so that an element's place needs no working out;
    in reading order where the gaps are too large, or strides go backwards.
    """

    def __init__(self, argument: TracedArgument, contents: numpy.ndarray) -> None:
        """Memory of an argument that holds these contents, which nothing else uses."""
        self._argument = argument
        self._contents = contents
        self._flat = contents.reshape(-1)
        span = _span(argument)
        self._is_as_launched = argument.is_contiguous or span is not None
        if span is not None and not argument.is_contiguous:
            self._flat = numpy.zeros(span, contents.dtype)
            strides = [stride * contents.itemsize for stride in argument.strides]
            self._contents = as_strided(self._flat, argument.shape, strides)
            self._contents[...] = contents

    def write(self, step: Step, arguments: Mapping[str, TracedArgument]) -> None:
        """Do what a step did; `arguments` are all there are.

        Raises NotRecorded where a write was too large to be kept.
        """
        for access, further in step.writes(self._argument, arguments):
            places, written = access.elements + further, access.written()
            if self._is_as_launched:
                inside, places = places_within(places, self._flat.size)
            else:
                inside, places = self._argument.numbered(places)
            kept = written if inside is None else written[inside]
            self._flat[places] = kept.view(self._flat.dtype)

    def contents(self) -> numpy.ndarray:
        """What the argument holds now: an array of its shape, contiguous."""
        return numpy.asarray(self._contents, order="C")


def _span(argument: TracedArgument) -> int | None:
    """Elements from an argument's first to its last, both included; None where it has none, they
    are too many, or not all of them come after the first.
    """
    size = math.prod(argument.shape)
    if not size or min(argument.strides, default=0) < 0:
        return None
    reach = sum(stride * (extent - 1) for stride, extent in zip(argument.strides, argument.shape))
    return reach + 1 if reach < _MOST_GAPS * size else None
