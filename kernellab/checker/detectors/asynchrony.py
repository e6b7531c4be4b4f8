"""Find threads of a program that do not wait: for asynchronous operations in flight on shared
memory, and for each other at a barrier.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, storages_of
from kernellab.checker.detector import Detector
from kernellab.checker.records import Proposal
from kernellab.checker.shadow_values import Array, with_program_axis
from kernellab.compiler.analyses.layouts import layouts_by_type
from kernellab.errors import KernelLabError
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import (
    ProgramCode,
    memory_effects,
    per_code,
    program_code,
)
from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.asynchrony import Flight, Flights
from kernellab.interpreter.memory.global_memory import Load, Store
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.tiles import Active, Value, narrowed
from kernellab.ir import amd, mlir, tt, ttg, ttng
from kernellab.ir.locations import locate
from kernellab.ir.operations import (
    Asynchronous,
    Commits,
    OfQueue,
    SharedRead,
    SharedWrite,
    TensorRead,
    TensorWrite,
    WaitsFor,
    has,
    parents,
    trait_of,
)
from kernellab.ir.types import shape
from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.layouts import layouts_of

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


_Accesses = tuple[Mapping[SSAValue, SharedTile], Mapping[SSAValue, SharedTile]]
"""The tiles that an operation reads, and those that it writes."""

_WORDS = {
    "copies": ("copy", "async_copy.wait_group({left})"),
    "loads": ("TMA load", "mbarrier.wait(barrier, {left}) with the barrier of the load"),
    "stores": ("TMA store", "tma.store_wait({left})"),
    "products": ("product", "warpgroup_mma_wait(num_outstanding={left}, ...)"),
    "tcgen05": ("product", "mbarrier.wait(barrier, {left}) with the barrier of the product"),
}
"""What an operation of each queue is called, and what waits for it in Gluon."""


_UNFINISHED = {
    "kind": "missing-wait",
    "message": "the program may end while this TMA store still reads shared memory, which another "
    "program then gets",
    "advice": "Wait for it before the kernel ends: tma.store_wait(0).",
}
"""The fields of a finding of a store that nothing waits for."""


@dataclass
class _Watched:
    """An operation in flight.

    Attributes:
        queue: what it is waited for with; see `ir.operations.Queue`.
        flight: for which programs it is in flight.
        reads, writes: the tiles that it reads and writes until it is complete.
        result: what a product has computed; None of other operations.
        barrier: the mbarrier that counts it; None if it is in a group.
        arrivals: of tcgen05, each of which shows that it is complete, with the programs that it is
            for.
    """

    operation: Operation
    queue: str
    flight: Flight
    reads: Sequence[SharedTile]
    writes: Sequence[SharedTile]
    result: Value | None = None
    barrier: SharedTile | None = None
    arrivals: list[tuple[Flight, Array]] = field(default_factory=list)

    @property
    def pending(self) -> Array:
        """For each program, whether the operation is in flight."""
        pending = self.flight.pending
        for arrival, issued in self.arrivals:
            pending = pending & (arrival.pending | ~issued)
        return pending


@dataclass
class _Batch:
    """What one batch of programs has in flight."""

    programs: Programs
    flights: Flights
    watched: list[_Watched] = field(default_factory=list)

    def count(self, queue: str, barrier: SharedTile) -> None:
        """Let a barrier count the operations of a queue of tcgen05, which complete in order."""
        arrival = barrier.arrivals[-1].flight
        for watched in self.watched:
            if watched.queue == queue:
                watched.barrier = watched.barrier or barrier
                watched.arrivals.append((arrival, arrival.pending))


class MissingWait(Detector):
    """Follow asynchronous operations from their issue to the wait that completes them.

    Each of them completes as late as it may. A use that finds one in flight is reported, and the
    operation is complete from then on, so that nothing else follows from it.
    """

    kinds = ("missing-wait",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._batches: dict[Programs, _Batch] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return _has_asynchronous_operations(run.code)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        if has(operation, OfQueue, SharedRead, SharedWrite, TensorRead, TensorWrite):
            return True
        is_use = any(map(_is_product, operation.operands))
        is_move = isinstance(operation, mlir.SelectOp) or has(operation, IsTerminator)
        return is_use and not is_move and not operation.regions

    def computed(self, computed: Computed) -> None:
        operation = computed.operation
        assert computed.programs is not None
        values = dict(zip(operation.operands, computed.operands))
        active = computed.active
        condition = getattr(operation, "predicate", None)
        if condition is not None:
            active = narrowed(active, values[condition], computed.programs.count)
        batch = self._batch(computed.programs)
        queue = _queue(operation)
        if has(operation, WaitsFor):
            batch.flights.wait(queue, _pending(operation), active)
        elif active is not None and not active.any():
            return
        elif isinstance(operation, ttng.Tcgen5CommitOp):
            batch.count(queue, values[operation.barrier])
        elif has(operation, Commits):
            batch.flights.commit(queue, active)
        else:
            accesses = _accesses(operation, values)
            self._look(computed, batch, accesses, active)
            if has(operation, Asynchronous):
                self._issue(computed, batch, accesses, values, active)

    def _batch(self, programs: Programs) -> _Batch:
        if programs not in self._batches:
            if self.run.code.watched is None:
                self.end()  # one batch runs after the other
            self._batches[programs] = _Batch(programs, Flights(programs.count))
        return self._batches[programs]

    def end(self) -> None:
        """Report stores that still read shared memory when their programs end."""
        for batch in self._batches.values():
            for watched in batch.watched:
                pending = watched.pending
                if watched.queue.startswith("stores") and pending.any():
                    places = locate(watched.operation.location).frames[::-1]
                    ids = batch.programs.linear[pending].tolist()
                    self.collector.add(watched.operation, {**_UNFINISHED, "places": places}, ids)
        self._batches.clear()

    def _issue(
        self,
        computed: Computed,
        batch: _Batch,
        accesses: _Accesses,
        values: Mapping[SSAValue, Value],
        active: Active,
    ) -> None:
        """Watch an asynchronous operation."""
        operation, queue = computed.operation, _queue(computed.operation)
        barrier = _barrier(operation, values)
        is_product = isinstance(operation, ttng.WarpGroupDotOp)
        if isinstance(operation, ttng.WarpGroupDotOp) and not operation.completes_later:
            batch.flights.wait(queue, 0, active)
            return
        is_tcgen05 = queue.startswith("tcgen05")
        is_counted = barrier is not None or "is_async" in operation.properties
        if has(operation, TensorWrite) and not (is_counted or self.run.kernel.is_gluon()):
            return  # the compiler will wait for it
        if is_tcgen05:
            barrier, flight = None, Flight(_nothing, active, batch.programs.count)
        elif barrier is not None:
            flight = barrier.arrivals[-1].flight
        else:
            flight = batch.flights.issue(queue, _nothing, active)
            if not queue.startswith("copies"):
                batch.flights.commit(queue, active)
        batch.watched = [each for each in batch.watched if each.pending.any()]
        reads, writes = (tuple(tiles.values()) for tiles in accesses)
        result = computed.results[0] if is_product else None
        batch.watched.append(_Watched(operation, queue, flight, reads, writes, result, barrier))
        for counting in _barriers(operation) if is_tcgen05 else ():
            if values[counting].arrivals:
                batch.count(queue, values[counting])

    def _look(self, computed: Computed, batch: _Batch, accesses: _Accesses, active: Active) -> None:
        """Report what the operation reads or writes while another one is in flight on it."""
        operation, queue = computed.operation, _queue(computed.operation)
        reads, writes = accesses
        for watched in batch.watched:
            pending = watched.pending if active is None else watched.pending & active
            in_order = queue.startswith("tcgen05") and watched.queue == queue
            if in_order or not pending.any():
                continue
            both = (*watched.reads, *watched.writes)
            for tiles, others, is_read in ((reads, watched.writes, True), (writes, both, False)):
                for (value, tile), other in itertools.product(tiles.items(), others):
                    faulty = pending & _shared(tile, other)
                    if faulty.any():
                        self._report(computed, batch, watched, faulty, is_read, _name(value))
            if watched.result is not None and not has(operation, OfQueue):
                if any(operand is watched.result for operand in computed.operands):
                    self._report(computed, batch, watched, pending, True)

    def _report(
        self,
        computed: Computed,
        batch: _Batch,
        watched: _Watched,
        faulty: Array,
        is_read: bool,
        name: str = "",
    ) -> None:
        """Report a use of memory, or of a product's result if the memory has no name."""
        what, wait = _WORDS[watched.queue.partition(" ")[0]]
        frames = locate(watched.operation.location).frames
        what += f" on line {frames[0].line}" if frames else ""
        if not name:
            message = f"the result of the {what} is used here before it is complete"
        elif is_read:
            verb = "completed" if watched.queue.startswith("tcgen05") else "arrived"
            message = f"{name} is read here before the {what} has {verb}"
        else:
            doing = "uses" if watched.reads and watched.writes else "writes"
            doing = "reads" if not watched.writes else doing
            message = f"{name} is overwritten here while the {what} still {doing} it"

        left, is_committed = _left(batch, watched, int(numpy.argmax(faulty)))
        advice = f"Wait for it before this line: {wait.format(left=left)}."
        if not self.run.kernel.is_gluon():
            advice = "The compiler placed the waits of this kernel: report it to Triton."
        elif not is_committed:
            is_tcgen05 = watched.queue.startswith("tcgen05")
            commit = "tcgen05_commit(barrier)" if is_tcgen05 else "async_copy.commit_group()"
            advice = f"Commit it: {commit}. {advice}"
        facts = {
            "message": message,
            "advice": advice,
            "places": computed.calls(),
        }
        key = computed.operation, watched.operation
        self.collector.add(key, facts, computed.linear_ids(faulty).tolist())
        watched.flight.complete(faulty)


