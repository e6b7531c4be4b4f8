"""`kernellab.accesses`: the cost of every access of a launch to global and to shared memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from kernellab.common.progress import UNTOUCHED, ProgressBar
from kernellab.compiler.analyses.layouts import WarpAccess, WarpAccesses
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compare import subject_of
from kernellab.compiler.modules import kind, pointee, pointers_of, position_of, underlying_argument
from kernellab.compiler.passes import LoweredText, lowered, lowered_text
from kernellab.errors import KernelFault, TargetError
from kernellab.interpreter.affine import AffineTile, BoxMask, as_array, as_box
from kernellab.interpreter.codegen.analyses import is_spin_loop
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.grid import Programs, check_grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import (
    ProgramCode,
    entry_of,
    per_code,
    program_code,
    program_of_text,
)
from kernellab.interpreter.memory.observers import DESCRIPTOR_BYTES, AccessObserver, ObservedAccess
from kernellab.ir import mlir, operations, tt, ttng
from kernellab.ir.types import TensorDescType, bit_width, shape
from kernellab.launch.argument_copies import copied
from kernellab.launch.dispatch import interpret
from kernellab.launch.preparation import EntryPoint, Grid, prepare_bound, refused, takes_launch
from kernellab.profiling.accesses import requests
from kernellab.profiling.accesses.records import Accesses, Action, GlobalAccess, Phase, SharedAccess
from kernellab.profiling.accesses.shared_memory import (
    SharedCost,
    may_share,
    occurrences,
    phases_of,
    shared_accesses,
    shared_costs,
)
from kernellab.records import BoundLaunch, Target
from kernellab.records.launches import DEFAULT
from kernellab.records.layouts import Numbers
from kernellab.triton_api.layouts import layouts_of

Rows = tuple[Numbers, numpy.ndarray | None]


@dataclass(frozen=True)
class Alike:
    """The programs that take part in an access, each with a representative row.

    Attributes:
        programs: their numbers in the batch.
        row_of: the row of each program.
        moved: how many sectors a program's own are beyond those of its row.
        key: equal for accesses whose rows are equal; None if rows cannot be compared.
        rows: returns every row's addresses in bytes, and a mask or None: shape (rows, elements).
    """

    programs: Numbers
    row_of: Numbers
    moved: Numbers
    key: Hashable
    rows: Callable[[], Rows]


def alike(seen: ObservedAccess) -> Alike:
    """The programs of an access."""
    count = seen.programs.count
    programs = numpy.arange(count) if seen.active is None else numpy.flatnonzero(seen.active)
    tile = seen.addresses
    if isinstance(tile, AffineTile) and len(programs):
        box = None if seen.mask is None else as_box(seen.mask, tile.extents)
        if box is not None or seen.mask is None:
            return _by_pattern(tile, box, seen.shape, programs)
    each, nowhere = numpy.arange(len(programs)), numpy.zeros(len(programs), numpy.int64)
    return Alike(programs, each, nowhere, None, partial(_one_by_one, seen, programs))


def _by_pattern(
    tile: AffineTile, mask: BoxMask | None, shape: tuple[int, ...], programs: Numbers
) -> Alike:
    """Programs whose addresses begin alike within a line, with the same elements on, cost alike."""
    bases = _of_programs(tile.base, programs)
    phases = bases % requests.LINE
    ends = [] if mask is None else [end for interval in mask.intervals.values() for end in interval]
    told_apart = [phases, *(_of_programs(end, programs) for end in ends)]
    first, row_of = first_of_each(told_apart)
    rows = [row[first] for row in told_apart]
    offsets = _offsets(tile.strides, tile.extents, shape)
    # Addresses are counted from 0 on.
    behind = -(min(int(offsets.min()), 0) // requests.LINE * requests.LINE)
    moved = (bases - rows[0][row_of] - behind) // requests.SECTOR
    box = None
    if mask is not None:
        pairs = zip(mask.intervals, zip(rows[1::2], rows[2::2]))
        box = BoxMask(dict(pairs), mask.extents)
    masked = () if mask is None else (tuple(mask.intervals), mask.extents)
    key = tile.strides, tile.extents, masked, numpy.stack(rows).tobytes()

    def of_each_row() -> Rows:
        addresses = (rows[0] + behind)[:, None] + offsets
        if box is None:
            return addresses, None
        on = numpy.broadcast_to(box.elements(), (len(addresses), *shape))
        return addresses, on.reshape(addresses.shape)

    return Alike(programs, row_of, moved, key, of_each_row)


def _of_programs(numbers: Any, programs: Numbers) -> Numbers:
    array = as_array(numbers)
    if array.size == 1:
        return numpy.full(len(programs), int(array.reshape(())))
    return numpy.asarray(array[programs])


def first_of_each(columns: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """The first row of each kind among columns of numbers, and which of those a row equals."""
    first, row_of = numpy.zeros(1, numpy.int64), numpy.zeros(len(columns[0]), numpy.int64)
    for column in columns:
        if (column != column[0]).any():
            key = row_of * (int(column.max()) + 1) + column
            _, first, row_of = numpy.unique(key, return_index=True, return_inverse=True)
    return first, row_of


@lru_cache(maxsize=64)
def _offsets(strides: tuple[int, ...], extents: tuple[int, ...], shape: tuple[int, ...]) -> Numbers:
    """Bytes from a tile's first element to each, the last dimension fastest."""
    steps = AffineTile(0, strides, extents, numpy.dtype(numpy.int64)).elements()
    offsets = numpy.broadcast_to(steps, shape).reshape(-1)
    offsets.flags.writeable = False
    return offsets


