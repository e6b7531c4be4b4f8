"""The faults of a running kernel: reported in the user's terms (kernel line, program, lane,
argument, index), the first of a batch, or all of a run that continues.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy
from xdsl.ir import Operation

from kernellab.common.text import counted
from kernellab.compiler.binding import BoundCall
from kernellab.errors import (
    Deadlock,
    EndlessWait,
    ExtraArrival,
    InvalidBarrier,
    KernelFault,
    KernelLabError,
    MissingWait,
    Occurrence,
    OutOfBounds,
    SourcePosition,
    WaitingProgram,
    frame_at,
    source_line,
)
from kernellab.interpreter.codegen.code_writer import is_among, located_at
from kernellab.interpreter.codegen.indices import form_of, memory_name, parts_of
from kernellab.interpreter.execution.bounds_advice import (
    CHECK_TRIES,
    Extents,
    LaneValues,
    bounds_advice,
    overflow_of,
)
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.program import HIDDEN_FILE, ProgramCode, memory_effects
from kernellab.interpreter.execution.runtime import FailedAssertion
from kernellab.interpreter.execution.scheduler import DeadlockDetected, Waiting
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import Elements, WildAddress
from kernellab.interpreter.memory.asynchrony import NeverWaitedFor
from kernellab.interpreter.memory.buffers import Buffer, OutOfBoundsAccess, ReadOnlyStore
from kernellab.interpreter.memory.global_memory import Memory, MemoryAccess, MemoryLayer
from kernellab.interpreter.memory.observers import DescriptorsThrough, WatchedMemory
from kernellab.interpreter.memory.shared_memory import (
    BufferOutsideAllocation,
    ExtraArrivals,
    NoBarrier,
    PhaseNeverCompletes,
)
from kernellab.interpreter.tiles import EndlessRange, IndexOutsideTile, LaneFault
from kernellab.ir import tt, ttng
from kernellab.ir.operations import Location, locate

# What is behind something that happens in a kernel: its line and the calls that lead there, and
# the values that made an index.


_MOST_VALUES = 8
"""How many of the values that made an index are reported, the nearest to it."""


def calls_at(
    code: types.CodeType, instruction: int, locations: Sequence[Location]
) -> list[SourcePosition]:
    """Return the kernel's position at an instruction of its generated code, and in turn that of
    each helper function that was inlined there.
    """
    location = located_at(code, instruction, locations)
    return [] if location is None else list(reversed(location.frames))


def index_provenance(
    frame: types.FrameType,
    instruction: int,
    place: tuple[int, ...],
    program: int,
    code: ProgramCode,
    call: BoundCall,
) -> dict[str, Any]:
    """The values that made the index of an access (of an assertion, the condition),
    by the kernel's names.

    Args:
        frame, instruction: the position in the generated code.
        place: the lane.
        program: position of its program in the batch.
    """
    operation = located_at(frame.f_code, instruction, code.operations)
    if operation is None:
        return {}
    calls = calls_at(frame.f_code, instruction, code.locations)
    variables = frame.f_locals
    constants: dict[str, Any] = {}
    lines = [position.line for position in calls[:1]]
    for part in itertools.islice(parts_of(operation, place), _MOST_VALUES):
        value = part.read(code.variables, variables, program)
        if value is None and part.is_argument:
            value = call.values[part.name]
        constants.setdefault(part.name, value)
        lines += [] if part.line is None else [part.line]
    constants |= _constants_on(lines, calls, call)
    return {name: value for name, value in constants.items() if value is not None}


def _constants_on(
    lines: Sequence[int], calls: Sequence[SourcePosition], call: BoundCall
) -> dict[str, Any]:
    """Return the compiled-in numbers whose names are on these lines, without masks."""
    texts = [source_line(calls[0].file, line).partition("mask=")[0] for line in lines]
    words = set(re.findall(r"\w+", " ".join(texts)))
    return {
        name: call.values[name]
        for name, type in call.specialization.signature.items()
        if type == "constexpr" and name in words and isinstance(call.values[name], int | float)
    }


# A fault, reported in the user's terms: kernel line, program, lane, argument, index.


Fault = (
    LaneFault
    | ReadOnlyStore
    | BufferOutsideAllocation
    | ExtraArrivals
    | NeverWaitedFor
    | NoBarrier
    | PhaseNeverCompletes
    | DeadlockDetected
)
"""What running generated code raises."""
FAULTS: tuple[type[Fault], ...] = get_args(Fault)


def explain(
    fault: Fault, programs: Programs, grid: Grid, code: ProgramCode, call: BoundCall
) -> KernelLabError:
    """The fault as an error on the kernel's line, or on that of the helper that it called."""
    entries = [e for e in _entries(fault.__traceback__) if e.tb_frame.f_code in code.codes]
    here = entries[-1].tb_frame.f_code, entries[-1].tb_lasti
    if isinstance(fault, ExtraArrivals) and fault.place is not None:
        here = fault.place
    calls = calls_at(*here, code.locations)
    where: Occurrence = {}
    if not isinstance(fault, ReadOnlyStore | DeadlockDetected):
        where = {"program": programs.id(fault.program), "grid": grid}
    if isinstance(fault, LaneFault):
        where |= {
            "lane": fault.place,
            "count": fault.count,
            "more": (programs.count if fault.programs is None else fault.programs) - 1,
            "values": index_provenance(
                entries[-1].tb_frame, here[1], fault.place, fault.program, code, call
            ),
        }
    fix = ""
    if isinstance(fault, OutOfBoundsAccess):
        fix = _fix(fault, entries[-1], code, call)
    if isinstance(fault, PhaseNeverCompletes):
        fault.place = here
    error = _error(fault, calls[-1] if calls else None, grid, code, where, fix)
    return error.with_traceback(_traceback(entries, calls))


