"""Find racing reads without an effect: a program reads a version number again, and discards what it
read if another program has begun to write.

The run is repeated with other values in place of those that were read, to see whether a result
changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Stopped
from kernellab.checker.outcomes import differences
from kernellab.checker.races.tracking import PairSummary
from kernellab.checker.schedules import Schedule
from kernellab.checker.session import CheckSession
from kernellab.errors import KernelFault
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.layers import Load, MemoryAccess


@dataclass(frozen=True)
class Repeatable:
    """A run of a launch in which programs are preempted, and how to repeat it."""

    session: CheckSession
    schedule: Schedule
    run: CheckedRun


def with_effect(together: Sequence[PairSummary], again: Repeatable) -> list[PairSummary]:
    """Return the access pairs with an effect: pairs of stores, and reads that affect a result."""
    stores = [pair for pair in together if not pair.reads]
    if len(stores) == len(together) or not _have_an_effect(together, again):
        return stores
    reading = [pair for pair in together if pair.reads]
    alone = [pair for pair in reading if _have_an_effect([pair], again)]
    return stores + (alone or reading)


def _have_an_effect(together: Sequence[PairSummary], again: Repeatable) -> bool:
    """Return whether the values read in these pairs affect a result."""
    reads = {number: op for pair in together for number, op in pair.reads.items()}
    return any(_changes(again, _Other(reads, values)) for values in (_far_off, _near))


def _changes(again: Repeatable, other: _Other) -> bool:
    """Whether other values change a result, or cannot be put where they belong."""
    try:
        run = again.session.repeat(schedule=again.schedule, change=other)
    except (Stopped, KernelFault):
        return True
    return bool(other.reads) or any(True for _ in differences(again.run.results, run.results))


class _Other:
    """Puts other values in what some accesses of a run read; see `events.Change`.

    Attributes:
        reads: those that have not been met so far: which access of the run, and its operation.
    """

    def __init__(
        self,
        reads: Mapping[int, Operation],
        values: Callable[[numpy.ndarray, int], numpy.ndarray],
    ) -> None:
        self.reads = dict(reads)
        self._values = values
        self._number = 0

    def __call__(self, access: Access) -> MemoryAccess:
        self._number += 1
        request = access.request
        if self.reads.get(self._number) is not access.operation or not isinstance(request, Load):
            return request
        del self.reads[self._number]
        held = numpy.asarray(request.made_by(global_memory))
        nowhere = numpy.zeros((1,) * request.rank, numpy.bool_)
        return dataclasses.replace(request, mask=nowhere, other=self._values(held, self._number))


def _far_off(held: numpy.ndarray, number: int) -> numpy.ndarray:
    """NaN; of integers, those with other bits, which differ from read to read."""
    if held.dtype.kind in "iub":
        return numpy.asarray(
            ~held if held.dtype.kind == "b" else ~held + held.dtype.type(number % 97)
        )
    return numpy.full_like(held, numpy.nan)


def _near(held: numpy.ndarray, number: int) -> numpy.ndarray:
    """Numbers nearby."""
    if held.dtype.kind == "b":
        return numpy.asarray(~held)
    return numpy.asarray(held + held.dtype.type(1 + number % 97))
