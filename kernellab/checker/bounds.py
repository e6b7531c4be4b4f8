"""What becomes of accesses that leave their tensors: a checked run stays inside its storages,
whoever observes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

import numpy

from kernellab.checker.checked_run import Access
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.layers import MemoryAccess
from kernellab.interpreter.numerics.affine import AffineTile


@dataclass(frozen=True, eq=False)
class Leaving:
    """Lanes of an access that leave their tensor.

    Attributes:
        lanes: which, programs first where they differ; at least one, and all of them on.
        view: the elements of the storage, of which only the tensor's own may be touched.
        inside: the access without those of them that leave the storage too: switched off, they
            load `other`, or 0. It is the access as it was where none does.
    """

    lanes: numpy.ndarray
    view: Buffer
    inside: MemoryAccess


class BoundsPolicy:
    """Keeps the accesses of one run inside the storages that they go to."""

    def __init__(self, restrided: Collection[str] = ()) -> None:
        """Keep to the storages; `restrided` names arguments that may be read anywhere in theirs."""
        self._restrided = restrided
        self._views: dict[tuple[int, numpy.dtype], Buffer] = {}

    def leaving(self, access: Access) -> Leaving | None:
        """What leaves the tensor; None where nothing does."""
        view = self._view(access.buffer)
        if _is_inside(view, access):
            return None
        lanes = view.is_outside(access.index)
        if access.on is not None:
            lanes = lanes & access.on
        if not lanes.any():
            return None
        beyond = lanes & ((access.index < 0) | (access.index >= len(view.elements)))
        if access.action == "load" and access.buffer.name in self._restrided:
            lanes = beyond
            if not lanes.any():
                return None
        inside = without(access.request, beyond) if beyond.any() else access.request
        return Leaving(lanes, view, inside)

    def _view(self, buffer: Buffer) -> Buffer:
        """The same elements, of which only the view's may be touched."""
        key = id(buffer.tensor), buffer.elements.dtype
        if key not in self._views:
            self._views[key] = Buffer(
                buffer.name, buffer.tensor, buffer.elements.dtype, bounds="view"
            )
        return self._views[key]


def without(request: MemoryAccess, lanes: numpy.ndarray) -> MemoryAccess:
    """The same access with these lanes switched off."""
    mask = ~lanes if request.mask is None else numpy.asarray(request.mask) & ~lanes
    return dataclasses.replace(request, mask=mask)


def _is_inside(view: Buffer, access: Access) -> bool:
    """True where it is known, without looking at every lane, that none is outside."""
    request = access.request
    if view.present is not None or not isinstance(request.offsets, AffineTile):
        return False
    low, high = request.offsets.low + view.origin, request.offsets.high + view.origin
    if view.first <= low and high < view.stop:
        return True
    return access.box is not None and access.box.is_inside(view)
