"""The questions that a trace answers: variables after a step, arguments, an element's origin."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy
from numpy.lib.stride_tricks import as_strided

from kernellab.common.text import called, counted, element_text, index_text, number_text, shown
from kernellab.records.display import RowSequence
from kernellab.tracing.steps import (
    Access,
    Frame,
    Program,
    SourceText,
    Step,
    TracedArgument,
    places_within,
)
from kernellab.tracing.values import StoredValue, Summary

if TYPE_CHECKING:
    from kernellab.common.pandas_import import pandas
    from kernellab.tracing.records import Trace


class NoSuchVariable(AttributeError, KeyError):
    """A function has no variable of that name at that step."""

    def __init__(self, name: str, frame: Frame, step: int) -> None:
        self.name: str = name
        self._text = f"{frame.function} has no variable {shown(name)} after step {step}"
        super().__init__(self._text)

    def __str__(self) -> str:
        return self._text


class State(Mapping[str, Any]):
    """All variables of a function after a step, by name: `state.acc` or `state["acc"]`.

    A tile is a NumPy array, a pointer a TilePointer, a constexpr what it is.
    A variable hides a method of the same name; one called `keys` is `state["keys"]`.
    """

    def __init__(self, trace: Trace, step: Step, frame: Frame | None = None) -> None:
        self._trace = trace
        self._at = step
        self._frame = frame or step.frame

    def __getattribute__(self, name: str) -> Any:
        if name != "keys" and not name.startswith("_"):  # dict(state) asks for keys
            trace: Trace = object.__getattribute__(self, "_trace")
            frame: Frame = object.__getattribute__(self, "_frame")
            if (frame.number, name) in trace._changes:
                return self[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        return self._trace.exact(self._frame, name, self._at.number)

    def __iter__(self) -> Iterator[str]:
        return iter(self._trace.variables_at(self._frame, self._at.number))

    def __len__(self) -> int:
        return len(self._trace.variables_at(self._frame, self._at.number))

    @property
    def step(self) -> Step:
        """The step."""
        return self._at

    @property
    def summaries(self) -> dict[str, Summary]:
        """Shape, dtype, range of each variable; no value is computed again for it."""
        stored = self._trace.variables_at(self._frame, self._at.number)
        return {name: value.summary for name, value in stored.items()}

    @property
    def caller(self) -> State | None:
        """The variables of the function that called this one; None in the kernel."""
        outer = self._frame.caller
        return None if outer is None else State(self._trace, self._at, outer)

    def __repr__(self) -> str:
        stored = self._trace.variables_at(self._frame, self._at.number)
        head = f"{self._frame.function} after step {self._at.number}, line {self._at.line}:"
        return "\n".join(
            [head, *(f"  {name}: {value_text(value)}" for name, value in stored.items())]
        )


def value_text(value: StoredValue) -> str:
    """ "float32[64, 64] -1.5 .. 2", "int32 7", "1024"."""
    return value.text() if value.kind == "constant" else f"{value.type_text()} {value.text()}"


@dataclass(frozen=True, eq=False)
class Change:
    """One value that a variable was given.

    Attributes:
        step: where; None for a value that it had before the first line.
    """

    trace: Trace = field(repr=False)
    step: Step | None
    frame: Frame
    name: str
    number: int

    @property
    def stored(self) -> StoredValue:
        """The kept part of the value: summary, thumbnail."""
        return self.trace.values[self.number]

    @property
    def value(self) -> Any:
        """The exact value, computed again if it was not kept."""
        return self.trace.exact(
            self.frame, self.name, -1 if self.step is None else self.step.number
        )


@dataclass(frozen=True, eq=False)
class History(RowSequence[Change]):
    """Every value that a variable had, in order."""

    name: str
    changes: tuple[Change, ...]
    _rows = "changes"

    def table(self) -> pandas.DataFrame:
        """A row per value: step, program, line, iterations, shape, dtype, range, mean, NaNs."""
        from kernellab.common.pandas_import import pandas

        rows = []
        for change in self.changes:
            step, summary = change.step, change.stored.summary
            turns = () if step is None else step.turns
            rows.append(
                {
                    "step": -1 if step is None else step.number,
                    "program": change.frame.program,
                    "line": 0 if step is None else step.line,
                    "turns": tuple(iteration.number for iteration in turns),
                    "shape": summary.shape,
                    "dtype": summary.dtype,
                    "low": summary.low,
                    "high": summary.high,
                    "mean": summary.mean,
                    "nans": summary.nans,
                    "infinities": summary.infinities,
                }
            )
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        return f"{self.name}\n{self.table().to_string(index=False)}"


# What an argument holds, followed from write to write.


_MOST_GAPS = 4
"""Gaps between elements are kept if an argument spans at most this many times its elements."""


class ReplayedMemory:
    """The memory of an argument, to which steps write.

    It is laid out as in the launch, including gaps, so that an element's place is known. If the
    gaps are too large, or strides are negative, it is in reading order.
    """

    def __init__(self, argument: TracedArgument, contents: numpy.ndarray) -> None:
        """Memory of an argument that holds these contents, which nothing else uses."""
        self._argument = argument
        self._contents = contents
        self._flat = contents.reshape(-1)
        span = _span(argument)
        self._is_as_launched = argument.is_contiguous or span is not None
        if span is not None and not argument.is_contiguous:
            self._flat = numpy.zeros(span, contents.dtype)
            strides = [stride * contents.itemsize for stride in argument.strides]
            self._contents = as_strided(self._flat, argument.shape, strides)
            self._contents[...] = contents

    def write(self, step: Step, arguments: Mapping[str, TracedArgument]) -> None:
        """Repeat the writes of a step; `arguments` are all arguments.

        Raises NotRecorded if a write was too large to be kept.
        """
        for access, further in step.writes(self._argument, arguments):
            places, written = access.elements + further, access.written()
            if self._is_as_launched:
                inside, places = places_within(places, self._flat.size)
            else:
                inside, places = self._argument.numbered(places)
            kept = written if inside is None else written[inside]
            self._flat[places] = kept.view(self._flat.dtype)

    def contents(self) -> numpy.ndarray:
        """The argument's contents now: a contiguous array of its shape."""
        return numpy.asarray(self._contents, order="C")


