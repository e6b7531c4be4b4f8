"""A fault of a running kernel, told in the user's terms: kernel line, program, lane, argument, index."""

from __future__ import annotations

import types
from collections.abc import Collection

from kernellab.errors import KernelFault, KernelLabError, OutOfBounds, SourcePosition
from kernellab.interpreter.debugging import FailedAssertion
from kernellab.interpreter.grid import Grid, Programs
from kernellab.interpreter.memory import OutOfBoundsAccess, ReadOnlyStore

Fault = OutOfBoundsAccess | ReadOnlyStore | FailedAssertion


def explain(
    fault: Fault, programs: Programs, grid: Grid, codes: Collection[types.CodeType]
) -> KernelLabError:
    """The fault as an error on the kernel's line, whose traceback ends there."""
    traceback = _kernel_traceback(fault.__traceback__, codes)
    position = _position(traceback)
    match fault:
        case OutOfBoundsAccess():
            error: KernelLabError = _out_of_bounds(fault, programs, grid, position)
        case ReadOnlyStore():
            error = KernelFault(
                f"store into {fault.buffer.name!r}, a NumPy array that is read-only",
                position=position,
                advice=f"Pass {fault.buffer.name}.copy(), or make it writable: array.flags.writeable = True.",
            )
        case _:
            error = KernelFault(
                f"device_assert failed: {fault.message}\n{_where(fault.place, fault.program, programs, grid)}"
                f"{_others(fault.count, 'the condition is false in')}",
                position=position,
            )
    return error.with_traceback(traceback)


def _out_of_bounds(
    fault: OutOfBoundsAccess, programs: Programs, grid: Grid, position: SourcePosition | None
) -> OutOfBounds:
    buffer = fault.buffer
    last = len(buffer.elements) - 1 - buffer.origin
    first = -buffer.origin
    extent = (
        f"its storage holds elements {first} to {last}" if last >= first else "its storage is empty"
    )
    shape, kind = tuple(buffer.tensor.shape), str(buffer.tensor.dtype).removeprefix("torch.")
    return OutOfBounds(
        f"{fault.action} out of bounds: {buffer.name}[{fault.index}], but {extent} "
        f"({buffer.name}: {kind}, shape {shape})\n"
        f"{_where(fault.place, fault.program, programs, grid)}{_others(fault.count, 'out of bounds in')}",
        position=position,
        advice="Mask the lanes that reach beyond the tensor: mask=offsets < n. Nothing was written outside.",
    )


def _where(place: tuple[int, ...], program: int, programs: Programs, grid: Grid) -> str:
    """ "in program (96, 0, 0) of grid (97, 1, 1), lane 32"."""
    who = programs.id(program)
    lane = f", lane {place[0] if len(place) == 1 else place}" if place else ""
    return f"  in program {who} of grid {grid}{lane}"


def _others(count: int, what: str) -> str:
    return "" if count == 1 else f"; {what} {count:,} elements of the programs that ran together"


def _kernel_traceback(
    traceback: types.TracebackType | None, codes: Collection[types.CodeType]
) -> types.TracebackType | None:
    """The part of a traceback from the kernel's first frame to its last: no frame of the interpreter."""
    frames = []
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            frames.append(traceback)
        traceback = traceback.tb_next
    result: types.TracebackType | None = None
    for entry in reversed(frames):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _position(traceback: types.TracebackType | None) -> SourcePosition | None:
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    positions = list(code.co_positions())
    line, _, column, _ = positions[traceback.tb_lasti // 2]
    return SourcePosition(code.co_filename, line or traceback.tb_lineno, (column or 0) + 1)
