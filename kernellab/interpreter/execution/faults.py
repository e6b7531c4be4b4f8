"""A fault of a running kernel, told in the user's terms:
kernel line, program, lane, argument, index.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence

from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import (
    Deadlock,
    KernelFault,
    KernelLabError,
    OutOfBounds,
    SourcePosition,
    frame_at,
)
from kernellab.interpreter.execution.device_asserts import FailedAssertion
from kernellab.interpreter.execution.grid import Grid, Programs
from kernellab.interpreter.execution.lane_fault import LaneFault
from kernellab.interpreter.execution.program import HIDDEN_FILE, ProgramCode
from kernellab.interpreter.execution.provenance import calls_at, enumerated, index_provenance
from kernellab.interpreter.execution.scheduler import DeadlockDetected, Waiting
from kernellab.interpreter.memory.address_space import WildAddress
from kernellab.interpreter.memory.global_memory import OutOfBoundsAccess, ReadOnlyStore
from kernellab.interpreter.memory.mbarriers import PhaseNeverCompletes
from kernellab.interpreter.memory.shared_memory import BufferOutsideAllocation
from kernellab.interpreter.numerics.tiles import IndexOutsideTile

Fault = LaneFault | ReadOnlyStore | BufferOutsideAllocation | PhaseNeverCompletes | DeadlockDetected
FAULTS = (LaneFault, ReadOnlyStore, BufferOutsideAllocation, PhaseNeverCompletes, DeadlockDetected)
"""What running generated code raises."""

_LISTED = 8
"""So many programs of a deadlock are listed."""


def explain(
    fault: Fault, programs: Programs, grid: Grid, code: ProgramCode, call: BoundCall
) -> KernelLabError:
    """The fault as an error on the kernel's line, or on that of the helper it called,
    whose traceback ends there.
    """
    entries = [e for e in _entries(fault.__traceback__) if e.tb_frame.f_code in code.codes]
    calls = calls_at(entries[-1].tb_frame.f_code, entries[-1].tb_lasti, code.locations)
    kind, problem, advice = _format_fault(fault, grid, code)
    if isinstance(fault, LaneFault):
        problem += _where(fault.program, fault.place, programs, grid) + _others(fault)
        problem += _made_of(fault, entries[-1], code, call)
    elif isinstance(fault, BufferOutsideAllocation | PhaseNeverCompletes):
        problem += _where(fault.program, (), programs, grid)
    error = kind(problem, position=calls[-1] if calls else None, advice=advice)
    error.programs = _programs_of(fault, programs)
    return error.with_traceback(_traceback(entries, calls))


def _programs_of(fault: Fault, programs: Programs) -> tuple[tuple[int, int, int], ...]:
    """The ids of the programs that the error tells of."""
    if isinstance(fault, DeadlockDetected):
        return tuple(one.programs.id(0) for one in fault.waiting)
    place = getattr(fault, "program", None)
    return () if place is None else (programs.id(place),)


def _format_fault(
    fault: Fault, grid: Grid, code: ProgramCode
) -> tuple[type[KernelFault], str, str]:
    """What a fault is: the error's class, what went wrong, and what to do."""
    match fault:
        case OutOfBoundsAccess():
            advice = (
                "Mask the lanes that reach beyond the tensor: mask=offsets < n. Nothing was "
                "written outside."
            )
            if fault.buffer.bounds == "view":
                advice += (
                    ' With bounds="storage" a kernel may walk from a view into its '
                    "storage, as on a "
                    "GPU."
                )
            return OutOfBounds, _out_of_bounds(fault), advice
        case WildAddress():
            advice = (
                "An address must lie in an argument of the launch, or in another torch tensor on "
                "the CPU that is still alive: keep the tensors whose data_ptr() you pass."
            )
            return OutOfBounds, fault.problem, advice
        case IndexOutsideTile():
            elements = f"a tile whose elements are 0 to {fault.extent - 1}"
            return KernelFault, f"tl.gather takes element {fault.index} of {elements}", ""
        case FailedAssertion():
            return KernelFault, f"device_assert failed: {fault.message}", ""
        case ReadOnlyStore():
            name = fault.buffer.name
            problem = f"store into {name!r}, a NumPy array that is read-only"
            advice = f"Pass {name}.copy(), or make it writable: array.flags.writeable = True."
            return KernelFault, problem, advice
        case BufferOutsideAllocation():
            buffers = f"shared memory that has buffers 0 to {fault.extent - 1}"
            return KernelFault, f"buffer {fault.index} of {buffers}", ""
        case PhaseNeverCompletes():
            problem = (
                f"a wait that never ends: phase {fault.phase} of the barrier lacks "
                f"{fault.arrivals} arrivals and {fault.bytes:,} bytes, and nothing is under way "
                "that could bring them"
            )
            return KernelFault, problem, ""
        case DeadlockDetected():
            advice = (
                "Look for a lock that some way out does not release, a flag that nobody sets, or a "
                "barrier that counts another number of programs than the grid has."
            )
            return Deadlock, _deadlock(fault, grid, code), advice
    raise AssertionError(f"no words for {fault!r}")


