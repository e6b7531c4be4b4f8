"""A checked launch, which can run again on copies, by schedules that order its programs."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy
import torch
from xdsl.ir import Operation

from kernellab.checker.arguments import LazyCopies
from kernellab.checker.checked_run import CheckedAccess, CheckedRun, Computed, unchanged_storages
from kernellab.checker.detector import RAISED, Detector, Failures, Stopped, implementing, overrides
from kernellab.checker.records import LISTED_PROGRAMS, Finding
from kernellab.checker.shadow_memory import fetch
from kernellab.compiler.analyses import work
from kernellab.compiler.machine_code.resources import most_resident
from kernellab.compiler.targets import device_name
from kernellab.errors import (
    Deadlock,
    EndlessWait,
    ExtraArrival,
    InvalidBarrier,
    KernelFault,
    MissingWait,
)
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.codegen.analyses import switch_points
from kernellab.interpreter.codegen.code_writer import is_among, located_at
from kernellab.interpreter.codegen.emitter import AfterOperation, Emitter
from kernellab.interpreter.codegen.expressions import observer
from kernellab.interpreter.execution import runtime
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.launcher import launch_observed, launch_sampled
from kernellab.interpreter.execution.program import (
    ProgramCode,
    entry_of,
    memory_effects,
    per_code,
    program_of_module,
)
from kernellab.interpreter.execution.scheduler import Preemption, Residency
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.asynchrony import LateBarriers
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import Load, Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.memory.observers import DescriptorsThrough, WatchedMemory
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir import tt
from kernellab.ir.operations import Atomic, DotLike, has, in_region_of_elements
from kernellab.launch.argument_copies import copied
from kernellab.records.launches import DEFAULT, RunOptions


@dataclass(frozen=True, eq=False)
class Leaving:
    """Lanes of an access that leave their tensor.

    Attributes:
        lanes: which, programs first if they differ; at least one, and all of them on.
        view: the elements of the storage, of which only the tensor's own may be touched.
        inside: the access without those that leave the storage, which load `other` or 0.
    """

    lanes: numpy.ndarray
    view: Buffer
    inside: MemoryAccess


class BoundsPolicy:
    """Keeps the accesses of one run inside the storages that they go to."""

    def __init__(self, restrided: Collection[str] = ()) -> None:
        """Keep to the storages; `restrided` names arguments that may be read anywhere in theirs."""
        self._restrided = restrided
        self._views: dict[tuple[int, numpy.dtype], Buffer] = {}

    def leaving(self, access: CheckedAccess) -> Leaving | None:
        """The part of the access that leaves the tensor; None if nothing does."""
        view = self._view(access.buffer)
        if _is_inside(view, access):
            return None
        lanes = view.is_outside(access.index)
        if access.on is not None:
            lanes = lanes & access.on
        if not lanes.any():
            return None
        beyond = lanes & ((access.index < 0) | (access.index >= len(view.elements)))
        if access.action == "load" and access.buffer.name in self._restrided:
            lanes = beyond
            if not lanes.any():
                return None
        inside = without(access.request, beyond) if beyond.any() else access.request
        return Leaving(lanes, view, inside)

    def _view(self, buffer: Buffer) -> Buffer:
        key = id(buffer.tensor), buffer.elements.dtype
        if key not in self._views:
            self._views[key] = Buffer(
                buffer.name, buffer.tensor, buffer.elements.dtype, bounds="view"
            )
        return self._views[key]


def without(request: MemoryAccess, lanes: numpy.ndarray) -> MemoryAccess:
    """The same access with these lanes switched off."""
    mask = ~lanes if request.mask is None else numpy.asarray(request.mask) & ~lanes
    return dataclasses.replace(request, mask=mask)


def _is_inside(view: Buffer, access: CheckedAccess) -> bool:
    """True if it is known, without looking at every lane, that none is outside."""
    request = access.request
    if view.present is not None or not isinstance(request.offsets, AffineTile):
        return False
    low, high = request.offsets.low + view.origin, request.offsets.high + view.origin
    if view.first <= low and high < view.stop:
        return True
    return access.box is not None and access.box.is_inside(view)


Change = Callable[[CheckedAccess], MemoryAccess]
"""Replaces an access by another one."""

EVENT = 1000
"""The work of an event besides that of its elements, in elements."""

MATMUL = 256
"""The floating-point operations of a matmul that count as one element: a processor does 2 to 30
billion a second.
"""


class OutOfWork(Exception):
    """Runs were stopped because they have done all the work that they may do."""


@dataclass
class Work:
    """The work of several runs: the elements of all events, `EVENT` for each event, and matmuls.

    Attributes:
        most: where a run is stopped.
    """

    done: int = 0
    most: float = math.inf

    def add(self, amount: int) -> None:
        """Raises OutOfWork: it is more than the most."""
        self.done += amount
        if self.done > self.most:
            raise OutOfWork


class EventDispatcher:
    """Calls the detectors of a run for each event; see `observers.RunObserver`.

    Attributes:
        programs: the current batch; missing before the first one runs.
    """

    programs: Programs

    def __init__(
        self,
        run: CheckedRun,
        detectors: Sequence[Detector],
        change: Change | None = None,
        failures: Failures = RAISED,
        work: Work | None = None,
    ) -> None:
        """Create a dispatcher.

        Args:
            failures: records detectors that fail, which receive no further events.
            work: what the events are added to.
        """
        self.run = run
        self.failures = failures
        self.bounds = BoundsPolicy(run.restrided)
        self.change = change
        self.work = Work() if work is None else work
        self.operations: Sequence[Operation] = ()
        self.outside_tensor = [d.outside_tensor for d in implementing("outside_tensor", detectors)]
        self.outside_memory = [d.outside_memory for d in implementing("outside_memory", detectors)]
        self.before = [detector.before for detector in implementing("before", detectors)]
        self.after = [detector.after for detector in implementing("after", detectors)]
        self._values = implementing("computed", detectors)
        self._observing: dict[Operation, list[Any]] = {}
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """See `observers.RunObserver.modules`."""
        observed = EventMemory(memory, self)
        return {
            "memory": observed,
            "descriptors": DescriptorsThrough(observed),
            "debugging": _Debugging,
            "mbarriers": LateBarriers(moves_data=False),
            "observer": self,
        }

    def keep(self, tensor: torch.Tensor) -> None:
        """Keep the contents of an argument's memory for `put_back`, before an access changes it."""
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self._kept and isinstance(self.run.storage_of(tensor), int):
            everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            self._kept[start] = everything, everything.clone()

    def put_back(self) -> None:
        for everything, before in self._kept.values():
            everything.copy_(before)

    def operation_at(self, frame: types.FrameType) -> Operation:
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        assert operation is not None, "every statement that accesses memory has a location"
        return operation

    def kernel_frame(self, frame: types.FrameType | None) -> types.FrameType:
        """Return the frame of generated code that `frame` was called from."""
        codes = self.run.code.codes
        while frame is not None and not is_among(frame.f_code, codes):
            frame = frame.f_back
        assert frame is not None, "only generated code accesses memory"
        return frame

    def computed(
        self,
        operation: Operation,
        operands: Sequence[Value],
        results: Sequence[Value],
        active: Active,
    ) -> None:
        """Dispatch an observed operation's results; called by generated code."""
        if operation not in self._observing:
            self._observing[operation] = [
                detector.computed
                for detector in self._values
                if _observing(self.run.code, operation, type(detector))
            ]
        self.work.add(EVENT + sum(map(numpy.size, results)))
        frame = sys._getframe(1)
        programs = vars(self).get("programs")
        event = Computed(
            self.run, operation, programs, active, frame, frame.f_lasti, operands, results
        )
        self.dispatch(self._observing[operation], event)

    def multiplied(self, elements: int) -> None:
        """Count a matmul of each program, in elements; called by generated code."""
        self.work.add(elements * self.programs.count)

    def dispatch(self, observers: Sequence[Callable[..., None]], *event: Any) -> None:
        """Call observers with an event; see `__init__` for those that fail."""
        for observe in observers:
            try:
                observe(*event)
            except Stopped:
                raise
            except Exception as error:  # a detector that fails must not end the others
                failed = observe.__self__  # type: ignore[attr-defined]  # a bound method
                self.failures.note(type(failed), error)
                self._leave_out(failed)

    def _leave_out(self, failed: Detector) -> None:
        for name in ("outside_tensor", "outside_memory", "before", "after"):
            observers = [call for call in getattr(self, name) if call.__self__ is not failed]
            setattr(self, name, observers)
        self._values = [detector for detector in self._values if detector is not failed]
        self._observing.clear()


