"""From events of a running program to steps: the hooks of stepping code, the recorder."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType, SimpleNamespace
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab import triton_api
from kernellab.compiler.modules import kind
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.codegen.code_writer import located_at
from kernellab.interpreter.execution import runtime
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.inspection import Fields, OnChip, Pointer, shown
from kernellab.interpreter.execution.stepping_code import SteppingCode
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.asynchrony import Flight
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.observers import AccessObserver, DescriptorsThrough
from kernellab.interpreter.memory.shared_memory import SharedTile, barrier_states
from kernellab.interpreter.tiles import Value
from kernellab.ir import tt
from kernellab.ir.operations import SharedWrite, has, locate
from kernellab.ir.types import AsyncTokenType, shape
from kernellab.tracing.steps import (
    Access,
    AccessKind,
    AffineLanes,
    AsyncOperation,
    Frame,
    Loop,
    LoopIteration,
    Program,
    SourceText,
    Step,
    loops_of,
    source_of_function,
)
from kernellab.tracing.values import TilePointer, ValueStore

MOST_STEPS = 200_000
"""The most steps of a trace; the run continues after them."""


@dataclass
class OpenStep:
    """A line that has begun and not ended."""

    line: int
    turns: tuple[LoopIteration, ...]
    operation: str = ""
    changed: dict[str, Any] = field(default_factory=dict)
    accesses: list[SeenAccess] = field(default_factory=list)
    issued: list[AsyncOperation] = field(default_factory=list)
    completed: list[AsyncOperation] = field(default_factory=list)

    @property
    def is_empty_line(self) -> bool:
        return not (
            self.operation or self.changed or self.accesses or self.issued or self.completed
        )


@dataclass
class SeenAccess:
    """An access that the line which runs is about to make.

    Attributes:
        buffer: the argument's; None where the memory belongs to none.
        argument: its name, "" for none.
        itemsize: bytes of an element.
        offsets: elements from the tensor's first to each that is accessed, without a program
            axis; addresses in bytes where there is no argument.
        mask: which lanes take part; None for all.
    """

    kind: AccessKind
    buffer: Buffer | None
    argument: str
    itemsize: int
    offsets: Any
    mask: Any


class OpenFrame:
    """A call that has not returned; `running` is its object in the running code."""

    def __init__(self, frame: Frame, loops: tuple[Loop, ...], running: object) -> None:
        self.frame = frame
        self.running = running
        self.step: OpenStep | None = None
        self.on_chip: dict[str, OnChip] = {}
        """The variables that are memory on the chip."""
        self.seen: dict[str, Any] = {}
        """Their last contents, and those of the barriers in them."""
        self.looked: dict[str, tuple[SharedTile, int]] = {}
        """The tile of each of them, and how often it was written, at the last look."""
        self._loops = loops
        self._iterations: tuple[LoopIteration, ...] = ()
        self._headers = {loop.line: loop for loop in loops}
        self._inside: tuple[Loop, ...] = ()
        """The loops around the last line."""
        self._around: dict[int, tuple[Loop, ...]] = {}
        """Line -> the loops around it."""

    def iterations_at(self, line: int) -> tuple[LoopIteration, ...]:
        """Which iteration of each loop a line begins; a loop's header begins the next one."""
        if line not in self._around:
            self._around[line] = tuple(loop for loop in self._loops if loop.holds(line))
        inside = self._around[line]
        if inside != self._inside or line in self._headers:
            self._inside = inside
            numbers = {iteration.line: iteration.number for iteration in self._iterations}
            kept = []
            for loop in inside:
                number = numbers.get(loop.line, -1)
                begins = number < 0 or line == loop.line
                kept.append(LoopIteration(loop.line, loop.header, number + 1 if begins else number))
            self._iterations = tuple(kept)
        return self._iterations

    def look(self) -> dict[str, Any]:
        """The changes of memory on the chip since the last call, by variable."""
        changed = {}
        for variable, memory in self.on_chip.items():
            known = memory.tile, memory.tile.allocation.writes
            if self.looked.get(variable) == known:
                continue
            self.looked[variable] = known
            for name, (bits, value) in _contents(variable, memory):
                if self.seen.get(name) != bits:
                    self.seen[name], changed[name] = bits, value
        return changed

    def goes_on_at(self, line: int | None) -> None:
        """Note that this line, or the function's end, follows the open step: a loop may be over."""
        step = self.step
        loop = None if step is None else self._headers.get(step.line)
        if step is None or loop is None or (line is not None and loop.holds(line)):
            return
        step.turns = tuple(
            replace(iteration, is_over=True) if iteration.line == loop.line else iteration
            for iteration in step.turns
        )