def _out_of_bounds(fault: OutOfBoundsAccess) -> str:
    buffer = fault.buffer
    kind = str(buffer.tensor.dtype).removeprefix("torch.")
    described = f"{buffer.name}: {kind}, shape {tuple(buffer.tensor.shape)}"
    if buffer.bounds == "view":
        described += f", strides {buffer.tensor.stride()}"
    place = f"{buffer.name}[{fault.index}]"
    return f"{fault.action} out of bounds: {place}, but {_extent(fault)} ({described})"


def _extent(fault: OutOfBoundsAccess) -> str:
    """What the access should have stayed inside."""
    buffer = fault.buffer
    owner = "its storage" if buffer.bounds == "storage" else "the view"
    if buffer.first == buffer.stop:
        return f"{owner} is empty"
    first, last = buffer.first - buffer.origin, buffer.stop - 1 - buffer.origin
    if first <= fault.index <= last:
        return (
            f"that is a hole of the view, between the elements that it holds from {first} to {last}"
        )
    return f"{owner} holds elements {first} to {last}"


def _deadlock(fault: DeadlockDetected, grid: Grid, code: ProgramCode) -> str:
    programs = grid[0] * grid[1] * grid[2]
    who = f"{len(fault.waiting):,} of the {programs:,} programs" if programs > 1 else "the program"
    verb = "wait" if len(fault.waiting) > 1 else "waits"
    why = (
        "nothing that could end it changes any more"
        if fault.proven
        else f"in {fault.silent_rounds:,} rounds memory did not change and no program ended"
    )
    listed = [_waits_at(one, code) for one in fault.waiting[:_LISTED]]
    if len(fault.waiting) > _LISTED:
        listed.append(f"  and {len(fault.waiting) - _LISTED:,} more")
    return "\n".join([f"deadlock: {who} {verb} for ever; {why}", *listed])


def _waits_at(one: Waiting, code: ProgramCode) -> str:
    """ "  program (1, 0, 0) waits at k.py:12:5: lock_ptr[0] is 1"."""
    calls = calls_at(one.code, one.instruction, code.locations)
    where = f" at {calls[-1]}" if calls else ""
    reading = "" if one.reading is None else f": {one.reading}"
    return f"  program {one.programs.id(0)} waits{where}{reading}"


def _where(program: int, place: tuple[int, ...], programs: Programs, grid: Grid) -> str:
    """A line: "in program (96, 0, 0) of grid (97, 1, 1), lane 32"."""
    lane = f", lane {place[0] if len(place) == 1 else place}" if place else ""
    return f"\n  in program {programs.id(program)} of grid {grid}{lane}"


_SAME: Mapping[type[LaneFault], str] = {
    OutOfBoundsAccess: "out of bounds",
    WildAddress: "the addresses are wrong",
    IndexOutsideTile: "outside",
    FailedAssertion: "the condition is false",
}


def _others(fault: LaneFault) -> str:
    """Goes on: "; outside in 7 elements of the programs that ran together"."""
    if fault.count == 1:
        return ""
    return f"; {_SAME[type(fault)]} in {fault.count:,} elements of the programs that ran together"


def _made_of(
    fault: LaneFault, entry: types.TracebackType, code: ProgramCode, call: BoundCall
) -> str:
    """A line with the values that made the index (of an assertion, the condition),
    at the faulty lane; "" where none has a name.
    """
    values = index_provenance(
        entry.tb_frame, entry.tb_lasti, fault.place, fault.program, code, call
    )
    what = "condition" if isinstance(fault, FailedAssertion) else "index"
    return f"\n  the {what} was made of {enumerated(values)}" if values else ""


def _entries(traceback: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _traceback(
    entries: Sequence[types.TracebackType], calls: Sequence[SourcePosition]
) -> types.TracebackType | None:
    """The kernel's own frames, then one for each helper function that has none:
    no frame of the interpreter.
    """
    result: types.TracebackType | None = None
    own = [entry for entry in entries if entry.tb_frame.f_code.co_filename != HIDDEN_FILE]
    frames = [*own, *(frame_at(position) for position in (calls[1:] if own else calls))]
    for entry in reversed(frames):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result
