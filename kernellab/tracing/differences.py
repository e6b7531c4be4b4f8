"""Where two runs first part: two traces, or a trace and what a launch elsewhere left in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy
import torch

from kernellab.common.text import counted, index_text
from kernellab.compiler.arguments import array_of
from kernellab.errors import ArgumentError, suggestion
from kernellab.launch.results import Tolerances, compare, relative_tolerance
from kernellab.records.launches import Difference
from kernellab.tracing.steps import Frame, Program, Step
from kernellab.tracing.values import TilePointer, dtype_named

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

Parting = Literal["value", "shape", "path", "output"]


@dataclass(frozen=True, eq=False)
class TraceDifference(Difference):
    """Where two runs first differ; false if they agree. `actual` is of the first run, and
    `expected` of the other; of runs that take different ways, both are lines as text.

    Attributes:
        kind: "value", "shape" (of a variable), "path" (of a run), "output" (an element), or None.
        step: of the first trace; of an output, the last step that wrote the element.
        other_step: of the second trace, if there is one.
        compared: how many values were compared before, and agree.
        not_compared: variables that only one of the runs has.
        programs: those compared, if they are not the whole grid; else ().
        obstacle: why there was nothing to compare; "" if something was.
    """

    kind: Parting | None = None
    step: Step | None = None
    other_step: Step | None = None
    compared: int = 0
    not_compared: tuple[str, ...] = field(default=())
    programs: tuple[Program, ...] = field(default=())
    obstacle: str = ""

    def __bool__(self) -> bool:
        return self.kind is not None

    def __repr__(self) -> str:
        lines = [self._what(), *self._where()]
        if not self and not self.obstacle:
            lines.append(f"  {counted(self.compared, 'value')} compared")
        elif self and self.kind != "output":
            lines.append(f"  {self.compared:,} values before it agree")
        if self.not_compared:
            lines.append(f"  only one of the runs has {', '.join(self.not_compared)}")
        return "\n".join(lines)

    __str__ = __repr__

    def _what(self) -> str:
        place = f"{self.name}{index_text(self.index)}"
        match self.kind:
            case None:
                return self._agreement()
            case "path":
                return f"the runs take different paths: {self.actual} here, {self.expected} there"
            case "shape":
                return f"{self.name} has shape {self.actual} here, {self.expected} there"
            case _:
                parts = "they part" if self.kind == "value" else "the outputs differ"
                values = "{} here, {} there".format(*self.texts)
                return f"{parts} at {place}: {values}{self._how_many()}"

    def _agreement(self) -> str:
        if self.obstacle:
            return f"nothing could be compared: {self.obstacle}"
        match self.programs:
            case ():
                return "the runs agree"
            case (program,):
                return f"the runs agree in program {program}"
            case programs:
                return f"the runs agree in the {len(programs):,} programs that were traced"

    def _how_many(self) -> str:
        if self.size <= 1:
            return ""
        by = f", by up to {self.largest:.3g}" if self.largest else ""
        return f" ({self.count:,} of {self.size:,} elements differ{by})"

    def _where(self) -> Iterator[str]:
        for word, step in (("here", self.step), ("there", self.other_step)):
            if step is not None:
                turns = "".join(f", {iteration.of_line()}" for iteration in step.turns)
                called = "".join(f", called from line {call.line}" for call in step.calls)
                yield (
                    f"  {word}: step {step.number}, program {step.program}, "
                    f"{step.position}{called}{turns}"
                )
                excerpt = step.position.excerpt()
                if excerpt:
                    yield f"  {excerpt}"


def difference_of_traces(
    first: Trace, second: Trace, rtol: float | None, atol: float | None
) -> TraceDifference:
    """Compare variable by variable, by the k-th value that each program gave it."""
    others = set(second.facts.programs)
    programs = [program for program in first.facts.programs if program in others]
    if not programs:
        raise ArgumentError(
            f"The traces have no program in common: {_listed(first)} and {_listed(second)}.",
            advice="Trace the same programs of both launches: programs=...",
        )
    comparison = _Comparison(first, second, rtol, atol)
    for program in programs:
        parted = comparison.of_program(program)
        if parted is not None:
            return parted
    whole = _is_whole_grid(first, programs) and _is_whole_grid(second, programs)
    return comparison.result(TraceDifference(), programs=() if whole else tuple(programs))


class _Comparison:
    """Two traces, step by step; it ends where they diverge."""

    def __init__(self, first: Trace, second: Trace, rtol: float | None, atol: float | None) -> None:
        self._first, self._second = first, second
        self._asked = rtol, atol
        self._allowed = 0.0
        for name in first.arguments.keys() & second.arguments.keys():
            self._allow(first.arguments[name].dtype, second.arguments[name].dtype)
        self._ours, self._theirs = _Assignments(first), _Assignments(second)
        self._same_source = _source(first) == _source(second)
        self._only_one = _only_one(first, second)
        self._compared = 0

    def result(self, difference: TraceDifference, **facts: Any) -> TraceDifference:
        """What was found, with what was compared before."""
        obstacle = "" if difference or self._compared else "no variable got a value in both runs"
        return replace(
            difference,
            compared=self._compared,
            not_compared=self._only_one,
            obstacle=obstacle,
            **facts,
        )

    def _path(self, step: Step | None, other: Step | None) -> TraceDifference:
        ours, theirs = ("the end" if at is None else f"line {at.line}" for at in (step, other))
        return self.result(
            TraceDifference(kind="path", step=step, other_step=other, actual=ours, expected=theirs)
        )

    def _allow(self, ours: str, theirs: str) -> None:
        """From here on values may be as far off as the coarser of two dtypes makes them."""
        if ours and theirs and ours != theirs:
            coarser = max(relative_tolerance(dtype_named(each)) for each in (ours, theirs))
            self._allowed = max(self._allowed, coarser)

    def of_program(self, program: Program) -> TraceDifference | None:
        """Where the runs of a program diverge; None if they agree."""
        beside = iter(self._theirs.steps_of(program))
        for step in self._ours.steps_of(program):
            if self._same_source:
                other = next(beside, None)
                if other is None or (other.function, other.line) != (step.function, step.line):
                    return self._path(step, other)
            for name in step.changed_numbers:
                if name not in self._only_one:
                    parted = self._of_variable(step, name)
                    if parted is not None:
                        return parted
                    self._compared += 1
        longer = next(beside, None) if self._same_source else None
        return None if longer is None else self._path(None, longer)

    def _of_variable(self, step: Step, name: str) -> TraceDifference | None:
        other = self._theirs.following(step.program, step.frame, name)
        if other is None:
            missing = TraceDifference(name, (), f"another {name}", "none", kind="path", step=step)
            return self.result(missing)
        ours = step.values[step.changed_numbers[name]]
        theirs = other.values[other.changed_numbers[name]]
        if ours.digest == theirs.digest:
            return None
        self._allow(ours.dtype, theirs.dtype)
        parted = difference_of_values(
            name,
            self._first.exact(step.frame, name, step.number),
            self._second.exact(other.frame, name, other.number),
            Tolerances(*self._asked, parts=lambda: {name: self._allowed}),
        )
        return parted and self.result(parted, step=step, other_step=other)


class _Assignments:
    """A trace's steps by program, and the values of each variable in turn."""

    def __init__(self, trace: Trace) -> None:
        self._by_program: dict[Program, list[Step]] = {}
        changes: dict[tuple[Program, str, str], list[Step]] = {}
        for step in trace.steps:
            self._by_program.setdefault(step.program, []).append(step)
            for name in step.changed_numbers:
                changes.setdefault((step.program, _role(step.frame), name), []).append(step)
        self._by_variable = {key: iter(steps) for key, steps in changes.items()}

    def steps_of(self, program: Program) -> list[Step]:
        return self._by_program.get(program, [])

    def following(self, program: Program, frame: Frame, name: str) -> Step | None:
        """The next step that gave the variable of that name a value."""
        return next(self._by_variable.get((program, _role(frame), name), iter(())), None)