def _nothing(_active: Active) -> None:
    """What an operation does when it completes: it was done when it was issued."""


@per_code
def _has_asynchronous_operations(code: ProgramCode) -> bool:
    return any(has(op, Asynchronous) for op in code.module.walk())


def _is_product(value: SSAValue) -> bool:
    """Whether a value is, or was waited for as, the result of a product."""
    return isinstance(value.owner, ttng.WarpGroupDotOp | ttng.WarpGroupDotWaitOp)


def _pending(operation: Operation) -> int:
    """How many groups a wait leaves in flight."""
    if isinstance(operation, amd.AsyncWaitOp):
        return 0  # it counts instructions
    assert isinstance(
        operation, ttg.AsyncWaitOp | ttng.AsyncTmaStoreWaitOp | ttng.WarpGroupDotWaitOp
    )
    return int(operation.pending.value.data)


def _queue(operation: Operation) -> str:
    """The queue of an operation; the groups of warps that run separate code have separate ones."""
    trait = trait_of(operation, OfQueue)
    for inside in (operation, *parents(operation)):
        if isinstance(inside.parent_op(), ttg.WarpSpecializeOp | ttg.WarpSpecializePartitionsOp):
            return f"{trait.queue if trait else ''} {id(inside.parent_region())}"
    return trait.queue if trait else ""