@per_code
def may_hear(code: ProgramCode, kind: type[Detector]) -> bool:
    """Return whether a code's run may have events for a detector: accesses, observed operations."""
    return (
        any(overrides(kind, method) for method in _ACCESS_EVENTS)
        or not overrides(kind, "computed")
        or any(_observes(kind, op) for op in entry_of(code.module).body.walk())
    )


@per_code
def _observing(_code: ProgramCode, operation: Operation, kind: type[Detector]) -> bool:
    return _observes(kind, operation)


_ACCESS_EVENTS = ("before", "after", "outside_tensor", "outside_memory")


class EventMemory(MemoryLayer):
    """Replaces `memory` in generated code: keeps accesses in their storages, and reports them."""

    def __init__(self, inner: Memory, dispatcher: EventDispatcher) -> None:
        self._inner = inner
        self._dispatcher = dispatcher

    def around(self, request: MemoryAccess) -> Value | None:
        dispatcher = self._dispatcher
        dispatcher.work.add(EVENT + numpy.size(request.offsets))
        frame = dispatcher.kernel_frame(sys._getframe(2))
        operation = dispatcher.operation_at(frame)
        access_to = functools.partial(
            CheckedAccess,
            dispatcher.run,
            operation,
            dispatcher.programs,
            request.active,
            frame,
            frame.f_lasti,
        )
        if isinstance(request.buffer, Buffer):
            access = self._kept_inside(access_to(request, request.buffer))
            self._fetch([access])
            if dispatcher.change is not None:
                access = replace(access, request=dispatcher.change(access))
            inside, accesses = access.request, [access]
        else:
            assert isinstance(request.buffer, Elements)
            inside, accesses = self._by_address(request, request.buffer, access_to)
            self._fetch(accesses)
        for access in accesses:
            dispatcher.dispatch(dispatcher.before, access)
        result = inside.made_by(self._inner)
        for access in accesses:
            dispatcher.dispatch(dispatcher.after, access, result)
        return result

    def _fetch(self, accesses: Sequence[CheckedAccess]) -> None:
        """Copy the memory that accesses are about to touch; see `LazyCopies`."""
        copies = self._dispatcher.run.copies
        for access in accesses if copies else ():
            fetch(copies, access)

    def _kept_inside(self, access: CheckedAccess) -> CheckedAccess:
        leaving = self._dispatcher.bounds.leaving(access)
        if leaving is None:
            return access
        self._dispatcher.dispatch(
            self._dispatcher.outside_tensor, access, leaving.lanes, leaving.view
        )
        if leaving.inside is access.request:
            return access
        if isinstance(self._inner, WatchedMemory):
            self._inner.strayed = True
        return replace(access, request=leaving.inside, original=access.request)

    def _by_address(
        self, request: MemoryAccess, elements: Elements, access_to: Callable[..., CheckedAccess]
    ) -> tuple[MemoryAccess, list[CheckedAccess]]:
        """Return the access without elements outside all storages, and its part in each storage."""
        parts, wild = elements.parts(request)
        accesses = [
            access_to(
                replace(request, buffer=part.buffer, offsets=part.offsets, mask=part.mask),
                part.buffer,
            )
            for part in parts
        ]
        if not isinstance(request, Load):
            for part in parts:
                self._dispatcher.keep(part.buffer.tensor)
        if wild is None or not wild.any():
            return request, accesses
        self._dispatcher.dispatch(
            self._dispatcher.outside_memory, access_to(request, nowhere(elements)), wild, elements
        )
        return without(request, wild), accesses


