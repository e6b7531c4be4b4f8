"""What stepping code calls while it is traced: a recorder is notified of lines, operations and
every access.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.compiler.modules.structure import kind
from kernellab.interpreter.codegen.code_writer import located_at
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.inspection import Fields, Pointer, shown
from kernellab.interpreter.execution.stepping_code import SteppingCode
from kernellab.interpreter.memory.buffers import Addressed, Buffer
from kernellab.interpreter.memory.global_memory import (
    Load,
    Memory,
    MemoryAccess,
    MemoryLayer,
    Store,
)
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir import tt
from kernellab.ir.locations import locate
from kernellab.ir.types import shape
from kernellab.tracing.recording import Recorder
from kernellab.tracing.steps import AccessKind
from kernellab.tracing.tile_pointer import TilePointer


class TracingHook:
    """Notifies a recorder of each line and its frame, and of each value that a variable is given.

    Functions of Triton's own library are not looked into:
    what they do belongs to the line that called them.
    """

    def __init__(self, recorder: Recorder, code: SteppingCode) -> None:
        self._recorder = recorder
        self._lines = [line.line for line in code.lines]
        self._operations = code.program.operations
        self._functions = {
            id(function.code): function  # hashing a code object takes as long as it is large
            for function in code.functions.values()
            if not triton_api.is_in_library(function.source.file)
        }
        self.accesses_of_operation = 0
        """How many accesses were heard of since the last operation."""

    # What stepping code calls

    def line(self, number: int) -> None:
        """A line is about to run."""
        frame = sys._getframe(1)
        if id(frame.f_code) in self._functions:
            self._go_to(frame)
            self._recorder.line(self._lines[number])

    def bound(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Names were given values."""
        frame = sys._getframe(1)
        if id(frame.f_code) in self._functions:
            self._go_to(frame)
            self._recorder.bound(_as_kept(names, values))

    def operation(self, number: int, results: Sequence[Value]) -> None:
        """An operation has run."""
        frame = sys._getframe(1)
        if id(frame.f_code) not in self._functions or not self._recorder.open:
            return
        self._go_to(frame)
        operation = self._operations[number]
        if isinstance(operation, tt.ReturnOp):
            return
        location = locate(operation.location)
        line = location.frames[0].line if location.frames else frame.f_lineno
        self._recorder.operation(line, kind(operation), self.accesses_of_operation)
        self.accesses_of_operation = 0
        named = {
            _result_name(operation, location.name, place): shown(value, shape(result.type))
            for place, (result, value) in enumerate(zip(operation.results, results))
            if value is not None
        }
        self._recorder.bound(named)

    # Who runs

    @contextmanager
    def program(self, programs: Programs, ends: bool) -> Iterator[None]:
        """While active, that program runs; with `ends` it has ended afterwards."""
        self._recorder.turn_of(programs.id(0))
        yield
        if ends:
            self._recorder.end_program()

    def stopped(self, error: BaseException) -> None:
        """An error ended the run: the innermost frame of its traceback is where."""
        entry, last = error.__traceback__, None
        while entry is not None:
            last = entry.tb_frame if id(entry.tb_frame.f_code) in self._functions else last
            entry = entry.tb_next
        self.back_to(last)
        self._recorder.is_stopped = True

    def forget(self) -> None:
        """Let go of the recorder: the globals of stepping code, which Python collects late,
        hold on to their hook.
        """
        vars(self).clear()

    def _go_to(self, frame: FrameType) -> None:
        """Make `frame` the innermost one: leave those that have returned, enter it if it is new."""
        opened = self._recorder.open
        if opened and opened[-1].running is frame:
            return
        self.back_to(frame)
        if opened and opened[-1].running is frame:
            return
        function = self._functions[id(frame.f_code)]
        variables = frame.f_locals
        given = [name for name in variables if name in function.names]
        source = function.source
        self._recorder.enter(
            source.name,
            source.file,
            source.line,
            _as_kept(given, [variables[name] for name in given]),
            frame,
        )

    def back_to(self, frame: FrameType | None) -> None:
        """Code of `frame` goes on, which may be the library's:
        helpers that it called have returned.
        """
        recorder = self._recorder
        running = [opened.running for opened in recorder.open]
        while frame is not None and frame not in running:
            frame = frame.f_back
        while frame is not None and recorder.open[-1].running is not frame:
            recorder.leave()


_KEPT_AS_THEY_ARE = (numpy.ndarray, numpy.generic, int, float, str)