def _barrier(operation: Operation, values: Mapping[SSAValue, Value]) -> SharedTile | None:
    """The mbarrier that counts an operation; of several the first."""
    barriers = _barriers(operation)
    return values[barriers[0]] if barriers else None


def _barriers(operation: Operation) -> Sequence[SSAValue]:
    if isinstance(operation, ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp):
        return operation.barriers
    barrier = getattr(operation, "barrier", None)
    return () if barrier is None else (barrier,)


def _accesses(operation: Operation, values: Mapping[SSAValue, Value]) -> _Accesses:
    """The tiles of shared and tensor memory that an operation reads, and those that it writes;
    barriers left out.
    """
    barriers = _barriers(operation)
    tiles = {
        value: tile
        for value, tile in values.items()
        if value not in barriers and isinstance(tile, SharedTile)
    }
    if isinstance(operation, ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp):
        written = {operation.d}
    elif isinstance(operation, ttng.TmemCopyOp):
        written = {operation.memory}
    else:
        written = set(tiles) if has(operation, SharedWrite, TensorWrite) else set()
    reads = {value: tile for value, tile in tiles.items() if value not in written}
    return reads, {value: tiles[value] for value in written}


def _left(batch: _Batch, watched: _Watched, program: int) -> tuple[int, bool]:
    """How many later groups a wait may leave in flight if it covers the operation, or the phase
    that it is counted in; and whether its group is committed.
    """
    if watched.barrier is not None:
        return int(shared_memory.load(watched.barrier)[program].flat[0]) & 1, True
    if watched.flight.group is None:
        return 0, False
    committed = batch.flights.committed(watched.queue)[program]
    later = int(committed - watched.flight.group[program]) - 1
    return max(later, 0), later >= 0


def _shared(tile: SharedTile, other: SharedTile) -> Array:
    """For each program, whether two tiles share memory: by their distance, which few differ in."""
    shared = numpy.zeros(len(tile.memory), numpy.bool_)
    if not numpy.may_share_memory(tile.memory, other.memory):
        return shared
    distances = other.addresses - tile.addresses
    for distance in numpy.unique(distances):
        program = int(numpy.argmax(distances == distance))
        if numpy.shares_memory(_of(tile, program), _of(other, program)):
            shared |= distances == distance
    return shared


