"""What observed accesses cost the memory system, added up over a launch."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy

from kernellab.compiler.modules.warp_accesses import WarpAccess
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.memory.observing import ObservedAccess
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.profiling.accesses.alike import Alike, alike
from kernellab.profiling.accesses.copy_engine import Messages
from kernellab.profiling.accesses.requests import Instructions, RowCosts, costs_of_rows
from kernellab.profiling.accesses.sectors import SectorSet
from kernellab.profiling.accesses.touching import Touched
from kernellab.records.layouts import Numbers

_MOST_RUNS_KEPT = 1 << 20
"""Of all rows whose costs are kept, 16 MiB."""

Steps = tuple[int | None, ...]
"""Bytes from an element to its neighbour, by dimension; None for one without a fixed step."""


@dataclass
class Tally:
    """What one operation has cost so far.

    Attributes:
        access: how lanes access its tile, or the copy engine does.
        takes_turns: whether lanes that share an address take turns, as those of atomics do: each
            turn moves the sector.
        executions: how often a program has executed it.
        requests, sectors, lines: see `requests`.
        best_sectors: how many sectors its requests would move if the lanes that are on accessed
            neighbouring elements.
        useful_bytes: of the elements that were on, each counted once an execution.
        touched: the different sectors of each program, added up.
        different: the different sectors of all programs.
        repeated_sectors: of the sectors, those that were moved again because lanes share an
            address and take turns.
        steps: bytes from an element to its neighbour, by dimension, the same in every execution;
            None where there is no such step. Where addresses have no pattern as a whole, only the
            dimension is looked at along which neighbouring lanes lie.
    """

    access: WarpAccess | Messages
    takes_turns: bool = False
    executions: int = 0
    requests: int = 0
    sectors: int = 0
    lines: int = 0
    best_sectors: int = 0
    useful_bytes: int = 0
    touched: int = 0
    repeated_sectors: int = 0
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
        weights = numpy.bincount(programs.row_of, minlength=len(costs.requests))
        self.executions += len(programs.programs)
        self.useful_bytes += int(costs.elements @ weights) * seen.size
        self.requests += int(costs.requests @ weights)
        self.sectors += int(costs.sectors @ weights)
        self.repeated_sectors += int(costs.repeated @ weights)
        self.lines += int(costs.lines @ weights)
        self.best_sectors += int(costs.best @ weights)
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
    None where neighbours that are on differ.
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
    return tuple(int(steps.flat[0]) if one == dimension else None for one in range(len(shape)))
