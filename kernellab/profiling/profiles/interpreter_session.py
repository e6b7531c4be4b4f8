"""A session over launches on the interpreter, and the cost of each of their operations."""

from __future__ import annotations

import itertools
import math
import platform
import sys
import time
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import triton
from xdsl.ir import Operation

from kernellab.common.saved_files import kernellab_version
from kernellab.common.text import what_it_raised
from kernellab.compiler.analyses.work import count
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.modules import kind, pointers_of, position_of
from kernellab.compiler.pipeline import compile_bound
from kernellab.errors import SourcePosition, compiled_text, source_line
from kernellab.interpreter.codegen.code_writer import located_at
from kernellab.interpreter.codegen.emitter import emit_passing_events
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.launcher import Instrument
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.launch.argument_copies import integers_of
from kernellab.launch.dispatch import Instrumented, launches_watched
from kernellab.profiling.profiles import records
from kernellab.profiling.profiles.profile import Profile
from kernellab.records import Run, Target
from kernellab.records.launches import RunOptions
from kernellab.triton_api import JITFunction, definition_of, is_in_library, options_of_launch
from kernellab.triton_api.proton import scopes_reported
from kernellab.triton_api.targets import backend_options


@dataclass
class OperationTally:
    """The time and counts of one operation in a launch, over all programs."""

    nanoseconds: int = 0
    executions: int = 0
    """By programs."""
    bytes: int = 0
    """Of global memory, by active lanes."""
    is_of_launch: bool = False
    """Whether it runs once for all programs, since none changes it."""