def _of(tile: SharedTile, program: int) -> Array:
    """The tile of one program, in place."""
    chosen = (c if isinstance(c, int) else int(c[program]) for c in tile.chosen)
    place: Array = tile.memory[(program, *chosen)]
    return place


def _name(value: SSAValue) -> str:
    """The kernel's name for memory."""
    while isinstance(value, OpResult) and isinstance(
        value.op, ttg.MemDescIndexOp | ttg.MemDescView | ttng.TmemSubsliceOp
    ):
        value = value.op.memory
    name = locate(value.op.location).name if isinstance(value, OpResult) else value.name_hint
    return name or "shared memory"


# Values that one thread stores and another thread of the same program loads, without a barrier
# between: the threads of a program run on their own, and nothing orders the two accesses.


_LARGEST = 1 << 22
"""The most elements of a storage that are followed."""

_SAMPLES = 4096
"""The most elements of a load that are compared."""


@dataclass
class _Stored:
    """Who stored each element of a storage last.

    Attributes:
        by: the number of the store; 0 for none.
        program: the linear id of its program.
        lane: the element of its tile, flat.
    """

    by: Array
    program: Array
    lane: Array


@dataclass
class _Suspect:
    """A load of elements that the same program stored from other places of a tile.

    Attributes:
        store, load: the operations.
        access: the load.
        stored, loaded: the places in the tiles, flat, element by element.
        index: the elements.
    """

    store: Operation
    load: Operation
    access: CheckedAccess
    stored: Array
    loaded: Array
    index: Array


