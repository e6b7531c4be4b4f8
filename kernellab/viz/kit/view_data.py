"""What views draw, as plain data: the contract between Python and the TypeScript in `js/`.

`tools/view_types.py` writes `js/src/data.ts` from these classes; a test holds the two together.
The widget, the self-contained page and the still of a saved notebook are made from the same object.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["changed", "locations", "unchanged", "failed"]
"""What a pass did to the module: its text, only its locations, nothing;
the last is of the pass that ended a compilation."""
Memory = Literal["registers", "shared memory", "tensor memory"]
Severity = Literal["error", "warning", "remark", "note"]
Standing = Literal["best", "tied", "behind", "untimed", "dropped"]
"""Of a config: the fastest, not to be told from it, slower, never timed, out of the race."""


@dataclass(frozen=True)
class TextData:
    """A text as it is shown: without what says where it came from."""

    language: str
    content: str | None
    """None where it travels as a part of its own, or was left out to keep the data small:
    then the view asks the kernel for it."""
    part: int
    """Number of the part that holds it (see `packed`); 0 for none."""
    line_count: int
    skipped: tuple[int, ...]
    """Numbers of the full text's lines that are not shown, as far as shown lines follow them;
    lines keep their numbers."""


@dataclass(frozen=True)
class StageData:
    """One stage with a text."""

    name: str
    text: int
    """Number in `IrSide.texts`."""


@dataclass(frozen=True)
class PassData:
    """One pass, and the text after it."""

    label: str
    stage: str
    name: str
    arguments: str
    effect: Effect
    seconds: float
    ops_before: int
    """0 where there is no module of MLIR."""
    ops_after: int
    op_changes: Mapping[str, int]
    """Operation -> how many more of them there are after it."""
    text: int
    place: str
    """The name under which the source map knows the text after it."""


@dataclass(frozen=True)
class SourceMapData:
    """`SourceMap.to_json`, with the text after each pass as a further stage."""

    file: str
    files: tuple[str, ...]
    chains: tuple[tuple[int, ...], ...]
    origins: Mapping[str, tuple[int | tuple[int, ...], ...]]
    links: Mapping[str, tuple[int | tuple[int, ...], ...]]


@dataclass(frozen=True)
class MarginNote:
    """Something said of a line of the kernel: a remark of the compiler, a finding, an error."""

    severity: Severity
    words: str
    origin: str
    line: int
    """In the kernel's file, whose numbers the source text has;
    0 where it speaks of the whole kernel."""
    advice: str = ""
    """What to try; "" where there is nothing to say."""
    said: str = ""
    """The compiler's own words, where `words` say the same in plainer ones."""


@dataclass(frozen=True)
class ControlData:
    """The control codes of one instruction."""

    line: int
    """In the text of the machine code."""
    codes: str
    """"B0-----:R-:W1:Y:S04": `kernellab.viz.explorer.data.control_codes` says what they are."""


@dataclass(frozen=True)
class MetricData:
    """A number for lines of one stage; the view carries it to the lines of every other text."""

    name: str
    unit: str
    stage: str
    values: Mapping[int, float]
    """Line of that stage -> the number."""
    origin: str
    """Where the numbers come from: "machine code", "run of the interpreter, grid 8x1x1",
    "measured on NVIDIA H200 by ..."."""


@dataclass(frozen=True)
class LayoutWords:
    """A layout in words."""

    shape: str
    """ "128x64"."""
    encoding: str
    words: str


@dataclass(frozen=True)
class IrSide:
    """One compilation."""

    name: str
    """What tells it from the other side; the kernel's name where there is one side."""
    kernel: str
    target: str
    facts: tuple[tuple[str, str], ...]
    """What stands at the top: ("registers", "122"), ..."""
    failure: str
    """Why there are no stages after the last one shown; "" for a compilation that succeeded."""
    failure_line: int
    """Line of the failed pass's text, as the full one counts, that the failure
    names; 0 for none."""
    notice: str
    """What a reader has to know beforehand: that the kernel says something else by now;
    "" for nothing."""
    texts: tuple[TextData, ...]
    stages: tuple[StageData, ...]
    passes: tuple[PassData, ...]
    map: SourceMapData
    notes: tuple[MarginNote, ...]
    controls: tuple[ControlData, ...]
    metrics: tuple[MetricData, ...]
    layouts: tuple[LayoutWords, ...]


@dataclass(frozen=True)
class PassPairData:
    """A pass of either side of a comparison: its number in `IrSide.passes`,
    None where it did not run there.
    """

    label: str
    left: int | None
    right: int | None
    equal: bool


