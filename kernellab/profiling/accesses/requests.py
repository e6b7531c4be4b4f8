"""The cost of one execution of an access: requests, and the sectors that they move."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy
from xdsl.ir import Operation

from kernellab.compiler.analyses.layouts import NO_ONE, WarpAccess
from kernellab.interpreter.memory.observers import DESCRIPTOR_BYTES
from kernellab.ir import ttng
from kernellab.ir.types import MemDescType, NvmmaSharedEncoding, TensorDescType
from kernellab.records.layouts import Numbers

SECTOR = 32
"""Bytes of a sector."""
SECTOR_BITS = 5
"""An address shifted right by this many bits is the number of its sector."""

_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS
"""Sectors of a page, 2 MiB of memory: a set keeps a boolean for each of a touched page."""
_FEW_RUNS = 256
"""The most runs that are marked one by one; with more, every sector is looked up."""
_SHORT = 4
"""Runs of at most this many sectors, on average, are not worth merging."""
_LONG = 2
"""Runs of at least this many sectors, on average, are worth making."""
_MOST_PAGES_AT_ONCE = 64
"""The number of pages that are marked together, including those between them."""


class Runs(NamedTuple):
    """Sectors that follow each other: entry i is `starts[i]` up to, not including, `stops[i]`."""

    starts: Numbers
    stops: Numbers

    @property
    def lengths(self) -> Numbers:
        """Sectors of each run."""
        return self.stops - self.starts

    def merged(self) -> Runs:
        """The same sectors, each once, in order, in as few runs as possible."""
        if len(self.starts) < 2:
            return self
        starts, stops = self
        if (starts[1:] < starts[:-1]).any():
            order = numpy.argsort(starts)
            starts, stops = starts[order], stops[order]
        reached = numpy.maximum.accumulate(stops)
        begins = numpy.ones(len(starts), numpy.bool_)
        begins[1:] = starts[1:] > reached[:-1]
        ends = numpy.ones(len(starts), numpy.bool_)
        ends[:-1] = begins[1:]
        return Runs(starts[begins], reached[ends])

    def numbers(self) -> Numbers:
        """Every sector."""
        lengths = self.lengths
        count = int(lengths.sum())
        if count == len(lengths):  # no run is empty
            return self.starts
        before = numpy.cumsum(lengths) - lengths
        every: Numbers = numpy.arange(count) + numpy.repeat(self.starts - before, lengths)
        return every

    @staticmethod
    def joined(parts: Iterable[Runs]) -> Runs:
        starts, stops = zip(*parts)
        return Runs(numpy.concatenate(starts), numpy.concatenate(stops))


class RunsOfRows(NamedTuple):
    """The different sectors of several rows, row after row."""

    runs: Runs
    counts: Numbers
    """How many runs each row has."""
    sectors: Numbers
    """How many sectors each row has."""

    @property
    def entries(self) -> int:
        """How many runs are kept."""
        return len(self.runs.starts)

    def as_runs(self) -> RunsOfRows:
        return self

    def chosen(self, rows: Numbers, moved: Numbers) -> tuple[Runs, Numbers]:
        """The runs of some rows, moved by a number of sectors, and the entry of `rows` of each."""
        many = self.counts[rows]
        owners = numpy.repeat(numpy.arange(len(rows)), many)
        starts = numpy.cumsum(self.counts) - self.counts
        begins = numpy.cumsum(many) - many
        place = numpy.arange(len(owners)) + (starts[rows] - begins)[owners]
        shift = moved[owners]
        return Runs(self.runs.starts[place] + shift, self.runs.stops[place] + shift), owners


class ScatteredRows(NamedTuple):
    """The different sectors of several rows, few of which follow each other."""

    numbers: Numbers
    """The sectors, row after row, each row's in order, counted from `origin` on."""
    origin: int
    sectors: Numbers
    """How many sectors each row has."""

    @property
    def entries(self) -> int:
        """How many numbers are kept."""
        return len(self.numbers)

    def as_runs(self) -> RunsOfRows:
        starts = numpy.add(self.numbers, self.origin, dtype=numpy.int64)
        return RunsOfRows(Runs(starts, starts + 1), self.sectors, self.sectors)


SectorsOfRows = RunsOfRows | ScatteredRows
"""The different sectors of several rows."""


def sectors_of_rows(different: Numbers, counts: Numbers, origin: int) -> SectorsOfRows:
    """The different sectors of rows, from `origin` on, row after row, each in order."""
    begins = numpy.ones(len(different) + 1, numpy.bool_)
    begins[1:-1] = different[1:] - different[:-1] != 1
    begins[numpy.cumsum(counts)] = True
    if _LONG * numpy.count_nonzero(begins) > len(begins):
        return ScatteredRows(different, origin, counts)
    starts = numpy.add(different[begins[:-1]], origin, dtype=numpy.int64)
    stops = numpy.add(different[begins[1:]], origin + 1, dtype=numpy.int64)
    runs_until = numpy.searchsorted(numpy.flatnonzero(begins), numpy.cumsum(counts))
    return RunsOfRows(Runs(starts, stops), numpy.diff(runs_until, prepend=0), counts)


