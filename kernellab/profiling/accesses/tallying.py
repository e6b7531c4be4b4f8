"""What observed accesses cost the memory system, added up over a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy

from kernellab.compiler.modules.warp_accesses import WarpAccess
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.observers import ObservedAccess
from kernellab.profiling.accesses.alike import Alike, alike, first_of_each
from kernellab.profiling.accesses.copy_engine import Messages
from kernellab.profiling.accesses.requests import Instructions, RowCosts, costs_of_rows
from kernellab.profiling.accesses.sectors import (
    Runs,
    RunsOfRows,
    ScatteredRows,
    SectorSet,
    SectorsOfRows,
)
from kernellab.records.layouts import Numbers

_PROGRAM_BITS = 42
"""A program's number shifted by so many bits, plus a sector's, is unique:
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

    def put_into(self, sectors: SectorSet) -> None:
        """Put all sectors into a set."""
        runs = []
        for execution in self._executions:
            if isinstance(execution.rows, ScatteredRows) and not execution.moved.any():
                sectors.add_numbers(execution.rows.numbers, execution.rows.origin)
            else:
                runs.append(execution.runs())
        if runs:
            sectors.add(Runs.joined(runs))

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
        count = 1 + max(int(execution.programs.max()) for execution in self._executions)
        rows = numpy.full((len(self._executions), count), _NO_ROW)
        moved = numpy.zeros(rows.shape, numpy.int64)
        for time, execution in enumerate(self._executions):
            rows[time, execution.programs] = execution.row_of
            moved[time, execution.programs] = execution.moved
        return rows, moved

    def _merged(self, rows: Numbers, moved: Numbers) -> Runs:
        """All that was touched by each column of `_by_time`, whose number is in the bits
        above _PROGRAM_BITS.
        """
        parts = []
        for execution, row, shift in zip(self._executions, rows, moved):
            taking_part = numpy.flatnonzero(row != _NO_ROW)
            runs, owners = execution.rows.as_runs().chosen(row[taking_part], shift[taking_part])
            program = taking_part[owners] << _PROGRAM_BITS
            parts.append(Runs(program + runs.starts, program + runs.stops))
        return Runs.joined(parts).merged()


_MOST_RUNS_KEPT = 1 << 20
"""Of all rows whose costs are kept, 16 MiB."""

_COUNTED = (
    "requests", "sectors", "lines", "repeated_sectors", "best_sectors", "useful_bytes",
)  # fmt: skip

Steps = tuple[int | None, ...]
"""Bytes from an element to its neighbor, by dimension; None for one without a fixed step."""


@dataclass
class Tally:
    """What one operation has cost so far.

    Attributes:
        access: how lanes access its tile, or the copy engine does.
        takes_turns: whether lanes that share an address take turns, as those of atomics do: each
            turn moves the sector.
        executions: how often a program has executed it.
        counts: name of a field of a `GlobalAccess`, such as "sectors" -> its number.
        touched: the different sectors of each program, added up.
        different: the different sectors of all programs.
        steps: bytes from an element to its neighbor, by dimension, the same in every execution;
            None where there is no such step. Where addresses have no pattern as a whole, only the
            dimension is looked at along which neighboring lanes lie.
    """

    access: WarpAccess | Messages
    takes_turns: bool = False
    executions: int = 0
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTED, 0)))
    touched: int = 0
    steps: Steps | None = None
    different: SectorSet = field(default_factory=SectorSet)
    _under_way: dict[Programs, Touched] = field(default_factory=dict)
    _known: dict[Hashable, RowCosts] = field(default_factory=dict)
    _runs_kept: int = 0
    _instructions: Instructions = field(init=False)

    def __post_init__(self) -> None:
        self._instructions = Instructions.of(self.access)

    def add(self, seen: ObservedAccess, shape: tuple[int, ...]) -> None:
        """Count an access to a tile of `shape`."""
        programs = alike(seen, shape)
        if not len(programs.programs):
            return
        self._compare_steps(seen, shape, programs)
        costs = self._costs(programs, seen.size)
        self.executions += len(programs.programs)
        weights = numpy.bincount(programs.row_of, minlength=len(costs.counts["requests"]))
        for name, numbers in costs.counts.items():
            self.counts[name] += int(numbers @ weights)
        self._under_way.setdefault(seen.programs, Touched()).add(programs, costs.touched)

    def _compare_steps(self, seen: ObservedAccess, shape: tuple[int, ...], programs: Alike) -> None:
        """Keep the steps that are in this access what they were before."""
        if self.executions and self.steps is None:
            return
        steps: Steps | None
        if isinstance(seen.addresses, AffineTile):
            steps = seen.addresses.strides
        else:
            dimension = self.access.dimension if isinstance(self.access, WarpAccess) else None
            steps = None if dimension is None else _steps_along(dimension, *programs.rows(), shape)
        if self.executions and self.steps is not None and steps is not None:
            steps = tuple(new if new == was else None for new, was in zip(steps, self.steps))
        self.steps = None if steps is None or set(steps) == {None} else steps

    def _costs(self, programs: Alike, size: int) -> RowCosts:
        """What the rows of some programs cost; of rows that are met again it is kept."""
        if programs.key is not None and programs.key in self._known:
            return self._known[programs.key]
        costs = costs_of_rows(*programs.rows(), size, self._instructions, self.takes_turns)
        if programs.key is not None:
            self._runs_kept += costs.touched.entries
            if self._runs_kept > _MOST_RUNS_KEPT:
                self._known.clear()
                self._runs_kept = costs.touched.entries
            self._known[programs.key] = costs
        return costs

    def end_batch(self) -> None:
        """The programs that were seen are done: which of them touched
        which sector matters no more.
        """
        for touched in self._under_way.values():
            self.touched += touched.by_programs()
            touched.put_into(self.different)
        self._under_way.clear()


def _steps_along(
    dimension: int, addresses: Numbers, on: numpy.ndarray | None, shape: tuple[int, ...]
) -> Steps | None:
    """The step along one dimension of rows of addresses that have no pattern as a whole;
    None where neighbors that are on differ.
    """
    if shape[dimension] < 2:
        return None
    whole = numpy.moveaxis(addresses.reshape(-1, *shape), dimension + 1, -1)
    mask = None if on is None else numpy.moveaxis(on.reshape(-1, *shape), dimension + 1, -1)
    # Most addresses without a pattern show it in the first row.
    for rows in (slice(1), slice(None)):
        steps = whole[rows, ..., 1:] - whole[rows, ..., :-1]
        if mask is not None:
            steps = steps[mask[rows, ..., 1:] & mask[rows, ..., :-1]]
        if steps.size and (steps != steps.flat[0]).any():
            return None
    if not steps.size:
        return None
    return tuple(int(steps.flat[0]) if at == dimension else None for at in range(len(shape)))
