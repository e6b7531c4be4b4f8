"""What a marked launch noted, as a `Profile`: lines, a tree, events, and what is to be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
import triton

from kernellab.common.formatting import counted
from kernellab.profiling.line_scopes.marking import MarkedKernel
from kernellab.profiling.line_scopes.placing import Scope as LineScope
from kernellab.profiling.line_scopes.readings import Array, Readings, Spans, spans_of
from kernellab.profiling.profiles.profile import Profile
from kernellab.profiling.profiles.records import (
    COUNT,
    LINE_SCOPES,
    TIME,
    Events,
    Machine,
    Perturbation,
    ProfiledKernel,
    ProfiledLine,
    Scope,
    code_hash,
)
from kernellab.triton_api import definition_of


@dataclass(frozen=True)
class Measured:
    """One marked launch, and what it noted."""

    marked: MarkedKernel
    grid: tuple[int, int, int]
    readings: Readings
    perturbation: Perturbation

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.marked.plain.compilation.kernel


def profile_of(measured: Measured, notes: Sequence[str] = ()) -> Profile:
    """The profile of a marked launch.

    Lines are those of one operation each, with the part of the kernel if it is outside of
    its loops: "async copy, prologue".
    """
    marked, readings = measured.marked, measured.readings
    compilation = marked.plain.compilation
    scopes = marked.module.scopes
    spans = spans_of(readings, marked.module.marks)
    places = list(dict.fromkeys((scope.line, operation_in_words(scope)) for scope in scopes))
    place_of = numpy.array(
        [places.index((scope.line, operation_in_words(scope))) for scope in scopes], numpy.int64
    )
    rows = place_of[spans.scope]
    cycles = numpy.bincount(rows, spans.cycles, len(places))
    executions = numpy.bincount(rows, minlength=len(places))
    position = definition_of(marked.plain.kernel)
    lines = tuple(
        ProfiledLine(
            file=position.file,
            line=line,
            operation=operation,
            share=float(cycles[number] / max(cycles.sum(), 1)),
            cycles=float(cycles[number]),
            executions=int(executions[number]),
            warps=len(readings.warps),
            programs=len(readings.programs),
            scope=number,
            kernel=measured.name,
        )
        for number, (line, operation) in enumerate(places)
        if executions[number]
    )
    kernel = ProfiledKernel(
        measured.name,
        options={
            **{name: compilation.options[name] for name in ("num_warps", "num_stages")},
            **marked.plain.call.options,
        },
        code=code_hash(compilation.stages),
        file=position.file,
        line=position.line,
        compile=lambda: compilation,
    )
    time = {TIME: 1000 * measured.perturbation.plain_us, COUNT: 1.0}
    tree = Scope(measured.name, "kernel", time, _parts(scopes, spans))
    return Profile(
        measured_by=LINE_SCOPES,
        root=Scope("ROOT", "root", children=(tree,)),
        machine=Machine(
            str(compilation.target),
            torch.cuda.get_device_name() if torch.cuda.is_available() else "",
            {"triton": triton.__version__, "torch": torch.__version__},
        ),
        kernels=(kernel,),
        notes=(*_notes(measured), *notes),
        line_records=lines,
        events=_events(spans, rows, readings, [_named(line, what) for line, what in places]),
        perturbation=measured.perturbation,
        name=measured.name,
    )


def operation_in_words(scope: LineScope) -> str:
    """ "async copy" in a loop or in a kernel without any, "async copy, prologue" before one."""
    outside = scope.part and not scope.part.startswith("loop ")
    return f"{scope.operation}, {scope.part}" if outside else scope.operation


def _named(line: int, operation: str) -> str:
    return f"{line}: {operation}" if line else operation


def _parts(scopes: Sequence[LineScope], spans: Spans) -> tuple[Scope, ...]:
    """The parts of the kernel, prologue, loops and so on, with their lines below them."""
    cycles = numpy.bincount(spans.scope, spans.cycles, len(scopes))
    executions = numpy.bincount(spans.scope, minlength=len(scopes))
    parts: dict[str, dict[str, list[float]]] = {}
    for scope in scopes:
        if executions[scope.number]:
            lines = parts.setdefault(scope.part, {})
            so_far = lines.setdefault(_named(scope.line, scope.operation), [0.0, 0.0])
            so_far[0] += float(cycles[scope.number])
            so_far[1] += float(executions[scope.number])
    made = {
        part: tuple(
            Scope(name, "line", {"cycles": took, "executions": times})
            for name, (took, times) in lines.items()
        )
        for part, lines in parts.items()
    }
    if set(made) == {""}:
        return made[""]
    return tuple(Scope(part, "scope", {}, lines) for part, lines in made.items())


def _events(spans: Spans, rows: Array, readings: Readings, names: Sequence[str]) -> Events:
    """Each span: a program's cycles begin with its own first."""
    warps = numpy.array(readings.warps, numpy.int64)
    return Events(
        program=readings.programs[spans.program],
        warp=warps[spans.warp],
        scope=rows,
        start=spans.start,
        end=spans.start + spans.cycles,
        names=tuple(names),
    )


def _notes(measured: Measured) -> list[str]:
    """What the numbers are of, and what the marks changed."""
    readings, marked = measured.readings, measured.marked
    x, y, z = measured.grid
    programs = x * y * z
    notes = []
    if len(readings.programs) < programs:
        notes.append(
            f"of {len(readings.programs):,} of {programs:,} programs, evenly spread over the grid"
        )
    if len(readings.warps) < marked.plain.warps:
        notes.append(f"of {who_notes(marked)} of each program's {marked.plain.warps}")
    if readings.lost:
        notes.append(
            f"{readings.lost:,} of {int(readings.taken.sum()):,} readings of the clock did not "
            "fit: cycles and executions are of the newest"
        )
    if '"ttg.warp_specialize"' in marked.plain.generic:
        notes.append(
            "the kernel is warp-specialized: these are the cycles of its default warps, and its "
            "partitions have no marks"
        )
    if marked.changes:
        notes.append(f"with marks a program takes {', '.join(marked.changes)}")
    notes += [
        f"line {scope.line} ({scope.operation}) is the first to use what line "
        f"{', '.join(map(str, scope.waits_for))} loads: the wait for that data is counted there"
        for scope in marked.module.scopes
        if scope.waits_for and scope.waits_for != (scope.line,)
    ]
    return notes


def who_notes(marked: MarkedKernel) -> str:
    """The warps that noted the clock, in words."""
    noting = marked.memory.noting
    if not noting:
        return "all warps"
    return f"{counted(len(noting), 'warp')} ({', '.join(map(str, noting))})"
