"""How shared memory serves a warp: in wavefronts, by its banks.

Shared memory has 32 banks of 4 bytes; a word's bank is its address over 4, modulo 32. An
instruction of a warp is served in turns of as many lanes as can take 128 bytes together: 32 lanes
of 4 bytes or less, 16 of 8, 8 of 16, and the 8 rows of a matrix of ldmatrix and stmatrix. A turn
takes as many wavefronts as there are different words in one bank; lanes that share a word share it.
CUDA C++ Programming Guide, "Shared Memory"; on an H200 the counts of 53 kernels are what this
gives, but for asynchronous copies whose pieces change their places (docs/fidelity.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy

from kernellab.records.layouts import Numbers

BANKS = 32
WORD = 4
"""Bytes of a bank's word."""
WAVEFRONT = BANKS * WORD
"""Bytes that one wavefront moves at most."""
LANES = 32
"""Lanes of a warp."""


class Wavefronts(NamedTuple):
    """What some instructions of warps cost together."""

    instructions: int
    """Those of which a lane took part."""
    wavefronts: int
    best: int
    """Wavefronts without conflicts: one for each turn."""
    ways: int
    """Wavefronts of the worst turn: 1 without conflicts, 0 where no lane took part."""
    bytes: int
    """That lanes read or write, those that share a word each for itself."""


def together(parts: Sequence[Wavefronts]) -> Wavefronts:
    """What several cost."""
    return Wavefronts(
        instructions=sum(one.instructions for one in parts),
        wavefronts=sum(one.wavefronts for one in parts),
        best=sum(one.best for one in parts),
        ways=max((one.ways for one in parts), default=0),
        bytes=sum(one.bytes for one in parts),
    )


def wavefronts(
    addresses: Numbers, on: numpy.ndarray, size: int, each_alone: bool = False
) -> Wavefronts:
    """What one instruction costs in every warp that executes it.

    Args:
        addresses: of each lane's first byte: shape (warps, 32).
        on: which lanes take part, of the same shape.
        size: bytes of each lane.
        each_alone: lanes that share a word take it one after the other, as those of atomics do.
    """
    words_each = max(size // WORD, 1)
    turns = min(words_each, LANES)
    first = addresses.reshape(-1, LANES // turns) // WORD
    taking_part = on.reshape(first.shape)
    words = (first[..., None] + numpy.arange(words_each)).reshape(len(first), -1)
    counted = numpy.repeat(taking_part, words_each, axis=1)
    if not each_alone:
        order = numpy.argsort(numpy.where(counted, words, -1), axis=1, kind="stable")
        words = numpy.take_along_axis(words, order, 1)
        counted = numpy.take_along_axis(counted, order, 1)
        counted[:, 1:] &= (words[:, 1:] != words[:, :-1]) | ~counted[:, :-1]
    rows = numpy.arange(len(words))[:, None] * BANKS
    in_bank = numpy.bincount((rows + words % BANKS)[counted], minlength=len(words) * BANKS)
    taken = in_bank.reshape(-1, BANKS).max(axis=1)
    return Wavefronts(
        instructions=int(on.any(axis=1).sum()),
        wavefronts=int(taken.sum()),
        best=int((taken > 0).sum()),
        ways=int(taken.max(initial=0)),
        bytes=int(on.sum()) * size,
    )
