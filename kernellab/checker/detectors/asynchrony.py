"""Find uses of shared memory that do not wait for the asynchronous operations in flight on it, and
those for which only another group of warps waits.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from kernellab import triton_api
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed
from kernellab.checker.detector import Detector, Stopped
from kernellab.compiler.analyses.allocations import OFFSET
from kernellab.compiler.modules import integer
from kernellab.compiler.passes import module_after
from kernellab.errors import KernelLabError
from kernellab.interpreter.codegen.indices import memory_name
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.program import is_asynchronous
from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.asynchrony import (
    MOST_IN_FLIGHT,
    Flight,
    Flights,
    NeverWaitedFor,
    nothing,
)
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.tiles import Active, Value, narrowed
from kernellab.ir import mlir, ttg, ttng
from kernellab.ir.operations import (
    Asynchronous,
    Commits,
    Counts,
    GlobalRead,
    OfQueue,
    OrdersWarpGroups,
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
from kernellab.ir.syntax import read_module
from kernellab.ir.types import MemDescType, NvmmaSharedEncoding, PaddedSharedEncoding

Array = numpy.ndarray
_WORDS = {
    "copies": ("copy", "async_copy.wait_group({left})"),
    "loads": ("TMA load", ""),
    "stores": ("TMA store", "tma.store_wait({left})"),
    "products": ("matmul", "warpgroup_mma_wait(num_outstanding={left}, ...)"),
    "tcgen05": ("matmul", ""),
    "": ("", ""),
}
"""What an operation of each queue is called, and what waits for it in Gluon."""


_UNFINISHED = {
    "stores": "this TMA store still reads",
    "loads": "this TMA load still writes",
    "tcgen05": "matmuls still arrive here at an mbarrier in",
}
"""What the last operation of a queue may do to shared memory when its program has ended."""


_OF_COMPILER = "The compiler placed the waits of this kernel: report it to Triton."


_PEERS = (
    "The {} CTAs of each program ran as one: loads from the shared memory of another CTA were not "
    "examined."
)


@dataclass
class _Cluster:
    """What a CTA of a cluster did to its memory since the cluster's last barrier, which an
    operation of another CTA may come before.

    Attributes:
        before: since then.
        arrived: before this CTA arrived at the barrier that it has not waited at.
        handed: before it arrived at an mbarrier that CTAs share, for which it has not waited.
        is_fenced: whether initialized barriers are visible where CTAs have only met, too.
    """

    before: list[_Touch] = field(default_factory=list)
    arrived: list[_Touch] = field(default_factory=list)
    handed: list[_Touch] = field(default_factory=list)
    is_fenced: bool = False

    def use(
        self,
        operation: Operation,
        tiles: Iterable[SharedTile],
        here: Array,
        watched: _Watched | None,
    ) -> None:
        """Keep what an operation uses; of each operation only the last time in the same place."""
        for tile in tiles:
            self.before = [
                each
                for each in self.before
                if each.operation is not operation or (each.tile.addresses != tile.addresses).any()
            ]
            self.before.append(_Touch(operation, tile, here, watched))

    def wait(self) -> None:
        """Forget what the other CTAs did before they arrived at an mbarrier."""
        done = [each for each in self.handed if not isinstance(each.operation, ttng.InitBarrierOp)]
        self.before = [use for use in self.before if not any(use is each for each in done)]
        self.handed = []

    def order(self, operation: Operation) -> None:
        """Follow a fence, an arrival or a wait. After a relaxed arrival only fenced barriers are
        visible to the other CTAs.
        """
        if isinstance(operation, ttng.FenceMbarrierInitReleaseClusterOp):
            self.is_fenced = True
        elif isinstance(operation, ttng.ClusterWaitOp):
            self.arrived = []
        elif isinstance(operation, ttng.ClusterArriveOp):
            is_relaxed, fenced = ttng.is_set(operation.relaxed), self.is_fenced
            kept = [
                use
                for use in self.before
                if is_relaxed and not (fenced and isinstance(use.operation, ttng.InitBarrierOp))
            ]
            self.arrived += [use for use in self.before if not any(use is each for each in kept)]
            self.before, self.is_fenced = kept, False


@dataclass(frozen=True)
class _Touch:
    """An operation of each CTA of a cluster, a tile that it uses, and for which programs."""

    operation: Operation
    tile: SharedTile
    here: Array
    watched: _Watched | None

    @property
    def unknown(self) -> Array:
        """For which programs other CTAs may not know that it is complete."""
        return self.here if self.watched is None else self.here & ~self.watched.known_to_cluster


class _Clocks:
    """What the groups of warps of a warp-specialized program know of each other's past: a group
    hands on what it knows when it arrives at an mbarrier, to those that wait there later.

    Attributes:
        time: of each group, the number of its arrivals.
    """

    def __init__(self, programs: int) -> None:
        self._programs = programs
        never = functools.partial(numpy.full, programs, -1)
        self.time: dict[str, int] = defaultdict(int)
        self._known: dict[str, dict[str, Array]] = defaultdict(lambda: defaultdict(never))
        self._handed: dict[int, dict[str, Array]] = defaultdict(lambda: defaultdict(never))

    def arrive(self, group: str, barrier: SharedTile, active: Active) -> None:
        """Hand on what a group knows and has done."""
        self.time[group] += 1
        known = self._known[group]
        known[group][:] = self.time[group]
        for place, here in _places(barrier, active):
            for other, times in known.items():
                handed = self._handed[place][other]
                numpy.maximum(handed, times, out=handed, where=here)

    def wait(self, group: str, barrier: SharedTile, active: Active) -> None:
        """Take over what was handed on at a barrier."""
        for place, here in _places(barrier, active):
            for other, times in self._handed[place].items():
                known = self._known[group][other]
                numpy.maximum(known, times, out=known, where=here)

    def knows(self, group: str, learned: Mapping[str, Array]) -> Array:
        """Return, for each program, whether a group knows what groups learned at these times."""
        known = numpy.zeros(self._programs, numpy.bool_)
        for other, times in learned.items():
            known |= (times >= 0) & ((other == group) | (self._known[group][other] > times))
        return known


def _places(barrier: SharedTile, active: Active) -> Iterator[tuple[int, Array]]:
    """Yield the barriers of an allocation that programs have chosen, and which programs."""
    memory = barrier.memory
    places = barrier.addresses - numpy.arange(len(memory)) * memory.strides[0]
    for place in numpy.unique(places if active is None else places[active]).tolist():
        yield place, (places == place) if active is None else (places == place) & active


@dataclass
class _Watched:
    """An operation in flight; in a program with groups of warps also what they did to memory.

    Attributes:
        queue: what it is waited for with; see `ir.operations.Queue`.
        flight: for which programs it is in flight.
        reads, writes: the tiles that it reads and writes until it is complete.
        result: what a product has computed; None of other operations.
        barrier: the mbarrier that counts it; None if it is in a group.
        arrivals: of tcgen05, each of which shows that it is complete, with the programs that it is
            for.
        multicasts: those of its arrivals that come to the other CTAs of the cluster too.
        counted: the barriers at which its completion arrives, each with an arrival and the programs
            that it is for; of each barrier the last two, as waits do not distinguish more phases.
        group: the group of warps that issued it; "" if there is only one.
        issued: for which programs.
        learned: when groups of warps learned that it is complete, program by program.
        fenced: for which programs its writes are visible to TMA and tensor cores; None for all.
        led: for which programs only the first CTA of each pair has waited for it, or each CTA
            only for its own part (`is_alone`); None before.
        follows: what other CTAs had not waited for when it was issued.
        times: how often it happened to the same tiles and was in flight each time.
        earlier: the first of these; None if there is none.
        reads_nothing: whether nothing had been written yet to what it reads.
    """

    operation: Operation
    queue: str
    flight: Flight
    reads: Sequence[SharedTile]
    writes: Sequence[SharedTile]
    result: Value | None = None
    barrier: SharedTile | None = None
    arrivals: list[tuple[Flight, Array]] = field(default_factory=list)
    counted: list[tuple[SharedTile, Flight, Array]] = field(default_factory=list)
    group: str = ""
    issued: Array = field(default_factory=lambda: numpy.zeros(0, numpy.bool_))
    learned: dict[str, Array] = field(default_factory=dict)
    fenced: Array | None = None
    led: Array | None = None
    is_alone: bool = False
    multicasts: list[tuple[Flight, Array]] = field(default_factory=list)
    follows: Sequence[_Watched] = ()
    times: int = 1
    earlier: _Watched | None = None
    reads_nothing: bool = False

    def is_of(self, tiles: Sequence[SharedTile]) -> bool:
        """Whether it uses these tiles and no other."""
        own = (*self.reads, *self.writes)
        return len(own) == len(tiles) and all(
            (tile.addresses == other.addresses).all() for tile, other in zip(own, tiles)
        )

    def is_early(self, is_read: bool, faulty: Array) -> bool:
        """Whether it came too early, not another group's use of the same memory: it overwrites what
        that has waited for, or reads what that will write.
        """
        if not is_read:
            return self.reads_nothing
        return self.earlier is not None and not (self.earlier.pending & faulty).any()

    def learn(self, group: str, time: int, here: Array) -> None:
        """A group of warps has waited for it."""
        times = self.learned.setdefault(group, numpy.full(len(here), -1))
        times[here & (times < 0)] = time

    @property
    def pending(self) -> Array:
        """For each program, whether the operation is in flight."""
        pending = self.flight.pending
        for arrival, issued in self.arrivals:
            pending = pending & (arrival.pending | ~issued)
        return pending

    def unknown_to_pair(self, operation: Operation) -> Array:
        """For each program, whether a CTA for which an operation uses memory has not waited."""
        is_paired = ttng.is_set(operation.properties.get("two_ctas"))
        if self.led is None or is_paired is not self.is_alone:
            return numpy.zeros_like(self.pending)
        return self.led

    @property
    def known_to_cluster(self) -> Array:
        """For each program, whether the other CTAs of the cluster know that it is complete."""
        known = numpy.zeros_like(self.issued)
        for arrival, issued in self.multicasts:
            known |= issued & ~arrival.pending
        return known


@dataclass
class _Batch:
    """What one batch of programs has in flight."""

    programs: Programs
    flights: Flights
    clocks: _Clocks
    watched: list[_Watched] = field(default_factory=list)
    cluster: _Cluster = field(default_factory=_Cluster)
    allocated: dict[Operation, SharedTile] = field(default_factory=dict)
    """By allocations that hold a tile, and that are in a loop, the memory that they get again."""
    commits: dict[str, list[tuple[Operation, Flight]]] = field(default_factory=dict)
    """Of each queue, the last arrivals at barriers that count its operations."""
    written: dict[str, Array] = field(default_factory=dict)
    """Of each queue of stores, for each program, the number of groups that have been written."""

    def wait(self, group: str, barrier: SharedTile, active: Active, is_paired: bool | None) -> None:
        """A group of warps has waited for a phase of a barrier; of two CTAs that share it
        (`is_paired`), the first. None if there is only one CTA.
        """
        self.clocks.wait(group, barrier, active)
        for place, here in _places(barrier, active):
            for watched in self.watched:
                for counted, arrival, issued in watched.counted:
                    for _, there in (each for each in _places(counted, None) if each[0] == place):
                        done = here & there & issued & ~arrival.pending
                        watched.learn(group, self.clocks.time[group], done)
                        is_load = is_paired is False and watched.queue.startswith("loads")
                        if (is_paired or is_load) and watched.led is None and done.any():
                            watched.led, watched.is_alone = done & watched.issued, not is_paired
                        for each in () if is_paired else watched.follows:
                            each.led = None if each.led is None else each.led & ~done

    def written_groups(self, queue: str) -> Array:
        """Return how many groups of a queue of stores are known to be in global memory."""
        return self.written.setdefault(queue, numpy.zeros(self.programs.count, numpy.int64))

    def count(self, operation: Operation, queue: str, barrier: SharedTile) -> None:
        """Let a barrier count the operations of a queue, which complete in order: also those for
        which another group of warps has waited.
        """
        arrival = barrier.arrivals[-1].flight
        self.commits[queue] = [*self.commits.get(queue, ())[-3:], (operation, arrival)]
        for watched in self.watched:
            if watched.queue != queue:
                continue
            places, counted = barrier.addresses, watched.counted
            same = [each for each in counted if (each[0].addresses == places).all()]
            others = [each for each in counted if not (each[0].addresses == places).all()]
            watched.counted = [*others, *same[-1:], (barrier, arrival, arrival.pending)]
            if watched.pending.any():
                watched.barrier = watched.barrier or barrier
                watched.arrivals.append((arrival, arrival.pending))
                if ttng.multicast_tiles(operation):
                    watched.multicasts.append((arrival, arrival.pending))


@dataclass(frozen=True)
class _Use:
    """An operation that uses memory or issues something, as a run meets it.

    Attributes:
        reads, writes: the tiles of shared and tensor memory that it reads, and that it writes, by
            operands; barriers left out.
        values: all operands.
        active: for which programs.
    """

    computed: Computed
    batch: _Batch
    reads: Mapping[SSAValue, SharedTile]
    writes: Mapping[SSAValue, SharedTile]
    values: Mapping[SSAValue, Value]
    active: Active

    @property
    def operation(self) -> Operation:
        return self.computed.operation

    @functools.cached_property
    def here(self) -> Array:
        """For each program, whether it takes part."""
        everyone = numpy.ones(self.batch.programs.count, numpy.bool_)
        return everyone if self.active is None else self.active

    @property
    def tiles(self) -> tuple[SharedTile, ...]:
        return (*self.reads.values(), *self.writes.values())


class MissingWait(Detector):
    """Follow asynchronous operations from their issue to the wait that completes them.

    Each of them completes as late as it may. A use that finds one in flight is reported, and the
    operation is complete from then on, so that nothing else follows from it.
    """

    kinds = ("missing-wait", "missing-fence")

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._batches: dict[Programs, _Batch] = {}
        self._times: Counter[tuple[Operation, Operation, str]] = Counter()
        self._ctas = ttg.cta_count(run.code.module)
        self._offsets: Mapping[Operation, int] = {}
        if self._ctas == 1:
            self._offsets = run.code.once("offsets", functools.partial(_offsets, run))
        self._sent: dict[tuple[int, int], dict[Operation, Array]] = defaultdict(dict)
        """By storage and size of elements, for each TMA store, who sent each element and when: the
        program's linear id in the upper 32 bits, the group below; or -1."""
        if self._ctas > 1 and triton_api.CTAS_LOAD_FROM_OTHERS:
            self.notes = (_PEERS.format(self._ctas),)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return is_asynchronous(run.code)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        if has(operation, OfQueue, SharedRead, SharedWrite, TensorRead, TensorWrite):
            return True
        if isinstance(operation, _OF_CLUSTERS | ttg.LocalDeallocOp):
            return True
        if has(operation, OrdersWarpGroups):
            return bool(_group(operation)) or ttg.cta_count([*parents(operation)][-1]) > 1
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
        queue, group = _queue(operation), _group(operation)
        for watched in () if group else batch.watched:
            watched.group = ""  # the groups of warps have ended
        if isinstance(operation, _OF_CLUSTERS):
            batch.cluster.order(operation)
            for watched in batch.watched if isinstance(operation, ttng.ClusterWaitOp) else ():
                watched.led = None if watched.led is None else numpy.zeros_like(watched.led)
        elif has(operation, WaitsFor):
            pending: Any = operation.properties.get("pendings", operation.properties.get("num"))
            batch.flights.wait(queue, pending.value.data, active)
            is_for_writes = not ttng.is_set(operation.properties.get("read_only"))
            if is_for_writes and triton_api.STORE_WAITS_FOR_WRITES:
                chosen = ... if active is None else active
                done = batch.flights.committed(queue) - pending.value.data
                batch.written_groups(queue)[chosen] = done[chosen]
            for watched in batch.watched if group else ():
                if watched.queue == queue:
                    watched.learn(group, batch.clocks.time[group], ~watched.pending)
        elif isinstance(operation, ttng.WaitBarrierOp):
            is_paired = self._is_shared(operation.barrier) if self._ctas > 1 else None
            batch.wait(group, values[operation.barrier], active, is_paired)
            if is_paired:
                batch.cluster.wait()
        elif isinstance(operation, ttng.ArriveBarrierOp | ttng.BarrierExpectOp):
            batch.clocks.arrive(group, values[operation.barrier], active)
            if self._ctas > 1 and self._is_shared(operation.barrier):
                batch.cluster.handed = [*batch.cluster.before]
        elif isinstance(operation, ttng.FenceAsyncSharedOp):
            for watched in batch.watched:
                if watched.fenced is not None and watched.group == group:
                    watched.fenced[... if active is None else active] = True
        elif active is not None and not active.any():
            return
        elif has(operation, Counts):
            (counting,) = _barriers(operation)
            use = _Use(computed, batch, {}, {}, values, active)
            self._look_in_cluster(use)
            batch.count(operation, queue, values[counting])
            batch.clocks.arrive(group, values[counting], active)
        elif has(operation, Commits):
            batch.flights.commit(queue, active)
        else:
            reads, writes = _accesses(operation, values)
            if isinstance(operation, ttg.LocalAllocOp | ttng.TmemAllocOp) and operation.operands:
                again = batch.allocated.get(operation)
                reads, writes = {}, {} if again is None else {operation.results[0]: again}
                batch.allocated[operation] = computed.results[0]
            if operation in self._offsets:
                (result,), (tile,) = operation.results, computed.results
                tile.allocation.place = self._offsets[operation] - tile.addresses, _name(result)
                writes = {result: tile} if operation.operands else {}
            use = _Use(computed, batch, reads, writes, values, active)
            self._look(use)
            self._look_in_cluster(use)
            try:
                issued = self._issue(use) if has(operation, Asynchronous) else None
            except NeverWaitedFor as fault:
                self._add(use, operation, use.here, fault.what, fault.advice, is_last=True)
            if isinstance(operation, ttg.LocalDeallocOp):
                return
            if self._ctas > 1:
                tiles: Sequence[SharedTile] = use.tiles
                if isinstance(operation, ttng.InitBarrierOp):
                    tiles = (values[operation.barrier],)
                elif isinstance(operation, ttg.LocalAllocOp | ttng.TmemAllocOp):
                    tiles = computed.results[: len(operation.operands)]
                if not self._is_multicast(operation):
                    batch.cluster.use(operation, tiles, use.here, issued)
            if group and not has(operation, Asynchronous):
                self._keep(use)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        """Keep what a TMA store will write, and report what is loaded before."""
        programs, operation, buffer = access.programs, access.operation, access.buffer
        queue, storage = _queue(operation), buffer.tensor.untyped_storage().data_ptr()
        is_store, key = queue.startswith("stores"), (storage, buffer.itemsize)
        if programs is None or not (is_store or (key in self._sent and has(operation, GlobalRead))):
            return
        batch, shape = self._batch(programs), (programs.count, *(1,) * access.rank)
        on = numpy.asarray(True if access.on is None else access.on) & access.taking_part(
            access.rank
        )
        program = programs.linear.astype(numpy.int64).reshape(shape)
        index, on, program = numpy.broadcast_arrays(access.index, on, program)
        if is_store:
            group = batch.flights.committed(queue).reshape(shape)
            never = numpy.full(len(buffer.elements), -1, numpy.int64)
            sent = self._sent[key].setdefault(operation, never)
            sent[index[on]] = (program << 32 | group)[on]
            return
        for store, sent in self._sent[key].items():
            senders = sent.take(index, mode="clip")
            written = batch.written_groups(_queue(store)).reshape(shape)
            faulty = on & (senders >> 32 == program) & (senders & 0xFFFFFFFF >= written)
            if faulty.any():
                facts_of = functools.partial(self._unwritten, access, faulty, store)
                self.collector.report(access, faulty, access.rank, facts_of, store)

    def _unwritten(
        self, access: CheckedAccess, faulty: Array, store: Operation, place: Any, program: int
    ) -> dict[str, Any]:
        index = access.element(faulty, place, program)
        advice = "Wait for the write between the two lines: tma.store_wait(0, read_only=False)."
        if not triton_api.STORE_WAITS_FOR_WRITES:
            advice = (
                "Before Triton 3.8, a wait for a TMA store ends when shared memory has been read, "
                "and nothing waits for the write."
            )
        elif not self.run.kernel.is_gluon():
            advice = _OF_COMPILER
        what = f"{access.named(index)} is read here before the TMA store{_line(store)} writes it"
        about = {"argument": access.buffer.name, "index": index}
        return {"message": what, "advice": advice, **about}

    def _batch(self, programs: Programs) -> _Batch:
        if programs not in self._batches:
            if self.run.code.watched is None:
                self.end()  # one batch runs after the other
            count = programs.count
            self._batches[programs] = _Batch(programs, Flights(count), _Clocks(count))
        return self._batches[programs]

    def end(self) -> None:
        """Report what may still access shared memory when its programs end."""
        for batch in self._batches.values():
            left = [(each.operation, each.pending) for each in batch.watched]
            for commits in batch.commits.values():
                last, _ = commits[-1]
                own = [arrival.pending for operation, arrival in commits if operation is last]
                left.append((last, numpy.logical_and.reduce(own)))
            reported = {_queue(each) for at, other, _ in self._times for each in (at, other)}
            for operation, pending in left:
                queue = _queue(operation)
                name = queue.partition(" ")[0]
                is_known = queue in reported and name != "stores"
                if name not in _UNFINISHED or is_known or not pending.any():
                    continue
                wait = _WORDS[name][1].format(left=0) or "mbarrier.wait(barrier, phase)"
                facts = {
                    "kind": "missing-wait",
                    "places": locate(operation.location).frames[::-1],
                    "message": f"the program may end while {_UNFINISHED[name]} shared memory, "
                    "which another program then gets",
                    "advice": f"Wait for it before the kernel ends: {wait}.",
                }
                self.collector.add(operation, facts, batch.programs.linear[pending].tolist())
        self._batches.clear()

    def _issue(self, use: _Use) -> _Watched | None:
        """Watch an asynchronous operation; None if it is complete already."""
        operation, batch, active = use.operation, use.batch, use.active
        queue, barrier = _queue(operation), _barrier(operation, use.values)
        if isinstance(operation, ttng.WarpGroupDotOp) and not operation.completes_later:
            batch.flights.wait(queue, 0, active)
            return None
        is_tcgen05 = queue.startswith("tcgen05")
        is_counted = barrier is not None or "is_async" in operation.properties
        if has(operation, TensorWrite) and not (is_counted or self.run.kernel.is_gluon()):
            return None  # the compiler will wait for it
        if is_tcgen05:
            barrier, flight = None, Flight(nothing, active, batch.programs.count)
        elif barrier is not None:
            flight = barrier.arrivals[-1].flight
        else:
            flight = batch.flights.issue(queue, nothing, active)
            if not queue.startswith("copies"):
                batch.flights.commit(queue, active)
        again = self._forget(use)
        result = use.computed.results[0] if isinstance(operation, ttng.WarpGroupDotOp) else None
        reads, writes = tuple(use.reads.values()), tuple(use.writes.values())
        watched = _Watched(operation, queue, flight, reads, writes, result, barrier)
        watched.group, watched.issued = _group(operation), flight.pending.copy()
        led = (each for each in batch.watched if each.led is not None)
        watched.follows = [each for each in led if (each.led & use.here).any()]
        watched.reads_nothing = any(tile.allocation.writes == 0 for tile in reads)
        for last in again:
            if last.pending.any():
                oldest = last.earlier
                is_oldest = oldest is None or not oldest.pending.any()
                watched.earlier, last.earlier = last if is_oldest else oldest, None
                watched.times = last.times + 1
        if watched.times > MOST_IN_FLIGHT:
            raise NeverWaitedFor(int(numpy.argmax(use.here)))
        if barrier is not None:
            watched.counted.append((barrier, flight, watched.issued))
        batch.watched.append(watched)
        for counting in _barriers(operation) if is_tcgen05 else ():
            if use.values[counting].arrivals:
                batch.count(operation, queue, use.values[counting])
                batch.clocks.arrive(watched.group, use.values[counting], active)
        return watched

    def _keep(self, use: _Use) -> None:
        """Keep what a group of warps reads or writes at once."""
        operation, batch, group = use.operation, use.batch, _group(use.operation)
        flight = Flight(nothing, numpy.zeros_like(use.here), len(use.here))
        reads, writes = tuple(use.reads.values()), tuple(use.writes.values())
        if isinstance(operation, ttg.LocalAllocOp) and operation.source is not None:
            writes = tuple(use.computed.results)
        self._forget(use)
        watched = _Watched(operation, "", flight, reads, writes, group=group, issued=use.here)
        watched.learn(group, batch.clocks.time[group], use.here)
        if writes and has(operation, SharedWrite):
            watched.fenced = numpy.zeros_like(use.here)
        batch.watched.append(watched)

    def _forget(self, use: _Use) -> list[_Watched]:
        """Forget what is complete, and return what the operation did to the same tiles before;
        where groups of warps may still have to learn of what is complete, forget only that. What
        happens again for the same programs and tiles completes no earlier, since queues and
        barriers keep the order: once is enough.
        """
        barrier = _barrier(use.operation, use.values)
        again = [
            each
            for each in use.batch.watched
            if each.operation is use.operation and each.is_of(use.tiles)
        ]
        covered = [
            each
            for each in again
            if not (each.pending & ~use.here).any()
            and (each.result is None or any(each.result is value for value in use.values.values()))
            and (
                barrier is None
                or each.barrier is None
                or (each.barrier.addresses == barrier.addresses).all()
            )
        ]
        use.batch.watched = [
            each
            for each in use.batch.watched
            if (each.pending.any() and not any(each is other for other in covered))
            or (each.led is not None and each.led.any())
            or (each.group and not any(each is other for other in again))
        ]
        return again

    def _look(self, use: _Use) -> None:
        """Report what the operation reads or writes while another one is in flight on it."""
        operation, queue = use.operation, _queue(use.operation)
        group = _group(operation)
        if group and has(operation, Asynchronous):
            self._look_for_fences(use)
        in_order = queue if queue.startswith("tcgen05") else None
        for watched in use.batch.watched:
            if watched.queue == in_order:
                continue
            unknown = pending = watched.pending & use.here
            if group and watched.group:
                here = watched.issued & use.here
                unknown = pending | (here & ~use.batch.clocks.knows(group, watched.learned))
            if watched.led is not None:
                unknown = unknown | (watched.unknown_to_pair(operation) & use.here)
            if not unknown.any():
                continue
            both = (*watched.reads, *watched.writes)
            for tiles, others, is_read in (
                (use.reads, watched.writes, True),
                (use.writes, both, False),
            ):
                for (value, tile), other in itertools.product(tiles.items(), others):
                    faulty = unknown & _shared(tile, other)
                    if faulty.any():
                        name = _name(value)
                        if tile.allocation is not other.allocation and other.allocation.place:
                            owner = other.allocation.place[1]
                            name += f", which has the place of {owner} in shared memory,"
                        self._report(use, watched, faulty, is_read, name)
                        unknown = unknown & ~faulty
            if watched.result is not None and not has(operation, OfQueue):
                if any(operand is watched.result for operand in use.computed.operands):
                    self._report(use, watched, pending, True)

    def _is_shared(self, memory: SSAValue) -> bool:
        """Whether several CTAs of a cluster have the same part of a tile, or one barrier."""
        kind = memory.type
        return isinstance(kind, MemDescType) and kind.cta_splits < self._ctas

    def _is_multicast(self, operation: Operation) -> bool:
        """Whether one CTA loads for several, whose tiles are copies of each other."""
        if not isinstance(operation, ttng.AsyncTmaCopyGlobalToLocalOp | ttng.AsyncTmaGatherOp):
            return False
        return self._is_shared(operation.memory) and ttng.is_set(operation.multicast)

    def _look_in_cluster(self, use: _Use) -> None:
        """Report what one CTA does in the memory of another: a multicast load, where the other may
        still use the memory, and arrivals at a barrier that the other may not have initialized.
        """
        operation = use.operation
        barriers = _barriers(operation)
        reached = {
            each
            for each in barriers
            if self._is_multicast(operation)
            or ttng.is_set(operation.properties.get("two_ctas"))
            or ttng.multicast_tiles(operation)
            or (triton_api.CTAS_SHARE_BARRIERS and self._is_shared(each))
        }
        written = use.writes if self._is_multicast(operation) else {}
        touched = {**written, **{barrier: use.values[barrier] for barrier in reached}}
        is_pair = ttng.is_set(operation.properties.get("two_ctas"))
        if self._ctas == 1 or isinstance(operation, ttng.InitBarrierOp):
            return
        cluster = use.batch.cluster
        for other in cluster.before + cluster.arrived:
            used = dict(touched)
            if is_pair and has(operation, Asynchronous) and not has(other.operation, Asynchronous):
                is_write = has(other.operation, SharedWrite, TensorWrite)
                used |= {**use.writes, **(use.reads if is_write else {})}
            for value, tile in used.items():
                faulty = use.here & other.unknown & _shared(tile, other.tile)
                if faulty.any():
                    self._report_in_cluster(use, other.operation, value, faulty)

    def _report_in_cluster(
        self, use: _Use, other: Operation, value: SSAValue, faulty: Array
    ) -> None:
        name = _name(value)
        deed = "writes to" if has(other, SharedWrite, TensorWrite) else "reads"
        verb = "read" if value in use.reads else "overwritten"
        message = (
            f"{name} is {verb} here in each CTA of the cluster, and another CTA may still"
            f" be before the operation that {deed} it{_line(other)}"
        )
        wait = "gl.barrier(cluster=True)"
        if isinstance(other, ttng.InitBarrierOp):
            message = (
                f"one CTA arrives here on {name} of another CTA, which may not have initialized it"
                f"{_line(other)} yet"
            )
            wait = "mbarrier.sync_cluster_init()"
        advice = f"Call {wait} between the two lines, so that all CTAs wait for each other."
        self._add(use, other, faulty, message, advice)

    def _look_for_fences(self, use: _Use) -> None:
        """Report what TMA or a tensor core reads that another group of warps stored without a
        fence. In one group, the compiler inserts the fence.
        """
        for watched in use.batch.watched:
            if watched.fenced is None or watched.group in ("", _group(use.operation)):
                continue
            for (value, tile), other in itertools.product(use.reads.items(), watched.writes):
                faulty = watched.issued & ~watched.fenced & _shared(tile, other) & use.here
                if faulty.any():
                    message = (
                        f"{_name(value)} is read here by TMA or a tensor core, which may not see "
                        f"what another group of warps stored{_line(watched.operation)}"
                    )
                    advice = (
                        "Call fence_async_shared() between the store and the arrival at the "
                        "mbarrier, which makes the store visible."
                    )
                    self._add(use, watched.operation, faulty, message, advice, "missing-fence")
                    watched.fenced = watched.fenced | faulty

    def _add(
        self,
        use: _Use,
        other: Operation,
        faulty: Array,
        message: str,
        advice: str,
        kind: str = "missing-wait",
        *,
        at_other: bool = False,
        is_last: bool = False,
    ) -> None:
        """Record a finding at an operation, or at the other (`at_other`).

        Raises:
            Stopped: it is the same for so many times, with so much in flight, that the program does
                not wait at all.
        """
        places = locate(other.location).frames[::-1] if at_other else use.computed.calls()
        facts = {"kind": kind, "message": message, "advice": advice, "places": places}
        key = (use.operation, other, kind)
        self.collector.add(key, facts, use.computed.linear_ids(faulty).tolist())
        self._times[key] += 1
        if self._times[key] == MOST_IN_FLIGHT or is_last:
            raise Stopped(dict(zip(self._times, self.collector.findings()))[key])

    def _report(
        self, use: _Use, watched: _Watched, faulty: Array, is_read: bool, name: str = ""
    ) -> None:
        """Report a use of memory, or of a product's result if the memory has no name."""
        other, group = watched.operation, _group(use.operation)
        is_early = group and watched.group not in ("", group) and watched.is_early(is_read, faulty)
        if is_early:
            did, does = ("overwritten", "reads") if is_read else ("read", "writes")
            message = (
                f"{name} is {did} here before another group of warps {does} it"
                f"{_line(use.operation)}"
            )
        else:
            message = self._message(use, watched, faulty, is_read, name)
        advice = self._advice(use, watched, faulty)
        if is_early and self.run.kernel.is_gluon():
            advice = (
                "Before this line, this group of warps does not wait at an mbarrier at which the "
                "other group arrives afterwards."
            )
        self._add(use, other, faulty, message, advice, at_other=bool(is_early))
        watched.flight.complete(faulty)
        if watched.led is not None:
            watched.led = watched.led & ~faulty
        if group:
            watched.learn(group, use.batch.clocks.time[group], faulty)

    def _message(
        self, use: _Use, watched: _Watched, faulty: Array, is_read: bool, name: str
    ) -> str:
        what = _what(watched)
        verb = "read" if is_read else "overwritten"
        if isinstance(use.operation, ttg.LocalDeallocOp):
            verb = "given up, for other data,"
        if _is_led_in(use, watched, faulty):
            who, waited = "by both CTAs", "only the first has waited for the"
            if watched.is_alone:
                who, waited = "for both CTAs", "each has waited only for its own"
            return f"{name} is {verb} here {who} of a pair, and {waited} {what}"
        if _is_of_others(use, watched, faulty):
            if watched.queue:
                return (
                    f"{name} is {verb} here, and this group of warps has not waited for the "
                    f"{what}: the wait of another group does not count for it"
                )
            deed = "stores" if watched.writes else "reads"
            return (
                f"{name} is {verb} here, and another group of warps {deed} it{what}: no mbarrier "
                "orders the two"
            )
        if not name:
            return f"the result of the {what} is used here before it is complete"
        if is_read:
            done = "completed" if watched.queue.startswith("tcgen05") else "arrived"
            return f"{name} is read here before the {what} has {done}"
        doing = "uses" if watched.reads and watched.writes else "writes"
        doing = "reads" if not watched.writes else doing
        return f"{name} is {verb} here while the {what} still {doing} it"

    def _advice(self, use: _Use, watched: _Watched, faulty: Array) -> str:
        if not self.run.kernel.is_gluon():
            return _OF_COMPILER
        if _is_led_in(use, watched, faulty):
            return "Call gl.barrier(cluster=True) after the wait, so that both CTAs have waited."
        is_others = _is_of_others(use, watched, faulty)
        if is_others and not watched.queue:
            return (
                "Let the other group arrive at an mbarrier after that line, and this group wait "
                "for it before this line."
            )
        wait = _WORDS[watched.queue.partition(" ")[0]][1]
        if not wait or watched.barrier is not None:
            wait = "mbarrier.wait(barrier, {left}), with its barrier"
        left, is_committed = _left(use.batch, watched, int(numpy.argmax(faulty)))
        if is_others and watched.barrier is not None:
            left ^= 1  # its phase is over
        advice = f"Wait for it between the two lines: {wait.format(left=left)}."
        if is_committed:
            return advice
        is_tcgen05 = watched.queue.startswith("tcgen05")
        commit = "tcgen05_commit(barrier)" if is_tcgen05 else "async_copy.commit_group()"
        return f"Call {commit} after it. {advice}"


