"""Which sectors the programs of a batch touch, in all the times that they make one access."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy

from kernellab.profiling.accesses.alike import Alike, first_of_each
from kernellab.profiling.accesses.sectors import (
    Runs,
    RunsOfRows,
    ScatteredRows,
    SectorSet,
    SectorsOfRows,
)
from kernellab.records.layouts import Numbers

_PROGRAM_BITS = 42
"""A program's number shifted by so many bits, plus a sector's, is a number of its own:
addresses have 47 bits, so sectors have 42."""
_NO_ROW = -1
"""In the place of a row, for a program that takes no part."""
_MOST_EXECUTIONS = 64
"""So many are kept as they are; then they become one."""
_FEW_RUNS = 4096
"""So many runs are cheaper than finding out which programs do the same."""


class _Execution(NamedTuple):
    """One time that programs made the access: each touched a row's sectors, moved by so many."""

    rows: SectorsOfRows
    programs: Numbers
    row_of: Numbers
    moved: Numbers

    def runs(self) -> Runs:
        """All sectors that it touches, those of programs that do the same once."""
        rows = self.rows.as_runs()
        if not self.moved.any():
            return rows.runs
        if rows.counts[self.row_of].sum() <= _FEW_RUNS:
            return rows.chosen(self.row_of, self.moved)[0]
        first, _ = first_of_each([self.row_of, self.moved - self.moved.min()])
        return rows.chosen(self.row_of[first], self.moved[first])[0]


@dataclass
class Touched:
    """The sectors of a batch."""

    _executions: list[_Execution] = field(default_factory=list)

    def add(self, programs: Alike, rows: SectorsOfRows) -> None:
        """Programs have made the access once more."""
        if len(self._executions) == _MOST_EXECUTIONS:
            self._executions = [self._as_one()]
        self._executions.append(
            _Execution(rows, programs.programs, programs.row_of, programs.moved)
        )

    def put_into(self, found: SectorSet) -> None:
        """Put all sectors into a set."""
        runs = []
        for one in self._executions:
            if isinstance(one.rows, ScatteredRows) and not one.moved.any():
                found.add_numbers(one.rows.numbers, one.rows.origin)
            else:
                runs.append(one.runs())
        if runs:
            found.add(Runs.joined(runs))

    def by_programs(self) -> int:
        """How many different sectors each program touched, added up."""
        if len(self._executions) == 1:
            (only,) = self._executions
            return int(only.rows.sectors[only.row_of].sum())
        rows, moved = self._by_time()
        # Programs that do the same, time after time, as far away from each other, touch as many.
        taking_part = rows != _NO_ROW
        begin = moved[taking_part.argmax(axis=0), numpy.arange(rows.shape[1])]
        moved = numpy.where(taking_part, moved - begin, 0)
        moved -= moved.min()  # sectors are counted from 0 on
        both, weights = numpy.unique(numpy.concatenate([rows, moved]), axis=1, return_counts=True)
        once = self._merged(*numpy.split(both, 2))
        return int((once.lengths * weights[once.starts >> _PROGRAM_BITS]).sum())

    def _as_one(self) -> _Execution:
        rows, moved = self._by_time()
        once = self._merged(rows, moved)
        owners = once.starts >> _PROGRAM_BITS
        runs = Runs(once.starts - (owners << _PROGRAM_BITS), once.stops - (owners << _PROGRAM_BITS))
        programs = numpy.arange(rows.shape[1])
        counts = numpy.bincount(owners, minlength=len(programs))
        sectors = numpy.bincount(owners, runs.lengths, minlength=len(programs)).astype(numpy.int64)
        of_rows = RunsOfRows(runs, counts, sectors)
        return _Execution(of_rows, programs, programs, numpy.zeros_like(programs))

    def _by_time(self) -> tuple[Numbers, Numbers]:
        """The row of every program in each execution, and how far it was moved:
        shape (executions, programs).
        """
        count = 1 + max(int(one.programs.max()) for one in self._executions)
        rows = numpy.full((len(self._executions), count), _NO_ROW)
        moved = numpy.zeros(rows.shape, numpy.int64)
        for time, one in enumerate(self._executions):
            rows[time, one.programs] = one.row_of
            moved[time, one.programs] = one.moved
        return rows, moved

    def _merged(self, rows: Numbers, moved: Numbers) -> Runs:
        """All that was touched by each column of `_by_time`, whose number stands
        above _PROGRAM_BITS.
        """
        parts = []
        for one, row, shift in zip(self._executions, rows, moved):
            taking_part = numpy.flatnonzero(row != _NO_ROW)
            runs, owners = one.rows.as_runs().chosen(row[taking_part], shift[taking_part])
            program = taking_part[owners] << _PROGRAM_BITS
            parts.append(Runs(program + runs.starts, program + runs.stops))
        return Runs.joined(parts).merged()
