"""Find uses of shared memory that do not wait for the asynchronous operations in flight on it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.traits import IsTerminator

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import ProgramCode, per_code
from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.asynchrony import Flight, Flights
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.tiles import Active, Value, narrowed
from kernellab.ir import amd, mlir, ttg, ttng
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
    locate,
    parents,
    trait_of,
)

Array = numpy.ndarray
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
            "kind": self.kinds[0],
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