def _what(watched: _Watched) -> str:
    """What an operation is called, and its line."""
    is_copy = isinstance(watched.operation, ttng.TmemCopyOp)
    what = "copy" if is_copy else _WORDS[watched.queue.partition(" ")[0]][0]
    return what + _line(watched.operation)


def _is_led_in(use: _Use, watched: _Watched, faulty: Array) -> bool:
    """Whether only one CTA of a pair has waited for an operation."""
    is_led = (watched.unknown_to_pair(use.operation) & faulty).any()
    return bool(is_led) and not (watched.pending & faulty).any()


def _is_of_others(use: _Use, watched: _Watched, faulty: Array) -> bool:
    """Whether another group of warps has waited for an operation, or did it at once."""
    is_over = not (watched.pending & faulty).any()
    return bool(watched.group) and is_over and not _is_led_in(use, watched, faulty)


_OF_CLUSTERS = ttng.FenceMbarrierInitReleaseClusterOp | ttng.ClusterArriveOp | ttng.ClusterWaitOp


def _line(operation: Operation) -> str:
    frames = locate(operation.location).frames
    return f" on line {frames[0].line}" if frames else ""


def _is_product(value: SSAValue) -> bool:
    """Whether a value is, or was waited for as, the result of a product."""
    return isinstance(value.owner, ttng.WarpGroupDotOp | ttng.WarpGroupDotWaitOp)


