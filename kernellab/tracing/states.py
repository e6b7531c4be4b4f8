"""What a trace answers: all variables after a step, every value that one of them had, and what an
argument holds, followed from write to write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy
from numpy.lib.stride_tricks import as_strided

from kernellab.common.text import shown
from kernellab.tracing.steps import Frame, Step, TracedArgument, places_within
from kernellab.tracing.values import StoredValue, Summary

if TYPE_CHECKING:
    from kernellab.common.pandas_import import pandas
    from kernellab.tracing.records import Trace

# What a trace answers: all variables after a step, and every value that one of them had.


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
        frame: the call whose variable it is.
        stored: what was kept of the value.
    """

    trace: Trace = field(repr=False)
    step: Step | None
    frame: Frame
    name: str
    number: int

    @property
    def stored(self) -> StoredValue:
        """What was kept of the value: summary, thumbnail."""
        return self.trace.values[self.number]

    @property
    def value(self) -> Any:
        """The exact value, computed again where it was not kept."""
        return self.trace.exact(
            self.frame, self.name, -1 if self.step is None else self.step.number
        )


@dataclass(frozen=True, eq=False)
class History(Sequence[Change]):
    """Every value that a variable had, in order."""

    name: str
    changes: tuple[Change, ...]

    @overload
    def __getitem__(self, number: int) -> Change: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Change, ...]: ...
    def __getitem__(self, number: int | slice) -> Change | tuple[Change, ...]:
        return self.changes[number]

    def __len__(self) -> int:
        return len(self.changes)

    def table(self) -> pandas.DataFrame:
        """One row for each value: step, program, line, loop iterations, shape, dtype,
        range, mean, NaNs.
        """
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
"""So many times its elements an argument may span for the gaps between them to be kept too."""


class ReplayedMemory:
    """The memory of an argument, to which steps write.

    It lies here as in the launch, gaps included, so that an element's place needs no working out;
    in reading order where the gaps are too large, or strides go backwards.
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
        """Do what a step did; `arguments` are all there are.

        Raises NotRecorded where a write was too large to be kept.
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
        """What the argument holds now: an array of its shape, contiguous."""
        return numpy.asarray(self._contents, order="C")


def _span(argument: TracedArgument) -> int | None:
    """Elements from an argument's first to its last, both included; None where it has none, they
    are too many, or not all of them come after the first.
    """
    size = math.prod(argument.shape)
    if not size or min(argument.strides, default=0) < 0:
        return None
    reach = sum(stride * (extent - 1) for stride, extent in zip(argument.strides, argument.shape))
    return reach + 1 if reach < _MOST_GAPS * size else None