def _as_kept(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Values by name: pointers as TilePointers, tuples and objects with fields taken apart."""
    kept: dict[str, Any] = {}
    for name, value in zip(names, values):
        if isinstance(value, _KEPT_AS_THEY_ARE):
            kept[name] = value
        elif isinstance(value, Pointer):
            kept[name] = TilePointer(value.argument, numpy.asarray(value.offsets))
        elif isinstance(value, tuple):
            kept |= _as_kept([f"{name}[{place}]" for place in range(len(value))], value)
        elif isinstance(value, Fields):
            parts = {
                part: part_value
                for part, part_value in vars(value).items()
                if not part.startswith("_")
            }
            kept |= _as_kept([f"{name}.{part}" for part in parts], list(parts.values()))
        else:
            kept[name] = value
    return kept


def _result_name(operation: Operation, name: str | None, place: int) -> str:
    """The kernel's name for what an operation gives, else the operation's own: "%addi"."""
    chosen = name or f"%{kind(operation).rpartition('.')[2]}"
    return chosen if len(operation.results) == 1 else f"{chosen}#{place}"


# --------------------------------------------------------------------------------------------------
# Memory
# --------------------------------------------------------------------------------------------------


class TracingObserver(AccessObserver):
    """Notifies a recorder of every access of the traced programs, and of the programs that run.

    Attributes:
        hook: what hears of lines.
        programs: those that run now.
    """

    def __init__(
        self,
        recorder: Recorder,
        hook: TracingHook,
        buffers: Mapping[str, Buffer],
        on_batch: Callable[[Programs], None],
    ) -> None:
        """As above.

        Args:
            buffers: the arguments' memory, by name.
            on_batch: is called with every batch before it runs.
        """
        super().__init__(lambda _: None)
        self._recorder = recorder
        self.hook = hook
        self._buffers = buffers
        self._on_batch = on_batch

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "programs":
            self._on_batch(value)

    def forget(self) -> None:
        """Let go of everything; see `TracingHook.forget`."""
        vars(self).clear()

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `RunObserver.modules`."""
        return {**super().modules(memory), "memory": _TracedMemory(memory, self)}

    def access(
        self,
        frame: FrameType,
        buffer: Buffer | Addressed,
        offsets: Value,
        mask: Value | None,
        active: Active,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """An access through a descriptor, by the one program that runs."""
        del active, shape
        self.hook.back_to(frame)
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        self.record_access(_kind_of(operation), buffer, offsets, mask)

    def record_access(
        self, what: AccessKind, buffer: Buffer | Addressed, offsets: Value, mask: Value | None
    ) -> None:
        """Notify the recorder, after finding out whose memory it is."""
        self.hook.accesses_of_operation += 1
        if isinstance(buffer, Buffer):
            known = self._buffers.get(buffer.name)
            if known is not None and known.itemsize == buffer.itemsize:
                self._recorder.access(what, known, known.name, known.itemsize, offsets, mask)
                return
        self._record_addresses(what, buffer, numpy.asarray(buffer.addresses(offsets)), mask)

    def _record_addresses(
        self,
        what: AccessKind,
        buffer: Buffer | Addressed,
        addresses: numpy.ndarray,
        mask: Value | None,
    ) -> None:
        on = addresses
        if mask is not None:
            everywhere, lanes = numpy.broadcast_arrays(addresses, numpy.asarray(mask))
            on = everywhere[lanes]
        size = buffer.itemsize
        for known in self._buffers.values():
            start = int(known.addresses(numpy.int64(0)))
            low, high = (start + (end - known.origin) * size for end in (0, len(known.elements)))
            if known.itemsize == size and on.size and low <= on.min() and on.max() < high:
                offsets = (addresses - start) // size
                self._recorder.access(what, known, known.name, size, offsets, mask)
                return
        self._recorder.access(what, None, "", size, addresses, mask)


class _TracedMemory(MemoryLayer):
    """Replaces the module `memory` in generated code."""

    def __init__(self, inner: Memory, observer: TracingObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: MemoryAccess) -> Value | None:
        """Report the access, then make it."""
        what: AccessKind = "atomic"
        if isinstance(access, Load):
            what = "load"
        elif isinstance(access, Store):
            what = "store"
        self._observer.hook.back_to(sys._getframe(2))
        self._observer.record_access(what, access.buffer, access.offsets, access.mask)
        return access.made_by(self._inner)


def _kind_of(operation: Operation | None) -> AccessKind:
    """What an operation on a descriptor does."""
    name = "" if operation is None else operation.name
    if "load" in name or "gather" in name:
        return "load"
    return "atomic" if "reduce" in name else "store"