def _error(
    fault: Fault,
    position: SourcePosition | None,
    grid: Grid,
    code: ProgramCode,
    where: Occurrence,
    fix: str,
) -> KernelFault:
    match fault:
        case OutOfBoundsAccess():
            return _out_of_bounds(fault, position, where, fix)
        case WildAddress():
            return OutOfBounds(
                action=fault.action,
                dtype=fault.dtype,
                address=fault.address,
                reason=fault.reason,
                position=position,
                **where,
            )
        case IndexOutsideTile():
            elements = f"a tile whose elements are 0 to {fault.extent - 1}"
            what = f"tl.gather takes element {fault.index} of {elements}"
            return KernelFault(what, position=position, again="outside", **where)
        case EndlessRange():
            return KernelFault(
                f"range({fault.lower}, {fault.upper}, {fault.step}) never ends: each iteration "
                f"adds {fault.step}, and the loop goes on below {fault.upper}",
                advice="Pass a step of at least 1.",
                position=position,
                again="the loop never ends",
                **where,
            )
        case FailedAssertion():
            return KernelFault(
                f"device_assert failed: {fault.message}",
                position=position,
                again="the condition is false",
                made="condition",
                **where,
            )
        case ReadOnlyStore():
            name = fault.buffer.name
            return KernelFault(
                f"store into {name!r}, a NumPy array that is read-only",
                advice=f"Pass {name}.copy(), or make it writable: array.flags.writeable = True.",
                position=position,
                **where,
            )
        case BufferOutsideAllocation():
            buffers = f"this shared memory has buffers 0 to {fault.extent - 1}"
            what = f"buffer {fault.index} does not exist: {buffers}"
            return KernelFault(what, position=position, **where)
        case ExtraArrivals():
            arrivals = counted(fault.count, "arrival")
            what = f"the barrier counts {arrivals} in each phase, and this arrival exceeds it"
            advice = (
                "Wait for the previous phase first, or raise the count: mbarrier.expect and "
                "tcgen05_commit count as arrivals."
            )
            return ExtraArrival(what, advice=advice, position=position, **where)
        case NoBarrier():
            what = "the memory holds no barrier: it is not initialized, or was invalidated before"
            if fault.in_use:
                what = "the barrier is invalidated while an operation will still arrive there"
            elif fault.again:
                what = "the barrier is initialized again, but was not invalidated before"
            return InvalidBarrier(what, position=position, **where)
        case NeverWaitedFor():
            return MissingWait(fault.what, advice=fault.advice, position=position, **where)
        case PhaseNeverCompletes():
            what = (
                f"this wait never ends: {_phase(fault, code)}, and no operation in flight can "
                "complete it"
            )
            for other in fault.others:
                what += f"; another group of warps waits{_line_of(other, code)}: "
                what += _phase(other, code)
            advice = (
                "A phase completes when it has received the number of arrivals passed to "
                "mbarrier.init (mbarrier.expect counts as one) and all expected bytes. Phases "
                "alternate between 0 and 1. Add what is missing, or wait for the other phase."
            )
            return EndlessWait(what, advice=advice, position=position, **where)
        case DeadlockDetected():
            return Deadlock(
                [_waiting(waiting, code) for waiting in fault.waiting],
                grid=grid,
                silent_rounds=fault.silent_rounds,
                proven=fault.proven,
                position=position,
            )
    raise AssertionError(f"no words for {fault!r}")


