"""The shadows of what lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.shadow.values import Array, Shadow, lifted

INT64 = numpy.dtype(numpy.int64)


@dataclass(frozen=True)
class Written:
    """What an access has written, lane by lane, programs first.

    Attributes:
        index: of each lane, in the access's elements.
        numbers: the shadow; 0 in lanes that are off.
    """

    index: Array
    numbers: Array


class StoredShadows:
    """The shadow of each element of the storages that a run writes, by the size of its elements."""

    def __init__(self, kind: numpy.dtype[Any] = INT64) -> None:
        """`kind` is the shadows'."""
        self._kind = kind
        self._of: dict[tuple[int, int], Array] = {}

    def write(self, access: Access, shadow: Shadow) -> Written | None:
        """An access writes values with this shadow; None where it has none and hides none."""
        written = self._of.get(_key(access))
        if shadow is None and written is None:
            return None
        numbers = numpy.zeros((1,) * (access.rank + 1), self._kind) if shadow is None else shadow
        on = True if access.on is None else lifted(access.on, access.rank)
        index, numbers, lanes = numpy.broadcast_arrays(
            lifted(access.index, access.rank), numbers, on
        )
        if written is None:
            written = numpy.zeros(len(access.buffer.elements), self._kind)
            self._of[_key(access)] = written
        written[index[lanes]] = numbers[lanes]
        return Written(index, numpy.where(lanes, numbers, 0))

    def read(self, access: Access) -> Shadow:
        """The shadow of what an access reads; of lanes that are off, 0."""
        written = self._of.get(_key(access))
        if written is None:
            return None
        numbers: Array = written.take(lifted(access.index, access.rank), mode="clip")
        if access.on is not None:
            numbers = numpy.where(lifted(access.on, access.rank), numbers, 0)
        return numbers if numbers.any() else None


def _key(access: Access) -> tuple[int, int]:
    """Of a storage under elements of one size."""
    storage = access.buffer.tensor.untyped_storage()
    return storage.data_ptr(), access.buffer.itemsize
