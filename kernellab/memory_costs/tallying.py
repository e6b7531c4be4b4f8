"""What observed accesses cost the memory system: instructions, sectors, lines, and how many of them are different ones.

An NVIDIA GPU takes an access warp by warp. The lanes of one instruction that are on make one request, which moves every sector of
32 bytes that one of them touches, once; but lanes of an atomic that share an address take turns. Four sectors, at a multiple of 128 bytes, are a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from kernellab.compiler.analyses.warp_accesses import NOBODY, WarpAccess
from kernellab.interpreter.affine import AffineTile, BoxMask
from kernellab.interpreter.bases import as_array
from kernellab.interpreter.observing import Seen
from kernellab.layouts import Numbers
from kernellab.memory_costs.sectors import SECTOR, SectorSet, different

LINE = 128
"""Bytes of a line."""

_NOWHERE = -1
"""In the place of a sector, for a lane that is off."""
_PROGRAM = 1 << 42
"""A program's number times this, plus a sector's, is a number of its own: addresses have 47 bits, so sectors have 42."""


class _Asked(NamedTuple):
    """The requests of some programs: arrays of shape (rows, requests, lanes)."""

    addresses: Numbers
    on: numpy.ndarray | None
    bytes: Numbers
    """How many each request asks for, those that lanes share more than once: shape (rows, requests)."""


@dataclass
class Tally:
    """What one operation has cost so far.

    Attributes:
        access: how lanes access its tile; None where a tile is moved as one block, by the copy engine.
        takes_turns: whether lanes that share an address take turns, as those of atomics do: each turn moves the sector.
        executions: how often a program has executed it.
        requests, sectors, lines: see the module.
        best_sectors: how many sectors its requests would move if the lanes that are on accessed neighbouring elements.
        useful_bytes: of the elements that were on, each counted once an execution.
        touched: the different sectors of each program, added up.
        different: the different sectors of all programs.
        repeated_sectors: of the sectors, those that were moved again because lanes share an address and take turns.
        steps: bytes from an element to its neighbour, by dimension, the same in every execution; None where there is no such step.
    """

    access: WarpAccess | None
    takes_turns: bool = False
    executions: int = 0
    requests: int = 0
    sectors: int = 0
    lines: int = 0
    best_sectors: int = 0
    useful_bytes: int = 0
    touched: int = 0
    repeated_sectors: int = 0
    steps: tuple[int, ...] | None = None
    different: SectorSet = field(default_factory=SectorSet)
    _of_batch: list[_Touched] = field(default_factory=list)

    def add(self, seen: Seen, shape: tuple[int, ...]) -> None:
        """Count an access to a tile of `shape`."""
        steps = seen.addresses.strides if isinstance(seen.addresses, AffineTile) else None
        self.steps = steps if not self.executions or steps == self.steps else None
        for part in _parts(seen, shape):
            self._add(part, seen.size)

    def _add(self, part: _Part, size: int) -> None:
        weights = part.weights
        elements = part.on_elements()
        self.executions += int(weights.sum())
        self.useful_bytes += int((elements * weights).sum()) * size
        asked = self._asked(part, elements * size)
        sectors = _sorted(_without(asked.addresses // SECTOR, asked.on))
        new = _is_new(sectors)
        moved = new
        if self.takes_turns:
            moved = _is_new(_sorted(_without(_turns(asked.addresses, asked.on), asked.on)))
        moved = moved.sum(axis=-1)
        best = numpy.minimum(-(-asked.bytes // SECTOR), moved)
        self.requests += int(((asked.bytes > 0).sum(axis=1) * weights).sum())
        self.sectors += int((moved.sum(axis=1) * weights).sum())
        self.repeated_sectors += int(((moved - new.sum(axis=-1)).sum(axis=1) * weights).sum())
        self.lines += int((_is_new(sectors // (LINE // SECTOR)).sum(axis=(1, 2)) * weights).sum())
        self.best_sectors += int((best.sum(axis=1) * weights).sum())
        every = _sorted(sectors.reshape(len(sectors), -1))
        first = _is_new(every)
        self._of_batch.append(part.touched(every[first], first.sum(axis=1)))

    def _asked(self, part: _Part, block_bytes: Numbers) -> _Asked:
        """What each request of the programs asks for; a block that the copy engine moves is one request."""
        if self.access is None:
            on = None if part.on is None else part.on[:, None, :]
            return _Asked(part.addresses[:, None, :], on, block_bytes[:, None])
        first = self.access.first
        on = part.lanes(first)
        lanes = first.shape[1] if on is None else on.sum(axis=-1)
        everywhere = numpy.ones((len(part.addresses), len(first)), numpy.int64)
        bytes_asked = everywhere * lanes * (self.access.width * self.access.size)
        return _Asked(part.addresses[:, numpy.maximum(first, 0)], on, bytes_asked)

    def end_batch(self) -> None:
        """Forget which program touched which sector: the next batch has other programs."""
        if not self._of_batch:
            return
        if len(self._of_batch) == 1:
            _, sectors = self._of_batch[0].by_program()
        else:
            every = [p * _PROGRAM + s for p, s in (one.by_program() for one in self._of_batch)]
            sectors = different(numpy.concatenate(every)) % _PROGRAM
        self.touched += len(sectors)
        self.different.add(sectors)
        self._of_batch.clear()


# What programs of a batch have in common


@dataclass(frozen=True)
class _Part:
    """Accesses of some programs, those that cost the same only once.

    Attributes:
        addresses: of every element, in bytes: shape (rows, elements).
        on: which elements take part, of the same shape; None for all.
        programs: numbers of the programs, in the order of their rows.
        row_of: the row of each program.
        moved: how many sectors a program's own lie beyond those of its row.
    """

    addresses: Numbers
    on: numpy.ndarray | None
    programs: Numbers
    row_of: Numbers
    moved: Numbers

    @property
    def weights(self) -> Numbers:
        """How many programs each row stands for."""
        return numpy.bincount(self.row_of, minlength=len(self.addresses))

    def on_elements(self) -> Numbers:
        """How many elements take part, by row."""
        if self.on is None:
            return numpy.full(len(self.addresses), self.addresses.shape[1])
        return numpy.asarray(self.on.sum(axis=1))

    def lanes(self, first: Numbers) -> numpy.ndarray | None:
        """Which lanes of each instruction take part: shape (rows or 1, instructions, lanes); None for all."""
        taking_part = first != NOBODY
        if self.on is not None:
            on: numpy.ndarray = self.on[:, numpy.maximum(first, 0)] & taking_part
            return on
        return None if taking_part.all() else numpy.broadcast_to(taking_part, (len(self.addresses), *first.shape))  # fmt: skip

    def touched(self, sectors: Numbers, counts: Numbers) -> _Touched:
        """The different sectors of each row, `counts` of them row after row, as sectors of programs."""
        return _Touched(sectors, counts, self.programs, self.row_of, self.moved)


class _Touched(NamedTuple):
    """The different sectors that programs touched in one access."""

    sectors: Numbers
    """Row after row."""
    counts: Numbers
    """How many each row has."""
    programs: Numbers
    row_of: Numbers
    moved: Numbers
    """The three as in `_Part`."""

    def by_program(self) -> tuple[Numbers, Numbers]:
        """The sectors of every program, and the program of each."""
        many = self.counts[self.row_of]
        programs = numpy.repeat(self.programs, many)
        if len(self.counts) == 1:
            return programs, (self.sectors + self.moved[:, None]).reshape(-1)
        starts = numpy.cumsum(self.counts) - self.counts
        begins = numpy.cumsum(many) - many
        place = numpy.arange(len(programs)) + numpy.repeat(starts[self.row_of] - begins, many)
        return programs, self.sectors[place] + numpy.repeat(self.moved, many)


def _parts(seen: Seen, shape: tuple[int, ...]) -> Iterator[_Part]:
    """The programs of a batch that take part in an access, in one or two parts."""
    count = seen.programs.count
    programs = numpy.arange(count) if seen.active is None else numpy.flatnonzero(seen.active)
    tile, mask = seen.addresses, seen.mask
    if isinstance(tile, AffineTile) and (mask is None or isinstance(mask, BoxMask)):
        whole = numpy.broadcast_to(_full(mask), count)[programs]
        if whole.any():
            yield _affine(tile, shape, programs[whole])
        programs = programs[~whole]
    if len(programs):
        yield _any(seen, shape, programs)


def _full(mask: BoxMask | None) -> Any:
    """Whether a mask leaves no element out, by program or for all."""
    if mask is None:
        return True
    full: Any = True
    for dimension, (start, stop) in mask.intervals.items():
        full = full & (as_array(start) <= 0) & (as_array(stop) >= mask.extents[dimension])
    return full


def _affine(tile: AffineTile, shape: tuple[int, ...], programs: Numbers) -> _Part:
    """Programs whose addresses begin alike within a line cost alike."""
    if isinstance(tile.base, int):
        bases = numpy.full(len(programs), tile.base)
    else:
        bases = as_array(tile.base)[programs]
    phases, row_of = numpy.unique(bases % LINE, return_inverse=True)
    steps = AffineTile(0, tile.strides, tile.extents, numpy.dtype(numpy.int64)).elements()
    offsets = numpy.broadcast_to(steps, shape).reshape(-1)
    behind = -(min(int(offsets.min()), 0) // LINE * LINE)  # sectors are counted from 0 on
    moved = (bases - phases[row_of] - behind) // SECTOR
    return _Part(phases[:, None] + offsets + behind, None, programs, row_of, moved)


def _any(seen: Seen, shape: tuple[int, ...], programs: Numbers) -> _Part:
    """Programs with addresses or masks that have no pattern."""
    addresses = _by_program(seen.addresses, shape, programs)
    on = None
    if seen.mask is not None:
        on = _by_program(seen.mask, shape, programs)
    nowhere = numpy.zeros(len(programs), numpy.int64)
    return _Part(addresses, on, programs, numpy.arange(len(programs)), nowhere)


def _by_program(value: Any, shape: tuple[int, ...], programs: Numbers) -> Any:
    """A tile of every program, flat: shape (programs, elements)."""
    array = numpy.asarray(value)
    array = array.reshape((1,) * (len(shape) + 1 - array.ndim) + array.shape)
    if len(array) > 1:
        array = array[programs]
    whole = numpy.broadcast_to(array, (len(programs), *shape))
    return whole.reshape(len(programs), -1)


# Sectors


def _without(sectors: Numbers, on: numpy.ndarray | None) -> Numbers:
    """The sectors of what takes part, and _NOWHERE in other places."""
    return sectors if on is None else numpy.where(on, sectors, _NOWHERE)


def _sorted(sectors: Numbers) -> Numbers:
    """In order along the last axis, which they mostly are already."""
    if (sectors[..., 1:] >= sectors[..., :-1]).all():
        return sectors
    return numpy.sort(sectors, axis=-1)


def _is_new(sectors: Numbers) -> numpy.ndarray:
    """Which of the sectors, in order along the last axis, are the first of their kind."""
    new = numpy.empty(sectors.shape, numpy.bool_)
    new[..., 0] = sectors[..., 0] >= 0
    new[..., 1:] = (sectors[..., 1:] != sectors[..., :-1]) & (sectors[..., 1:] >= 0)
    return new


def _turns(addresses: Numbers, on: numpy.ndarray | None) -> Numbers:
    """A number for each lane that only those share whose sector is moved in the same turn: the n-th lanes at their addresses.

    Counted so on an H200: 32 lanes at one address move 32 sectors; 4 at each of 8 neighbours, one sector 4 times.
    """
    lanes = addresses.shape[-1]
    taking_part = addresses if on is None else numpy.where(on, addresses, _NOWHERE)
    order = numpy.argsort(taking_part, axis=-1, kind="stable")
    ordered = numpy.take_along_axis(taking_part, order, axis=-1)
    begins = numpy.ones(ordered.shape, numpy.bool_)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    starts = numpy.maximum.accumulate(numpy.where(begins, numpy.arange(lanes), 0), axis=-1)
    turn = numpy.empty_like(order)
    numpy.put_along_axis(turn, order, numpy.arange(lanes) - starts, axis=-1)
    found: Numbers = addresses // SECTOR * lanes + turn
    return found