@functools.lru_cache(256)
def _queue(operation: Operation) -> str:
    """The queue of an operation; the groups of warps that run separate code have separate ones."""
    trait = trait_of(operation, OfQueue)
    return f"{trait.queue if trait else ''} {_group(operation)}".rstrip()


@functools.lru_cache(256)
def _group(operation: Operation) -> str:
    """The group of warps that runs an operation; "" outside of warp-specialized code."""
    for inside in (operation, *parents(operation)):
        if isinstance(inside.parent_op(), ttg.WarpSpecializeOp | ttg.WarpSpecializePartitionsOp):
            return str(id(inside.parent_region()))
    return ""


def _barrier(operation: Operation, values: Mapping[SSAValue, Value]) -> SharedTile | None:
    """The mbarrier that counts an operation; of several the first."""
    barriers = _barriers(operation)
    return values[barriers[0]] if barriers else None


@functools.lru_cache(256)
def _barriers(operation: Operation) -> Sequence[SSAValue]:
    if isinstance(operation, ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp):
        return operation.barriers
    barrier = getattr(operation, "barrier", None)
    return () if barrier is None else (barrier,)


def _accesses(
    operation: Operation, values: Mapping[SSAValue, Value]
) -> tuple[dict[SSAValue, SharedTile], dict[SSAValue, SharedTile]]:
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
    elif isinstance(operation, ttng.TmemCopyOp | ttg.LocalDeallocOp):
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
    if tile.allocation is not other.allocation:
        if tile.allocation.place is None or other.allocation.place is None:
            return shared
        (first, end), (start, last) = _bytes(tile), _bytes(other)
        overlap: Array = (first < last) & (start < end)
        return overlap
    distances = other.addresses - tile.addresses
    for distance in numpy.unique(distances):
        program = int(numpy.argmax(distances == distance))
        if numpy.shares_memory(_of(tile, program), _of(other, program)):
            shared |= distances == distance
    return shared


