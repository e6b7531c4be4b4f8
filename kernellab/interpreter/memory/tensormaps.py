"""Tensor descriptors that a kernel writes to global scratch memory,
for the copy engine to read there.
"""

from __future__ import annotations

import numpy

from kernellab.errors import UnsupportedOperation
from kernellab.interpreter.memory.descriptors import Descriptor
from kernellab.interpreter.numerics.tiles import Active, Value, narrowed

SCRATCH = 1 << 62
"""The address of global scratch memory: no storage has one so large."""


class Tensormaps:
    """What the programs of one batch have written, by address:
    each program has separate scratch memory, all at one place.
    """

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._written: dict[int, Descriptor] = {}

    def write(self, address: Value, descriptor: Descriptor, active: Active = None) -> None:
        """Write a descriptor, for the active programs."""
        for place, writing in self._places(address, active):
            before = self._written.get(place)
            merged = descriptor if before is None else descriptor.merged(before, writing)
            self._written[place] = merged

    def read(self, address: Value, active: Active = None) -> Descriptor:
        """The descriptor that the active programs have there."""
        read: Descriptor | None = None
        for place, reading in self._places(address, active):
            if place not in self._written:
                raise UnsupportedOperation("a tensor descriptor that the kernel did not write")
            descriptor = self._written[place]
            read = descriptor if read is None else descriptor.merged(read, reading)
        assert read is not None, "somebody reads"
        return read

    def _places(self, address: Value, active: Active) -> list[tuple[int, numpy.ndarray]]:
        """(address, which programs mean it) for each address that an active program has."""
        taking_part = narrowed(active, True, self._programs)
        addresses = numpy.broadcast_to(numpy.asarray(address), taking_part.shape)
        return [
            (int(place), taking_part & (addresses == place))
            for place in numpy.unique(addresses[taking_part])
        ]
