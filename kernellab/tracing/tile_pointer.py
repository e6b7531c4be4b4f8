"""What a variable that holds pointers shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy


@dataclass(frozen=True, eq=False)
class TilePointer:
    """A pointer, or a tile of pointers: an argument, and how many elements beyond its first.

    Attributes:
        argument: the name of the kernel's argument; "" for addresses, in bytes.
        offsets: int64, in elements of the pointee type.
    """

    argument: str
    offsets: numpy.ndarray

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TilePointer):
            return NotImplemented
        same = self.argument == other.argument
        return same and numpy.array_equal(self.offsets, other.offsets)

    def __repr__(self) -> str:
        start = self.argument or "address"
        if self.offsets.ndim == 0:
            return f"{start} + {int(self.offsets)}"
        return f"{start} + {numpy.array2string(self.offsets, threshold=6, edgeitems=2)}"