def _one_by_one(seen: ObservedAccess, programs: Numbers) -> Rows:
    shape = seen.shape

    def flat(value: Any) -> Any:
        """A tile of every program: shape (programs, elements)."""
        array = numpy.asarray(value)
        array = array.reshape((1,) * (len(shape) + 1 - array.ndim) + array.shape)
        if 1 < len(array) != len(programs):
            array = array[programs]
        return numpy.broadcast_to(array, (len(programs), *shape)).reshape(len(programs), -1)

    mask = seen.mask
    is_on = mask is None or (isinstance(mask, BoxMask) and mask.all())
    return flat(seen.addresses), None if is_on else flat(mask)


_PROGRAM_BITS = 42
"""A program's number so shifted, plus a sector's 42 bits (of 47-bit addresses), is unique."""
_NO_ROW = -1
"""In place of a row, for a program that does not take part."""
_MOST_EXECUTIONS = 64
"""The number of executions that are kept separately before they are merged."""
_FEW_RUNS = 4096
"""The number of runs that is cheaper than finding out which programs do the same."""


class _Execution(NamedTuple):
    """One execution of the access by programs: each touched a row's sectors, moved by a number."""

    rows: requests.SectorsOfRows
    programs: Numbers
    row_of: Numbers
    moved: Numbers

    def runs(self) -> requests.Runs:
        """All sectors that it touches; those of equal programs once."""
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

    def add(self, programs: Alike, rows: requests.SectorsOfRows) -> None:
        """Add one more execution of the access by programs."""
        if len(self._executions) == _MOST_EXECUTIONS:
            self._executions = [self._as_one()]
        self._executions.append(
            _Execution(rows, programs.programs, programs.row_of, programs.moved)
        )

    def put_into(self, sectors: requests.SectorSet) -> None:
        runs = []
        for execution in self._executions:
            if isinstance(execution.rows, requests.ScatteredRows) and not execution.moved.any():
                sectors.add_numbers(execution.rows.numbers, execution.rows.origin)
            else:
                runs.append(execution.runs())
        if runs:
            sectors.add(requests.Runs.joined(runs))

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
        runs = requests.Runs(
            once.starts - (owners << _PROGRAM_BITS), once.stops - (owners << _PROGRAM_BITS)
        )
        programs = numpy.arange(rows.shape[1])
        counts = numpy.bincount(owners, minlength=len(programs))
        sectors = numpy.bincount(owners, runs.lengths, minlength=len(programs)).astype(numpy.int64)
        of_rows = requests.RunsOfRows(runs, counts, sectors)
        return _Execution(of_rows, programs, programs, numpy.zeros_like(programs))

    def _by_time(self) -> tuple[Numbers, Numbers]:
        """Each program's row in each execution, and its offset: shape (executions, programs)."""
        count = 1 + max(int(execution.programs.max()) for execution in self._executions)
        rows = numpy.full((len(self._executions), count), _NO_ROW)
        moved = numpy.zeros(rows.shape, numpy.int64)
        for time, execution in enumerate(self._executions):
            rows[time, execution.programs] = execution.row_of
            moved[time, execution.programs] = execution.moved
        return rows, moved

    def _merged(self, rows: Numbers, moved: Numbers) -> requests.Runs:
        """All that each column of `_by_time`, whose number is above _PROGRAM_BITS, touched."""
        parts = []
        for execution, row, shift in zip(self._executions, rows, moved):
            taking_part = numpy.flatnonzero(row != _NO_ROW)
            runs, owners = execution.rows.as_runs().chosen(row[taking_part], shift[taking_part])
            program = taking_part[owners] << _PROGRAM_BITS
            parts.append(requests.Runs(program + runs.starts, program + runs.stops))
        return requests.Runs.joined(parts).merged()