def _role(frame: Frame) -> str:
    """The key that matches frames of two kernels: the kernel itself is "the kernel" in both."""
    return frame.function if frame.caller is not None else ""


def _source(trace: Trace) -> frozenset[tuple[str, int, tuple[str, ...]]]:
    return frozenset((source.file, source.first_line, source.lines) for source in trace.sources)


def _only_one(first: Trace, second: Trace) -> tuple[str, ...]:
    names = [
        {name for step in trace.steps for name in step.changed_numbers} for trace in (first, second)
    ]
    return tuple(sorted(names[0] ^ names[1]))


def _is_whole_grid(trace: Trace, programs: Sequence[Program]) -> bool:
    return len(programs) == math.prod(trace.facts.grid)


def _listed(trace: Trace) -> str:
    programs = trace.facts.programs
    return f"{programs[0]}" if len(programs) == 1 else f"{programs[0]} to {programs[-1]}"


def difference_of_outputs(
    trace: Trace, expected: Mapping[str, Any], rtol: float | None, atol: float | None
) -> TraceDifference:
    """Compare the elements that the traced programs wrote; which was written first."""
    outputs = [_output(trace, name, value, rtol, atol) for name, value in expected.items()]
    compared = sum(output.compared for output in outputs)
    parted = [
        (output.step.number, place)
        for place, output in enumerate(outputs)
        if output.step is not None
    ]
    if parted:
        return outputs[min(parted)[1]]
    programs = () if _is_whole_grid(trace, trace.facts.programs) else tuple(trace.facts.programs)
    obstacle = ""
    if not expected:
        obstacle = "no argument was named"
    elif not compared:
        obstacle = f"the traced programs wrote no element of {' or '.join(expected)}"
    return TraceDifference(compared=compared, programs=programs, obstacle=obstacle)


