"""Barriers in shared memory (mbarriers): words that count arrivals and bytes, as on the hardware.

A phase completes when every arrival has come and every byte that was announced is there; then the
phase's parity turns and counting begins anew (PTX ISA, mbarrier). The word of a barrier holds, from
the lowest bit: the parity of the phase that is under way, the arrivals that are still missing, the
arrivals of each phase, and the bytes that are still to come, which are negative where bytes come
before they are announced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.numerics.tiles import Active, Value, narrowed

_COUNT_BITS = 20
_COUNT = (1 << _COUNT_BITS) - 1
_LACKING = 1
_OF_EACH_PHASE = _LACKING + _COUNT_BITS
_BYTES = _OF_EACH_PHASE + _COUNT_BITS
"""Where each field begins."""


@dataclass
class PhaseNeverCompletes(Exception):
    """A wait for a phase that nothing can complete any more, in the terms of one batch."""

    phase: int
    arrivals: int
    """Arrivals that are missing in the phase."""
    bytes: int
    """Announced bytes that did not come."""
    program: int
    """Position of the program in the batch."""


def initialize(barrier: SharedTile, count: int, active: Active = None) -> None:
    """A barrier whose every phase takes `count` arrivals; phase 0 is under way."""
    word = count << _LACKING | count << _OF_EACH_PHASE
    shared_memory.store(barrier, numpy.full(barrier.shape, word, numpy.int64), active)


def invalidate(barrier: SharedTile, active: Active = None) -> None:
    """The memory may be used for something else."""
    shared_memory.store(barrier, numpy.full(barrier.shape, -1, numpy.int64), active)


def expect(barrier: SharedTile, size: int, active: Active = None) -> None:
    """One arrival, which announces `size` bytes."""
    _count(barrier, 1, size, active)


def arrive(barrier: SharedTile, count: int = 1, active: Active = None) -> None:
    """`count` arrivals."""
    _count(barrier, count, 0, active)


def receive(barrier: SharedTile, size: int, active: Active = None) -> None:
    """`size` of the bytes that are still to come are there."""
    _count(barrier, 0, -size, active)


def _count(barrier: SharedTile, arrivals: int, size: int, active: Active) -> None:
    word = shared_memory.load(barrier)
    lacking = (word >> _LACKING & _COUNT) - arrivals
    of_each_phase = word >> _OF_EACH_PHASE & _COUNT
    to_come = (word >> _BYTES) + size
    done = (lacking == 0) & (to_come == 0)
    parity = (word & 1) ^ done
    lacking = numpy.where(done, of_each_phase, lacking) & _COUNT
    counted = parity | lacking << _LACKING | of_each_phase << _OF_EACH_PHASE | to_come << _BYTES
    shared_memory.store(barrier, counted, active)


def is_under_way(barrier: SharedTile, phase: Value, active: Active = None) -> bool:
    """Whether a program has to wait for the phase of that parity."""
    return bool(_waiting(barrier, phase, active).any())


def wait(barrier: SharedTile, phase: Value, active: Active = None) -> None:
    """Go on when the phase of that parity is complete;
    copies and products are done as soon as they are asked for.

    Raises:
        PhaseNeverCompletes: it is not complete, and there is no one left to complete it.
    """
    waiting = _waiting(barrier, phase, active)
    if not waiting.any():
        return
    program = int(numpy.argmax(waiting))
    word = int(shared_memory.load(barrier)[program].flat[0])
    phases = numpy.broadcast_to(numpy.asarray(phase), waiting.shape)
    lacking = word >> _LACKING & _COUNT
    raise PhaseNeverCompletes(int(phases[program]), lacking, word >> _BYTES, program)


def _waiting(barrier: SharedTile, phase: Value, active: Active) -> numpy.ndarray:
    """Which of the active programs the phase is not complete for."""
    word = shared_memory.load(barrier)
    under_way = (word & 1).reshape(len(word), -1) == numpy.asarray(phase).reshape(-1, 1)
    return narrowed(active, under_way.any(axis=1), len(word))