class SectorSet:
    """Sectors, each once."""

    def __init__(self) -> None:
        self._pages: dict[int, numpy.ndarray] = {}

    def add(self, runs: Runs) -> None:
        if int(runs.lengths.sum()) > _SHORT * len(runs.starts):
            runs = runs.merged()
        if len(runs.starts) <= _FEW_RUNS:
            for page, start, stop in _by_page(runs):
                self._page(page)[start:stop] = True
            return
        self.add_numbers(runs.numbers(), 0)

    def add_numbers(self, numbers: Numbers, origin: int) -> None:
        """Put sectors into the set, counted from `origin` on."""
        if not len(numbers):
            return
        first = int(numbers.min()) + origin >> _PAGE_BITS
        last = int(numbers.max()) + origin >> _PAGE_BITS
        places = numpy.add(numbers, origin - (first << _PAGE_BITS), dtype=numpy.int64)
        if last - first < _MOST_PAGES_AT_ONCE:
            window = numpy.zeros((last - first + 1, _PAGE), numpy.bool_)
            window.reshape(-1)[places] = True
            for number, marks in enumerate(window, first):
                if marks.any():
                    self._page(number)[...] |= marks
            return
        pages = places >> _PAGE_BITS
        for number in numpy.unique(pages).tolist():
            self._page(first + number)[places[pages == number] % _PAGE] = True

    def _page(self, number: int) -> numpy.ndarray:
        if number not in self._pages:
            self._pages[number] = numpy.zeros(_PAGE, numpy.bool_)
        return self._pages[number]

    def __len__(self) -> int:
        return sum(int(numpy.count_nonzero(page)) for page in self._pages.values())

    @property
    def span(self) -> int:
        if not self._pages:
            return 0
        first, last = min(self._pages), max(self._pages)
        begin = (first << _PAGE_BITS) + int(self._pages[first].argmax())
        return (last + 1 << _PAGE_BITS) - int(self._pages[last][::-1].argmax()) - begin

    @staticmethod
    def union(sets: Iterable[SectorSet]) -> SectorSet:
        union = SectorSet()
        for sector_set in sets:
            for number, page in sector_set._pages.items():
                other = union._pages.get(number)
                union._pages[number] = page.copy() if other is None else other | page
        return union


def _by_page(runs: Runs) -> Iterator[tuple[int, int, int]]:
    """(page, start in it, stop in it) of every run, cut where pages end."""
    for start, stop in zip(runs.starts.tolist(), runs.stops.tolist()):
        while start < stop:
            page, first = divmod(start, _PAGE)
            last = min(first + stop - start, _PAGE)
            yield page, first, last
            start += last - first


_MOST = 256
"""Elements of a message along each dimension (PTX ISA, boxDim of a tensor map)."""
_ROWS_TOGETHER = 4
"""Rows that one message gathers or scatters (PTX ISA, cp.async.bulk.tensor, .tile::gather4)."""

OfBlocks = (
    ttng.AsyncTmaCopyGlobalToLocalOp
    | ttng.AsyncTmaGatherOp
    | ttng.AsyncTmaScatterOp
    | ttng.TmaStore
)
"""Operations that move a block."""


Messages = Numbers
"""How a block is moved: the elements of each message by number, the last axis of the block fastest:
shape (messages, elements)."""