def nowhere(elements: Elements) -> Buffer:
    """Return a buffer without elements, for addresses that are not in any storage."""
    return Buffer("", torch.empty(0, dtype=torch.uint8), numpy.dtype(f"u{elements.itemsize}"))


class _Debugging:
    """Replaces `runtime` in generated code: a false assertion is a finding and stops nothing."""

    show = staticmethod(runtime.show)

    @staticmethod
    def check(condition: Value, message: str, rank: int, active: Active = None) -> None:
        """Do nothing: the detector that observes assertions has already been called."""


# In the generated code


def emit_value_events(detectors: Sequence[type[Detector]], emit: Emitter, op: Operation) -> None:
    """Add the report of an operation's values if a detector observes it; see `AfterOperation`."""
    if has(op, DotLike):
        counted = work.count(op)
        assert counted is not None
        emit.evaluate(None, observer.multiplied(counted[1] // MATMUL))
    if not any(_observes(kind, op) for kind in detectors):
        return
    operation = emit.constant(op, hint="operation")
    operands = tuple(emit[operand] for operand in op.operands)
    unused = isinstance(op, tt.AtomicRMWOp) and not op.result.uses
    results = () if unused else tuple(emit[result] for result in op.results)
    active = emit.active_programs()
    emit.evaluate(None, observer.computed(operation, operands, results, active))


def _observes(detector: type[Detector], op: Operation) -> bool:
    return detector.observes(op) and (detector.observes_elements or not in_region_of_elements(op))


def checked_code(
    kernel: Any, plain: ProgramCode, detectors: Sequence[type[Detector]], *, preempts: bool = False
) -> ProgramCode:
    """Return the code that these detectors observe, made once from a plain run's operations.

    Args:
        preempts: whether programs are preempted at the kernel's switch points, of which there must
            be one.
    """

    def make() -> ProgramCode:
        after: AfterOperation = functools.partial(emit_value_events, tuple(detectors))
        if preempts:
            after = functools.partial(_may_switch, after, switches(plain))
        return program_of_module(plain.module, kernel, after, preempts=preempts)

    return plain.once((checked_code, tuple(detectors), preempts), make)


def switches(code: ProgramCode) -> frozenset[Operation]:
    """Return the switch points of a kernel."""
    return switch_points(entry_of(code.module))


def _may_switch(
    before: AfterOperation, points: Set[Operation], emit: Emitter, op: Operation
) -> None:
    before(emit, op)
    if op in points:
        emit.may_switch()


MOST_PREEMPTED = 64
"""The most programs of a launch that are preempted: each runs alone, and slowly."""


@dataclass(frozen=True)
class Schedule:
    """A way to run a launch.

    Attributes:
        words: how its programs run, for messages: "backwards".
        options: the order of the programs.
        preemption: how programs are preempted at the kernel's switch points, or how many are alive
            at a time; None if neither.
    """

    words: str
    options: RunOptions = DEFAULT
    preemption: Preemption | Residency | None = None

    @property
    def preempts(self) -> bool:
        """Whether programs are preempted."""
        return isinstance(self.preemption, Preemption)


IN_ORDER = Schedule("in the order of their ids")
BACKWARDS = Schedule("backwards", RunOptions(order="reversed"))
_ORDERS = (
    BACKWARDS,
    Schedule("in a shuffled order (seed 1)", RunOptions(order="shuffled", seed=1)),
    Schedule("in a shuffled order (seed 2)", RunOptions(order="shuffled", seed=2)),
)
_IN_TURNS = "in turns, each up to its next atomic or poll"
_PREEMPTED = (
    Schedule(_IN_TURNS, preemption=Preemption("rounds")),
    Schedule(f"{_IN_TURNS}, in both directions", preemption=Preemption("there and back")),
    Schedule(
        f"{_IN_TURNS}, in both directions from the last",
        BACKWARDS.options,
        preemption=Preemption("there and back"),
    ),
    Schedule(f"{_IN_TURNS}, in random order (seed 1)", preemption=Preemption(2, seed=1)),
    Schedule(f"{_IN_TURNS}, in long random turns (seed 2)", preemption=Preemption(32, seed=2)),
)


def other_schedules(run: CheckedRun, shared: bool) -> Iterator[Schedule]:
    """Yield the schedules in which a launch may behave differently than in the order of its ids.

    Args:
        run: the launch, run in the order of its programs' ids.
        shared: whether its programs read what others left in memory.
    """
    if not shared and not memory_effects(run.code).order_shows:
        return
    yield from _ORDERS
    most = most_resident(run.target, int(run.call.options.get("num_warps", 4)))
    if most is not None and run.programs > most and run.code.watched is not None:
        words = f"at most {most:,} at a time, as many as fit on {device_name(run.target)}"
        yield Schedule(words, preemption=Residency(most))
    if run.programs <= MOST_PREEMPTED and learns(run, shared) and switches(run.code):
        yield from _PREEMPTED


def learns(run: CheckedRun, shared: bool) -> bool:
    """Return whether a program may depend on others: unless they only add, by unused atomics."""
    return shared or _uses_results_of_atomics(run.code)


@per_code
def _uses_results_of_atomics(code: ProgramCode) -> bool:
    return any(
        has(op, Atomic) and any(result.uses for result in op.results) for op in code.module.walk()
    )


_Kind = TypeVar("_Kind", bound=Detector)


@dataclass(frozen=True)
class CheckSession:
    """Runs the launch of a check.

    Attributes:
        launch: the launch with the caller's arguments, which no run changes.
        guards: the detectors that observe every further run; see `Detector.guards`.
        work: of all runs so far.
    """

    launch: CheckedRun
    guards: tuple[type[Detector], ...] = ()
    work: Work = field(default_factory=Work)

    def run_detectors(
        self,
        kinds: Sequence[type[Detector]],
        failures: Failures = RAISED,
        earlier: Sequence[Any] = (),
    ) -> tuple[list[Detector], Finding | None]:
        """Run the launch with detectors, which observe accesses and values.

        Args:
            earlier: what the detectors meet beside each other: detectors of an earlier run.

        Returns:
            The detectors without those that failed; and the finding that stopped the run, if it
            would not have ended.
        """
        kinds = self._that_observe(kinds, failures)
        code = self._code(kinds)
        run = self._new_run(code)
        detectors: list[Detector] = []
        for kind in kinds:
            with failures.kept(kind):
                if may_hear(code, kind) and kind.concerns(run):
                    detectors.append(kind(run))
        for detector in implementing("meet", detectors):
            with failures.kept(type(detector)):
                detector.meet([*earlier, *detectors])
        stopped = None
        try:
            self._execute(run, detectors, failures=failures)
        except Stopped as stop:
            stopped = stop.finding
        for detector in implementing("end", detectors) if stopped is None else ():
            with failures.kept(type(detector)):
                detector.end()
        return [kept for kept in detectors if type(kept) not in failures], stopped

    def run_program(self, kind: type[_Kind], program: int) -> _Kind:
        """Run one program, by its linear id, with a detector that observes accesses and values.
        Raises KernelFault: as `kernellab.run`.
        """
        code = self._code((kind,))
        run = self._new_run(code)
        detector = kind(run)
        dispatcher = EventDispatcher(run, (detector,))
        try:
            launch_sampled(run.kernel, run.grid, run.call, code, dispatcher, (program,))
        finally:
            dispatcher.put_back()
        return detector

    def repeat(
        self,
        detectors: Callable[[CheckedRun], Sequence[Detector]] = lambda _new_run: (),
        schedule: Schedule = IN_ORDER,
        *,
        one_by_one: bool = False,
        change: Change | None = None,
    ) -> CheckedRun:
        """Run the launch again, possibly in another way.

        Args:
            detectors: makes the detectors, which observe accesses only.
            one_by_one: whether programs run one after the other, without batches.

        Returns:
            The run, with its tensors as it left them.

        Raises:
            Stopped: it would not have ended.
            KernelFault: as `kernellab.run`.
        """
        code = self._code(self.guards, preempts=schedule.preempts)
        run = self._new_run(replace(code, batch=1) if one_by_one else code)
        guards = [kind(run) for kind in self.guards]
        self._execute(run, [*guards, *detectors(run)], schedule, change)
        return run

    def _that_observe(
        self, kinds: Sequence[type[Detector]], failures: Failures
    ) -> Sequence[type[Detector]]:
        with suppress(Exception):  # the loop below finds the detector that fails
            self._code(kinds)
            return kinds
        for kind in kinds:
            with failures.kept(kind):
                self._code((kind,))
        return [kind for kind in kinds if kind not in failures]

    def _code(self, kinds: Sequence[type[Detector]], *, preempts: bool = False) -> ProgramCode:
        return checked_code(self.launch.kernel, self.launch.code, kinds, preempts=preempts)

    def _new_run(self, code: ProgramCode) -> CheckedRun:
        copies = LazyCopies(self._kept)
        call = replace(self.launch.call, values=copied(self.launch.call.values, copies.copy))
        return replace(self.launch, call=call, code=code, copies=copies)

    @cached_property
    def _kept(self) -> frozenset[int]:
        return unchanged_storages(self.launch)

    def _execute(
        self,
        run: CheckedRun,
        detectors: Sequence[Detector],
        schedule: Schedule = IN_ORDER,
        change: Change | None = None,
        failures: Failures = RAISED,
    ) -> None:
        dispatcher = EventDispatcher(run, detectors, change, failures, self.work)
        try:
            launch_observed(
                run.kernel,
                run.grid,
                run.call,
                run.code,
                dispatcher,
                schedule.options,
                schedule.preemption,
            )
        except Deadlock as deadlock:
            raise Stopped(_deadlock_finding(deadlock)) from deadlock
        except (EndlessWait, ExtraArrival, InvalidBarrier, MissingWait) as fault:
            raise Stopped(_barrier_finding(fault, run.kernel.is_gluon())) from fault
        finally:
            dispatcher.put_back()


def _deadlock_finding(deadlock: Deadlock) -> Finding:
    return Finding.of(
        kind="deadlock",
        message=deadlock.problem.removeprefix("deadlock: "),
        advice=deadlock.advice,
        position=deadlock.position,
        programs=deadlock.programs[:LISTED_PROGRAMS],
        program_count=len(deadlock.programs),
    )


def _barrier_finding(fault: KernelFault, is_gluon: bool) -> Finding:
    """Return the finding for a use of a barrier in shared memory that stops a run."""
    diagnostic = fault.diagnostic
    compiled = "The compiler placed the barriers of this kernel: report it to Triton."
    return Finding.of(
        kind=diagnostic.kind,
        message=diagnostic.what,
        advice=diagnostic.advice if is_gluon else compiled,
        position=diagnostic.position,
        programs=fault.programs,
        program_count=len(fault.programs),
    )
