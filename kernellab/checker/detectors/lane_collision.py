"""Stores whose lanes write different values to one element, inside one program."""

from __future__ import annotations

from typing import Any

import numpy

from kernellab.checker.checked_run import Access
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import texts
from kernellab.interpreter.memory.layers import Store
from kernellab.interpreter.numerics.tiles import Value


class LaneCollision(Detector):
    """Looks at what a store left behind: where that is not what a lane stored,
    another lane stored something else there.
    """

    kinds = ("lane-collision",)

    def after(self, access: Access, found: Value | None) -> None:
        del found
        request = access.request
        if not isinstance(request, Store) or not len(access.buffer.elements):
            return
        if is_apart(access, request.value):
            return
        index, stored, on = lanes_of(access, request.value)
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
            lanes = [tuple(int(i) for i in lane) for lane in numpy.argwhere(same)]
            values = [stored[(*where, *lane)] for lane in lanes]
            element = access.element(faulty, place, program)
            other = next(
                i for i, value in enumerate(values) if bits_of(value) != bits_of(values[0])
            )
            one, another = texts(values[0], values[other])
            return {
                "kind": "lane-collision",
                "argument": name,
                "index": element,
                "message": (
                    f"lanes {lane_text(lanes[0])} and {lane_text(lanes[other])} of one program "
                    f"both store to {access.named(element)}: {one} and {another}; which of them "
                    "stays is left open"
                ),
                "advice": (
                    "Give each lane an element of its own, let only one of them store (a mask), "
                    "combine the values first (tl.sum, tl.max), or add them by tl.atomic_add."
                ),
            }

        self.collector.report(access, faulty, access.rank, facts_of, name)


def is_apart(access: Access, value: Value) -> bool:
    """True where it is known, without looking at every lane, that no two lanes
    of a program store different values to one element.
    """
    box = access.box
    if box is None or not box.is_disjoint(numpy.zeros(1, numpy.int64), box.all_lanes):
        return False
    lanes = numpy.shape(value)[-access.rank :] if access.rank else ()
    return all(had <= extent for had, extent in zip(lanes[::-1], box.extents[::-1]))


def lanes_of(
    access: Access, value: Value
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]:
    """Index, value and whether it is on, of each lane, in one shape."""
    stored = numpy.asarray(value)
    if stored.dtype != access.buffer.elements.dtype:
        stored = stored.view(access.buffer.elements.dtype)
    arrays = [access.index, stored, *([] if access.on is None else [access.on])]
    index, stored, *on = numpy.broadcast_arrays(*arrays)
    return index, stored, on[0] if on else None


def _collisions(
    index: numpy.ndarray, stored: numpy.ndarray, on: numpy.ndarray | None, rank: int
) -> numpy.ndarray:
    """Which lanes store to the element of an earlier lane of their program, and something else."""
    faulty = numpy.zeros(index.shape, numpy.bool_)
    taking_part = numpy.ones(index.shape, numpy.bool_) if on is None else on
    targets, values = index[taking_part], bits_of(stored[taking_part])
    if index.ndim > rank:  # elements of different programs are different ones
        programs = numpy.arange(len(index)).reshape((-1,) + (1,) * rank)
        span = int(targets.max()) - int(targets.min()) + 1
        targets = targets + numpy.broadcast_to(programs * span, index.shape)[taking_part]
    _, first, which = numpy.unique(targets, return_index=True, return_inverse=True)
    faulty[taking_part] = values != values[first][which]
    return faulty


def bits_of(values: Any) -> Any:
    """What is compared: NaN equals itself, and -0.0 is not 0.0."""
    return values.view(f"u{values.dtype.itemsize}")


def lane_text(lane: tuple[int, ...]) -> str:
    return str(lane[0]) if len(lane) == 1 else str(lane)