class MissingBarrier(Detector):
    """Follow which thread stores an element, and which thread loads it.

    The layouts are those of TTGIR, and the barriers those of PTX, between the lines of the two.
    """

    kinds = ("missing-barrier",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._both = _stored_and_loaded(run)
        self._stored: dict[Hashable, _Stored] = {}
        self._stores: list[Operation] = []
        self._suspects: dict[tuple[Operation, Operation], _Suspect] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        is_plain = not run.kernel.is_gluon() and run.target.backend == "cuda"
        return is_plain and bool(_stored_and_loaded(run))

    def before(self, access: CheckedAccess) -> None:
        buffer, request = access.buffer, access.request
        if not access.rank or not isinstance(request, Load | Store) or access.programs is None:
            return
        if not 0 < len(buffer.elements) <= _LARGEST:
            return
        key = self.run.storage_of(buffer.tensor), buffer.itemsize
        if key[0] not in self._both:
            return
        if isinstance(request, Load) and key not in self._stored:
            return
        extents = shape(_pointers(access.operation).type)
        programs = access.programs.linear.reshape((-1,) + (1,) * access.rank)
        lanes = numpy.arange(int(numpy.prod(extents))).reshape((1, *extents))
        index, on, program, lane = numpy.broadcast_arrays(
            with_program_axis(access.index, access.rank),
            True if access.on is None else with_program_axis(access.on, access.rank),
            programs,
            lanes,
        )
        if isinstance(request, Load):
            self._look(access, self._stored[key], index[on], program[on], lane[on])
            return
        if key not in self._stored:
            size = len(buffer.elements)
            self._stored[key] = _Stored(*(numpy.zeros(size, numpy.int64) for _ in range(3)))
        stored = self._stored[key]
        self._stores.append(access.operation)
        stored.by[index[on]] = len(self._stores)
        stored.program[index[on]] = program[on]
        stored.lane[index[on]] = lane[on]

    def _look(
        self, access: CheckedAccess, stored: _Stored, index: Array, program: Array, lane: Array
    ) -> None:
        by = stored.by[index]
        moved = (by > 0) & (stored.program[index] == program) & (stored.lane[index] != lane)
        if not moved.any():
            return
        for number in numpy.unique(by[moved]):
            store = self._stores[number - 1]
            if (store, access.operation) not in self._suspects:
                here = numpy.flatnonzero(moved & (by == number))[:_SAMPLES]
                self._suspects[store, access.operation] = _Suspect(
                    store, access.operation, access,
                    stored.lane[index[here]], lane[here], index[here],
                )  # fmt: skip

    def investigate(self, session: CheckSession) -> None:
        if not self._suspects:
            return
        try:
            owners = _Owners(self.run)
        except KernelLabError:
            return
        for suspect in self._suspects.values():
            if not owners.are_unordered(suspect.store, suspect.load):
                continue
            stored = owners.of(suspect.store, suspect.stored)
            loaded = owners.of(suspect.load, suspect.loaded)
            if stored is None or loaded is None:
                continue
            apart = numpy.flatnonzero(stored != loaded)
            if len(apart):
                first = int(apart[0])
                self._report(suspect, first, int(stored[first]), int(loaded[first]), len(apart))

    def _report(
        self, suspect: _Suspect, place: int, storing: int, loading: int, count: int
    ) -> None:
        access = suspect.access
        name, element = access.buffer.name, access.coordinates(int(suspect.index[place]))
        frames = locate(suspect.store.location).frames
        line = f" on line {frames[0].line}" if frames else ""
        facts: dict[str, Any] = {
            "argument": name,
            "index": element,
            "places": locate(suspect.load.location).frames[::-1],
            "message": (
                f"thread {storing} stores {access.named(element)}{line}, and thread {loading} of "
                "the same program loads it here, without a barrier between: the load may come "
                "before the store"
            ),
            "advice": "The interpreter runs a store to its end before a load.",
            "proposals": (
                Proposal(
                    "Put tl.debug_barrier() between them.", "", "tl.debug_barrier()", "statement"
                ),
            ),
        }
        self.collector.add((suspect.load, name), facts, access.linear_ids().tolist(), count)


def _stored_and_loaded(run: CheckedRun) -> frozenset[str | int]:
    """Return the storages that the kernel both stores to and loads from."""
    effects = memory_effects(run.code)
    if not effects.stored or not effects.loaded:
        return frozenset()
    return storages_of(run, effects.stored) & storages_of(run, effects.loaded)


def _pointers(op: Operation) -> Any:
    assert isinstance(op, tt.LoadOp | tt.StoreOp)
    return op.operands[0]


_LOCATION = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?(bar|barrier|st\.global|ld\.global)\b")


class _Owners:
    """Which thread makes each element's access, as TTGIR's layouts say; and what PTX has between
    two accesses.
    """

    def __init__(self, run: CheckedRun) -> None:
        call = run.call
        compiled = triton_api.compile_kernel(
            run.kernel, call.specialization, run.target, call.options
        )
        self._instructions = list(_instructions(str(compiled.stages["ptx"])))
        module = program_code(run.kernel, call, run.target, "ttgir").module
        accesses = [op for op in module.walk() if isinstance(op, tt.LoadOp | tt.StoreOp)]
        self._layouts = layouts_by_type([_pointers(op).type for op in accesses], layouts_of)
        self._at: Mapping[Hashable, Operation] = {_place(op): op for op in accesses}

    def are_unordered(self, store: Operation, load: Operation) -> bool:
        """Return whether the PTX has the store, then the load, and no barrier between."""
        stored, loaded = (
            frames[0].line if (frames := locate(op.location).frames) else 0 for op in (store, load)
        )
        stores = [at for at, each in enumerate(self._instructions) if each == ("st.global", stored)]
        for at in stores:
            for name, line in self._instructions[at + 1 :]:
                if name in ("bar", "barrier"):
                    break
                if (name, line) == ("ld.global", loaded):
                    return True
        return False

    def of(self, op: Operation, lanes: Array) -> Array | None:
        """Return the thread of each place of the tile of a TTIR access; None if it is not known."""
        there = self._at.get(_place(op))
        layout = None if there is None else self._layouts.get(_pointers(there).type)
        if there is None or not isinstance(layout, RegisterLayout):
            return None
        if shape(_pointers(there).type) != shape(_pointers(op).type):
            return None
        numbers = layout.all_numbers().reshape(-1, layout.registers_per_thread)
        threads = numpy.full(int(numbers.max()) + 1, len(numbers), numpy.int64)
        held = numpy.broadcast_to(numpy.arange(len(numbers))[:, None], numbers.shape)
        numpy.minimum.at(threads, numbers.ravel(), held.ravel())
        owners: Array = threads[lanes]
        return owners


def _instructions(ptx: str) -> Iterator[tuple[str, int]]:
    """Yield the accesses to global memory and the barriers, with their lines of the source."""
    current = 0
    for text in ptx.splitlines():
        if match := _LOCATION.match(text):
            current = int(match[1])
        elif match := _INSTRUCTION.match(text):
            yield match[1], current


def _place(op: Operation) -> Hashable:
    return type(op).name, locate(op.location).frames
