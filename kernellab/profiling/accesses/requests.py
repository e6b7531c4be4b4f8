"""The requests of one execution of an access to the memory system, from its addresses.

An NVIDIA GPU takes an access warp by warp. The lanes of one instruction that are on make one
request, which moves every sector of 32 bytes that one of them touches, once; but lanes of an atomic
that share an address take turns. Four sectors, at a multiple of 128 bytes, are a line.

Of the copy engine each message is a request, as an H200 counts (sm__sass_inst_executed_op_tma_ld),
one that lies wholly outside the tensor too; its elements take the place of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy

from kernellab.compiler.modules.warp_accesses import NO_ONE, WarpAccess
from kernellab.profiling.accesses.copy_engine import Messages
from kernellab.profiling.accesses.sectors import (
    SECTOR,
    SECTOR_BITS,
    SectorsOfRows,
    sectors_of_rows,
)
from kernellab.records.layouts import Numbers

LINE = 128
"""Bytes of a line."""

_LINE_BITS = 7
_NOWHERE = -2 * SECTOR
"""In the place of an address, for a lane that is off:
its sector lies below all others and beside none."""
_NARROW = (numpy.int16, numpy.int32)
"""What addresses near each other are kept as: the fewer bits,
the sooner they are sorted and compared."""


@dataclass(frozen=True)
class RowCosts:
    """What rows of addresses cost, a row being one program's execution.

    Attributes:
        counts: name of a field of a `GlobalAccess`, such as "sectors" -> one number a row.
        touched: the different sectors.
    """

    counts: Mapping[str, Numbers]
    touched: SectorsOfRows


@dataclass(frozen=True)
class Instructions:
    """The instructions that make an access, or the copy engine's messages,
    in the order of their first elements.

    Attributes:
        access: how lanes access the tile, or the copy engine does.
        lanes: the first element of each lane, int64 of shape (instructions, lanes); any where a
            lane takes no part.
        taking_part: which lanes do, of the same shape; None for all.
        as_they_lie: lane after lane they are the elements as they are numbered.
    """

    access: WarpAccess | Messages
    lanes: Numbers
    taking_part: numpy.ndarray | None
    as_they_lie: bool

    @staticmethod
    def of(access: WarpAccess | Messages) -> Instructions:
        """The instructions of an access."""
        places = access.first if isinstance(access, WarpAccess) else access.elements
        places = places[places[:, 0].argsort()]
        taking_part = places != NO_ONE
        flat = places.reshape(-1)
        as_they_lie = bool((flat == numpy.arange(len(flat))).all())
        everybody = taking_part.all()
        return Instructions(
            access, numpy.maximum(places, 0), None if everybody else taking_part, as_they_lie
        )

    def taken(self, elements: numpy.ndarray) -> numpy.ndarray:
        """What rows of elements hold for every lane: shape (rows, instructions, lanes)."""
        if self.as_they_lie and elements.shape[1] == self.lanes.size:
            return elements.reshape(-1, *self.lanes.shape)
        return elements.take(self.lanes, axis=1)

    def asking(self, on: numpy.ndarray | None) -> numpy.ndarray | None:
        """Which lanes take part, if of the elements those do that are `on`:
        shape (rows or 1, instructions, lanes); None for all.
        """
        if on is None:
            return None if self.taking_part is None else self.taking_part[None]
        asking = self.taken(on)
        return asking if self.taking_part is None else numpy.asarray(asking & self.taking_part)


def costs_of_rows(
    addresses: Numbers,
    on: numpy.ndarray | None,
    size: int,
    instructions: Instructions,
    takes_turns: bool,
) -> RowCosts:
    """What rows of addresses cost.

    Args:
        addresses: of every element, in bytes: shape (rows, elements).
        on: which elements take part, of the same shape; None for all.
        size: of an element, in bytes.
        instructions: how the tile is accessed.
        takes_turns: whether lanes that share an address take turns.
    """
    if on is not None and on.all():
        on = None
    access = instructions.access
    bytes_each = access.width * access.size if isinstance(access, WarpAccess) else size
    near, origin = _near(addresses)
    taken, asking = instructions.taken(near), instructions.asking(on)
    asked_bytes = bytes_each * (taken.shape[-1] if asking is None else _count(asking))
    if asking is not None:
        taken = numpy.where(asking, taken, taken.dtype.type(_NOWHERE))
    ordered = _sorted(taken)
    sectors = ordered >> SECTOR_BITS
    different = _count(_changes(sectors))
    moved = different + _extra_turns(ordered) if takes_turns else different
    made = asked_bytes > 0 if isinstance(access, WarpAccess) else True
    elements = numpy.full(len(addresses), addresses.shape[1]) if on is None else _count(on)
    counts = {
        "requests": numpy.broadcast_to(made, taken.shape[:2]).sum(axis=1),
        "sectors": moved.sum(axis=1),
        "lines": _count(_changes(ordered >> _LINE_BITS)).sum(axis=1),
        "repeated_sectors": (moved - different).sum(axis=1),
        "best_sectors": numpy.minimum(moved, -(-asked_bytes // SECTOR)).sum(axis=1),
        "useful_bytes": size * elements,
    }
    return RowCosts(counts, _touched(sectors.reshape(len(sectors), -1), origin >> SECTOR_BITS))


def _near(addresses: Numbers) -> tuple[Numbers, int]:
    """Addresses counted from the beginning of a line below all of them, in as few bits as do;
    and where that line begins.
    """
    origin = int(addresses.min()) // LINE * LINE
    highest = int(addresses.max()) - origin
    kind = next((kind for kind in _NARROW if highest <= numpy.iinfo(kind).max), numpy.int64)
    near = numpy.subtract(addresses, origin, order="C")  # those that rows share are written out
    return near.astype(kind, copy=False), origin


def _sorted(numbers: Numbers) -> Numbers:
    """In order along the last axis, which they mostly are already."""
    first = numbers[:1]
    if (first[..., 1:] >= first[..., :-1]).all() and (numbers[..., 1:] >= numbers[..., :-1]).all():
        return numbers
    return numpy.sort(numbers, axis=-1)


def _changes(ordered: Numbers) -> numpy.ndarray:
    """Where along the last axis, on which numbers are in order,
    another one begins that takes part.
    """
    flat = ordered.reshape(-1)
    changes = numpy.empty(ordered.shape, numpy.bool_)
    # All rows at once, as one: their first places are seen to afterwards.
    numpy.not_equal(flat[1:], flat[:-1], out=changes.reshape(-1)[1:])
    numpy.greater_equal(ordered[..., 0], 0, out=changes[..., 0])
    return changes


def _count(marks: numpy.ndarray) -> Numbers:
    """How many places along the last axis are marked."""
    lanes = marks.shape[-1]
    if lanes % 8:
        return numpy.asarray(numpy.count_nonzero(marks, axis=-1))
    # Eight and more marks at once: several times as soon as NumPy counts along a short axis.
    word = numpy.dtype(f"u{math.gcd(lanes // 8, 8)}")
    counts = numpy.bitwise_count(numpy.packbits(marks).view(word)).astype(numpy.int64)
    counts = counts.reshape(*marks.shape[:-1], lanes // 8 // word.itemsize)
    return numpy.asarray(counts[..., 0] if counts.shape[-1] == 1 else counts.sum(axis=-1))


def _extra_turns(ordered: Numbers) -> Numbers:
    """How many sectors requests move again because their lanes take turns:
    the n-th lanes at their addresses move theirs together.

    Counted so on an H200: 32 lanes at one address move 32 sectors;
    4 at each of 8 neighbors, one sector 4 times.
    """
    # Lane by lane, of all requests at once: NumPy goes along a long axis much sooner
    # than along a short one.
    address = numpy.ascontiguousarray(ordered.reshape(-1, ordered.shape[-1]).T)
    sector = address >> SECTOR_BITS
    same_address = (address[1:] == address[:-1]) & (address[1:] >= 0)
    same_sector = sector[1:] == sector[:-1]
    turn, last_turn, extra = numpy.zeros((3, address.shape[1]), numpy.int16)
    for same, beside in zip(same_address, same_sector):
        turn += 1
        turn *= same
        last_turn *= beside
        later = turn > last_turn
        last_turn += later
        extra += later
    return extra.astype(numpy.int64).reshape(ordered.shape[:-1])


def _touched(sectors: Numbers, origin: int) -> SectorsOfRows:
    """The different sectors of each row, with `origin` added."""
    highest = int(sectors.max(initial=0))
    if highest < sectors.shape[1]:
        return _marked(sectors, highest + 1, origin)
    ordered = _sorted(sectors)
    first = _changes(ordered)
    return sectors_of_rows(ordered[first], _count(first), origin)


def _marked(sectors: Numbers, count: int, origin: int) -> SectorsOfRows:
    """As `_touched`, where the sectors are `count` or fewer: each is marked in a separate row."""
    below = -_NOWHERE // SECTOR  # where lanes that are off are marked
    marks = numpy.zeros((len(sectors), below + count), numpy.bool_)
    row = numpy.arange(below, marks.size, below + count)[:, None]
    marks.reshape(-1)[sectors + row] = True
    row_of, different = numpy.nonzero(marks[:, below:])
    return sectors_of_rows(different, numpy.bincount(row_of, minlength=len(marks)), origin)
