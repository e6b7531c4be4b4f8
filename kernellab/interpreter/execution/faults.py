"""A fault of a running kernel, reported in the user's terms:
kernel line, program, lane, argument, index.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence

from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import (
    Deadlock,
    KernelFault,
    KernelLabError,
    Occurrence,
    OutOfBounds,
    SourcePosition,
    WaitingProgram,
    frame_at,
)
from kernellab.interpreter.codegen.code_positions import located_at
from kernellab.interpreter.execution.bounds_advice import Extents, bounds_advice
from kernellab.interpreter.execution.coroutines import Waiting
from kernellab.interpreter.execution.device_asserts import FailedAssertion
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.lane_fault import LaneFault
from kernellab.interpreter.execution.lane_values import LaneValues
from kernellab.interpreter.execution.program import HIDDEN_FILE, ProgramCode
from kernellab.interpreter.execution.provenance import calls_at, index_provenance
from kernellab.interpreter.execution.scheduler import DeadlockDetected
from kernellab.interpreter.memory.address_space import WildAddress
from kernellab.interpreter.memory.buffers import OutOfBoundsAccess, ReadOnlyStore
from kernellab.interpreter.memory.mbarriers import PhaseNeverCompletes
from kernellab.interpreter.memory.shared_memory import BufferOutsideAllocation
from kernellab.interpreter.numerics.tiles import EndlessRange, IndexOutsideTile

Fault = LaneFault | ReadOnlyStore | BufferOutsideAllocation | PhaseNeverCompletes | DeadlockDetected
FAULTS = (LaneFault, ReadOnlyStore, BufferOutsideAllocation, PhaseNeverCompletes, DeadlockDetected)
"""What running generated code raises."""


def explain(
    fault: Fault, programs: Programs, grid: Grid, code: ProgramCode, call: BoundCall
) -> KernelLabError:
    """The fault as an error on the kernel's line, or on that of the helper it called,
    whose traceback ends there.
    """
    entries = [e for e in _entries(fault.__traceback__) if e.tb_frame.f_code in code.codes]
    calls = calls_at(entries[-1].tb_frame.f_code, entries[-1].tb_lasti, code.locations)
    where: Occurrence = {}
    if isinstance(fault, LaneFault | BufferOutsideAllocation | PhaseNeverCompletes):
        where = {"program": programs.id(fault.program), "grid": grid}
    if isinstance(fault, LaneFault):
        where |= {
            "lane": fault.place,
            "count": fault.count,
            "more": (programs.count if fault.programs is None else fault.programs) - 1,
            "values": index_provenance(
                entries[-1].tb_frame, entries[-1].tb_lasti, fault.place, fault.program, code, call
            ),
        }
    fix = ""
    if isinstance(fault, OutOfBoundsAccess):
        fix = _fix(fault, entries[-1], code, call)
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
    """The error that a fault of the code is; which makes the words."""
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
            buffers = f"shared memory that has buffers 0 to {fault.extent - 1}"
            return KernelFault(f"buffer {fault.index} of {buffers}", position=position, **where)
        case PhaseNeverCompletes():
            what = (
                f"a wait that never ends: phase {fault.phase} of the barrier is missing "
                f"{fault.arrivals} arrivals and {fault.bytes:,} bytes, and nothing is under way "
                "that could bring them"
            )
            return KernelFault(what, position=position, **where)
        case DeadlockDetected():
            return Deadlock(
                [_waiting(waiting, code) for waiting in fault.waiting],
                grid=grid,
                silent_rounds=fault.silent_rounds,
                proven=fault.proven,
                position=position,
            )
    raise AssertionError(f"no words for {fault!r}")


def _fix(
    fault: OutOfBoundsAccess, entry: types.TracebackType, code: ProgramCode, call: BoundCall
) -> str:
    """What would bound the access, "" where that is not known."""
    operation = located_at(entry.tb_frame.f_code, entry.tb_lasti, code.operations)
    if operation is None:
        return ""
    values = LaneValues(entry.tb_frame, fault.program, code, call)
    extents = Extents.of(fault.buffer)
    advice = bounds_advice(operation, fault.place, values, extents, fault.index)
    return "" if advice is None else f"{advice.facts} {advice.change}".rstrip()


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
    """Return an entry of the kernel's; if its file was edited since the import, one in the lines
    that ran, without the frame's values.
    """
    code = entry.tb_frame.f_code
    position = SourcePosition(code.co_filename, entry.tb_lineno)
    return frame_at(position, code.co_name) if position.notice else entry


def _traceback(
    entries: Sequence[types.TracebackType], calls: Sequence[SourcePosition]
) -> types.TracebackType | None:
    """The kernel's own frames, then one for each helper function that has none:
    no frame of the interpreter.
    """
    result: types.TracebackType | None = None
    own = [
        _as_compiled(entry) for entry in entries if entry.tb_frame.f_code.co_filename != HIDDEN_FILE
    ]
    frames = [*own, *(frame_at(position) for position in (calls[1:] if own else calls))]
    for entry in reversed(frames):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result
