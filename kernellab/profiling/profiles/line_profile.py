"""Cycles of every line of a kernel, from a launch of a marked copy on a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy
import numpy.typing as npt
import torch
import triton
from triton.testing import do_bench_cudagraph

from kernellab import triton_api
from kernellab.common.system import gpu_fault
from kernellab.common.text import counted
from kernellab.compiler.targets import local_target
from kernellab.errors import GpuFault, NoGpu, ProfileError, UnsupportedOperation, compiled_text
from kernellab.launch.argument_copies import tensors_in
from kernellab.launch.preparation import EntryPoint, Grid, PreparedLaunch, prepare
from kernellab.profiling.profiles import line_marks, records
from kernellab.profiling.profiles.profile import Profile
from kernellab.records.launches import RUN_OPTION_NAMES
from kernellab.triton_api import definition_of, load, proton

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Readings:
    """The clock as the warps of some programs read it. Arrays begin with a program and a warp."""

    programs: Array
    """Each program's number in the grid, x fastest."""
    warps: tuple[int, ...]
    """Those that noted the clock."""
    taken: Array
    """How many readings each warp took; the newest were kept."""
    kept: Array
    """How many there are."""
    marks: Array
    """The mark of each reading, in the order in which they were taken."""
    clocks: Array
    """The low 32 bits of the multiprocessor's clock at each."""

    @property
    def lost(self) -> int:
        return int((self.taken - self.kept).sum())


def read(words: Array, memory: proton.ReadingMemory) -> Readings:
    """The readings in rows of uint32 words of programs. Raises ProfileError: they are damaged."""
    if len(words) == 0 or not (words[:, 0] == proton.MAGIC).all():
        raise ProfileError(
            "The readings of the launch are damaged: a program did not finish, or overwrote them."
        )
    warps = list(memory.noted)
    first = proton.HEADER_WORDS + memory.warps
    size = memory.readings
    taken = words[:, proton.HEADER_WORDS : first][:, warps].astype(numpy.int64) // 2
    kept = numpy.minimum(taken, size)
    noted = words[:, first : first + 2 * size * len(warps)].reshape(len(words), len(warps), size, 2)
    # The memory is a ring: if it is full, the oldest reading follows the newest.
    oldest = numpy.where(taken > size, taken % size, 0)
    most = int(kept.max(initial=0))
    at = (oldest[:, :, None] + numpy.arange(most)) % size
    return Readings(
        programs=words[:, 1].astype(numpy.int64),
        warps=tuple(warps),
        taken=taken,
        kept=kept,
        marks=proton.mark_of(numpy.take_along_axis(noted[..., 0], at, axis=2)).astype(numpy.int64),
        clocks=numpy.take_along_axis(noted[..., 1], at, axis=2),
    )


@dataclass(frozen=True)
class Spans:
    """The cycles of warps in scopes, one after the other: arrays of one entry each."""

    program: Array
    """Its place among the programs that were read."""
    warp: Array
    """Its place among the warps that noted the clock."""
    scope: Array
    start: Array
    """Cycles since the first reading of the program."""
    cycles: Array


def spans_of(readings: Readings, marks: Sequence[int | None]) -> Spans:
    """From each reading to the next one of the same warp."""
    scope_of_mark = numpy.full(512, -1)
    for number, scope in enumerate(marks):
        scope_of_mark[number] = -1 if scope is None else scope
    clocks = readings.clocks
    cycles = (clocks[:, :, 1:] - clocks[:, :, :-1]).astype(numpy.int64)  # the clock may go round
    many = readings.marks.shape[2]
    there = numpy.arange(max(many - 1, 0)) < readings.kept[:, :, None] - 1
    scopes = scope_of_mark[readings.marks[:, :, :-1]]
    program, warp, at = numpy.nonzero(there & (scopes >= 0))
    if not len(program):
        return Spans(program, warp, at, at, at)
    first = clocks[:, :, 0]
    has = readings.kept > 0
    base = numpy.where(has, first, 0)
    reference = base[numpy.arange(len(base)), has.argmax(axis=1)]
    offsets = (clocks - reference[:, None, None]).astype(numpy.int32).astype(numpy.int64)
    least = numpy.where(has, offsets[:, :, 0], numpy.iinfo(numpy.int64).max).min(axis=1)
    # Sums, since the clock may go round more than once.
    before = numpy.cumsum(cycles, axis=2) - cycles
    starts = offsets[:, :, :1] + before - least[:, None, None]
    chosen = program, warp, at
    return Spans(program, warp, scopes[chosen], starts[chosen], cycles[chosen])