_MOST_RUNS_KEPT = 1 << 20
"""The most runs of all rows whose costs are kept: 16 MiB."""

_COUNTED = (
    "requests", "sectors", "lines", "repeated_sectors", "best_sectors", "useful_bytes",
)  # fmt: skip

Steps = tuple[int | None, ...]
"""Bytes from an element to its neighbor, by dimension; None for one without a fixed step."""


@dataclass
class Tally:
    """The costs of one operation so far.

    Attributes:
        access: how lanes access its tile, or the copy engine does.
        takes_turns: whether lanes that share an address move the sector in turns, as by atomics.
        executions: how often a program has executed it.
        counts: name of a field of a `GlobalAccess`, such as "sectors" -> its number.
        touched: the different sectors of each program, added up.
        at_once: the different sectors of each execution, added up.
        steps: bytes from an element to its neighbor, by dimension, the same in every execution;
            None if there is no such step. Where addresses have no pattern as a whole, only the
            dimension of neighboring lanes is examined.
    """

    access: WarpAccess | requests.Messages
    takes_turns: bool = False
    executions: int = 0
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTED, 0)))
    touched: int = 0
    at_once: int = 0
    steps: Steps | None = None
    different: requests.SectorSet = field(default_factory=requests.SectorSet)
    _under_way: dict[Programs, Touched] = field(default_factory=dict)
    _known: dict[Hashable, requests.RowCosts] = field(default_factory=dict)
    _runs_kept: int = 0
    _instructions: requests.Instructions = field(init=False)

    def __post_init__(self) -> None:
        self._instructions = requests.Instructions.of(self.access)

    def add(self, seen: ObservedAccess) -> None:
        programs = alike(seen)
        if not len(programs.programs):
            return
        self._compare_steps(seen, programs)
        costs = self._costs(programs, seen.size)
        self.executions += len(programs.programs)
        weights = numpy.bincount(programs.row_of, minlength=len(costs.counts["requests"]))
        for name, numbers in costs.counts.items():
            self.counts[name] += int(numbers @ weights)
        self.at_once += int(costs.touched.sectors @ weights)
        self._under_way.setdefault(seen.programs, Touched()).add(programs, costs.touched)

    def _compare_steps(self, seen: ObservedAccess, programs: Alike) -> None:
        """Keep the steps that are the same in this access as before."""
        if self.executions and self.steps is None:
            return
        dimension = self.access.dimension if isinstance(self.access, WarpAccess) else None
        steps: Steps | None = None
        if isinstance(seen.addresses, AffineTile):
            steps = seen.addresses.strides
        elif dimension is not None:
            steps = _steps_along(dimension, *programs.rows(), seen.shape)
        if self.executions and self.steps is not None and steps is not None:
            steps = tuple(new if new == was else None for new, was in zip(steps, self.steps))
        self.steps = None if steps is None or set(steps) == {None} else steps

    def _costs(self, programs: Alike, size: int) -> requests.RowCosts:
        if programs.key is not None and programs.key in self._known:
            return self._known[programs.key]
        costs = requests.costs_of_rows(*programs.rows(), size, self._instructions, self.takes_turns)
        if programs.key is not None:
            self._runs_kept += costs.touched.entries
            if self._runs_kept > _MOST_RUNS_KEPT:
                self._known.clear()
                self._runs_kept = costs.touched.entries
            self._known[programs.key] = costs
        return costs

    def end_batch(self) -> None:
        """Forget which program touched which sector: they are done."""
        for touched in self._under_way.values():
            self.touched += touched.by_programs()
            touched.put_into(self.different)
        self._under_way.clear()