def _contents(name: str, memory: OnChip) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The contents of memory on the chip, to compare and to keep; each barrier by itself."""
    if not memory.is_barrier:
        array = memory.array.copy()
        yield name, (array.tobytes(), array)
        return
    states = barrier_states(memory.tile)
    for number, state in enumerate(states):
        part = name if len(states) == 1 else f"{name}[{number}]"
        yield part, (repr(state), NO_BARRIER if state is None else state)


class _NoBarrier:
    def __repr__(self) -> str:
        return "mbarrier(not initialized)"


NO_BARRIER = _NoBarrier()


class Recorder:
    """Records the actions of programs, in order, as steps.

    A step is closed, and gets its number, when its line is done:
    the lines of a helper come before the line that called it.

    Attributes:
        open: the calls of the current program that have not returned, the innermost last.
        steps, frames, asynchronous: what was recorded.
        left_out: how many steps came after the trace was full.
        is_stopped: whether an error has ended the run, so that open calls did not finish.
    """

    def __init__(
        self,
        values: ValueStore,
        most_steps: int = MOST_STEPS,
        compiled: Mapping[tuple[str, int], SourceText] | None = None,
    ) -> None:
        """`compiled` has functions' lines by file and line of the `def`; other files are read."""
        self.values = values
        self._compiled = compiled or {}
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.left_out = 0
        self.is_stopped = False
        self._most = most_steps
        self._program: Program = (0, 0, 0)
        self.open: list[OpenFrame] = []
        self.asynchronous: list[AsyncOperation] = []
        self._of_programs: dict[Program, list[OpenFrame]] = {}
        self._of_groups: dict[tuple[Program, int], list[OpenFrame]] = {}
        self._group: int | None = None
        self._partitions: dict[tuple[Program, int], str] = {}
        self._known: dict[tuple[str, int], tuple[SourceText | None, tuple[Loop, ...]]] = {}

    @property
    def sources(self) -> list[SourceText]:
        """The functions that ran."""
        return [source for source, _ in self._known.values() if source is not None]

    def turn_of(self, program: Program) -> None:
        self._program = program
        self.open = self._of_programs.setdefault(program, [])

    @contextmanager
    def turn_of_group(self, number: int, is_over: Callable[[], bool]) -> Iterator[None]:
        """While active, that group of warps of the current program runs. Its calls are those around
        all groups, and its own, which have returned if `is_over` afterwards. An error leaves it
        running.
        """
        outer, around = self.open, self._group
        key = self._program, number
        self.open = self._of_groups.setdefault(key, list(outer))
        self._group = number
        yield
        if is_over():
            while len(self.open) > len(outer):
                self.leave()
            del self._of_groups[key]
        self.open, self._group = outer, around

    def end(self) -> None:
        """All programs have ended or stopped: close what is open, the last to stop first."""
        for stack in [self.open, *self._of_groups.values(), *self._of_programs.values()]:
            self.open = stack
            self.end_program()

    def end_program(self) -> None:
        while self.open:
            self.leave()

    def enter(
        self, function: str, file: str, line: int, given: Mapping[str, Any], running: object = None
    ) -> None:
        """A function begins.

        Args:
            function, file, line: its name, and the position of its `def`.
            given: names that have a value already: its parameters, and constants.
            running: the call's object in the running code.
        """
        caller = self.open[-1] if self.open else None
        call_line = caller.step.line if caller is not None and caller.step is not None else 0
        frame = Frame(
            len(self.frames),
            function,
            file,
            self._program,
            None if caller is None else caller.frame,
            call_line,
            partition=self._partition(caller, function),
        )
        opened = OpenFrame(frame, self._loops(function, file, line), running)
        plain = self._without_memory(opened, given)
        frame.given.update(self._kept_of_frame(frame.number, plain | opened.look()))
        self.frames.append(frame)
        self.open.append(opened)

    def _partition(self, caller: OpenFrame | None, function: str) -> str:
        """The group of warps that calls a function, by its first function's name."""
        if self._group is None or caller is None:
            return ""
        if caller.frame.partition:
            return caller.frame.partition
        own = self._program, self._group
        taken = [name for key, name in self._partitions.items() if key[0] == own[0] and key != own]
        self._partitions[own] = f"{function} ({self._group})" if function in taken else function
        return self._partitions[own]

    @staticmethod
    def _without_memory(frame: OpenFrame, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that are not memory on the chip, which the frame looks at from now on."""
        for name in values:
            frame.on_chip.pop(name, None)
        memory = {name: value for name, value in values.items() if isinstance(value, OnChip)}
        frame.on_chip.update(memory)
        return {name: value for name, value in values.items() if name not in memory}

    def leave(self) -> None:
        if not self.is_stopped:
            self.open[-1].goes_on_at(None)
        self._close(self.open[-1])
        self.open.pop()
        if not self.open:
            self._of_programs.pop(self._program, None)
            self.open = []

    def line(self, line: int) -> None:
        """A line of the innermost function begins; the line before it is done."""
        frame = self.open[-1]
        frame.goes_on_at(line)
        self._close(frame)
        outer = self.open[-2].step if len(self.open) > 1 else None
        turns = frame.iterations_at(line)
        frame.step = OpenStep(line, turns if outer is None else (*outer.turns, *turns))

    def operation(self, line: int, name: str, accesses: int) -> None:
        """An operation of the IR was done on a line of the innermost function.

        Args:
            line, name: where, and which one.
            accesses: how many of the latest accesses were its own.
        """
        frame = self.open[-1]
        before = frame.step
        turns = () if before is None else before.turns
        own: list[SeenAccess] = []
        if before is not None and accesses:
            before.accesses, own = before.accesses[:-accesses], before.accesses[-accesses:]
        if before is not None and before.is_empty_line:
            frame.step = None
        self._close(frame)
        frame.step = OpenStep(line, turns, name, accesses=own)

    def bound(self, names: Mapping[str, Any]) -> None:
        frame = self.open[-1]
        if frame.step is not None:
            frame.step.changed.update(self._without_memory(frame, names))

    def access(self, seen: SeenAccess) -> None:
        """The line that runs is about to access memory."""
        step = self._running
        if step is not None:
            step.accesses.append(seen)

    @property
    def _running(self) -> OpenStep | None:
        """The line that runs: the innermost function may not have reached one yet."""
        return next((frame.step for frame in reversed(self.open) if frame.step is not None), None)

    def issued(self, operation: AsyncOperation) -> None:
        """The line that runs has issued an asynchronous operation."""
        step = self._running
        if step is not None:
            operation.line = step.line
            step.issued.append(operation)

    def completed(self, operation: AsyncOperation, awaits: str) -> None:
        """The line that runs has completed an operation by a wait for `awaits`."""
        step = self._running
        if step is not None:
            operation.awaits = awaits
            step.completed.append(operation)

    @property
    def current_step(self) -> int | None:
        """The number of the running step if it ended now; None if none runs."""
        runs = bool(self.open) and self.open[-1].step is not None
        return self._count if runs and len(self.steps) < self._most else None

    @property
    def _count(self) -> int:
        return len(self.steps)

    def _close(self, opened: OpenFrame) -> None:
        step, opened.step = opened.step, None
        if step is None:
            return
        if opened.on_chip:
            step.changed.update(opened.look())
        if len(self.steps) >= self._most:
            self.left_out += 1
        else:
            self._keep(opened.frame, step)

    def _keep(self, frame: Frame, step: OpenStep) -> None:
        add = self.values.add
        for operation in step.issued:
            operation.issued = len(self.steps)
            self.asynchronous.append(operation)
        for operation in step.completed:
            operation.completed = len(self.steps)
        self.steps.append(
            Step(
                len(self.steps),
                frame,
                step.line,
                step.turns,
                {name: add(value) for name, value in step.changed.items()},
                tuple([self._kept(seen) for seen in step.accesses]),
                self.values,
                step.operation,
            )
        )

    def _kept_of_frame(self, frame: int, given: Mapping[str, Any]) -> dict[str, int]:
        """The numbers of the values that frame number `frame` begins with."""
        del frame  # all are kept alike
        return {name: self.values.add(value) for name, value in given.items()}

    def _kept(self, seen: SeenAccess) -> Access:
        """An access, with all that is needed to know what memory holds after it."""
        add = functools.partial(self.values.add, whole=True)
        lanes: AffineLanes | int
        offsets, mask = seen.offsets, _partial(seen.mask)
        if isinstance(offsets, AffineTile) and isinstance(offsets.base, int):
            lanes = AffineLanes(offsets.base, offsets.strides, offsets.extents)
        else:
            lanes = add(numpy.asarray(offsets, numpy.int64))
        written = None
        if seen.kind != "load" and seen.buffer is not None:
            indices = lanes.indices() if isinstance(lanes, AffineLanes) else numpy.asarray(offsets)
            written = add(_held(seen.buffer, indices, mask))
        mask_number = None if mask is None else add(mask)
        return Access(
            seen.kind, seen.argument, seen.itemsize, lanes, mask_number, written, self.values
        )

    def _loops(self, function: str, file: str, line: int) -> tuple[Loop, ...]:
        key = file, line
        if key not in self._known:
            source = self._compiled.get(key) or source_of_function(file, function, line)
            self._known[key] = source, () if source is None else loops_of(source)
        return self._known[key][1]


def _partial(mask: Any) -> numpy.ndarray | None:
    """The mask as an array; None if every lane is on."""
    if mask is None or mask.all():  # a mask that is symbolic knows without its elements
        return None
    return numpy.asarray(mask)


def _held(buffer: Buffer, indices: numpy.ndarray, mask: numpy.ndarray | None) -> numpy.ndarray:
    """The contents of memory now, lane by lane; a lane that is off reads the nearest element."""
    if mask is not None:
        indices = numpy.broadcast_to(indices, numpy.broadcast_shapes(indices.shape, mask.shape))
    if not buffer.elements.size:  # of a store that leaves a tensor without elements
        return numpy.zeros(numpy.shape(indices), buffer.elements.dtype)
    held: numpy.ndarray = buffer.elements.take(indices + buffer.origin, mode="clip")
    return held


class Enough(Exception):
    """All requested values are recorded."""


class SecondRecorder(Recorder):
    """Follows the same run again without keeping steps, and catches the requested values.

    Attributes:
        caught: (step, name) -> value; -1 - the frame's number for what a frame began with.
    """

    def __init__(self, wanted: Mapping[int, set[str]]) -> None:
        super().__init__(ValueStore(largest=0))
        self.caught: dict[tuple[int, str], Any] = {}
        self._wanted = wanted
        self._missing = sum(map(len, wanted.values()))
        self._closed = 0

    @property
    def _count(self) -> int:
        return self._closed

    def _keep(self, frame: Frame, step: OpenStep) -> None:
        del frame
        self._catch(self._closed, step.changed)
        self._closed += 1

    def _kept_of_frame(self, frame: int, given: Mapping[str, Any]) -> dict[str, int]:
        self._catch(-1 - frame, given)
        return {}

    def _catch(self, place: int, values: Mapping[str, Any]) -> None:
        for name in self._wanted.get(place, ()):
            self.caught[place, name] = values[name]
            self._missing -= 1
        if not self._missing:
            raise Enough


class TracingHook:
    """Notifies a recorder of each line and each value, but not of Triton's own functions."""

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
        """The number of accesses since the last operation."""
        self._is_late = False
        self._codes = set(map(id, code.program.codes))
        self._names = code.program.variables
        self._allocations: dict[int, tuple[str, SharedTile]] = {}
        """By the id of their memory: the first variable that had it."""

    # What stepping code calls

    def line(self, number: int) -> None:
        """A line is about to run."""
        frame = sys._getframe(1)
        if id(frame.f_code) in self._functions:
            self._go_to(frame)
            self._recorder.line(self._lines[number])

    def bound(self, names: Sequence[str], values: Sequence[Any]) -> None:
        frame = sys._getframe(1)
        if id(frame.f_code) in self._functions:
            self._go_to(frame)
            self._recorder.bound(self._as_kept(names, values))

    def operation(self, number: int, results: Sequence[Value]) -> None:
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
            _result_name(operation, location.name, place): OnChip(value, is_barrier=False)
            if isinstance(value, SharedTile)
            else shown(value, shape(result.type))
            for place, (result, value) in enumerate(zip(operation.results, results))
            if value is not None and not isinstance(result.type, AsyncTokenType)
        }
        self._recorder.bound(named)

    def issued(self, flight: Flight, awaited: str | SharedTile) -> None:
        """An asynchronous operation was issued, whose queue or barrier is `awaited`."""
        self._is_late = True
        if isinstance(awaited, str) and awaited.partition(" ")[0] not in _GROUPS:
            return  # a matmul of tcgen05: the barrier that counts it is heard of
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and id(frame.f_code) not in self._codes:
            frame = frame.f_back
        if frame is None or not self._recorder.open:
            return
        operation = located_at(frame.f_code, frame.f_lasti, self._operations)
        assert operation is not None, "every statement that issues an operation has a location"
        self.back_to(frame)
        known = (frame.f_locals.get(self._names.get(each, "")) for each in operation.operands)
        tiles = [tile for tile in known if isinstance(tile, SharedTile) and tile is not awaited]
        buffers = dict.fromkeys(map(self._name_of, tiles))
        made = AsyncOperation(
            kind(operation).rpartition(".")[2],
            1,
            tuple(buffers),
            has(operation, SharedWrite),
            self._awaited(flight, awaited),
        )
        self._recorder.issued(made)
        flight.completed = lambda: self._recorder.completed(made, self._awaited(flight, awaited))

    def _awaited(self, flight: Flight, awaited: str | SharedTile) -> str:
        if flight.group is not None and isinstance(awaited, str):
            return f"{_GROUPS[awaited.partition(' ')[0]]} {int(flight.group[0])}"
        assert isinstance(awaited, SharedTile)
        state, *_ = barrier_states(awaited)
        return f"phase {'' if state is None else state.phase} of {self._name_of(awaited)}"

    def _name_of(self, tile: SharedTile) -> str:
        """The variable of the whole allocation that a tile is of, and which of its parts."""
        known = self._allocations.get(id(_root(tile.memory)))
        if known is None:
            return "memory without a name"
        name, whole = known
        extent, *_ = whole.shape
        if tile.shape == whole.shape or extent == 1:
            return name
        size = whole.memory.strides[1 + len(whole.chosen)]
        number = int(tile.addresses[0] - whole.addresses[0]) // size
        return f"{name}[{number}]" if 0 <= number < extent else name

    # Who runs

    def group(self, number: int, group: Any) -> AbstractContextManager[None]:
        """While active, a group of warps runs, which is a coroutine."""
        return self._recorder.turn_of_group(number, lambda: group.gi_frame is None)

    @contextmanager
    def program(self, programs: Programs, ends: bool) -> Iterator[None]:
        """While active, that program runs; with `ends` it has ended afterwards."""
        self._recorder.turn_of(programs.id(0))
        yield
        if ends:
            self._recorder.end_program()
            self._allocations.clear()

    def stopped(self, error: BaseException) -> None:
        """An error ended the run: the innermost frame of its traceback is where."""
        entry, last = error.__traceback__, None
        while entry is not None:
            last = entry.tb_frame if id(entry.tb_frame.f_code) in self._functions else last
            entry = entry.tb_next
        self.back_to(last)
        self._recorder.is_stopped = True

    def forget(self) -> None:
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
            self._as_kept(given, [variables[name] for name in given]),
            frame,
        )

    def _as_kept(self, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        """Values by name: pointers as TilePointers, tuples and objects with fields taken apart."""
        kept: dict[str, Any] = {}
        for name, value in zip(names, values):
            if isinstance(value, numpy.ndarray) and self._is_late:
                kept[name] = value.copy()  # the result of a product changes when it completes
            elif isinstance(value, _KEPT_AS_THEY_ARE):
                kept[name] = value
            elif isinstance(value, Pointer):
                kept[name] = TilePointer(value.argument, numpy.asarray(value.offsets))
            elif isinstance(value, tuple):
                kept |= self._as_kept([f"{name}[{place}]" for place in range(len(value))], value)
            elif isinstance(value, Fields):
                parts = {n: part for n, part in vars(value).items() if not n.startswith("_")}
                kept |= self._as_kept([f"{name}.{part}" for part in parts], list(parts.values()))
            else:
                kept[name] = value
            if isinstance(value, OnChip):
                key = id(_root(value.tile.memory))
                self._allocations.setdefault(key, (name, value.tile))
        return kept

    def back_to(self, frame: FrameType | None) -> None:
        """Leave the helpers that have returned to `frame`, which may be the library's."""
        recorder = self._recorder
        running = [opened.running for opened in recorder.open]
        while frame is not None and frame not in running:
            frame = frame.f_back
        while frame is not None and recorder.open[-1].running is not frame:
            recorder.leave()


_GROUPS = {"copies": "commit group", "stores": "store group", "products": "wgmma group"}
"""The group by which a kernel waits for the operations of a queue."""


def _root(array: numpy.ndarray) -> numpy.ndarray:
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


_KEPT_AS_THEY_ARE = (numpy.ndarray, numpy.generic, int, float, str)


def _result_name(operation: Operation, name: str | None, place: int) -> str:
    """The kernel's name for what an operation gives, else the operation's own: "%addi"."""
    chosen = name or f"%{kind(operation).rpartition('.')[2]}"
    return chosen if len(operation.results) == 1 else f"{chosen}#{place}"


# Memory


class TracingObserver(AccessObserver):
    """Notifies a recorder of every access of the traced programs, and of the programs that run."""

    def __init__(
        self,
        recorder: Recorder,
        hook: TracingHook,
        buffers: Mapping[str, Buffer],
        on_batch: Callable[[Programs], None],
    ) -> None:
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
        vars(self).clear()

    def modules(self, memory: global_memory.Memory) -> Mapping[str, Any]:
        traced = _TracedMemory(memory, self)
        own = {
            "memory": traced,
            "descriptors": DescriptorsThrough(traced),
            "warp_groups": SimpleNamespace(
                run=functools.partial(runtime.run, turn=self.hook.group)
            ),
        }
        return {**super().modules(memory), **own}

    def record_access(self, what: AccessKind, access: global_memory.MemoryAccess) -> None:
        """Notify the recorder, after finding out whose memory it is."""
        self.hook.accesses_of_operation += 1
        self._recorder.access(self._seen(what, access))

    def _seen(self, what: AccessKind, access: global_memory.MemoryAccess) -> SeenAccess:
        buffer, mask = access.buffer, access.mask
        if isinstance(buffer, Buffer):
            known = self._buffers.get(buffer.name)
            if known is not None and known.itemsize == buffer.itemsize:
                return SeenAccess(what, known, known.name, known.itemsize, access.offsets, mask)
        addresses = on = numpy.asarray(access.addresses)
        if mask is not None:
            everywhere, lanes = numpy.broadcast_arrays(addresses, numpy.asarray(mask))
            on = everywhere[lanes]
        size = buffer.itemsize
        for known in self._buffers.values():
            start = int(known.addresses(numpy.int64(0)))
            low, high = (start + (end - known.origin) * size for end in (0, len(known.elements)))
            if known.itemsize == size and on.size and low <= on.min() and on.max() < high:
                offsets = (addresses - start) // size
                return SeenAccess(what, known, known.name, size, offsets, mask)
        return SeenAccess(what, None, "", size, addresses, mask)


class _TracedMemory(global_memory.MemoryLayer):
    """Replaces the module `memory` in generated code."""

    def __init__(self, inner: global_memory.Memory, observer: TracingObserver) -> None:
        self._inner = inner
        self._observer = observer

    def around(self, access: global_memory.MemoryAccess) -> Value | None:
        """Report the access, then make it."""
        what: AccessKind = "atomic"
        if isinstance(access, global_memory.Load):
            what = "load"
        elif isinstance(access, global_memory.Store):
            what = "store"
        self._observer.hook.back_to(sys._getframe(2))
        self._observer.record_access(what, access)
        return access.made_by(self._inner)