def _span(argument: TracedArgument) -> int | None:
    """Elements from an argument's first to its last; None if none, too many, or reversed."""
    size = math.prod(argument.shape)
    if not size or min(argument.strides, default=0) < 0:
        return None
    reach = sum(stride * (extent - 1) for stride, extent in zip(argument.strides, argument.shape))
    return reach + 1 if reach < _MOST_GAPS * size else None


Lane = tuple[int, ...] | None
"""The position of an element in its tile; None if it is not known which elements count."""

Path = tuple[tuple[str, int], ...]
"""The variables that are being followed, each with the line that gave its value."""


@dataclass(frozen=True)
class Origin:
    """A value, the line that computed it, and what it was computed from.

    Attributes:
        name: "z_ptr[3]", "acc[3]".
        value: of the element, or of the whole tile if it is not known which elements count.
        step: the step that gave it; None for an argument and for what a function began with.
        source: the statement; of a loop or a branch, its first line.
        loads: the elements that the statement loads: "x_ptr[3] = 0.25".
        note: what is not shown of the causes.
    """

    name: str
    value: str
    step: Step | None
    source: str = ""
    loads: tuple[str, ...] = ()
    causes: tuple[Origin, ...] = ()
    note: str = ""

    @property
    def program(self) -> Program | None:
        """The program that computed it."""
        return None if self.step is None else self.step.program

    def walk(self) -> Iterator[Origin]:
        """Yield this origin, and all its causes."""
        yield self
        for cause in self.causes:
            yield from cause.walk()

    def __str__(self) -> str:
        head = "" if self.step is None else f"program {self.step.program}, step {self.step.number}"
        return "\n".join([f"{self._line()}  ({head})", *_tree(self.causes, "")])

    __repr__ = __str__

    def _line(self) -> str:
        said = f"{self.name} = {self.value}" if self.value else self.name
        if self.step is not None:
            turns = "".join(f", {turn.of_line()}" for turn in self.step.turns)
            said += f"  line {self.step.line}{turns}: {self.source}"
        if self.loads:
            said += f"  loads {', '.join(self.loads)}"
        return f"{said}  ({self.note})" if self.note else said


def _tree(origins: tuple[Origin, ...], indent: str) -> Iterator[str]:
    for place, origin in enumerate(origins):
        is_last = place == len(origins) - 1
        yield f"{indent}{'└─' if is_last else '├─'} {origin._line()}"
        yield from _tree(origin.causes, f"{indent}{'   ' if is_last else '│  '}")


def origin_of(
    trace: Trace, argument: TracedArgument, index: tuple[int, ...], end: int
) -> tuple[Origin | None, Collection[tuple[str, tuple[int, ...]]]]:
    """Return an element's origin before step number `end`, None if no step wrote it; and the
    elements that were loaded for it and that no step wrote before.
    """
    walk = _Slice(trace)
    return walk.stored(argument, argument.offset_of(index), end), walk.not_written