# Launches on a GPU, plain and marked: memory for what warps note, the readings of some programs,
# and times.

ROUNDS = 3
METHOD = f"of a launch on the GPU, by events: medians of {ROUNDS} rounds, in turns"
METHOD_OF_SHORT = f"of a launch in a CUDA graph: medians of {ROUNDS} rounds, in turns"


class KeptArguments:
    """The contents of a launch's tensors, so that every launch begins with the same."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._now: dict[int, torch.Tensor] = {}
        for _, tensor in tensors_in(values):
            storage = tensor.detach().untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._now.setdefault(storage.data_ptr(), whole)
        self._first = self.contents()

    def contents(self) -> list[torch.Tensor]:
        """A copy of what the tensors hold."""
        return [tensor.clone() for tensor in self._now.values()]

    def restore(self, contents: Sequence[torch.Tensor] | None = None) -> None:
        """Give the tensors what they held first, or at another time."""
        for now, kept in zip(self._now.values(), self._first if contents is None else contents):
            now.copy_(kept)

    def hold(self, contents: Sequence[torch.Tensor]) -> bool:
        """Whether the tensors hold just that, bit for bit."""
        return all(map(torch.equal, self._now.values(), contents))


@dataclass
class PlainLaunch:
    """A kernel as it is, loaded, on one grid."""

    compiled: Any
    """Triton's own CompiledKernel."""
    grid: tuple[int, int, int]
    values: Sequence[Any]
    """The kernel's arguments, all of them, in order."""

    def __post_init__(self) -> None:
        load(self.compiled)

    def __call__(self) -> None:
        proton.launch_compiled(self.compiled, self.grid, self.values)


@dataclass
class MarkedLaunch:
    """A marked kernel, loaded, on one grid."""

    marked: line_marks.MarkedKernel
    grid: tuple[int, int, int]
    values: Sequence[Any]
    """The kernel's arguments, all of them, in order."""
    noted: torch.Tensor | None = field(default=None, init=False)
    """The records of the programs, one row of bytes for each."""

    def __post_init__(self) -> None:
        load(self.marked.compiled)

    def __call__(self) -> None:
        proton.launch_marked(self.marked.compiled, self.grid, self.values, self._memory)

    def _memory(self, size: int) -> torch.Tensor:
        if self.noted is None or self.noted.numel() != size:
            self.noted = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return self.noted

    def _rows(self) -> torch.Tensor:
        assert self.noted is not None, "the kernel was launched"
        return self.noted.view(-1, proton.scratch_bytes(self.marked.compiled)).view(torch.int32)

    def most_readings(self) -> int:
        """How many readings the busiest warp took, kept or not."""
        counts = self._rows()[
            :, proton.HEADER_WORDS : proton.HEADER_WORDS + self.marked.memory.warps
        ]
        return int(counts.max().item()) // 2

    def readings(self, programs: int) -> Readings:
        """The records of a number of programs, evenly spread over the grid."""
        rows = self._rows()
        some = min(programs, len(rows))
        chosen = torch.arange(some, device=rows.device) * len(rows) // max(some, 1)
        words = rows.index_select(0, chosen).cpu().numpy().view("uint32")
        return read(words, self.marked.memory)