def _phase(fault: PhaseNeverCompletes, code: ProgramCode) -> str:
    missing = [counted(fault.arrivals, "arrival")] if fault.arrivals else []
    missing += [counted(fault.bytes, "byte")] if fault.bytes > 0 else []
    states = [f"is missing {' and '.join(missing)}"] if missing else []
    if fault.bytes < 0:
        states.append(f"has {counted(-fault.bytes, 'byte')} that were not expected")
    wait = None if fault.place is None else located_at(*fault.place, code.operations)
    name = memory_name(wait.barrier) if isinstance(wait, ttng.WaitBarrierOp) else None
    barrier = f"`{name}`" if name else "the barrier"
    return f"phase {fault.phase} of {barrier} {' and '.join(states)}"


def _line_of(fault: PhaseNeverCompletes, code: ProgramCode) -> str:
    calls = [] if fault.place is None else calls_at(*fault.place, code.locations)
    return f" on line {calls[-1].line}" if calls else ""


def _fix(
    fault: OutOfBoundsAccess, entry: types.TracebackType, code: ProgramCode, call: BoundCall
) -> str:
    """The tensor that the access leaves, and the missing bound; "" if it is not known. No change is
    advised, since none is tried here.
    """
    operation = located_at(entry.tb_frame.f_code, entry.tb_lasti, code.operations)
    if operation is None:
        return ""
    values = LaneValues(entry.tb_frame, fault.program, code, call)
    extents = Extents.of(fault.buffer)
    if overflow := overflow_of(operation, fault.place, values):
        return overflow
    advice = bounds_advice(operation, fault.place, values, extents, fault.index)
    if form_of(operation) == "block pointer":  # which has no mask, and its shape's coordinates
        return f"{_BLOCK_POINTER} {CHECK_TRIES}"
    if advice is None:
        return ""
    tried = CHECK_TRIES if advice.change else ""
    return " ".join(filter(None, [advice.facts, advice.missing, tried]))


_BLOCK_POINTER = (
    "A block pointer stays inside its shape in the dimensions of boundary_check=, and inside the "
    "tensor if its base, shape and strides are the tensor's."
)


def _out_of_bounds(
    fault: OutOfBoundsAccess, position: SourcePosition | None, where: Occurrence, fix: str
) -> OutOfBounds:
    buffer = fault.buffer
    return OutOfBounds(
        action=fault.action,
        dtype=str(buffer.tensor.dtype).removeprefix("torch."),
        tensor=buffer.name,
        index=fault.index,
        shape=tuple(buffer.tensor.shape),
        strides=tuple(buffer.tensor.stride()),
        bounds=buffer.bounds,
        held=range(buffer.first - buffer.origin, buffer.stop - buffer.origin),
        fix=fix,
        position=position,
        **where,
    )


def _waiting(waiting: Waiting, code: ProgramCode) -> WaitingProgram:
    calls = calls_at(waiting.code, waiting.instruction, code.locations)
    reading = "" if waiting.reading is None else str(waiting.reading)
    return WaitingProgram(waiting.programs.id(0), calls[-1] if calls else None, reading)


