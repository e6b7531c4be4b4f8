"""A profile, as plain facts, and its events over time."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy

from kernellab.common.arguments import check_whole
from kernellab.common.saved_files import Amount, Count, Limits
from kernellab.common.system import save_whole, saved_path
from kernellab.common.text import counted
from kernellab.compiler.machine_code.cubin import sections
from kernellab.errors import ArchiveError, CompileError, OptionError, ProfileError
from kernellab.records.display import plot

# Several tools make profiles: Proton's sessions, scopes around the lines of a kernel, runs on the
# interpreter, files of other tools. `Profile.measured_by` names the tool, because their numbers
# differ in meaning.

PROTON, LINE_SCOPES, INTERPRETER = "proton", "cycles of line scopes", "interpreter"
"""Who measures here; profiles from elsewhere say their tool's name."""

TIME, COUNT = "time (ns)", "count"
"""The metrics of a kernel's launches, by Proton's names: nanoseconds, and how many."""

ScopeKind = Literal["root", "scope", "frame", "kernel", "line"]

IS_INTERPRETER = "interpreter: not a GPU's time"
"""The note with every number of a run on the CPU."""


@dataclass(frozen=True)
class Scope:
    """A node of a profile's tree."""

    name: str
    kind: ScopeKind
    """A scope that the user named, a frame of Python, a kernel, a line of a kernel."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Name -> number, without what is below: "time (ns)", "count", "flops16", "bytes", "cycles",
    "num_samples", whatever the user gave."""
    children: tuple[Scope, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """The facts that are not numbers: "device_id", "device_type"."""

    def walk(self) -> Iterator[Scope]:
        waiting = [self]
        while waiting:
            scope = waiting.pop()
            yield scope
            waiting.extend(reversed(scope.children))

    @functools.cached_property
    def totals(self) -> Mapping[str, float]:
        """Name of a metric -> its sum over the scope and all below it."""
        total = dict(self.metrics)
        for child in self.children:
            for name, number in child.totals.items():
                total[name] = total.get(name, 0) + number
        return total


@dataclass(eq=False)
class GrowingScope:
    """A scope whose metrics and children grow: what is measured again in a scope adds up."""

    name: str
    kind: ScopeKind
    metrics: dict[str, float] = field(default_factory=dict)
    children: dict[tuple[str, ScopeKind], GrowingScope] = field(default_factory=dict)

    def child(self, name: str, kind: ScopeKind) -> GrowingScope:
        return self.children.setdefault((name, kind), GrowingScope(name, kind))

    def add(self, metrics: Mapping[str, float]) -> None:
        for name, number in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + number

    def grown(self) -> Scope:
        inner = tuple(child.grown() for child in self.children.values())
        return Scope(self.name, self.kind, dict(self.metrics), inner)


@dataclass(frozen=True)
class Device:
    """A GPU as Proton describes it; 0 and "" if it is not known."""

    kind: str
    """ "CUDA", "HIP"."""
    index: str
    arch: str = ""
    """ "90", "gfx942"."""
    multiprocessors: Count = 0
    clock_khz: Count = 0
    memory_clock_khz: Count = 0
    bus_bits: Count = 0


@dataclass(frozen=True)
class Machine:
    """Where a profile was measured."""

    target: str = ""
    """ "sm_90": what the kernels were compiled for, or the interpreter emulated."""
    device: str = ""
    """ "NVIDIA H200"; "" if it is not known."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package -> version."""
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class ProfiledKernel:
    """A kernel of a profile."""

    name: str
    """As the scopes of its launches are called."""
    launches: Count = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of its launches: num_warps, num_stages, constants."""
    code: str = ""
    """The hash of its machine code, `code_hash`; "" if there is none."""
    file: str = ""
    """Where it is defined."""
    line: Count = 0
    source: str = ""
    """Its lines from that one on, as they were compiled; "" if they are not known."""
    grid: tuple[Count, Count, Count] | None = None
    """Of its last launch; None if it is not known."""
    integers: Mapping[str, int] = field(default_factory=dict)
    """Among the arguments of that launch, by name."""
    compile: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    """Makes its Compilation, if its source is at hand; files have none."""

    @functools.cached_property
    def compilation(self) -> Any:
        """Its Compilation, of the same machine code; None if its source is not at hand. Raises
        ProfileError: its source now gives other machine code.
        """
        if self.compile is None:
            return None
        compilation = self.compile()
        here = code_hash(compilation.stages) if self.code else ""
        if here != self.code:
            raise ProfileError(
                f"The source of {self.name!r} now compiles to other code than was profiled.",
                advice="Profile it again: the kernel, an option or Triton's version has changed.",
            )
        return compilation


def code_hash(stages: Mapping[str, Any]) -> str:
    """SHA-256 of the machine code among a kernel's stages; "" if there is none. Of a cubin the
    instructions count: debug information names folders of the machine that compiled.
    """
    for name in ("cubin", "hsaco"):
        if name in stages:
            content = getattr(stages[name], "content", stages[name])
            return hashlib.sha256(_code_in(content) if name == "cubin" else content).hexdigest()
    return ""


def _code_in(cubin: bytes) -> bytes:
    try:
        named = sections(cubin)
    except CompileError:  # no ELF file: a stand-in
        return cubin
    return b"".join(named[name].content for name in sorted(named) if name.startswith(".text"))


@dataclass(frozen=True)
class ProfiledLine:
    """An operation of a kernel's line, or all of the line, and what it took."""

    file: str
    line: Count
    operation: str
    """ "tt.load", "warp_group_dot_wait", ...; "" for all of the line."""
    share: Amount
    """Of the kernel's cycles, samples or time: which, the profile says."""
    cycles: float | None = None
    """Of all warps and programs that were measured."""
    executions: Count | None = None
    warps: Count | None = None
    """How many were measured."""
    programs: Count | None = None
    scope: Annotated[int, Limits(-1)] = -1
    """Its number among `Events.names`; -1 for none."""
    kernel: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Other numbers: "time (ns)", "bytes", "flops32", "stalled_long_scoreboard"."""


COLUMNS = ("program", "warp", "scope", "start", "end")
"""Of events."""


@dataclass(frozen=True, eq=False)
class Events:
    """Single executions of scopes, one column for each fact: integers of 64 bits, of one length."""

    program: numpy.ndarray
    """The linear id of the program; -1 for an event without a program."""
    warp: numpy.ndarray
    """Of the program; -1 for an event without a warp."""
    scope: numpy.ndarray
    """Its place in `names`."""
    start: numpy.ndarray
    end: numpy.ndarray
    names: tuple[str, ...]
    unit: Literal["cycles", "ns"] = "cycles"

    def __len__(self) -> int:
        return len(self.start)

    def at(self, places: numpy.ndarray) -> Events:
        return replace(self, **{name: getattr(self, name)[places] for name in COLUMNS})


@dataclass(frozen=True)
class Perturbation:
    """The effect of measuring on a launch."""

    plain_us: Amount
    instrumented_us: Amount
    method: str
    """How both were measured: "CUPTI, median of 20 launches each, in turns"."""
    shared_before: Count | None = None
    """Bytes of shared memory of one program."""
    shared_after: Count | None = None
    registers_before: Count | None = None
    registers_after: Count | None = None
    events_kept: Count | None = None
    events_lost: Count | None = None

    @property
    def ratio(self) -> float:
        """Instrumented over plain time."""
        return self.instrumented_us / self.plain_us if self.plain_us else float("nan")

    def __str__(self) -> str:
        parts = [
            f"{self.instrumented_us:,.1f} us instrumented, {self.plain_us:,.1f} us plain: "
            f"{self.ratio:.2f} times ({self.method})"
        ]
        if self.shared_before is not None and self.shared_after is not None:
            parts.append(f"shared memory {self.shared_before:,} to {self.shared_after:,} bytes")
        if self.registers_before is not None and self.registers_after is not None:
            parts.append(f"registers {self.registers_before} to {self.registers_after}")
        if self.events_kept is not None:
            lost = f", {self.events_lost:,} lost" if self.events_lost else ""
            parts.append(f"{counted(self.events_kept, 'event')} kept{lost}")
        return "; ".join(parts)


@dataclass(frozen=True)
class ProfileRecord:
    """The measurements of some launches; `Profile` adds the ways to look at them."""

    measured_by: str
    """ "proton", "cycles of line scopes", "interpreter", or the name of another tool."""
    root: Scope
    machine: Machine = field(default_factory=Machine)
    kernels: tuple[ProfiledKernel, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the reader: what is missing, and what the numbers do not mean."""
    line_records: tuple[ProfiledLine, ...] = ()
    events: Events | None = field(default=None, compare=False)
    perturbation: Perturbation | None = None
    """The effect of measuring; None if it was not measured."""
    name: str = ""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Events in the order of their starts."""

    title: str
    events: Events

    @classmethod
    def of(cls, record: ProfileRecord, program: int | None = None) -> Timeline:
        """The events of a profile, or those of one program.

        Raises:
            ProfileError: the profile has no events.
            OptionError: no event is of that program.
        """
        events = record.events
        if events is None or not len(events):
            raise ProfileError(
                f"The profile, measured by {record.measured_by}, has no events with times.",
                advice="Events are kept by kernellab.profile(kernel, grid, *args) on a GPU, by "
                'data="trace" of a session, and by runs on the interpreter.',
            )
        chosen = numpy.ones(len(events), bool)
        if program is not None:
            check_whole("program", program)
            chosen = events.program == program
            if not chosen.any():
                known = numpy.unique(events.program)
                raise OptionError(
                    f"The profile has no events of program {program}.",
                    advice=f"It has events of these programs: {', '.join(map(str, known[:8]))}"
                    f"{', ...' if len(known) > 8 else ''}.",
                )
        order = numpy.flatnonzero(chosen)
        order = order[numpy.argsort(events.start[order], kind="stable")]
        return cls(record.name or record.measured_by, events.at(order))

    @property
    def records(self) -> Any:
        """One row per event, as a pandas DataFrame: program, warp, scope, start, end, duration."""
        from kernellab.common.pandas_import import pandas

        events = self.events
        columns = {name: getattr(events, name) for name in COLUMNS}
        columns["scope"] = numpy.array(events.names, dtype=object)[events.scope]
        return pandas.DataFrame({**columns, "duration": events.end - events.start})

    def plot(self) -> Any:
        """The figure: warps downwards, time to the right."""
        return plot(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the events as a Chrome trace, which chrome://tracing and Perfetto open: a process
        for each program, a thread for each warp; of cycles, one is shown as a nanosecond. Raises
        ArchiveError: the file cannot be written.
        """
        file = saved_path(path, ArchiveError)
        return save_whole(file, chrome_trace(self.events).encode(), ArchiveError)

    def _repr_png_(self) -> bytes:
        picture: bytes = self.plot().png()
        return picture

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<Timeline of {self.title}: {len(self):,} events, in {self.events.unit}>"


def chrome_trace(events: Events) -> str:
    """Events as a Chrome trace: times in microseconds."""
    unit = f"1 {events.unit.rstrip('s')} = 1 ns"
    data = {
        "displayTimeUnit": "ns",
        "otherData": {"unit": events.unit if events.unit == "ns" else unit},
        "traceEvents": [*_names(events), *_complete(events)],
    }
    return json.dumps(data, separators=(",", ":"))


def _names(events: Events) -> Iterator[dict[str, Any]]:
    for program in numpy.unique(events.program).tolist():
        name = "launches" if program < 0 else f"program {program}"
        yield {"ph": "M", "name": "process_name", "pid": program + 1, "args": {"name": name}}


def _complete(events: Events) -> Iterator[dict[str, Any]]:
    first = int(events.start.min()) if len(events) else 0
    columns = (getattr(events, name).tolist() for name in COLUMNS)
    for program, warp, scope, start, end in zip(*columns):
        yield {
            "ph": "X",
            "name": events.names[scope],
            "cat": "kernel" if program < 0 else "scope",
            "pid": program + 1,
            "tid": warp + 1,
            "ts": (start - first) / 1000,
            "dur": (end - start) / 1000,
        }
