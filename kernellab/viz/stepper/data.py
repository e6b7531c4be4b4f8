"""What the stepper draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from kernellab.viz.kit.data import ViewData


@dataclass(frozen=True)
class ElementsData:
    """Elements in the bytes of a `StepperView`."""

    dtype: str
    """"float32", "float64", "bool", "int8" to "int64", "uint8" to "uint64";
    narrower floats are float32 here."""
    at: int
    """Where the first is; elements lie one after the other, little-endian."""
    averaged: bool
    """Whether this is a small picture in which neighbors are averaged,
    and not the elements themselves."""
    rows: int
    columns: int
    """Of the picture. Elements themselves fill it in reading order,
    the last row maybe not to its end."""


@dataclass(frozen=True)
class StepValue:
    """A value that variables had; equal ones are here once."""

    type: str
    """ "float32[64, 64]"."""
    words: str
    """The value of a scalar, the range of a tile."""
    shape: tuple[int, ...]
    kept: Literal["constant", "exact", "summary"]
    """What the trace has of it; "constant" is a value that is not an array."""
    elements: ElementsData | None
    """None for what has none, and where they were left out."""
    left_out: str
    """Why there is not every element, in words; "" where there is."""
    in_kernel: bool
    """Whether a live kernel sends every element on request."""


@dataclass(frozen=True)
class StepSource:
    """A function that ran."""

    place: str
    """The name of its file, for readers."""
    first_line: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class StepFrame:
    """A call: of the kernel by a program, or of a helper."""

    function: str
    place: str
    source: int | None
    """Number in `StepperView.sources`; None where no source is known."""
    program: tuple[int, int, int]
    caller: int | None
    """Number in `StepperView.frames`, less than this one's."""
    called_from: str
    """The line of the call, in the caller; "" in the kernel itself."""
    parameters: tuple[str, ...]
    """Names that had a value when the call began."""
    given: Mapping[str, int]
    """Name -> number in `StepperView.values`, of what has a value before the first line
    that is shown."""


@dataclass(frozen=True)
class PlacesData:
    """Which elements of an argument, or cells of its picture:
    their numbers in reading order, ascending.
    """

    at: int
    """Where in the bytes of the view pairs of 32-bit integers are:
    the first of a run, and how many follow each other."""
    runs: int
    count: int


@dataclass(frozen=True)
class StepAccess:
    """An access to memory."""

    operation: Literal["load", "store", "atomic"]
    argument: int | None
    places: int | None
    """Number in `StepperView.places`."""
    words: str


@dataclass(frozen=True)
class StepWrite:
    """What elements of an argument, or cells of its picture, are after a step."""

    argument: int
    places: int
    at: int
    """Where in the bytes of the view their elements are, as the argument's."""
    words: str = ""
    """The range of the whole argument after it, if it has too many elements to be here and the view
    requested them; else ""."""


@dataclass(frozen=True)
class StepData:
    """One step."""

    frame: int
    line: int
    turns: tuple[str, ...]
    operation: str
    changed: Mapping[str, int]
    """Name -> number in `StepperView.values`."""
    accesses: tuple[StepAccess, ...]
    writes: tuple[StepWrite, ...]


@dataclass(frozen=True)
class ArgumentData:
    """A tensor of the launch."""

    name: str
    type: str
    words: str
    """Its range before the first step."""
    shape: tuple[int, ...]
    elements: ElementsData | None
    """Before the first step; None where there is nothing to see.
    Where they are averaged, places of accesses and writes are cells of the picture."""
    left_out: str
    """Why there is not every element, in words; "" where there is."""
    in_kernel: bool
    """Whether a live kernel sends every element on request."""


@dataclass(frozen=True)
class WrongData:
    """The first element of a tensor that does not have the expected value after the launch."""

    argument: int
    element: int
    """Its number in reading order."""
    name: str
    """ "z_ptr[3, 7]"."""
    expected: str
    """The value that it should have."""
    actual: str
    """The value that it has after the launch."""


@dataclass(frozen=True)
class ArgumentStep:
    """What one step does to one tensor."""

    places: tuple[int | None, ...]
    """Of each of its accesses to the tensor, in order, the number in `TensorPart.places`."""
    writes: tuple[StepWrite, ...]


@dataclass(frozen=True)
class TensorPart:
    """A tensor of a stepper's view with every element: what was left out to keep the view small.
    Its numbers are in separate bytes.
    """

    elements: ElementsData
    places: tuple[PlacesData, ...]
    steps: Mapping[int, ArgumentStep]
    """By places in `StepperView.steps`; only steps that access the tensor or find it changed."""


@dataclass(frozen=True)
class StepperView(ViewData):
    """What the stepper draws."""

    compression: ClassVar[int] = 4  # of numbers 6 makes a hundredth less, in four times the time

    kind: Literal["steps"]
    title: str
    kernel: str
    heading: str
    target: str
    """The GPU that was emulated."""
    unit: Literal["step", "operation"]
    grid: tuple[int, int, int]
    programs: tuple[tuple[int, int, int], ...]
    notes: tuple[str, ...]
    fault: str
    fault_step: int | None
    first: int
    """Number of the first step that is here."""
    step_count: int
    """Of the whole trace."""
    focus: int
    """Number of the step that is shown first."""
    sources: tuple[StepSource, ...]
    frames: tuple[StepFrame, ...]
    """The calls of the steps that are here, and those that led there."""
    values: tuple[StepValue, ...]
    places: tuple[PlacesData, ...]
    arguments: tuple[ArgumentData, ...]
    steps: tuple[StepData, ...]
    wrong: WrongData | None
    """None if results were not compared, or are as expected."""
    numbers: bytes
    """All elements; they are sent as a separate part."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """The elements apart."""
        return self, [self.numbers]