def _output(
    trace: Trace, name: str, value: Any, rtol: float | None, atol: float | None
) -> TraceDifference:
    known = trace.arguments.get(name)
    if known is None:
        raise ArgumentError(
            f"The traced launch has no tensor argument {name!r}.",
            advice=suggestion(name, trace.arguments, "Arguments:"),
        )
    theirs = array_of(value) if isinstance(value, torch.Tensor) else numpy.asarray(value)
    if theirs.shape != known.shape:
        raise ArgumentError(
            f"{name!r} has shape {theirs.shape}, and {known.shape} in the launch that was traced."
        )
    contents, written = trace.final_memory(name), last_writers(trace, name)
    order = numpy.argsort(written, axis=None, kind="stable")[int((written < 0).sum()) :]
    sides = _as_tensor(contents), _as_tensor(theirs)
    part = trace.facts.roundings.get(name, relative_tolerance(contents.dtype))
    if contents.dtype != theirs.dtype:
        part = max(part, relative_tolerance(theirs.dtype))
    allowed = Tolerances(rtol, atol, parts=lambda: {name: part})(name, *sides)
    first, other = ({name: side.reshape(-1)[order]} for side in sides)
    apart = next(compare(first, other, lambda *_: allowed), None)
    if apart is None:
        return TraceDifference(compared=len(order))
    place = int(order[apart.index[0]])
    index = tuple(int(coordinate) for coordinate in numpy.unravel_index(place, known.shape))
    return TraceDifference(
        **{**vars(apart), "index": index},
        kind="output",
        step=trace.steps[int(written[index])],
        compared=len(order) - apart.count,
    )


def last_writers(trace: Trace, argument: str) -> numpy.ndarray:
    """The number of the last step that wrote each element of an argument; -1 for none."""
    known = trace.arguments[argument]
    writers = numpy.full(known.shape, -1, numpy.int64)
    for step in trace.steps:
        for access, further in step.writes(known, trace.arguments):
            _, numbers = known.numbered(access.elements + further)
            writers.reshape(-1)[numbers] = step.number
    return writers


def difference_of_values(
    name: str, ours: Any, theirs: Any, allowed: Tolerances
) -> TraceDifference | None:
    """Where two values of a variable differ; None if they agree."""
    if isinstance(ours, TilePointer) and isinstance(theirs, TilePointer):
        ours, theirs = ours.offsets, theirs.offsets
    numbers = numpy.ndarray | numpy.generic | bool | int | float
    if not isinstance(ours, numbers) or not isinstance(theirs, numbers):
        same = repr(ours) == repr(theirs)
        return None if same else TraceDifference(name, (), ours, theirs, 1, 1, kind="value")
    mine, others = numpy.asarray(ours), numpy.asarray(theirs)
    if mine.shape != others.shape:
        return TraceDifference(name, (), mine.shape, others.shape, kind="shape")
    for apart in compare({name: _as_tensor(mine)}, {name: _as_tensor(others)}, allowed):
        return TraceDifference(**vars(apart), kind="value")
    return None


def _as_tensor(array: numpy.ndarray) -> torch.Tensor:
    """Return integers as they are, and floats of any format as float64."""
    kept = array.dtype if array.dtype.kind in "biu" else numpy.float64
    return torch.from_numpy(numpy.array(array, kept))