@dataclass(frozen=True)
class IrView:
    """What the IR explorer draws."""

    kind: Literal["ir"]
    title: str
    sides: tuple[IrSide, ...]
    """One, or two that are compared."""
    pairs: tuple[PassPairData, ...]
    """The passes of both sides lined up; empty where there is one side."""
    pass_notes: Mapping[str, str]
    """Name of a pass -> what it does."""
    metric: str
    """The metric whose bars are shown first; "" for none."""


@dataclass(frozen=True)
class LayoutInput:
    """One input of a linear layout."""

    name: str
    """ "register", "lane", "warp", "block"; of memory "offset", "block"; "row", "column"."""
    bases: tuple[int, ...]
    """By bits of the input: the number of the element that the bit leads to,
    the last dimension fastest."""


@dataclass(frozen=True)
class TileData:
    """A tile and where its elements are."""

    name: str
    shape: tuple[int, ...]
    memory: Memory
    element_bits: int
    """0 where the layout stands for elements of any size."""
    encoding: str
    inputs: tuple[LayoutInput, ...]
    """The first varies fastest where inputs are counted through."""
    paddings: tuple[tuple[int, int], ...]
    """(interval, padding) in elements."""
    fragment: str
    """What the PTX manual calls the registers: "a", "b" (operands), "c" (the result);
    "" for other layouts."""
    words: str
    """The layout in words."""


@dataclass(frozen=True)
class LayoutView:
    """What the layout view draws."""

    kind: Literal["layout"]
    title: str
    tiles: tuple[TileData, ...]
    left: int
    """Number of the tile that is shown first."""
    right: int | None
    """Number of the tile that it is compared with."""
    conversion: str
    """What the compiler does to get from one to the other, where that is known."""
    colours: str = ""
    """What it is coloured by at first: "warp", "bank"; "" where nobody says."""


@dataclass(frozen=True)
class ElementsData:
    """Elements in the bytes of a `StepperView`."""

    dtype: str
    """"float32", "float64", "bool", "int8" to "int64", "uint8" to "uint64";
    narrower floats are float32 here."""
    at: int
    """Where the first is; elements lie one after the other, little-endian."""
    averaged: bool
    """Whether this is a small picture in which neighbours are averaged,
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
    elements: ElementsData | None
    """None for what has none, and where they were left out."""
    left_out: str
    """Why there is not every element, in words; "" where there is."""
    in_kernel: bool
    """Whether a live kernel sends every element when it is asked."""


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
    calls: tuple[str, ...]
    """The lines of the calls that led here, the innermost first."""
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
    """Whether a live kernel sends every element when it is asked."""


@dataclass(frozen=True)
class ArgumentStep:
    """What one step does to one tensor."""

    places: tuple[int | None, ...]
    """Of each of its accesses to the tensor, in order, the number in `TensorPart.places`."""
    writes: tuple[StepWrite, ...]


@dataclass(frozen=True)
class TensorPart:
    """A tensor of a stepper's view with every element: what was left out to keep the view small.
    Its numbers are in bytes of their own.
    """

    elements: ElementsData
    places: tuple[PlacesData, ...]
    steps: Mapping[int, ArgumentStep]
    """By places in `StepperView.steps`; only steps that access the tensor or find it changed."""


@dataclass(frozen=True)
class StepperView:
    """What the stepper draws."""

    kind: Literal["steps"]
    title: str
    kernel: str
    heading: str
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
    values: tuple[StepValue, ...]
    places: tuple[PlacesData, ...]
    arguments: tuple[ArgumentData, ...]
    steps: tuple[StepData, ...]
    numbers: bytes
    """All elements; they travel as a part of their own."""


@dataclass(frozen=True)
class ConfigData:
    """One config of a sweep, and all that was found out about it. Times in microseconds;
    None is not known, or not measured.
    """

    sweep: int
    """Number in `TuningView.sweeps`."""
    number: int
    """Its number in the sweep, as the table has it."""
    values: tuple[float | str | None, ...]
    """By `SweepData.parameters`; None where the config has no such parameter."""
    standing: Standing
    us: float | None
    lower: float | None
    """The lower quartile."""
    upper: float | None
    """The upper quartile."""
    runs: int
    gb_per_s: float | None
    tflop_per_s: float | None
    registers: int | None
    spills: int | None
    shared: int | None
    occupancy: float | None
    limited_by: str
    matrix: str
    checked: str
    """What its results were found equal to; "" where nobody looked."""
    unchecked: str
    """Why nobody could; "" for others."""
    dropped: str
    """The reason; "" for one that is in the race."""
    why: str
    """In full, in the words of who refused it."""


@dataclass(frozen=True)
class SweepData:
    """What the configs of one sweep share."""

    kernel: str
    name: str
    """What tells it from the other sweeps: the key's values."""
    machine: str
    launch: str
    words: tuple[str, ...]
    parameters: tuple[str, ...]
    varying: tuple[str, ...]
    """The parameters that have more than one value."""
    baselines: Mapping[str, float]
    """Name -> microseconds."""
    knows_kernel: bool
    """Whether its configs can be compiled."""
    how_to_open: str
    """Where they cannot, what to do about it, in sentences; "" else."""