def _steps_along(
    dimension: int, addresses: Numbers, on: numpy.ndarray | None, shape: tuple[int, ...]
) -> Steps | None:
    """The step along a dimension of addresses without a pattern; None if neighbors differ."""
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


_BY_ENGINE: Mapping[operations.Effect | None, Action] = {
    "load": "TMA load",
    "store": "TMA store",
    "atomic": "TMA reduction",
}


@takes_launch
def accesses(launch: BoundLaunch, *, target: str | Target | None = None) -> Accesses:
    """Count what the accesses of a launch to global memory cost, with no GPU.

    The kernel is compiled to TTGIR for the target, and that runs on the interpreter, on copies of
    the arguments; tensors on a GPU, up to 1 GiB, are copied to the CPU, and a note of the result
    says so. Which thread of which warp accesses which element comes from the layouts in the TTGIR;
    addresses and masks come from the run.

    Args:
        launch: kernel, grid, args and keywords as for `kernellab.run`, or a bound launch; of an
            autotuned kernel, the first config counts.
        target: an NVIDIA GPU, "sm_90", ...; None means the one that a launch would emulate.

        A keyword that is also a parameter of the kernel is passed to the kernel, unless that
        parameter is already given by position.

    Returns:
        The Accesses: one GlobalAccess for each operation of the TTGIR that accesses global memory.

    Raises:
        ArgumentError: arguments that do not fit, or more than 1 GiB on a GPU.
        OptionError: an option does not exist, or is one of the interpreter's.
        GridError, CompileError, UnsupportedOperation, KernelFault: as `kernellab.run`.
        TargetError: the target is not an NVIDIA GPU.
    """
    prepared = prepare_bound(launch, target, _ACCESSES)
    plain, call, chosen = prepared.kernel, prepared.call, prepared.target
    _check_target(chosen)
    sizes = prepared.sizes(may_be_empty=True)
    code = program_code(plain, call, chosen, "ttgir", after=emit_entry_events)
    try:
        accesses_counted = _counted(
            plain, sizes, call, chosen, code, lambda: lowered(plain, call, chosen)
        )
    except KernelFault as error:
        fault = error
    else:
        subject, again = subject_of(plain, call, chosen), replace(launch, target=chosen)
        notes = (*prepared.notes, *([_NOTHING_RAN] if 0 in sizes else []))
        return replace(accesses_counted, subject=subject, launch=again, notes=notes)
    # In the words of a plain run: passes have left few of the kernel's names in the TTGIR.
    interpret(plain, sizes, replace(call, values=copied(call.values)), chosen, DEFAULT)
    raise fault


_NOTHING_RAN = "The grid has no programs: nothing ran, and nothing was counted."


_ACCESSES = EntryPoint("accesses", refused("accesses runs the TTGIR that the compiler ends with"))


def accesses_of_text(
    kernel: Any, grid: Grid, call: BoundCall, target: Target, text: str
) -> Accesses:
    """As `accesses`, of TTGIR in MLIR's generic form that `kernel` became for this call."""
    _check_target(target)
    code = program_of_text(text, kernel, after=emit_entry_events)
    return _counted(kernel, grid, call, target, code, lambda: lowered_text(text, target))