_MOST = 500
"""The most values that are followed."""


class _Slice:
    """The walk back through a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._seen: set[tuple[Any, ...]] = set()
        self._not_shown: set[tuple[Any, ...]] = set()
        """The earlier iterations of loops, of which the tree has only the loads."""
        self.not_written: dict[tuple[str, tuple[int, ...]], None] = {}
        self._sources = {(source.file, source.function): source for source in trace.sources}

    def stored(self, argument: TracedArgument, offset: int, end: int) -> Origin | None:
        """The origin of an element of memory."""
        for step in reversed(self._trace._writing(argument, 0, end)):
            for access, further in step.writes(argument, self._trace.arguments):
                lanes = _lanes_at(access, offset - further)
                if lanes:
                    lane = lanes[-1]
                    kept = access.values[access.written_number or 0].exact()
                    value = numpy.broadcast_to(kept, access.indices.shape)[lane]
                    name = _element(argument, offset)
                    origin = self._computed(name, number_text(value), step, lane, ())
                    if access.kind == "store" or len(lanes) < 2 or origin.note:
                        return origin
                    return replace(origin, note=f"{len(lanes)} elements of this tile update it")
        return None

    def _computed(self, name: str, value: str, step: Step, lane: Lane, path: Path) -> Origin:
        """A value that a step gave, with what its statement used."""
        source = self._sources.get((step.file, step.function))
        statement = None if source is None else _statements(source).get(step.line)
        if source is None or statement is None:
            return Origin(name, value, step, note="its source is not known")
        first = statement.lineno - 1
        last = first + 1 if hasattr(statement, "body") else statement.end_lineno
        text = " ".join(line.strip() for line in source.lines[first:last])
        key = (step.number, name, lane)
        if key in self._seen or len(self._seen) >= _MOST:
            note = "see above" if key in self._seen else f"no more than {_MOST} values are followed"
            return Origin(name, value, step, text, note=note)
        self._seen.add(key)
        loads, causes = self._loaded(step, lane)
        path = (*path, (name.partition("[")[0], step.line))
        helpers = self._returns(step, statement)
        for used, its in dict(uses(statement, lane, helpers)).items():
            if used in helpers:
                inner = helpers[used]
                causes.append(self._computed(f"{inner.function}(...)", "", inner, its, path))
            elif (
                origin := self._variable(step.frame, used, its, step.number - 1, path)
            ) is not None:
                causes.append(origin)
        causes += self._deciding(step, source, path)
        for operation in self._trace.asynchronous:
            buffers = [each for each in operation.buffers if each.partition("[")[0] == name]
            if operation.completed == step.number and operation.writes and buffers:
                issued = self._trace.steps[operation.issued]
                causes.append(self._computed(buffers[0], "", issued, None, ()))
        return Origin(name, value, step, text, tuple(loads), tuple(causes))

    def _deciding(self, step: Step, source: SourceText, path: Path) -> Iterator[Origin]:
        """The variables that decided that a step ran: of the branches and loops around it."""
        for line, test in _tests_around(source, step.line):
            before = next(
                (each.number for each in reversed(self._trace.steps[: step.number])
                 if each.frame is step.frame and each.line == line), None,
            )  # fmt: skip
            if before is None:
                continue
            for used in dict(uses(test, None, ())):
                origin = self._variable(step.frame, used, None, before, path)
                if origin is not None and origin.step is not None:
                    yield origin

    def _variable(
        self, frame: Frame, name: str, lane: Lane, before: int, path: Path
    ) -> Origin | None:
        """The value of a variable after a step; None for others, and for a tensor's pointer."""
        try:
            origin, number = self._trace._latest(frame, name, before)
        except NoSuchVariable:
            return None
        stored = self._trace.values[number]
        if origin < 0 and stored.kind == "pointer":
            return None
        value, place = self._value(frame, name, before, lane)
        named = element_text(name, place) if place else name
        if origin < 0:
            causes = tuple(self._given(frame, name, lane, before, path))
            if len(causes) == 1 and causes[0].value == value:
                return causes[0]
            return Origin(named, value, None, causes=causes, note="" if causes else "an argument")
        step = self._trace.steps[origin]
        if (name, step.line) in path:
            return self._before_turns(frame, name, lane, step, path)
        return self._computed(named, value, step, place if place or lane is None else lane, path)

    def _before_turns(
        self, frame: Frame, name: str, lane: Lane, step: Step, path: Path
    ) -> Origin | None:
        """The value that a variable had before the turns of a loop in which one line changed it."""
        place, turns, loads = step, 0, dict[str, None]()
        shown, self._seen = self._seen, self._seen | self._not_shown
        while place.line == step.line:
            turns += 1
            loads |= dict.fromkeys(self._loads_behind(place, name, lane, path))
            try:
                origin, _ = self._trace._latest(frame, name, place.number - 1)
            except NoSuchVariable:  # each turn sets it anew
                return None
            if origin < 0:
                break
            place = self._trace.steps[origin]
        is_cut = len(self._seen) >= _MOST
        self._not_shown, self._seen = self._not_shown | self._seen, shown
        began = self._variable(frame, name, lane, place.number, path)
        note = f"{counted(turns, 'earlier iteration')} of line {step.line}"
        if is_cut:
            note += f"; no more than {_MOST} values are followed"
        return (
            None
            if began is None
            else Origin(name, "", None, note=note, loads=tuple(loads), causes=(began,))
        )

    def _loads_behind(self, step: Step, name: str, lane: Lane, path: Path) -> Iterator[str]:
        """The loads of a step, and the loads for the variables that it uses besides one."""
        loads, origins = self._loaded(step, lane)
        yield from loads
        source = self._sources.get((step.file, step.function))
        statement = None if source is None else _statements(source).get(step.line)
        helpers = {} if statement is None else self._returns(step, statement)
        used = {} if statement is None else dict(uses(statement, lane, helpers))
        for other, its in used.items():
            if other in helpers:
                origins.append(self._computed(other, "", helpers[other], its, path))
            elif other != name:
                origin = self._variable(step.frame, other, its, step.number - 1, path)
                origins += [] if origin is None else [origin]
        for behind in origins:
            yield from (load for each in behind.walk() for load in each.loads)

    def _value(self, frame: Frame, name: str, step: int, lane: Lane) -> tuple[str, Lane]:
        """The text of a variable's value, and the position of the element that it is of."""
        stored = self._trace.values[self._trace._latest(frame, name, step)[1]]
        place = None if lane is None else lane_within(lane, stored.shape)
        if stored.kind == "constant" or (place is None and stored.shape):
            return (stored.text() if stored.kind == "constant" else stored.type_text()), None
        exact = self._trace.exact(frame, name, step)
        array = numpy.asarray(exact.offsets if stored.kind == "pointer" else exact)
        text = number_text(array[place or ()])
        return (f"{stored.argument} + {text}" if stored.kind == "pointer" else text), place

    def _loaded(self, step: Step, lane: Lane) -> tuple[list[str], list[Origin]]:
        """The elements loaded for an element, and the origins of those that were written before."""
        loads, origins = [], []
        for access in step.accesses:
            argument = self._trace.arguments.get(access.argument)
            if access.kind == "store" or argument is None or not access.has_elements:
                continue
            place = None if lane is None else lane_within(lane, access.indices.shape)
            if place is None and access.indices.shape:
                loads.append(access.text().removeprefix(f"{access.kind} of "))
                continue
            place = place or ()
            mask = access.mask
            if mask is not None and not numpy.broadcast_to(mask, access.indices.shape)[place]:
                loads.append(f"nothing of {argument.name}, as the mask is off")
                continue
            offset = int(access.indices[place])
            loads.append(_element(argument, offset))
            before = self.stored(argument, offset, step.number)
            origins += [] if before is None else [before]
            inside, index = argument.coordinates(numpy.array([offset]))
            if before is None and inside.all():
                self.not_written[argument.name, tuple(int(axis[0]) for axis in index)] = None
        return loads, origins

    def _returns(self, step: Step, statement: ast.stmt) -> dict[str, Step]:
        """The last step of each function that a step called once, by name."""
        last: dict[int, Step] = {}
        number = step.number - 1
        while number >= 0 and (inner := self._trace.steps[number]).frame is not step.frame:
            if inner.frame.caller is step.frame:
                last.setdefault(inner.frame.number, inner)
            number -= 1
        names = [called(call) for call in ast.walk(statement) if isinstance(call, ast.Call)]
        return {
            inner.function: inner for inner in last.values() if names.count(inner.function) == 1
        }

    def _given(
        self, frame: Frame, name: str, lane: Lane, before: int, path: Path
    ) -> Iterator[Origin]:
        """What the argument of a helper was computed from, in the function that called it."""
        caller = frame.caller
        outer = None if caller is None else self._sources.get((caller.file, caller.function))
        own = self._sources.get((frame.file, frame.function))
        if caller is None or outer is None or own is None:
            return
        statement = _statements(outer).get(frame.call_line)
        given = None if statement is None else _argument_of(statement, own, name)
        for used, its in dict(uses(given, lane, ())).items() if given is not None else ():
            origin = self._variable(caller, used, its, before, path)
            if origin is not None:
                yield origin