@dataclass(frozen=True)
class SizePoint:
    """The fastest config of a sweep, or a baseline, at one value of the key."""

    x: float
    y: float
    lower: float
    upper: float
    warm: bool
    """Whether it was measured in a row, with a warm cache."""
    config: int | None
    """Number in `TuningView.configs`; None of a baseline."""


@dataclass(frozen=True)
class SizeLine:
    """A kernel, or a baseline, over the key."""

    name: str
    is_baseline: bool
    points: tuple[SizePoint, ...]


@dataclass(frozen=True)
class SizesData:
    """Several sweeps against their key, in one unit."""

    key: str
    unit: str
    """ "us", "GB/s" or "TFLOP/s"."""
    lines: tuple[SizeLine, ...]


@dataclass(frozen=True)
class OpenedConfig:
    """A config whose IR explorer is here."""

    config: int
    part: int
    """Number of the part that holds it, see `packed`."""
    explorer: bytes
    """A packed `IrView`."""


@dataclass(frozen=True)
class ConfigPair:
    """What a comparison of two opened configs needs besides their explorers."""

    left: int
    right: int
    pairs: tuple[PassPairData, ...]


@dataclass(frozen=True)
class TuningView:
    """What the view of sweeps draws."""

    kind: Literal["tuning"]
    title: str
    plot: str
    """The kind of plot that is shown first."""
    sweeps: tuple[SweepData, ...]
    configs: tuple[ConfigData, ...]
    """Of all sweeps."""
    sizes: tuple[SizesData, ...]
    notes: tuple[str, ...]
    opened: tuple[OpenedConfig, ...]
    pairs: tuple[ConfigPair, ...]


def as_json(data: Any) -> Any:
    """Data classes as plain objects, tuples as lists, bytes left out;
    what is plain already stays as it is.
    """
    kind = type(data)
    if kind in (int, str, float, bool, type(None)):  # most of it, and quick to tell
        return data
    if kind is bytes:
        return None
    if dataclasses.is_dataclass(data):
        return {name: as_json(getattr(data, name)) for name in _fields(kind)}
    if isinstance(data, Mapping):
        return {str(key): as_json(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return [as_json(value) for value in data]
    return data


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    """The names of a data class's fields, which take long to ask for."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _FIELDS[kind]


_OWN_PART = 50_000
"""Characters of a text that travels as a part of its own, which is unpacked when it is shown."""


def packed(data: Any) -> bytes:
    """The data as the widget sends it and a page embeds it; the same data gives the same bytes.

    Parts, each gzipped: the first is the data as JSON, the others are its long texts, a stepper's
    elements, or the explorers that a sweep's view holds. Before them stand the number of parts and
    the length of each, as little-endian 32-bit numbers.
    """
    texts: list[str] = []
    if isinstance(data, IrView):
        data = dataclasses.replace(data, sides=tuple(_split(side, texts) for side in data.sides))
    head = json.dumps(as_json(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    contents = [text.encode("utf-8", "surrogatepass") for text in (head, *texts)]
    if isinstance(data, StepperView):
        contents.append(data.numbers)
    if isinstance(data, TuningView):
        contents += [one.explorer for one in data.opened]
    parts = [gzip.compress(content, compresslevel=6, mtime=0) for content in contents]
    sizes = [len(parts), *(len(part) for part in parts)]
    return b"".join([*(size.to_bytes(4, "little") for size in sizes), *parts])


def _split(side: IrSide, texts: list[str]) -> IrSide:
    """The side without its long texts, which are added to `texts`."""
    kept = []
    for text in side.texts:
        if text.content is not None and len(text.content) > _OWN_PART:
            texts.append(text.content)
            text = dataclasses.replace(text, content=None, part=len(texts))
        kept.append(text)
    return dataclasses.replace(side, texts=tuple(kept))