_MOST_PROGRAMS = 1 << 17
"""The maximum number of programs in a batch. An access to a scalar is counted for the 32 lanes of a
warp, whose addresses take 32 MiB for this many programs."""


def _check_target(target: Target) -> None:
    if target.backend != "cuda":
        raise TargetError(
            "accesses counts the sectors and requests of NVIDIA's GPUs, and "
            f"{target} is a GPU of another vendor.",
            advice='Pass an NVIDIA target: target="sm_90".',
        )


def _counted(
    kernel: Any,
    grid: Grid,
    call: BoundCall,
    target: Target,
    code: ProgramCode,
    lower: Callable[[], LoweredText],
) -> Accesses:
    numbers = occurrences(code.module)
    if code.batch > _MOST_PROGRAMS:  # what is kept for this code is not found for its replacement
        code = replace(code, batch=_MOST_PROGRAMS)
    counted = Counting(accesses_in(code, target), numbers, in_turns=code.watched is not None)
    costs = _shared_costs_of(code, lower)
    observer = AccessObserver(counted.see)
    with ProgressBar(f"accesses of {kernel.__name__}", None, "programs", UNTOUCHED):
        launch_observed(kernel, grid, replace(call, values=copied(call.values)), code, observer)
    counted.end_batch()
    sizes = check_grid(grid, call.values, may_be_empty=True)
    shared = shared_accesses(costs, observer.entries, math.prod(sizes))
    return counted.result(kernel.__name__, str(target), sizes, shared)


Found = Mapping[Operation, WarpAccess | requests.Messages]
"""The kernel's operations that access global memory, in order, and how lanes or TMA do so."""


@per_code
def accesses_in(code: ProgramCode, target: Target) -> Found:
    """The accesses in a kernel's code; the widths of AMD's buffer operations are not known."""
    by_lanes = WarpAccesses(code.module, layouts_of, target)
    accesses_by_op: dict[Operation, WarpAccess | requests.Messages] = {}
    for op in entry_of(code.module).walk():
        by_pointer = operations.trait_of(op, operations.PointerAccess)
        if by_pointer is not None and not by_pointer.has_offsets:
            accesses_by_op[op] = by_lanes[op]
        elif operations.has(op, operations.DescriptorAccess) or isinstance(
            op, ttng.TensormapCreateOp
        ):
            accesses_by_op[op] = requests.messages_of(op)
    return accesses_by_op


def _shared_costs_of(code: ProgramCode, lower: Callable[[], LoweredText]) -> tuple[SharedCost, ...]:
    def costs() -> tuple[SharedCost, ...]:
        return shared_costs(code.module, lower()) if may_share(code.module) else ()

    return code.once(_shared_costs_of, costs)