def _argument_of(statement: ast.stmt, helper: SourceText, name: str) -> ast.expr | None:
    """The expression that a statement gives for a parameter of a helper that it calls."""
    definition = _statements(helper).get(helper.first_line)
    if not isinstance(definition, ast.FunctionDef):
        return None
    parameters = [each.arg for each in (*definition.args.posonlyargs, *definition.args.args)]
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and called(call) == helper.function:
            given = dict(zip(parameters, call.args))
            given |= {each.arg: each.value for each in call.keywords if each.arg is not None}
            return given.get(name)
    return None


def _element(argument: TracedArgument, offset: int) -> str:
    inside, place = argument.coordinates(numpy.array([offset]))
    if not inside.all():
        return f"{argument.name} + {offset}"
    return f"{argument.name}{index_text(int(axis[0]) for axis in place)}"


def _lanes_at(access: Access, offset: int) -> list[tuple[int, ...]]:
    """The lanes with which an access writes an element."""
    if not access.has_contents:
        return []
    here = access.indices == offset
    if access.mask is not None:
        here = here & access.mask
    return [tuple(int(place) for place in lane) for lane in numpy.argwhere(here)]


def lane_within(lane: tuple[int, ...], shape: tuple[int, ...]) -> Lane:
    """Return the position in a tile that broadcasts to one in a larger tile, or None."""
    if len(shape) > len(lane):
        return None
    place = tuple(0 if size == 1 else at for at, size in zip(lane[len(lane) - len(shape) :], shape))
    return place if all(at < size for at, size in zip(place, shape)) else None