class OperationObserver(AccessObserver):
    """Is notified of each access and each finished operation; its own time does not count.

    Attributes:
        tallies: the cost of each operation.
    """

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.tallies: dict[Operation, OperationTally] = {}
        self.nanoseconds = 0
        self._programs: Programs | None = None
        self._since = time.perf_counter_ns()

    @property
    def operations(self) -> Sequence[Operation]:
        """Of the code, which is there, and runs from now on."""
        return self._operations

    @operations.setter
    def operations(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._since = time.perf_counter_ns()

    @property
    def programs(self) -> Programs:
        """The batch that runs."""
        assert self._programs is not None, "a batch runs"
        return self._programs

    @programs.setter
    def programs(self, programs: Programs) -> None:
        self._programs = programs
        self._since = time.perf_counter_ns()

    def passed(self, operation: Operation, active: Active) -> None:
        """Note that the batch's active programs, or before it all, have done an operation."""
        took = time.perf_counter_ns() - self._since
        tally = self.tallies.get(operation)
        if tally is None:
            tally = self.tallies[operation] = OperationTally()
        tally.nanoseconds += took
        self.nanoseconds += took
        if self._programs is None:
            tally.is_of_launch = True
        else:
            tally.executions += self._taking_part(active)
        self._since = time.perf_counter_ns()

    def notify(
        self,
        frame: types.FrameType,
        addresses: Callable[[], Value],
        size: int,
        block: tuple[int, ...] | None,
        mask: Value | None,
        active: Active,
    ) -> None:
        del addresses
        began = time.perf_counter_ns()
        operation = located_at(frame.f_code, frame.f_lasti, self.operations)
        if operation is not None:
            elements = math.prod(shape(pointers_of(operation).type) if block is None else block)
            lanes = self._lanes(elements, mask, active)
            self.tallies.setdefault(operation, OperationTally()).bytes += size * lanes
        self._since += time.perf_counter_ns() - began

    def _lanes(self, elements: int, mask: Any, active: Active) -> int:
        programs = self._taking_part(active)
        if mask is None:
            return elements * programs
        on = numpy.asarray(mask)
        if active is not None and on.ndim and len(on) == len(active) > 1:
            on = on[active]
        return int(numpy.count_nonzero(on)) * (elements * programs) // on.size if on.size else 0

    def _taking_part(self, active: Active) -> int:
        return self.programs.count if active is None else int(numpy.count_nonzero(active))


@dataclass(frozen=True)
class MeasuredOperation:
    """The time and counts of one operation of a kernel, over all profiled launches."""

    operation: str
    position: SourcePosition | None
    nanoseconds: int
    executions: int
    metrics: Mapping[str, int]
    """ "bytes", and "flops16" by the bits of its operands, unless they are 0."""


def measured(observer: OperationObserver, programs: int) -> list[MeasuredOperation]:
    """The time of each operation of a launch, in the order of their ends.

    Args:
        programs: of the launch: all of them execute what no program changes, which runs once.
    """
    measured = []
    for op, tally in observer.tallies.items():
        executions = programs if tally.is_of_launch else tally.executions
        counted = count(op)
        flops = counted[1] * executions if counted and counted[0] in _FLOATING else 0
        amounts = {"bytes": tally.bytes, f"flops{_width(op)}" if flops else "": flops}
        metrics = {name: number for name, number in amounts.items() if number}
        measured.append(
            MeasuredOperation(kind(op), position_of(op), tally.nanoseconds, executions, metrics)
        )
    return measured


_FLOATING = ("matrix", "arithmetic")


def _width(op: Operation) -> int:
    """Bits of what an operation computes with: 8, 16, 32 or 64."""
    of = op.operands[0] if op.operands else op.results[0]
    bits = bit_width(element_type(of.type))
    return next((width for width in (8, 16, 32) if bits <= width), 64)


LaunchMetadata = Callable[[Any, Any, Mapping[str, Any]], Mapping[str, Any]]
"""Takes grid, metadata and arguments by name, and gives "name" and metrics: "flops16", "bytes"."""


@dataclass
class NamedLaunch:
    """The name of a launch."""

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    trouble: str = ""
    """The error of the function that names launches; "" for none."""


def named(
    kernel: Any,
    metadata_of: LaunchMetadata | None,
    grid: Any,
    options: Mapping[str, Any],
    values: Mapping[str, Any],
) -> NamedLaunch:
    """Return the name by the kernel's own `launch_metadata`, or else by the session's hook."""
    name = str(kernel.__name__)
    ask = getattr(kernel, "launch_metadata", None) or metadata_of
    if ask is None:
        return NamedLaunch(name)
    metadata = SimpleNamespace(**{**options, "name": name})
    try:
        said = dict(ask(grid, metadata, dict(values)))
        metrics = {
            str(key): float(number) for key, number in said.items() if isinstance(number, Real)
        }
        return NamedLaunch(str(said.get("name", name)), metrics)
    except Exception as error:  # a function of the user
        words = what_it_raised(f"launch_metadata of {name}", error)
        return NamedLaunch(name, trouble=f"{words}; its launches are profiled without it")


_LAUNCHES_KEPT = 100_000
"""As events of a timeline."""

_EXECUTIONS = "executions"
_Line = tuple[str, int, str]
"""File, line, operation; 0 for an unknown line."""


@dataclass
class _Kernel:
    """A kernel of which launches were seen."""

    facts: records.ProfiledKernel
    launches: int = 0
    lines: dict[_Line, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Metrics of each operation of a line, and _EXECUTIONS."""


class InterpreterSession:
    """Profiles launches on the interpreter while it is active; see `ProfileSession`."""

    interpreted: Profile | None = None

    def __init__(self, context: str, metadata_of: LaunchMetadata | None) -> None:
        self._metadata_of = metadata_of
        self._by_frames = context == "python"
        self._root = records.GrowingScope("ROOT", "root")
        self._path = [self._root]
        self._kernels: dict[str, _Kernel] = {}
        self._notes: dict[str, None] = {}
        self._target = ""
        self._events: list[tuple[str, int, int]] = []
        self._began = time.perf_counter_ns()

    @property
    def launches(self) -> int:
        """How many launches were seen."""
        return sum(kernel.launches for kernel in self._kernels.values())

    # What Proton's sessions do

    def activate(self) -> None:
        """Start to count launches."""
        _watch.join(self)

    def deactivate(self) -> None:
        """Launches do not count until it is activated again."""
        _watch.part(self)

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        scope = self._path[-1].child(name, "scope")
        scope.add(metrics)
        self._path.append(scope)

    def measured(self, metrics: Mapping[str, float]) -> None:
        """More metrics of the innermost scope."""
        self._path[-1].add(metrics)

    def leave(self) -> None:
        if len(self._path) > 1:
            self._path.pop()

    def finish(self, name: str) -> Profile:
        self.deactivate()
        kernels = tuple(
            replace(kernel.facts, launches=kernel.launches) for kernel in self._kernels.values()
        )
        return Profile(
            measured_by=records.INTERPRETER,
            root=self._root.grown(),
            machine=records.Machine(
                self._target, platform.machine(), versions(numpy=numpy.__version__)
            ),
            kernels=kernels,
            notes=(
                f"{records.IS_INTERPRETER[:1].upper()}{records.IS_INTERPRETER[1:]}.",
                *self._notes,
            ),
            line_records=tuple(self._lines()),
            events=self._timeline(),
            name=name,
        )

    # Launches

    def saw(self, launch: SeenLaunch) -> None:
        said = named(
            launch.kernel, self._metadata_of, launch.grid, launch.options, launch.call.values
        )
        if said.trouble:
            self._notes[said.trouble] = None
        self._target = str(launch.target)
        if said.name not in self._kernels:
            shown = {key: launch.options[key] for key in SHOWN_OPTIONS if key in launch.options}
            facts = kernel_facts(
                launch.kernel, launch.call, launch.target, shown, name=said.name, grid=launch.grid,
                integers=integers_of(launch.call.values),
            )  # fmt: skip
            self._kernels[said.name] = _Kernel(facts)
        kernel = self._kernels[said.name]
        kernel.launches += 1
        counted_here: Counter[str] = Counter()
        by_line: Counter[tuple[str, int]] = Counter()
        for operation in launch.operations:
            at = operation.position
            place = (at.file, at.line) if at is not None else ("", 0)
            kernel.lines[*place, operation.operation].update(
                {records.TIME: operation.nanoseconds, _EXECUTIONS: operation.executions}
            )
            kernel.lines[*place, operation.operation].update(operation.metrics)
            by_line[place] += operation.nanoseconds
            counted_here.update(operation.metrics)
        scope = self._scope_of_caller().child(said.name, "kernel")
        of_lines = sum(by_line.values())
        own = max(launch.nanoseconds - of_lines, 0)
        scope.add({records.TIME: own, records.COUNT: 1, **counted_here, **said.metrics})
        for (file, line), nanoseconds in sorted(by_line.items()):
            if line:
                title = _title(file, line, kernel.facts.file)
                scope.child(title, "line").add({records.TIME: nanoseconds})
            else:
                scope.add({records.TIME: nanoseconds})
        if len(self._events) < _LAUNCHES_KEPT:
            start = launch.start - self._began
            self._events.append((said.name, start, start + launch.nanoseconds))

    def _scope_of_caller(self) -> records.GrowingScope:
        """The scope that a launch is in: the user's, with context="python" the frames."""
        scope = self._path[-1]
        if self._by_frames:
            for file, function, line in _frames():
                scope = scope.child(f"{file}:{line}@{function}", "frame")
        return scope

    def _lines(self) -> Iterator[records.ProfiledLine]:
        for name, kernel in self._kernels.items():
            known = {place: sums for place, sums in kernel.lines.items() if place[1]}
            whole = sum(sums[records.TIME] for sums in known.values()) or 1
            for (file, line, operation), sums in known.items():
                yield records.ProfiledLine(
                    file=file,
                    line=line,
                    operation=operation,
                    share=sums[records.TIME] / whole,
                    executions=sums[_EXECUTIONS],
                    kernel=name,
                    metrics={metric: n for metric, n in sums.items() if metric != _EXECUTIONS},
                )

    def _timeline(self) -> records.Events | None:
        if not self._events:
            return None
        names = tuple(dict.fromkeys(name for name, _, _ in self._events))
        places = {name: place for place, name in enumerate(names)}
        nowhere = numpy.full(len(self._events), -1, numpy.int64)
        return records.Events(
            program=nowhere,
            warp=nowhere,
            scope=numpy.array([places[name] for name, _, _ in self._events], numpy.int64),
            start=numpy.array([start for _, start, _ in self._events], numpy.int64),
            end=numpy.array([end for _, _, end in self._events], numpy.int64),
            names=names,
            unit="ns",
        )


@dataclass(frozen=True)
class SeenLaunch:
    """A launch that was carried out under the watch."""

    kernel: JITFunction
    call: BoundCall
    target: Target
    grid: tuple[int, int, int]
    options: Mapping[str, Any]
    start: int
    nanoseconds: int
    operations: list[MeasuredOperation]


SHOWN_OPTIONS = ("num_warps", "num_stages", "num_ctas")


def kernel_facts(
    function: Any, call: BoundCall, target: Target, options: Mapping[str, Any], **facts: Any
) -> records.ProfiledKernel:
    """A kernel of a profile, whose Compilation is made when it is asked for.

    Args:
        options: those that are shown, without the constants.
        facts: further fields of the `ProfiledKernel`.
    """
    place = definition_of(function)
    bare = replace(call, values={})  # without the tensors, whose memory it would keep
    return records.ProfiledKernel(
        options={**call.specialization.constants_by_name, **options},
        file=place.file,
        line=place.line,
        source=compiled_text(place.file, place.line),
        compile=lambda: compile_bound(function, bare, target, record="passes"),
        **facts,
    )


class _Watch:
    """Runs launches with an instrument; reports to all active sessions and Proton's scopes."""

    def __init__(self) -> None:
        self._sessions: list[InterpreterSession] = []
        self._open = ExitStack()

    def join(self, session: InterpreterSession) -> None:
        if not self._sessions:
            self._open.enter_context(launches_watched(self))
            self._open.enter_context(scopes_reported(self))
        if session not in self._sessions:
            self._sessions.append(session)

    def part(self, session: InterpreterSession) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            if not self._sessions:
                self._open.close()

    def around(
        self,
        kernel: JITFunction,
        call: BoundCall,
        target: Target,
        options: RunOptions,
        run: Instrumented,
    ) -> Run:
        __tracebackhide__ = True
        del options
        observer = OperationObserver()
        start = time.perf_counter_ns()
        done = run(Instrument(emit_passing_events, observer))
        seen = SeenLaunch(
            kernel=kernel,
            call=call,
            target=target,
            grid=done.launch.grid,
            options=options_of_launch(kernel, {**backend_options(target), **call.options}),
            start=start,
            nanoseconds=observer.nanoseconds,
            operations=measured(observer, math.prod(done.launch.grid)),
        )
        for session in self._sessions:
            session.saw(seen)
        return done

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        for session in self._sessions:
            session.enter(name, metrics)

    def measured(self, metrics: Mapping[str, float]) -> None:
        for session in self._sessions:
            session.measured(metrics)

    def leave(self) -> None:
        for session in self._sessions:
            session.leave()


_watch = _Watch()


def _title(file: str, line: int, own_file: str) -> str:
    """The name of a line's scope: number and text, after the file's name if it is a helper's."""
    text = source_line(file, line).strip()
    place = str(line) if file == own_file else f"{Path(file).name}:{line}"
    return f"{place}: {text}" if text else place


def versions(**others: str) -> dict[str, str]:
    """Package -> version: those of every profile, and others."""
    own = {"kernellab": kernellab_version(), "triton": triton.__version__}
    return {**own, "python": platform.python_version(), **others}


_OURS = str(Path(__file__).parents[2])
_MOST_FRAMES = 64


def _frames() -> list[tuple[str, str, int]]:
    stack = ((at.f_code, line) for at, line in traceback.walk_stack(sys._getframe(1)))
    users = (
        (code.co_filename, code.co_name, line)
        for code, line in stack
        if not code.co_filename.startswith((_OURS, "<frozen"))
        and not is_in_library(code.co_filename)
    )
    return list(itertools.islice(users, _MOST_FRAMES))[::-1]