def _bytes(tile: SharedTile) -> tuple[Array, Array]:
    """Where a tile begins and ends in the shared memory of each program."""
    assert tile.allocation.place is not None
    begin: Array = tile.addresses + tile.allocation.place[0]
    strides = tile.memory.strides[1 + len(tile.chosen) :]
    last = sum((size - 1) * stride for size, stride in zip(tile.shape, strides))
    return begin, begin + last + tile.memory.itemsize


def _offsets(run: CheckedRun) -> dict[Operation, int]:
    """Where the compiler puts each allocation in shared memory, in bytes; none where all are made
    before anything is asynchronous, so that no two of them have the same place.
    """
    operations = [
        op
        for op in run.code.module.walk()
        if isinstance(op, ttg.LocalAllocOp) or has(op, Asynchronous)
    ]
    own = [op for op in operations if isinstance(op, ttg.LocalAllocOp)]
    if operations[: len(own)] == own:
        return {}
    label = f"llir.allocate_shared_memory{'_nv' if run.target.backend == 'cuda' else ''}"
    with contextlib.suppress(KernelLabError):
        module = read_module(module_after(run.kernel, run.call, run.target, label))
        placed = [op for op in module.walk() if isinstance(op, ttg.LocalAllocOp)]
        if [op.result.type for op in placed] == [op.result.type for op in own]:
            offsets = {op: integer(other, OFFSET) for op, other in zip(own, placed)}
            return {op: at for op, at in offsets.items() if at is not None and not _is_padded(op)}
    return {}


def _is_padded(op: ttg.LocalAllocOp) -> bool:
    """Whether elements do not follow each other in shared memory."""
    assert isinstance(op.result.type, MemDescType)
    encoding = op.result.type.encoding
    is_fp4 = isinstance(encoding, NvmmaSharedEncoding) and encoding.fp4_padded
    return is_fp4 or isinstance(encoding, PaddedSharedEncoding)


def _of(tile: SharedTile, program: int) -> Array:
    chosen = (c if isinstance(c, int) else int(c[program]) for c in tile.chosen)
    place: Array = tile.memory[(program, *chosen)]
    return place


def _name(memory: SSAValue) -> str:
    name = memory_name(memory)
    return f"`{name}`" if name else "shared memory"