# The variables of a statement


_BY_ELEMENT = (
    "load", "store", "where", "exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "abs",
    "sin", "cos", "erf", "sigmoid", "floor", "ceil", "maximum", "minimum", "fma", "clamp",
    "div_rn", "fdiv", "cdiv", "to", "cast", "multiple_of", "max_contiguous", "atomic_add",
    "atomic_max", "atomic_min", "atomic_xchg", "atomic_cas",
)  # fmt: skip
"""Functions whose element is made of the arguments' elements at the same position."""


def uses(node: ast.AST, lane: Lane, helpers: Collection[str]) -> Iterator[tuple[str, Lane]]:
    """Yield the variables that a statement or an expression reads, each with the position of the
    element that counts for the one at `lane`; and the functions of `helpers`, whose arguments are
    left out.
    """
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Store):
            yield node.id, lane
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            yield node.target.id, lane
        yield from uses(node.value, lane, helpers)
    elif isinstance(node, ast.Subscript):
        yield from uses(node.value, _before_subscript(node.slice, lane), helpers)
    elif isinstance(node, ast.Call) and called(node) in helpers:
        yield called(node), lane
    elif isinstance(node, ast.Call):
        inside = lane if called(node) in _BY_ELEMENT else None
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for given in (*owner, *node.args, *(keyword.value for keyword in node.keywords)):
            yield from uses(given, inside, helpers)
    elif isinstance(node, ast.For | ast.While | ast.If):
        head = node.iter if isinstance(node, ast.For) else node.test
        yield from uses(head, lane, helpers)
    else:
        for part in ast.iter_child_nodes(node):
            yield from uses(part, lane, helpers)


def _before_subscript(subscript: ast.expr, lane: Lane) -> Lane:
    """The position in a tile whose axes a subscript such as `[:, None]` spreads."""
    axes = subscript.elts if isinstance(subscript, ast.Tuple) else [subscript]
    if lane is None or len(axes) != len(lane):
        return None
    return tuple(at for at, axis in zip(lane, axes) if isinstance(axis, ast.Slice))


def _tests_around(source: SourceText, line: int) -> Iterator[tuple[int, ast.expr]]:
    """Yield the line and the test of each `if` and `while` around a line of a function."""
    offset = source.first_line - 1
    for node in {*_statements(source).values()}:
        if isinstance(node, ast.If | ast.While):
            inside = [*node.body, *node.orelse]
            if any(each.lineno <= line - offset <= (each.end_lineno or 0) for each in inside):
                yield node.lineno + offset, node.test


@lru_cache(maxsize=64)
def _statements(source: SourceText) -> Mapping[int, ast.stmt]:
    """Return the innermost statement at each line of a function, by the lines of its file."""
    statements: dict[int, ast.stmt] = {}
    for node in ast.walk(source.tree):  # outer statements before inner ones
        if isinstance(node, ast.stmt):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                statements[source.first_line + line - 1] = node
    return statements