def messages_of(op: Operation) -> Messages:
    """How an operation moves its block; a descriptor that a kernel writes is moved at once."""
    if not isinstance(op, OfBlocks):
        return numpy.arange(DESCRIPTOR_BYTES)[None]
    block = cast(TensorDescType, op.operands[0].type).block
    shape = block.get_shape()
    if isinstance(op, ttng.AsyncTmaGatherOp | ttng.AsyncTmaScatterOp):
        rows = cast(MemDescType, op.memory.type).shape[-2]
        box = _box((rows, shape[-1]), op)
        shape, box = (rows, shape[-1]), (_ROWS_TOGETHER, box[-1])
    else:
        box = _box(shape, op)
    parts = [size for extent, part in zip(shape, box) for size in (extent // part, part)]
    numbers = numpy.arange(math.prod(shape)).reshape(parts)
    order = [*range(0, len(parts), 2), *range(1, len(parts), 2)]
    return numbers.transpose(order).reshape(-1, math.prod(box))


def _box(shape: tuple[int, ...], op: OfBlocks) -> tuple[int, ...]:
    """The largest part of a block that one message moves: Triton's getTMABlockShape."""
    box = [min(extent, _MOST) for extent in shape]
    encoding = cast(MemDescType, op.memory.type).encoding
    if isinstance(encoding, NvmmaSharedEncoding) and encoding.swizzling_byte_width:
        across = 8 * encoding.swizzling_byte_width // encoding.element_bit_width
        inner = 0 if encoding.transposed else len(shape) - 1
        box[inner] = min(shape[inner], across // 2 if encoding.fp4_padded else across)
    return tuple(box)


# The requests of one execution of an access to the memory system, from its addresses.
#
# An NVIDIA GPU executes an access warp by warp. The active lanes of one instruction make one
# request, which moves every sector of 32 bytes that one of them touches, once; but lanes of an
# atomic that share an address take turns. Four sectors, at a multiple of 128 bytes, are a line.
#
# Each message of the copy engine is a request, even one that is wholly outside the tensor, as an
# H200 counts (sm__sass_inst_executed_op_tma_ld). Its elements take the place of lanes.

LINE = 128
"""Bytes of a line."""

_LINE_BITS = 7
_NOWHERE = -2 * SECTOR
"""The address in place of an inactive lane's: its sector is below all others, and next to none."""
_NARROW = (numpy.int16, numpy.int32)
"""The type of addresses near each other: fewer bits are sorted and compared faster."""


@dataclass(frozen=True)
class RowCosts:
    """The costs of rows of addresses; a row is one program's execution.

    Attributes:
        counts: name of a field of a `GlobalAccess`, such as "sectors" -> one number for each row.
    """

    counts: Mapping[str, Numbers]
    touched: SectorsOfRows


@dataclass(frozen=True)
class Instructions:
    """The instructions of an access, or the copy engine's messages, by their first elements.

    Attributes:
        access: how lanes access the tile, or the copy engine does.
        lanes: the first element of each lane: int64 (instructions, lanes); any if it is off.
        taking_part: which lanes take part, of the same shape; None for all.
        as_they_lie: whether lane after lane has the elements in the order of their numbers.
    """

    access: WarpAccess | Messages
    lanes: Numbers
    taking_part: numpy.ndarray | None
    as_they_lie: bool

    @staticmethod
    def of(access: WarpAccess | Messages) -> Instructions:
        places = access.first if isinstance(access, WarpAccess) else access
        places = places[places[:, 0].argsort()]
        taking_part = places != NO_ONE
        flat = places.reshape(-1)
        as_they_lie = bool((flat == numpy.arange(len(flat))).all())
        everybody = taking_part.all()
        return Instructions(
            access, numpy.maximum(places, 0), None if everybody else taking_part, as_they_lie
        )

    def taken(self, elements: numpy.ndarray) -> numpy.ndarray:
        """The values of rows of elements for every lane: shape (rows, instructions, lanes)."""
        if self.as_they_lie and elements.shape[1] == self.lanes.size:
            return elements.reshape(-1, *self.lanes.shape)
        return elements.take(self.lanes, axis=1)

    def asking(self, on: numpy.ndarray | None) -> numpy.ndarray | None:
        """Which lanes take part if elements are `on`: (rows or 1, instructions, lanes), or None."""
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
    """The costs of rows of addresses.

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
    """Addresses in few bits, from the beginning of a line below all; that beginning."""
    origin = int(addresses.min()) // LINE * LINE
    highest = int(addresses.max()) - origin
    kind = next((kind for kind in _NARROW if highest <= numpy.iinfo(kind).max), numpy.int64)
    near = numpy.subtract(addresses, origin, order="C")  # those that rows share are written out
    return near.astype(kind, copy=False), origin


def _sorted(numbers: Numbers) -> Numbers:
    first = numbers[:1]
    if (first[..., 1:] >= first[..., :-1]).all() and (numbers[..., 1:] >= numbers[..., :-1]).all():
        return numbers
    return numpy.sort(numbers, axis=-1)


def _changes(ordered: Numbers) -> numpy.ndarray:
    """Where along the last, sorted axis another number begins that takes part."""
    flat = ordered.reshape(-1)
    changes = numpy.empty(ordered.shape, numpy.bool_)
    # All rows at once, as one: their first places are seen to afterwards.
    numpy.not_equal(flat[1:], flat[:-1], out=changes.reshape(-1)[1:])
    numpy.greater_equal(ordered[..., 0], 0, out=changes[..., 0])
    return changes


def _count(marks: numpy.ndarray) -> Numbers:
    lanes = marks.shape[-1]
    if lanes % 8:
        return numpy.asarray(numpy.count_nonzero(marks, axis=-1))
    # Eight and more marks at once: several times as soon as NumPy counts along a short axis.
    word = numpy.dtype(f"u{math.gcd(lanes // 8, 8)}")
    counts = numpy.bitwise_count(numpy.packbits(marks).view(word)).astype(numpy.int64)
    counts = counts.reshape(*marks.shape[:-1], lanes // 8 // word.itemsize)
    return numpy.asarray(counts[..., 0] if counts.shape[-1] == 1 else counts.sum(axis=-1))


def _extra_turns(ordered: Numbers) -> Numbers:
    """How many sectors requests move again because their lanes take turns: the n-th lanes at their
    addresses move theirs together. Counted so on an H200: 32 lanes at one address move 32 sectors;
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
    """As `_touched`, if the sectors are `count` or fewer: each is marked in a separate row."""
    below = -_NOWHERE // SECTOR  # where lanes that are off are marked
    marks = numpy.zeros((len(sectors), below + count), numpy.bool_)
    row = numpy.arange(below, marks.size, below + count)[:, None]
    marks.reshape(-1)[sectors + row] = True
    row_of, different = numpy.nonzero(marks[:, below:])
    return sectors_of_rows(different, numpy.bincount(row_of, minlength=len(marks)), origin)
