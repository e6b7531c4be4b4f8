"""What one execution of an access asks of the memory system, from its addresses.

An NVIDIA GPU takes an access warp by warp. The lanes of one instruction that are on make one request, which moves every sector of
32 bytes that one of them touches, once; but lanes of an atomic that share an address take turns. Four sectors, at a multiple of 128 bytes, are a line.

Of the copy engine each message is a request, as an H200 counts (sm__sass_inst_executed_op_tma_ld), one that lies wholly outside the
tensor too; its elements stand in the lanes' place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from kernellab.compiler.analyses.warp_accesses import NOBODY, WarpAccess
from kernellab.layouts import Numbers
from kernellab.memory_costs.copy_engine import Messages
from kernellab.memory_costs.sectors import SECTOR, SECTOR_BITS, Runs, RunsOfRows

LINE = 128
"""Bytes of a line."""

_LINE_BITS = 7
_NOWHERE = -2 * SECTOR
"""In the place of an address, for a lane that is off: its sector lies below all others and beside none."""
_NARROW = (numpy.int16, numpy.int32)
"""What addresses near each other are kept as: the fewer bits, the sooner they are sorted and compared."""


@dataclass(frozen=True)
class RowCosts:
    """What rows of addresses cost, a row being one program's execution: arrays with one entry a row.

    Attributes:
        requests, sectors, lines: see the module.
        repeated: of the sectors, those that were moved again because lanes share an address and take turns.
        best: sectors that the requests would move if the lanes that are on accessed neighbouring elements.
        elements: how many elements were on.
        touched: the different sectors.
    """

    requests: Numbers
    sectors: Numbers
    lines: Numbers
    repeated: Numbers
    best: Numbers
    elements: Numbers
    touched: RunsOfRows


def costs_of_rows(
    addresses: Numbers,
    on: numpy.ndarray | None,
    size: int,
    access: WarpAccess | Messages,
    takes_turns: bool,
) -> RowCosts:
    """What rows of addresses cost.

    Args:
        addresses: of every element, in bytes: shape (rows, elements).
        on: which elements take part, of the same shape; None for all.
        size: of an element, in bytes.
        access: how lanes access the tile, or the copy engine does.
        takes_turns: whether lanes that share an address take turns.
    """
    if on is not None and on.all():
        on = None
    origin = int(addresses.min()) // LINE * LINE
    near = addresses - origin
    highest = int(near.max())
    kind = next((kind for kind in _NARROW if highest <= numpy.iinfo(kind).max), numpy.int64)
    near = near.astype(kind, copy=False)
    elements = _elements_on(addresses, on)
    if isinstance(access, WarpAccess):
        places, bytes_each = access.first, access.width * access.size
    else:
        places, bytes_each = access.elements, size
    lanes = numpy.maximum(places, 0)
    asked, asking = near.take(lanes, axis=1), _asking(places, lanes, on)
    many = places.shape[1] if asking is None else numpy.count_nonzero(asking, axis=-1)
    asked_bytes = numpy.broadcast_to(many * bytes_each, asked.shape[:2])
    ordered = _sorted(_of_those_on(asked, asking))
    sectors = ordered >> SECTOR_BITS
    different = _count_different(sectors)
    moved = _turns(ordered) if takes_turns else different
    requests = numpy.full(len(asked), len(places))
    if isinstance(access, WarpAccess):
        requests = numpy.count_nonzero(asked_bytes, axis=1)
    return RowCosts(
        requests=requests,
        sectors=moved.sum(axis=1),
        lines=_count_different(ordered >> _LINE_BITS).sum(axis=1),
        repeated=(moved - different).sum(axis=1),
        best=numpy.minimum(-(-asked_bytes // SECTOR), moved).sum(axis=1),
        elements=elements,
        touched=_touched(sectors.reshape(len(sectors), -1), origin >> SECTOR_BITS),
    )


def _elements_on(addresses: Numbers, on: numpy.ndarray | None) -> Numbers:
    if on is None:
        return numpy.full(len(addresses), addresses.shape[1])
    return numpy.asarray(numpy.count_nonzero(on, axis=1))


def _asking(places: Numbers, lanes: Numbers, on: numpy.ndarray | None) -> numpy.ndarray | None:
    """Which lanes of each instruction take part: shape (rows or 1, instructions, lanes); None for all."""
    taking_part = places != NOBODY
    if on is not None:
        return numpy.asarray(on.take(lanes, axis=1) & taking_part)
    return None if taking_part.all() else taking_part[None]


def _of_those_on(numbers: Numbers, on: numpy.ndarray | None) -> Numbers:
    """Numbers of what takes part, and _NOWHERE in other places."""
    return numbers if on is None else numpy.where(on, numbers, numbers.dtype.type(_NOWHERE))


def _sorted(numbers: Numbers) -> Numbers:
    """In order along the last axis, which they mostly are already."""
    if (numbers[..., 1:] >= numbers[..., :-1]).all():
        return numbers
    return numpy.sort(numbers, axis=-1)


def _count_different(ordered: Numbers) -> Numbers:
    """How many different numbers from 0 on there are along the last axis, on which they are in order."""
    changes = numpy.count_nonzero(ordered[..., 1:] != ordered[..., :-1], axis=-1)
    return numpy.asarray(changes + (ordered[..., 0] >= 0))


def _turns(ordered: Numbers) -> Numbers:
    """How many sectors requests move whose lanes take turns: the n-th lanes at their addresses move theirs together.

    Counted so on an H200: 32 lanes at one address move 32 sectors; 4 at each of 8 neighbours, one sector 4 times.
    """
    lanes = ordered.shape[-1]
    begins = numpy.ones(ordered.shape, numpy.bool_)
    numpy.not_equal(ordered[..., 1:], ordered[..., :-1], out=begins[..., 1:])
    place = numpy.arange(lanes, dtype=ordered.dtype)
    turn = place - numpy.maximum.accumulate(begins * place, axis=-1)
    shared = (ordered >> SECTOR_BITS) * lanes + turn  # of 32 lanes, no more than the address
    if (ordered[..., 0] < 0).any():
        shared = _of_those_on(shared, ordered >= 0)
    return _count_different(_sorted(shared))


def _touched(sectors: Numbers, origin: int) -> RunsOfRows:
    """The different sectors of each row, with `origin` added."""
    highest = int(sectors.max(initial=0))
    if highest < sectors.shape[1]:
        return _marked(sectors, highest + 1, origin)
    ordered = _sorted(sectors)
    gap = ordered[:, 1:] > ordered[:, :-1] + 1
    on = ordered >= 0
    begins, ends = on.copy(), on
    begins[:, 1:] &= gap
    ends[:, :-1] &= gap
    starts = ordered[begins].astype(numpy.int64) + origin
    stops = ordered[ends].astype(numpy.int64) + (origin + 1)
    return RunsOfRows(Runs(starts, stops), numpy.asarray(numpy.count_nonzero(begins, axis=1)))


def _marked(sectors: Numbers, count: int, origin: int) -> RunsOfRows:
    """As `_touched`, where the sectors are `count` or fewer: each is marked in a row of its own, between two that are not."""
    marks = numpy.zeros((len(sectors), count + 2), numpy.int8)
    row = numpy.arange(1, marks.size, count + 2)[:, None]
    marks.reshape(-1)[numpy.maximum(sectors, -1) + row] = 1
    marks[:, 0] = 0  # where lanes that are off have been marked
    changes = numpy.diff(marks, axis=1)
    starts, stops = numpy.nonzero(changes == 1), numpy.nonzero(changes == -1)
    return RunsOfRows(
        Runs(starts[1] + origin, stops[1] + origin), numpy.bincount(starts[0], minlength=len(marks))
    )