class Counting:
    """The tally of every operation that accesses global memory, in the order of the module."""

    def __init__(self, accesses: Found, numbers: Mapping[Operation, int], in_turns: bool) -> None:
        self._numbers = numbers
        """Operation -> its occurrence; see `GlobalAccess`."""
        self._tallies = {
            op: Tally(access, takes_turns=_action(op) == "atomic")
            for op, access in accesses.items()
        }
        self._batch: Any = None
        self._in_turns = in_turns
        """Whether programs may run again after others ran."""

    def see(self, seen: ObservedAccess) -> None:
        if (tally := self._tallies.get(seen.operation)) is None:
            return
        if seen.programs is not self._batch and not self._in_turns:
            self.end_batch()
            self._batch = seen.programs
        tally.add(seen)

    def end_batch(self) -> None:
        for tally in self._tallies.values():
            tally.end_batch()

    def fresh(self) -> dict[Operation, float]:
        """For each access, the part of its different sectors that no earlier access uses."""
        seen: list[requests.SectorSet] = []
        shares, before = {}, 0
        for op, tally in self._tallies.items():
            seen = [requests.SectorSet.union([*seen, tally.different])]
            now, own = len(seen[0]), len(tally.different)
            shares[op] = (now - before) / own if own else 1.0
            before = now
        return shares

    def at_once(self) -> dict[Operation, int]:
        """For each access, the different sectors of each execution, added up."""
        return {op: tally.at_once for op, tally in self._tallies.items()}

    def spans(self) -> dict[str, int]:
        """For each argument, the sectors from the first that is accessed to the last."""
        together: dict[str, list[requests.SectorSet]] = {}
        for op, tally in self._tallies.items():
            together.setdefault(_described(op).argument, []).append(tally.different)
        return {name: requests.SectorSet.union(sets).span for name, sets in together.items()}

    def read(self) -> dict[str, tuple[int, requests.SectorSet]]:
        """For each argument, the sectors that each program loads, added up, and those all load."""
        together: dict[str, list[Tally]] = {}
        for op, tally in self._tallies.items():
            if operations.global_effect(op) == "load":
                together.setdefault(_described(op).argument, []).append(tally)
        return {
            name: (
                sum(tally.touched for tally in tallies),
                requests.SectorSet.union(tally.different for tally in tallies),
            )
            for name, tallies in together.items()
        }

    def result(
        self, kernel: str, target: str, grid: tuple[int, int, int], shared: tuple[SharedAccess, ...]
    ) -> Accesses:
        phases = phases_of(self._tallies)
        results = tuple(
            _access(op, tally, self._numbers.get(op, 0), phases.get(op, ""))
            for op, tally in self._tallies.items()
        )
        sectors = [tally.different for tally in self._tallies.values()]
        read = [sector_set for sector_set, access in zip(sectors, results) if access.reads]
        written = [sector_set for sector_set, access in zip(sectors, results) if access.writes]
        return Accesses(
            kernel, target, grid, results, _bytes(sectors), _bytes(read), _bytes(written), shared
        )


def _access(op: Operation, tally: Tally, occurrence: int, phase: Phase) -> GlobalAccess:
    part = _described(op)
    by_lanes = tally.access if isinstance(tally.access, WarpAccess) else None
    different = len(tally.different)
    loops = (loop for loop in operations.parents(op) if isinstance(loop, mlir.WhileOp))
    return GlobalAccess(
        operation=kind(op),
        action=_action(op),
        argument=part.argument,
        position=position_of(op),
        shape=part.shape,
        element=str(part.element),
        element_bytes=max(bit_width(part.element) // 8, 1),
        encoding=part.encoding,
        vector_width=by_lanes.width if by_lanes else 1,
        held=by_lanes.held if by_lanes else 1,
        dimension=by_lanes.dimension if by_lanes else None,
        steps=tally.steps,
        executions=tally.executions,
        **tally.counts,
        different_sectors=different,
        reuse_between_programs=tally.touched / different if different else 0.0,
        waits=isinstance(op, tt.AtomicPollOp) or any(map(is_spin_loop, loops)),
        occurrence=occurrence,
        phase=phase,
    )


def _action(op: Operation) -> Action:
    if isinstance(op, ttng.TensormapCreateOp):
        return "tensor map"
    effect = operations.global_effect(op)
    if operations.has(op, operations.DescriptorAccess):
        return _BY_ENGINE[effect]
    assert effect is not None
    return "async copy" if operations.has(op, operations.SharedWrite) else effect


class _Described(NamedTuple):
    """What an access goes to."""

    argument: str
    shape: tuple[int, ...]
    element: Attribute
    encoding: str = ""


def _described(op: Operation) -> _Described:
    if operations.has(op, operations.PointerAccess):
        pointers = pointers_of(op)
        type = pointers.type
        encoding = str(type.encoding) if isinstance(type, builtin.TensorType) else ""
        return _Described(underlying_argument(pointers), shape(type), pointee(pointers), encoding)
    if isinstance(op, ttng.TensormapCreateOp):
        return _Described(underlying_argument(op.global_address), (DESCRIPTOR_BYTES,), builtin.i8)
    descriptor = op.operands[0]
    block = cast(TensorDescType, descriptor.type).block
    return _Described(underlying_argument(descriptor), block.get_shape(), block.get_element_type())


def _bytes(sectors: Sequence[requests.SectorSet]) -> int:
    return requests.SECTOR * len(requests.SectorSet.union(sectors))