def room_for_readings(programs: int, warps: int) -> int:
    """How many readings a warp may have within an eighth of free memory, and 2 GiB."""
    free, _ = torch.cuda.mem_get_info()
    return int(min(free // 8, 2 << 30) // (8 * programs * warps))


def times_in_turns(
    plain: Callable[[], None], marked: Callable[[], None], arguments: KeptArguments, depends: bool
) -> tuple[float, float]:
    """Microseconds of both on the GPU: medians of rounds, one after the other.

    Args:
        depends: whether a launch depends on an earlier one's results, which are then restored.
    """
    time = _by_events(arguments) if depends else _in_a_graph
    both = [(time(plain), time(marked)) for _ in range(ROUNDS)]
    of_plain, of_marked = map(statistics.median, zip(*both))
    return of_plain, of_marked


def _in_a_graph(launch: Callable[[], None]) -> float:
    return 1000 * float(do_bench_cudagraph(launch, rep=10, return_mode="median"))


def _by_events(arguments: KeptArguments) -> Callable[[Callable[[], None]], float]:
    def time(launch: Callable[[], None]) -> float:
        event: Any = torch.cuda.Event
        pairs = [[event(enable_timing=True) for _ in range(2)] for _ in range(20)]
        for begin, end in pairs:
            arguments.restore()
            begin.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        return 1000 * float(statistics.median(begin.elapsed_time(end) for begin, end in pairs))

    return time


@contextmanager
def gpu_faults_told(kernel: str) -> Iterator[None]:
    """Raise a clear error for a launch that fails on the GPU or runs out of its memory.

    Raises:
        ProfileError: the GPU does not have enough memory.
        GpuFault: the launch failed.
    """
    try:
        yield
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        raise ProfileError(
            f"The GPU does not have enough memory to profile {kernel!r}, which needs copies of its "
            f"tensors and the readings of its warps: {error}",
            advice="Profile it on smaller tensors.",
        ) from error
    except RuntimeError as error:
        if (died := gpu_fault(error)) is None:
            raise
        raise GpuFault(
            f"The launch of {kernel!r} failed on the GPU while it was profiled ({died}).",
            advice="This process cannot use the GPU any more: restart it, and launch inside of "
            "kernellab.guarded_launches(), which reports the line and the element.",
            kernel=kernel,
        ) from error


# What a marked launch noted, as a `Profile`: lines, a tree, events, and what is to be known.


@dataclass(frozen=True)
class Measured:
    """One marked launch, and what it noted."""

    marked: line_marks.MarkedKernel
    grid: tuple[int, int, int]
    readings: Readings
    perturbation: records.Perturbation

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.marked.plain.compilation.kernel


def profile_of(measured: Measured, notes: Sequence[str] = ()) -> Profile:
    """The profile of a marked launch: lines of one operation, with their part of the kernel."""
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
        records.ProfiledLine(
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
    kernel = records.ProfiledKernel(
        measured.name,
        options={
            **{name: compilation.options[name] for name in ("num_warps", "num_stages")},
            **marked.plain.call.options,
        },
        code=records.code_hash(compilation.stages),
        file=position.file,
        line=position.line,
        source=compiled_text(position.file, position.line),
        grid=measured.grid,
        compile=lambda: compilation,
    )
    time = {records.TIME: 1000 * measured.perturbation.plain_us, records.COUNT: 1.0}
    tree = records.Scope(measured.name, "kernel", time, _parts(scopes, spans))
    return Profile(
        measured_by=records.LINE_SCOPES,
        root=records.Scope("ROOT", "root", children=(tree,)),
        machine=records.Machine(
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


def operation_in_words(scope: line_marks.Scope) -> str:
    """ "async copy" in a loop or in a kernel without any, "async copy, prologue" before one."""
    outside = scope.part and not scope.part.startswith("loop ")
    return f"{scope.operation}, {scope.part}" if outside else scope.operation


def _named(line: int, operation: str) -> str:
    return f"{line}: {operation}" if line else operation


def _parts(scopes: Sequence[line_marks.Scope], spans: Spans) -> tuple[records.Scope, ...]:
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
            records.Scope(name, "line", {"cycles": took, "executions": times})
            for name, (took, times) in lines.items()
        )
        for part, lines in parts.items()
    }
    if set(made) == {""}:
        return made[""]
    return tuple(records.Scope(part, "scope", {}, lines) for part, lines in made.items())


def _events(spans: Spans, rows: Array, readings: Readings, names: Sequence[str]) -> records.Events:
    """Each span: a program's cycles begin with its own first."""
    warps = numpy.array(readings.warps, numpy.int64)
    return records.Events(
        program=readings.programs[spans.program],
        warp=warps[spans.warp],
        scope=rows,
        start=spans.start,
        end=spans.start + spans.cycles,
        names=tuple(names),
    )


def _notes(measured: Measured) -> list[str]:
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


def who_notes(marked: line_marks.MarkedKernel) -> str:
    """The warps that noted the clock, in words."""
    noting = marked.memory.noting
    if not noting:
        return "all warps"
    return f"{counted(len(noting), 'warp')} ({', '.join(map(str, noting))})"


MOST = 1.3
"""Times the plain launch: a profile that takes longer gives way to a coarser one."""

_MANY = 256
"""Readings of a warp, where loops make it uncertain how many there will be."""


@dataclass(frozen=True)
class LineOptions:
    """The options of `kernellab.profile` for cycles by line.

    Attributes:
        detail: one of `DETAILS`; None for the finest within 1.3 times the plain launch's time.
        allow_occupancy_change: whether marks may change how many programs an SM holds.
        programs: of how many, evenly spread over the grid, the clock's readings are taken.
    """

    detail: line_marks.Detail | None = None
    allow_occupancy_change: bool = False
    programs: int = 64


PROFILE = EntryPoint(
    "profile",
    refuses=dict.fromkeys(
        RUN_OPTION_NAMES, "the launch is profiled on the GPU, and only the interpreter takes it."
    ),
    on_gpu="bound",
)


def profile_on_gpu(
    kernel: Any, grid: Grid, args: Sequence[Any], keywords: Mapping[str, Any], options: LineOptions
) -> Profile:
    """Launch a kernel with marks between its operations, and sum what its warps noted by line.

    The tensors are left as one plain launch leaves them.

    Raises:
        ArgumentError, OptionError, GridError, CompileError: as for a launch.
        UnsupportedOperation: the kernel cannot have marks, or not without a change of occupancy.
        ProfileError: the GPU does not have enough memory.
        GpuFault: the launch failed there.
        NoGpu: there is none.
    """
    target = local_target()
    if target is None:
        raise NoGpu("Cycles by line are measured on a GPU, and there is none here.")
    prepared = prepare(kernel, grid, args, dict(keywords), target, PROFILE)
    name = prepared.kernel.__name__
    with gpu_faults_told(name):
        return _Profiled(prepared, options).profile()


_Way = tuple[line_marks.Detail, tuple[int, ...]]
"""One way to put marks, and the warps that note; () for all."""


class _Profiled:
    """One launch, profiled."""

    def __init__(self, prepared: PreparedLaunch, options: LineOptions) -> None:
        self._prepared = prepared
        self._options = options
        self._grid = prepared.sizes()
        call = prepared.call
        self._values = [call.values[name] for name in prepared.kernel.arg_names]
        self._plain: line_marks.PlainKernel = line_marks.plain_kernel(
            prepared.kernel, call, prepared.target
        )
        compiled = triton_api.compile_natively(
            prepared.kernel, call.specialization, prepared.target, call.options, for_launch=True
        )
        self._launch = PlainLaunch(compiled, self._grid, self._values)
        self._notes: list[str] = []

    def profile(self) -> Profile:
        """Measure the launch; the tensors are left as after one plain launch."""
        arguments = KeptArguments(self._prepared.call.values)
        self._launch()
        results = arguments.contents()
        self._launch()
        depends = not arguments.hold(results)
        arguments.restore()
        self._launch()
        repeats = arguments.hold(results)
        if not repeats:
            self._notes.append(
                "the plain launch gives other results each time (the order of atomics, say), so "
                "what the marked one gave is not compared"
            )
        try:
            measured = self._best(arguments, results if repeats else None, depends)
        finally:
            arguments.restore(results)
        return profile_of(measured, self._notes)

    def _best(
        self, arguments: KeptArguments, results: Sequence[torch.Tensor] | None, depends: bool
    ) -> Measured:
        """The finest way that leaves the launch nearly as fast as it was; else the fastest."""
        tried: list[Measured] = []
        problems: list[UnsupportedOperation] = []
        for way in self._ways():
            try:
                tried.append(self._measured(way, arguments, results, depends))
            except UnsupportedOperation as error:
                problems.append(error)
                continue
            if tried[-1].perturbation.ratio <= MOST:
                break
        if not tried:
            raise problems[0]
        best = min(tried, key=lambda launch: max(launch.perturbation.ratio, MOST))
        if best is not tried[0]:
            self._notes.append(
                f"{_way(tried[0])} took {tried[0].perturbation.ratio:.2f} times the plain launch: "
                f"these are {_way(best)}"
            )
        self._notes += dict.fromkeys(error.problem for error in problems)
        return best

    def _ways(self) -> Iterator[_Way]:
        requested = self._options.detail
        one_warp = self._plain.warps == 1
        for detail in line_marks.DETAILS if requested is None else (requested,):
            yield detail, ()
            if not one_warp:
                yield detail, (0,)

    def _measured(
        self,
        way: _Way,
        arguments: KeptArguments,
        results: Sequence[torch.Tensor] | None,
        depends: bool,
    ) -> Measured:
        """The launch with marks of one way: its readings, and how much longer it took."""
        detail, _ = way
        launch = self._marked_launch(way, arguments)
        readings = launch.readings(self._options.programs)
        if results is not None and not arguments.hold(results):
            raise UnsupportedOperation(
                f"marks at {detail} change what {self._prepared.kernel.__name__!r} computes."
            )
        plain_us, marked_us = times_in_turns(self._launch, launch, arguments, depends)
        before, after = self._plain.compilation.resources, launch.marked.resources
        perturbation = records.Perturbation(
            plain_us,
            marked_us,
            METHOD if depends else METHOD_OF_SHORT,
            before.shared_bytes,
            after.shared_bytes,
            before.registers,
            after.registers,
            int(readings.kept.sum()),
            readings.lost,
        )
        return Measured(launch.marked, self._grid, readings, perturbation)

    def _marked_launch(self, way: _Way, arguments: KeptArguments) -> MarkedLaunch:
        """The launch, with memory for all readings of its warps if there is enough."""
        x, y, z = self._grid
        _, noting = way
        warps = len(noting) or self._plain.warps
        fitting_memory = room_for_readings(x * y * z, warps)
        marked = self._marked(way, max(2, min(_MANY, fitting_memory)))
        launch = MarkedLaunch(marked, self._grid, self._values)
        arguments.restore()
        launch()
        fitting = 1 << max(launch.most_readings() - 1, 1).bit_length()
        while fitting > fitting_memory and fitting > 2:
            fitting //= 2
        if fitting > marked.memory.readings:
            launch = MarkedLaunch(self._marked(way, fitting), self._grid, self._values)
            arguments.restore()
            launch()
        return launch

    def _marked(self, way: _Way, readings: int) -> line_marks.MarkedKernel:
        """The kernel with marks. Raises UnsupportedOperation: fewer programs run at once."""
        detail, noting = way
        marked = line_marks.marked_kernel(self._plain, detail, readings, noting)
        if self._options.allow_occupancy_change:
            return marked
        marked = line_marks.within_occupancy(marked)
        at_once = marked.programs_at_once()
        if at_once is not None and at_once[1] != at_once[0]:
            raise UnsupportedOperation(
                f"with marks at {detail} a multiprocessor holds "
                f"{counted(at_once[1], 'program')} of {self._prepared.kernel.__name__!r}, and "
                f"without {at_once[0]}: {', '.join(marked.changes)}.",
                advice="allow_occupancy_change=True profiles it anyway; the times are then for a "
                "different number of concurrent programs.",
            )
        return marked


def _way(measured: Measured) -> str:
    """ "marks at operations of all warps"."""
    return f"marks at {measured.marked.detail} of {who_notes(measured.marked)}"