def _entries(traceback: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _as_compiled(entry: types.TracebackType) -> types.TracebackType:
    """Return an entry of the kernel; if its file was edited since the import, one in the lines
    that ran, without the frame's values.
    """
    code = entry.tb_frame.f_code
    position = SourcePosition(code.co_filename, entry.tb_lineno)
    return frame_at(position, code.co_name) if position.notice else entry


def _traceback(
    entries: Sequence[types.TracebackType], calls: Sequence[SourcePosition]
) -> types.TracebackType | None:
    """The kernel's own frames, then those of helpers without one; no frame of the interpreter."""
    result: types.TracebackType | None = None
    own = [
        _as_compiled(entry) for entry in entries if entry.tb_frame.f_code.co_filename != HIDDEN_FILE
    ]
    frames = [*own, *(frame_at(position) for position in (calls[1:] if own else calls))]
    for entry in reversed(frames):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


# The first fault of a batch in the order of its programs.
#
# Programs of a batch run in step: the first line that is at fault in any of them stops all, and
# an earlier program may be at fault on a later line. If programs ran one after the other, that
# fault would be reported.


def first_in_order(
    fault: Fault,
    programs: Programs,
    run_batch: Callable[[Programs], Any],
    *,
    code: ProgramCode,
    arguments: Sequence[Any],
) -> tuple[Fault, Programs]:
    """The fault that the programs of a batch would have stopped at one after the other, and the
    programs that it counts: those before the one at fault run again, where running twice is as
    good as running once.
    """
    repeats: bool | None = None
    while isinstance(fault, LaneFault) and fault.program > 0:
        repeats = _may_repeat(code, arguments) if repeats is None else repeats
        if not repeats:
            break
        earlier = programs.before(fault.program)
        try:
            run_batch(earlier)
        except FAULTS as other:
            if isinstance(other, LaneFault):
                other.programs = _at_fault(other, earlier) + _at_fault(fault, programs)
            fault, programs = other, earlier
        else:
            break
    return fault, programs


def _at_fault(fault: LaneFault, programs: Programs) -> int:
    return programs.count - fault.program if fault.programs is None else fault.programs


def _may_repeat(code: ProgramCode, arguments: Sequence[Any]) -> bool:
    """Whether a program has no atomics, prints nothing, and reads nothing that it writes."""
    effects = memory_effects(code)
    if code.watched is not None or effects.stored is None or effects.loaded is None:
        return False
    if effects.updated is None or effects.updated:
        return False
    if any(isinstance(op, tt.PrintOp) for op in code.module.walk()):
        return False
    read, written = (
        {_storage(arguments[number]) for number in numbers}
        for numbers in (effects.loaded, effects.stored)
    )
    return not read & written


def _storage(argument: Any) -> int:
    buffer = argument if isinstance(argument, Buffer) else argument.buffer
    return int(buffer.tensor.untyped_storage().data_ptr())


# Runs that go on after an access out of bounds, as a GPU often does, and collect the faults.


MOST_COLLECTED = 300
"""The most faults that are kept; further ones are only counted."""

GARBAGE_BYTE = 0xA5
"""Integers that are read out of bounds consist of it: they are odd and, if signed, negative, so
that a loop that they bound ends."""


@dataclasses.dataclass
class CollectedFault:
    """An access of a kernel that left its memory, once for each line and argument.

    Attributes:
        error: the first time that it happened: an OutOfBounds with the line, program and index.
        kernel: the kernel's name.
        count: how many elements left the memory, in all launches.
    """

    error: KernelLabError
    kernel: str
    count: int = 0

    def __str__(self) -> str:
        more = f"\n{self.count:,} elements in all." if self.count > 1 else ""
        return f"{self.kernel}: {self.error}{more}"


class CollectedFaults(Sequence[CollectedFault]):
    """The faults that launches continued after, in the order in which they happened first.

    Attributes:
        left_out: how many elements belong to faults that are not kept, because there are too many.
    """

    def __init__(self) -> None:
        self._faults: dict[Hashable, CollectedFault] = {}
        self.left_out = 0

    def __getitem__(self, index: Any) -> Any:
        return list(self._faults.values())[index]

    def __len__(self) -> int:
        return len(self._faults)

    def add(
        self, key: Hashable, kernel: str, count: int, explain: Callable[[], KernelLabError]
    ) -> None:
        """Count a fault; `explain` makes the error if it is the first with this key."""
        if key not in self._faults:
            if len(self._faults) >= MOST_COLLECTED:
                self.left_out += count
                return
            self._faults[key] = CollectedFault(explain(), kernel)
        self._faults[key].count += count

    def __str__(self) -> str:
        if not self:
            return "No access was out of bounds."
        title = f"Launches went on after {counted(len(self), 'fault')}:"
        rest = [f"{self.left_out:,} more elements, of further faults."] if self.left_out else []
        return "\n\n".join([title, *map(str, self), *rest])


class FaultObserver:
    """Lets the accesses of a run continue without the elements that are out of bounds; see
    `observers.RunObserver`.

    Attributes:
        operations: the operations of the code, by location.
        programs: the batch that runs.
    """

    operations: Sequence[Operation] = ()
    programs: Programs

    def __init__(
        self,
        kernel: str,
        code: ProgramCode,
        faults: CollectedFaults,
        explain: Callable[[Any, Programs], KernelLabError],
    ) -> None:
        """Collect what happens in `faults`; `explain` makes an error of a fault of a batch."""
        self._kernel = kernel
        self._code = code
        self._faults = faults
        self._explain = explain

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """See `observers.RunObserver.modules`."""
        tolerant = _TolerantMemory(memory, self)
        return {"memory": tolerant, "descriptors": DescriptorsThrough(tolerant)}

    def collect(
        self, fault: OutOfBoundsAccess | WildAddress, frame: types.FrameType | None
    ) -> None:
        """Record a fault of an access that the generated code among the callers makes."""
        traceback = fault.__traceback__
        operation: Operation | None = None
        while frame is not None:
            if is_among(frame.f_code, self._code.codes):
                if operation is None:
                    operation = located_at(frame.f_code, frame.f_lasti, self.operations)
                line = frame.f_lineno or 1
                traceback = types.TracebackType(traceback, frame, frame.f_lasti, line)
            frame = frame.f_back
        name = fault.buffer.name if isinstance(fault, OutOfBoundsAccess) else ""

        def explain() -> KernelLabError:
            return self._explain(fault.with_traceback(traceback), self.programs)

        frames = () if operation is None else locate(operation.location).frames
        key = self._kernel, frames[:1], name, fault.action
        self._faults.add(key, self._kernel, fault.count, explain)


class _TolerantMemory(MemoryLayer):
    """Replaces the module `memory` in generated code: where an access is out of bounds, reads give
    garbage and writes are dropped.
    """

    def __init__(self, inner: Memory, observer: FaultObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: MemoryAccess) -> Any:
        """Make the access; if it leaves its memory, without the elements that do."""
        try:
            return access.made_by(self._inner)
        except (OutOfBoundsAccess, WildAddress) as fault:
            self._observer.collect(fault, sys._getframe(2))
        if isinstance(self._inner, WatchedMemory):
            self._inner.strayed = True
        outside = _outside(access)
        inside = ~outside if access.mask is None else numpy.asarray(access.mask) & ~outside
        result = dataclasses.replace(access, mask=inside).made_by(self._inner)
        if result is None:
            return None
        result = numpy.asarray(result)
        return numpy.where(outside, garbage(result.dtype), result)


def _outside(access: MemoryAccess) -> numpy.ndarray:
    """Return which enabled elements are out of bounds, programs first if they differ."""
    if isinstance(access.buffer, Buffer):
        index = numpy.asarray(access.offsets) + access.buffer.origin
        outside = access.buffer.is_outside(index)
        active = None if access.is_uniform else access.active
        on = global_memory.lanes_on(access.mask, active, access.rank)
        return outside if on is None else numpy.asarray(outside & on)
    assert isinstance(access.buffer, Elements)
    _, wild = access.buffer.parts(access)
    return numpy.zeros((1,) * access.rank, numpy.bool_) if wild is None else wild


def garbage(dtype: numpy.dtype) -> Any:
    """Return what a read out of bounds gives: NaN, True, or an integer of `GARBAGE_BYTE`s."""
    if dtype.kind == "b":
        return numpy.True_
    if dtype.kind in "iu":
        return numpy.frombuffer(bytes([GARBAGE_BYTE]) * dtype.itemsize, dtype)[0]
    return numpy.asarray(numpy.nan).astype(dtype)[()]
