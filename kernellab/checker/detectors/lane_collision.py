"""Find stores of one program that write different values to the same element."""

from __future__ import annotations

from typing import Any

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.detector import Detector
from kernellab.common.formatting import number_texts
from kernellab.interpreter.memory.layers import Store
from kernellab.interpreter.numerics.tiles import Value


class LaneCollision(Detector):
    """Compare memory after a store with the tile that was stored: if an element differs, another
    element of the tile was stored to the same place.
    """

    kinds = ("lane-collision",)

    def after(self, access: Access, result: Value | None) -> None:
        request = access.request
        if not isinstance(request, Store) or not len(access.buffer.elements):
            return
        if is_apart(access, request.value):
            return
        index, stored, on = elements_of(access)
        left = access.buffer.elements.take(index, mode="clip")
        lost = bits_of(left) != bits_of(stored)
        if on is not None:
            lost = lost & on
        if lost.any():
            faulty = _collisions(index, stored, on, access.rank)
            if faulty.any():
                self._note(access, index, stored, on, faulty)

    def _note(
        self,
        access: Access,
        index: numpy.ndarray,
        stored: numpy.ndarray,
        on: numpy.ndarray | None,
        faulty: numpy.ndarray,
    ) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            where = (program,) if faulty.ndim > access.rank else ()
            target = index[(*where, *place)]
            same = (index[where] == target) & (
                True if on is None else numpy.broadcast_to(on, index.shape)[where]
            )
            places = [tuple(int(i) for i in row) for row in numpy.argwhere(same)]
            values = [stored[(*where, *at)] for at in places]
            element = access.element(faulty, place, program)
            other = next(
                i for i, value in enumerate(values) if bits_of(value) != bits_of(values[0])
            )
            first, second = number_texts(values[0], values[other])
            return {
                "kind": "lane-collision",
                "argument": name,
                "index": element,
                "message": (
                    f"elements {place_text(places[0])} and {place_text(places[other])} of one tile "
                    f"both store to {access.named(element)}, the values {first} and {second}; "
                    "which one remains is undefined"
                ),
                "advice": (
                    "Give each element of the tile a different destination, let only one of them "
                    "store (with a mask), combine the values first (tl.sum, tl.max), or add them "
                    "with tl.atomic_add."
                ),
            }

        self.collector.report(access, faulty, access.rank, facts_of, name)


def is_apart(access: Access, value: Value) -> bool:
    """Return True if it is clear, without a look at every element, that no two elements of a tile
    store different values to the same place.
    """
    box = access.box
    if box is None or not box.is_disjoint(numpy.zeros(1, numpy.int64), box.all_lanes):
        return False
    sizes = numpy.shape(value)[-access.rank :] if access.rank else ()
    return all(size <= extent for size, extent in zip(sizes[::-1], box.extents[::-1]))


def elements_of(access: Access) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]:
    """Return the indices, the values and the mask of a tile, broadcast to one shape."""
    arrays = [access.index, access.written, *([] if access.on is None else [access.on])]
    index, stored, *on = numpy.broadcast_arrays(*arrays)
    return index, stored, on[0] if on else None


def _collisions(
    index: numpy.ndarray, stored: numpy.ndarray, on: numpy.ndarray | None, rank: int
) -> numpy.ndarray:
    """Return which elements store another value to the place of an earlier element of the tile."""
    faulty = numpy.zeros(index.shape, numpy.bool_)
    taking_part = numpy.ones(index.shape, numpy.bool_) if on is None else on
    targets, values = targets_of(index, taking_part, rank), bits_of(stored[taking_part])
    _, first, which = numpy.unique(targets, return_index=True, return_inverse=True)
    faulty[taking_part] = values != values[first][which]
    return faulty


def targets_of(index: numpy.ndarray, chosen: numpy.ndarray, rank: int) -> numpy.ndarray:
    """Return a number for the place that each chosen element is stored to, different for each
    program; at least one is chosen.
    """
    targets: numpy.ndarray = index[chosen]
    if index.ndim > rank:
        programs = numpy.arange(len(index)).reshape((-1,) + (1,) * rank)
        span = int(targets.max()) - int(targets.min()) + 1
        targets = targets + numpy.broadcast_to(programs * span, index.shape)[chosen]
    return targets


def bits_of(values: Any) -> Any:
    """Return the bits of floats, for a comparison in which NaN equals NaN and -0.0 is not 0.0."""
    return values.view(f"u{values.dtype.itemsize}")


def place_text(place: tuple[int, ...]) -> str:
    """Return a position in a tile as text: "3", "(3, 4)"."""
    return str(place[0]) if len(place) == 1 else str(place)
